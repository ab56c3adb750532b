//! The path of a bio: charged and passed if its group has the budget, otherwise queued in its
//! group.

use super::clock::{Vtime, ahead};
use super::group::{BioState, Stage};
use super::hweight::charged;
use super::{IoCost, MUST_NOT_WAIT};
use crate::limiter::{BioId, Verdict};
use crate::request::Bio;
use hoistway_block::{GroupId, Nanos};

/// How much of its weight a lender takes back at a time, in per cent.
const TAKE_BACK_PERCENT: u32 = 25;
/// The trace message when a lender takes back weight.
const TAKE_BACK: &str = "take back inuse={0}->{1}";

impl IoCost {
    /// Submits a bio of a group other than the root.
    pub(super) fn submit_to_group(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        let group = bio.group;
        let cost = self.prices.cost(bio, self.groups.at(group).cursor);
        let absolute = cost.total();
        if absolute == 0 {
            return Verdict::Pass;
        }
        if !self.bios.is_free(id.0) {
            self.violations = self.violations.saturating_add(1);
            return Verdict::Pass;
        }
        if !self.activate(group, now) {
            return Verdict::Pass;
        }
        self.groups.at_mut(group).cursor = bio.extent.end();
        if let Some(state) = self.bios.get_mut(id.0) {
            *state = BioState { group, absolute, place: cost.place.min(absolute), ..BioState::NONE };
        }
        let vnow = self.clock.at(now);
        if self.groups.at(group).debt.is_owed() {
            self.pay_debt(group, vnow, now);
        }
        let is_clear = self.groups.at(group).waiting.is_empty() && !self.groups.at(group).debt.is_owed();
        if is_clear && self.fits(group, absolute, vnow, now) {
            let (_, share) = self.groups.shares(group);
            self.charge(id.0, share);
            return Verdict::Pass;
        }
        if bio.flags.intersects(MUST_NOT_WAIT) {
            let (share, _) = self.groups.shares(group);
            self.owe(id.0, share, now);
            return Verdict::Pass;
        }
        if self.take_back_all(group, vnow, now) && is_clear && self.has_budget(group, absolute, vnow) {
            let (_, share) = self.groups.shares(group);
            self.charge(id.0, share);
            return Verdict::Pass;
        }
        let entry = self.groups.at_mut(group);
        self.bios.wait(&mut entry.waiting, id.0);
        let waited_us = entry.waited.is_now(true, now);
        entry.stats.wait_us = entry.stats.wait_us.saturating_add(waited_us);
        self.arm(group, vnow, now);
        Verdict::Held
    }

    /// Activates a group, with half a period of budget. False if it must not become active, because
    /// an ancestor or a descendant is.
    fn activate(&mut self, group: GroupId, now: Nanos) -> bool {
        let period_index = self.period.index();
        let entry = self.groups.at_mut(group);
        entry.period_index = period_index;
        if entry.is_active {
            return true;
        }
        if entry.weights.is_inner() || self.groups.is_below_active(group) {
            return false;
        }
        if !self.clock.is_running() {
            self.clock.start(now);
            self.forgiveness.restart(now);
            self.period.start(now, self.clock.at(now));
        }
        let vnow = self.clock.at(now);
        let start = vnow.wrapping_sub(self.period.margins().target);
        let entry = self.groups.at_mut(group);
        let gap = start.wrapping_sub(entry.vtime);
        entry.skip(gap);
        entry.is_active = true;
        entry.activated_ns = now;
        let (weight, inuse) = (entry.weights.configured(), entry.weights.last_inuse());
        self.active.add(group);
        let inuse = if inuse == 0 { weight } else { inuse };
        self.groups.set_weights_at(group, weight, inuse, vnow);
        self.note(Some(group), now, "activate weight={0} inuse={1}", &[weight.into(), inuse.into()]);
        true
    }

