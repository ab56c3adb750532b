//! The rate of the device's clock (vrate): slower while the device is late, faster while groups are
//! short of budget although the device is not late.

use super::IoCost;
use super::clock::{FULL_RATE, Vtime, nanos_of};
use super::model::{Class, Control, PERCENT_PPM, Qos, charged_direction};
use crate::limiter::RequestEnd;
use crate::throttle::Pair;
use hoistway_block::{Direction, Nanos};

/// Waiting for requests for more than this share of the time means that the device is saturated.
const WAIT_BUSY_PERCENT: u64 = 5;
/// If late requests and waiting are below this part of what is allowed, the device can take more
/// I/O.
const ROOM_PERCENT: u64 = 75;
const MOST_BUSY: i32 = 1_000;
/// Step towards a bound while the rate is outside of it.
const BOUND_STEP_PERCENT: u64 = 4;
const MILLION: u64 = 1_000_000;
/// If the clock of a `Flash` device runs at this rate or faster for `CLASS_STEP_AFTER_NS`, the device
/// becomes `FlashFast`. If that of a `FlashFast` device runs at `TOO_SLOW_PERCENT` or slower for as
/// long, the device becomes `Flash`.
const TOO_FAST_PERCENT: u64 = 500;
const TOO_SLOW_PERCENT: u64 = 10;
const CLASS_STEP_AFTER_NS: Nanos = 10_000_000_000;

/// Requests of a direction, by whether they met the target.
#[derive(Copy, Clone, Debug, Default)]
struct Tally {
    met: u64,
    missed: u64,
}

impl Tally {
    fn is_some(self) -> bool {
        self.met > 0 || self.missed > 0
    }

    fn missed_ppm(self) -> u64 {
        self.missed.saturating_mul(MILLION).checked_div(self.met.saturating_add(self.missed)).unwrap_or(0)
    }
}

/// Measurements of the device, and the conclusions from them.
#[derive(Clone, Debug, Default)]
pub struct Feedback {
    tallies: Pair<Tally>,
    waited_ns: Nanos,
    /// Consecutive periods in which the device was late (positive), or had room while groups were
    /// short (negative): the kernel's `busy_level`.
    pub busy: i32,
    too_fast_since: Option<Nanos>,
    too_slow_since: Option<Nanos>,
}

/// What the end of a period found out about the groups.
#[derive(Copy, Clone, Debug, Default)]
pub struct Findings {
    /// Groups that could have used more.
    pub shortages: u32,
    /// Groups whose I/O has been in the device for more than a period.
    pub lagging: u32,
}

impl Feedback {
    /// Counts a request that took `on_queue_ns`, of which `size` is the device time of its data.
    /// What is left without that time has to meet the target.
    pub fn request_ended(&mut self, direction: Direction, on_queue_ns: Nanos, size: Vtime, target_us: u64) {
        let size_ns = nanos_of(size);
        let tally = self.tallies.of_mut(direction);
        let count = match on_queue_ns.saturating_sub(size_ns) <= target_us.saturating_mul(1_000) {
            true => &mut tally.met,
            false => &mut tally.missed,
        };
        *count = count.saturating_add(1);
    }

    pub fn waited(&mut self, ns: Nanos) {
        self.waited_ns = self.waited_ns.saturating_add(ns);
    }

    pub fn rest(&mut self) {
        self.busy = 0;
    }

    pub fn restart_class(&mut self) {
        (self.too_fast_since, self.too_slow_since) = (None, None);
    }
}

/// Change of the rate in per cent after this many consecutive periods.
const fn step_percent(busy: u32) -> u64 {
    match busy {
        0..=3 => 0,
        4..=19 => 1,
        20..=35 => 2,
        36..=43 => 4,
        44..=51 => 8,
        _ => 16,
    }
}

/// The rate for `ppm` parts per million.
pub const fn rate_of(ppm: u32) -> u64 {
    FULL_RATE.saturating_mul(ppm as u64) / (100 * PERCENT_PPM as u64)
}

