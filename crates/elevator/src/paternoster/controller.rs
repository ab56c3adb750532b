//! Learns the window: while less work than this is in flight, tenants that lead are served as well. It
//! compares the throughput of held epochs, in which tenants that lead are held back, with that of
//! reference epochs, which have a wider window. Throughput and windows are in work: a request's bytes and
//! its [`Price`].
//!
//! At first the controller assumes that exact shares cost no throughput. They are given up only
//! when the loss of throughput exceeds `give` significantly, by a sequence of t-tests at doubling
//! sample sizes. Then the narrowest window that keeps the loss at `give` is found by bisection and
//! tracked.
//!
//! While shares are exact, a reference epoch has a quarter more work in flight than a held one.
//! The throughput of a balanced closed network of `d` queues with `n` requests is proportional to
//! n / (n + d - 1) (Lazowska et al., Quantitative System Performance, 1984, section 5.4), so what is
//! lost against n (1 + x) is at least x / (1 + x) of what is lost against any number. A reference
//! without a bound would put all that the tenants have into the device, where their requests are then
//! served without regard to weights. The extra number x is doubled only when this does not decide the
//! question. The controller is a pure function of epochs: an epoch's results come in, the next
//! setting comes out. Ratios have 16 fractional bits.

use super::epoch::{Effect, Epoch, Sum};
use super::evidence::Evidence;
use super::price::Price;
use super::retry::Retry;
use super::steady::Steady;
use super::steps::Steps;
use super::usual::Usual;
use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// One, as a ratio.
pub const ONE: i64 = 1 << 16;
/// No tenant is held back.
pub const UNLIMITED: u32 = u32::MAX;
/// The shortest epoch. Epochs are longer by up to half, at random, so that no periodic load locks
/// step with them.
const EPOCH_NS: Nanos = 5 * MILLISECOND;
/// After a reference epoch, the lead that tenants gained in it is repaid for this many times its
/// length, and nothing is measured; the second value is for the longest such period, used while
/// nothing changes.
const REPAYING: u8 = 8;
const LONGEST_REPAYING: u8 = 64;
/// While a window is tracked: cycles before it may be found that holding does not help.
const LEAST_CYCLES: i64 = 16;
/// While a window is tracked, held epochs take this many times as long as reference epochs.
const HELD_PARTS: u64 = 11;

/// The question that the controller is answering.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Do exact shares cost more than `give`?
    Exact,
    /// They do: bisection for the window that costs `give`.
    Search,
    /// Is that window still right?
    Track,
    /// Holding leaders helps no tenant, so no tenant is held.
    Free,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    Held,
    Reference,
    Repaying,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    /// Per cent of throughput that may be spent on shares.
    give: u8,
    phase: Phase,
    kind: Kind,
    window_bytes: u32,
    /// Bisection interval: a window that is too narrow, and one that is wide enough.
    low_bytes: u32,
    high_bytes: u32,
    /// Mean number in flight with exact shares, and with no tenant held back.
    exact_bytes: u32,
    full_bytes: u32,
    /// Mean work of a request.
    request_bytes: u32,
    /// By how many quarters of `exact_bytes` a reference epoch has more in flight while shares are exact.
    extra_quarters: u32,
    /// Length of the last reference epoch.
    reference_ns: Nanos,
    held: Sum,
    evidence: Evidence,
    help: Evidence,
    /// What tenants that lag get with exact shares, in bytes per 2^24 ns.
    exact_lagging_rate: i64,
    price: Price,
    /// Nothing was compared yet since the last change.
    is_new: bool,
    retry: Retry,
    steady: Steady,
    usual: Usual,
    steps: Steps,
    last_loss: i32,
    /// The repaying period in lengths of a reference: usually, and this time.
    repaying: u8,
    now_repaying: u8,
    /// By how much the present epoch is lengthened.
    jitter_q8: u8,
    restarts: u32,
}

