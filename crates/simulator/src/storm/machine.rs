//! The driver and the device below the queue, and the passing of time.

use hoistway_block::{HardwareQueue, RequestId};
use hoistway_device::{Command, Completion, Device, NEVER, Submit};
use hoistway_queue::Next;

use super::StormState;
use crate::invariants::Broken;

impl StormState {
    pub(super) fn dispatch(&mut self) -> Result<(), Broken> {
        for queue in 0..self.intensity.hardware_queues {
            let hardware_queue = HardwareQueue(queue);
            loop {
                let next = self.queue.dispatch(hardware_queue, self.now);
                self.starvation.observe(&mut self.queue)?;
                let Next::Start { id, .. } = next else {
                    self.ledger.progress(&self.queue, hardware_queue, next)?;
                    self.starvation.pauses(next)?;
                    break;
                };
                self.attention.touch(true);
                self.ledger.start(&self.queue, id)?;
                if self.random.chance(self.intensity.requeue_per_mille, 1_000) {
                    self.tally.requeued += 1;
                    self.ledger.leave(&self.queue, id, None)?;
                    self.queue.requeue(id, self.now);
                } else if self.random.chance(self.intensity.refuse_per_mille, 1_000) || !self.hand_over(id) {
                    self.ledger.leave(&self.queue, id, None)?;
                    self.queue.refuse(id, self.now);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Passes a request to the device; false if it has no room.
    fn hand_over(&mut self, id: RequestId) -> bool {
        let attributes = self.queue.requests().attributes(id);
        let command = Command {
            tag: id.raw(),
            operation: attributes.operation,
            flags: attributes.flags,
            extent: attributes.extent,
            hardware_queue: attributes.hardware_queue,
        };
        self.device.submit(self.now, &command) == Submit::Accepted
    }

    /// Advances to the next event, or part of the way.
    pub(super) fn pass_time(&mut self) -> Result<(), Broken> {
        let next = self.device.next_event().min(self.queue.next_timer().unwrap_or(NEVER));
        self.now = match next {
            NEVER => self.now + 1 + self.random.below(1_000_000),
            _ if next > self.now && self.random.chance(1, 8) => self.now + self.random.below(next - self.now + 1),
            _ => next.max(self.now),
        };
        if self.device.is_idle() && self.queue.next_timer().is_none() && self.queue.in_device() > 0 {
            return Err("P1: the queue waits for a request that the device does not have".to_owned());
        }
        self.device.advance(self.now, &mut self.completions);
        let completions = std::mem::take(&mut self.completions);
        for completion in &completions {
            self.complete(completion)?;
        }
        self.completions = completions;
        self.completions.clear();
        if self.queue.next_timer().is_some_and(|at| at <= self.now) {
            self.attention.touch(true);
            self.queue.timer(self.now);
            self.starvation.observe(&mut self.queue)?;
        }
        Ok(())
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), Broken> {
        let id = RequestId::from_raw(completion.tag);
        self.attention.touch(true);
        self.ledger.leave(&self.queue, id, Some(completion.status))?;
        self.tally.completed(completion.status);
        let mut outcome = Ok(());
        let (ledger, tally, now) = (&mut self.ledger, &mut self.tally, self.now);
        self.queue.complete(id, completion.status, now, |done| {
            tally.done(&done, now);
            let answered = ledger.done(&done);
            if outcome.is_ok() {
                outcome = answered;
            }
        });
        outcome?;
        self.starvation.observe(&mut self.queue)
    }
}
