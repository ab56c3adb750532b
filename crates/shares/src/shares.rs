//! The queue: a request queue around `wfq` or `paternoster` whose requests are items.

use alloc::vec::Vec;
use core::fmt;

use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId, Status};
use hoistway_elevator::group::{WEIGHT_MAX, WEIGHT_MIN};
use hoistway_elevator::structures::NoMemory;
use hoistway_elevator::{Attributes, Ceiling, Ceilings, Configuration, Depth, GroupSettings, GroupState, IoLimits};
use hoistway_queue::{Era, Merging, Next, RequestQueue, Settings};

/// The scheduler that orders the items; the one that also finds out how many to serve at a time; and the limiter that
/// holds them back.
const ORDER: &str = "wfq";
const LEARNING_ORDER: &str = "paternoster";
const LIMITER: &str = "rate";
/// The limiter counts bytes; one unit of cost is a sector.
const BYTES_PER_COST: u64 = 512;
/// The largest cost of an item.
pub const COST_MAX: u32 = 1 << 24;

/// The sizes of a queue. They are fixed, because everything is allocated when it is built.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct SharesSettings {
    /// Most tenants at a time, 1 to 65,535.
    pub tenants: u32,
    /// Most items that wait or are in service, 1 to 1,000,000.
    pub items: u32,
    /// Most items in service at a time, at least 1: the degree of parallelism of what is shared.
    pub in_service: u32,
    /// Whether fewer items are in service while tenants compete, as few as what is shared needs for its full throughput.
    /// Weights act on items that wait only, so that without this `in_service` must be known. The throughput is measured
    /// in cost and time by the scheduler `paternoster`, which gives up at most 3 % of it. Costs must then be of
    /// [`cost_of_bytes`], and times those of a real clock.
    pub learns: bool,
}

impl Default for SharesSettings {
    /// 64 tenants, 4,096 items, one in service.
    fn default() -> Self {
        Self { tenants: 64, items: 4096, in_service: 1, learns: false }
    }
}

/// The cost of an item that moves this many bytes: one for each 512, at least 1 and at most [`COST_MAX`] (8 GiB).
#[must_use]
pub const fn cost_of_bytes(bytes: u64) -> u32 {
    let cost = bytes.div_ceil(BYTES_PER_COST);
    if cost == 0 {
        1
    } else if cost < COST_MAX as u64 {
        #[expect(clippy::cast_possible_truncation, reason = "less than COST_MAX")]
        let cost = cost as u32;
        cost
    } else {
        COST_MAX
    }
}

/// A tenant of a queue.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantId(u32);

/// An item in service.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct TurnId(RequestId);

/// Upper limits of a tenant; `None` means unlimited.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct RateLimits {
    /// Cost per second, at least 1.
    pub cost_per_s: Option<u64>,
    /// Items per second, at least 1.
    pub items_per_s: Option<u32>,
}

/// An item whose turn it is. Call [`Shares::done`] when it has been served.
#[derive(Debug)]
pub struct Turn<T> {
    /// Its name for [`Shares::done`].
    pub id: TurnId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its cost.
    pub cost: u32,
    /// The item as submitted.
    pub item: T,
}

/// Why a tenant was not added.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotAdded {
    /// There are as many tenants as [`SharesSettings::tenants`].
    Full,
    /// The weight is 0 or above 10,000.
    Weight,
}

impl fmt::Display for NotAdded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAdded::Full => f.write_str("there is no room for another tenant"),
            NotAdded::Weight => write!(f, "a weight is {WEIGHT_MIN} to {WEIGHT_MAX}"),
        }
    }
}

impl core::error::Error for NotAdded {}

/// Why an item was not taken in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// As many items as [`SharesSettings::items`] wait or are in service.
    Full,
    /// There is no such tenant, or it was removed.
    NoSuchTenant,
    /// The cost is 0 or above [`COST_MAX`].
    Cost,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Full => f.write_str("the queue is full"),
            Why::NoSuchTenant => f.write_str("there is no such tenant"),
            Why::Cost => write!(f, "a cost is 1 to {COST_MAX}"),
        }
    }
}

