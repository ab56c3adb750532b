//! Learns the floor: while fewer requests than this are in flight, tenants that lead are served as
//! well. It compares the throughput of held epochs, in which tenants that lead are held back, with
//! that of reference epochs, in which more requests may be in flight, so that tenants that lead are
//! served as well.
//!
//! At first the controller assumes that exact shares cost no throughput. They are given up only
//! when the loss of throughput exceeds `give` significantly, by a sequence of t-tests at doubling
//! sample sizes. Then the smallest floor that keeps the loss at `give` is found by bisection and
//! tracked.
//!
//! While shares are exact, a reference epoch has a quarter more requests in flight than a held one.
//! The throughput of a balanced closed network of `d` queues with `n` requests is proportional to
//! n / (n + d - 1) (Lazowska et al., Quantitative System Performance, 1984, section 5.4), so what is
//! lost against n (1 + x) is at least x / (1 + x) of what is lost against any number. A reference
//! without a bound would put all that the tenants have into the device, where their requests are then
//! served without regard to weights. The extra number x is doubled only when this does not decide the
//! question. The controller is a pure function of epochs: an epoch's results come in, the next
//! setting comes out. Ratios have 16 fractional bits, numbers of requests 8.

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// One, as a ratio.
const ONE: i64 = 1 << 16;
/// One request.
pub const REQUEST: u32 = 1 << 8;
/// No tenant is held back.
pub const UNLIMITED: u32 = u32::MAX;
/// The shortest epoch. Epochs are longer by up to half, at random, so that no periodic load locks
/// step with them.
const EPOCH_NS: Nanos = 5 * MILLISECOND;
/// After a reference epoch, the lead that tenants gained in it is repaid for this many times its
/// length, and nothing is measured; the second value is for the longest such period, used while
/// nothing changes.
const REPAYING: u64 = 8;
const LONGEST_REPAYING: u64 = 64;
/// Pairs of epochs before the first test.
const LEAST_PAIRS: i64 = 4;
/// From this number of pairs on, old evidence decays, because loads and devices drift.
const MOST_PAIRS: i64 = 64;
/// A loss so large that later pairs are unlikely to change the decision. The repaying period after
/// it is only as long as the reference epoch.
const CLEARLY: i64 = ONE / 4;
/// Held epochs per reference epoch while a floor is tracked.
const HELD_EPOCHS: u32 = 11;
/// Steps of a tracked floor are divided by at most this plus one, so that a drift can be followed.
const MOST_TURNS: i64 = 31;
/// The controller restarts after this many consecutive reference epochs that differ from the usual
/// ones.
const ODD_REFERENCES: u8 = 2;

/// The results of an epoch.
#[derive(Copy, Clone, Debug)]
pub struct Epoch {
    /// Work done while a tenant led, in bytes; the next field is how long that was, in ns.
    pub work: u64,
    pub ns: Nanos,
    /// Length of the epoch from its start.
    pub length_ns: Nanos,
    /// Mean number of requests in flight.
    pub in_flight_q8: u32,
    /// Tenants that are backlogged, in flight or expected back.
    pub tenants: u32,
}

#[derive(Copy, Clone, Default, Debug)]
struct Sum {
    work: u64,
    ns: Nanos,
}

impl Sum {
    const NONE: Sum = Sum { work: 0, ns: 0 };

    fn add(&mut self, epoch: Epoch) {
        self.work = self.work.saturating_add(epoch.work);
        self.ns = self.ns.saturating_add(epoch.ns);
    }

    /// Rate in bytes per 2^24 ns.
    fn rate(self) -> i64 {
        let rate = (self.work.min(1 << 39) << 24).checked_div(self.ns).unwrap_or(0);
        i64::try_from(rate.min(1 << 44)).unwrap_or(0)
    }
}

/// The question that the controller is answering.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Do exact shares cost more than `give`?
    Exact,
    /// They do: bisection for the floor that costs `give`.
    Search,
    /// Is that floor still right?
    Track,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    Held,
    Reference,
    Repaying,
}

/// Relative losses of pairs of epochs.
#[derive(Copy, Clone, Debug)]
struct Evidence {
    pairs: i64,
    sum: i64,
    squares: i64,
}

impl Evidence {
    const NONE: Evidence = Evidence { pairs: 0, sum: 0, squares: 0 };

