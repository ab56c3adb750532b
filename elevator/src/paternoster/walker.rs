//! How few requests may be inside before leaders are let in: learned by comparing epochs with and without holding them back.
//!
//! Specification paternoster.md, 6.7. Rates are bytes per 2^24 ns and ratios have 16 binary places: no float, no wide
//! division.

use block::Nanos;
use block::time::{MILLISECOND, SECOND};

/// One, as a ratio.
const ONE: u64 = 1 << 16;
/// Requests of the floor in sixteenths.
const SIXTEENTHS: u64 = 16;
const EPOCH_NS: core::ops::RangeInclusive<Nanos> = 4 * MILLISECOND..=60 * MILLISECOND;
const LONGEST_ON_DISK_NS: Nanos = SECOND;
/// An epoch spans so many residences, and so many requests.
const RESIDENCES: u64 = 16;
const REQUESTS: u64 = 300;
const FAST_EPOCHS: u32 = 6;
const FAST_REFERENCES: u32 = 2;
const SLOW_EPOCHS: u32 = 16;
const CALM_CYCLES: u32 = 4;
const LEAST_RESTART_NS: Nanos = 2 * SECOND;
const MOST_RESTART_NS: Nanos = 32 * SECOND;
const QUIET_NS: Nanos = 64 * SECOND;

/// Bytes and time of the epochs of a kind.
#[derive(Copy, Clone, Default, Debug)]
struct Sum {
    work: u64,
    ns: u64,
}

impl Sum {
    fn rate(self) -> u64 {
        (self.work.min(1 << 39) << 24).checked_div(self.ns).unwrap_or(0)
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Bisection.
    Fast,
    /// Tracking.
    Slow,
}

/// The learner.
#[derive(Clone, Debug)]
pub struct Walker {
    /// Per cent of throughput that may be spent.
    give: u64,
    is_rotational: bool,
    depth: u64,
    phase: Phase,
    floor_q4: u64,
    low: i64,
    high: i64,
    calm: u32,
    calm_cycles: u32,
    /// Which epoch of its cycle, since when, how long, and when measuring begins.
    index: u32,
    began_ns: Nanos,
    length_ns: Nanos,
    measured_from_ns: Nanos,
    work: u64,
    /// Holds or injections happened in this epoch.
    is_contended: bool,
    /// Test epochs, reference epochs: of the cycle, and of all with decay.
    cycle: [Sum; 2],
    total: [Sum; 2],
    /// Most requests inside at a time, in this cycle and the one before.
    deepest: u64,
    last_ratio: u64,
    reference_rate: u64,
    rate_at_start: u64,
    strange_cycles: u32,
    restarted_ns: Nanos,
    restart_pause_ns: Nanos,
    pub epochs: u64,
    pub restarts: u64,
}

impl Walker {
    pub const fn new(give: u64, depth: u64, is_rotational: bool) -> Self {
        Self {
            give,
            is_rotational,
            depth,
            phase: Phase::Fast,
            floor_q4: 0,
            low: -1,
            high: depth.cast_signed(),
            calm: 0,
            calm_cycles: 0,
            index: 0,
            began_ns: 0,
            length_ns: 0,
            measured_from_ns: 0,
            work: 0,
            is_contended: false,
            cycle: [Sum { work: 0, ns: 0 }; 2],
            total: [Sum { work: 0, ns: 0 }; 2],
            deepest: 1,
            last_ratio: 0,
            reference_rate: 0,
            rate_at_start: 0,
            strange_cycles: 0,
            restarted_ns: 0,
            restart_pause_ns: LEAST_RESTART_NS,
            epochs: 0,
            restarts: 0,
        }
    }

    pub fn set_give(&mut self, give: u64) {
        self.give = give;
        self.restart();
    }

    pub fn set_depth(&mut self, depth: u64) {
        self.depth = depth;
        self.restart();
    }

    /// Whether anything is learned at all.
    #[inline]
    pub const fn learns(&self) -> bool {
        self.give > 0 && self.give < 100
    }

    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The floor in sixteenths of a request.
    pub const fn floor_q4(&self) -> u64 {
        if self.give >= 100 { 0 } else { self.floor_q4 }
    }

    /// Test epochs over reference epochs, as per cent.
    pub const fn ratio_percent(&self) -> u64 {
        self.last_ratio.saturating_mul(100) / ONE
    }

