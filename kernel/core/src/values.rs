//! The values passed to and from the C files of the module (the glue), with fixed layout.
//! `kernel/module/hoist_core.h` declares the same in C.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};
use hoistway_block::{ContextId, Extent, Flags, GroupId, HardwareQueue, NIL, Operation, Priority, SoftwareQueue};
use hoistway_elevator::{Actuators, Attributes, Configuration, Depth};

/// No request, no group, no issuer.
pub const NONE: u32 = NIL;

/// The configuration of a queue.
#[repr(C)]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// Number of the policy, as for `hoist_elevator_type`.
    pub policy: u32,
    /// The largest number of requests that the core can know at one time.
    pub slots: u32,
    /// Group ids are below this.
    pub groups: u32,
    /// Issuer ids are below this.
    pub contexts: u32,
    /// Scheduler tags.
    pub requests: u32,
    /// Device tags, per hardware queue.
    pub device: u32,
    /// Largest request.
    pub max_sectors: u32,
    /// Hardware queues.
    pub hardware_queues: u16,
    /// Software queues.
    pub software_queues: u16,
    /// Size of the device.
    pub capacity_sectors: u64,
    /// Seed for policies that draw random numbers.
    pub seed: u64,
    /// 1: positioning costs time.
    pub rotational: u32,
    /// 1: the device reorders commands.
    pub queueing: u32,
    /// Version of the kernel to behave like, one number in each 16 bits; 0: the policy's default.
    pub version: u64,
}

impl Config {
    pub(crate) fn configuration(&self) -> Configuration {
        Configuration {
            slots: self.slots,
            groups: self.groups.max(1),
            contexts: self.contexts.max(1),
            depth: Depth { requests: self.requests.max(1), device: self.device.max(1) },
            hardware_queues: self.hardware_queues.max(1),
            software_queues: self.software_queues.max(1),
            rotational: self.rotational != 0,
            queueing: self.queueing != 0,
            max_sectors: self.max_sectors,
            capacity_sectors: self.capacity_sectors,
            actuators: Actuators::ONE,
            tick_ns: 0,
            work_tick_ns: 0,
            batch_times: false,
            seed: self.seed,
        }
    }
}

/// The attributes of a bio or request that policies use.
#[repr(C)]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Ask {
    /// First sector.
    pub sector: u64,
    /// Length.
    pub sectors: u32,
    /// Issuer.
    pub context: u32,
    /// Its group.
    pub group: u32,
    /// Bits of [`Flags`].
    pub flags: u16,
    /// Linux I/O priority.
    pub priority: u16,
    /// Physical segments.
    pub segments: u16,
    /// Hardware queue.
    pub hardware_queue: u16,
    /// Software queue.
    pub software_queue: u16,
    /// 0 read, 1 write, 2 discard, 3 secure erase, 4 write zeroes, 5 zone append, 6 flush, 7
    /// passthrough.
    pub operation: u8,
    /// Padding.
    pub unused: u8,
}

impl Ask {
    #[inline]
    pub(crate) fn attributes(&self) -> Attributes {
        let operation = match self.operation {
            0 => Operation::Read,
            1 => Operation::Write,
            2 => Operation::Discard,
            3 => Operation::SecureErase,
            4 => Operation::WriteZeroes,
            5 => Operation::ZoneAppend,
            6 => Operation::Flush,
            _ => Operation::Passthrough,
        };
        Attributes {
            extent: Extent::new(self.sector, self.sectors),
            operation,
            flags: Flags(self.flags),
            priority: Priority(self.priority),
            segments: self.segments,
            device: 0,
            context: ContextId(self.context),
            group: GroupId(self.group),
            software_queue: SoftwareQueue(self.software_queue),
            hardware_queue: HardwareQueue(self.hardware_queue),
        }
    }
}

impl From<&Attributes> for Ask {
    fn from(attributes: &Attributes) -> Self {
        Self {
            sector: attributes.extent.first_sector,
            sectors: attributes.extent.sectors,
            context: attributes.context.0,
            group: attributes.group.0,
            flags: attributes.flags.0,
            priority: attributes.priority.0,
            segments: attributes.segments,
            hardware_queue: attributes.hardware_queue.0,
            software_queue: attributes.software_queue.0,
            operation: match attributes.operation {
                Operation::Read => 0,
                Operation::Write => 1,
                Operation::Discard => 2,
                Operation::SecureErase => 3,
                Operation::WriteZeroes => 4,
                Operation::ZoneAppend => 5,
                Operation::Flush => 6,
                Operation::Passthrough => 7,
            },
            unused: 0,
        }
    }
}

/// The answer of a dispatch.
#[repr(C)]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Action {
    /// 0: nothing is queued; 1: this request; 2: nothing before `until_ns`; 3: nothing before a
    /// completion.
    pub kind: u32,
    /// The request.
    pub id: u32,
    /// End of the wait.
    pub until_ns: u64,
}

/// [`Action::kind`]: nothing is queued.
pub const EMPTY: u32 = 0;
/// [`Action::kind`]: a request is dispatched.
pub const DISPATCH: u32 = 1;
/// [`Action::kind`]: the device is kept idle in anticipation of a request.
pub const HOLD: u32 = 2;
/// [`Action::kind`]: no request can be dispatched before one completes.
pub const UNTIL_COMPLETION: u32 = 3;

/// What the glue must do after an event; a set of bits.
pub type Effect = u32;
/// Run the queue again.
pub const RUN_QUEUE: Effect = 1;
/// Set beside an effect or a kind of action: the glue must check [`Shared::attention`].
pub const ATTEND: u32 = 1 << 16;

