//! Whether device or load have become another one: learned anew then, but not all the time.
//!
//! Rates are compared from cycle to cycle, with what they were when bisection ended. A cycle may last for seconds, and where the device
//! is as fast as before with more or fewer inside its rate does not tell of another load at all; so each epoch is compared with
//! those of its kind in the cycle before: how much was done, and how many were inside.

use super::{LEAST_RESTART_NS, PARTS, Phase, Sum, Walker};
use block::Nanos;
use block::time::SECOND;

const MOST_RESTART_NS: Nanos = 32 * SECOND;
const QUIET_NS: Nanos = 64 * SECOND;
/// After a pause that was so many times as long as it had to be, restarts do not keep coming.
const RARE: Nanos = 4;
/// One epoch may be odd by chance.
const ODD_EPOCHS: u8 = 2;
/// How far epochs are from the usual is known after so many of them,
const KNOWN_EPOCHS: u8 = 8;
/// and one that is so many times as far is odd.
const MANY_SCATTERS: u32 = 4;
/// Half a request more or less inside is none.
const HALF_OF_ONE: u32 = 128;

/// What epochs of a kind were like in the last cycle.
#[derive(Copy, Clone, Debug)]
pub(super) struct Usual {
    rate: Quantity,
    inside_q8: Quantity,
    epochs: u8,
    /// Epochs in a row that were not like this.
    odd_epochs: u8,
}

/// A mean, 0 if it is not known; and how far single epochs are from it.
#[derive(Copy, Clone, Debug)]
struct Quantity {
    mean: u32,
    scatter: u32,
}

impl Quantity {
    const UNKNOWN: Quantity = Quantity { mean: 0, scatter: 0 };

    /// Whether this is farther than chance makes it, or than `least`.
    fn is_far(self, value: u32, least: u32) -> bool {
        value.abs_diff(self.mean) > self.scatter.saturating_mul(MANY_SCATTERS).max(least)
    }

    fn learn(&mut self, value: u32) {
        let difference = value.abs_diff(self.mean).min(self.mean);
        self.scatter = (self.scatter / 8).saturating_mul(7).saturating_add(difference / 8);
    }
}

impl Usual {
    pub(super) const UNKNOWN: Usual =
        Usual { rate: Quantity::UNKNOWN, inside_q8: Quantity::UNKNOWN, epochs: 0, odd_epochs: 0 };

    const fn note(&mut self, rate: u32, inside_q8: u32) {
        (self.rate.mean, self.inside_q8.mean) = (rate, inside_q8);
    }

    /// An epoch: whether it was like this.
    fn compare(&mut self, rate: u32, inside_q8: u32) {
        let is_known = self.epochs >= KNOWN_EPOCHS;
        let another_number = (self.inside_q8.mean / 16).saturating_add(HALF_OF_ONE);
        let is_odd = self.inside_q8.is_far(inside_q8, another_number) || self.rate.is_far(rate, self.rate.mean / 4);
        self.odd_epochs = if is_known && is_odd { self.odd_epochs.saturating_add(1) } else { 0 };
        self.rate.learn(rate);
        self.inside_q8.learn(inside_q8);
        self.epochs = self.epochs.saturating_add(1);
    }
}

fn bounded(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const fn is_strange(rate: u64, before: u64) -> bool {
    rate > before.saturating_mul(130) / 100 || rate < before.saturating_mul(75) / 100
}

impl Walker {
    /// A cycle ended that began in this phase, with this floor.
    pub(super) fn note_usual(&mut self, phase: Phase, floor_q8: u64, [tests, references]: [Sum; 2]) {
        let [of_tests, of_references] = &mut self.usual;
        of_references.note(bounded(references.rate()), bounded(self.full_inside_q8));
        if phase == Phase::Slow && self.floor_q8.abs_diff(floor_q8) < PARTS {
            of_tests.note(bounded(tests.rate()), bounded(self.mean_inside_q8));
        } else {
            *of_tests = Usual::UNKNOWN;
        }
    }

    /// An epoch of this kind ended, in which requests were inside for so long. Whether it is to be had once more: references may be
    /// far between.
    pub(super) fn compare(&mut self, kind: usize, measured: Sum, inside_ns: u64) -> bool {
        let Some(usual) = self.usual.get_mut(kind).filter(|usual| usual.inside_q8.mean > 0) else { return false };
        let inside_q8 = inside_ns.saturating_mul(PARTS).checked_div(measured.all_ns);
        usual.compare(bounded(measured.rate()), inside_q8.map_or(usual.inside_q8.mean, bounded));
        self.is_another |= usual.odd_epochs >= ODD_EPOCHS;
        kind == 1 && usual.odd_epochs == 1
    }

    /// Two cycles in a row had another rate than there was when bisection ended.
    pub(super) fn has_another_rate(&mut self, now: Nanos) -> bool {
        let is_strange = is_strange(self.reference_rate, self.rate_at_start);
        self.strange_cycles = if is_strange { self.strange_cycles.wrapping_add(1) } else { 0 };
        self.strange_cycles >= 2 && self.may_restart(now)
    }

    /// Whether the last time was long enough ago; then this is one.
    pub(super) fn may_restart(&mut self, now: Nanos) -> bool {
        let since = now.saturating_sub(self.restarted_ns);
        if since < self.restart_pause_ns {
            return false;
        }
        self.restart_pause_ns = if since > QUIET_NS.min(self.restart_pause_ns.saturating_mul(RARE)) {
            LEAST_RESTART_NS
        } else {
            self.restart_pause_ns.saturating_mul(2).min(MOST_RESTART_NS)
        };
        self.restarted_ns = now;
        self.restarts = self.restarts.wrapping_add(1);
        true
    }
}
