//! sfq, sfq-d2, mqfq: start-time fair queueing in front of a device that serves many requests at
//! once. The family to compare paternoster with.
//!
//! Promise  a backlogged issuer has its share of what is dispatched, to within one request of each
//!          sibling; what is in flight already is bounded by a depth (sfq), by its residence time
//!          (sfq-d2), or by the lead over the issuers that are furthest behind (mqfq).
//! Cost     O(log n) per level of groups and request, as wfq.
//! Fits     comparisons: each shows what one of paternoster's ingredients does alone.
//! Source   sfq: Jin, Chase, Kaur 2004 (SFQ(D)); sfq-d2: the depth by feedback of IBIS, Xu et al.
//!          2013 (SFQ(D2)); mqfq: Hedayati et al. 2019, in strict form.
//!
//! insert -> order -> rule (room in the device? a laggard?) -> host -> completed -> rule
//!
//! Read `../order/mod.rs` for the order; each rule is a file: `depth.rs`, `feedback.rs`,
//! `strict.rs`.

mod depth;
mod feedback;
mod strict;

use crate::group::GroupSettings;
use crate::group::WEIGHT_DEFAULT;
use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Policy, Position, Version, Violation, Wake,
};
use crate::order::{Lead, Order, Place, Standing, Strict, cost};
use crate::request::{Bio, Requests};
use crate::structures::{Array, NIL, NoMemory};
use crate::tag_shares::TagShares;
use crate::traits::{Passing, Traits};
use crate::tunable::{SettingError, Tunable};
use hoistway_block::time::is_due;
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};

/// SFQ(D): at most D requests in flight.
pub type SfqD = StartTime<depth::FixedDepth>;
/// SFQ(D2): as many in flight as keep the residence time bounded.
pub type SfqD2 = StartTime<feedback::ByResidence>;
/// MQFQ in strict form: no issuer leads the one furthest behind.
pub type Mqfq = StartTime<strict::Strict>;

crate::reasons! {
    /// Why a request was chosen, or what is waited for.
    pub enum Why {
        SmallestTag = "smallest start tag",
        WaitsForLaggard = "waits for a lagging group",
    }
}

/// What distinguishes the members of the family.
pub trait Rule: Sized {
    /// Whether issuers with all their requests in flight are remembered.
    const IS_STRICT: bool;
    /// The tunables' rows.
    const ROWS: &'static [Tunable];

    /// The rule with default tunables.
    fn new() -> Self;
    /// The value of a row.
    fn setting(&self, index: usize) -> Option<i64>;
    /// Sets a row.
    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError>;
    /// Sectors charged for every request in addition to its own.
    fn request_cost_sectors(&self) -> u64;
    /// How many requests may be in flight in a device with this depth.
    fn limit(&self, device_depth: u32) -> u32;
    /// A request completed after `_stayed_ns`, with `_in_flight` in flight before that.
    fn learn(&mut self, _now: Nanos, _stayed_ns: Nanos, _in_flight: u32, _device_depth: u32) {}
    /// By how many sectors an issuer may lead, and how long an empty one is waited for.
    fn patience(&self) -> (u64, Nanos) {
        (0, 0)
    }
}

/// A request in flight.
#[derive(Copy, Clone, Debug)]
struct InFlight {
    is_in_flight: bool,
    dispatched_ns: Nanos,
    /// The queue it came from.
    queue: u32,
}

/// The state of a member of the family.
#[derive(Debug)]
pub struct StartTime<R> {
    rule: R,
    order: Order,
    shares: TagShares,
    in_flight: Array<InFlight>,
    in_flight_total: u32,
    depth: Depth,
    hardware_queues: u32,
    is_holding: bool,
    hold_until: Option<Nanos>,
    violations: u32,
}

impl<R: Rule> Policy for StartTime<R> {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(0, 0, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        Ok(Self {
            rule: R::new(),
            order: Order::try_new(configuration, if R::IS_STRICT { Strict::AtRoot } else { Strict::Never })?,
            shares: TagShares::try_new(configuration.groups)?,
            in_flight: Array::try_new(
                configuration.slots,
                InFlight { is_in_flight: false, dispatched_ns: 0, queue: NIL },
            )?,
            in_flight_total: 0,
            depth: configuration.depth,
            hardware_queues: u32::from(configuration.hardware_queues.max(1)),
            is_holding: false,
            hold_until: None,
            violations: 0,
        })
    }
}

impl<R: Rule> StartTime<R> {
    fn device_depth(&self) -> u32 {
        self.depth.device.max(1).saturating_mul(self.hardware_queues)
    }

    fn wake_up(&mut self) -> Wake {
        (self.is_holding, self.hold_until) = (false, None);
        Wake::All
    }

    fn hold(&mut self, until: Option<Nanos>) -> Dispatch {
        (self.is_holding, self.hold_until) = (true, until);
        match until {
            Some(until) => Dispatch::Hold { until, reason: Why::WaitsForLaggard.into() },
            None => Dispatch::Throttled,
        }
    }