/// The next rate, within the bounds or on its way to them.
fn next_rate(rate: u64, busy: i32, qos: &Qos) -> u64 {
    let (min, max) = (rate_of(qos.min_ppm).max(1), rate_of(qos.max_ppm).max(1));
    let percent_of = |percent: u64| rate.saturating_mul(percent) / 100;
    if rate < min {
        return percent_of(100 + BOUND_STEP_PERCENT).max(rate.saturating_add(1)).min(min);
    }
    if rate > max {
        return percent_of(100 - BOUND_STEP_PERCENT).max(max);
    }
    let step = step_percent(busy.unsigned_abs());
    let wanted = percent_of(if busy > 0 { 100u64.saturating_sub(step) } else { step.saturating_add(100) });
    wanted.max(min).min(max)
}

impl IoCost {
    pub(super) fn tally(&mut self, end: &RequestEnd, now: Nanos) {
        if end.issued_ns == 0 {
            return;
        }
        let Some(direction) = charged_direction(end.attributes.operation) else { return };
        let target_us = match direction {
            Direction::Read => self.qos.read_latency_us,
            Direction::Write => self.qos.write_latency_us,
        };
        let size = self.prices.size(direction, end.attributes.extent.sectors);
        self.feedback.request_ended(direction, now.saturating_sub(end.start_ns), size, target_us);
    }

    /// Evaluates the period's measurements and sets the rate for the next.
    #[inline(never)]
    pub(super) fn adjust_rate(&mut self, findings: Findings, now: Nanos) {
        let tallies = core::mem::take(&mut self.feedback.tallies);
        let waited_ns = core::mem::take(&mut self.feedback.waited_ns);
        let missed = [tallies.read.missed_ppm(), tallies.write.missed_ppm()];
        let has_completions = tallies.read.is_some() || tallies.write.is_some();
        let wait_percent = waited_ns.saturating_mul(100).checked_div(self.period.length_ns()).unwrap_or(0);
        let allowed = [self.qos.read_ppm, self.qos.write_ppm].map(|ppm| MILLION.saturating_sub(ppm.into()));

        let before = self.feedback.busy;
        // I/O that takes longer than a period says nothing about the targets until it completes. Until
        // 2026 the kernel takes such a period for one without misses.
        if !self.has_rules_of_2026 || has_completions || findings.lagging == 0 {
            self.feedback.busy = judge(before, missed, allowed, wait_percent, findings);
        }
        let busy = self.feedback.busy;
        let old_rate = self.base_rate;
        // Outside of its bounds the rate always moves. Inside, it rises only if no group has I/O
        // from before this period in the device.
        let is_bound = rate_of(self.qos.min_ppm) <= old_rate && old_rate <= rate_of(self.qos.max_ppm);
        if !is_bound || busy > 0 || (busy < 0 && findings.lagging == 0) {
            self.base_rate = next_rate(old_rate, busy, &self.qos);
            self.period.set_margins(self.base_rate);
        }
        if busy != before || old_rate != self.base_rate {
            let [read, write] = missed;
            let (shortages, lagging) = (findings.shortages.into(), findings.lagging.into());
            let signed_busy = i64::from(busy).cast_unsigned();
            let text = "vrate {0}->{1} busy={2i} missed_ppm={3}:{4} rq_wait={5} shortages={6} lagging={7}";
            let numbers = [old_rate, self.base_rate, signed_busy, read, write, wait_percent, shortages, lagging];
            self.note(None, now, text, &numbers);
        }
        self.step_class(now);
    }

    /// Changes the class of flash that has been faster or slower than its class for long enough,
    /// unless the user has set parameters.
    #[inline(never)]
    fn step_class(&mut self, now: Nanos) {
        if self.qos.control == Control::User || self.model.control == Control::User {
            return;
        }
        let percent = self.base_rate.saturating_mul(100) / FULL_RATE;
        let feedback = &mut self.feedback;
        let has_lasted = |since: &mut Option<Nanos>, is_so: bool| {
            *since = is_so.then(|| since.unwrap_or(now));
            since.is_some_and(|since| now.saturating_sub(since) >= CLASS_STEP_AFTER_NS)
        };
        let is_too_fast = self.class == Class::Flash && percent >= TOO_FAST_PERCENT;
        let is_too_slow = self.class == Class::FlashFast && percent <= TOO_SLOW_PERCENT;
        let class = match self.class {
            Class::Flash if has_lasted(&mut feedback.too_fast_since, is_too_fast) => Class::FlashFast,
            Class::FlashFast if has_lasted(&mut feedback.too_slow_since, is_too_slow) => Class::Flash,
            _ => return,
        };
        self.note(None, now, "class {0}->{1}", &[self.class as u64, class as u64]);
        self.become_class(class);
    }

