//! What an elevator is: calls in, values out.
//!
//! A policy is told what happened and answers with a value; it calls nobody, reads no clock and arms no timer. So the
//! simulator, the engine, the kernel module and a fuzzer are the same caller. All calls of one queue are serialised.
//!
//! Read [`Elevator::insert`], [`Elevator::choose`] and [`Elevator::completed`] first: they are a request's life.

use crate::account::GroupAccount;
use crate::actuators::Actuators;
use crate::group::GroupSettings;
use crate::message::Message;
use crate::request::{Attributes, Bio, Requests};
use crate::traits::Traits;
use crate::tunable::{SettingError, Tunable};
use block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};

/// What a policy is built for. The host fixes it before construction; only depths may change later.
#[derive(Copy, Clone, Debug)]
pub struct Configuration {
    /// Slots of the request table (1..=2^20-1): every request id has a slot below this.
    pub slots: u32,
    /// Group ids are below this; at least 1 (the root).
    pub groups: u32,
    /// Context ids are below this.
    pub contexts: u32,
    /// How many requests may be allocated and in flight.
    pub depth: Depth,
    /// Hardware queues of the device, at least 1.
    pub hardware_queues: u16,
    /// Software (per-CPU) queues, at least 1.
    pub software_queues: u16,
    /// Whether positioning costs time.
    pub rotational: bool,
    /// Whether the device reorders commands of its own (NCQ, NVMe).
    pub queueing: bool,
    /// Largest request in sectors.
    pub max_sectors: u32,
    /// Size of the device in sectors.
    pub capacity_sectors: u64,
    /// Which sectors each of its actuators serves.
    pub actuators: Actuators,
    /// Clock tick that waits are rounded up to, in ns; 0 = exact. Reproduces kernels that count jiffies.
    pub tick_ns: Nanos,
    /// Clock tick with whose begin delayed work begins (looking again at a device that was kept), in ns; 0 = when it is due,
    /// as the specification of bfq has it.
    pub work_tick_ns: Nanos,
    /// Seed for policies that draw random numbers.
    pub seed: u64,
}

impl Default for Configuration {
    /// A single-queue solid-state device: 256 requests over 32 device slots, 64 groups, 1,024 contexts.
    fn default() -> Self {
        Self {
            slots: 512,
            groups: 64,
            contexts: 1024,
            depth: Depth { requests: 256, device: 32 },
            hardware_queues: 1,
            software_queues: 1,
            rotational: false,
            queueing: true,
            max_sectors: 2560,
            capacity_sectors: 1 << 31,
            actuators: Actuators::ONE,
            tick_ns: 0,
            work_tick_ns: 0,
            seed: 1,
        }
    }
}

/// The two depths of a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Depth {
    /// Scheduler tags (`nr_requests`): requests allocated at one time.
    pub requests: u32,
    /// Commands the device takes at one time, per hardware queue.
    pub device: u32,
}

/// How deep into the scheduler tags an allocation may go.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Any free tag.
    Full,
    /// Only while fewer than this many limited requests hold a tag.
    Shallow(u32),
    /// At once, even if the queue counts as full (CFQ's and the anticipatory elevator's `may_queue` MUST).
    Must,
}

/// The side of a request at which a bio joins it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// Behind its last sector.
    Back,
    /// Before its first sector.
    Front,
    /// A discard that joins a multi-range discard without being adjacent.
    Discard,
}

/// Which merge candidates the request queue looks for, and in whose order.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MergeSearch {
    /// The queue's own pipeline: plug, last merge, end-sector hash. [`Elevator::merge`] is not called.
    Pipeline,
    /// The pipeline, then [`Elevator::merge`] for a request that begins where the bio ends.
    PipelineThenFront,
    /// [`Elevator::merge`] alone (behind the plug): policies that keep lists scan these themselves, each time anew when
    /// a bio has slept for a request. A request that the device serves has left the policy, so the end of the list is the
    /// scan limit of 2.4 as well: nobody joins the request in service or gets in front of it.
    Own,
}

