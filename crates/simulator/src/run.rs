//! One run: the loop that connects processes, queue and device on one clock.
//!
//! Order at one time: all completions of the device, then every process that wakes, then the
//! queue's timer, then one dispatch loop per hardware queue, in queue order. The same time is
//! processed again while new events of that time appear.

mod on_processors;

use std::collections::BTreeMap;

use hoistway_block::{HardwareQueue, Nanos, Operation, RequestId};
use hoistway_device::{AnyDevice, Command, Completion, Device, Submit};
use hoistway_elevator::Elevator;
use hoistway_experiment::measurement::ProcessorTime;
use hoistway_queue::{Counters, Next, RequestQueue};

use crate::events::NEVER;
use crate::processes::Processes;
use crate::processors::Processors;

/// Rounds at one time after which the run counts as not advancing.
const ROUNDS_AT_ONE_TIME: u32 = 1 << 24;
/// Completions that are taken from the device in one batch.
const COMPLETIONS: usize = 64;

/// Why a run cannot continue.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// I/Os are in flight and no event is pending: one of them was lost.
    NothingAhead,
    /// Events follow each other without time between them.
    TimeStandsStill,
}

/// Queue counters and reasons at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub counters: Counters,
    pub reasons: BTreeMap<&'static str, u64>,
    /// What the processors did, where they are simulated.
    pub processors: ProcessorTime,
}

/// A run in progress.
#[derive(Debug)]
pub(crate) struct Run<E> {
    pub queue: RequestQueue<E>,
    pub device: AnyDevice,
    pub processes: Processes,
    pub now: Nanos,
    hardware_queues: u16,
    completions: Vec<Completion>,
    rounds_at_now: u32,
    /// How long completions are collected for one interrupt (interrupt coalescing).
    coalesce_ns: Nanos,
    /// Time of the next interrupt.
    interrupt_at: Nanos,
    /// When the elevator's lock is free for the next choice.
    dispatch_at: Nanos,
}

impl<E: Elevator> Run<E> {
    pub(crate) fn new(queue: RequestQueue<E>, device: AnyDevice, processes: Processes, coalesce_ns: Nanos) -> Self {
        let info = device.info();
        let (hardware_queues, depth) = (info.hardware_queues, info.total_depth());
        let completions = Vec::with_capacity(depth.min(COMPLETIONS));
        let (interrupt_at, dispatch_at) = (NEVER, NEVER);
        Self {
            queue,
            device,
            processes,
            now: 0,
            hardware_queues,
            completions,
            rounds_at_now: 0,
            coalesce_ns,
            interrupt_at,
            dispatch_at,
        }
    }

    /// Starts at time 0.
    pub(crate) fn start(&mut self) {
        self.processes.start_ready(0, &mut self.queue);
        self.dispatch_or_wake();
    }

    /// Stops all issuing at `now`.
    pub(crate) fn stop(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.processes.stop_all(self.now, &mut self.queue);
        self.dispatch_or_wake();
    }

    /// Processes the next time before `end`; false if there is none.
    ///
    /// # Errors
    /// [`Stuck`] when I/Os are in flight but no event is pending, or when time does not advance.
    #[inline]
    pub(crate) fn step(&mut self, end: Nanos) -> Result<bool, Stuck> {
        if self.processes.processors.is_some() {
            return self.step_on_processors(end);
        }
        let timer = self.queue.next_timer().unwrap_or(NEVER);
        let waits = self.interrupt_at.min(self.dispatch_at);
        let others = self.processes.next_event().min(timer).min(waits);
        let mut device = self.device.next_event();
        if device < others.min(end) && self.leaves_device_alone() {
            device = self.device.advance_to_completion(self.now, others.min(end), &mut self.completions);
        }
        let next = device.min(others).max(self.now);
        if next >= end {
            return if next == NEVER { Err(Stuck::NothingAhead) } else { Ok(false) };
        }
        self.set_clock(next)?;
        let interrupted = device <= next && self.coalesce_ns == 0;
        if interrupted {
            self.reap();
        } else if waits <= next || device <= next {
            self.gather(device <= next);
        }
        self.processes.run_due(next, &mut self.queue);
        if timer <= next {
            self.queue.timer(next);
            // A process that got a request continues before the device sees that request.
            self.processes.run_due(next, &mut self.queue);
        }
        // A wake-up that submitted nothing leaves the dispatcher's state as it was.
        if device <= next || waits <= next || self.queue.take_wake().is_wanted() {
            self.dispatch();
        }
        Ok(true)
    }

