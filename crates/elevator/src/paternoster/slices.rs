//! Time slices on a disk: one issuer has the disk to itself for a while, where that is faster than
//! serving all issuers at once ([`Ways`] measures it).
//!
//! The issuer with the smallest tag has the disk for `slice_ms`, and the disk is idled for it while
//! it is empty. Its requests go in C-LOOK order. Among the issuers of its group it is charged for its
//! time. The group is charged for its bytes, and for time if the issuer seeks while others do not.
//! Charges are never forgiven, however far others lag behind.

use super::choose::Decision;
use super::meter::Done;
use super::sweep::Sweeps;
use super::ways::{Way, Ways};
use super::{Paternoster, Why};
use crate::order::{Lead, Standing};
use crate::structures::{Array, NIL, NoMemory};
use hoistway_block::time::MILLISECOND;
use hoistway_block::{Nanos, Sector};

/// An issuer seeks if its recent rate is less than a quarter of the best: streams differ by a
/// factor of two from zone to zone, and random requests differ from streams by ten.
const SEEK_RATIO: u64 = 4;
/// Shorter slices may have filled a cache only, so their rate is not used.
const MIN_MEASURED_NS: Nanos = 50 * MILLISECOND;

/// The slice of the present owner.
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
    /// One on a disk, none where positioning costs nothing.
    ways: Array<Ways>,
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
            ways: Array::try_new(u32::from(is_rotational), Ways::UNKNOWN)?,
        })
    }

    pub fn set_length(&mut self, length_ns: Nanos) {
        self.length_ns = length_ns;
    }

    pub fn are_on(&self) -> bool {
        self.have_ways() && self.way() == Way::Slices
    }

    /// Whether no tenant is held back.
    pub fn are_free(&self) -> bool {
        self.have_ways() && self.way() == Way::Free
    }

    fn way(&self) -> Way {
        self.ways.at(0).present()
    }

    const fn have_ways(&self) -> bool {
        self.is_rotational && self.length_ns > 0
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

    pub fn completed(&mut self, queue: u32, done: Done, now: Nanos) {
        if !self.is_rotational {
            return;
        }
        if queue == self.owner && self.from_ns == 0 {
            self.from_ns = now;
        }
        self.ways.at_mut(0).completed(done, now);
    }

    /// Weights have changed.
    pub fn compare_again(&mut self) {
        self.ways.at_mut(0).compare_again();
    }

    /// The disk was idle until now.
    pub fn resumed(&mut self, now: Nanos) {
        if self.is_rotational {
            self.ways.at_mut(0).resumed(now);
        }
    }

    /// Ends a slice. Returns what its time is worth beyond the sectors that it moved, in sectors at the
    /// best rate, and whether its owner seeks.
    fn end(&mut self, now: Nanos) -> (u64, bool) {
        let used_ns = now.saturating_sub(self.began_ns);
        let sectors = core::mem::take(&mut self.sectors);
        let rate = (sectors.min(1 << 40) << 20).checked_div(used_ns).unwrap_or(0);
        if used_ns >= MIN_MEASURED_NS {
            self.best_rate = rate.max(self.best_rate.saturating_sub(self.best_rate.div_ceil(64)));
        }
        self.owner = NIL;
        let unused = (used_ns.saturating_mul(self.best_rate) >> 20).saturating_sub(sectors);
        (unused, rate.saturating_mul(SEEK_RATIO) < self.best_rate)
    }
}

impl Paternoster {
    /// Advances the slices; called with every choice on a disk.
    #[inline(never)]
    pub(super) fn step_slices(&mut self) {
        if !self.slices.have_ways() {
            return;
        }
        let before = self.slices.way();
        self.slices.ways.at_mut(0).step(self.now, self.order.tenants());
        let way = self.slices.way();
        if way != before {
            self.end_slice();
            self.level();
            let number = match way {
                Way::Slices => 0,
                Way::Flow => 1,
                Way::Free => 2,
            };
            let [percent, rounds] = self.slices.ways.at(0).figures();
            self.tell("way={0} slices by {1}% in {2} rounds", [number, percent, rounds]);
        }
    }

    #[inline(never)]
    fn end_slice(&mut self) {
        let owner = self.slices.owner;
        if owner != NIL {
            let used_ns = self.now.saturating_sub(self.slices.began_ns);
            self.tell("slice q={0} used={1}", [u64::from(owner), used_ns]);
            let (unused, seeks) = self.slices.end(self.now);
            if seeks {
                self.slices.seeker = owner;
                self.leaders.forget(owner);
                self.order.charge(owner, unused);
            } else {
                self.order.charge_issuer(owner, unused);
            }
        }
    }

    /// Flow charges bytes. An issuer that slices have charged for time would be without service until
    /// the others have had as many bytes, and flow would be measured without it.
    #[inline(never)]
    fn level(&mut self) {
        let seeker = core::mem::replace(&mut self.slices.seeker, NIL);
        if seeker != NIL && !self.slices.are_on() {
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
