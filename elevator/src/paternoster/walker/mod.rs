//! How few requests may be inside before leaders are let in: learned by comparing epochs with and without holding them back.
//!
//! Specification paternoster.md, 6.7, with another controller, because the prototype's was slow and coarse (10.8): bisection
//! skips what has no effect (a floor below the population that exact shares have anyway), and tracking uses each cycle
//! once, with a step that grows while errors keep their sign and shrinks when they change it (Kesten 1958), instead of an
//! integral over a moving average. What reference epochs give away is part of what may be given.
//!
//! Rates are bytes per 2^24 ns and ratios have 16 binary places: no float, no wide division.

mod change;
mod steering;

use block::Nanos;
use block::time::{MILLISECOND, SECOND};
use change::Usual;

/// One, as a ratio.
const ONE: u64 = 1 << 16;
const ONE_RATIO: u32 = 1 << 16;
/// A request of the floor has so many parts: where few are inside, a sixteenth more is half a per cent of throughput.
const PARTS: u64 = 256;
/// As it is told.
const SIXTEENTH: u64 = PARTS / 16;
const EPOCH_NS: core::ops::RangeInclusive<Nanos> = 4 * MILLISECOND..=60 * MILLISECOND;
const LONGEST_ON_DISK_NS: Nanos = SECOND;
/// An epoch spans so many residences, and so many requests.
const RESIDENCES: u64 = 16;
const REQUESTS: u64 = 300;
const FAST_EPOCHS: u32 = 6;
const FAST_REFERENCES: u32 = 2;
const SLOW_EPOCHS: u32 = 16;
/// Where rates scatter by a good part of what may be given, references have to be many: they are what is known least. But they give
/// shares away, so they are not more than that asks for.
const NOISY_EPOCHS: u8 = 8;
const LOUD_EPOCHS: u8 = 4;
/// The part of an epoch in which somebody has to wait for it to tell anything.
const LEAST_MEASURED: u64 = 8;
/// After a reference that told nothing.
const RESTING_EPOCHS: u8 = 7;
/// Scatter is the mean over so many of the last differences.
const MOST_DIFFERENCES: u8 = 64;
const LEAST_RESTART_NS: Nanos = SECOND;
/// One of what may be given, in the units of errors.
const ERROR_ONE: i64 = 256;

/// Bytes and time of the epochs of a kind, from completion to completion, and how long they were measured in all.
#[derive(Copy, Clone, Default, Debug)]
struct Sum {
    work: u64,
    ns: u64,
    all_ns: u64,
}

impl Sum {
    const NONE: Sum = Sum { work: 0, ns: 0, all_ns: 0 };

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
    give: u8,
    is_rotational: bool,
    depth: u64,
    phase: Phase,
    floor_q8: u64,
    /// Until when the floor is rounded up or down, which of them, and what that left over.
    dithered_until_ns: Nanos,
    is_above: bool,
    dither_rest_q8: u32,
    /// Bisection: too low, with what it brought; and enough.
    low_q8: u64,
    low_ratio: u32,
    high_q8: u64,
    high_ratio: u32,
    calm: u8,
    calm_cycles: u8,
    /// Bisection: cycles at this floor that did not decide.
    undecided: u8,
    /// Length of cycles when tracking.
    slow_epochs: u32,
    /// Errors of one sign in a row; negative: too little throughput.
    streak: i32,
    /// Errors added up to each side.
    drift: [i64; 2],
    /// Exact shares were tried for a whole cycle and delivered too little.
    is_exact_short: bool,
    /// Exact shares are tried once more: the floor to go back to, or 0.
    trial_from_q8: u64,
    /// Epochs in a row in which the floor may not have been needed, and after how many of them exact shares are tried.
    doubtful_epochs: u16,
    trial_pause: u16,
    /// With exact shares: errors added up, with less than what was kept for noise set against each; never above 0.
    shortfall: i64,
    /// What was left over of the last step.
    rest: i64,
    /// Which epoch of its cycle, since when, how long, and when measuring begins.
    index: u32,
    began_ns: Nanos,
    length_ns: Nanos,
    measured_from_ns: Nanos,
    /// What completed behind the first completion in the measured part, when that was, and when the last one.
    work: u64,
    first_done_ns: Nanos,
    last_done_ns: Nanos,
    /// Requests inside times how long they were, from the beginning up to the last change, and from where on they count.
    all_inside_ns: u64,
    counted_ns: Nanos,
    count_from_ns: Nanos,
    /// The same when counting began, which it has once `count_from_ns` is never; and what was counted so far, in tests and in references
    /// of this cycle.
    uncounted_inside_ns: u64,
    inside_ns: [u64; 2],
    /// Their mean in the last cycle, and what it is with exact shares: a lower floor has no effect.
    mean_inside_q8: u64,
    exact_inside_q8: u64,
    /// Mean in the references.
    full_inside_q8: u64,
    /// Mean difference between the rates of successive tests, as a ratio; and the rate of the last one.
    noise: u64,
    last_test_rate: u64,
    differences: u8,
    /// Epochs of a cycle because that is much; or 0.
    noisy_epochs: u8,
    /// What steps are divided by, because errors changed their sign so often; and the last one's sign.
    age: i32,
    last_sign: i8,
    /// Holds or injections happened in this epoch.
    is_contended: bool,
    /// When somebody had to wait last: what had been done, and until when. Nothing has been inside since then if it is idle.
    contended_work: u64,
    contended_until_ns: Nanos,
    is_idle: bool,
    /// Test epochs, reference epochs.
    cycle: [Sum; 2],
    /// Most requests inside at a time: of this cycle, and of late.
    deepest: u64,
    deepest_of_late: u64,
    last_ratio: u32,
    reference_rate: u64,
    rate_at_start: u64,
    strange_cycles: u8,
    /// Before the next reference, because the last one told nothing: leaders were let in all the same.
    resting_epochs: u8,
    /// Of tests, of references; and so many epochs were not like them that the load is another one.
    usual: [Usual; 2],
    is_another: bool,
    restarted_ns: Nanos,
    restart_pause_ns: Nanos,
    pub epochs: u32,
    pub restarts: u32,
}

