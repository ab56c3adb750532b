//! The run's loop where processors and the scheduler's locks are simulated
//! (`--machine contention=1`): carries out what the processors have come to.
//!
//! Order at one time: the device's completions, which interrupt processors; processes that wake;
//! the queue's timer; then the processors, in the order in which their parts end.

use hoistway_block::{HardwareQueue, Nanos, RequestId};
use hoistway_device::Device;
use hoistway_elevator::{Elevator, Wake};
use hoistway_queue::Next;

use super::{Run, Stuck};
use crate::events::NEVER;
use crate::processors::{Effect, Processor};

/// Timers and other events of no processor in particular.
const FIRST: Processor = 0;

impl<E: Elevator> Run<E> {
    /// [`Run::step`] on simulated processors.
    pub(super) fn step_on_processors(&mut self, end: Nanos) -> Result<bool, Stuck> {
        let timer = self.queue.next_timer().unwrap_or(NEVER);
        let device = self.device.next_event();
        let parts = self.processes.processors().next_event();
        let next = timer.min(device).min(parts).min(self.processes.next_event()).max(self.now);
        if next >= end {
            return if next == NEVER { Err(Stuck::NothingAhead) } else { Ok(false) };
        }
        self.set_clock(next)?;
        if device <= next {
            self.device.advance(next, &mut self.completions);
            for completion in self.completions.drain(..) {
                let id = RequestId::from_raw(completion.tag);
                let submitter = self.queue.requests().attributes(id).software_queue.0;
                self.processes.processors().interrupt(submitter, completion, next);
            }
        }
        self.processes.run_due(next, &mut self.queue);
        if timer <= next {
            self.queue.timer(next);
            self.processes.run_due(next, &mut self.queue);
        }
        self.wake_workers(FIRST);
        while let Some((processor, effect)) = self.processes.processors().take_due(next) {
            self.take_effect(processor, effect);
        }
        Ok(true)
    }

    /// After the start and the stop of the run.
    pub(super) fn dispatch_or_wake(&mut self) {
        if self.processes.processors.is_some() {
            self.wake_workers(FIRST);
        } else {
            self.dispatch();
        }
    }

    fn take_effect(&mut self, processor: Processor, effect: Effect) {
        let now = self.now;
        match effect {
            Effect::Submit { io } => {
                self.processes.submit_io(io, now, &mut self.queue);
                let queue = self.queue_of(processor);
                if !self.queue.is_dispatch_idle(queue) {
                    self.processes.processors().choose(processor, queue, now);
                    return;
                }
            }
            Effect::Deliver { io } => self.processes.deliver(io, now, &mut self.queue),
            Effect::Complete(completion) => {
                let id = RequestId::from_raw(completion.tag);
                let queue = self.queue.requests().attributes(id).hardware_queue;
                let processes = &mut self.processes;
                self.queue.complete(id, completion.status, now, |done| processes.bio_done(&done, now));
                // Bios that waited for this request's tag have entered the queue.
                self.processes.run_due(now, &mut self.queue);
                self.wake_worker(processor, queue);
            }
            Effect::Look(queue) => {
                if !self.queue.is_dispatch_idle(queue) {
                    self.processes.processors().choose(processor, queue, now);
                    return;
                }
            }
            Effect::Choose(queue) => {
                let chosen = self.queue.dispatch(queue, now);
                if let Next::Start { id, .. } = chosen
                    && self.pass_to_device(id)
                    && !self.queue.is_dispatch_idle(queue)
                {
                    self.processes.processors().choose(processor, queue, now);
                    return;
                }
            }
        }
        self.task_ended(processor);
    }

    /// A processor's task is over: a process that submitted goes on, and workers that are wanted
    /// wake.
    fn task_ended(&mut self, processor: Processor) {
        let now = self.now;
        self.wake_workers(processor);
        if let Some(process) = self.processes.processors().submitter(processor) {
            self.processes.submission_ended(process, now, &mut self.queue);
        }
        self.processes.processors().ends(processor, now);
    }

    /// Wakes the workers of the hardware queues that are to be dispatched. Where the policy chooses
    /// for all of them alike, that is the one of this processor (`blk_mq_get_sq_hctx`).
    fn wake_workers(&mut self, processor: Processor) {
        let wake = self.queue.take_wake();
        if wake.is_wanted() && !self.processes.processors().is_per_queue() {
            return self.wake_worker(processor, self.queue_of(processor));
        }
        match wake {
            Wake::No => {}
            Wake::Queue(queue) => self.wake_worker(processor, queue),
            Wake::All => (0..self.hardware_queues).for_each(|queue| self.wake_worker(processor, HardwareQueue(queue))),
        }
    }

    fn wake_worker(&mut self, processor: Processor, queue: HardwareQueue) {
        if !self.queue.is_dispatch_idle(queue) {
            self.processes.processors().wake_worker(processor, queue, self.now);
        }
    }

    /// The hardware queue of a processor.
    fn queue_of(&self, processor: Processor) -> HardwareQueue {
        let processors = self.processes.processors.as_ref().map_or(1, |processors| processors.count());
        let queue = u32::from(processor) * u32::from(self.hardware_queues) / u32::from(processors);
        HardwareQueue(u16::try_from(queue).unwrap_or(0))
    }
}
