//! Learns the smallest queue depth that saturates a device: at this depth shares are exact and cost
//! no throughput.
//!
//! ```text
//! Watching ─ several tenants, busy ─► Searching ─ smallest depth found ─► Settled ─ now and then ─► Probing
//!     ▲  full depth                       bisection                          ▲ │ load changed          │ same
//!     └──────────────────────────────────────────────────────────────────────┼─┘                      │ or twice, or half
//!                                                                            └────────────────────────┘
//! ```
//! The scheduler cannot reorder a request that is in flight, so weights act only while requests are
//! queued, and requests are queued only if fewer than those outstanding may be in flight. The
//! throughput X(n) at n in flight rises to a knee and is flat behind it. The smallest n that
//! delivers the full depth's throughput to within about a per cent leaves the most requests queued,
//! for the scheduler to choose among. It is found by bisection: every candidate is compared with
//! the full depth in alternating epochs, so that disturbances of the machine affect both alike. A
//! comparison ends when the mean gain is further from the threshold than its standard error
//! explains (a sequential test, Wald 1945).
//!
//! The learner uses no clock and no device: it gets an [`Epoch`] of measurements at a time, and
//! [`Learner::limit`] is its result. It computes with integers only.

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};

/// A depth is sufficient if it delivers this fraction of the full depth's throughput, in parts per
/// million: within about 1 per cent, less the half per cent that the test needs to tell the
/// difference.
const SUFFICIENT_PPM: i64 = 985_000;
const WHOLE_PPM: i64 = 1_000_000;
/// The largest deviation from the threshold that one pair of epochs may contribute (Huber 1964): a
/// pause of the machine looks like a large loss and must not decide. The bound is wide against the
/// differences to be detected and narrow against a pause.
const DEVIATION_LIMIT_PPM: i64 = 50_000;
/// The fewest pairs of epochs with a meaningful standard error.
const MIN_PAIRS: i64 = 4;
/// Pairs after which a comparison ends: the mean decides if its standard error is at most a per
/// cent, otherwise the result is unknown. If single pairs scatter by ten per cent, this many pairs
/// detect a difference of one.
const MAX_PAIRS: i64 = 96;
const PRECISION_PPM: i128 = 10_000;
/// Square of the number of standard errors that decide, about 2.5: two would suffice for a single
/// test, but a comparison is tested after every pair.
const DECISIVE_SQUARED: i128 = 6;
/// The resolution of the answer is this fraction of it, because closer depths differ by less than
/// can be measured.
const RESOLUTION: u32 = 8;
/// The time from an answer to the first check of whether it still holds, and the longest time after
/// checks that confirmed it. A check takes about a tenth of a second, so at the longest interval it
/// costs a fraction of a per cent.
const FIRST_CHECK_INTERVAL_NS: Nanos = 2 * SECOND;
const LONGEST_CHECK_INTERVAL_NS: Nanos = 64 * SECOND;
/// After this many quiet epochs in a row the device counts as unused.
const QUIET_EPOCHS: u32 = 16;
/// Shortest and longest epoch. The shortest lasts a few time slices of the processor, the longest
/// as long as a slow device may need to complete any requests.
pub(crate) const SHORTEST_EPOCH_NS: Nanos = 10 * MILLISECOND;
pub(crate) const LONGEST_EPOCH_NS: Nanos = SECOND;
/// Fewest completions of an epoch: with these, one completion more or less changes the rate by no
/// more than pairs of epochs scatter anyway.
const MIN_COMPLETIONS: u32 = 64;
/// How often the requests in flight are replaced during an epoch, so that those that began before
/// it are a small fraction.
const REPLACEMENTS: u32 = 4;

/// Measurements under one limit, from one completion to another.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Epoch {
    /// Bytes moved, plus a page per request.
    pub work_bytes: u64,
    pub ios: u64,
    pub duration_ns: Nanos,
    /// Requests in flight on the device, integrated over time.
    pub in_flight_ns: u64,
    /// Unanswered requests, integrated over time.
    pub outstanding_ns: u64,
    /// Groups that had a request outstanding at least half of the time.
    pub competing_groups: u32,
    /// Upper bound of the mean residence time; 0 = none.
    pub latency_bound_ns: Nanos,
}

