//! The elevator interface: events come in as calls, decisions go out as return values.
//!
//! A policy is told what happened and answers with a value; it calls nothing in the host, reads no
//! clock and arms no timer. The simulator, the engine, the kernel module and a fuzzer can therefore
//! all drive it the same way. All calls for one queue are serialised.
//!
//! Read [`Elevator::insert`], [`Elevator::choose`] and [`Elevator::completed`] first: they are a
//! request's life.

use crate::account::GroupAccount;
use crate::actuators::Actuators;
use crate::group::GroupSettings;
use crate::message::Message;
use crate::request::{Attributes, Bio, Requests};
use crate::traits::Traits;
use crate::tunable::{SettingError, Tunable};
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};

/// What a policy is built for. The host sets it before construction; only the depths may change
/// later.
#[derive(Copy, Clone, Debug)]
pub struct Configuration {
    /// Slots of the request table (1..=2^20-1): the slot of every request id is below this.
    pub slots: u32,
    /// Group ids are below this; at least 1 (the root).
    pub groups: u32,
    /// Context ids are below this.
    pub contexts: u32,
    /// How many requests may be allocated, and how many may be in flight.
    pub depth: Depth,
    /// Hardware queues of the device, at least 1.
    pub hardware_queues: u16,
    /// Software (per-CPU) queues, at least 1.
    pub software_queues: u16,
    /// Whether positioning costs time (disks and disk arrays).
    pub rotational: bool,
    /// Whether the device reorders commands itself (NCQ, NVMe).
    pub queueing: bool,
    /// Largest request, in sectors.
    pub max_sectors: u32,
    /// Size of the device in sectors.
    pub capacity_sectors: u64,
    /// The sectors that each of its actuators serves.
    pub actuators: Actuators,
    /// Clock tick that waits are rounded up to, in ns; 0 = exact. Reproduces kernels whose timers
    /// count jiffies.
    pub tick_ns: Nanos,
    /// Clock tick at whose start delayed work runs (the renewed dispatch after an idle period), in
    /// ns; 0 = exactly when it is due, as docs/specifications/bfq.md, section 2 has it.
    pub work_tick_ns: Nanos,
    /// Whether a request has the time at which its issuer began the batch that it is part of, as in
    /// Linux since 6.9, so that times may run backward. Forms of older kernels take no notice.
    pub batch_times: bool,
    /// Seed for policies that draw random numbers.
    pub seed: u64,
}

impl Default for Configuration {
    /// A single-queue solid-state device: 256 requests over 32 device slots, 64 groups, 1,024
    /// contexts.
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
            batch_times: false,
            seed: 1,
        }
    }
}

/// The two depths of a queue: scheduler tags and device slots.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Depth {
    /// Scheduler tags (`nr_requests`): requests that may be allocated at one time.
    pub requests: u32,
    /// Commands that the device accepts at one time, per hardware queue.
    pub device: u32,
}

/// How many of the scheduler tags an allocation may use.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Any free tag.
    Full,
    /// Only while fewer than this many limited requests hold a tag.
    Shallow(u32),
    /// At once, even if the queue counts as full (`ELV_MQUEUE_MUST`, the answer of `may_queue` in
    /// CFQ and the anticipatory elevator).
    Must,
}

/// The side of a request at which a bio is merged.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// Behind the request's last sector.
    Back,
    /// Before the request's first sector.
    Front,
    /// A discard merged into a multi-range discard without being adjacent to it.
    Discard,
}

/// Which merge candidates the request queue tries, and in which order.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MergeSearch {
    /// The queue's own pipeline: plug, last merge, hash of end sectors. [`Elevator::merge`] is not
    /// called.
    Pipeline,
    /// The pipeline, then [`Elevator::merge`] for a request that begins where the bio ends.
    PipelineThenFront,
    /// Only [`Elevator::merge`] (after the plug). Policies that keep lists scan them themselves,
    /// and scan again after a bio has slept for a free request. A request that the device serves
    /// has left the policy, so the end of the list is the scan limit of Linux 2.4 as well: no bio
    /// joins the request in service or goes ahead of it.
    Own,
}