    fn add(&mut self, loss: i64) {
        if self.pairs >= MOST_PAIRS {
            (self.pairs, self.sum, self.squares) = (self.pairs / 2, self.sum / 2, self.squares / 2);
        }
        self.pairs = self.pairs.wrapping_add(1);
        self.sum = self.sum.wrapping_add(loss);
        self.squares = self.squares.wrapping_add(loss.wrapping_mul(loss));
    }

    fn mean(&self) -> i64 {
        self.sum.checked_div(self.pairs).unwrap_or(0)
    }

    /// Tests at doubling sample sizes, so that the same data is tested few times.
    const fn is_test_due(&self) -> bool {
        self.pairs >= LEAST_PAIRS && self.pairs & self.pairs.wrapping_sub(1) == 0
    }

    /// Whether the mean is significantly above `bound`, by Student's t-test.
    fn is_above(&self, bound: i64) -> bool {
        let pairs = self.pairs;
        let mean = self.mean();
        let spread = self.squares.checked_div(pairs).unwrap_or(0).saturating_sub(mean.saturating_mul(mean)).max(0);
        let variance = spread.saturating_mul(pairs).checked_div(pairs.saturating_sub(1)).unwrap_or(0);
        let difference = mean.saturating_sub(bound);
        // Nine is the square of three standard errors; the fraction widens it for small samples.
        let wide = variance.saturating_mul(9).saturating_mul(pairs.saturating_add(1));
        let most = wide.checked_div(pairs.saturating_sub(2)).unwrap_or(i64::MAX);
        difference > 0 && difference.saturating_mul(difference).saturating_mul(pairs) > most
    }
}

/// What reference epochs usually look like.
#[derive(Copy, Clone, Debug)]
struct Usual {
    rate: i64,
    in_flight_q8: u32,
    tenants: u32,
    odd: u8,
}

impl Usual {
    const UNKNOWN: Usual = Usual { rate: 0, in_flight_q8: 0, tenants: 0, odd: 0 };

    /// Whether load or device have changed: [`ODD_REFERENCES`] reference epochs in a row differ
    /// from the usual ones in rate, number in flight or tenants.
    fn is_another(&mut self, rate: i64, epoch: Epoch) -> bool {
        if self.rate == 0 {
            *self = Usual { rate, in_flight_q8: epoch.in_flight_q8, tenants: epoch.tenants, odd: 0 };
            return false;
        }
        let (slow, fast) = (self.rate.min(rate), self.rate.max(rate));
        let is_odd = fast.saturating_mul(5) > slow.saturating_mul(9)
            || epoch.in_flight_q8.abs_diff(self.in_flight_q8) > self.in_flight_q8 / 4 + REQUEST / 2
            || epoch.tenants != self.tenants;
        if is_odd {
            self.odd = self.odd.saturating_add(1);
            return self.odd >= ODD_REFERENCES;
        }
        self.odd = 0;
        self.rate = self.rate.saturating_add(rate.saturating_sub(self.rate) / 4);
        self.in_flight_q8 =
            self.in_flight_q8.saturating_sub(self.in_flight_q8 / 4).saturating_add(epoch.in_flight_q8 / 4);
        false
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Per cent of throughput that may be spent on shares.
    give: u8,
    phase: Phase,
    kind: Kind,
    floor_q8: u32,
    /// Bisection interval: a floor that is too low, and one that is high enough.
    low_q8: u32,
    high_q8: u32,
    /// Mean number in flight with exact shares, and with no tenant held back.
    exact_q8: u32,
    full_q8: u32,
    /// By how many quarters of `exact_q8` a reference epoch has more in flight while shares are exact.
    extra_quarters: u32,
    held_epochs: u32,
    held: Sum,
    reference: Sum,
    evidence: Evidence,
    usual: Usual,
    /// While tracking: sign of the last error, and how often it changed recently.
    was_below: bool,
    turns: i64,
    last_loss: i64,
    /// The repaying period in lengths of a reference, and in ns.
    repaying: u64,
    repaying_ns: Nanos,
    /// By how much the present epoch is lengthened.
    jitter_q8: u64,
    restarts: u32,
}

impl Controller {
    pub const fn new(give: u8) -> Self {
        Self {
            give,
            phase: Phase::Exact,
            kind: Kind::Held,
            floor_q8: 0,
            low_q8: 0,
            high_q8: 0,
            exact_q8: 0,
            full_q8: 0,
            extra_quarters: 1,
            held_epochs: 0,
            held: Sum::NONE,
            reference: Sum::NONE,
            evidence: Evidence::NONE,
            usual: Usual::UNKNOWN,
            was_below: false,
            turns: 0,
            last_loss: 0,
            repaying: REPAYING,
            repaying_ns: 0,
            jitter_q8: 0,
            restarts: 0,
        }
    }

