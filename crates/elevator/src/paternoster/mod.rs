//! paternoster: shares by weight at full throughput; exact, unless that is proven to cost more than
//! `give` per cent.
//!
//! Promise  shares are exact as long as they cost no more than `give` per cent of what the device
//!          delivers without a scheduler; where they would cost more, `give` per cent is spent, and
//!          shares are as near to the weights as that allows. No tenant is held back unless that helps
//!          one that is due more, and a tenant that lags keeps three fifths of what exact shares
//!          would give it.
//! Cost     O(log n) per level of groups and request, as wfq.
//! Fits     flash, arrays and disks whose tenants have weights.
//! Source   start-time fair queueing (Goyal, Vin, Cheng 1996) with strict dispatch (MQFQ, Hedayati
//!          et al. 2019); how many requests are served although their tenants lead is learned
//!          (docs/specifications/paternoster.md, sections 4 and 5).
//!
//! insert -> order -> choose (in order? within the window?) -> host -> completed -> meter
//! -> controller
//!
//! Read `choose.rs` first, then `controller.rs`. Disks may be used in slices: `slices.rs`.

mod age;
mod choose;
mod classes;
mod controller;
mod dither;
mod elevator;
mod epoch;
mod evidence;
mod latency;
mod leaders;
mod meter;
mod price;
mod repayment;
mod retry;
mod returning;
mod slices;
mod steady;
mod steps;
mod sweep;
mod tally;
mod tunables;
mod usual;
mod ways;

use crate::account::GroupAccount;
use crate::group::GroupSettings;
use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Policy, Position, Side, Version, Violation, Wake,
};
use crate::message::{Message, Messages};
use crate::order::{Order, Strict};
use crate::request::{Bio, Requests};
use crate::structures::{Array, Links, NIL, NoMemory};
use crate::tag_shares::TagShares;
use crate::traits::Traits;
use crate::tunable::{SettingError, Tunable};
use age::ByAge;
use classes::Classes;
use controller::Controller;
use dither::Dither;
use epoch::Work;
use hoistway_block::random::Stream;
use hoistway_block::time::{MICROSECOND, SECOND, is_due};
use hoistway_block::{Class, ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use latency::LatencyGuard;
use leaders::Leaders;
use meter::Meter;
use repayment::Repayment;
use returning::Returning;
use slices::Slices;
use tally::Tallies;
use tunables::{GIVE, Settings};

crate::reasons! {
    /// Why a request was chosen, or what the device waits for.
    pub enum Why {
        InOrder = "first in order",
        InWindow = "leader, to fill the device",
        RealTime = "real time",
        Idle = "only idle class left",
        Overdue = "overdue",
        HeadInsert = "put in front",
        Laggard = "waits for a lagging group",
        Slice = "in its slice",
    }
}

/// Where positioning costs nothing: how long a tenant without requests is waited for.
const WAIT_NS: Nanos = 100 * MICROSECOND;
/// On a disk: how long the tag of a tenant without requests is kept.
const KEEP_NS: Nanos = SECOND;

/// The state of a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    Nowhere,
    Queued,
    /// In front of everything.
    Direct,
    InFlight,
}

/// Whether the device is idled although requests are queued.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Hold {
    No,
    /// Until the next event.
    Open,
    Until(Nanos),
}

/// What is kept about a request.
#[derive(Copy, Clone, Debug)]
struct Slot {
    id: RequestId,
    state: State,
    class: Class,
    is_read: bool,
    is_sync: bool,
    /// Index of the group's counters ([`Tallies`]) that the request is counted in.
    tally: u32,
    sectors: u32,
    /// For a best-effort request in flight: the queue it came from.
    queue: u32,
    /// When it arrived; once in flight, when it was dispatched.
    since_ns: Nanos,
}

