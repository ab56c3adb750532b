//! Processors that do one thing at a time, and the locks of the scheduler for which they wait.
//!
//! ```text
//! submission:  submit_ns -> [limit] -> [merge] -> [insert] -> [choose] -> [choose] ... until nothing is to be dispatched
//! worker:      worker_ns -> [choose] -> [choose] ... until nothing is to be dispatched
//! completion:  interrupt_ns -> [complete] -> a worker is woken, the process is told
//! delivery:    deliver_ns -> the process sees its I/O's end
//! ```
//! A part in brackets holds the lock that the policy or the limiter holds in Linux, if any (`instructions`). Every begin and end
//! of a part is an event: a processor that finds a lock held spins, in order of arrival, until the
//! holder's event ends. What a part does to the queue takes effect at its end; the run carries it
//! out (`crate::run`).
//!
//! Interrupts go first, but interrupt nothing. A process keeps its processor until it waits for
//! something; after that, tasks go in the order in which they became ready.

mod instructions;
mod lock;
mod times;

use std::collections::VecDeque;

use hoistway_block::{HardwareQueue, Nanos};
use hoistway_device::Completion;
use hoistway_experiment::measurement::ProcessorTime;

use crate::events::{EventWheel, Payload};
pub(crate) use instructions::LimiterCost;
pub use instructions::{Guard, Locking, Section};
pub(crate) use lock::Processor;
use lock::{Answer, Lock};
use times::Part;
pub(crate) use times::Times;

/// Something that a processor does.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// A process submits the bios of an I/O.
    Submission { process: u32, io: u32, bios: u32 },
    /// A process learns of an I/O's end.
    Delivery { process: u32, io: u32 },
    /// The device has finished a request.
    Completion(Completion),
    /// A worker dispatches for a hardware queue.
    Worker(HardwareQueue),
}

impl Task {
    /// The process that runs.
    fn process(&self) -> Option<u32> {
        match *self {
            Task::Submission { process, .. } | Task::Delivery { process, .. } => Some(process),
            Task::Completion(_) | Task::Worker(_) => None,
        }
    }
}

/// The part of its task that a processor is in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Step {
    Begin,
    Limit,
    Merge,
    Insert,
    Complete,
    Choose(HardwareQueue),
}

/// What has ended and is to take effect now.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// The bios of this I/O enter the queue.
    Submit { io: u32 },
    /// The process sees the end of this I/O.
    Deliver { io: u32 },
    /// The request is complete.
    Complete(Completion),
    /// A worker has begun to look at this hardware queue.
    Look(HardwareQueue),
    /// The next request of this hardware queue is chosen.
    Choose(HardwareQueue),
}

#[derive(Clone, Debug, Default)]
struct State {
    interrupts: VecDeque<Completion>,
    ready: VecDeque<Task>,
    current: Option<(Task, Step)>,
    /// When the present part began, or when spinning for its lock began.
    since: Nanos,
}

/// All processors of the machine.
#[derive(Debug)]
pub(crate) struct Processors {
    states: Vec<State>,
    /// The device's lock, that of its limits, then those of the hardware queues.
    locks: Vec<Lock>,
    /// By hardware queue: whether its worker runs or is about to.
    workers: Vec<bool>,
    times: Times,
    wheel: EventWheel,
    figures: ProcessorTime,
}

impl Processors {
    pub(crate) fn new(processors: u16, hardware_queues: u16, times: Times) -> Self {
        Self {
            states: vec![State::default(); usize::from(processors.max(1))],
            locks: vec![Lock::default(); 2 + usize::from(hardware_queues)],
            workers: vec![false; usize::from(hardware_queues)],
            times,
            wheel: EventWheel::with_capacity(usize::from(processors)),
            figures: ProcessorTime::default(),
        }
    }

    /// When the next part ends, or [`crate::events::NEVER`].
    pub(crate) fn next_event(&mut self) -> Nanos {
        self.wheel.next_time()
    }

    pub(crate) fn figures(&self) -> ProcessorTime {
        self.figures
    }

    /// How many processors there are.
    pub(crate) fn count(&self) -> u16 {
        u16::try_from(self.states.len()).unwrap_or(u16::MAX)
    }

    /// The process that submits an I/O on a processor.
    pub(crate) fn submitter(&self, processor: Processor) -> Option<u32> {
        match self.states[usize::from(processor)].current {
            Some((Task::Submission { process, .. }, _)) => Some(process),
            _ => None,
        }
    }

    /// Whether the policy has queues of its own for each hardware queue.
    pub(crate) fn is_per_queue(&self) -> bool {
        self.times.is_per_queue
    }