impl Epoch {
    fn rate(&self) -> u64 {
        per_second(self.work_bytes, self.duration_ns)
    }

    /// Mean number in flight, rounded up.
    fn population(&self) -> u32 {
        u32::try_from(self.in_flight_ns.div_ceil(self.duration_ns.max(1))).unwrap_or(u32::MAX)
    }

    /// Mean residence time in the device (Little's law).
    fn residence_ns(&self) -> Nanos {
        self.in_flight_ns / self.ios.max(1)
    }

    /// Whether the device is used by fewer than two groups, or not kept busy.
    fn is_quiet(&self) -> bool {
        self.competing_groups < 2 || self.in_flight_ns < self.duration_ns / 2
    }
}

fn per_second(amount: u64, duration_ns: Nanos) -> u64 {
    u64::try_from(u128::from(amount) * u128::from(SECOND) / u128::from(duration_ns.max(1))).unwrap_or(u64::MAX)
}

/// The number of completions in an epoch under a limit.
pub(crate) fn completions_of_epoch(limit: u32) -> u32 {
    limit.saturating_mul(REPLACEMENTS).max(MIN_COMPLETIONS)
}

/// A comparison of a depth with a deeper one.
#[derive(Copy, Clone, Debug)]
struct Trial {
    candidate: u32,
    reference: u32,
    is_candidates_turn: bool,
    /// Rates of the last reference and candidate epochs.
    reference_rate: Option<u64>,
    candidate_rate: Option<u64>,
    /// The number of pairs, and the sums of the candidate's excess over the threshold and of its
    /// squares.
    pairs: i64,
    sum_ppm: i64,
    squares_ppm: i128,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Verdict {
    Enough,
    TooFew,
    /// The measurements scatter too much for a decision.
    Unknown,
}

impl Trial {
    const fn new(candidate: u32, reference: u32) -> Self {
        Self {
            candidate,
            reference,
            is_candidates_turn: false,
            reference_rate: None,
            candidate_rate: None,
            pairs: 0,
            sum_ppm: 0,
            squares_ppm: 0,
        }
    }

    fn limit(&self) -> u32 {
        if self.is_candidates_turn { self.candidate } else { self.reference }
    }

    /// Takes an epoch of the depth whose turn it was. A candidate's epoch is compared with the
    /// reference epochs before and after it, so that a drift of the device cancels out.
    fn step(&mut self, rate: u64) -> Option<Verdict> {
        let was_candidates = self.is_candidates_turn;
        self.is_candidates_turn = !was_candidates;
        if was_candidates {
            self.candidate_rate = Some(rate);
            return None;
        }
        let before = self.reference_rate.replace(rate);
        if let (Some(before), Some(held)) = (before, self.candidate_rate) {
            let both = u128::from(before) + u128::from(rate);
            let gain = u128::from(held) * 2 * u128::from(WHOLE_PPM.unsigned_abs()) / both.max(1);
            let gain = i64::try_from(gain).unwrap_or(i64::MAX);
            self.add((gain - SUFFICIENT_PPM).clamp(-DEVIATION_LIMIT_PPM, DEVIATION_LIMIT_PPM));
        }
        self.verdict()
    }

    fn add(&mut self, above_ppm: i64) {
        self.pairs += 1;
        self.sum_ppm += above_ppm;
        self.squares_ppm += i128::from(above_ppm) * i128::from(above_ppm);
    }