/// The policy's state.
#[derive(Debug)]
pub struct Paternoster {
    settings: Settings,
    is_give_set: bool,
    is_rotational: bool,
    depth: Depth,
    now: Nanos,
    order: Order,
    shares: TagShares,
    slots: Array<Slot>,
    classes: Classes,
    by_age: ByAge,
    tallies: Tallies,
    queued: u32,
    in_flight: Work,
    meter: Meter,
    controller: Controller,
    leaders: Leaders,
    jitter: Stream,
    repayment: Repayment,
    returning: Returning,
    dither: Dither,
    guard: LatencyGuard,
    slices: Slices,
    hold: Hold,
    messages: Messages,
    violations: u32,
}

const FREE: Slot = Slot {
    id: RequestId::from_raw(NIL),
    state: State::Nowhere,
    class: Class::BestEffort,
    is_read: false,
    is_sync: false,
    tally: 0,
    sectors: 0,
    queue: NIL,
    since_ns: 0,
};

/// Sets how long a tenant without requests is waited for.
fn set_patience(order: &mut Order, is_rotational: bool, idle_ns: i64) {
    if is_rotational {
        order.set_patience(idle_ns.unsigned_abs(), KEEP_NS);
    } else {
        order.set_patience(WAIT_NS, WAIT_NS);
    }
}

impl Policy for Paternoster {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(6, 12, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        let mut order = Order::try_new(configuration, Strict::Groups)?;
        set_patience(&mut order, configuration.rotational, Settings::DEFAULT.idle_ns);
        Self::of(order, configuration)
    }
}

impl Paternoster {
    /// Apart from [`Policy::build`], so that the stacks on which the order and the other parts are built do not add up.
    #[inline(never)]
    fn of(order: Order, configuration: &Configuration) -> Result<Self, NoMemory> {
        let slots = configuration.slots;
        let queues = configuration.contexts.saturating_add(configuration.groups.max(1));
        Ok(Self {
            settings: Settings::DEFAULT,
            is_give_set: false,
            is_rotational: configuration.rotational,
            depth: configuration.depth,
            now: 0,
            order,
            shares: TagShares::try_new(configuration.groups)?,
            slots: Array::try_new(slots, FREE)?,
            classes: Classes::new(Links::try_new(slots)?),
            by_age: ByAge::new(Links::try_new(slots)?),
            tallies: Tallies::try_new(configuration.groups.max(1))?,
            queued: 0,
            in_flight: Work::NONE,
            meter: Meter::IDLE,
            controller: Controller::new(if configuration.rotational { 100 } else { 3 }),
            leaders: Leaders::try_new(queues)?,
            jitter: Stream::of(configuration.seed, "paternoster"),
            repayment: Repayment::NONE,
            returning: Returning::NONE,
            dither: Dither::NONE,
            guard: LatencyGuard::NONE,
            slices: Slices::try_new(configuration.rotational, slots, queues)?,
            hold: Hold::No,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }

    fn give(&self) -> u8 {
        match (self.is_give_set, self.is_rotational) {
            (false, true) => 100,
            _ => u8::try_from(self.settings.give).unwrap_or(100),
        }
    }

    fn set_patience(&mut self) {
        set_patience(&mut self.order, self.is_rotational, self.settings.idle_ns);
    }

    #[cold]
    #[inline(never)]
    fn count_violation(&mut self) {
        self.violations = self.violations.saturating_add(1);
    }

    fn must(&mut self, holds: bool) {
        if !holds {
            self.count_violation();
        }
    }

    fn wake_up(&mut self) -> Wake {
        self.hold = Hold::No;
        Wake::All
    }

    fn is_in(&self, id: RequestId, state: State) -> bool {
        let slot = self.slots.at(id.slot());
        slot.id == id && slot.state == state
    }

    fn tell<const N: usize>(&mut self, text: &'static str, numbers: [u64; N]) {
        if self.messages.is_on() {
            self.messages.write(Message::new(self.now, text, numbers));
        }
    }
}