    fn leave_device(&mut self, slot: u32, now: Nanos, is_done: bool) {
        let entry = self.in_flight.at_mut(slot);
        if !core::mem::replace(&mut entry.is_in_flight, false) {
            return;
        }
        let (dispatched_ns, queue) = (entry.dispatched_ns, entry.queue);
        if is_done {
            let stayed_ns = now.saturating_sub(dispatched_ns);
            self.rule.learn(
                now,
                stayed_ns,
                self.in_flight_total,
                self.depth.device.saturating_mul(self.hardware_queues),
            );
        }
        self.in_flight_total = self.in_flight_total.saturating_sub(1);
        self.order.left_device(queue, now);
    }
}

impl<R: Rule> Elevator for StartTime<R> {
    const TRAITS: Traits = Traits {
        passing: if R::IS_STRICT { Passing::WeightedServiceInFlight } else { Passing::WeightedService },
        ..Traits::TAG_SHARES
    };

    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        self.shares.admission(bio.group, self.depth.requests, 0, 0)
    }

    fn allocated(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.shares.count(requests.attributes(id).group, true);
    }

    fn freed(&mut self, requests: &Requests, id: RequestId, _now: Nanos) {
        self.shares.count(requests.attributes(id).group, false);
    }

    /// A request holds transfers of one issuer only: otherwise one would pay for another.
    fn may_merge(&self, requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        requests.attributes(id).context == bio.context
    }

    fn requests_merged(&mut self, _requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        self.order.take(gone.slot());
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let is_in_front = !matches!(at, Position::Sorted(_));
        let place = Place { is_shared: false, weight: WEIGHT_DEFAULT };
        if self.order.insert(requests.attributes(id), id.slot(), place, is_in_front, now).is_none() {
            self.violations = self.violations.saturating_add(1);
            return Wake::No;
        }
        self.wake_up()
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        if self.order.is_empty() {
            return Dispatch::Empty;
        }
        if self.in_flight_total >= self.rule.limit(self.device_depth()) {
            return self.hold(None);
        }
        if R::IS_STRICT {
            let (lead_sectors, wait_ns) = self.rule.patience();
            self.order.set_patience(wait_ns, wait_ns);
            let first = self.order.first().unwrap_or(NIL);
            match self.order.standing(first, Lead::of_weight_100(lead_sectors), now) {
                Standing::InOrder => {}
                Standing::Ahead => return self.hold(None),
                Standing::AheadUntil(until) => return self.hold(Some(until)),
            }
        }
        match self.drain(requests, now) {
            Some(id) => Dispatch::Request { id, reason: Why::SmallestTag.into() },
            None => Dispatch::Empty,
        }
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        let slot = self.order.first().and_then(|queue| self.order.head(queue))?;
        let id = requests.id_of(slot);
        let cost = id.map_or(0, |id| cost(requests.attributes(id), self.rule.request_cost_sectors()));
        let queue = self.order.serve(slot, cost);
        *self.in_flight.at_mut(slot) = InFlight { is_in_flight: true, dispatched_ns: now, queue };
        self.in_flight_total = self.in_flight_total.wrapping_add(1);
        id
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        !self.is_holding && !self.order.is_empty()
    }

    fn requeued(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.leave_device(id.slot(), now, false);
        self.wake_up()
    }

    fn completed(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.leave_device(id.slot(), now, true);
        self.wake_up()
    }

    fn withdrawn(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) {
        self.order.take(id.slot());
    }

    fn released(&mut self, _requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        self.leave_device(id.slot(), now, false);
        self.wake_up()
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.hold_until
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        if self.hold_until.is_some_and(|at| is_due(now, at)) { self.wake_up() } else { Wake::No }
    }

    fn context_exited(&mut self, context: ContextId, _now: Nanos) -> Wake {
        self.order.context_exited(context.0);
        Wake::No
    }

    fn group_added(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) {
        self.order.group_added(group, settings.parent, settings.clamped_weight());
        self.shares.group_added(group, settings.parent, settings.clamped_weight());
    }

    fn group_changed(&mut self, group: GroupId, settings: &GroupSettings, _now: Nanos) -> Wake {
        self.order.group_changed(group, settings.clamped_weight());
        self.shares.group_changed(group, settings.clamped_weight());
        Wake::No
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.depth = depth;
        let _ = self.wake_up();
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        R::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.rule.setting(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.rule.set(index, value)?;
        let _ = self.wake_up();
        Ok(())
    }

    fn violations(&self) -> u32 {
        self.violations.saturating_add(self.order.violations())
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        let in_flight = self.in_flight.iter().filter(|entry| entry.is_in_flight).count();
        if u32::try_from(in_flight) != Ok(self.in_flight_total) {
            return Err(Violation { what: "requests in the device are counted", at: self.in_flight_total });
        }
        self.shares.check()?;
        self.order.check(requests, |slot| self.in_flight.at(slot).is_in_flight.then(|| self.in_flight.at(slot).queue))
    }
}
