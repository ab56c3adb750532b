//! Submitters that vanish in a storm: what the device has not been given is taken back.

use std::collections::BTreeSet;

use hoistway_block::ContextId;
use hoistway_block::random::Stream;

use super::{CONTEXTS, StormState, below, u32_below};
use crate::invariants::Broken;

/// The vanishing of submitters. It has its own random stream, so that the other draws of a storm stay
/// the same.
pub(super) struct Withdrawing {
    random: Stream,
    per_mille: u64,
    /// Bios that were taken back.
    pub bios: u64,
}

impl Withdrawing {
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Stream::of(seed, "storm/withdrawing");
        let per_mille = [0, 2, 20][below(&mut random, 3)];
        Self { random, per_mille, bios: 0 }
    }
}

impl StormState {
    /// Takes back the bios of one issuer, or every fourth bio, with some probability.
    pub(super) fn withdraw_some(&mut self) -> Result<(), Broken> {
        let Withdrawing { random, per_mille, .. } = &mut self.withdrawing;
        if !random.chance(*per_mille, 1_000) {
            return Ok(());
        }
        let (context, quarter) = (ContextId(u32_below(random, CONTEXTS)), random.below(4));
        let meant: BTreeSet<u64> = if random.chance(2, 3) {
            self.ledger.cookies_of(context).collect()
        } else {
            (1..=self.submissions.cookie).filter(|cookie| cookie % 4 == quarter).collect()
        };
        let mut ended = Vec::new();
        self.queue.withdraw(|cookie| meant.contains(&cookie), self.now, |cookie| ended.push(cookie));
        self.note(format!("{} bios of {} taken back", ended.len(), meant.len()));
        self.withdrawing.bios += ended.len() as u64;
        for cookie in ended {
            if !meant.contains(&cookie) {
                return Err(format!("P1: bio {cookie} was taken back and not meant"));
            }
            self.ledger.taken_back(cookie)?;
        }
        self.ledger.left_behind(&self.queue, &meant)?;
        self.starvation.observe(&mut self.queue)
    }
}
