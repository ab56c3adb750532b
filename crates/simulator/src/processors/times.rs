//! How long each part of a request's way occupies a processor, and under which lock.

use hoistway_block::Nanos;
use hoistway_elevator::Traits;
use hoistway_experiment::Machine;

use super::instructions::{Guard, LimiterCost, Locking, Section};
use crate::costs::HostCosts;

/// A part of the way of a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub guard: Guard,
    pub ns: Nanos,
}

/// All parts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    /// Per bio, before a lock is needed: system call, bio, request, driver, limiters.
    pub submit_ns: Nanos,
    /// Per request, before the scheduler learns of its completion.
    pub interrupt_ns: Nanos,
    /// What limiters do under a lock with a bio.
    pub limit: Option<Part>,
    /// From there until the process continues.
    pub deliver_ns: Nanos,
    /// To wake the worker that dispatches, and back.
    pub worker_ns: Nanos,
    /// The search for a request that a bio can join, where it is under a lock of its own.
    pub merge: Option<Part>,
    pub insert: Part,
    pub dispatch: Part,
    pub complete: Part,
    /// A lock and what it guards move from one processor to another.
    pub transfer_ns: Nanos,
    /// Whether a request can go only to the hardware queue for which it was queued.
    pub is_per_queue: bool,
}

/// A worker of blk-mq is woken and goes to sleep again. Measured on Linux 6.1, which woke one for every
/// lone request, with the module's FIFO: 13,649 - 6,646 at depth 1, 6,534 - 5,751 at depth 32
/// (docs/measured/2026-11-22-kernel-module).
const WORKER_INSTRUCTIONS: u64 = 6_220;

/// A request joins a list that its processor alone appends to, and leaves it.
const LIST_INSTRUCTIONS: u64 = 30;

impl Times {
    pub(crate) fn of(
        machine: &Machine,
        costs: &HostCosts,
        (traits, locking): (&Traits, Locking),
        limiters: impl Iterator<Item = LimiterCost>,
    ) -> Self {
        let Traits { is_elevator, is_per_queue, .. } = *traits;
        let ns = |instructions: u64| (instructions * machine.instruction_ps + 500) / 1_000;
        let own = machine.sched_ns_per_op;
        let part = |section: Section| Part {
            guard: section.guard,
            ns: if own > 0 { own } else { ns(u64::from(section.instructions)) },
        };
        let interrupt_ns = costs.complete_ns / 2;
        let [mut guarded, mut submission, mut completion] = [0; 3];
        for limiter in limiters {
            guarded += u64::from(limiter.guarded);
            submission += u64::from(limiter.submission);
            completion += u64::from(limiter.completion);
        }
        let mut merge = locking.merge.filter(|_| own == 0).map(part);
        let [mut insert, mut dispatch, mut complete] = [locking.insert, locking.dispatch, locking.complete].map(part);
        // The dispatching processor does under the lock what it takes over from the lists.
        let mut defer = |late: &mut Part| {
            if late.guard == Guard::Device {
                dispatch.ns += late.ns;
                *late = Part { guard: Guard::Processor, ns: ns(LIST_INSTRUCTIONS) };
            }
        };
        if machine.processor_lists >= 1 {
            merge.iter_mut().for_each(&mut defer);
            defer(&mut insert);
        }
        if machine.processor_lists >= 2 {
            defer(&mut complete);
        }
        Self {
            submit_ns: costs.submit_ns + ns(u64::from(locking.beside) + u64::from(locking.queue_run) + submission),
            interrupt_ns: interrupt_ns + ns(completion),
            limit: (guarded > 0).then(|| Part { guard: Guard::Limits, ns: ns(guarded) }),
            deliver_ns: costs.complete_ns - interrupt_ns,
            worker_ns: if is_elevator { ns(WORKER_INSTRUCTIONS) } else { 0 },
            merge,
            insert,
            dispatch,
            complete,
            transfer_ns: machine.lock_transfer_ns,
            is_per_queue,
        }
    }
}
