//! How a disk is used: in time slices, in flow (all issuers at once, none leads another by too much), or
//! freely (no tenant is held back; not measured for one tenant alone). The three are measured in turn,
//! and measured again after a while or when tenants come or go.
//!
//! The faster one of slices and flow is used, and as soon as it is clear which it is. A disk is used
//! freely if that delivers far more than the better of the two, and tenants that lag get
//! nearly as much as if the others were held back for them.

use super::epoch::{Effect, Sum, Work};
use super::meter::Done;
use super::price::MOST_BYTES;
use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};

/// How long each way is measured.
const SLICES_NS: Nanos = SECOND;
const FLOW_NS: Nanos = 500 * MILLISECOND;
/// Settling time at the start of a period, in which nothing is counted.
const SETTLING_NS: Nanos = 100 * MILLISECOND;
/// A round measures every way once.
const MOST_ROUNDS: u8 = 6;
const LEAST_ROUNDS: u8 = 2;
/// A mean difference of the rounds above this, in per cent of the mean rate, decides.
const CLEARLY: i64 = 20;
/// The first round decides alone if its difference is above this. One disk does not lose as much to the
/// seeks between slices of 100 ms, so free use has to deliver as much more.
const FAR_APART: i64 = 50;
const AGAIN_SECONDS: u16 = 30;
/// How often it is looked whether what was decided delivers what was measured. A measurement of half a
/// second may end before leaders have used up the lead that they are allowed, and so may say nothing of
/// what they deliver once they are held.
const LOOK_NS: Nanos = SECOND;
/// While the same way wins, the time to the next comparison doubles, up to this.
const LONGEST_AGAIN_SECONDS: u16 = 240;

/// A way to use the disk.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Way {
    Slices,
    Flow,
    Free,
}

/// Which way is used, and what is measured.
#[derive(Clone, Debug)]
pub struct Ways {
    way: Way,
    is_decided: bool,
    won: Way,
    /// Rounds in a row in which holding cost far more than it gave.
    vain: u8,
    rounds: u8,
    /// By how many per cent slices delivered more than flow, over all rounds.
    sum: i16,
    tenants: u32,
    again_seconds: u16,
    until_ns: Nanos,
    count_from_ns: Nanos,
    last_ns: Nanos,
    /// Work of this period, and the part of it that was done for tenants that lag.
    work: Work,
    lagging: Work,
    /// The better of slices and flow in this round.
    held: Sum,
}

impl Ways {
    pub const UNKNOWN: Ways = Ways {
        way: Way::Slices,
        is_decided: false,
        won: Way::Slices,
        vain: 0,
        rounds: 0,
        sum: 0,
        tenants: 0,
        again_seconds: AGAIN_SECONDS,
        until_ns: 0,
        count_from_ns: 0,
        last_ns: 0,
        work: Work::NONE,
        lagging: Work::NONE,
        held: Sum::NONE,
    };

    pub const fn present(&self) -> Way {
        self.way
    }

    /// For messages: by how many per cent slices delivered more, and in how many rounds.
    pub fn figures(&self) -> [u64; 2] {
        [i64::from(self.sum).cast_unsigned(), u64::from(self.rounds)]
    }

    /// A request completed. Writes complete when they are in a buffer, which lasts for longer than a
    /// period, so they do not speak for free use.
    pub fn completed(&mut self, done: Done, now: Nanos) {
        let Done { work, is_write, is_lagging } = done;
        if now >= self.count_from_ns && !(is_write && self.way == Way::Free) {
            self.work.add(work);
            self.lagging.add(if is_lagging { work } else { Work::NONE });
        }
        self.last_ns = now;
    }

    /// The disk was idle until now: after more than the settling time, the present measurement
    /// begins again.
    pub fn resumed(&mut self, now: Nanos) {
        if now.saturating_sub(self.last_ns) > SETTLING_NS {
            self.begin(now);
        }
    }

    /// Weights have changed: the ways are compared again at the next choice.
    pub const fn compare_again(&mut self) {
        self.until_ns = 0;
    }

    fn begin(&mut self, now: Nanos) {
        let length_ns = match self.way {
            _ if self.is_decided => SECOND.saturating_mul(u64::from(self.again_seconds)),
            Way::Slices => SLICES_NS,
            Way::Flow | Way::Free => FLOW_NS,
        };
        self.count_from(now.saturating_add(SETTLING_NS));
        self.until_ns = self.count_from_ns.saturating_add(length_ns);
    }

