//! Drives with several actuators (Linux 6.3): an issuer has a queue for each actuator's range of
//! sectors, and an actuator with little load gets a request of a queue that is not in service.
//!
//! An issuer has a record for each actuator. They are `issuers` records apart in the table, so that
//! with one actuator the index of a record is the issuer's number.

use super::Bfq;
use crate::actuators::Actuators;
use crate::request::Bio;
use crate::structures::{Array, Links, List, NIL, NoMemory};
use hoistway_block::{ContextId, Sector, SectorRange};

/// An actuator with fewer requests than this is underutilised (Linux: `actuator_load_threshold`).
const SHORT_OF_WORK: u32 = 4;

/// The actuators, the mapping of records to issuers and actuators, and the active queues of each.
///
/// Invariant: a queue in an active set is on the list of its actuator, and no other queue is on any.
#[derive(Debug)]
pub struct ActuatorTable {
    pub count: u32,
    reported: u32,
    /// Number of issuers, plus one record shared by all that are out of range.
    issuers: u32,
    ranges: Array<SectorRange>,
    /// Requests in flight in each actuator; kept only if there are several.
    in_driver: Array<u32>,
    /// Queues in active sets, by actuator, the most recently added first: the order in which
    /// injection tries them.
    active: Array<List>,
    active_links: Links,
}

impl ActuatorTable {
    /// Builds the table for these actuators, or for a single one if the form does not support
    /// several.
    #[inline(always)]
    pub fn try_new(actuators: &Actuators, is_known: bool, issuers: u32, queues: u32) -> Result<Self, NoMemory> {
        let count = Self::count_of(actuators, is_known);
        let actuators = if is_known { actuators } else { &Actuators::ONE };
        let reported = actuators.reported();
        let ranges = ranges_of(actuators)?;
        let in_driver = Array::try_new(count, 0)?;
        let active = Array::try_new(count, List::EMPTY)?;
        let active_links = Links::try_new(queues)?;
        Ok(Self { count, reported, issuers, ranges, in_driver, active, active_links })
    }

    /// How many actuators a form tells apart.
    pub fn count_of(actuators: &Actuators, is_known: bool) -> u32 {
        if is_known { actuators.count() } else { Actuators::ONE.count() }
    }

    #[inline]
    pub const fn is_one(&self) -> bool {
        self.count <= 1
    }

    /// The number of actuators of the drive, if it is more than are distinguished.
    pub fn surplus(&self) -> Option<u32> {
        (self.reported > self.count).then_some(self.reported)
    }

    /// The record of an issuer: issuers out of range share the last one.
    #[inline]
    pub fn issuer(&self, context: ContextId) -> u32 {
        context.0.min(self.issuers.wrapping_sub(1))
    }

    /// The actuator that a record belongs to.
    #[inline]
    pub fn of_record(&self, record: u32) -> u32 {
        if self.is_one() { 0 } else { record.checked_div(self.issuers).unwrap_or(0) }
    }

    /// The issuer that a record belongs to.
    #[inline]
    pub fn issuer_of(&self, record: u32) -> u32 {
        if self.is_one() { record } else { record.checked_rem(self.issuers).unwrap_or(record) }
    }

    /// The records of an issuer, by actuator.
    #[inline]
    pub fn records(&self, issuer: u32) -> impl Iterator<Item = u32> + use<> {
        let issuers = self.issuers;
        (0..self.count).map(move |actuator| actuator.wrapping_mul(issuers).wrapping_add(issuer))
    }

    #[inline]
    pub fn count_in_driver(&mut self, record: u32, more: u32) {
        if !self.is_one() {
            let count = self.in_driver.at_mut(self.of_record(record));
            *count = count.wrapping_add(more);
        }
    }

    pub fn in_driver(&self, actuator: u32) -> u32 {
        *self.in_driver.at(actuator)
    }