    fn verdict(&self) -> Option<Verdict> {
        if self.pairs < MIN_PAIRS {
            return None;
        }
        let (pairs, sum) = (i128::from(self.pairs), i128::from(self.sum_ppm));
        // mean^2 > decisive^2 * variance / pairs, without a division.
        let scatter = self.squares_ppm * pairs - sum * sum;
        let by_mean = if sum > 0 { Verdict::Enough } else { Verdict::TooFew };
        if sum * sum * (pairs - 1) > DECISIVE_SQUARED * scatter {
            return Some(by_mean);
        }
        let is_known = scatter <= PRECISION_PPM * PRECISION_PPM * pairs * pairs * (pairs - 1);
        (self.pairs >= MAX_PAIRS).then_some(if is_known { by_mean } else { Verdict::Unknown })
    }
}

#[derive(Copy, Clone, Debug)]
enum State {
    /// The full depth is in force; nothing is known about this load.
    Watching,
    /// `low` is too few, `high` is enough; `population` is the mean number in flight at full depth.
    Searching { low: u32, high: u32, population: u32, trial: Trial },
    /// The answer is in force until the next check.
    Settled { rest_ns: Nanos },
    /// Tests whether a larger depth is now faster, or a smaller one as fast.
    Probing { trial: Trial },
}

/// Properties of the load when the depth was learned.
#[derive(Copy, Clone, Debug, Default)]
struct Load {
    rate: u64,
    outstanding_milli: u64,
}

impl Load {
    fn of(epoch: &Epoch) -> Self {
        let outstanding_milli = epoch.outstanding_ns.saturating_mul(1_000) / epoch.duration_ns.max(1);
        Self { rate: epoch.rate(), outstanding_milli }
    }

    /// Updates the mean, which covers about the last eight epochs.
    fn follow(&mut self, epoch: &Epoch) {
        let now = Self::of(epoch);
        let follow = |mean: &mut u64, now: u64| *mean = *mean - *mean / 8 + now / 8;
        follow(&mut self.rate, now.rate);
        follow(&mut self.outstanding_milli, now.outstanding_milli);
    }

    /// Whether the load is less than half or more than twice the other: the knee of one says
    /// nothing about the other.
    fn is_another(&self, other: &Load) -> bool {
        let is_far = |a: u64, b: u64| a.max(b) / 2 > a.min(b);
        is_far(self.rate, other.rate) || is_far(self.outstanding_milli, other.outstanding_milli)
    }
}

/// The state of learning the depth.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DepthState {
    /// The device is not kept busy, or there is only one tenant: the full depth is given.
    Idle,
    /// The smallest sufficient depth is being searched for.
    Learning,
    /// This number in flight delivers within about a per cent of the full depth's throughput.
    Saturated(u32),
    /// No smaller number than the load has in flight would deliver as much.
    Unsaturated,
    /// The depth was given; nothing is measured.
    Fixed,
}

/// Learns the depth of one device.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    full: u32,
    /// The largest depth that `lat_us` permits.
    latency_cap: u32,
    /// The depth in force while the answer holds.
    found: u32,
    state: State,
    learned: Load,
    recent: Load,
    /// The time to the next check.
    check_interval_ns: Nanos,
    quiet: u32,
}

impl Learner {
    pub fn new(full: u32) -> Self {
        Self {
            full,
            latency_cap: full,
            found: full,
            state: State::Watching,
            learned: Load::default(),
            recent: Load::default(),
            check_interval_ns: FIRST_CHECK_INTERVAL_NS,
            quiet: 0,
        }
    }

    /// The number of requests that the device is given at a time.
    pub fn limit(&self) -> u32 {
        let limit = match &self.state {
            State::Watching => self.full,
            State::Searching { trial, .. } | State::Probing { trial } => trial.limit(),
            State::Settled { .. } => self.found,
        };
        limit.min(self.latency_cap).max(1)
    }

    pub fn depth_state(&self) -> DepthState {
        match self.state {
            State::Watching => DepthState::Idle,
            State::Searching { .. } => DepthState::Learning,
            State::Settled { .. } | State::Probing { .. } if self.found < self.full => {
                DepthState::Saturated(self.found)
            }
            State::Settled { .. } | State::Probing { .. } => DepthState::Unsaturated,
        }
    }

