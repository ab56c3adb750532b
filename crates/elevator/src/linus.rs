//! linus: the elevator of Linux 2.4, one list in ascending order, with a budget that bounds how
//! often a request is overtaken. read-latency2: the same, but a read without merge candidate is
//! inserted near the front.
//!
//! Promise  each request can be overtaken for a number of charge points only (`read_latency`,
//!          `write_latency`): 16 for an insertion in front of it, 1 for a merge. Once its budget is
//!          spent it is a barrier: no request goes in front of it. read-latency2: a read without
//!          merge candidate waits for `max_bomb_segments` units of writes (1 for each write, 1 more
//!          per 64 sectors), not for the whole queue.
//! Cost     O(queue) per bio, as the originals; 20 bytes a slot.
//! Fits     one disk without command queueing, 64 to 1,024 requests. A read may have to wait for a
//!          full queue of writes.
//! Source   Linux 2.4.20 drivers/block/elevator.c; A. Morton, read-latency2 for 2.4.20 (posted by
//!          M.-C. Petersen, 2002).
//!
//! Read [`Elevator::merge`] first: one scan from the tail decides where a bio is merged or
//! inserted.

use crate::interface::{
    Configuration, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side, Version, Violation, Wake,
};
use crate::request::{Attributes, Bio, Requests};
use crate::structures::{Array, Links, List, NoMemory};
use crate::traits::{Passing, Traits};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::{Direction, Flags, HardwareQueue, Nanos, Operation, RequestId};

crate::tunables! {
    /// The tunables, which were set by ioctl (elvtune).
    pub struct Settings {
        /// Budget of a read.
        read_latency: "read_latency", Unit::Count, 0..=2_147_483_647, 2048, OutOfRange::Refuse,
            "Charge points for which a read can be passed over: 16 per insertion, 1 per merge before it.";
        /// Budget of a write.
        write_latency: "write_latency", Unit::Count, 0..=2_147_483_647, 8192, OutOfRange::Refuse,
            "The same for a write.";
        /// Where a read without merge candidate is inserted.
        max_bomb_segments: "max_bomb_segments", Unit::Count, 0..=2_147_483_647, 6, OutOfRange::Refuse,
            "Units of writes that a read waits for: 1 for each and 1 more per 64 sectors; 0 = reads queue like writes.";
    }
}

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why { Head = "head of the list", }
}

/// How overtaking is charged.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Accounting {
    /// 2.4.0 to 2.4.19: each scan costs the scanned requests 1, each merge costs those behind it
    /// its length.
    MergesCost,
    /// 2.4.20: an insertion costs those behind it 16, a merge 1.
    SeeksCost,
    /// 2.4.21 and later: as 2.4.20, and a request with a spent budget may still take a back merge.
    SeeksCostBackMerges,
    /// read-latency2: as 2.4.20; in addition each scan costs the scanned requests 1, and a merge
    /// may pass requests with a spent budget.
    MergesPass,
}

/// What differs between the forms.
#[derive(Copy, Clone, Debug)]
pub struct Profile {
    accounting: Accounting,
    read_latency: i64,
    write_latency: i64,
}

/// Charges for the requests behind an insertion, and behind a merge.
const SEEK_COST: i32 = 16;
const MERGE_COST: i32 = 1;
/// Number of sectors that count as one unit of a write.
const UNIT_SECTORS: u32 = 64;

/// The policy's state: one list, and the rest of each request's budget.
#[derive(Debug)]
pub struct SortedList<const READS_FORWARD: bool> {
    accounting: Accounting,
    settings: Settings,
    links: Links,
    queued: List,
    /// Below 1: a barrier. Assigned at insertion; 0 for drivers' own commands and barriers.
    budget: Array<i32>,
    max_sectors: u32,
    violations: u32,
}

/// The elevator of 2.4.
pub type Linus = SortedList<false>;
/// Andrew Morton's read-latency2.
pub type ReadLatency2 = SortedList<true>;

const fn form(since: Version, accounting: Accounting, read_latency: i64, write_latency: i64) -> Form<Profile> {
    Form { since, profile: Profile { accounting, read_latency, write_latency } }
}