    #[inline]
    fn has_budget(&mut self, group: GroupId, absolute: Vtime, vnow: Vtime) -> bool {
        let (_, share) = self.groups.shares(group);
        ahead(vnow, self.groups.at(group).vtime.wrapping_add(charged(absolute, share))) >= 0
    }

    /// Whether the group has the budget for a bio. A lender that is short of budget takes back the
    /// weight that it needs.
    fn fits(&mut self, group: GroupId, absolute: Vtime, vnow: Vtime, now: Nanos) -> bool {
        let (_, share) = self.groups.shares(group);
        let entry = self.groups.at(group);
        let margin = ahead(vnow, entry.vtime.wrapping_add(charged(absolute, share)));
        let low = self.period.margins().low.cast_signed();
        if margin >= entry.saved_margin || margin >= low || !entry.weights.lends() {
            return margin >= 0;
        }
        let (active, before) = (entry.weights.active(), entry.weights.inuse());
        let step = active.saturating_mul(TAKE_BACK_PERCENT).div_ceil(100).max(1);
        // Four steps of a quarter of the weight, and one more because of rounding.
        for _ in 0..5 {
            let inuse = self.groups.at(group).weights.inuse().saturating_add(step);
            self.groups.set_weights_at(group, active, inuse, vnow);
            if self.has_budget(group, absolute, vnow) || self.groups.at(group).weights.inuse() == active {
                break;
            }
        }
        let inuse = self.groups.at(group).weights.inuse();
        self.note(Some(group), now, TAKE_BACK, &[before.into(), inuse.into()]);
        self.has_budget(group, absolute, vnow)
    }

    /// Ends the lending of a group, because a bio is about to wait in it. True if it did lend; a
    /// group in debt goes on lending, and the answer is false.
    fn take_back_all(&mut self, group: GroupId, vnow: Vtime, now: Nanos) -> bool {
        let entry = self.groups.at(group);
        if entry.debt.is_owed() || !entry.weights.lends() {
            return false;
        }
        let (active, before) = (entry.weights.active(), entry.weights.inuse());
        self.groups.set_weights_at(group, active, active, vnow);
        self.note(Some(group), now, TAKE_BACK, &[before.into(), active.into()]);
        true
    }

    fn charge(&mut self, bio: u32, share: u32) {
        let Some(state) = self.bios.get_mut(bio) else { return };
        state.charged = charged(state.absolute, share);
        state.hweight = share;
        state.stage = Stage::Charged;
        let entry = self.groups.at_mut(state.group);
        entry.vtime = entry.vtime.wrapping_add(state.charged);
        entry.used = entry.used.saturating_add(state.absolute);
    }

    /// A bio was merged into a request: refunds its positioning cost.
    pub(super) fn give_back_place(&mut self, bio: u32, now: Nanos) {
        let Some(state) = self.bios.get_mut(bio) else { return };
        let place = core::mem::take(&mut state.place);
        if place == 0 || !matches!(state.stage, Stage::Charged | Stage::Owed) {
            return;
        }
        let group = state.group;
        state.absolute = state.absolute.saturating_sub(place);
        let entry = self.groups.at_mut(group);
        entry.used = entry.used.saturating_sub(place);
        if state.stage == Stage::Charged {
            let refund = charged(place, state.hweight).min(state.charged);
            state.charged = state.charged.wrapping_sub(refund);
            entry.vtime = entry.vtime.wrapping_sub(refund);
        } else if entry.debt.is_owed() {
            self.reduce_debt(group, place, now);
        }
    }

    /// A bio that passed has ended.
    pub(super) fn end_of(&mut self, bio: u32) {
        let Some(state) = self.bios.get_mut(bio) else { return };
        match state.stage {
            Stage::Free => return,
            Stage::Charged => {
                let entry = self.groups.at_mut(state.group);
                entry.done = entry.done.wrapping_add(state.charged);
            }
            Stage::Owed => {}
            Stage::Waiting | Stage::Released => {
                self.violations = self.violations.saturating_add(1);
                return;
            }
        }
        *state = BioState::NONE;
    }