    /// Takes an epoch that ended under [`Learner::limit`].
    pub fn step(&mut self, epoch: &Epoch) {
        self.apply_latency_bound(epoch);
        self.quiet = if epoch.is_quiet() { self.quiet + 1 } else { 0 };
        if self.quiet > 0 {
            // A comparison is void if the device was quiet during one of its epochs.
            let is_over = !matches!(self.state, State::Settled { .. }) || self.quiet >= QUIET_EPOCHS;
            if is_over {
                self.watch();
            }
            return;
        }
        match self.state {
            State::Watching => self.search(epoch),
            State::Searching { low, high, population, mut trial } => {
                let (low, high) = match trial.step(epoch.rate()) {
                    None => return self.state = State::Searching { low, high, population, trial },
                    Some(Verdict::Enough) => (low, trial.candidate),
                    Some(Verdict::TooFew | Verdict::Unknown) => (trial.candidate, high),
                };
                self.narrow(low, high, population, epoch);
            }
            State::Settled { rest_ns } => {
                self.recent.follow(epoch);
                if self.recent.is_another(&self.learned) {
                    self.watch();
                } else if rest_ns > epoch.duration_ns {
                    self.state = State::Settled { rest_ns: rest_ns - epoch.duration_ns };
                } else {
                    self.probe_deeper(epoch);
                }
            }
            State::Probing { mut trial } => {
                let Some(verdict) = trial.step(epoch.rate()) else { return self.state = State::Probing { trial } };
                let is_down = trial.reference == self.found;
                match (verdict, is_down) {
                    // The full depth was in force because no smaller one sufficed. Now a smaller
                    // one does, and the smallest has to be searched for again.
                    (Verdict::Enough, true) if self.found == self.full => self.watch(),
                    (Verdict::Enough, true) => self.settle(trial.candidate, FIRST_CHECK_INTERVAL_NS, epoch),
                    (Verdict::TooFew, false) => self.settle(trial.reference, FIRST_CHECK_INTERVAL_NS, epoch),
                    (_, false) => self.probe_shallower(epoch),
                    (_, true) => self.keep_until_check((self.check_interval_ns * 2).min(LONGEST_CHECK_INTERVAL_NS)),
                }
            }
        }
    }

    fn watch(&mut self) {
        self.state = State::Watching;
        self.found = self.full;
        self.check_interval_ns = FIRST_CHECK_INTERVAL_NS;
    }

    fn search(&mut self, epoch: &Epoch) {
        // The search begins at twice the mean number in flight, because the load exceeds the mean
        // about half of the time.
        let population = epoch.population();
        self.narrow(0, population.saturating_mul(2).min(self.full), population, epoch);
    }

    /// Chooses the next candidate between `low` and `high`, or settles.
    fn narrow(&mut self, low: u32, high: u32, population: u32, epoch: &Epoch) {
        let candidate = (low + high) / 2;
        if candidate > low && high - low > high / RESOLUTION {
            let trial = Trial::new(candidate, self.full);
            self.state = State::Searching { low, high, population, trial };
            return;
        }
        // A limit hardly below the number that the load has in flight leaves almost nothing queued,
        // and would slow the load down when it grows.
        let found = if high <= population - population / RESOLUTION { high } else { self.full };
        self.settle(found, FIRST_CHECK_INTERVAL_NS, epoch);
    }

    /// Keeps a depth for a while. `epoch` was measured under a depth with the same throughput.
    fn settle(&mut self, found: u32, rest_ns: Nanos, epoch: &Epoch) {
        self.found = found;
        self.learned = Load::of(epoch);
        self.recent = self.learned;
        self.keep_until_check(rest_ns);
    }

    fn keep_until_check(&mut self, rest_ns: Nanos) {
        self.check_interval_ns = rest_ns;
        self.state = State::Settled { rest_ns };
    }

    /// Tests whether twice the depth is faster, and then whether half of it is as fast. The full depth
    /// is not tried, so that shares are kept meanwhile: on a concave curve X(n), if doubling gains
    /// nothing, the full depth gains little.
    fn probe_deeper(&mut self, epoch: &Epoch) {
        if self.found == self.full {
            return self.probe_shallower(epoch);
        }
        let trial = Trial::new(self.found, self.found.saturating_mul(2).min(self.full));
        self.state = State::Probing { trial };
    }