    const fn count_from(&mut self, at_ns: Nanos) {
        (self.count_from_ns, self.work, self.lagging) = (at_ns, Work::NONE, Work::NONE);
    }

    /// What the period that ended delivered.
    fn measured(&self, now: Nanos) -> Sum {
        Sum { work: self.work, lagging: self.lagging, ns: now.saturating_sub(self.count_from_ns) }
    }

    /// Decides how the disk is used from now on; called with every choice.
    pub fn step(&mut self, now: Nanos, tenants: u32) {
        if self.is_decided && tenants == self.tenants && now < self.until_ns {
            return self.look_again(now);
        }
        if self.is_decided || self.until_ns == 0 {
            if tenants != self.tenants {
                self.again_seconds = AGAIN_SECONDS / 2;
            }
            (self.is_decided, self.way, self.tenants) = (false, Way::Slices, tenants);
            (self.rounds, self.sum, self.vain) = (0, 0, 0);
            self.begin(now);
            return;
        }
        if now < self.until_ns {
            return;
        }
        let got = self.measured(now);
        match self.way {
            Way::Slices => (self.held, self.way) = (got, Way::Flow),
            Way::Flow => {
                let (slices, flow) = (self.held.rate(MOST_BYTES), got.rate(MOST_BYTES));
                let difference = slices.saturating_sub(flow).saturating_mul(200);
                let percent = difference.checked_div(slices.saturating_add(flow)).unwrap_or(0);
                self.sum = self.sum.saturating_add(i16::try_from(percent).unwrap_or(0));
                self.held = if flow > slices { got } else { self.held };
                if tenants > 1 {
                    self.way = Way::Free;
                } else {
                    self.end_round(false);
                }
            }
            Way::Free => {
                let is_faster = Effect::of(self.held, got, MOST_BYTES).loss_percent() > FAR_APART;
                // In the first round it is not known yet who leads.
                self.end_round(is_faster && (self.rounds == 0 || Self::is_enough(self.held, got)));
            }
        }
        self.begin(now);
    }

    /// Whether tenants that lag get nearly as much freely as while others are held back for them. On a
    /// disk a request costs time rather than bytes, so what they gain is compared with what they have.
    fn is_enough(held: Sum, free: Sum) -> bool {
        free.lagging_rate(MOST_BYTES) >= held.lagging_rate(MOST_BYTES).saturating_mul(100 - CLEARLY) / 100
    }

    /// `is_vain`: holding cost far more than it gave.
    fn end_round(&mut self, is_vain: bool) {
        self.vain = if is_vain { self.vain.saturating_add(1) } else { 0 };
        self.rounds = self.rounds.saturating_add(1);
        let is_free = self.vain > 1;
        let needed =
            if self.rounds < LEAST_ROUNDS { FAR_APART } else { CLEARLY.saturating_mul(i64::from(self.rounds)) };
        let difference = i64::from(self.sum).abs();
        let is_clear = difference > needed && (!is_vain || self.rounds >= LEAST_ROUNDS);
        // Slices make all but their owner wait, so they have to be faster for it.
        let is_alike = self.rounds >= LEAST_ROUNDS && !is_vain && difference.saturating_mul(2) <= needed;
        self.way = Way::Slices;
        if is_free || is_clear || is_alike || self.rounds >= MOST_ROUNDS {
            self.is_decided = true;
            self.way = match (is_free, self.sum > 0 && !is_alike) {
                (true, _) => Way::Free,
                (false, true) => Way::Slices,
                (false, false) => Way::Flow,
            };
            let has_changed = self.way != core::mem::replace(&mut self.won, self.way);
            let longer = self.again_seconds.saturating_mul(2).min(LONGEST_AGAIN_SECONDS);
            self.again_seconds = if has_changed { AGAIN_SECONDS } else { longer };
        }
    }

