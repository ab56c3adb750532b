//! Time slices on a disk: one issuer has the disk to itself for a while, if that is faster than
//! flow, which is to serve all issuers at once.
//!
//! The issuer with the smallest tag has the disk for `slice_ms`, and the disk is idled for it while
//! it is empty. Its requests go in C-LOOK order. It is charged for its bytes; an issuer that seeks
//! while others do not is charged for its time. Charges are never forgiven, however far others lag
//! behind. Whether slices or flow deliver more is measured, and measured again after a while or
//! when tenants come or go.

use super::choose::Decision;
use super::sweep::Sweeps;
use super::{Paternoster, Why};
use crate::order::{Lead, Standing};
use crate::structures::{NIL, NoMemory};
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{Nanos, Sector};

/// An issuer seeks if its recent rate is less than a quarter of the best: streams differ by a
/// factor of two from zone to zone, and random requests differ from streams by ten.
const SEEK_RATIO: u64 = 4;
/// Shorter slices may have filled a cache only, so their rate is not used.
const MIN_MEASURED_NS: Nanos = 50 * MILLISECOND;
/// How long slices and flow are measured, in turn; the two measurements are a pair.
const SLICES_NS: Nanos = SECOND;
const FLOW_NS: Nanos = 500 * MILLISECOND;
/// Settling time at the start of a period, in which nothing is counted.
const SETTLING_NS: Nanos = 100 * MILLISECOND;
const MOST_PAIRS: i64 = 6;
const LEAST_PAIRS: i64 = 2;
/// From the second pair on, a mean difference of the pairs above this, in per cent of the mean
/// rate, decides.
const CLEARLY: i64 = 20;
/// The first pair decides alone if its difference is above this.
const FAR_APART: i64 = 50;
const AGAIN_NS: Nanos = 30 * SECOND;
/// How often it is looked whether flow, once decided, delivers what was measured. A measurement of half
/// a second may end before leaders have used up the lead that they are allowed, and so may say nothing
/// of what they deliver once they are held.
const LOOK_NS: Nanos = SECOND;
/// While the same way wins, the time to the next comparison doubles, up to this.
const LONGEST_AGAIN_NS: Nanos = 240 * SECOND;

/// The two ways to use the disk.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Way {
    Slices,
    Flow,
}

/// Slices, and whether they deliver more than flow.
#[derive(Debug)]
pub struct Slices {
    sweeps: Sweeps,
    is_rotational: bool,
    length_ns: Nanos,
    owner: u32,
    began_ns: Nanos,
    /// When its first request completed; 0 before. The first seek is not part of the slice.
    from_ns: Nanos,
    sectors: u64,
    /// Best recent rate of a slice, in sectors per 2^20 ns.
    best_rate: u64,
    /// The last issuer that was charged for its time.
    seeker: u32,

    way: Way,
    is_decided: bool,
    again_ns: Nanos,
    won: Way,
    until_ns: Nanos,
    count_from_ns: Nanos,
    bytes: u64,
    last_ns: Nanos,
    rate: u64,
    pairs: i64,
    sum: i64,
    tenants: u32,
}

impl Slices {
    pub fn try_new(is_rotational: bool, slots: u32, queues: u32) -> Result<Self, NoMemory> {
        Ok(Self {
            sweeps: Sweeps::try_new(is_rotational, slots, queues)?,
            is_rotational,
            length_ns: 100 * MILLISECOND,
            owner: NIL,
            began_ns: 0,
            from_ns: 0,
            sectors: 0,
            best_rate: 0,
            seeker: NIL,
            way: Way::Slices,
            is_decided: false,
            again_ns: AGAIN_NS,
            won: Way::Slices,
            until_ns: 0,
            count_from_ns: 0,
            bytes: 0,
            last_ns: 0,
            rate: 0,
            pairs: 0,
            sum: 0,
            tenants: 0,
        })
    }

    pub fn set_length(&mut self, length_ns: Nanos) {
        self.length_ns = length_ns;
    }

    pub fn are_on(&self) -> bool {
        self.is_rotational && self.length_ns > 0 && self.way == Way::Slices
    }