    fn probe_shallower(&mut self, epoch: &Epoch) {
        let in_force = if self.found == self.full { epoch.population() } else { self.found };
        match in_force / 2 {
            0 => self.keep_until_check(LONGEST_CHECK_INTERVAL_NS),
            half => self.state = State::Probing { trial: Trial::new(half, self.found) },
        }
    }

    /// Limits the depth so that the mean residence time stays below the bound: residence is
    /// proportional to the number in flight once the device is busy (Little's law). The limit is
    /// raised again one by one, as in TCP Vegas.
    fn apply_latency_bound(&mut self, epoch: &Epoch) {
        let (bound, residence) = (epoch.latency_bound_ns, epoch.residence_ns());
        if bound == 0 || epoch.ios == 0 {
            self.latency_cap = self.full;
        } else if residence > bound {
            let permitted = u64::from(epoch.population().min(self.limit())) * bound / residence.max(1);
            self.latency_cap = u32::try_from(permitted).unwrap_or(u32::MAX).clamp(1, self.full);
        } else if epoch.population() >= self.latency_cap {
            self.latency_cap = (self.latency_cap + 1).min(self.full);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::random::Stream;

    /// A simulated device given by its curve: requests per second at a number in flight.
    struct Bench {
        learner: Learner,
        curve: Box<dyn Fn(f64) -> f64>,
        outstanding: u32,
        competing_groups: u32,
        noise: f64,
        random: Stream,
        latency_bound_ns: Nanos,
        elapsed_ns: Nanos,
        got: f64,
    }

    impl Bench {
        fn new(full: u32, outstanding: u32, noise: f64, curve: impl Fn(f64) -> f64 + 'static) -> Self {
            let (learner, random) = (Learner::new(full), Stream::of(7, "depth"));
            let curve = Box::new(curve);
            Self {
                learner,
                curve,
                outstanding,
                competing_groups: 2,
                noise,
                random,
                latency_bound_ns: 0,
                elapsed_ns: 0,
                got: 0.0,
            }
        }

        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates of a test")]
        fn epoch(&mut self) {
            let in_flight = f64::from(self.outstanding.min(self.learner.limit()));
            // Nearly normal: the sum of twelve uniform numbers.
            let normal: f64 = (0..12).map(|_| self.random.below(1_000_000) as f64 / 1e6).sum::<f64>() - 6.0;
            let rate = (self.curve)(in_flight) * (1.0 + self.noise * normal).max(0.01);
            let needed = f64::from(completions_of_epoch(self.learner.limit()));
            let duration_ns = ((needed / rate * 1e9) as Nanos).clamp(SHORTEST_EPOCH_NS, LONGEST_EPOCH_NS);
            let ios = (rate * duration_ns as f64 / 1e9) as u64;
            self.elapsed_ns += duration_ns;
            self.got += ios as f64;
            self.learner.step(&Epoch {
                work_bytes: ios * 8_192,
                ios,
                duration_ns,
                in_flight_ns: in_flight as u64 * duration_ns,
                outstanding_ns: u64::from(self.outstanding) * duration_ns,
                competing_groups: self.competing_groups,
                latency_bound_ns: self.latency_bound_ns,
            });
        }

        fn run(&mut self, seconds: u64) {
            let end_ns = self.elapsed_ns + seconds * SECOND;
            while self.elapsed_ns < end_ns {
                self.epoch();
            }
        }

        /// The fraction of the full depth's throughput that the answer delivers.
        fn part(&self) -> f64 {
            let at = |limit: u32| (self.curve)(f64::from(limit.min(self.outstanding)));
            at(self.learner.found) / at(self.learner.full)
        }
    }

    fn sharp(capacity: f64, latency_s: f64) -> impl Fn(f64) -> f64 {
        move |in_flight| (in_flight / latency_s).min(capacity)
    }

    fn soft(capacity: f64, half: f64) -> impl Fn(f64) -> f64 {
        move |in_flight| capacity * in_flight / (in_flight + half)
    }

    #[test]
    fn a_sharp_knee_is_found_to_an_eighth() {
        for knee in [1_u32, 2, 5, 8, 13, 24, 40] {
            let mut bench = Bench::new(128, 64, 0.0, sharp(f64::from(knee) * 1e4, 1e-4));
            bench.run(4);
            let found = bench.learner.found;
            assert!(found >= knee && found <= knee + knee / 8 + 1, "knee {knee}: {found}");
            assert_eq!(bench.learner.depth_state(), DepthState::Saturated(found));
        }
    }

    #[test]
    fn a_soft_knee_loses_about_a_per_cent_at_most() {
        for half in [0.5, 2.0, 7.0, 31.0] {
            let mut bench = Bench::new(128, 100, 0.0, soft(1e5, half));
            bench.run(8);
            assert!(bench.part() >= 0.984, "half {half}: {} of {:.3}", bench.learner.found, bench.part());
        }
    }

    #[test]
    fn noise_costs_time_but_little_throughput() {
        for (noise, least) in [(0.01, 0.975), (0.03, 0.965), (0.06, 0.95)] {
            let mut bench = Bench::new(128, 64, noise, sharp(1e5, 1e-4));
            bench.run(30);
            assert!(bench.part() >= least, "noise {noise}: {} gives {:.3}", bench.learner.found, bench.part());
            assert!(bench.learner.found <= 32, "noise {noise}: {}", bench.learner.found);
        }
    }

    #[test]
    fn an_unsaturated_device_keeps_the_full_depth() {
        let mut bench = Bench::new(128, 20, 0.01, sharp(1e6, 1e-4));
        bench.run(10);
        assert_eq!((bench.learner.found, bench.learner.depth_state()), (128, DepthState::Unsaturated));
    }

    #[test]
    fn one_tenant_is_never_limited() {
        let mut bench = Bench::new(128, 64, 0.0, sharp(8e4, 1e-4));
        bench.competing_groups = 1;
        for _ in 0..1_000 {
            bench.epoch();
            assert_eq!(bench.learner.limit(), 128);
        }
    }

    #[test]
    fn the_full_depth_returns_when_the_load_ends() {
        let mut bench = Bench::new(128, 64, 0.0, sharp(8e4, 1e-4));
        bench.run(4);
        assert_eq!(bench.learner.found, 8);
        bench.competing_groups = 1;
        bench.run(1);
        assert_eq!((bench.learner.limit(), bench.learner.depth_state()), (128, DepthState::Idle));
    }

    #[test]
    fn a_device_that_gets_slower_or_faster_is_learned_again() {
        let mut bench = Bench::new(128, 64, 0.005, sharp(8e4, 1e-4));
        bench.run(4);
        assert_eq!(bench.learner.found, 8);
        bench.curve = Box::new(sharp(2.4e5, 1e-4));
        bench.run(20);
        assert!((24..=32).contains(&bench.learner.found), "{}", bench.learner.found);
        bench.curve = Box::new(sharp(4e4, 1e-4));
        bench.run(20);
        assert!((4..=6).contains(&bench.learner.found), "{}", bench.learner.found);
    }

    #[test]
    fn learning_costs_little_of_a_minute() {
        let mut bench = Bench::new(128, 64, 0.01, sharp(8e4, 1e-4));
        bench.run(60);
        let part = bench.got / (8e4 * bench.elapsed_ns as f64 / 1e9);
        assert!(part > 0.985, "{part:.4}");
    }

    #[test]
    fn the_residence_stays_below_its_bound() {
        let mut bench = Bench::new(128, 64, 0.0, sharp(8e4, 1e-4));
        // A residence time of 200 us corresponds to 16 in flight.
        bench.latency_bound_ns = 200_000;
        for _ in 0..20 {
            bench.epoch();
        }
        for _ in 0..500 {
            bench.epoch();
            assert!(bench.learner.limit() <= 17, "{}", bench.learner.limit());
        }
        bench.latency_bound_ns = 0;
        bench.competing_groups = 1;
        bench.run(1);
        assert_eq!(bench.learner.limit(), 128);
    }
}
