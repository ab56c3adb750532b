//! The stages above an elevator: which bios may go on to it, and when. Every limiter works above
//! every elevator, because no limiter knows which elevator is used.
//!
//! A limiter sees each bio once, before merging, and answers whether it passes or is held. It keeps
//! held bios in its own queues and names them again when they may go on
//! ([`Limiter::next_released`]). Like an elevator, it calls nothing in the host: bios are numbers
//! below [`LimiterConfiguration::bios`], and time is an argument.
//!
//! The order of the stages is fixed: rate, throttle, io.cost, io.latency, wbt. A bio released by one
//! stage goes on to the next. Source of the division into stages: Linux 6.1 block/blk-throttle.c
//! and block/blk-rq-qos.c.

use crate::group::{GroupSettings, IoLimits};
use crate::interface::{Depth, Violation};
use crate::message::Message;
use crate::request::Bio;
use crate::structures::NoMemory;
use crate::tunable::{SettingError, Tunable};
use hoistway_block::{GroupId, Nanos, Status};

/// A bio's index in the queue's table from its submission to its end.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BioId(pub u32);

/// What a limiter is built for.
#[derive(Copy, Clone, Debug)]
pub struct LimiterConfiguration {
    /// Bio ids are below this.
    pub bios: u32,
    /// Group ids are below this; at least 1 (the root).
    pub groups: u32,
    /// Depths of the queue: requests allocated and in flight.
    pub depth: Depth,
    /// Whether positioning costs time.
    pub rotational: bool,
    /// Whether the device has a volatile write cache.
    pub volatile_cache: bool,
    /// Clock tick in which times are counted, in ns; 0 = the limiter's own (1 ms).
    pub tick_ns: Nanos,
}

/// Answer for a submitted bio.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on to the next stage.
    Pass,
    /// It is held; [`Limiter::next_released`] names it later, exactly once, unless it is withdrawn.
    Held,
}

/// What is known about a request when it ends, for limiters with feedback from completions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RequestEnd {
    /// Its attributes; the extent covers all merged bios.
    pub attributes: Bio,
    /// When its tag was taken.
    pub start_ns: Nanos,
    /// When the device accepted it; 0 = never.
    pub issued_ns: Nanos,
    /// How it ended.
    pub status: Status,
}

/// A stage above the elevator.
///
/// The host guarantees the same as to an elevator. In addition, after every event it calls
/// [`Limiter::next_released`] until that returns `None` (a submission can release other bios, a
/// merge frees room, a change of depth wakes waiters), and it leaves a bio that is
/// [`Verdict::Held`] alone until then, unless it takes it back ([`Limiter::withdrawn`]).
pub trait Limiter {
    // ---- a bio's life ----

    /// A bio was submitted. Each bio is submitted to each limiter once; one that was split
    /// elsewhere carries [`hoistway_block::Flags::BYTES_CHARGED`].
    fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict;

    /// The next bio that may go on, in order; it is no longer held.
    fn next_released(&mut self, now: Nanos) -> Option<BioId>;

    /// A held bio is taken back, because no client waits for it any more: it is no longer held and is
    /// never released. It costs its group nothing at the level at which it waited. The host may take
    /// back several before it calls [`Limiter::next_released`] again.
    fn withdrawn(&mut self, id: BioId, now: Nanos);

    /// A bio that passed was merged into a request instead of becoming one, or the request that it
    /// became was merged into another.
    fn merged(&mut self, _id: BioId, _bio: &Bio, _now: Nanos) {}

    /// The device accepted a request.
    fn issued(&mut self, _attributes: &Bio, _now: Nanos) {}

    /// The device gave a request back; it will be issued again, or end.
    fn requeued(&mut self, _attributes: &Bio, _now: Nanos) {}

    /// A request ended: with or without an error, or unserved.
    fn request_ended(&mut self, _end: &RequestEnd, _now: Nanos) {}

    /// A bio that passed has ended; `submitted_ns` is when it reached this limiter's queue.
    fn bio_ended(&mut self, _id: BioId, _bio: &Bio, _submitted_ns: Nanos, _now: Nanos) {}

    /// Submitters waited `_ns` ns for a free request.
    fn waited_for_request(&mut self, _ns: Nanos) {}

    // ---- time and change ----

    /// When [`Limiter::timer`] is to be called.
    fn next_timer(&self) -> Option<Nanos>;

    /// The time that `next_timer` named has been reached or passed.
    fn timer(&mut self, now: Nanos);

    /// A group was created; parents are added before their children.
    fn group_added(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) {}

    /// The weight or latency target of a group changed.
    fn group_changed(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) {}

    /// The limits of a group changed; also called for a new group that has limits.
    fn limits_changed(&mut self, _group: GroupId, _limits: &IoLimits, _now: Nanos) {}

    /// No new bios will come for the group.
    fn group_offline(&mut self, _group: GroupId, _now: Nanos) {}

    /// The group's id may be given to another group.
    fn group_removed(&mut self, _group: GroupId, _now: Nanos) {}

    /// `nr_requests` or the device's depth changed.
    fn depth_changed(&mut self, _depth: Depth) {}

    /// Releases everything held, regardless of the limits, because the stage is being removed. The
    /// host then takes all of it with [`Limiter::next_released`].
    fn drain(&mut self, now: Nanos);

    // ---- inspection ----

    /// Number of bios held.
    fn held(&self) -> u32;

    /// The limiter's tunables, one row each.
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

    /// The oldest trace message not yet taken, if messages are switched on.
    fn take_message(&mut self) -> Option<Message> {
        None
    }

    /// Switches trace messages on or off. They are off at the start.
    fn trace(&mut self, _on: bool) {}

    /// How many impossible calls were counted and ignored.
    fn violations(&self) -> u32 {
        0
    }

    /// Checks every invariant of the limiter.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }
}

/// How a limiter is built.
pub trait LimiterPolicy: Limiter + Sized {
    /// Builds the limiter with default tunables and allocates everything that it will ever need.
    ///
    /// # Errors
    /// When memory is short.
    fn build(configuration: &LimiterConfiguration) -> Result<Self, NoMemory>;
}