    /// A process has something to do: at once when its processor is at it already, otherwise after
    /// what is ready.
    pub(crate) fn run_process(&mut self, processor: Processor, task: Task, now: Nanos) {
        let state = &mut self.states[usize::from(processor)];
        let is_at_it = state.current.is_some_and(|(current, _)| current.process() == task.process());
        if is_at_it {
            state.ready.push_front(task);
        } else {
            state.ready.push_back(task);
        }
        self.begin(processor, now);
    }

    /// The device interrupts a processor.
    pub(crate) fn interrupt(&mut self, processor: Processor, completion: Completion, now: Nanos) {
        self.states[usize::from(processor)].interrupts.push_back(completion);
        self.begin(processor, now);
    }

    /// Wakes the worker of a hardware queue on this processor. There is one for each queue, as
    /// blk-mq has one work item for it, which never runs on two processors at a time; a worker that
    /// runs or is about to will see what there is to dispatch.
    pub(crate) fn wake_worker(&mut self, processor: Processor, queue: HardwareQueue, now: Nanos) {
        if std::mem::replace(&mut self.workers[usize::from(queue.0)], true) {
            return;
        }
        self.states[usize::from(processor)].ready.push_back(Task::Worker(queue));
        self.begin(processor, now);
    }

    /// The next part that ends at `now` and has an effect, with its processor. The caller then says
    /// what follows: [`Processors::choose`] or [`Processors::ends`].
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<(Processor, Effect)> {
        while let Some((_, event)) = self.wheel.pop_due(now) {
            let processor = Processor::try_from(event.index()).expect("the index is that of a processor");
            if let Some(effect) = self.part_ended(processor, now) {
                return Some((processor, effect));
            }
        }
        None
    }

    /// The processor goes on with choosing a request for a hardware queue.
    pub(crate) fn choose(&mut self, processor: Processor, queue: HardwareQueue, now: Nanos) {
        self.enter(processor, Step::Choose(queue), now);
    }

    /// The processor's task is over.
    pub(crate) fn ends(&mut self, processor: Processor, now: Nanos) {
        let ended = self.states[usize::from(processor)].current.take();
        if let Some((Task::Worker(queue), _)) = ended {
            self.workers[usize::from(queue.0)] = false;
        }
        self.begin(processor, now);
    }

    /// An idle processor begins its next task.
    fn begin(&mut self, processor: Processor, now: Nanos) {
        let state = &mut self.states[usize::from(processor)];
        if state.current.is_some() {
            return;
        }
        let interrupt = state.interrupts.pop_front().map(Task::Completion);
        let Some(task) = interrupt.or_else(|| state.ready.pop_front()) else { return };
        state.current = Some((task, Step::Begin));
        self.enter(processor, Step::Begin, now);
    }

    /// A processor begins a part of its task: at once, or when it gets the part's lock.
    fn enter(&mut self, processor: Processor, step: Step, now: Nanos) {
        let state = &mut self.states[usize::from(processor)];
        let Some((task, current)) = &mut state.current else { return };
        let task = *task;
        *current = step;
        state.since = now;
        let part = self.part(&task, step);
        match self.lock_of(step, part.guard) {
            None => self.lasts(processor, now, part.ns),
            Some(lock) => match self.locks[lock].ask(processor) {
                Answer::Held { is_moved } => self.holds(processor, is_moved, now),
                Answer::Waits => {}
            },
        }
    }

    /// The processor has got the lock of the part that it is in.
    fn holds(&mut self, processor: Processor, is_moved: bool, now: Nanos) {
        let state = &mut self.states[usize::from(processor)];
        let Some((task, step)) = state.current else { return };
        let spun_ns = now - state.since;
        state.since = now;
        let held_ns = self.part(&task, step).ns + if is_moved { self.times.transfer_ns } else { 0 };
        self.figures.lock_wait_ns += spun_ns;
        self.figures.busy_ns += spun_ns;
        self.figures.lock_takes += 1;
        self.lasts(processor, now, held_ns);
    }

    fn lasts(&mut self, processor: Processor, now: Nanos, length_ns: Nanos) {
        self.figures.busy_ns += length_ns;
        self.wheel.insert(now + length_ns, Payload::new(0, u32::from(processor)));
    }