/// The values that the glue reads without a call, some of them without the lock. They are at the
/// beginning of the handle.
#[repr(C)]
#[derive(Debug)]
pub struct Shared {
    /// When `hoist_timer` is to be called, if that is earlier than [`Shared::armed_at_ns`]. All
    /// ones, or an outdated time, mean that the policy wants no earlier call than that.
    pub timer_at_ns: AtomicU64,
    /// The time to which the glue's timer is set; written by the glue.
    pub armed_at_ns: AtomicU64,
    /// Requests in the policy.
    pub queued: AtomicU32,
    /// 1 if a dispatch can return a request (for any hardware queue).
    pub has_work: AtomicU32,
    /// Bits: 1, nothing is dispatched before a completion or an insertion; 2, blk-mq got no request
    /// and dispatches again only when it is told to.
    pub stalled: AtomicU32,
    /// A group without references: call `hoist_release_group`; 0: none.
    pub dying_group: AtomicU32,
    /// Who searches for merge candidates: 0 the block layer; 1 the block layer, and then the policy
    /// for front merges; 2 the policy.
    pub search: AtomicU32,
    /// 1: there is a group to remove, or the timer is to be set earlier. The glue checks and clears
    /// it after each call.
    pub attention: AtomicU32,
}

/// [`Shared::stalled`]: nothing is dispatched before a completion or an insertion.
pub const THROTTLED: u32 = 1 << 0;
/// [`Shared::stalled`]: blk-mq got no request, although some may be queued: it dispatches again
/// only when it is told to, or after an insertion.
pub const REFUSED: u32 = 1 << 1;

impl Shared {
    pub(crate) const fn new() -> Self {
        Self {
            timer_at_ns: AtomicU64::new(u64::MAX),
            armed_at_ns: AtomicU64::new(u64::MAX),
            queued: AtomicU32::new(0),
            has_work: AtomicU32::new(0),
            stalled: AtomicU32::new(0),
            dying_group: AtomicU32::new(0),
            search: AtomicU32::new(0),
            attention: AtomicU32::new(0),
        }
    }

    /// Makes the glue check after this call whether a group is to be removed or the timer set.
    pub(crate) fn request_attention(&self) {
        self.attention.store(1, Relaxed);
    }

    pub(crate) fn is(&self, what: u32) -> bool {
        self.stalled.load(Relaxed) & what != 0
    }

    pub(crate) fn set_condition(&self, what: u32) {
        self.stalled.store(self.stalled.load(Relaxed) | what, Relaxed);
    }

    pub(crate) fn clear_condition(&self, what: u32) {
        self.stalled.store(self.stalled.load(Relaxed) & !what, Relaxed);
    }
}

/// All counters.
#[repr(C)]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Requests that entered the policy's queues; each requeue counts again.
    pub inserted: u64,
    /// Requests dispatched to the driver.
    pub dispatched: u64,
    /// Requests that the device completed.
    pub finished: u64,
    /// Requests that the driver requeued.
    pub requeued: u64,
    /// Bios merged into a queued request.
    pub bios_merged: u64,
    /// Requests absorbed by another.
    pub absorbed: u64,
    /// Calls of `hoist_dispatch`.
    pub dispatch_calls: u64,
    /// Answers "nothing before a time".
    pub holds: u64,
    /// Answers "nothing before a completion".
    pub throttled: u64,
    /// Calls of the timer.
    pub timers: u64,
    /// Invalid calls, by the glue or between core and policy.
    pub faults: u64,
    /// Groups in use, including the root.
    pub groups: u64,
    /// Issuers in use, including the shared one.
    pub contexts: u64,
    /// Groups for which there was no id; their requests count for their parents.
    pub groups_refused: u64,
    /// Issuers for which there was no id; they share id 0.
    pub contexts_refused: u64,
    /// Requests that were dispatched and have not ended or been requeued.
    pub in_driver: u64,
}

/// A text that lives as long as the module.
#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct Line {
    /// First byte; not terminated.
    pub text: *const u8,
    /// Bytes.
    pub bytes: u64,
}

impl Line {
    pub(crate) const fn of(text: &'static str) -> Self {
        Self { text: text.as_ptr(), bytes: text.len() as u64 }
    }
}

const _: () = assert!(size_of::<Config>() == 64 && align_of::<Config>() == 8);
const _: () = assert!(size_of::<Ask>() == 32 && size_of::<Action>() == 16 && size_of::<Shared>() == 40);
const _: () = {
    // The layout of `struct hoist_attributes`, in which the glue writes the attributes of a new
    // request, equals that of the policies' [`Attributes`].
    use core::mem::offset_of;
    assert!(size_of::<Attributes>() == 40 && size_of::<Extent>() == 16 && size_of::<Operation>() == 1);
    assert!(offset_of!(Attributes, extent) == 0 && offset_of!(Extent, sectors) == 8);
    assert!(offset_of!(Attributes, operation) == 16 && offset_of!(Attributes, flags) == 18);
    assert!(offset_of!(Attributes, priority) == 20 && offset_of!(Attributes, segments) == 22);
    assert!(offset_of!(Attributes, device) == 24 && offset_of!(Attributes, context) == 28);
    assert!(offset_of!(Attributes, group) == 32 && offset_of!(Attributes, software_queue) == 36);
    assert!(offset_of!(Attributes, hardware_queue) == 38);
};
const _: () = assert!(size_of::<Stats>() == 16 * 8 && size_of::<Line>() == 16);
