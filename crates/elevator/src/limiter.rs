//! The stage above an elevator: who may go on to it, and when. Limits compose with every elevator because none knows them.
//!
//! A limiter sees each bio once, before it looks for company, and answers whether it may pass or is held. It keeps what
//! it holds in queues of its own and names it again when its time has come ([`Limiter::next_released`]). Like an
//! elevator it calls nobody: bios are numbers below [`LimiterConfiguration::bios`], time is handed in.
//!
//! The order of the stages is fixed: throttle, io.cost, io.latency, wbt. A bio released by one goes on to the next.
//! Source of the division of labour: Linux 6.1 block/blk-throttle.c and blk-rq-qos.c.

use crate::group::{GroupSettings, IoLimits};
use crate::interface::{Depth, Violation};
use crate::message::Message;
use crate::request::Bio;
use crate::structures::NoMemory;
use crate::tunable::{SettingError, Tunable};
use block::{GroupId, Nanos, Status};

/// A bio's place in the queue's table while it is inside.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BioId(pub u32);

/// What a limiter is built for.
#[derive(Copy, Clone, Debug)]
pub struct LimiterConfiguration {
    /// Numbers of bios are below this.
    pub bios: u32,
    /// Group ids are below this; at least 1 (the root).
    pub groups: u32,
    /// Requests allocated and in flight.
    pub depth: Depth,
    /// Whether positioning costs time.
    pub rotational: bool,
    /// Whether the device has a volatile write cache.
    pub volatile_cache: bool,
    /// Clock tick that times are counted in, in ns; 0 = the limiter's own (1 ms).
    pub tick_ns: Nanos,
}

/// Answer to a bio that wants to pass.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// On to the next stage.
    Pass,
    /// Kept; [`Limiter::next_released`] names it later, exactly once.
    Held,
}

/// What is known of a request when it ends, for limiters that steer by the device's answers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RequestEnd {
    /// Its attributes; the extent covers all merged bios.
    pub attributes: Bio,
    /// When its tag was taken.
    pub start_ns: Nanos,
    /// When the device took it; 0 = never.
    pub issued_ns: Nanos,
    /// How it ended.
    pub status: Status,
}

/// A stage above the elevator.
///
/// The host guarantees what it guarantees to an elevator; besides, it asks [`Limiter::next_released`] until `None`
/// after every event (a submission can release others, a merge makes room, a change of depth wakes), and lets a bio that
/// is [`Verdict::Held`] wait without looking at it.
pub trait Limiter {
    // ---- a bio's life ----

    /// A bio has come. It is submitted to each limiter once; one that was split elsewhere carries
    /// [`block::Flags::BYTES_CHARGED`].
    fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict;

    /// The next bio that may go on, in order; it is no longer held.
    fn next_released(&mut self, now: Nanos) -> Option<BioId>;

    /// A bio that passed has joined a request instead of becoming one; or the request that it became has joined another.
    fn merged(&mut self, _id: BioId, _bio: &Bio, _now: Nanos) {}

    /// The device took a request.
    fn issued(&mut self, _attributes: &Bio, _now: Nanos) {}

    /// The device gave a request back; it will be issued again, or end.
    fn requeued(&mut self, _attributes: &Bio, _now: Nanos) {}

    /// A request ended, well or badly, or left unserved.
    fn request_ended(&mut self, _end: &RequestEnd, _now: Nanos) {}

    /// A bio that passed has ended; `submitted_ns` is when it came to this limiter's queue.
    fn bio_ended(&mut self, _id: BioId, _bio: &Bio, _submitted_ns: Nanos, _now: Nanos) {}

    /// Submitters waited so long for a request, in ns.
    fn waited_for_request(&mut self, _ns: Nanos) {}

    // ---- time and change ----

    /// When [`Limiter::timer`] wants to be called.
    fn next_timer(&self) -> Option<Nanos>;

    /// The time that `next_timer` named has come, or a little later.
    fn timer(&mut self, now: Nanos);

    /// A group appeared; parents come before their children.
    fn group_added(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) {}

    /// Weight or latency target of a group changed.
    fn group_changed(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) {}

    /// The limits of a group are these now; also called for a new group that has any.
    fn limits_changed(&mut self, _group: GroupId, _limits: &IoLimits, _now: Nanos) {}

    /// No new bios will come for the group.
    fn group_offline(&mut self, _group: GroupId, _now: Nanos) {}

    /// The group's id may be used for another one.
    fn group_removed(&mut self, _group: GroupId, _now: Nanos) {}

    /// `nr_requests` or the device's depth changed.
    fn depth_changed(&mut self, _depth: Depth) {}

    /// Everything held is released, whatever the limits say: the stage is taken away. [`Limiter::next_released`] names
    /// all of it right after.
    fn drain(&mut self, now: Nanos);

    // ---- inspection ----

    /// Bios held.
    fn held(&self) -> u32;

    /// Its tunables, one row each.
    fn tunables(&self) -> &'static [Tunable] {
        &[]
    }

    /// The value in force of row `index`, in the row's unit.
    fn setting(&self, _index: usize) -> Option<i64> {
        None
    }

    /// Sets row `index`.
    ///
    /// # Errors
    /// As [`crate::Elevator::set`].
    fn set(&mut self, _index: usize, _value: i64, _now: Nanos) -> Result<(), SettingError> {
        Err(SettingError::Unknown)
    }

    /// The oldest untaken trace message, if messages are switched on.
    fn take_message(&mut self) -> Option<Message> {
        None
    }

    /// Switches trace messages on or off. Off at the start.
    fn trace(&mut self, _on: bool) {}

    /// Impossible situations met and survived.
    fn violations(&self) -> u32 {
        0
    }

    /// Every invariant that the limiter knows.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }
}

/// How a limiter is made.
pub trait LimiterPolicy: Limiter + Sized {
    /// Builds it with default tunables; everything it will ever need is allocated here.
    ///
    /// # Errors
    /// When memory is short.
    fn build(configuration: &LimiterConfiguration) -> Result<Self, NoMemory>;
}