    /// The part that a processor was in has ended: its lock goes to the next, and the task goes on
    /// to the next part, or has an effect.
    fn part_ended(&mut self, processor: Processor, now: Nanos) -> Option<Effect> {
        let (task, step) = self.states[usize::from(processor)].current?;
        let guard = self.part(&task, step).guard;
        if let Some(lock) = self.lock_of(step, guard)
            && let Some(next) = self.locks[lock].release()
        {
            self.holds(next, true, now);
        }
        let next = match (task, step) {
            (Task::Submission { .. }, Step::Begin) if self.times.limit.is_some() => Step::Limit,
            (Task::Submission { .. }, Step::Begin | Step::Limit) if self.times.merge.is_some() => Step::Merge,
            (Task::Submission { .. }, Step::Begin | Step::Limit | Step::Merge) => Step::Insert,
            (Task::Submission { io, .. }, Step::Insert) => return Some(Effect::Submit { io }),
            (Task::Completion(_), Step::Begin) => Step::Complete,
            (Task::Completion(completion), Step::Complete) => return Some(Effect::Complete(completion)),
            (Task::Delivery { io, .. }, _) => return Some(Effect::Deliver { io }),
            (Task::Worker(queue), Step::Begin) => return Some(Effect::Look(queue)),
            (_, Step::Choose(queue)) => return Some(Effect::Choose(queue)),
            (Task::Submission { .. } | Task::Completion(_) | Task::Worker(_), _) => {
                debug_assert!(false, "{task:?} has no {step:?}");
                return None;
            }
        };
        self.enter(processor, next, now);
        None
    }

    /// How long a part takes, and under which lock.
    fn part(&self, task: &Task, step: Step) -> Part {
        let times = &self.times;
        let alone = |ns| Part { guard: Guard::Processor, ns };
        match (step, task) {
            (Step::Begin, Task::Submission { bios, .. }) => alone(times.submit_ns * u64::from(*bios)),
            (Step::Begin, Task::Delivery { .. }) => alone(times.deliver_ns),
            (Step::Begin, Task::Completion(_)) => alone(times.interrupt_ns),
            (Step::Begin, Task::Worker(_)) => alone(times.worker_ns),
            // In Linux each bio takes the lock for itself; here the bios of one I/O share one hold.
            (Step::Limit, Task::Submission { bios, .. }) => {
                times.limit.map_or(alone(0), |part| Part { ns: part.ns * u64::from(*bios), ..part })
            }
            (Step::Limit, _) => alone(0),
            (Step::Merge, _) => times.merge.unwrap_or(alone(0)),
            // The bios of one plug are inserted under one hold.
            (Step::Insert, Task::Submission { bios, .. }) => {
                Part { ns: times.insert.ns * u64::from(*bios), ..times.insert }
            }
            (Step::Insert, _) => times.insert,
            (Step::Complete, _) => times.complete,
            (Step::Choose(_), _) => times.dispatch,
        }
    }