/// Answer to a merge query. "Neither" is not representable: either a request, or where the new one goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Merge {
    /// Join this request at this side, if the queue's limits allow.
    Into(RequestId, Side),
    /// Become a request of its own.
    No(Hint),
}

/// Where a list policy wants the request that it found no company for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Hint {
    /// Wherever the policy puts it anyway.
    None,
    /// Before everything that is queued.
    AtFront,
    /// Directly behind this one.
    After(RequestId),
}

/// How a request enters the policy.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Position {
    /// The ordinary way, by the policy's own order; the hint is what [`Elevator::merge`] said for it.
    Sorted(Hint),
    /// Before everything: data of a sequenced flush. May be a request the policy never saw.
    Head,
    /// Before everything, and already counted: the driver gave it back.
    Requeue,
}

/// Answer to "which request next?".
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// This one; it has left the policy's queues.
    Request {
        /// Which.
        id: RequestId,
        /// Why this and no other.
        reason: Reason,
    },
    /// Something is queued, and the policy keeps the device for a request that is expected before `until`.
    Hold {
        /// When it gives up waiting; also what [`Elevator::next_timer`] answers.
        until: Nanos,
        /// What it waits for.
        reason: Reason,
    },
    /// Something is queued, nothing may go before a completion or release says so (tokens, ordering between classes).
    Throttled,
    /// Nothing is queued for this hardware queue.
    Empty,
}

/// Why a request was chosen or the device was kept waiting: an index into [`Elevator::reasons`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reason(pub u8);

/// Whether the event made another dispatch worthwhile.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub enum Wake {
    /// No: nothing changed for the dispatcher.
    #[default]
    No,
    /// Ask this hardware queue again.
    Queue(HardwareQueue),
    /// Ask every hardware queue again.
    All,
}

impl Wake {
    /// Either wish; two different queues become all.
    #[inline]
    pub fn and(self, other: Wake) -> Wake {
        match (self, other) {
            (Wake::No, wake) | (wake, Wake::No) => wake,
            (a, b) if a == b => a,
            _ => Wake::All,
        }
    }

    /// Whether anybody is to be asked.
    #[inline]
    pub fn is_wanted(self) -> bool {
        self != Wake::No
    }
}

/// An invariant that does not hold: what, and the slot or group at which it showed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The broken rule, as a statement of what should be.
    pub what: &'static str,
    /// Slot, group or count that broke it.
    pub at: u32,
}

/// A block I/O scheduler.
///
/// What the host guarantees, for every method: calls are serialised; `now` never runs backwards; ids are below the
/// limits of [`Configuration`]; a bio's group has been added. What the policy owes: no panic, bounded time, the same
/// answers for the same calls. A call that breaks the rules is counted ([`Elevator::violations`]) and otherwise ignored.
pub trait Elevator {
    /// What hosts have to know of it before it is built.
    const TRAITS: Traits;

    // ---- a bio looks for a tag and for company ----

    /// How deep a request like this may go into the scheduler tags. Asked without the queue's lock in the kernel, where
    /// neither extent nor priority of `bio` is known yet: only operation, flags, group and context may be read.
    fn admit(&self, _bio: &Bio, _now: Nanos) -> Admission {
        Admission::Full
    }

    /// A tag was taken for a request: from here on its group holds a share of the tags (kernel `prepare_request`).
    fn allocated(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) {}

    /// The tag is given back, whether or not the request was ever inserted. Comes last in a request's life.
    fn freed(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) {}

    /// Where the queue looks for merge candidates.
    fn merge_search(&self) -> MergeSearch {
        MergeSearch::Pipeline
    }

    /// A queued request that this bio can join, or where the bio's own request would go. Adjacency is the policy's duty,
    /// compatibility and limits are checked by the queue afterwards.
    fn merge(&mut self, _requests: &Requests, _bio: &Bio, _now: Nanos) -> Merge {
        Merge::No(Hint::None)
    }

    /// Whether the policy lets this bio join this request (CFQ and BFQ: only within one queue).
    fn may_merge(&self, _requests: &Requests, _id: RequestId, _bio: &Bio) -> bool {
        true
    }

