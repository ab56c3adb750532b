//! The promise of anticipatory: turns of sync and async requests by time, a bound for the oldest
//! request, and idling that ends.

use std::collections::BTreeSet;

use hoistway_block::{Nanos, RequestId};

use super::{Queued, Terms, Waiting};
use crate::invariants::Broken;

/// The observed turns and idle times. By kind: `[async, sync]`.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The kind whose turn it is, and the time of its first choice; None before any.
    turn: Option<(bool, Nanos)>,
    /// Whether its start was observed. A turn that was running when the terms changed may have its
    /// length from earlier terms.
    has_seen_begin: bool,
    /// The longest batch of all terms so far.
    longest_ns: [Nanos; 2],
    /// Requests of the turn that are in the device, until the first completes.
    first_ones: BTreeSet<RequestId>,
    /// The first completion of the turn.
    completed_at: Option<Nanos>,
    /// When a kind became backlogged.
    waits_since: [Nanos; 2],
    /// When a kind's oldest request was last chosen.
    oldest_went_at: [Nanos; 2],
    /// The last completion of any request.
    last_completion: Option<Nanos>,
}

impl Turns {
    /// Resets what was observed under other terms, except the longest batches.
    pub(super) fn reset(&mut self, terms: &Terms) {
        let [longest_async, longest_sync] = self.longest_ns;
        let longest_async = longest_async.max(terms.ms("write_batch_expire"));
        let longest_sync = longest_sync.max(terms.ms("read_batch_expire"));
        *self = Self { longest_ns: [longest_async, longest_sync], ..Self::default() };
    }

    pub(super) fn inserted(&mut self, is_sync: bool, waiting: &Queued, now: Nanos) {
        if !waiting.values().any(|other| other.attributes.is_sync() == is_sync) {
            self.waits_since[usize::from(is_sync)] = now;
        }
    }

    pub(super) fn completed(&mut self, id: RequestId, now: Nanos) {
        self.last_completion = Some(now);
        if self.completed_at.is_none() && self.first_ones.contains(&id) {
            self.completed_at = Some(now);
            self.first_ones.clear();
        }
    }

    /// A request that was chosen is taken back.
    pub(super) fn withdrawn(&mut self, id: RequestId) {
        self.first_ones.remove(&id);
    }

    pub(super) fn chosen(
        &mut self,
        chosen: &Waiting,
        waiting: &Queued,
        terms: &Terms,
        now: Nanos,
    ) -> Result<u64, Broken> {
        let is_sync = chosen.attributes.is_sync();
        let began_at = match self.turn {
            Some((turn, began_at)) if turn == is_sync => began_at,
            before => {
                self.has_seen_begin = before.is_some();
                self.turn = Some((is_sync, now));
                self.completed_at = None;
                self.first_ones.clear();
                now
            }
        };
        if self.completed_at.is_none() {
            self.first_ones.insert(chosen.id);
        }
        let others = self.passes_other(is_sync, began_at, waiting, terms, now)?;
        Ok(others + self.passes_oldest(chosen, began_at, waiting, terms, now)?)
    }

    /// Checks the kind whose turn it is not.
    fn passes_other(
        &self,
        is_sync: bool,
        began_at: Nanos,
        waiting: &Queued,
        terms: &Terms,
        now: Nanos,
    ) -> Result<u64, Broken> {
        if !waiting.values().any(|other| other.attributes.is_sync() != is_sync) {
            return Ok(0);
        }
        // The time of a sync batch starts with its first completion; while sync requests are alone
        // it restarts with each choice.
        let (counts_from, batch_ns) = if is_sync {
            let Some(completed_at) = self.completed_at else { return Ok(1) };
            (completed_at, terms.ms("read_batch_expire"))
        } else {
            (began_at, terms.ms("write_batch_expire"))
        };
        let longest_ns = if self.has_seen_begin { batch_ns } else { self.longest_ns[usize::from(is_sync)] };
        let until = counts_from.max(self.waits_since[usize::from(!is_sync)]).saturating_add(longest_ns);
        if now <= until {
            return Ok(1);
        }
        let kinds = if is_sync { ["async", "sync"] } else { ["sync", "async"] };
        Err(format!("P7: {} requests wait, and the batch of {} ones that ended at {until} goes on", kinds[0], kinds[1]))
    }

    /// Checks the oldest request of the kind whose turn it is.
    fn passes_oldest(
        &mut self,
        chosen: &Waiting,
        began_at: Nanos,
        waiting: &Queued,
        terms: &Terms,
        now: Nanos,
    ) -> Result<u64, Broken> {
        let is_sync = chosen.attributes.is_sync();
        let of_kind = waiting.values().filter(|other| other.attributes.is_sync() == is_sync);
        let oldest = of_kind.min_by_key(|other| other.order).filter(|oldest| oldest.order < chosen.order);
        let went_at = &mut self.oldest_went_at[usize::from(is_sync)];
        let Some(oldest) = oldest else {
            *went_at = now;
            return Ok(0);
        };
        let until = oldest.due_ns.max(*went_at).max(began_at).saturating_add(terms.expire_ns(is_sync));
        if now <= oldest.due_ns || now < until {
            return Ok(1);
        }
        let slot = oldest.id.slot();
        Err(format!("P7: #{slot}, the oldest of its kind and overdue, is still passed over; it may be until {until}"))
    }

    /// Checks that the policy may idle the device until then.
    pub(super) fn holds(&self, until: Nanos, terms: &Terms) -> Result<(), Broken> {
        // Before the first completion in the trace the ledger cannot know when the idle time
        // started.
        let latest = self.last_completion.map(|at| at.saturating_add(terms.ms("antic_expire")));
        match latest {
            Some(latest) if until > latest => {
                Err(format!("P7: the device is held until {until}, {latest} is the latest after the last completion"))
            }
            _ => Ok(()),
        }
    }
}