impl Walker {
    pub const fn new(give: u8, depth: u64, is_rotational: bool) -> Self {
        Self {
            give,
            is_rotational,
            depth,
            phase: Phase::Fast,
            floor_q8: 0,
            dithered_until_ns: 0,
            is_above: false,
            dither_rest_q8: 0,
            low_q8: 0,
            low_ratio: 0,
            high_q8: depth.saturating_mul(PARTS),
            high_ratio: ONE_RATIO,
            calm: 0,
            calm_cycles: 0,
            undecided: 0,
            slow_epochs: SLOW_EPOCHS,
            streak: 0,
            drift: [0; 2],
            is_exact_short: false,
            trial_from_q8: 0,
            doubtful_epochs: 0,
            trial_pause: 0,
            shortfall: 0,
            rest: 0,
            index: 0,
            began_ns: 0,
            length_ns: 0,
            measured_from_ns: 0,
            work: 0,
            first_done_ns: 0,
            last_done_ns: 0,
            all_inside_ns: 0,
            counted_ns: 0,
            count_from_ns: 0,
            uncounted_inside_ns: 0,
            inside_ns: [0; 2],
            mean_inside_q8: 0,
            exact_inside_q8: 0,
            full_inside_q8: 0,
            noise: 0,
            last_test_rate: 0,
            differences: 0,
            noisy_epochs: 0,
            age: 0,
            last_sign: 0,
            is_contended: false,
            contended_work: 0,
            contended_until_ns: 0,
            is_idle: false,
            cycle: [Sum::NONE; 2],
            deepest: 1,
            deepest_of_late: 1,
            last_ratio: 0,
            reference_rate: 0,
            rate_at_start: 0,
            strange_cycles: 0,
            resting_epochs: 0,
            usual: [Usual::UNKNOWN; 2],
            is_another: false,
            restarted_ns: 0,
            restart_pause_ns: LEAST_RESTART_NS,
            epochs: 0,
            restarts: 0,
        }
    }

    pub fn set_give(&mut self, give: u64) {
        self.give = u8::try_from(give).unwrap_or(100);
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
        if self.give >= 100 { 0 } else { self.floor_q8 / SIXTEENTH }
    }

    /// Test epochs over reference epochs, in 65536ths.
    pub fn ratio(&self) -> u64 {
        u64::from(self.last_ratio)
    }

    /// Requests inside during the tests of the last cycle, on average, in sixteenths.
    pub const fn mean_inside_q4(&self) -> u64 {
        self.mean_inside_q8 / SIXTEENTH
    }

