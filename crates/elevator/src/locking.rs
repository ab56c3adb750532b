//! What the calls of a policy or a limiter cost the processors of a machine, and which lock they hold
//! meanwhile.

/// The lock under which a call works.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Guard {
    /// None for which another processor waits: state of the calling processor, or atomic counters.
    Processor,
    /// One for each hardware queue.
    HardwareQueue,
    /// The policy's, one for the device.
    Device,
    /// That of the limits of groups, one for the device: the request queue's (`queue_lock`).
    Limits,
}

/// A piece of work under one hold of a lock.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The lock.
    pub guard: Guard,
    /// Instructions between taking and releasing it.
    pub instructions: u16,
}

/// The work of a policy for one request inside Linux, in instructions, which do not depend on the
/// machine. A host that simulates processors turns them into times. `none`, `mq-deadline`, `kyber`
/// and `bfq` are the kernel's own, all others those of the kernel module. Source:
/// docs/measured/2026-11-26-scheduler-cost.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Locking {
    /// The search for a queued request that a bio can join, where it has a lock to itself.
    pub merge: Option<Section>,
    /// A request enters the policy.
    pub insert: Section,
    /// A request is chosen. blk-mq takes the lock for each request, also when it dispatches many
    /// (`__blk_mq_do_dispatch_sched`).
    pub dispatch: Section,
    /// A request has completed.
    pub complete: Section,
    /// All else that a request costs more than without a scheduler: scheduler tags, lists, calls.
    pub beside: u16,
    /// A run of the hardware queue, which a batch of requests shares.
    pub queue_run: u16,
}

impl Locking {
    /// Nothing: no scheduler.
    pub const NONE: Self = {
        let nothing = Section { guard: Guard::Processor, instructions: 0 };
        Self { merge: None, insert: nothing, dispatch: nothing, complete: nothing, beside: 0, queue_run: 0 }
    };

    /// A list in order of arrival: what every policy costs in the kernel module, however little it
    /// decides.
    pub const FIFO: Self = Self::of_device(150, 120, 90, 423);

    /// One lock for the device, which insertion, choice and completion hold for these numbers of
    /// instructions.
    pub const fn of_device(insert: u16, dispatch: u16, complete: u16, beside: u16) -> Self {
        Self {
            merge: Some(Section { guard: Guard::Device, instructions: MERGE_SEARCH }),
            insert: Section { guard: Guard::Device, instructions: insert },
            dispatch: Section { guard: Guard::Device, instructions: dispatch },
            complete: Section { guard: Guard::Device, instructions: complete },
            beside,
            queue_run: QUEUE_RUN,
        }
    }

    /// The same where only the total is known, of which `beside` is outside the lock: insertion and
    /// choice take two fifths each of the rest, as they do in the policies whose parts were counted.
    pub const fn of_total(total: u16, beside: u16) -> Self {
        let fifth = total.saturating_sub(beside) / 5;
        Self::of_device(2 * fifth, 2 * fifth, fifth, beside)
    }
}

/// The search of blk-mq for a queued request that a bio can join (`blk_mq_sched_try_merge`), which
/// takes the lock for itself while anything is queued.
const MERGE_SEARCH: u16 = 105;

/// What a lone request costs more than one of a batch of 32, with mq-deadline: 1,750 above none on Linux
/// 6.12, 1,423 in a batch. The policies of the kernel module were not measured there.
const QUEUE_RUN: u16 = 327;

/// Outside the lock in the kernel module, for policies that distinguish issuers and groups.
pub(crate) const BESIDE_WITH_ISSUERS: u16 = 634;

/// The work of a limiter for one bio of a group that it limits, inside Linux, in instructions. Source:
/// docs/measured/2026-11-26-scheduler-cost.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct LimiterCost {
    /// Under [`Guard::Limits`], when the bio is submitted.
    pub guarded: u16,
    /// When it is submitted, outside any lock for which another processor waits.
    pub submission: u16,
    /// When it ends, likewise.
    pub completion: u16,
}
