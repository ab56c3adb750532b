//! How few requests may be inside before leaders are let in: learned by comparing epochs with and without holding them back.
//!
//! Specification paternoster.md, 6.7, with another controller, because the prototype's was slow and coarse (10.8): bisection
//! skips what has no effect (a floor below the population that exact shares have anyway), and tracking uses each cycle
//! once, with a step that grows while errors keep their sign and shrinks when they change it (Kesten 1958), instead of an
//! integral over a moving average. What reference epochs give away is part of what may be given.
//!
//! Rates are bytes per 2^24 ns and ratios have 16 binary places: no float, no wide division.

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
/// Where rates scatter by more than half of what may be given, references have to be many: they are what is known least.
const NOISY_EPOCHS: u32 = 4;
const CALM_CYCLES: u32 = 4;
const LEAST_RESTART_NS: Nanos = SECOND;
const MOST_RESTART_NS: Nanos = 32 * SECOND;
const QUIET_NS: Nanos = 64 * SECOND;
/// One of what may be given, in the units of errors.
const ERROR_ONE: i64 = 256;
/// No step is longer than this part of what lies between the floor and the reference.
const LONGEST_STEP: i64 = 4;
/// A scatter of a quarter of what may be given doubles the number of cycles that a step is divided by.
const SCATTER_SQUARE: i64 = ERROR_ONE * ERROR_ONE / 16;
/// Cycles after which a step is not shortened further but for noise.
const MOST_AGE: i64 = 1 << 10;

/// Bytes and time of the epochs of a kind.
#[derive(Copy, Clone, Default, Debug)]
struct Sum {
    work: u64,
    ns: u64,
}

impl Sum {
    const NONE: Sum = Sum { work: 0, ns: 0 };

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

/// What a step of the walker brought, for the trace.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// No epoch ended, or one that says nothing.
    None,
    /// A reference epoch ended, or a test.
    Epoch,
    /// A cycle ended: the floor may be another.
    Cycle,
    /// The load is another one: learned anew.
    Restart,
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
    /// Bisection: too low, with what it brought; and enough.
    low_q4: u64,
    low_ratio: u64,
    high_q4: u64,
    high_ratio: u64,
    calm: u32,
    calm_cycles: u32,
    /// Length of cycles: in bisection 6 epochs, doubled so often; when tracking.
    fast_doublings: u32,
    slow_epochs: u32,
    /// Errors of one sign in a row; negative: too little throughput.
    streak: i32,
    /// What was left over of the last step.
    rest: i64,
    /// Which epoch of its cycle, since when, how long, and when measuring begins.
    index: u32,
    began_ns: Nanos,
    length_ns: Nanos,
    measured_from_ns: Nanos,
    work: u64,
    /// Requests inside times how long they were, in tests and in references of this cycle; counted up to when.
    inside_ns: [u64; 2],
    counted_ns: Nanos,
    /// Their mean in the last cycle, and what it is with exact shares: a lower floor has no effect.
    mean_inside_q4: u64,
    exact_inside_q4: u64,
    /// Mean in the references.
    full_inside_q4: u64,
    /// Mean difference between the rates of successive tests, as a ratio; and the rate of the last one.
    noise: u64,
    last_test_rate: u64,
    /// Cycles since bisection, or since the load became another one.
    age: i64,
    /// Holds or injections happened in this epoch.
    is_contended: bool,
    /// Test epochs, reference epochs.
    cycle: [Sum; 2],
    /// Most requests inside at a time: of this cycle, and of late.
    deepest: u64,
    deepest_of_late: u64,
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
            low_q4: 0,
            low_ratio: 0,
            high_q4: depth.saturating_mul(SIXTEENTHS),
            high_ratio: ONE,
            calm: 0,
            calm_cycles: 0,
            fast_doublings: 0,
            slow_epochs: SLOW_EPOCHS,
            streak: 0,
            rest: 0,
            index: 0,
            began_ns: 0,
            length_ns: 0,
            measured_from_ns: 0,
            work: 0,
            inside_ns: [0; 2],
            counted_ns: 0,
            mean_inside_q4: 0,
            exact_inside_q4: 0,
            full_inside_q4: 0,
            noise: 0,
            last_test_rate: 0,
            age: 0,
            is_contended: false,
            cycle: [Sum::NONE; 2],
            deepest: 1,
            deepest_of_late: 1,
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

    /// Test epochs over reference epochs, in 65536ths.
    pub const fn ratio(&self) -> u64 {
        self.last_ratio
    }

    /// Requests inside during the tests of the last cycle, on average, in sixteenths.
    pub const fn mean_inside_q4(&self) -> u64 {
        self.mean_inside_q4
    }