    /// Sets the clock's rate for the next period: faster or slower than the base rate, to
    /// compensate budget that was lost or granted in excess (`error`).
    #[inline(never)]
    pub(super) fn compensate(&mut self, now: Nanos) {
        let period_us = i64::try_from((self.period.length_ns() / 1_000).max(1)).unwrap_or(i64::MAX);
        let base = i64::try_from(self.base_rate).unwrap_or(i64::MAX);
        let wanted = self.error.checked_div(period_us).unwrap_or(0).saturating_neg();
        let extra = wanted.max(-(base / 2)).min(base);
        self.error = self.error.saturating_add(extra.saturating_mul(period_us));
        let most = period_us.saturating_mul(base);
        self.error = self.error.max(most.saturating_neg()).min(most);
        self.clock.set_rate(self.base_rate.saturating_add_signed(extra), now);
    }
}

/// The new value of [`Feedback::busy`]: the count of consecutive periods in which the device was
/// late (positive), or groups were short of budget although it was not (negative).
fn judge(busy: i32, missed: [u64; 2], allowed: [u64; 2], wait_percent: u64, findings: Findings) -> i32 {
    let [(read, read_allowed), (write, write_allowed)] = {
        let ([read, write], [read_allowed, write_allowed]) = (missed, allowed);
        [(read, read_allowed), (write, write_allowed)]
    };
    let busy = if wait_percent > WAIT_BUSY_PERCENT || read > read_allowed || write > write_allowed {
        busy.max(0).saturating_add(1)
    } else if wait_percent <= WAIT_BUSY_PERCENT * ROOM_PERCENT / 100
        && read <= read_allowed.saturating_mul(ROOM_PERCENT) / 100
        && write <= write_allowed.saturating_mul(ROOM_PERCENT) / 100
        && findings.shortages > 0
    {
        busy.min(0).saturating_sub(i32::from(findings.lagging == 0))
    } else {
        0
    };
    busy.clamp(-MOST_BUSY, MOST_BUSY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Findings = Findings { shortages: 1, lagging: 0 };

    #[test]
    fn lateness_and_shortage_are_counted_in_a_row() {
        let all = [1_000_000; 2];
        assert_eq!(judge(3, [0; 2], all, 6, SHORT), 4);
        assert_eq!(judge(-3, [0; 2], all, 6, SHORT), 1);
        assert_eq!(judge(-3, [0; 2], all, 4, SHORT), 0, "between 3 and 5 %");
        assert_eq!(judge(3, [0; 2], all, 3, SHORT), -1);
        assert_eq!(judge(-3, [0; 2], all, 0, Findings { lagging: 1, ..SHORT }), -3);
        assert_eq!(judge(-3, [0; 2], all, 0, Findings::default()), 0);
        assert_eq!(judge(0, [50_001, 0], [50_000; 2], 0, SHORT), 1);
        assert_eq!(judge(-9, [37_501, 0], [50_000; 2], 0, SHORT), 0, "the quarter below the limit");
        assert_eq!(judge(-9, [37_500, 0], [50_000; 2], 0, SHORT), -10);
        assert_eq!(judge(1_000, [0; 2], all, 6, SHORT), 1_000);
    }

    #[test]
    fn steps_grow_and_bounds_hold() {
        let qos = Qos { min_ppm: 500_000, max_ppm: 2_000_000, ..Class::Flash.qos() };
        let after = |busy: i32| next_rate(100_000, busy, &qos);
        assert_eq!(
            [3, 4, -4, -20, 36, 44, -52].map(after),
            [100_000, 99_000, 101_000, 102_000, 96_000, 92_000, 116_000]
        );
        assert_eq!(next_rate(70_000, 60, &qos), rate_of(500_000));
        assert_eq!(next_rate(50_000, 60, &qos), 52_000, "4 % towards the bound");
        assert_eq!(next_rate(400_000, -60, &qos), 384_000);
        assert_eq!(rate_of(1_000_000), FULL_RATE);
    }
}