/// Answer to a merge query: either a request to join, or a hint where the new request goes.
/// "Neither" cannot be expressed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Merge {
    /// Merge into this request at this side, if the queue's limits allow it.
    Into(RequestId, Side),
    /// No merge; the bio becomes a request of its own, inserted at this hint.
    No(Hint),
}

/// Where a policy that searches its own list ([`MergeSearch::Own`]) wants a request for which it
/// found no merge candidate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Hint {
    /// No preference: the policy's own order decides.
    None,
    /// In front of everything that is queued.
    AtFront,
    /// Directly behind this request.
    After(RequestId),
}

/// How a request enters the policy.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Position {
    /// In the policy's own order; the hint is the answer that [`Elevator::merge`] gave for it.
    Sorted(Hint),
    /// In front of everything: the data of a flush sequence. May be a request that the policy has
    /// never seen.
    Head,
    /// In front of everything: the driver gave back the request, which the policy has dispatched
    /// before.
    Requeue,
}

/// Answer to "which request is dispatched next?".
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// This request; it has left the policy's queues.
    Request {
        /// The request.
        id: RequestId,
        /// Why it was chosen.
        reason: Reason,
    },
    /// Requests are queued, but the policy idles the device for a request that it expects before
    /// `until`.
    Hold {
        /// When the policy stops waiting; [`Elevator::next_timer`] answers the same time.
        until: Nanos,
        /// What the policy waits for.
        reason: Reason,
    },
    /// Requests are queued, but none may be dispatched before a completion or release (tokens,
    /// ordering between classes).
    Throttled,
    /// Nothing is queued for this hardware queue.
    Empty,
}

/// Why a request was chosen or the device is idled: an index into [`Elevator::reasons`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reason(pub u8);

/// Whether the event makes another dispatch attempt worthwhile.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub enum Wake {
    /// No dispatch: nothing changed for the dispatcher.
    #[default]
    No,
    /// Run this hardware queue.
    Queue(HardwareQueue),
    /// Run every hardware queue.
    All,
}

impl Wake {
    /// Combines two values; two different hardware queues become [`Wake::All`].
    #[inline]
    pub fn and(self, other: Wake) -> Wake {
        match (self, other) {
            (Wake::No, wake) | (wake, Wake::No) => wake,
            (a, b) if a == b => a,
            _ => Wake::All,
        }
    }

    /// Whether any hardware queue is to be run.
    #[inline]
    pub fn is_wanted(self) -> bool {
        self != Wake::No
    }
}

/// A broken invariant: the rule, and the slot, group or count at which it showed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The broken rule, stated as what should hold.
    pub what: &'static str,
    /// The slot, group or count that breaks it.
    pub at: u32,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "at {}: {}", self.at, self.what)
    }
}

impl core::error::Error for Violation {}

/// A block I/O scheduler.
///
/// Guarantees of the host, for every method: calls are serialised; `now` never decreases; ids are
/// below the limits in [`Configuration`]; the group of a bio has been added. Duties of the policy:
/// no panic, bounded time, the same answers for the same calls. A call that breaks the rules is
/// counted ([`Elevator::violations`]) and otherwise ignored.
pub trait Elevator {
    /// What hosts must know about the policy before it is built.
    const TRAITS: Traits;

    // ---- tag allocation and merging of a bio ----

    /// How many scheduler tags a request like this one may use. In the kernel this is asked without
    /// the queue's lock and before extent and priority of `bio` are known: only operation, flags,
    /// group and context may be read.
    fn admit(&self, _bio: &Bio, _now: Nanos) -> Admission {
        Admission::Full
    }

    /// A request took a scheduler tag: from here on it counts against its group's share of the tags
    /// (kernel `prepare_request`).
    fn allocated(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) {}

    /// The tag was given back, whether or not the request was ever inserted. The last call of a
    /// request's life.
    fn freed(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) {}

    /// Where the queue looks for merge candidates.
    fn merge_search(&self) -> MergeSearch {
        MergeSearch::Pipeline
    }

    /// A queued request that this bio can join, or the hint for the bio's own request. The policy
    /// ensures adjacency; the queue checks compatibility and limits afterwards.
    fn merge(&mut self, _requests: &Requests, _bio: &Bio, _now: Nanos) -> Merge {
        Merge::No(Hint::None)
    }