impl<const READS_FORWARD: bool> Policy for SortedList<READS_FORWARD> {
    type Profile = Profile;
    const FORMS: &'static [Form<Profile>] = if READS_FORWARD {
        &[form(Version(2, 4, 20), Accounting::MergesPass, 2048, 8192)]
    } else {
        &[
            form(Version(2, 4, 0), Accounting::MergesCost, 8192, 16_384),
            form(Version(2, 4, 20), Accounting::SeeksCost, 2048, 8192),
            form(Version(2, 4, 21), Accounting::SeeksCostBackMerges, 2048, 8192),
            form(Version(2, 5, 38), Accounting::SeeksCost, 1024, 2048),
        ]
    };
    // The default is the form of 2.4.20, the well-known one.
    const DEFAULT_FORM: usize = if READS_FORWARD { 0 } else { 1 };

    fn build(configuration: &Configuration, profile: Profile) -> Result<Self, NoMemory> {
        let Profile { accounting, read_latency, write_latency } = profile;
        Ok(Self {
            accounting,
            settings: Settings { read_latency, write_latency, ..Settings::DEFAULT },
            links: Links::try_new(configuration.slots)?,
            queued: List::EMPTY,
            budget: Array::try_new(configuration.slots, 0)?,
            max_sectors: configuration.max_sectors,
            violations: 0,
        })
    }
}

/// The result of a scan.
#[derive(Copy, Clone, Default)]
struct ScanResult {
    /// The request to merge into, and the side.
    merge: Option<(u32, Side)>,
    /// The request to insert behind.
    behind: Option<u32>,
    passed_a_read: bool,
}

impl<const READS_FORWARD: bool> Elevator for SortedList<READS_FORWARD> {
    const TRAITS: Traits =
        Traits { ticks_suffice: true, passing: Passing::Budget { reads_pass: READS_FORWARD }, ..Traits::PLAIN };

    fn merge_search(&self) -> MergeSearch {
        MergeSearch::Own
    }

    fn merge(&mut self, requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let mut found = self.scan(requests, bio);
        self.charge(bio, &found);
        if let Some((slot, side)) = found.merge
            && let Some(id) = requests.id_of(slot)
        {
            return Merge::Into(id, side);
        }
        let goes_forward = READS_FORWARD && bio.direction() == Direction::Read && !found.passed_a_read;
        if goes_forward && self.settings.max_bomb_segments != 0 {
            found.behind = self.place_near_front(requests, found.behind);
        }
        match found.behind.and_then(|slot| requests.id_of(slot)) {
            Some(id) => Merge::No(Hint::After(id)),
            None => Merge::No(Hint::None),
        }
    }

    fn requests_merged(&mut self, _requests: &Requests, keep: RequestId, gone: RequestId, _now: Nanos) {
        // A request that is merged on its way in was never queued.
        if self.links.is_linked(gone.slot()) {
            let budget = (*self.budget.at(gone.slot())).min(*self.budget.at(keep.slot()));
            *self.budget.at_mut(keep.slot()) = budget;
            self.queued.remove(&mut self.links, gone.slot());
        }
    }

    fn former(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.prev(id.slot())?)
    }

    fn latter(&self, requests: &Requests, id: RequestId) -> Option<RequestId> {
        requests.id_of(self.links.next(id.slot())?)
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, _now: Nanos) -> Wake {
        let slot = id.slot();
        if at != Position::Requeue {
            *self.budget.at_mut(slot) = self.first_budget(requests.attributes(id));
        }
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
        if READS_FORWARD { Settings::ROWS } else { Settings::ROWS.get(..2).unwrap_or(&[]) }
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        if index >= self.tunables().len() {
            return Err(SettingError::Unknown);
        }
        self.settings.set(index, value)
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        for slot in self.queued.iter(&self.links).take(self.budget.len() as usize) {
            if requests.id_of(slot).is_none() {
                return Err(Violation { what: "a queued request is in use", at: slot });
            }
        }
        Ok(())
    }
}

impl<const READS_FORWARD: bool> SortedList<READS_FORWARD> {
    /// The rest of a queued request's budget.
    pub fn budget_of(&self, id: RequestId) -> i32 {
        *self.budget.at(id.slot())
    }

