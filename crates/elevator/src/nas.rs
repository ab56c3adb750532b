//! nas: Neil Schemenauer's elevator for Linux 2.4.20. A request is inserted behind a lower sector
//! of its direction; a read that finds none overtakes *w - r* writes if *w* writes and *r* reads
//! are queued.
//!
//! Promise  a request older than `expire_ms` is a barrier for later ones of its direction. A read
//!          never overtakes while as many reads as writes are queued, so neither direction starves
//!          the other.
//! Cost     O(queue) per bio, as the original; 8 bytes a slot.
//! Fits     one disk under heavy write-back with concurrent readers.
//! Source   N. Schemenauer, "[PATCH][CFT] new IO scheduler for 2.4.20", third version (30 May
//!          2003).
//!
//! As posted, the scan inserts behind the frontmost lower sector, which reverses an ascending
//! stream; the text describes what was meant, the nearest lower sector. `order` selects between
//! them; the default is what was meant. Read [`Elevator::merge`] first.

use crate::interface::{
    Configuration, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side, Version, Violation, Wake,
};
use crate::request::{Attributes, Bio, Requests};
use crate::structures::{Links, List, NoMemory};
use crate::traits::{Passing, Traits};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::{Direction, Flags, HardwareQueue, Nanos, Operation, RequestId};

/// Words of `order`, by value.
const ORDERS: &[&str] = &["nearest", "posted"];
/// Words of `count`, by value.
const COUNTS: &[&str] = &["requests", "sectors"];

crate::tunables! {
    /// The tunables; the original had none.
    pub struct Settings {
        /// Age at which a request becomes a barrier.
        expire_ns: "expire_ms", Unit::Milliseconds, 0..=2_147_483_647, 1000, OutOfRange::Refuse,
            "Age from which no later request of the same direction may pass a request; 0 = first come, first served.";
        /// Which lower sector a request is inserted behind.
        order: "order", Unit::Choice(ORDERS), 0..=1, 0, OutOfRange::Refuse,
            "Insertion point of a request: behind the lower sector nearest to the tail, or behind the frontmost one \
            as in the posted code.";
        /// What is counted when reads and writes are compared.
        count: "count", Unit::Choice(COUNTS), 0..=1, 0, OutOfRange::Refuse,
            "Unit in which the allowance of a read to overtake is counted; sectors as in the first version.";
        /// Whether merging continues beyond a barrier.
        merge_past_expired: "merge_past_expired", Unit::Boolean, 0..=1, 0, OutOfRange::Refuse,
            "Whether a bio may merge into a request behind one that may no longer be passed, as read-latency2 allows.";
    }
}

const POSTED: i64 = 1;
const SECTORS: i64 = 1;

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why { Head = "head of the list", }
}

/// The policy's state: one list. Ages come from the requests' start times.
#[derive(Debug)]
pub struct Nas {
    settings: Settings,
    links: Links,
    queued: List,
    max_sectors: u32,
    slots: u32,
    violations: u32,
}

impl Policy for Nas {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(2, 4, 20), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        Ok(Self {
            settings: Settings::DEFAULT,
            links: Links::try_new(configuration.slots)?,
            queued: List::EMPTY,
            max_sectors: configuration.max_sectors,
            slots: configuration.slots,
            violations: 0,
        })
    }
}

/// The result of a scan.
#[derive(Copy, Clone, Default)]
struct ScanResult {
    merge: Option<(u32, Side)>,
    behind: Option<u32>,
    /// Writes minus reads among the scanned requests.
    surplus: i64,
}

impl Elevator for Nas {
    const TRAITS: Traits = Traits { ticks_suffice: true, passing: Passing::NotOverdue, ..Traits::PLAIN };

    fn merge_search(&self) -> MergeSearch {
        MergeSearch::Own
    }

    fn merge(&mut self, requests: &Requests, bio: &Bio, now: Nanos) -> Merge {
        let found = self.scan(requests, bio, now);
        if let Some((slot, side)) = found.merge
            && let Some(id) = requests.id_of(slot)
        {
            return Merge::Into(id, side);
        }
        if let Some(id) = found.behind.and_then(|slot| requests.id_of(slot)) {
            return Merge::No(Hint::After(id));
        }
        if bio.direction() == Direction::Read {
            self.overtake(requests, found.surplus, now)
        } else {
            Merge::No(Hint::None)
        }
    }