    pub const fn epoch_ns(&self) -> Nanos {
        self.length_ns
    }

    const fn references(&self) -> u32 {
        match self.phase {
            Phase::Fast => FAST_REFERENCES,
            Phase::Slow => 1,
        }
    }

    const fn epochs_a_cycle(&self) -> u32 {
        match self.phase {
            Phase::Fast => FAST_EPOCHS,
            Phase::Slow => SLOW_EPOCHS << self.calm,
        }
    }

    const fn is_reference(&self) -> bool {
        self.index < self.references()
    }

    /// With fewer requests inside than this a leader is let in. The fraction is dithered in time.
    pub fn floor_now(&self, now: Nanos, residence_ns: Nanos) -> u64 {
        match self.give {
            0 => return self.depth,
            1..100 if self.is_reference() => return self.depth,
            1..100 => {}
            _ => return 0,
        }
        let (whole, fraction) = (self.floor_q4 / SIXTEENTHS, self.floor_q4 % SIXTEENTHS);
        let step = now.checked_div(residence_ns.saturating_mul(2)).unwrap_or(0) % SIXTEENTHS;
        whole.wrapping_add(u64::from(step < fraction))
    }

    #[inline]
    pub const fn contended(&mut self) {
        self.is_contended = true;
    }

    #[inline]
    pub fn completed(&mut self, now: Nanos, work: u64, inside: u64) {
        self.deepest = self.deepest.max(inside);
        if now >= self.measured_from_ns {
            self.work = self.work.saturating_add(work);
        }
    }

    /// Ends the epoch if it is over; true if a cycle ended with it.
    pub fn step(&mut self, now: Nanos, residence_ns: Nanos, request_ns: Nanos, jitter: u64) -> bool {
        if !self.learns() || now < self.began_ns.saturating_add(self.length_ns) {
            return false;
        }
        let mut is_cycle_over = false;
        if self.is_contended && self.length_ns > 0 {
            let kind = usize::from(self.is_reference());
            if let Some(sum) = self.cycle.get_mut(kind) {
                sum.work = sum.work.saturating_add(self.work);
                sum.ns = sum.ns.saturating_add(now.saturating_sub(self.measured_from_ns));
            }
            self.epochs = self.epochs.wrapping_add(1);
            self.index = self.index.wrapping_add(1);
            if self.index >= self.epochs_a_cycle() {
                self.end_cycle(now);
                is_cycle_over = true;
            }
        }
        self.begin_epoch(now, residence_ns, request_ns, jitter);
        is_cycle_over
    }

    fn begin_epoch(&mut self, now: Nanos, residence_ns: Nanos, request_ns: Nanos, jitter: u64) {
        let longest = if self.is_rotational { LONGEST_ON_DISK_NS } else { *EPOCH_NS.end() };
        let wanted = residence_ns.saturating_mul(RESIDENCES).max(request_ns.saturating_mul(REQUESTS));
        let length = wanted.clamp(*EPOCH_NS.start(), longest);
        // An eighth more or less, so that loads do not fall into step (12.5).
        self.length_ns = length.wrapping_sub(length / 8).wrapping_add((length / 4).saturating_mul(jitter % 256) / 256);
        self.began_ns = now;
        self.measured_from_ns = now.saturating_add(self.length_ns / 4);
        (self.work, self.is_contended) = (0, false);
    }

    fn end_cycle(&mut self, now: Nanos) {
        self.index = 0;
        let [test, reference] = self.cycle;
        self.cycle = [Sum::default(); 2];
        for (total, sum) in self.total.iter_mut().zip([test, reference]) {
            let keeps = if self.phase == Phase::Fast { 0 } else { 15 };
            total.work = (total.work / 16).saturating_mul(keeps).saturating_add(sum.work);
            total.ns = (total.ns / 16).saturating_mul(keeps).saturating_add(sum.ns);
        }
        let [tests, references] = self.total;
        let (test_rate, reference_rate) = (tests.rate(), references.rate());
        let now_rate = reference.rate();
        self.reference_rate =
            if self.reference_rate == 0 { now_rate } else { (self.reference_rate.wrapping_add(now_rate)) / 2 };
        let ratio = (test_rate << 16).checked_div(reference_rate).unwrap_or(ONE);
        self.last_ratio = ratio;
        // A third of what may be given is kept for noise.
        let spare = (self.give.saturating_mul(2).saturating_mul(ONE) / 300).max(1);
        let target = ONE.saturating_sub(spare);
        match self.phase {
            Phase::Fast => self.bisect(ratio, target),
            Phase::Slow => self.track(ratio, target, spare),
        }
        if self.phase == Phase::Slow {
            self.look_for_change(now);
        }
        self.deepest = self.deepest.max(1);
    }