    /// Scans from the tail to the first barrier: a request to merge into, and the first place where
    /// the bio is in order.
    fn scan(&mut self, requests: &Requests, bio: &Bio) -> ScanResult {
        let mut found = ScanResult::default();
        let mut merges_only = false;
        let mut at = self.queued.last();
        while let Some(slot) = at {
            at = self.links.prev(slot);
            let Some(id) = requests.id_of(slot) else { continue };
            let queued = requests.attributes(id);
            let budget = self.budget.at_mut(slot);
            let is_wall = *budget <= 0;
            if matches!(self.accounting, Accounting::MergesCost | Accounting::MergesPass) {
                *budget = budget.saturating_sub(1);
            }
            match self.accounting {
                Accounting::MergesCost | Accounting::SeeksCost if is_wall => break,
                Accounting::SeeksCostBackMerges if is_wall => {
                    if self.may_join(queued, bio) && queued.extent.is_followed_by(bio.extent) {
                        found.merge = Some((slot, Side::Back));
                    }
                    break;
                }
                _ => merges_only |= is_wall,
            }
            if queued.flags.contains(Flags::WAITING) || queued.device != bio.device {
                continue;
            }
            if found.behind.is_none() && !merges_only && self.is_in_between(requests, slot, bio) {
                found.behind = Some(slot);
            }
            found.passed_a_read |= queued.direction() == Direction::Read;
            if !self.may_join(queued, bio) {
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

    fn may_join(&self, queued: &Attributes, bio: &Bio) -> bool {
        let sectors = queued.extent.sectors.saturating_add(bio.extent.sectors);
        sectors <= self.max_sectors && queued.can_share_request(bio)
    }

    /// Whether a bio is in order between a request and the one behind it. Never true for the last
    /// one.
    fn is_in_between(&self, requests: &Requests, slot: u32, bio: &Bio) -> bool {
        let Some(behind) = self.links.next(slot).and_then(|slot| requests.id_of(slot)) else { return false };
        let Some(id) = requests.id_of(slot) else { return false };
        let (before, behind) = (requests.attributes(id), requests.attributes(behind));
        let (from, to, own) = (before.extent.first_sector, behind.extent.first_sector, bio.extent.first_sector);
        if before.device != behind.device {
            return own > from;
        }
        if from < own && own < to {
            return true;
        }
        // At a break in the order, a sector above the one request or below the other fits.
        to <= from && (own > from || own < to)
    }

    /// Charges the requests behind a merge or an insertion.
    fn charge(&mut self, bio: &Bio, found: &ScanResult) {
        let sectors = i32::try_from(bio.extent.sectors).unwrap_or(i32::MAX);
        let front_cost = if self.accounting == Accounting::MergesCost { sectors } else { MERGE_COST };
        if let Some((slot, Side::Front)) = found.merge {
            let budget = self.budget.at_mut(slot);
            *budget = budget.saturating_sub(front_cost);
        }
        let (target, cost) = match (self.accounting, found.merge, found.behind) {
            (Accounting::MergesCost, Some((slot, _)), _) => (slot, sectors),
            (Accounting::MergesCost, None, _) | (_, None, None) => return,
            (_, Some((slot, _)), _) => (slot, MERGE_COST),
            (_, None, Some(slot)) => (slot, SEEK_COST),
        };
        let mut at = self.links.next(target);
        while let Some(slot) = at {
            let budget = self.budget.at_mut(slot);
            *budget = budget.saturating_sub(cost);
            at = self.links.next(slot);
        }
    }

    /// Where a read is inserted instead of at the tail: behind a number of units of writes, unless
    /// its place in order is nearer to the front. No request is charged for it.
    fn place_near_front(&self, requests: &Requests, behind: Option<u32>) -> Option<u32> {
        let mut units = 0i64;
        let mut at = self.queued.first();
        while let Some(slot) = at {
            if behind == Some(slot) {
                return behind;
            }
            let Some(id) = requests.id_of(slot) else { return behind };
            let queued = requests.attributes(id);
            if queued.direction() == Direction::Write {
                units = units.saturating_add(1).saturating_add(i64::from(queued.extent.sectors / UNIT_SECTORS));
                if units >= self.settings.max_bomb_segments {
                    return Some(slot);
                }
            }
            at = self.links.next(slot);
        }
        behind
    }

    fn first_budget(&self, attributes: &Attributes) -> i32 {
        let is_special = attributes.operation == Operation::Passthrough || attributes.flags.contains(Flags::BARRIER);
        let points = match attributes.direction() {
            _ if is_special => 0,
            Direction::Read => self.settings.read_latency,
            Direction::Write => self.settings.write_latency,
        };
        i32::try_from(points).unwrap_or(i32::MAX)
    }
}