/// An item that was not taken in, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected<T> {
    /// The item.
    pub item: T,
    /// The reason.
    pub why: Why,
}

impl<T> fmt::Display for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<T: fmt::Debug> core::error::Error for Rejected<T> {}

/// A fair queue of items.
///
/// While several tenants have items waiting, each gets service in proportion to its weight, to
/// within one item of each; a tenant that is idle saves nothing up. Items of one tenant keep their
/// order. Every call takes O(log n) for n tenants. `now` must not decrease from call to call.
#[derive(Debug)]
pub struct Shares<T> {
    queue: RequestQueue,
    /// Items that wait, by cookie.
    items: Vec<Option<T>>,
    free: Vec<u32>,
    tenants: u32,
    has_limits: bool,
}

impl<T> Shares<T> {
    /// A queue without tenants.
    ///
    /// # Errors
    /// When memory is short.
    pub fn new(of: &SharesSettings) -> Result<Self, NoMemory> {
        let items = of.items.clamp(1, 1_000_000);
        let tenants = of.tenants.clamp(1, 65_535);
        let configuration = Configuration {
            slots: Era::ENGINE.slots(items, 1),
            // The root is group 0 and has no items of its own.
            groups: tenants + 1,
            contexts: tenants + 1,
            depth: Depth { requests: items, device: of.in_service.max(1) },
            max_sectors: u32::MAX,
            ..Configuration::default()
        };
        let merging = Merging::Never;
        let settings = Settings { configuration, era: Era::ENGINE, merging, bios: items, ..Settings::default() };
        let order = if of.learns { LEARNING_ORDER } else { ORDER };
        let queue = RequestQueue::build(order, None, &settings).map_err(|_| NoMemory)?;
        let mut free = Vec::new();
        let mut places = Vec::new();
        free.try_reserve_exact(items as usize).map_err(|_| NoMemory)?;
        places.try_reserve_exact(items as usize).map_err(|_| NoMemory)?;
        free.extend((0..items).rev());
        places.resize_with(items as usize, || None);
        Ok(Self { queue, items: places, free, tenants, has_limits: false })
    }

    /// Adds a tenant with a weight of 1 to 10,000.
    ///
    /// # Errors
    /// [`NotAdded`]: another weight, or no room.
    pub fn add_tenant(&mut self, weight: u32, now: Nanos) -> Result<TenantId, NotAdded> {
        let settings = settings(weight).ok_or(NotAdded::Weight)?;
        let absent = |id: &u32| self.queue.groups().state(GroupId(*id)) == GroupState::Absent;
        let id = (1..=self.tenants).find(absent).ok_or(NotAdded::Full)?;
        self.queue.add_group(GroupId(id), &settings, now).then_some(TenantId(id)).ok_or(NotAdded::Full)
    }

    /// Changes a tenant's weight, from its next item on. False, and nothing changes, if there is no such tenant or the
    /// weight is outside 1 to 10,000.
    #[must_use = "false: nothing has changed"]
    pub fn set_weight(&mut self, tenant: TenantId, weight: u32, now: Nanos) -> bool {
        settings(weight).is_some_and(|settings| self.queue.change_group(GroupId(tenant.0), &settings, now))
    }

    /// Sets a tenant's limits. Items above them wait, while those of others go on. False if there is
    /// no such tenant.
    #[must_use = "false: there is no limit"]
    pub fn set_limits(&mut self, tenant: TenantId, limits: &RateLimits, now: Nanos) -> bool {
        if !self.is_online(tenant) {
            return false;
        }
        if !self.has_limits {
            self.has_limits = self.queue.add_limiter(LIMITER, now).is_ok();
        }
        let bytes = limits.cost_per_s.map_or(u64::MAX, |cost| cost.max(1).saturating_mul(BYTES_PER_COST));
        let ios = limits.items_per_s.map_or(u64::MAX, |items| u64::from(items.max(1)));
        let ceilings = Ceilings { total: Ceiling { bytes_per_s: bytes, ios_per_s: ios }, ..Ceilings::NONE };
        self.queue.set_limits(GroupId(tenant.0), &IoLimits { ceilings, ..IoLimits::NONE }, now);
        self.has_limits
    }