    /// Returns to slices if what was decided delivers clearly less than slices or flow did.
    fn look_again(&mut self, now: Nanos) {
        if self.way == Way::Slices || now < self.count_from_ns.saturating_add(LOOK_NS) {
            return;
        }
        let least = self.held.rate(MOST_BYTES).saturating_mul(100 - CLEARLY) / 100;
        if self.measured(now).rate(MOST_BYTES) < least {
            (self.way, self.won, self.again_seconds) = (Way::Slices, Way::Slices, AGAIN_SECONDS);
            self.begin(now);
        } else {
            self.count_from(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way that is decided, and after how many seconds, if each way gives laggards and leaders these
    /// bytes per millisecond.
    fn decided(is_write: bool, rates: impl Fn(Way) -> (u32, u32)) -> (Way, u64) {
        let mut ways = Ways::UNKNOWN;
        for ms in 1..60_000 {
            let (lagging, leading) = rates(ways.present());
            ways.completed(Done { work: Work::of(lagging), is_lagging: true, is_write }, ms * MILLISECOND);
            ways.completed(Done { work: Work::of(leading), is_lagging: false, is_write }, ms * MILLISECOND);
            ways.step(ms * MILLISECOND, 2);
            if ways.is_decided {
                return (ways.present(), ms / 1000);
            }
        }
        panic!("nothing was decided");
    }

    #[test]
    fn other_weights_are_compared_anew() {
        let mut ways = Ways::UNKNOWN;
        let pass = |ways: &mut Ways, from, to| {
            (from..to).for_each(|ms: u64| {
                let rate = if ways.present() == Way::Free { 350_000 } else { 60_000 };
                ways.completed(Done { work: Work::of(rate), is_lagging: false, is_write: false }, ms * MILLISECOND);
                ways.step(ms * MILLISECOND, 2);
            })
        };
        pass(&mut ways, 1, 6_000);
        assert!(ways.is_decided && ways.present() == Way::Free);
        ways.compare_again();
        pass(&mut ways, 6_000, 6_002);
        assert!(!ways.is_decided && ways.present() == Way::Slices);
    }

    fn by_way(slices: (u32, u32), flow: (u32, u32), free: (u32, u32)) -> (Way, u64) {
        decided(false, |way| match way {
            Way::Slices => slices,
            Way::Flow => flow,
            Way::Free => free,
        })
    }

    #[test]
    fn the_faster_one_of_slices_and_flow_is_used() {
        let equal = (500_000, 500_000);
        assert_eq!(by_way(equal, (100_000, 100_000), (100_000, 100_000)), (Way::Slices, 2), "far apart");
        assert_eq!(by_way(equal, (400_000, 350_000), (400_000, 350_000)), (Way::Slices, 4), "clearly");
        assert_eq!(by_way(equal, (430_000, 430_000), (430_000, 430_000)), (Way::Slices, 13), "not clearly");
        assert_eq!(by_way(equal, (570_000, 570_000), (570_000, 570_000)), (Way::Flow, 13), "not clearly");
        assert_eq!(by_way(equal, (470_000, 470_000), (470_000, 470_000)), (Way::Flow, 4), "alike");
        assert_eq!(by_way(equal, (510_000, 510_000), (510_000, 510_000)), (Way::Flow, 4), "alike");
        assert_eq!(by_way(equal, (900_000, 900_000), (900_000, 900_000)), (Way::Flow, 2));
    }

    #[test]
    fn a_disk_is_used_freely_where_no_tenant_loses_by_it() {
        // Four streams on an array beside one random reader, whose own latency is its limit.
        assert_eq!(by_way((100, 60_000), (90, 2_000), (200, 350_000)), (Way::Free, 4));
        // On one disk the reader loses most of its time.
        assert_eq!(by_way((150, 30_000), (400, 2_000), (35, 60_000)).0, Way::Slices);
        // Streams beside one that is starved: holding helps it.
        assert_eq!(by_way((20_000, 20_000), (400, 400), (500, 55_000)).0, Way::Slices);
        // One disk with command queueing is half as fast again; one of the streams gets most of that.
        assert_eq!(by_way((100, 37_000), (400, 2_000), (100, 55_000)).0, Way::Slices);
    }

    #[test]
    fn writes_that_go_into_a_buffer_do_not_free_a_disk() {
        let rates = |way| if way == Way::Free { (100, 350_000) } else { (100, 60_000) };
        assert_eq!(decided(false, rates).0, Way::Free);
        assert_eq!(decided(true, rates).0, Way::Flow);
    }

    #[test]
    fn what_was_decided_is_looked_at_again() {
        let mut late = 0;
        let mut ways = Ways::UNKNOWN;
        for ms in 1..20_000 {
            let rate = match ways.present() {
                Way::Slices => 60_000,
                _ if ways.is_decided && ms > 10_000 => 2_000,
                _ => 350_000,
            };
            ways.completed(Done { work: Work::of(rate), is_lagging: false, is_write: false }, ms * MILLISECOND);
            ways.step(ms * MILLISECOND, 2);
            if ms > 10_000 && late == 0 && ways.present() == Way::Slices {
                late = ms;
            }
        }
        assert!((10_000..12_500).contains(&late), "{late}");
    }
}