    pub fn insert(&mut self, queue: u32, slot: u32, sector: Sector) {
        if self.is_rotational {
            self.sweeps.insert(queue, slot, sector);
        }
    }

    pub fn move_to(&mut self, queue: u32, slot: u32, sector: Sector) {
        if self.is_rotational {
            self.sweeps.move_to(queue, slot, sector);
        }
    }

    pub fn remove(&mut self, queue: u32, slot: u32) {
        if self.is_rotational {
            self.sweeps.remove(queue, slot);
        }
    }

    pub fn sector(&self, slot: u32) -> Option<Sector> {
        self.sweeps.sector(slot)
    }

    /// A request was dispatched to the device.
    pub fn sent(&mut self, queue: u32, slot: u32, cost: u64) {
        if self.is_rotational {
            self.sweeps.sent(queue, slot);
            if queue == self.owner {
                self.sectors = self.sectors.saturating_add(cost);
            }
        }
    }

    pub fn completed(&mut self, queue: u32, work: u64, now: Nanos) {
        if !self.is_rotational {
            return;
        }
        if queue == self.owner && self.from_ns == 0 {
            self.from_ns = now;
        }
        if now >= self.count_from_ns {
            self.bytes = self.bytes.saturating_add(work);
        }
        self.last_ns = now;
    }

    /// The disk was idle until now: after more than the settling time, the present measurement
    /// begins again.
    pub fn resumed(&mut self, now: Nanos) {
        let idle_ns = now.saturating_sub(self.last_ns);
        if self.is_rotational && idle_ns > SETTLING_NS {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Nanos) {
        let length_ns = if self.is_decided {
            self.again_ns
        } else if self.way == Way::Slices {
            SLICES_NS
        } else {
            FLOW_NS
        };
        self.count_from_ns = now.saturating_add(SETTLING_NS);
        (self.until_ns, self.bytes) = (now.saturating_add(SETTLING_NS).saturating_add(length_ns), 0);
    }

    /// The rate of the period that ended, in bytes per 2^20 ns.
    fn measured(&self, now: Nanos) -> u64 {
        (self.bytes.min(1 << 40) << 20).checked_div(now.saturating_sub(self.count_from_ns)).unwrap_or(0)
    }

    /// Decides how the disk is used from now on.
    fn step(&mut self, now: Nanos, tenants: u32) {
        if self.is_decided && tenants == self.tenants && now < self.until_ns {
            return self.look_at_flow(now);
        }
        if self.is_decided || self.until_ns == 0 {
            if tenants != self.tenants {
                self.again_ns = AGAIN_NS / 2;
            }
            (self.is_decided, self.way, self.pairs, self.sum, self.tenants) = (false, Way::Slices, 0, 0, tenants);
            self.begin(now);
            return;
        }
        if now < self.until_ns {
            return;
        }
        let rate = self.measured(now);
        if self.way == Way::Slices {
            (self.rate, self.way) = (rate, Way::Flow);
        } else {
            let (slices, flow) = (self.rate.cast_signed(), rate.cast_signed());
            let difference = slices.saturating_sub(flow).saturating_mul(200);
            self.sum = self.sum.saturating_add(difference.checked_div(slices.saturating_add(flow)).unwrap_or(0));
            self.pairs = self.pairs.saturating_add(1);
            let needed = if self.pairs < LEAST_PAIRS { FAR_APART } else { CLEARLY.saturating_mul(self.pairs) };
            let is_clear = self.sum.abs() > needed;
            self.way = Way::Slices;
            if is_clear || self.pairs >= MOST_PAIRS {
                self.is_decided = true;
                self.way = if self.sum > 0 { Way::Slices } else { Way::Flow };
                let has_changed = self.way != core::mem::replace(&mut self.won, self.way);
                self.again_ns =
                    if has_changed { AGAIN_NS } else { self.again_ns.saturating_mul(2).min(LONGEST_AGAIN_NS) };
            }
        }
        self.begin(now);
    }

    /// Returns to slices if flow delivers clearly less than they did.
    fn look_at_flow(&mut self, now: Nanos) {
        if self.way == Way::Slices || now < self.count_from_ns.saturating_add(LOOK_NS) {
            return;
        }
        let least = self.rate.saturating_mul(100 - CLEARLY.unsigned_abs()) / 100;
        if self.measured(now) < least {
            (self.way, self.won, self.again_ns) = (Way::Slices, Way::Slices, AGAIN_NS);
            self.begin(now);
        } else {
            (self.count_from_ns, self.bytes) = (now, 0);
        }
    }

    /// Ends a slice and returns what its owner pays beyond its bytes.
    fn end(&mut self, now: Nanos) -> u64 {
        let used_ns = now.saturating_sub(self.began_ns);
        let sectors = core::mem::take(&mut self.sectors);
        let rate = (sectors.min(1 << 40) << 20).checked_div(used_ns).unwrap_or(0);
        if used_ns >= MIN_MEASURED_NS {
            self.best_rate = rate.max(self.best_rate.saturating_sub(self.best_rate.div_ceil(64)));
        }
        self.owner = NIL;
        if rate.saturating_mul(SEEK_RATIO) < self.best_rate {
            (used_ns.saturating_mul(self.best_rate) >> 20).saturating_sub(sectors)
        } else {
            0
        }
    }
}

impl Paternoster {
    /// Advances the slices; called with every choice on a disk.
    #[inline(never)]
    pub(super) fn step_slices(&mut self) {
        if !self.slices.is_rotational || self.slices.length_ns == 0 {
            return;
        }
        let way = self.slices.way;
        self.slices.step(self.now, self.order.tenants());
        if way != self.slices.way {
            self.end_slice();
            self.level();
            self.tell(
                "way={0} slices by {1}% in {2} pairs",
                [
                    u64::from(self.slices.way == Way::Flow),
                    self.slices.sum.cast_unsigned(),
                    self.slices.pairs.cast_unsigned(),
                ],
            );
        }
    }