    /// A bio joined a queued request, whose extent is already the new one. A front merge changed its first sector:
    /// a sorted policy re-keys by the key that it stored itself.
    fn bio_merged(&mut self, _requests: &Requests, _id: RequestId, _side: Side, _now: Nanos) {}

    /// `gone` was absorbed by `keep`, which is queued; its `completed` never comes. If `gone` had been inserted, its
    /// `released` follows at once; otherwise it was absorbed on its way in, and only this call tells of it.
    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos);

    /// The queued request before this one in the policy's own order, as a candidate for request-to-request merging.
    fn former(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None
    }

    /// The queued request behind this one in the policy's own order.
    fn latter(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None
    }

    // ---- a request's life ----

    /// A request joins the policy's queues. It leaves them exactly once: chosen, drained or absorbed.
    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake;

    /// The same of a request that was allocated a moment ago with these attributes, at [`Position::Sorted`] without a hint: what
    /// comes with every request where counted instructions matter. Whoever overrides it does exactly what `insert` does.
    #[inline(always)]
    fn insert_newcomer(&mut self, requests: &Requests, id: RequestId, _attributes: &Attributes, now: Nanos) -> Wake {
        self.insert(requests, id, Position::Sorted(Hint::None), now)
    }

    /// The next request for a hardware queue. Only called while [`Elevator::has_work`] says so.
    fn choose(&mut self, requests: &Requests, queue: HardwareQueue, now: Nanos) -> Dispatch;

    /// The next request of a forced drain: in the policy's order where it has one, without holding or throttling.
    /// `None` only when nothing is queued. Used when the policy is replaced.
    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId>;

    /// Whether the single-queue kernels order by sector what a forced drain gives (2.6 `elv_dispatch_sort`: noop, CFQ).
    fn drains_by_sector(&self) -> bool {
        false
    }

    /// Whether calling `choose` can bring something: false when nothing is queued, and false while the policy holds
    /// the device (a kernel would poll every 3 ms otherwise).
    fn has_work(&self, queue: HardwareQueue) -> bool;

    /// Whether the round before this one found the device full (blk-mq's moving average). Only `none` listens.
    fn busy_changed(&mut self, _queue: HardwareQueue, _is_busy: bool) {}

    /// The driver took the request; `issued_ns` is set.
    fn started(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// The driver gave it back. It may come again by `insert` at [`Position::Requeue`], or go to the device without.
    fn requeued(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// The device finished it, well or badly. At most once per request, before `released`.
    fn completed(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// An inserted request leaves for good: completed, absorbed, or drained into another policy. Exactly once each; it
    /// is in none of the policy's queues by then.
    fn released(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// `completed` and `released`, one right after the other, of a request that the device finished: what comes with every
    /// request where counted instructions matter. Whoever overrides it does exactly what the two do.
    #[inline(always)]
    fn completed_and_released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let completed = self.completed(requests, id, now);
        completed.and(self.released(requests, id, now))
    }

    // ---- time and change ----

    /// When [`Elevator::timer`] wants to be called. Asked after every other call; the host keeps no second timer.
    fn next_timer(&self) -> Option<Nanos> {
        None
    }

    /// The time that `next_timer` named has come (or a little later).
    fn timer(&mut self, _requests: &Requests, _now: Nanos) -> Wake {
        Wake::No
    }

    /// The issuer is gone. Requests of it may still be queued or in flight; its id is not reused before they are freed.
    fn context_exited(&mut self, _context: ContextId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// A group appeared. Parents come before their children; the root exists from the start with weight 100.
    fn group_added(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) {}

    /// Weight or parent of a group changed.
    fn group_changed(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) -> Wake {
        Wake::No
    }

    /// No new bios will come for the group; what is queued stays and drains.
    fn group_offline(&mut self, _group: GroupId, _now: Nanos) {}

    /// The last request of an offline group was freed: from now on its id may be given to another group.
    fn group_removed(&mut self, _group: GroupId, _now: Nanos) {}

    /// `nr_requests` or the device's depth changed.
    fn depth_changed(&mut self, _depth: Depth) {}

    // ---- inspection ----

    /// Names of the reasons; `Reason(i)` is entry `i`.
    fn reasons(&self) -> &'static [&'static str];

    /// The policy's tunables, one row each.
    fn tunables(&self) -> &'static [Tunable] {
        &[]
    }

    /// The value in force of row `index`, in the row's unit; `None` without such a row.
    fn setting(&self, _index: usize) -> Option<i64> {
        None
    }

    /// Sets row `index` to `value` in the row's unit, clamped where the row says so.
    ///
    /// # Errors
    /// [`SettingError::Unknown`] without such a row, [`SettingError::Range`] where the row refuses instead of clamping.
    fn set(&mut self, _index: usize, _value: i64) -> Result<(), SettingError> {
        Err(SettingError::Unknown)
    }

    /// What a group has had so far, where the policy keeps it.
    fn group_account(&self, _group: GroupId) -> Option<GroupAccount> {
        None
    }

    /// What groups below this one had that were removed since, where the policy keeps it: part of the sums over a subtree
    /// (`_recursive` files) and of no group's own figures.
    fn removed_account(&self, _group: GroupId) -> Option<GroupAccount> {
        None
    }

    /// Begins a group's account anew; what is queued stays counted, and periods under way begin now. False where none
    /// is kept.
    fn reset_group_account(&mut self, _group: GroupId, _now: Nanos) -> bool {
        false
    }

    /// The oldest untaken trace message, if the policy writes any and [`Elevator::trace`] is on.
    fn take_message(&mut self) -> Option<Message> {
        None
    }

    /// Switches trace messages on or off. Off at the start.
    fn trace(&mut self, _on: bool) {}

    /// How many impossible situations were met and survived. Anything above 0 is a defect of host or policy.
    fn violations(&self) -> u32 {
        0
    }

    /// Every invariant that the policy knows. Walks everything: for tests, storms and fuzzers.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn check(&self, _requests: &Requests) -> Result<(), Violation> {
        Ok(())
    }
}