    /// Whether the policy lets this bio join this request (CFQ and BFQ: only within one queue).
    fn may_merge(&self, _requests: &Requests, _id: RequestId, _bio: &Bio) -> bool {
        true
    }

    /// A bio was merged into a queued request, whose extent is already the new one. A front merge
    /// changed its first sector, so a sorted policy must find it by the key that it stored itself.
    fn bio_merged(&mut self, _requests: &Requests, _id: RequestId, _side: Side, _now: Nanos) {}

    /// `gone` was merged into `keep`, which is queued; `completed` is never called for `gone`. If
    /// `gone` had been inserted, its `released` follows at once; otherwise it was merged on its way
    /// in, and this call is the only one that mentions it.
    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, now: Nanos);

    /// The queued request before this one in the policy's order, as a candidate for a
    /// request-to-request merge.
    fn former(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None
    }

    /// The queued request after this one in the policy's order, as a candidate for a
    /// request-to-request merge.
    fn latter(&self, _requests: &Requests, _id: RequestId) -> Option<RequestId> {
        None
    }

    /// The longest request, in sectors, that a read or write of this bio's issuer should make now. The
    /// host cuts longer transfers into pieces of this size before it submits them; a policy that answers
    /// less than [`u32::MAX`] answers [`Traits::quantum_sectors`], so that hosts can size their tables.
    fn longest_sectors(&self, _bio: &Bio, _now: Nanos) -> u32 {
        u32::MAX
    }

    // ---- a request's life ----

    /// A request enters the policy's queues. It leaves them exactly once: chosen, drained, merged
    /// into another, or withdrawn.
    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake;

    /// The same as [`Elevator::insert`] at [`Position::Sorted`] without a hint, for a request that
    /// was just allocated with these attributes. A separate method because this path runs for every
    /// request and is measured in instructions. An override must do exactly what `insert` does.
    #[inline(always)]
    fn insert_new(&mut self, requests: &Requests, id: RequestId, _attributes: &Attributes, now: Nanos) -> Wake {
        self.insert(requests, id, Position::Sorted(Hint::None), now)
    }

    /// The next request for a hardware queue. Called only while [`Elevator::has_work`] is true.
    fn choose(&mut self, requests: &Requests, queue: HardwareQueue, now: Nanos) -> Dispatch;

    /// The next request of a forced drain, used when the policy is replaced: in the policy's order
    /// where it has one, without idling or throttling. `None` only when nothing is queued.
    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId>;

    /// Whether the single-queue kernels sort the output of a forced drain by sector
    /// (`elv_dispatch_sort` of Linux 2.6, used by noop and CFQ).
    fn drains_by_sector(&self) -> bool {
        false
    }

    /// Whether calling `choose` can produce a request: false when nothing is queued, and false
    /// while the policy idles the device (a kernel would otherwise poll every 3 ms).
    fn has_work(&self, queue: HardwareQueue) -> bool;

    /// Whether the previous dispatch round found the device full (blk-mq's `dispatch_busy`
    /// average). Only `none` uses it.
    fn busy_changed(&mut self, _queue: HardwareQueue, _is_busy: bool) {}

    /// The driver took the request; `issued_ns` is set.
    fn started(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// The driver gave the request back. It may return by `insert` at [`Position::Requeue`], or go
    /// to the device without a second `insert`.
    fn requeued(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// The device finished the request, with or without an error. Called at most once per request,
    /// before `released`.
    fn completed(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// The host takes a queued request back, because no client waits for it any more: it leaves the
    /// policy's queues without service. Its `released` follows at once. A separate method so that a
    /// policy whose `released` need not know where a request is pays nothing on that path; a policy
    /// whose `released` removes a request that is still queued does not implement it.
    fn withdrawn(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) {}

    /// An inserted request leaves for good: completed, merged into another, drained to another
    /// policy, or taken back by the host while it is queued ([`Elevator::withdrawn`] comes first) or
    /// chosen. Called exactly once for each inserted request.
    fn released(&mut self, _requests: &Requests, _id: RequestId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// [`Elevator::completed`] followed by [`Elevator::released`], for a request that the device
    /// finished. A separate method because this path runs for every request and is measured in
    /// instructions. An override must do exactly what the two calls do.
    #[inline(always)]
    fn completed_and_released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let completed = self.completed(requests, id, now);
        completed.and(self.released(requests, id, now))
    }

    // ---- time and change ----

    /// When [`Elevator::timer`] is to be called. Asked after every other call; the host keeps one
    /// timer only.
    fn next_timer(&self) -> Option<Nanos> {
        None
    }

    /// The time that `next_timer` named has been reached or passed.
    fn timer(&mut self, _requests: &Requests, _now: Nanos) -> Wake {
        Wake::No
    }

    /// The issuer exited. Its requests may still be queued or in flight; the id is not reused
    /// before they are freed.
    fn context_exited(&mut self, _context: ContextId, _now: Nanos) -> Wake {
        Wake::No
    }

    /// A group was created. Parents are added before their children; the root exists from the start
    /// with weight 100.
    fn group_added(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) {}

    /// The weight, latency target or priority of a group changed; its parent stays the same.
    fn group_changed(&mut self, _group: GroupId, _settings: &GroupSettings, _now: Nanos) -> Wake {
        Wake::No
    }

    /// No new bios will come for the group; its queued requests stay and drain.
    fn group_offline(&mut self, _group: GroupId, _now: Nanos) {}

    /// The last request of an offline group was freed: its id may now be given to another group.
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
    /// [`SettingError::Unknown`] without such a row, [`SettingError::Range`] where the row refuses
    /// instead of clamping.
    fn set(&mut self, _index: usize, _value: i64) -> Result<(), SettingError> {
        Err(SettingError::Unknown)
    }

    /// What the group has received so far, where the policy keeps an account.
    fn group_account(&self, _group: GroupId) -> Option<GroupAccount> {
        None
    }

    /// What removed descendants of this group had received, where the policy keeps an account. It
    /// is part of the sums over a subtree (`_recursive` files) and of no group's own figures.
    fn removed_account(&self, _group: GroupId) -> Option<GroupAccount> {
        None
    }

    /// Restarts a group's account. Queued requests stay counted, and running periods start now.
    /// False where no account is kept.
    fn reset_group_account(&mut self, _group: GroupId, _now: Nanos) -> bool {
        false
    }

    /// The oldest trace message not yet taken, if the policy writes any and [`Elevator::trace`] is
    /// on.
    fn take_message(&mut self) -> Option<Message> {
        None
    }

    /// Switches trace messages on or off. They are off at the start.
    fn trace(&mut self, _on: bool) {}

    /// How many impossible calls were counted and ignored. Anything above 0 is a defect of the host
    /// or the policy.
    fn violations(&self) -> u32 {
        0
    }

    /// Checks every invariant of the policy. Walks all its state: for tests, storms and fuzzers
    /// only.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn check(&self, _requests: &Requests) -> Result<(), Violation> {
        Ok(())
    }
}

/// How the registry builds a policy.
pub trait Policy: Elevator + Sized {
    /// The forms that differ in behaviour, oldest first: since which kernel, and what differs. At
    /// least one.
    const FORMS: &'static [Form<Self::Profile>];

    /// Index of the form for users that name no version. The newest, unless an older form is the
    /// well-known one.
    const DEFAULT_FORM: usize = Self::FORMS.len() - 1;

    /// What differs between the forms, as data.
    type Profile: Copy + 'static;

    /// Builds the policy with default tunables and allocates everything that it will ever need.
    ///
    /// # Errors
    /// When memory is short.
    fn build(configuration: &Configuration, profile: Self::Profile) -> Result<Self, crate::structures::NoMemory>;
}

/// One form of a policy.
#[derive(Copy, Clone, Debug)]
pub struct Form<P: 'static> {
    /// First kernel version that behaves in this way.
    pub since: Version,
    /// What differs.
    pub profile: P,
}

/// A kernel version; versions compare by age.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u16, pub u16, pub u16);

/// Declares the reasons of a policy once: an enum, its texts, and the conversion into [`Reason`].
///
/// ```
/// hoistway_elevator::reasons! {
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