impl Controller {
    pub const fn new(give: u8) -> Self {
        Self {
            give,
            phase: Phase::Exact,
            kind: Kind::Held,
            window_bytes: 0,
            low_bytes: 0,
            high_bytes: 0,
            exact_bytes: 0,
            full_bytes: 0,
            request_bytes: 0,
            extra_quarters: 1,
            reference_ns: 0,
            held: Sum::NONE,
            evidence: Evidence::NONE,
            help: Evidence::NONE,
            exact_lagging_rate: 0,
            price: Price::UNKNOWN,
            is_new: true,
            retry: Retry::new(),
            steady: Steady::NONE,
            usual: Usual::UNKNOWN,
            steps: Steps::FIRST,
            last_loss: 0,
            repaying: REPAYING,
            now_repaying: 0,
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
    pub const fn price_bytes(&self) -> u32 {
        self.price.bytes()
    }

    pub fn loss(&self) -> i64 {
        i64::from(self.last_loss)
    }

    pub const fn learned_window_bytes(&self) -> u32 {
        self.window_bytes
    }

    /// The window: while less work than this is in flight, tenants that lead are served as well.
    pub fn window_bytes(&self) -> u32 {
        match (self.give, self.kind) {
            (0, _) => UNLIMITED,
            (100.., _) => 0,
            (_, Kind::Reference) => self.reference_bytes(),
            _ => self.window_bytes,
        }
    }

    /// The window of reference epochs.
    fn reference_bytes(&self) -> u32 {
        if self.phase != Phase::Exact {
            return UNLIMITED;
        }
        let exact_bytes = self.exact_bytes.max(self.request_bytes);
        exact_bytes.saturating_add((exact_bytes / 4).saturating_mul(self.extra_quarters))
    }

    /// Whether tenants that lead are served, in order to compare or because holding them does not help.
    pub const fn is_reference(&self) -> bool {
        matches!(self.kind, Kind::Reference)
    }

    /// Whether the last reference epoch held back next to nothing: fewer requests were in flight than
    /// it allowed.
    fn is_reference_whole(&self) -> bool {
        self.full_bytes < self.reference_bytes() / 4 * 3
    }

    /// Whether the lead that tenants gained in the last reference epoch is being repaid.
    pub const fn is_repaying(&self) -> bool {
        matches!(self.kind, Kind::Repaying)
    }

    /// Whether the present epoch is measured, and its length.
    pub fn setting(&self) -> (bool, Nanos) {
        match self.kind {
            Kind::Repaying => (false, self.reference_ns.saturating_mul(u64::from(self.now_repaying))),
            _ => (true, EPOCH_NS.saturating_add(EPOCH_NS.saturating_mul(u64::from(self.jitter_q8)) >> 9)),
        }
    }

    /// The loss that `give` allows, as the difference of two rates over their mean, if `held` of
    /// `of` epochs are held epochs.
    ///
    /// While a window is tracked, an eighth of `give` is kept as a margin: throughput is a concave
    /// function of the window, so noise in the window costs throughput.
    fn bound(&self, held: i64, of: i64) -> i64 {
        let give = ONE.saturating_mul(i64::from(self.give)) / 100;
        let give = if self.phase == Phase::Track { give / 8 * 7 } else { give };
        let give = give.saturating_mul(of).checked_div(held).unwrap_or(give);
        give.saturating_add(give.saturating_mul(give) / ONE / 2)
    }

    /// Processes an epoch that ended; `random` is any number.
    pub fn step(&mut self, epoch: Epoch, random: u64) {
        self.jitter_q8 = random.to_le_bytes()[0];
        if epoch.work.requests > 0 {
            self.request_bytes = epoch.request_bytes(self.price.bytes());
        }
        match self.kind {
            Kind::Repaying => self.kind = Kind::Held,
            Kind::Held => {
                self.held.add(epoch);
                if self.phase == Phase::Exact {
                    self.exact_bytes = epoch.window_bytes;
                }
                let wanted_ns = self.reference_ns.saturating_mul(HELD_PARTS);
                if self.phase != Phase::Track || self.held.ns >= wanted_ns {
                    self.kind = Kind::Reference;
                }
            }
            Kind::Reference if self.phase == Phase::Free => self.stay_free(epoch),
            Kind::Reference if self.steady.is_awaited() => self.confirm(epoch),
            Kind::Reference => {
                self.reference_ns = epoch.length_ns;
                self.full_bytes = epoch.window_bytes;
                if self.phase == Phase::Search && self.high_bytes == UNLIMITED {
                    self.begin_bisection(epoch);
                } else {
                    self.end_cycle(epoch);
                }
            }
        }
    }

    fn end_cycle(&mut self, epoch: Epoch) {
        let (held, reference) = (core::mem::replace(&mut self.held, Sum::NONE), Sum::of(epoch));
        self.kind = if self.phase == Phase::Exact { Kind::Repaying } else { Kind::Held };
        // What the first pair says is not known yet, so as little time as possible is spent on it.
        self.now_repaying = if self.is_new { 1 } else { self.repaying };
        if self.usual.is_another(reference.rate(self.price.bytes()), epoch, self.request_bytes) {
            self.restart();
            return;
        }
        self.price.learn(held, reference);
        let price = self.price.bytes();
        let effect = Effect::of(held, reference, price);
        self.last_loss = i32::try_from(effect.loss).unwrap_or(0);
        if self.phase == Phase::Exact {
            self.exact_lagging_rate = held.lagging_rate(0);
        }
        // In the first pair it is not known yet who leads, and a buffer for writes is not full.
        if core::mem::replace(&mut self.is_new, false) {
            return;
        }
        self.help.add(effect.help);
        self.evidence.add(effect.loss);
        match self.phase {
            Phase::Exact => self.judge(effect.loss, held, epoch.is_buffered),
            Phase::Search => self.bisect(held.margin(self.exact_lagging_rate)),
            Phase::Track if self.is_in_vain() => self.begin_free(),
            Phase::Track => self.track(effect.loss, held.and(reference).margin(self.exact_lagging_rate)),
            Phase::Free => {}
        }
    }

    /// Whether holding helps no tenant. Where that was found before, less evidence is enough.
    fn is_in_vain(&self) -> bool {
        let is_enough = self.help.pairs() >= LEAST_CYCLES || (self.retry.was_tried() && self.help.is_enough());
        is_enough && self.help.is_likely_below(0)
    }

    fn judge(&mut self, loss: i64, held: Sum, is_buffered: bool) {
        let bound = self.bound(1, 1);
        let quarters = i64::from(self.extra_quarters);
        let seen = bound.saturating_mul(quarters).checked_div(quarters.saturating_add(4)).unwrap_or(bound);
        let cheap = if self.is_reference_whole() { bound } else { seen };
        if self.evidence.mean() > bound && loss > bound {
            // A long repaying period would only delay the decision, which is near.
            self.now_repaying = 1;
        }
        if !self.evidence.is_test_due() {
            return;
        }
        if self.evidence.is_above(bound) {
            if is_buffered {
                self.held = held;
                self.steady.begin();
                self.kind = Kind::Reference;
            } else {
                self.begin_search();
            }
        } else if self.evidence.mean() <= cheap {
            // Repaying periods grow only while shares look cheap, so that expensive shares are tested often.
            self.repaying = self.repaying.saturating_mul(2).min(LONGEST_REPAYING);
        } else if !self.is_reference_whole() {
            self.extra_quarters = self.extra_quarters.saturating_mul(2);
            self.usual = Usual::UNKNOWN;
            self.forget();
        }
    }

    /// The loss that writes seemed to show is compared with that against a steady reference.
    fn confirm(&mut self, epoch: Epoch) {
        if !self.steady.is_steady(epoch.work.rate(epoch.ns, self.price.bytes()), epoch.length_ns) {
            return;
        }
        let loss = Effect::of(core::mem::replace(&mut self.held, Sum::NONE), Sum::of(epoch), self.price.bytes()).loss;
        self.last_loss = i32::try_from(loss).unwrap_or(0);
        if loss > self.bound(1, 1) {
            self.begin_search();
        } else {
            self.forget();
            self.kind = Kind::Repaying;
            self.reference_ns = epoch.length_ns;
            (self.repaying, self.now_repaying) = (LONGEST_REPAYING, LONGEST_REPAYING);
        }
    }

    fn begin_search(&mut self) {
        self.phase = Phase::Search;
        (self.low_bytes, self.high_bytes) = (self.exact_bytes, UNLIMITED);
        self.kind = Kind::Reference;
    }

    /// The first reference epoch without a bound has ended, so that the interval is known.
    fn begin_bisection(&mut self, epoch: Epoch) {
        self.held = Sum::NONE;
        self.kind = Kind::Held;
        self.usual = Usual::UNKNOWN;
        self.high_bytes = epoch.window_bytes.max(self.exact_bytes);
        self.aim();
    }

    /// Sets the window to the middle of the interval, and begins to track it if the interval is too
    /// small for bisection.
    fn aim(&mut self) {
        self.forget();
        let width = self.high_bytes.saturating_sub(self.low_bytes);
        self.window_bytes = self.low_bytes.saturating_add(width / 2);
        if width <= self.request_bytes.max(self.high_bytes / 8) {
            (self.phase, self.steps) = (Phase::Track, Steps::FIRST);
        }
    }

    fn bisect(&mut self, margin: i64) {
        let bound = self.bound(1, 1);
        // What laggards keep needs no comparison, so one epoch is enough to see that it is too little.
        if !self.evidence.is_enough() && margin >= 0 {
            return;
        }
        if self.evidence.mean() > bound && margin >= 0 {
            self.low_bytes = self.window_bytes;
        } else {
            self.high_bytes = self.window_bytes;
        }
        self.aim();
    }

    fn forget(&mut self) {
        (self.evidence, self.help) = (Evidence::NONE, Evidence::NONE);
        self.price.forget_pairs();
    }

    fn begin_free(&mut self) {
        self.phase = Phase::Free;
        self.kind = Kind::Reference;
        self.usual = Usual::UNKNOWN;
    }

    fn stay_free(&mut self, epoch: Epoch) {
        if self.usual.is_another(epoch.work.rate(epoch.ns, self.price.bytes()), epoch, self.request_bytes) {
            self.restart();
        } else if self.retry.is_due() {
            (self.phase, self.kind) = (Phase::Track, Kind::Held);
            (self.usual, self.steps) = (Usual::UNKNOWN, Steps::FIRST);
            self.forget();
        }
    }

    /// Throughput is a concave function of the number in flight, so its elasticity is at most one,
    /// and a step proportional to the error does not overshoot.
    fn track(&mut self, loss: i64, margin: i64) {
        let held = HELD_PARTS.cast_signed();
        let error = loss.saturating_sub(self.bound(held, held.saturating_add(1)));
        let error = error.min(margin).clamp(-ONE, ONE);
        let step = self.steps.next(i64::from(self.window_bytes), error, ONE);
        let most = self.full_bytes.saturating_add(self.full_bytes / 4).saturating_add(self.request_bytes);
        let wanted = i64::from(self.window_bytes).saturating_add(step).clamp(0, i64::from(most));
        self.window_bytes = u32::try_from(wanted).unwrap_or(0);
        if self.window_bytes < self.exact_bytes {
            // A window below what is in flight with exact shares has no effect.
            self.begin_exact();
        }
    }

    fn begin_exact(&mut self) {
        self.phase = Phase::Exact;
        self.kind = Kind::Repaying;
        self.window_bytes = 0;
        self.extra_quarters = 1;
        self.forget();
        self.repaying = REPAYING;
    }

    /// Starts again: load or device have changed.
    pub fn restart(&mut self) {
        self.usual = Usual::UNKNOWN;
        self.retry = Retry::new();
        self.steady = Steady::NONE;
        self.price = Price::UNKNOWN;
        self.is_new = true;
        self.begin_exact();
        self.restarts = self.restarts.wrapping_add(1);
    }

    pub fn set_give(&mut self, give: u8) {
        self.give = give;
        self.restart();
        self.kind = Kind::Held;
    }
}
