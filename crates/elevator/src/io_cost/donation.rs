//! Donation: share that a group will not use is lent to groups that are short, so that the device
//! does not idle.

use super::IoCost;
use super::clock::{Vtime, ahead, scaled};
use super::hweight::ONE;
use hoistway_block::{GroupId, Nanos};

/// Budget that a lender should have left at the end of the next period, in per cent of a period.
pub const TARGET_PERCENT: u64 = 50;

/// Sum of the lenders' shares before and after lending.
#[derive(Copy, Clone, Debug, Default)]
pub struct Loans {
    pub before: u64,
    pub after: u64,
}

impl IoCost {
    /// The share of the device with which a group that used `usage` of it (2^16 = all) has half a
    /// period of budget left at the end of the next period; `share` is the share that it has now by
    /// the weight that it uses. At most `most`, which is also the answer if bios wait or little
    /// budget is left. At least 1, the answer for a group in debt. Budget beyond half a period is
    /// taken away now; the device's clock runs faster to give it to all groups.
    #[inline(never)]
    pub(super) fn share_needed(&mut self, group: GroupId, share: u32, most: u32, usage: u32, vnow: Vtime) -> u32 {
        if self.groups.at(group).debt.is_owed() {
            return 1;
        }
        let entry = self.groups.at(group);
        let min = self.period.margins().min.cast_signed();
        if !entry.waiting.is_empty() || ahead(vnow, entry.vtime) < min {
            return most;
        }
        self.take_excess(group, share, vnow);
        let margin = ahead(vnow, self.groups.at(group).vtime).max(0).unsigned_abs();
        let elapsed = ahead(vnow, self.period.start_vtime()).max(1).unsigned_abs();
        let one = u64::from(ONE);
        let delta = margin.saturating_mul(one).checked_div(elapsed).unwrap_or(0);
        let room = (one.saturating_sub(one * TARGET_PERCENT / 100)).saturating_add(delta).max(1);
        let needed = u64::from(usage).saturating_mul(one).checked_div(room).unwrap_or(0);
        u32::try_from(needed).unwrap_or(most).min(most).max(1)
    }

    /// Takes away budget beyond the target; the device's clock compensates for it.
    pub(super) fn take_excess(&mut self, group: GroupId, share: u32, vnow: Vtime) {
        let target = self.period.margins().target.cast_signed();
        let entry = self.groups.at_mut(group);
        let excess = ahead(vnow, entry.vtime).saturating_sub(target);
        if excess > 0 {
            entry.skip(excess.unsigned_abs());
            let lost = i64::try_from(scaled(excess.unsigned_abs(), share)).unwrap_or(i64::MAX);
            self.error = self.error.saturating_sub(lost);
        }
    }

    /// Sets the weight that each lender uses, so that lenders have the shares they need and all
    /// others gain in proportion.
    ///
    /// `before` and `after` are the sums of the lenders' shares before and after lending. With
    /// gamma = (1 - after) / (1 - before), a group that lends nothing gets gamma times its share. A
    /// lender therefore must use the part target / (gamma x share) of its weight. This holds on
    /// every level of the tree: an inner group uses what its children use, so the factor gamma
    /// cancels on the levels above.
    #[inline(never)]
    pub(super) fn lend(&mut self, loans: Loans, now: Nanos) {
        let one = u64::from(ONE);
        let (others_before, others_after) =
            (one.saturating_sub(loans.before).max(1), one.saturating_sub(loans.after).max(1));
        let vnow = self.clock.at(now);
        let mut next = self.active.first();
        for _ in 0..self.active.len() {
            let Some(group) = next else { return };
            next = self.active.after(group);
            let entry = self.groups.at_mut(group);
            let target = core::mem::take(&mut entry.target);
            if target == 0 || entry.debt.is_owed() {
                continue;
            }
            let (active, before, share) = (entry.weights.active(), entry.weights.inuse(), entry.weights.last_share());
            // 30 bits of weight, 16 of target and 16 of the sum: 62 bits.
            let product = u64::from(active).saturating_mul(target.into()).saturating_mul(others_before);
            let divisor = others_after.saturating_mul(share.into()).max(1);
            let inuse = u32::try_from(product.div_ceil(divisor)).unwrap_or(active);
            self.groups.set_weights_at(group, active, inuse, vnow);
            let after = self.groups.at(group).weights.inuse();
            self.note(
                Some(group),
                now,
                "lend inuse={0}->{1} target={2}",
                &[before.into(), after.into(), target.into()],
            );
        }
    }
}