/// How the registry makes a policy.
pub trait Policy: Elevator + Sized {
    /// The forms that differ in behaviour, oldest first: since which kernel, and what differs. At least one.
    const FORMS: &'static [Form<Self::Profile>];

    /// Index of the form that users get who name no version; the newest, but where an older one is what people mean.
    const DEFAULT_FORM: usize = Self::FORMS.len() - 1;

    /// What differs between the forms, as data.
    type Profile: Copy + 'static;

    /// Builds the policy with default tunables; everything it will ever need is allocated here.
    ///
    /// # Errors
    /// When memory is short.
    fn build(configuration: &Configuration, profile: Self::Profile) -> Result<Self, crate::structures::NoMemory>;
}

/// One form of a policy.
#[derive(Copy, Clone, Debug)]
pub struct Form<P: 'static> {
    /// First kernel version that behaves so.
    pub since: Version,
    /// What differs.
    pub profile: P,
}

/// A kernel version; versions compare by age.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u16, pub u16, pub u16);

/// The reasons of a policy, declared once: an enum, its texts, and the way into [`Reason`].
///
/// ```
/// # use hoistway_elevator as elevator;
/// elevator::reasons! {
///     /// Why a request was chosen.
///     pub enum Why { Oldest = "oldest", }
/// }
/// assert_eq!(Why::NAMES[Why::Oldest as usize], "oldest");
/// ```
#[macro_export]
macro_rules! reasons {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$row:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        #[repr(u8)]
        $vis enum $name { $($(#[$row])* #[doc = $text] $variant,)+ }

        impl $name {
            /// The texts, in the order of the variants.
            pub const NAMES: &'static [&'static str] = &[$($text,)+];
        }

        impl From<$name> for $crate::Reason {
            #[inline]
            fn from(why: $name) -> Self {
                $crate::Reason(why as u8)
            }
        }
    };
}