    fn bisect(&mut self, ratio: u64, target: u64) {
        let floor = (self.floor_q4 / SIXTEENTHS).cast_signed();
        let deepest = self.deepest.cast_signed();
        if ratio >= target.saturating_sub(ONE / 100) {
            self.high = floor;
        } else {
            self.low = floor;
            self.high = self.high.min(deepest);
        }
        let low = self.low.max(0);
        if self.high == 0 || self.high.wrapping_sub(low) <= (self.high / 8).max(1) {
            self.floor_q4 = self.high.max(0).unsigned_abs().saturating_mul(SIXTEENTHS);
            self.phase = Phase::Slow;
            self.total = [Sum::default(); 2];
            self.rate_at_start = self.reference_rate;
            (self.calm, self.calm_cycles, self.strange_cycles) = (if self.high < 1 { 3 } else { 0 }, 0, 0);
        } else {
            self.floor_q4 = (low.wrapping_add(self.high) / 2).unsigned_abs().saturating_mul(SIXTEENTHS);
        }
    }

    fn track(&mut self, ratio: u64, target: u64, spare: u64) {
        let most_q4 = self.depth.min(self.deepest).saturating_mul(SIXTEENTHS);
        // In 256ths of what may be given.
        let missed = ratio.cast_signed().wrapping_sub(target.cast_signed());
        let error = (missed.saturating_mul(256).checked_div(spare.cast_signed()).unwrap_or(0)).clamp(-8 * 256, 256);
        if error <= -4 * 256 {
            self.floor_q4 = self.floor_q4.max(SIXTEENTHS / 2).saturating_mul(2).min(most_q4);
            self.total = [Sum::default(); 2];
            (self.calm, self.calm_cycles) = (0, 0);
            return;
        }
        let step = self.floor_q4.max(SIXTEENTHS).cast_signed().saturating_mul(error) / (48 * 256);
        // A step that rounds to nothing is taken as the smallest there is.
        let step = if step == 0 { error.signum() } else { step };
        self.floor_q4 = self.floor_q4.saturating_add_signed(step.wrapping_neg()).min(most_q4);
        let is_below_one = self.floor_q4 < SIXTEENTHS;
        if error.abs() < 128 || (is_below_one && error > 0) {
            self.calm_cycles = self.calm_cycles.wrapping_add(1);
            if self.calm_cycles >= CALM_CYCLES {
                self.calm_cycles = 0;
                self.calm = self.calm.wrapping_add(1).min(if is_below_one { 3 } else { 2 });
            }
        } else if error < -256 {
            (self.calm, self.calm_cycles) = (0, 0);
        }
    }

    /// A device or load that has become another one is learned anew, but not all the time.
    fn look_for_change(&mut self, now: Nanos) {
        let (rate, before) = (self.reference_rate, self.rate_at_start);
        let is_strange = rate > before.saturating_mul(130) / 100 || rate < before.saturating_mul(75) / 100;
        self.strange_cycles = if is_strange { self.strange_cycles.wrapping_add(1) } else { 0 };
        let since = now.saturating_sub(self.restarted_ns);
        if self.strange_cycles < 2 || since < self.restart_pause_ns {
            return;
        }
        self.restart_pause_ns = if since > QUIET_NS {
            LEAST_RESTART_NS
        } else {
            self.restart_pause_ns.saturating_mul(2).min(MOST_RESTART_NS)
        };
        self.restarted_ns = now;
        self.restarts = self.restarts.wrapping_add(1);
        self.restart();
    }

    fn restart(&mut self) {
        self.phase = Phase::Fast;
        (self.floor_q4, self.low, self.high) = (0, -1, self.depth.cast_signed());
        (self.index, self.calm, self.calm_cycles, self.strange_cycles) = (0, 0, 0, 0);
        self.cycle = [Sum::default(); 2];
        self.total = [Sum::default(); 2];
        self.deepest = 1;
    }
}