    /// Removes a tenant. What it has submitted is still served. False if there is no such tenant.
    #[must_use = "false: there is no such tenant"]
    pub fn remove_tenant(&mut self, tenant: TenantId, now: Nanos) -> bool {
        self.queue.remove_group(GroupId(tenant.0), now)
    }

    /// Takes an item in.
    ///
    /// # Errors
    /// [`Rejected`] with the item.
    pub fn submit(&mut self, tenant: TenantId, cost: u32, item: T, now: Nanos) -> Result<(), Rejected<T>> {
        if !self.is_online(tenant) {
            return Err(Rejected { item, why: Why::NoSuchTenant });
        }
        if !(1..=COST_MAX).contains(&cost) {
            return Err(Rejected { item, why: Why::Cost });
        }
        let Some(cookie) = self.free.pop() else { return Err(Rejected { item, why: Why::Full }) };
        let mut bio = Attributes::new(Operation::Read, Extent::new(0, cost));
        bio.group = GroupId(tenant.0);
        bio.context = ContextId(tenant.0);
        if self.queue.submit(&bio, u64::from(cookie), now).is_err() {
            self.free.push(cookie);
            return Err(Rejected { item, why: Why::Full });
        }
        if let Some(place) = self.items.get_mut(cookie as usize) {
            *place = Some(item);
        }
        self.forget_wakes();
        Ok(())
    }

    /// The next item to serve; `None` if none waits, if enough are in service, or if all that wait
    /// are above their limits, until [`Shares::next_timer`].
    pub fn next(&mut self, now: Nanos) -> Option<Turn<T>> {
        if self.queue.next_timer().is_some_and(|at| at <= now) {
            self.queue.timer(now);
        }
        let Next::Start { id, .. } = self.queue.dispatch(HardwareQueue(0), now) else { return None };
        let (cookie, bio) = self.queue.bios_of(id).next()?;
        let (tenant, cost) = (TenantId(bio.group.0), bio.extent.sectors);
        let cookie = u32::try_from(cookie).ok()?;
        let item = self.items.get_mut(cookie as usize)?.take()?;
        self.free.push(cookie);
        Some(Turn { id: TurnId(id), tenant, cost, item })
    }

    /// The item has been served, which makes room for another. False if it was done before.
    #[must_use = "false: the turn was over already"]
    pub fn done(&mut self, id: TurnId, now: Nanos) -> bool {
        if !self.queue.requests().is_live(id.0) {
            return false;
        }
        self.queue.complete(id.0, Status::Ok, now, |_| {});
        self.forget_wakes();
        true
    }

    /// When a limit lets the next item go: call [`Shares::next`] then. `None` if no item is held.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.queue.next_timer()
    }

    /// Items that wait.
    pub fn waiting(&self) -> u32 {
        self.queue.bios_in_flight().saturating_sub(self.in_service())
    }

    /// Items in service.
    pub fn in_service(&self) -> u32 {
        self.queue.in_device()
    }

    fn is_online(&self, tenant: TenantId) -> bool {
        (1..=self.tenants).contains(&tenant.0) && self.queue.groups().state(GroupId(tenant.0)) == GroupState::Online
    }

    /// The queue notes for its host whom to wake; here the caller asks for the next item anyway.
    fn forget_wakes(&mut self) {
        while self.queue.take_admitted().is_some() {}
        let _ = self.queue.take_wake();
    }
}

fn settings(weight: u32) -> Option<GroupSettings> {
    (WEIGHT_MIN..=WEIGHT_MAX).contains(&weight).then(|| GroupSettings::with_weight(weight))
}