    /// Whether anything is learned at all (`give` is neither 0 nor 100).
    pub const fn learns(&self) -> bool {
        self.give > 0 && self.give < 100
    }

    pub const fn phase(&self) -> Phase {
        self.phase
    }

    pub const fn restarts(&self) -> u32 {
        self.restarts
    }

    /// The last loss, in 65536ths.
    pub const fn loss(&self) -> i64 {
        self.last_loss
    }

    pub const fn learned_floor_q8(&self) -> u32 {
        self.floor_q8
    }

    /// The floor: while fewer requests than this are in flight, tenants that lead are served as
    /// well.
    pub fn floor_q8(&self) -> u32 {
        match (self.give, self.kind) {
            (0, _) => UNLIMITED,
            (100.., _) => 0,
            (_, Kind::Reference) => self.reference_q8(),
            _ => self.floor_q8,
        }
    }

    /// The floor of reference epochs.
    fn reference_q8(&self) -> u32 {
        if self.phase != Phase::Exact {
            return UNLIMITED;
        }
        let exact_q8 = self.exact_q8.max(REQUEST);
        exact_q8.saturating_add((exact_q8 / 4).saturating_mul(self.extra_quarters))
    }

    /// Whether the last reference epoch held back next to nothing: fewer requests were in flight than
    /// it allowed.
    fn is_reference_whole(&self) -> bool {
        self.full_q8 < self.reference_q8() / 4 * 3
    }

    /// Whether the lead that tenants gained in the last reference epoch is being repaid.
    pub const fn is_repaying(&self) -> bool {
        matches!(self.kind, Kind::Repaying)
    }

    /// Whether the present epoch is measured, and its length.
    pub const fn setting(&self) -> (bool, Nanos) {
        match self.kind {
            Kind::Repaying => (false, self.repaying_ns),
            _ => (true, EPOCH_NS.saturating_add(EPOCH_NS.saturating_mul(self.jitter_q8) >> 9)),
        }
    }

    /// The loss that `give` allows, as the difference of two rates over their mean, if `held` of
    /// `of` epochs are held epochs.
    ///
    /// While a floor is tracked, an eighth of `give` is kept as a margin: throughput is a concave
    /// function of the floor, so noise in the floor costs throughput.
    fn bound(&self, held: i64, of: i64) -> i64 {
        let give = ONE.saturating_mul(i64::from(self.give)) / 100;
        let give = if self.phase == Phase::Track { give / 8 * 7 } else { give };
        let give = give.saturating_mul(of).checked_div(held).unwrap_or(give);
        give.saturating_add(give.saturating_mul(give) / ONE / 2)
    }

    /// Processes an epoch that ended; `random` is any number.
    pub fn step(&mut self, epoch: Epoch, random: u64) {
        self.jitter_q8 = random % 256;
        match self.kind {
            Kind::Repaying => self.kind = Kind::Held,
            Kind::Held => {
                self.held.add(epoch);
                if self.phase == Phase::Exact {
                    self.exact_q8 = epoch.in_flight_q8;
                }
                self.held_epochs = self.held_epochs.wrapping_add(1);
                let wanted = if self.phase == Phase::Track { HELD_EPOCHS } else { 1 };
                if self.held_epochs >= wanted {
                    self.kind = Kind::Reference;
                }
            }
            Kind::Reference => {
                self.reference.add(epoch);
                self.full_q8 = epoch.in_flight_q8;
                if self.phase == Phase::Search && self.high_q8 == UNLIMITED {
                    self.begin_bisection(epoch);
                } else {
                    self.end_cycle(epoch);
                }
            }
        }
    }

    fn end_cycle(&mut self, epoch: Epoch) {
        let (held, reference) = (self.held.rate(), self.reference.rate());
        (self.held, self.reference, self.held_epochs) = (Sum::NONE, Sum::NONE, 0);
        self.kind = if self.phase == Phase::Exact { Kind::Repaying } else { Kind::Held };
        self.repaying_ns = epoch.length_ns.saturating_mul(self.repaying);
        if self.usual.is_another(reference, epoch) {
            self.restart();
            return;
        }
        let difference = reference.saturating_sub(held).saturating_mul(2 * ONE);
        let loss = difference.checked_div(reference.saturating_add(held)).unwrap_or(0);
        self.last_loss = loss;
        match self.phase {
            Phase::Exact => self.judge(loss),
            Phase::Search => self.bisect(loss),
            Phase::Track => self.track(loss),
        }
    }