    pub const fn calm(&self) -> u8 {
        self.calm
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
            Phase::Slow => self.slow_epochs,
        }
    }

    /// Whether nobody is held back for now, to see what that brings.
    pub const fn is_in_reference(&self) -> bool {
        self.learns() && self.is_reference()
    }

    const fn is_reference(&self) -> bool {
        self.index < self.references() && self.resting_epochs == 0
    }

    /// Where shares are exact: far below how many are inside then. Now and then someone who lags cannot ask for more, because he waits
    /// for a free request say, and others need not wait with him for long. 0 otherwise.
    pub fn exact_floor(&self) -> u64 {
        let is_exact = self.phase == Phase::Slow && self.floor_q8 < PARTS && self.trial_from_q8 == 0 && self.give < 100;
        if is_exact { self.exact_inside_q8 / 4 * 3 / PARTS } else { 0 }
    }

    /// With fewer requests inside than this a leader is let in. The fraction is dithered in time, spread evenly.
    #[inline]
    pub fn floor_now(&mut self, now: Nanos, residence_ns: Nanos) -> u64 {
        match self.give {
            0 => return self.depth,
            1..100 if self.is_reference() => return self.depth,
            1..100 => {}
            _ => return 0,
        }
        let (whole, fraction) = (self.floor_q8 / PARTS, self.floor_q8 % PARTS);
        if fraction == 0 {
            return whole;
        }
        if now >= self.dithered_until_ns {
            let parts = u64::from(self.dither_rest_q8).wrapping_add(fraction);
            self.is_above = parts >= PARTS;
            self.dither_rest_q8 = u32::try_from(parts % PARTS).unwrap_or(0);
            self.dithered_until_ns = now.saturating_add(residence_ns.saturating_mul(2));
        }
        whole.wrapping_add(u64::from(self.is_above))
    }

    /// Somebody has to wait; whether nothing is inside.
    #[inline]
    pub const fn contended(&mut self, now: Nanos, is_idle: bool) {
        self.is_contended = true;
        if !self.is_idle {
            self.contended_work = self.work;
            self.contended_until_ns = if is_idle { now } else { self.last_done_ns };
            self.is_idle = is_idle;
        }
    }

    #[inline]
    pub fn completed(&mut self, now: Nanos, work: u64, inside: u64) {
        self.deepest = self.deepest.max(inside);
        let was_idle = core::mem::replace(&mut self.is_idle, false);
        if now < self.measured_from_ns || !self.is_contended {
            return;
        }
        let is_first = self.first_done_ns == 0;
        if is_first {
            self.first_done_ns = if was_idle { self.contended_until_ns.max(self.measured_from_ns) } else { now };
        }
        if !is_first || was_idle {
            // Of an epoch, or of less than a century.
            self.work = self.work.wrapping_add(work);
        }
        self.last_done_ns = now;
    }

    /// Of this epoch, while somebody had to wait, because without the load that is compared tests and references differ by what came and
    /// went. From completion to completion: a large request more or less within fixed times would be as much as may be given. Without
    /// any nothing was done all the time.
    fn measured(&self, now: Nanos) -> Sum {
        let until_ns = if self.is_idle { now } else { self.contended_until_ns };
        let between = until_ns.saturating_sub(self.first_done_ns);
        let all_ns = now.saturating_sub(self.measured_from_ns);
        Sum { work: self.contended_work, ns: if self.last_done_ns > 0 { between } else { all_ns }, all_ns }
    }

    /// So many were inside until now.
    #[inline]
    pub const fn were_inside(&mut self, now: Nanos, inside: u64) {
        if now >= self.count_from_ns {
            self.begin_to_count(inside);
        }
        let since = now.wrapping_sub(self.counted_ns);
        self.all_inside_ns = self.all_inside_ns.wrapping_add(inside.wrapping_mul(since));
        self.counted_ns = now;
    }

    /// So many were inside when measuring began.
    #[cold]
    #[inline(never)]
    const fn begin_to_count(&mut self, inside: u64) {
        let before = self.count_from_ns.wrapping_sub(self.counted_ns);
        self.uncounted_inside_ns = self.all_inside_ns.wrapping_add(inside.wrapping_mul(before));
        self.count_from_ns = Nanos::MAX;
    }

    /// How many were inside for how long in this epoch, up to the last change.
    fn counted_inside(&mut self) -> u64 {
        if self.count_from_ns != Nanos::MAX {
            return 0;
        }
        let counted = self.all_inside_ns.wrapping_sub(self.uncounted_inside_ns);
        self.uncounted_inside_ns = self.all_inside_ns;
        counted
    }

    /// When an epoch ends; never if nothing is learned.
    pub const fn ends_ns(&self) -> Nanos {
        if self.learns() { self.began_ns.saturating_add(self.length_ns) } else { Nanos::MAX }
    }

    #[inline]
    pub const fn is_due(&self, now: Nanos) -> bool {
        self.learns() && now >= self.began_ns.saturating_add(self.length_ns)
    }

    /// Whether something can be concluded from an epoch: somebody had to wait in it, for long enough. A reference of which that is not so
    /// let leaders in all the same, and is had again later.
    fn tells(&mut self, measured: Sum) -> bool {
        if !self.is_contended || self.length_ns == 0 {
            return false;
        }
        if self.resting_epochs > 0 {
            self.resting_epochs = self.resting_epochs.wrapping_sub(1);
            return false;
        }
        let is_long = measured.ns >= self.length_ns / LEAST_MEASURED;
        if !is_long && self.is_reference() {
            self.resting_epochs = RESTING_EPOCHS;
        }
        is_long
    }

    /// Ends the epoch.
    pub fn step(&mut self, now: Nanos, residence_ns: Nanos, request_ns: Nanos, jitter: u64) -> Step {
        let mut step = Step::None;
        let inside_ns = self.counted_inside();
        let measured = self.measured(now);
        if self.tells(measured) {
            let kind = usize::from(self.is_reference());
            self.learn_noise(now);
            let is_repeated = self.compare(kind, measured, inside_ns);
            if let Some(sum) = self.inside_ns.get_mut(kind) {
                *sum = sum.saturating_add(inside_ns);
            }
            if let Some(sum) = self.cycle.get_mut(kind) {
                sum.work = sum.work.saturating_add(measured.work);
                sum.ns = sum.ns.saturating_add(measured.ns);
                sum.all_ns = sum.all_ns.saturating_add(measured.all_ns);
            }
            self.epochs = self.epochs.wrapping_add(1);
            self.index = self.index.wrapping_add(u32::from(!is_repeated));
            step = Step::Epoch;
            if self.is_another && self.may_restart(now) {
                self.restart();
                step = Step::Restart;
            } else if self.index >= self.epochs_a_cycle() || self.is_hopeless() {
                step = self.end_cycle(now);
            }
        }
        self.begin_epoch(now, residence_ns, request_ns, jitter);
        step
    }

    /// Successive tests of one floor differ by chance; in a trial also because what the reference gave away is repaid.
    fn learn_noise(&mut self, now: Nanos) {
        if self.is_reference() || self.trial_from_q8 > 0 {
            self.last_test_rate = 0;
            return;
        }
        let rate = self.measured(now).rate();
        let before = core::mem::replace(&mut self.last_test_rate, rate);
        if before > 0 {
            let difference = (rate.abs_diff(before) << 16).checked_div(before).unwrap_or(0).min(ONE);
            self.differences = self.differences.wrapping_add(1).min(MOST_DIFFERENCES);
            let count = u64::from(self.differences);
            let sum = self.noise.saturating_mul(count.wrapping_sub(1)).wrapping_add(difference);
            self.noise = sum.checked_div(count).unwrap_or(difference);
        }
    }

    /// How much the error of a cycle scatters, in 256ths of what may be given.
    fn scatter(&self) -> i64 {
        let spare = self.aimed_loss();
        (self.noise.saturating_mul(ERROR_ONE.unsigned_abs())).checked_div(spare).unwrap_or(0).cast_signed()
    }

    /// Once references are many they remain so until they clearly need not be: with each change throughput is another one until the
    /// floor has followed.
    fn judge_noise(&mut self) {
        let (loud, noisy) = match self.noisy_epochs {
            LOUD_EPOCHS => (ERROR_ONE / 2, ERROR_ONE / 4),
            NOISY_EPOCHS => (ERROR_ONE * 3 / 4, ERROR_ONE / 4),
            _ => (ERROR_ONE * 3 / 4, ERROR_ONE * 3 / 8),
        };
        self.noisy_epochs = match self.scatter() {
            scatter if scatter > loud => LOUD_EPOCHS,
            scatter if scatter > noisy => NOISY_EPOCHS,
            _ => 0,
        };
    }

    fn begin_epoch(&mut self, now: Nanos, residence_ns: Nanos, request_ns: Nanos, jitter: u64) {
        let longest = if self.is_rotational { LONGEST_ON_DISK_NS } else { *EPOCH_NS.end() };
        let wanted = residence_ns.saturating_mul(RESIDENCES).max(request_ns.saturating_mul(REQUESTS));
        let length = wanted.clamp(*EPOCH_NS.start(), longest);
        // An eighth more or less, so that loads do not fall into step (12.5).
        self.length_ns = length.wrapping_sub(length / 8).wrapping_add((length / 4).saturating_mul(jitter % 256) / 256);
        self.began_ns = now;
        self.measured_from_ns = now.saturating_add(self.length_ns / 4);
        self.count_from_ns = self.measured_from_ns;
        (self.work, self.first_done_ns, self.last_done_ns) = (0, 0, 0);
        (self.contended_work, self.contended_until_ns) = (0, if self.is_idle { now } else { 0 });
        self.is_contended = self.is_idle;
    }

    /// What is to be lost on average, as a ratio: of what may be given an eighth is kept for noise.
    fn aimed_loss(&self) -> u64 {
        u64::from(self.give).saturating_mul(ONE).saturating_mul(7) / 800
    }

    /// What may be lost in tests, as a ratio: references lose nothing, so tests may lose a little more.
    fn spare(&self) -> u64 {
        let all = self.aimed_loss();
        let epochs = u64::from(self.epochs_a_cycle());
        let tests = epochs.saturating_sub(u64::from(self.references()));
        let in_tests = all.saturating_mul(epochs).checked_div(tests).unwrap_or(all);
        if self.phase == Phase::Slow { in_tests.max(1) } else { all.max(1) }
    }
}
