//! The peak rate as v8r3 measured it: from the turns of queues instead of from dispatches. The rate
//! of a turn also tells whether the turn was slow.

use super::Bfq;
use super::budget::TurnEnd;
use super::peak_rate::{PeakRate, RATE_SHIFT, REFERENCE_RATE};

/// Reference durations of raising on a rotational device and on flash, if these are fast.
pub const FAST_RAISING_MS: [u64; 2] = [8_000, 3_000];
/// Reference rates and durations of slow devices.
const SLOW_RATE: [u64; 2] = [1_000, 10_700];
const SLOW_RAISING_MS: [u64; 2] = [3_500, 1_500];
/// Long turns after which the rate determines budgets.
pub const ENOUGH_LONG_TURNS: u64 = 32;

/// What a long turn has told.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Told {
    /// Its rate is too low to be counted.
    Nothing,
    /// It is the last of the first turns, or has changed the rate.
    NewRate,
    Same,
}

impl PeakRate {
    /// Counts a long turn at this rate. A rate below the present one counts only if the turn shows
    /// what the device can do (`is_telling`).
    fn count_turn(&mut self, rate: u64, is_telling: bool) -> Told {
        let counts = rate > self.rate || is_telling;
        let tenth = rate / 10;
        if counts && tenth == 0 {
            return Told::Nothing;
        }
        if counts {
            self.rate = (self.rate.saturating_mul(9) / 10).saturating_add(tenth);
        }
        let is_last_of_first = self.samples == ENOUGH_LONG_TURNS - 1;
        self.samples = self.samples.wrapping_add(1).min(ENOUGH_LONG_TURNS);
        let is_known = self.samples == ENOUGH_LONG_TURNS;
        if is_known && (counts || is_last_of_first) { Told::NewRate } else { Told::Same }
    }

    /// Puts the device into the class of slow or of fast ones, which determines how long
    /// interactive queues are raised.
    fn classify(&mut self, is_rotational: bool) {
        let of_device = |[disk, flash]: [u64; 2]| if is_rotational { disk } else { flash };
        let threshold = of_device(SLOW_RATE) * 4 / 3;
        if self.rate < threshold {
            self.reference_raising = of_device(SLOW_RATE) * of_device(SLOW_RAISING_MS);
        } else if self.rate > threshold {
            self.reference_raising = of_device(REFERENCE_RATE) * of_device(FAST_RAISING_MS);
        }
    }
}

impl Bfq {
    /// Counts a long turn; true if it was slow.
    #[inline(never)]
    pub(super) fn rate_turn(&mut self, queue: u32, end: TurnEnd, lasted_us: u64) -> bool {
        let (state, entity) = (self.queues.at(queue), self.schedule.entity(queue));
        let rate = (u64::from(entity.service) << RATE_SHIFT).checked_div(lasted_us).unwrap_or(0);
        let is_soft = state.is_raised() && state.raising.longest_ticks == self.clock.spans.soft_real_time_ticks;
        let had_much = u64::from(entity.budget) >= u64::from(self.budgets.most()) * 2 / 3;
        let was_long = end == TurnEnd::BudgetTimeout || (end == TurnEnd::BudgetExhausted && had_much);
        let is_telling = state.seeks.were_all_near() && !is_soft && was_long;
        let told = self.budgets.peak.count_turn(rate, is_telling);
        if told == Told::NewRate {
            if self.settings.max_budget == 0 {
                let most = self.automatic_max_budget();
                self.budgets.set_most(most);
                self.log("new max_budget = {0}", &[u64::from(most)]);
            }
            self.budgets.peak.classify(self.device.is_rotational());
        }
        told != Told::Nothing && rate < self.budgets.peak.rate / 2
    }
}