    fn judge(&mut self, loss: i64) {
        self.evidence.add(loss);
        let bound = self.bound(1, 1);
        let quarters = i64::from(self.extra_quarters);
        let seen = bound.saturating_mul(quarters).checked_div(quarters.saturating_add(4)).unwrap_or(bound);
        let cheap = if self.is_reference_whole() { bound } else { seen };
        if loss > CLEARLY {
            // A long repaying period would only delay the decision, which is near.
            self.repaying_ns = self.repaying_ns.checked_div(self.repaying).unwrap_or(0);
        }
        if !self.evidence.is_test_due() {
            return;
        }
        if self.evidence.is_above(bound) {
            self.phase = Phase::Search;
            (self.low_q8, self.high_q8) = (self.exact_q8, UNLIMITED);
            self.kind = Kind::Reference;
        } else if self.evidence.mean() <= cheap {
            // Repaying periods grow only while shares look cheap, so that expensive shares are tested often.
            self.repaying = self.repaying.saturating_mul(2).min(LONGEST_REPAYING);
        } else if !self.is_reference_whole() {
            self.extra_quarters = self.extra_quarters.saturating_mul(2);
            (self.evidence, self.usual) = (Evidence::NONE, Usual::UNKNOWN);
        }
    }

    /// The first reference epoch without a bound has ended, so that the interval is known.
    fn begin_bisection(&mut self, epoch: Epoch) {
        (self.held, self.reference, self.held_epochs) = (Sum::NONE, Sum::NONE, 0);
        self.kind = Kind::Held;
        self.usual = Usual::UNKNOWN;
        self.high_q8 = epoch.in_flight_q8.max(self.exact_q8);
        self.aim();
    }

    /// Sets the floor to the middle of the interval, and begins to track it if the interval is too
    /// small for bisection.
    fn aim(&mut self) {
        self.evidence = Evidence::NONE;
        let width = self.high_q8.saturating_sub(self.low_q8);
        self.floor_q8 = self.low_q8.saturating_add(width / 2);
        if width <= REQUEST.max(self.high_q8 / 8) {
            (self.phase, self.turns) = (Phase::Track, 0);
        }
    }

    fn bisect(&mut self, loss: i64) {
        self.evidence.add(loss);
        let bound = self.bound(1, 1);
        if self.evidence.pairs < LEAST_PAIRS {
            return;
        }
        if self.evidence.mean() > bound {
            self.low_q8 = self.floor_q8;
        } else {
            self.high_q8 = self.floor_q8;
        }
        self.aim();
    }

    /// Throughput is a concave function of the number in flight, so its elasticity is at most one,
    /// and a step proportional to the error does not overshoot.
    ///
    /// Errors that change sign are noise, so each change shortens the steps (Kesten 1958).
    fn track(&mut self, loss: i64) {
        let held = i64::from(HELD_EPOCHS);
        let error = loss.saturating_sub(self.bound(held, held.saturating_add(1)));
        let error = error.clamp(-ONE, ONE);
        let has_turned = (error < 0) != core::mem::replace(&mut self.was_below, error < 0);
        self.turns =
            if has_turned { self.turns.saturating_add(2).min(MOST_TURNS) } else { self.turns.saturating_sub(1).max(0) };
        let divisor = ONE.saturating_mul(self.turns.saturating_add(1));
        let step = i64::from(self.floor_q8).saturating_mul(error).checked_div(divisor).unwrap_or(0);
        let most = self.full_q8.saturating_add(self.full_q8 / 4).saturating_add(REQUEST);
        let floor = i64::from(self.floor_q8).saturating_add(step).clamp(0, i64::from(most));
        self.floor_q8 = u32::try_from(floor).unwrap_or(0);
        if self.floor_q8 < self.exact_q8 {
            // A floor below the number in flight with exact shares has no effect.
            self.begin_exact();
        }
    }

    fn begin_exact(&mut self) {
        self.phase = Phase::Exact;
        self.kind = Kind::Repaying;
        self.floor_q8 = 0;
        self.extra_quarters = 1;
        self.evidence = Evidence::NONE;
        self.repaying = REPAYING;
    }

    /// Starts again: load or device have changed.
    pub fn restart(&mut self) {
        self.usual = Usual::UNKNOWN;
        self.begin_exact();
        self.restarts = self.restarts.wrapping_add(1);
    }

    pub fn set_give(&mut self, give: u8) {
        self.give = give;
        self.restart();
        self.kind = Kind::Held;
    }
}