    #[inline(never)]
    fn end_slice(&mut self) {
        let owner = self.slices.owner;
        if owner != NIL {
            let used_ns = self.now.saturating_sub(self.slices.began_ns);
            self.tell("slice q={0} used={1}", [u64::from(owner), used_ns]);
            let charge = self.slices.end(self.now);
            if charge > 0 {
                self.slices.seeker = owner;
            }
            self.order.charge(owner, charge);
        }
    }

    /// Flow charges bytes. An issuer that slices have charged for time would be without service until
    /// the others have had as many bytes, and flow would be measured without it.
    #[inline(never)]
    fn level(&mut self) {
        let seeker = core::mem::replace(&mut self.slices.seeker, NIL);
        if seeker != NIL && self.slices.way == Way::Flow {
            self.order.bound_lag(seeker, 0);
        }
    }

    #[inline(never)]
    pub(super) fn choose_in_slices(&mut self) -> Option<Decision> {
        let owner = self.slices.owner;
        if owner != NIL {
            let from_ns = if self.slices.from_ns == 0 { self.now } else { self.slices.from_ns };
            let end_ns = from_ns.saturating_add(self.slices.length_ns);
            let in_flight = self.order.in_flight(owner);
            let head = self.order.head(owner);
            if self.now >= end_ns {
                self.end_slice();
            } else if let Some(oldest) = head {
                return Some(Decision::Send(self.slices.sweeps.next(owner, oldest), Why::Slice));
            } else if in_flight > 0 {
                return Some(Decision::Answer(self.hold(Some(end_ns))));
            } else if let Some(until) = self.order.expected_until(owner, self.now) {
                return Some(Decision::Answer(self.hold(Some(until.min(end_ns)))));
            } else {
                self.order.was_late(owner);
                self.end_slice();
            }
        }
        let queue = self.order.first()?;
        let oldest = self.order.head(queue)?;
        let cost = self.cost(self.slots.at(oldest).sectors);
        match self.order.standing(queue, Lead { sectors: cost, by_in_flight: 0, extra: 0 }, self.now) {
            Standing::InOrder => {}
            Standing::Ahead => return Some(Decision::Answer(self.hold(None))),
            Standing::AheadUntil(until) => return Some(Decision::Answer(self.hold(Some(until)))),
        }
        (self.slices.owner, self.slices.began_ns, self.slices.from_ns) = (queue, self.now, 0);
        Some(Decision::Send(self.slices.sweeps.next(queue, oldest), Why::Slice))
    }
}