    // ---- waiting bios ----

    /// Pays debts, then releases waiting bios in order as far as the budget allows, then sets a
    /// timer for the next one.
    pub(super) fn wake(&mut self, group: GroupId, now: Nanos) {
        let vnow = self.clock.at(now);
        if self.groups.at(group).debt.is_owed() {
            self.pay_debt(group, vnow, now);
        }
        if !self.groups.at(group).debt.is_owed() {
            for _ in 0..self.groups.at(group).waiting.len() {
                let Some(bio) = self.groups.at(group).waiting.first() else { break };
                let absolute = self.bios.at(bio).absolute;
                if !self.has_budget(group, absolute, vnow) {
                    break;
                }
                let (_, share) = self.groups.shares(group);
                self.release(group, bio, share);
            }
        }
        self.settle(group, vnow, now);
    }

    /// Waiting bios have left a group: counts the time of waiting, and sets the timer for what is
    /// left.
    fn settle(&mut self, group: GroupId, vnow: Vtime, now: Nanos) {
        let entry = self.groups.at_mut(group);
        let is_waiting = !entry.waiting.is_empty();
        let waited_us = entry.waited.is_now(is_waiting, now);
        entry.stats.wait_us = entry.stats.wait_us.saturating_add(waited_us);
        if is_waiting || entry.debt.is_owed() {
            self.arm(group, vnow, now);
        } else {
            self.timers.clear(group);
        }
    }

    /// A waiting bio is taken back: it was not charged. The timer is set for the bio that is first
    /// then.
    pub(super) fn stop_waiting(&mut self, bio: u32, now: Nanos) {
        let group = self.bios.at(bio).group;
        if !self.bios.withdraw(&mut self.groups.at_mut(group).waiting, bio) {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        let vnow = self.clock.at(now);
        self.settle(group, vnow, now);
    }

    /// Charges the first waiting bio, whatever the budget, and releases it.
    fn release(&mut self, group: GroupId, bio: u32, share: u32) {
        self.charge(bio, share);
        self.bios.release(&mut self.groups.at_mut(group).waiting, bio);
    }

    /// Releases all waiting bios of a group.
    pub(super) fn release_all_of(&mut self, group: GroupId, now: Nanos) {
        for _ in 0..self.groups.at(group).waiting.len() {
            let Some(bio) = self.groups.at(group).waiting.first() else { break };
            let (_, share) = self.groups.shares(group);
            self.release(group, bio, share);
        }
        let entry = self.groups.at_mut(group);
        let waited_us = entry.waited.is_now(false, now);
        entry.stats.wait_us = entry.stats.wait_us.saturating_add(waited_us);
        self.timers.clear(group);
    }

    /// Sets the timer to when the budget will cover the debt or the first waiting bio. It fires a
    /// little late, so that several bios are released at a time.
    fn arm(&mut self, group: GroupId, vnow: Vtime, now: Nanos) {
        let (by_weight, by_use) = self.groups.shares(group);
        let entry = self.groups.at(group);
        let need = match entry.waiting.first() {
            _ if entry.debt.is_owed() => charged(entry.debt.owed(), by_weight),
            Some(bio) => charged(self.bios.at(bio).absolute, by_use),
            None => 0,
        };
        let shortage = ahead(entry.vtime.wrapping_add(need), vnow).max(0).unsigned_abs();
        let wait_us = shortage.checked_div(self.base_rate).unwrap_or(0).saturating_add(1);
        let at = now.saturating_add(wait_us.saturating_mul(1_000)).saturating_add(self.period.slack_ns());
        if self.timers.at(group).is_some_and(|armed| armed.abs_diff(at) <= self.period.slack_ns()) {
            return;
        }
        self.timers.set(group, at);
    }
}
