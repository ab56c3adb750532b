//! What each group had of the device, by kind of request: a request costs one record on its way out and one on its way
//! back, and the account with its sums is put together when somebody reads it.

use super::Bfq;
use super::state::{Held, Slot};
use crate::account::{ByKind, GroupAccount};
use crate::request::Requests;
use block::{Direction, GroupId, Nanos};

/// Of the requests of one kind.
#[derive(Copy, Clone, Debug)]
struct Service {
    /// Dispatched.
    requests: u64,
    sectors: u64,
    /// From the device's taking them to their completion, and from their allocation to that.
    service_ns: Nanos,
    wait_ns: Nanos,
}

/// Reads and writes, async ones before sync ones.
#[derive(Copy, Clone, Debug)]
pub struct Served([Service; 4]);

impl Served {
    pub const ZERO: Served = Served([Service { requests: 0, sectors: 0, service_ns: 0, wait_ns: 0 }; 4]);

    #[inline]
    fn of_kind(&mut self, direction: Direction, is_sync: bool) -> &mut Service {
        let Self([reads, sync_reads, writes, sync_writes]) = self;
        match (direction, is_sync) {
            (Direction::Read, false) => reads,
            (Direction::Read, true) => sync_reads,
            (Direction::Write, false) => writes,
            (Direction::Write, true) => sync_writes,
        }
    }

    /// One of them goes to the device.
    #[inline]
    pub fn count_dispatch(&mut self, slot: &Slot) {
        let service = self.of_kind(slot.direction, slot.is_sync);
        service.requests = service.requests.wrapping_add(1);
        service.sectors = service.sectors.wrapping_add(u64::from(slot.sectors));
    }

    fn sums(&self, of: impl Fn(&Service) -> u64) -> ByKind {
        let mut sums = ByKind::ZERO;
        let kinds =
            [(Direction::Read, false), (Direction::Read, true), (Direction::Write, false), (Direction::Write, true)];
        for (service, (direction, is_sync)) in self.0.iter().zip(kinds) {
            sums.add(direction, is_sync, of(service));
        }
        sums
    }
}

impl Bfq {
    /// A request is back: how long it waited, and how long the device had it.
    #[inline]
    pub(super) fn account_completion(&mut self, requests: &Requests, slot: u32) {
        let entry = self.slots.at(slot);
        let request = requests.at(entry.id);
        let (issued_ns, start_ns) = (request.issued_ns, request.start_ns);
        let service = self.groups.at_mut(entry.group).served.of_kind(entry.direction, entry.is_sync);
        service.service_ns = service.service_ns.wrapping_add(self.clock.ns.saturating_sub(issued_ns));
        service.wait_ns = service.wait_ns.wrapping_add(issued_ns.saturating_sub(start_ns));
    }

    /// Everything about a group; what is queued is looked up.
    pub(super) fn account_of(&self, group: GroupId) -> Option<GroupAccount> {
        let state = self.groups.get(group.0)?;
        let served = &state.served;
        let mut account = state.account;
        account.sectors = served.sums(|service| service.sectors).total();
        account.serviced = served.sums(|service| service.requests);
        account.service_bytes = served.sums(|service| service.sectors.saturating_mul(512));
        account.service_time_ns = served.sums(|service| service.service_ns);
        account.wait_time_ns = served.sums(|service| service.wait_ns);
        let is_queued = |slot: &&Slot| slot.group == group.0 && matches!(slot.held, Held::Queued | Held::Direct);
        for slot in self.slots.iter().filter(is_queued) {
            account.queued.add(slot.direction, slot.is_sync, 1);
        }
        Some(account)
    }
}