    /// The index of a part's lock.
    fn lock_of(&self, step: Step, guard: Guard) -> Option<usize> {
        match (guard, step) {
            (Guard::Device, _) => Some(0),
            (Guard::Limits, _) => Some(1),
            (Guard::HardwareQueue, Step::Choose(queue)) => Some(2 + usize::from(queue.0)),
            // Only choices know their hardware queue; no policy guards another part in this way.
            (Guard::HardwareQueue, _) | (Guard::Processor, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_elevator::Traits;
    use hoistway_experiment::Machine;

    use super::instructions::{LimiterCost, Section};

    fn times(insert_ns: Nanos, transfer_ns: Nanos, guard: Guard) -> Times {
        let part = Part { guard, ns: insert_ns };
        let none = Part { guard: Guard::Processor, ns: 0 };
        Times {
            submit_ns: 0,
            interrupt_ns: 0,
            deliver_ns: 0,
            worker_ns: 0,
            limit: None,
            merge: None,
            insert: part,
            dispatch: none,
            complete: none,
            transfer_ns,
            is_per_queue: false,
        }
    }

    fn submission(io: u32) -> Task {
        Task::Submission { process: io, io, bios: 1 }
    }

    /// Each of `processors` submits one I/O after the other until `end_ns`. Times, processors and
    /// the figures.
    fn run(times: Times, processors: u16, end_ns: Nanos) -> (Vec<(Nanos, Processor)>, ProcessorTime) {
        let mut machine = Processors::new(processors, 1, times);
        for processor in 0..processors {
            machine.run_process(processor, submission(u32::from(processor)), 0);
        }
        let mut log = Vec::new();
        while machine.next_event() < end_ns {
            let now = machine.next_event();
            while let Some((processor, effect)) = machine.take_due(now) {
                assert_eq!(effect, Effect::Submit { io: u32::from(processor) });
                log.push((now, processor));
                machine.run_process(processor, submission(u32::from(processor)), now);
                machine.ends(processor, now);
            }
        }
        (log, machine.figures())
    }

    #[test]
    fn a_saturated_lock_lets_one_through_per_hold_and_transfer() {
        for (processors, transfer_ns) in [(1, 70), (2, 0), (4, 70), (32, 70)] {
            let (log, figures) = run(times(130, transfer_ns, Guard::Device), processors, 1_000_000);
            // A single processor has the lock in its own cache.
            let period = 130 + if processors > 1 { transfer_ns } else { 0 };
            let through = 1_000_000 / period;
            assert!((log.len() as u64).abs_diff(through) <= 1, "{processors}: {} of {through}", log.len());
            let spinning = figures.lock_wait_ns as f64 / figures.busy_ns as f64;
            let expected = 1.0 - 1.0 / f64::from(processors);
            assert!((spinning - expected).abs() < 0.01, "{processors}: {spinning} of the time, not {expected}");
        }
    }

    #[test]
    fn waiters_get_their_turn_in_order_and_the_order_is_the_same_each_time() {
        let (log, _) = run(times(100, 50, Guard::Device), 4, 20_000);
        let order: Vec<_> = log.iter().map(|&(_, processor)| processor).collect();
        for (place, &processor) in order.iter().enumerate() {
            assert_eq!(usize::from(processor), place % 4, "place {place} of {order:?}");
        }
        assert_eq!(log, run(times(100, 50, Guard::Device), 4, 20_000).0);
    }

    #[test]
    fn without_a_common_lock_processors_do_not_wait_for_each_other() {
        let (log, figures) = run(times(100, 50, Guard::Processor), 8, 100_000);
        assert!(log.len().abs_diff(8 * 1_000) <= 8, "{}", log.len());
        assert_eq!((figures.lock_wait_ns, figures.lock_takes), (0, 0));
    }

    #[test]
    fn a_processor_serves_interrupts_first_and_processes_in_turn() {
        let mut machine = Processors::new(1, 1, Times { submit_ns: 10, ..times(0, 0, Guard::Processor) });
        let completion = Completion { at_ns: 0, tag: 9, status: hoistway_block::Status::Ok };
        for io in [1, 2, 3] {
            machine.run_process(0, submission(io), 0);
        }
        machine.interrupt(0, completion, 5);
        let mut order = Vec::new();
        while machine.next_event() < 1_000 {
            let now = machine.next_event();
            let Some((processor, effect)) = machine.take_due(now) else { continue };
            order.push(effect);
            machine.ends(processor, now);
        }
        let submit = |io| Effect::Submit { io };
        assert_eq!(order, [submit(1), Effect::Complete(completion), submit(2), submit(3)]);
    }

    #[test]
    fn instructions_become_time_and_an_explicit_time_replaces_them() {
        let locking = Locking {
            merge: Some(Section { guard: Guard::Device, instructions: 100 }),
            complete: Section { guard: Guard::Processor, instructions: 0 },
            queue_run: 40,
            ..Locking::of_device(200, 300, 0, 400)
        };
        let policy = (&Traits::PLAIN, locking);
        let costs = crate::costs::HostCosts::NONE;
        let machine = Machine::parse("instruction_ps=500,lock_transfer_ns=80").unwrap();
        let times = Times::of(&machine, &costs, policy, std::iter::empty());
        let ns = |part: Part| part.ns;
        assert_eq!((times.submit_ns, times.merge.map(ns), times.transfer_ns), (220, Some(50), 80));
        assert_eq!((times.insert.ns, times.dispatch.ns, times.complete.ns), (100, 150, 0));
        let machine = Machine::parse("instruction_ps=500,sched_ns_per_op=7").unwrap();
        let times = Times::of(&machine, &costs, policy, std::iter::empty());
        assert_eq!((times.merge, times.insert.ns, times.dispatch.ns, times.complete.ns), (None, 7, 7, 7));
    }

    #[test]
    fn limiters_add_up_and_their_lock_is_not_the_policys() {
        let machine = Machine::parse("instruction_ps=1000").unwrap();
        let limiters = [(100, 20, 3), (50, 10, 4)];
        let limiters =
            limiters.map(|(guarded, submission, completion)| LimiterCost { guarded, submission, completion });
        let costs = crate::costs::HostCosts::NONE;
        let policy = (&Traits::PLAIN, Locking::of("noop"));
        let times = Times::of(&machine, &costs, policy, limiters.into_iter());
        let alone = Times::of(&machine, &costs, policy, std::iter::empty());
        assert_eq!((times.submit_ns - alone.submit_ns, times.interrupt_ns), (30, 7));
        assert_eq!(times.limit, Some(Part { guard: Guard::Limits, ns: 150 }));
        let processors = Processors::new(2, 1, times);
        let locks = [(Step::Limit, Guard::Limits), (Step::Insert, Guard::Device)];
        assert_eq!(locks.map(|(step, guard)| processors.lock_of(step, guard)), [Some(1), Some(0)]);
    }
}