    /// Sets the clock to the time of the next event, which may be the present time.
    #[inline]
    fn set_clock(&mut self, next: Nanos) -> Result<(), Stuck> {
        if next == self.now {
            self.rounds_at_now += 1;
            if self.rounds_at_now > ROUNDS_AT_ONE_TIME {
                return Err(Stuck::TimeStandsStill);
            }
        } else {
            self.now = next;
            self.rounds_at_now = 0;
        }
        Ok(())
    }

    /// Whether an event of the device that completes nothing can be skipped.
    #[inline]
    fn leaves_device_alone(&self) -> bool {
        self.coalesce_ns == 0
            && self.processes.is_at_rest(&self.queue)
            && self.queue.is_dispatch_idle(HardwareQueue(0))
            && (1..self.hardware_queues).all(|queue| self.queue.is_dispatch_idle(HardwareQueue(queue)))
    }

    /// Defers completions to the interrupt, which comes a fixed time after the first of them.
    #[cold]
    fn gather(&mut self, is_device: bool) {
        if is_device {
            self.device.advance(self.now, &mut self.completions);
            if self.interrupt_at == NEVER && !self.completions.is_empty() {
                self.interrupt_at = self.now + self.coalesce_ns;
            }
        }
        if self.interrupt_at <= self.now {
            self.interrupt_at = NEVER;
            self.reap();
        }
    }

    #[inline]
    fn reap(&mut self) {
        let now = self.now;
        loop {
            // If the batch is full, or empty, the device may have more completions.
            let has_all = (1..COMPLETIONS).contains(&self.completions.len());
            for index in 0..self.completions.len() {
                let completion = self.completions[index];
                let id = RequestId::from_raw(completion.tag);
                self.processes.lock.take(now);
                self.queue.complete(id, completion.status, now, |done| self.processes.bio_done(&done, now));
            }
            self.completions.clear();
            if has_all || self.device.next_event() > now {
                return;
            }
            self.device.advance_to_completion(now, now + 1, &mut self.completions);
        }
    }

    /// Passes to the device what the queue dispatches for it.
    #[inline]
    fn dispatch(&mut self) {
        self.dispatch_at = NEVER;
        for queue in 0..self.hardware_queues {
            loop {
                if self.processes.lock.free_at > self.now {
                    self.dispatch_at = self.processes.lock.free_at;
                    return;
                }
                let Next::Start { id, .. } = self.queue.dispatch(HardwareQueue(queue), self.now) else { break };
                self.processes.lock.take(self.now);
                if !self.pass_to_device(id) {
                    break;
                }
            }
        }
    }

    /// Passes a request to the device. False if the device has no room for it.
    #[inline(always)]
    fn pass_to_device(&mut self, id: RequestId) -> bool {
        let attributes = self.queue.requests().attributes(id);
        let command = Command {
            tag: id.raw(),
            operation: attributes.operation,
            flags: attributes.flags,
            extent: attributes.extent,
            hardware_queue: attributes.hardware_queue,
        };
        debug_assert!(attributes.operation == Operation::Flush || attributes.extent.sectors > 0);
        let is_taken = self.device.submit(self.now, &command) != Submit::Busy;
        if !is_taken {
            self.queue.refuse(id, self.now);
        }
        is_taken
    }

    /// The counters and reasons now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let processors = self.processes.processors.as_ref().map(Processors::figures).unwrap_or_default();
        Snapshot { counters: *self.queue.counters(), reasons: self.queue.reasons().collect(), processors }
    }
}
