//! What Linux's policies and limiters cost the processors of a machine, and which lock they hold
//! meanwhile: instructions that were counted, by name. A policy that was not counted costs as much as
//! a list in order of arrival, the least that the kernel module needs.
//!
//! Source: docs/measured/2026-11-26-scheduler-cost.

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
/// machine. `none`, `mq-deadline`, `kyber` and `bfq` are the kernel's own, all others those of the
/// kernel module.
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
    /// The work of a policy.
    pub fn of(policy: &str) -> Self {
        POLICIES.iter().find(|(name, _)| *name == policy).map_or(Self::FIFO, |(_, locking)| *locking)
    }

    /// The instructions of all parts together.
    pub fn total(&self) -> u64 {
        let sections = [Some(self.insert), Some(self.dispatch), Some(self.complete), self.merge];
        let guarded: u64 = sections.iter().flatten().map(|section| u64::from(section.instructions)).sum();
        guarded + u64::from(self.beside) + u64::from(self.queue_run)
    }

    /// Nothing: no scheduler.
    const NONE: Self = {
        let nothing = Section { guard: Guard::Processor, instructions: 0 };
        Self { merge: None, insert: nothing, dispatch: nothing, complete: nothing, beside: 0, queue_run: 0 }
    };

    /// A list in order of arrival: what every policy costs in the kernel module, however little it
    /// decides.
    const FIFO: Self = Self::of_device(150, 120, 90, 423);

    /// One lock for the device, which insertion, choice and completion hold for these numbers of
    /// instructions.
    pub(super) const fn of_device(insert: u16, dispatch: u16, complete: u16, beside: u16) -> Self {
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
    const fn of_total(total: u16, beside: u16) -> Self {
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
const BESIDE_WITH_ISSUERS: u16 = 634;

/// The work of a limiter for one bio of a group that it limits, inside Linux, in instructions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct LimiterCost {
    /// Under [`Guard::Limits`], when the bio is submitted.
    pub guarded: u16,
    /// When it is submitted, outside any lock for which another processor waits.
    pub submission: u16,
    /// When it ends, likewise.
    pub completion: u16,
}

impl LimiterCost {
    /// The work of a limiter; none where it was not counted.
    pub(crate) fn of(limiter: &str) -> Self {
        let known = LIMITERS.iter().find(|(name, _)| *name == limiter);
        known.map_or(Self { guarded: 0, submission: 0, completion: 0 }, |(_, cost)| *cost)
    }
}

/// A section under the policy's lock.
const fn guarded(instructions: u16) -> Section {
    Section { guard: Guard::Device, instructions }
}

/// A section without a lock for which another processor waits.
const fn own(instructions: u16) -> Section {
    Section { guard: Guard::Processor, instructions }
}

const POLICIES: &[(&str, Locking)] = &[
    ("none", Locking::NONE),
    // `dd_finish_request` counts without the lock.
    ("mq-deadline", Locking { merge: Some(guarded(150)), complete: own(20), ..Locking::of_device(320, 330, 0, 603) }),
    // Insertion and the search before it take the lock of the processor's own lists (`kcq->lock`),
    // choices that of the hardware queue (`khd->lock`); completions count by processor.
    (
        "kyber",
        Locking {
            merge: None,
            insert: own(180),
            dispatch: Section { guard: Guard::HardwareQueue, instructions: 260 },
            complete: own(115),
            beside: 610,
            queue_run: 919,
        },
    ),
    // `bfqd->lock` is taken for the search (which includes the question whether a request is over its
    // group's limit), for the insertion, for each choice and for each end.
    ("bfq", Locking { merge: Some(guarded(450)), queue_run: 927, ..Locking::of_device(850, 850, 357, 900) }),
    // All that the elevators of 2.4 cost more than a plain list is their search for a place and a
    // request to join.
    ("linus", Locking { merge: Some(guarded(2_482)), ..Locking::FIFO }),
    ("read-latency2", Locking { merge: Some(guarded(2_482)), ..Locking::FIFO }),
    ("nas", Locking { merge: Some(guarded(2_360)), ..Locking::FIFO }),
    ("deadline", Locking::of_total(1_267, Locking::FIFO.beside)),
    ("anticipatory", Locking::of_total(2_051, Locking::FIFO.beside)),
    ("cfq", Locking::of_total(2_959, BESIDE_WITH_ISSUERS)),
    ("uchida", Locking::of_total(2_938, BESIDE_WITH_ISSUERS)),
    ("tarasov", Locking::of_total(2_938, BESIDE_WITH_ISSUERS)),
    ("wfq", Locking::of_device(284, 350, 114, BESIDE_WITH_ISSUERS)),
    ("sfq", Locking::of_total(1_431, BESIDE_WITH_ISSUERS)),
    ("sfq-d2", Locking::of_total(1_952, BESIDE_WITH_ISSUERS)),
    ("mqfq", Locking::of_device(350, 360, 209, BESIDE_WITH_ISSUERS)),
    ("paternoster", Locking::of_device(411, 300, 253, 473)),
];

const LIMITERS: &[(&str, LimiterCost)] = &[
    ("rate", LimiterCost { guarded: 220, submission: 30, completion: 0 }),
    ("throttle", LimiterCost { guarded: 480, submission: 40, completion: 0 }),
    ("io.cost", LimiterCost { guarded: 0, submission: 345, completion: 168 }),
    ("io.latency", LimiterCost { guarded: 0, submission: 115, completion: 229 }),
    ("wbt", LimiterCost { guarded: 0, submission: 29, completion: 28 }),
];

#[cfg(test)]
mod tests {
    use hoistway_elevator::{limiters, registry};

    use super::*;

    /// A row that is named wrongly would cost nothing, or as much as a list.
    #[test]
    fn every_row_is_a_policy_or_a_limiter_and_every_limiter_has_a_row() {
        let unknown = POLICIES.iter().map(|(name, _)| *name).find(|name| registry::find(name).is_none());
        assert_eq!(unknown, None);
        let names = LIMITERS.iter().map(|(name, _)| *name);
        assert_eq!(names.collect::<Vec<_>>(), limiters::LIMITERS.iter().map(|entry| entry.name).collect::<Vec<_>>());
        assert_eq!(Locking::of("noop"), Locking::FIFO);
        assert_eq!((Locking::of("none").total(), Locking::FIFO.total()), (0, 150 + 120 + 90 + 423 + 105 + 327));
    }
}