    /// Adds a queue that entered an active set to the list of its actuator; false if it was in the
    /// list already.
    #[inline]
    pub fn list_active(&mut self, actuator: u8, queue: u32) -> bool {
        self.active.at_mut(u32::from(actuator)).push_front(&mut self.active_links, queue)
    }

    #[inline]
    pub fn unlist_active(&mut self, actuator: u8, queue: u32) -> bool {
        self.active.at_mut(u32::from(actuator)).remove(&mut self.active_links, queue)
    }

    /// Queues in active sets, actuator by actuator, the most recent first.
    pub fn active_queues(&self) -> impl Iterator<Item = u32> {
        self.active.iter().flat_map(|list| list.iter(&self.active_links))
    }

    /// Queues of an actuator in active sets, the most recent first.
    pub fn active_of(&self, actuator: u32) -> impl Iterator<Item = u32> {
        self.active.at(actuator).iter(&self.active_links)
    }

    /// Whether a queue is on the list of its actuator.
    pub fn is_listed(&self, queue: u32) -> bool {
        self.active_links.is_linked(queue)
    }

    /// The actuators that are short of work: they hold few requests, and fewer than the next one.
    fn short_of_work(&self) -> impl Iterator<Item = u32> {
        let last = self.count.wrapping_sub(1);
        (0..self.count).filter(move |actuator| {
            let in_driver = self.in_driver(*actuator);
            let is_behind_next = *actuator == last || in_driver < self.in_driver(actuator.wrapping_add(1));
            in_driver < SHORT_OF_WORK && is_behind_next
        })
    }

    /// The record of an issuer for the actuator of a bio's last sector.
    #[inline]
    pub fn record_of(&self, bio: &Bio) -> u32 {
        let issuer = self.issuer(bio.context);
        if self.is_one() { issuer } else { self.record_by_range(issuer, bio) }
    }

    #[inline(never)]
    fn record_by_range(&self, issuer: u32, bio: &Bio) -> u32 {
        let last_sector = bio.extent.end().wrapping_sub(u64::from(bio.extent.sectors > 0));
        self.serving(last_sector).wrapping_mul(self.issuers).wrapping_add(issuer)
    }

    /// The actuator that serves a sector; the first if none does.
    fn serving(&self, sector: Sector) -> u32 {
        (0..self.count).find(|number| self.ranges.at(*number).holds(sector)).unwrap_or(0)
    }
}

#[inline(never)]
fn ranges_of(actuators: &Actuators) -> Result<Array<SectorRange>, NoMemory> {
    let count = actuators.count();
    let mut ranges = Array::try_new(count, SectorRange::default())?;
    for (number, range) in (0..count).zip(actuators.ranges()) {
        *ranges.at_mut(number) = *range;
    }
    Ok(ranges)
}

impl Bfq {
    /// Whether the issuer of a record has at most this one request, over all actuators.
    #[inline]
    pub(super) fn is_its_only_request(&self, record: u32) -> bool {
        self.contexts.at(record).requests <= 1 && (self.actuators.is_one() || self.requests_of_issuer(record) <= 1)
    }

    #[inline(never)]
    fn requests_of_issuer(&self, record: u32) -> u32 {
        let records = self.actuators.records(self.actuators.issuer_of(record));
        records.fold(0, |sum, record| sum.wrapping_add(self.contexts.at(record).requests))
    }

    /// The queue whose request an underutilised actuator should get, or NIL. The first such
    /// actuator with a queue decides, and the queue in service takes precedence over all others of
    /// its actuator.
    #[inline(never)]
    pub(super) fn queue_for_idle_actuator(&self) -> u32 {
        let short = self.actuators.short_of_work();
        short.map(|actuator| self.queue_of_actuator(actuator)).find(|queue| *queue != NIL).unwrap_or(NIL)
    }

    fn queue_of_actuator(&self, actuator: u32) -> u32 {
        let served = self.in_service;
        if served != NIL && u32::from(self.queues.at(served).actuator) == actuator {
            return served;
        }
        self.actuators.active_of(actuator).find(|queue| self.may_inject(*queue)).unwrap_or(NIL)
    }
}
