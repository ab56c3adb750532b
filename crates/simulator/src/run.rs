//! One run: the loop that joins processes, queue and device at one clock.
//!
//! Order at one time stamp: everything the device has, then every process that wakes, then the queue's timer, then one
//! dispatch loop per hardware queue, in queue order. A time stamp is gone through again while that brings new events of
//! the same time.

use std::collections::BTreeMap;

use block::{HardwareQueue, Nanos, Operation, RequestId};
use device::{AnyDevice, Command, Completion, Device, Submit};
use elevator::Elevator;
use queue::{Counters, Next, RequestQueue};

use crate::events::NEVER;
use crate::processes::Processes;

/// Rounds at one time stamp after which time is taken to stand still.
const ROUNDS_AT_ONE_TIME: u32 = 1 << 24;
/// Completions that are taken from the device in one go, where it has more at one time.
const COMPLETIONS: usize = 64;

/// Why a run cannot go on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// I/Os are in hand and no event lies ahead: somebody lost one.
    NothingAhead,
    /// Events follow each other without any time between them.
    TimeStandsStill,
}

/// Queue counters and reasons at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub counters: Counters,
    pub reasons: BTreeMap<&'static str, u64>,
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
    /// How long completions are gathered for one interrupt.
    coalesce_ns: Nanos,
    /// When the next one comes.
    interrupt_at: Nanos,
    /// When the elevator's lock is free again for one who chooses.
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

    /// Begins at time 0.
    pub(crate) fn start(&mut self) {
        self.processes.start_ready(0, &mut self.queue);
        self.dispatch();
    }

    /// Ends all issuing at `now`.
    pub(crate) fn stop(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.processes.stop_all(self.now, &mut self.queue);
        self.dispatch();
    }

    /// Goes through the next time stamp before `end`; false if there is none.
    ///
    /// # Errors
    /// [`Stuck`] when nothing can ever happen again although something is in hand.
    #[inline]
    pub(crate) fn step(&mut self, end: Nanos) -> Result<bool, Stuck> {
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
        if next == self.now {
            self.rounds_at_now += 1;
            if self.rounds_at_now > ROUNDS_AT_ONE_TIME {
                return Err(Stuck::TimeStandsStill);
            }
        } else {
            self.now = next;
            self.rounds_at_now = 0;
        }
        let interrupted = device <= next && self.coalesce_ns == 0;
        if interrupted {
            self.reap();
        } else if waits <= next || device <= next {
            self.gather(device <= next);
        }
        self.processes.run_due(next, &mut self.queue);
        if timer <= next {
            self.queue.timer(next);
            // Whoever got a request by it goes on before the device sees that request.
            self.processes.run_due(next, &mut self.queue);
        }
        // A wake-up that submitted nothing leaves the dispatcher as it was.
        if device <= next || waits <= next || self.queue.take_wake().is_wanted() {
            self.dispatch();
        }
        Ok(true)
    }

    /// Whether nobody would do anything at an event of the device that completes nothing.
    #[inline]
    fn leaves_device_alone(&self) -> bool {
        self.coalesce_ns == 0
            && self.processes.is_at_rest(&self.queue)
            && self.queue.is_settled(HardwareQueue(0))
            && (1..self.hardware_queues).all(|queue| self.queue.is_settled(HardwareQueue(queue)))
    }

    /// Completions wait for the interrupt, which comes some time after the first of them.
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
            // A device that stops at a full batch has filled it; others may have given more.
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

    /// Hands the device what the queue gives for it.
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
                let attributes = self.queue.requests().attributes(id);
                let command = Command {
                    tag: id.raw(),
                    operation: attributes.operation,
                    flags: attributes.flags,
                    extent: attributes.extent,
                    hardware_queue: attributes.hardware_queue,
                };
                debug_assert!(attributes.operation == Operation::Flush || attributes.extent.sectors > 0);
                if self.device.submit(self.now, &command) == Submit::Busy {
                    self.queue.refuse(id, self.now);
                    break;
                }
            }
        }
    }

    /// Counters and reasons as they stand.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { counters: *self.queue.counters(), reasons: self.queue.reasons().collect() }
    }
}