    fn requests_merged(&mut self, _requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        // A request that is merged on its way in was never queued. The table keeps the older of the
        // two start times.
        if self.links.is_linked(gone.slot()) {
            self.queued.remove(&mut self.links, gone.slot());
        }
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.prev(id.slot())?)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.next(id.slot())?)
    }

    fn insert(&mut self, _requests: &Requests, id: RequestId, at: Position, _now: Nanos) -> Wake {
        let slot = id.slot();
        let done = match at {
            Position::Sorted(Hint::None) => self.queued.push_back(&mut self.links, slot),
            Position::Sorted(Hint::After(other)) => self.queued.insert_after(&mut self.links, other.slot(), slot),
            Position::Sorted(Hint::AtFront) | Position::Head | Position::Requeue => {
                self.queued.push_front(&mut self.links, slot)
            }
        };
        if !done {
            self.violations = self.violations.saturating_add(1);
        }
        Wake::All
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        match self.drain(requests, now) {
            Some(id) => Dispatch::Request { id, reason: Why::Head.into() },
            None => Dispatch::Empty,
        }
    }

    fn drain(&mut self, requests: &Requests, _now: Nanos) -> Option<RequestId> {
        requests.id_of(self.queued.pop_front(&mut self.links)?)
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        !self.queued.is_empty()
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        // Only a request that was taken back before it was chosen is still on the list here.
        if self.links.is_linked(id.slot()) {
            self.queued.remove(&mut self.links, id.slot());
        }
        Wake::No
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        for slot in self.queued.iter(&self.links).take(self.slots as usize) {
            if requests.id_of(slot).is_none() {
                return Err(Violation { what: "a queued request is in use", at: slot });
            }
        }
        Ok(())
    }
}

impl Nas {
    /// Scans from the tail to the first barrier.
    fn scan(&self, requests: &Requests, bio: &Bio, now: Nanos) -> ScanResult {
        let mut found = ScanResult::default();
        let mut merges_only = false;
        let mut at = self.queued.last();
        while let Some(slot) = at {
            at = self.links.prev(slot);
            let Some(id) = requests.id_of(slot) else { continue };
            let queued = requests.attributes(id);
            if is_special(queued) {
                break;
            }
            let weight = self.weight(queued);
            if !merges_only {
                let signed = if queued.operation == Operation::Read { weight.wrapping_neg() } else { weight };
                found.surplus = found.surplus.saturating_add(signed);
            }
            let is_of_its_kind = queued.device == bio.device
                && !queued.flags.contains(Flags::WAITING)
                && queued.direction() == bio.direction();
            if !is_of_its_kind {
                continue;
            }
            if self.is_old(requests.at(id).start_ns, now) {
                if self.settings.merge_past_expired == 0 {
                    break;
                }
                merges_only = true;
            }
            let is_lower = bio.extent.first_sector > queued.extent.first_sector;
            if is_lower && !merges_only && (self.settings.order == POSTED || found.behind.is_none()) {
                found.behind = Some(slot);
            }
            let sectors = queued.extent.sectors.saturating_add(bio.extent.sectors);
            if sectors > self.max_sectors || !queued.can_share_request(bio) {
                continue;
            }
            if queued.extent.is_followed_by(bio.extent) {
                found.merge = Some((slot, Side::Back));
            } else if bio.extent.is_followed_by(queued.extent) {
                found.merge = Some((slot, Side::Front));
            }
            if found.merge.is_some() {
                break;
            }
        }
        found
    }

    /// A read that finds no lower sector to be inserted behind overtakes *w - r* writes if *w*
    /// writes and *r* reads are queued, but no read that is older than the limit.
    fn overtake(&self, requests: &Requests, surplus: i64, now: Nanos) -> Merge {
        let mut surplus = surplus;
        let mut at = self.queued.last();
        while let Some(slot) = at {
            let Some(id) = requests.id_of(slot) else { return Merge::No(Hint::None) };
            let queued = requests.attributes(id);
            let is_passed = if is_special(queued) {
                // It counted as a write in the scan, but must not be overtaken.
                false
            } else if queued.operation == Operation::Read {
                surplus > 0 && !self.is_old(requests.at(id).start_ns, now)
            } else {
                surplus > 0
            };
            if !is_passed {
                return Merge::No(Hint::After(id));
            }
            if queued.operation != Operation::Read {
                surplus = surplus.saturating_sub(self.weight(queued));
            }
            at = self.links.prev(slot);
        }
        Merge::No(Hint::AtFront)
    }

    /// How much a request counts in the comparison of reads and writes.
    fn weight(&self, queued: &Attributes) -> i64 {
        if self.settings.count == SECTORS { i64::from(queued.extent.sectors) } else { 1 }
    }

    /// Whether a request is strictly older than the limit.
    fn is_old(&self, start_ns: Nanos, now: Nanos) -> bool {
        now.saturating_sub(start_ns) > self.settings.expire_ns.unsigned_abs()
    }
}

/// Whether a request is a driver's own command or a barrier, which no request may pass.
fn is_special(queued: &Attributes) -> bool {
    queued.operation == Operation::Passthrough || queued.flags.contains(Flags::BARRIER)
}