    pub const fn calm(&self) -> u32 {
        self.calm
    }

    pub const fn epoch_ns(&self) -> Nanos {
        self.length_ns
    }

    const fn references(&self) -> u32 {
        match self.phase {
            Phase::Fast => FAST_REFERENCES << self.fast_doublings,
            Phase::Slow => 1,
        }
    }

    const fn epochs_a_cycle(&self) -> u32 {
        match self.phase {
            Phase::Fast => FAST_EPOCHS << self.fast_doublings,
            Phase::Slow => self.slow_epochs,
        }
    }

    /// Whether nobody is held back for now, to see what that brings.
    pub const fn is_in_reference(&self) -> bool {
        self.learns() && self.is_reference()
    }

    const fn is_reference(&self) -> bool {
        self.index < self.references()
    }

    /// With fewer requests inside than this a leader is let in. The fraction is dithered in time.
    #[inline]
    pub fn floor_now(&self, now: Nanos, residence_ns: Nanos) -> u64 {
        match self.give {
            0 => return self.depth,
            1..100 if self.is_reference() => return self.depth,
            1..100 => {}
            _ => return 0,
        }
        let (whole, fraction) = (self.floor_q4 / SIXTEENTHS, self.floor_q4 % SIXTEENTHS);
        if fraction == 0 {
            return whole;
        }
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

    /// So many were inside until now.
    #[inline]
    pub fn were_inside(&mut self, now: Nanos, inside: u64) {
        if now >= self.measured_from_ns {
            let since = self.counted_ns.max(self.measured_from_ns);
            let is_reference = self.is_reference();
            let [tests, references] = &mut self.inside_ns;
            let sum = if is_reference { references } else { tests };
            *sum = sum.saturating_add(inside.saturating_mul(now.saturating_sub(since)));
        }
        self.counted_ns = now;
    }

    #[inline]
    pub const fn is_due(&self, now: Nanos) -> bool {
        self.learns() && now >= self.began_ns.saturating_add(self.length_ns)
    }

    /// Ends the epoch.
    pub fn step(&mut self, now: Nanos, residence_ns: Nanos, request_ns: Nanos, jitter: u64) -> Step {
        let mut step = Step::None;
        if self.is_contended && self.length_ns > 0 {
            let kind = usize::from(self.is_reference());
            self.learn_noise(now);
            if let Some(sum) = self.cycle.get_mut(kind) {
                sum.work = sum.work.saturating_add(self.work);
                sum.ns = sum.ns.saturating_add(now.saturating_sub(self.measured_from_ns));
            }
            self.epochs = self.epochs.wrapping_add(1);
            self.index = self.index.wrapping_add(1);
            step = Step::Epoch;
            if self.index >= self.epochs_a_cycle() {
                step = self.end_cycle(now);
            }
        }
        self.begin_epoch(now, residence_ns, request_ns, jitter);
        step
    }

    /// Successive tests of one floor differ by chance.
    fn learn_noise(&mut self, now: Nanos) {
        if self.is_reference() {
            self.last_test_rate = 0;
            return;
        }
        let ns = now.saturating_sub(self.measured_from_ns);
        let rate = Sum { work: self.work, ns }.rate();
        let before = core::mem::replace(&mut self.last_test_rate, rate);
        if before > 0 {
            let difference = (rate.abs_diff(before) << 16).checked_div(before).unwrap_or(0).min(ONE);
            self.noise = if self.noise == 0 {
                difference
            } else {
                (self.noise.saturating_mul(15).wrapping_add(difference)) / 16
            };
        }
    }

    /// How much the error of a cycle scatters, in 256ths of what may be given.
    fn scatter(&self) -> i64 {
        let spare = self.give.saturating_mul(ONE).saturating_mul(17) / 2000;
        (self.noise.saturating_mul(ERROR_ONE.unsigned_abs())).checked_div(spare).unwrap_or(0).cast_signed()
    }

    fn is_noisy(&self) -> bool {
        self.scatter() > ERROR_ONE / 2
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

    /// What may be lost in tests, as a ratio. Of what may be given three twentieths are kept for noise; references lose nothing,
    /// so tests may lose a little more.
    fn spare(&self) -> u64 {
        let all = self.give.saturating_mul(ONE).saturating_mul(17) / 2000;
        let epochs = u64::from(self.epochs_a_cycle());
        let tests = epochs.saturating_sub(u64::from(self.references()));
        let in_tests = all.saturating_mul(epochs).checked_div(tests).unwrap_or(all);
        if self.phase == Phase::Slow { in_tests.max(1) } else { all.max(1) }
    }

    fn end_cycle(&mut self, now: Nanos) -> Step {
        self.index = 0;
        let [tests, references] = core::mem::replace(&mut self.cycle, [Sum::NONE; 2]);
        let now_rate = references.rate();
        self.reference_rate =
            if self.reference_rate == 0 { now_rate } else { (self.reference_rate.wrapping_add(now_rate)) / 2 };
        let ratio = (tests.rate() << 16).checked_div(now_rate).unwrap_or(ONE);
        self.last_ratio = ratio;
        let [in_tests, in_references] = self.inside_ns;
        self.mean_inside_q4 = in_tests.saturating_mul(SIXTEENTHS).checked_div(tests.ns).unwrap_or(0);
        self.full_inside_q4 = in_references.saturating_mul(SIXTEENTHS).checked_div(references.ns).unwrap_or(0);
        self.inside_ns = [0; 2];
        // With leaders let in there are more inside, never fewer.
        let is_exact = self.floor_q4 == 0;
        if is_exact || self.mean_inside_q4 < self.exact_inside_q4 {
            self.exact_inside_q4 = self.mean_inside_q4;
        }
        self.deepest_of_late = self.deepest.max(self.deepest_of_late.saturating_sub(self.deepest_of_late.div_ceil(8)));
        self.deepest = 1;
        let spare = self.spare();
        let target = ONE.saturating_sub(spare);
        match self.phase {
            Phase::Fast => self.bisect(ratio, target, spare),
            Phase::Slow => {
                self.track(ratio, target, spare);
                if self.has_changed(now) {
                    self.restart();
                    return Step::Restart;
                }
            }
        }
        self.fast_doublings = u32::from(self.is_noisy()).saturating_mul(2);
        let is_exact = self.floor_q4 < SIXTEENTHS;
        self.slow_epochs = if self.is_noisy() && !is_exact { NOISY_EPOCHS } else { SLOW_EPOCHS << self.calm };
        Step::Cycle
    }

    fn bisect(&mut self, ratio: u64, target: u64, spare: u64) {
        if ratio >= target.saturating_sub(spare / 4) {
            (self.high_q4, self.high_ratio) = (self.floor_q4, ratio.min(ONE));
        } else {
            // A floor below what is inside anyway has no effect: no need to look there.
            let (floor, inside) = (self.floor_q4, self.exact_inside_q4);
            (self.low_q4, self.low_ratio) = (floor.max(inside).max(1), ratio);
            self.high_q4 = self.high_q4.min(self.deepest_of_late.saturating_mul(SIXTEENTHS)).max(self.low_q4);
        }
        let width = self.high_q4.saturating_sub(self.low_q4);
        if self.high_q4 == 0 || width <= SIXTEENTHS.max(self.high_q4 / 8) {
            self.end_bisection(target, width);
        } else {
            self.floor_q4 = (self.low_q4.wrapping_add(self.high_q4) / 2).next_multiple_of(SIXTEENTHS);
            if self.floor_q4 >= self.high_q4 {
                self.end_bisection(target, width);
            }
        }
    }

    /// Between too low and enough, where a straight line crosses the target.
    fn end_bisection(&mut self, target: u64, width: u64) {
        let rise = self.high_ratio.saturating_sub(self.low_ratio).max(1);
        let wanted = target.saturating_sub(self.low_ratio).min(rise);
        let part = width.saturating_mul(wanted).checked_div(rise).unwrap_or(width);
        self.floor_q4 = if self.high_q4 == 0 { 0 } else { self.low_q4.wrapping_add(part) };
        self.phase = Phase::Slow;
        self.rate_at_start = self.reference_rate;
        let is_exact = self.floor_q4 < SIXTEENTHS;
        (self.calm, self.calm_cycles, self.strange_cycles, self.streak) = (if is_exact { 2 } else { 0 }, 0, 0, 0);
        (self.age, self.rest) = (0, 0);
    }

    fn track(&mut self, ratio: u64, target: u64, spare: u64) {
        let most_q4 = self.depth.min(self.deepest_of_late).saturating_mul(SIXTEENTHS);
        let missed = ratio.cast_signed().wrapping_sub(target.cast_signed());
        let raw = missed.saturating_mul(ERROR_ONE).checked_div(spare.cast_signed()).unwrap_or(0);
        let error = raw.clamp(-3 * ERROR_ONE, 3 * ERROR_ONE);
        let is_exact = self.floor_q4 < SIXTEENTHS;
        self.count_streak(error);
        if raw <= (-4 * ERROR_ONE).min(-4 * self.scatter()) {
            // Far too little throughput: a change that cannot wait for steps.
            let from = self.floor_q4.max(self.exact_inside_q4).max(SIXTEENTHS / 2);
            self.floor_q4 = from.saturating_mul(3) / 2;
            (self.calm, self.calm_cycles, self.age) = (0, 0, 0);
        } else if is_exact && error < 0 {
            // Exact shares are not given up for one bad cycle.
            if self.streak <= -2 {
                self.floor_q4 = self.exact_inside_q4;
                (self.calm, self.calm_cycles, self.age) = (0, 0, 0);
            }
        } else {
            self.make_step(error);
        }
        self.floor_q4 = self.floor_q4.min(most_q4);
        self.grow_calm(error);
    }

    /// Large errors of one sign in a row are no noise.
    fn count_streak(&mut self, error: i64) {
        let is_large = error.abs() >= (ERROR_ONE / 2).max(self.scatter());
        let sign: i32 = if error < 0 { -1 } else { 1 };
        self.streak = match self.streak {
            _ if !is_large => 0,
            streak if streak.signum() == sign => streak.saturating_add(sign),
            _ => sign,
        };
        if self.streak.abs() >= 4 {
            (self.age, self.streak) = (0, 0);
        }
    }

    /// Robbins and Monro: steps in proportion to the error, each a little shorter than the one before, down to what the noise
    /// asks for. They are measured by the way from the floor to the reference, because that is what throughput is lost by.
    fn make_step(&mut self, error: i64) {
        if error < 0 {
            self.floor_q4 = self.floor_q4.max(self.exact_inside_q4);
        } else if self.floor_q4 < self.exact_inside_q4.saturating_mul(7) / 8 {
            // No effect down here: exact shares are enough.
            self.floor_q4 /= 2;
            return;
        }
        self.age = self.age.saturating_add(1).min(MOST_AGE);
        let way = self.full_inside_q4.saturating_sub(self.floor_q4).min(self.floor_q4 / 8).max(SIXTEENTHS / 2);
        let scatter = self.scatter();
        let for_noise = 4_i64.saturating_add(scatter.saturating_mul(scatter) / SCATTER_SQUARE);
        let divisor = self.age.clamp(LONGEST_STEP, for_noise.max(LONGEST_STEP));
        // In 256ths of a sixteenth; what does not make a whole one is kept for the next step.
        let step = way.cast_signed().saturating_mul(error).wrapping_add(self.rest).checked_div(divisor).unwrap_or(0);
        let whole = step / ERROR_ONE;
        self.rest = step.wrapping_sub(whole.saturating_mul(ERROR_ONE)).saturating_mul(divisor);
        self.floor_q4 = self.floor_q4.saturating_add_signed(whole.wrapping_neg());
    }

    fn grow_calm(&mut self, error: i64) {
        let is_exact = self.floor_q4 < SIXTEENTHS;
        if error.abs() < ERROR_ONE / 2 || (is_exact && error > 0) {
            self.calm_cycles = self.calm_cycles.wrapping_add(1);
            if self.calm_cycles >= CALM_CYCLES {
                self.calm_cycles = 0;
                self.calm = self.calm.wrapping_add(1).min(if is_exact { 3 } else { 1 });
            }
        } else if error < -ERROR_ONE {
            (self.calm, self.calm_cycles) = (0, 0);
        }
    }

    /// Whether device or load have become another one; learned anew then, but not all the time.
    fn has_changed(&mut self, now: Nanos) -> bool {
        let (rate, before) = (self.reference_rate, self.rate_at_start);
        let is_strange = rate > before.saturating_mul(130) / 100 || rate < before.saturating_mul(75) / 100;
        self.strange_cycles = if is_strange { self.strange_cycles.wrapping_add(1) } else { 0 };
        let since = now.saturating_sub(self.restarted_ns);
        if self.strange_cycles < 2 || since < self.restart_pause_ns {
            return false;
        }
        self.restart_pause_ns = if since > QUIET_NS {
            LEAST_RESTART_NS
        } else {
            self.restart_pause_ns.saturating_mul(2).min(MOST_RESTART_NS)
        };
        self.restarted_ns = now;
        self.restarts = self.restarts.wrapping_add(1);
        true
    }

    fn restart(&mut self) {
        self.phase = Phase::Fast;
        (self.floor_q4, self.low_q4, self.low_ratio) = (0, 0, 0);
        (self.high_q4, self.high_ratio) = (self.depth.saturating_mul(SIXTEENTHS), ONE);
        (self.index, self.calm, self.calm_cycles, self.strange_cycles, self.streak) = (0, 0, 0, 0, 0);
        self.cycle = [Sum::NONE; 2];
        self.inside_ns = [0; 2];
        (self.deepest, self.deepest_of_late) = (1, 1);
    }
}
