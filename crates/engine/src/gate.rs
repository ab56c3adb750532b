//! A device model in front of real I/O: a completion is delivered when the data has moved and the
//! model has completed the command.

use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation, Status};
use hoistway_device::{AnyDevice, Command, Completion, Device, NEVER, Submit};
use std::collections::VecDeque;

const EIO: i32 = 5;

#[derive(Copy, Clone, Debug, Default)]
struct Pending {
    /// The result of the real I/O.
    real: Option<i32>,
    /// The model's result.
    modelled: Option<Status>,
}

/// The model and the commands that are in flight in it. Tags are the caller's, below the number
/// given at construction.
pub(crate) struct Gate {
    device: AnyDevice,
    pending: Vec<Pending>,
    /// Commands that the model refused because it was full; they are submitted again later.
    refused: VecDeque<Command>,
    completions: Vec<Completion>,
    /// The model's time. The clocks of several threads may come in another order than they take the lock.
    now: Nanos,
}

impl Gate {
    pub(crate) fn new(device: AnyDevice, tags: u32) -> Self {
        let (refused, completions) = (VecDeque::new(), Vec::new());
        Self { device, pending: vec![Pending::default(); tags as usize], refused, completions, now: 0 }
    }

    /// Starts a command in the model; the caller starts the real I/O.
    pub(crate) fn start(&mut self, tag: u32, operation: Operation, extent: Extent, is_durable: bool, now: Nanos) {
        self.now = self.now.max(now);
        self.pending[tag as usize] = Pending::default();
        let flags = if is_durable { Flags::FUA } else { Flags::NONE };
        let command = Command { tag, operation, flags, extent, hardware_queue: HardwareQueue(0) };
        if !self.refused.is_empty() || self.device.submit(self.now, &command) == Submit::Busy {
            self.refused.push_back(command);
        }
    }

    /// Takes the result of the real I/O; returns it if the model has completed the command as well.
    pub(crate) fn moved(&mut self, tag: u32, result: i32) -> Option<i32> {
        let pending = &mut self.pending[tag as usize];
        pending.real = Some(result);
        Self::both(*pending)
    }

    /// When [`Gate::advance`] must be called next.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let next = self.device.next_event();
        (next != NEVER).then_some(next)
    }

    /// Advances the model to `now`; appends tag and result of each command that both the model and
    /// the real I/O have completed.
    pub(crate) fn advance(&mut self, now: Nanos, delivered: &mut Vec<(u32, i32)>) {
        self.now = self.now.max(now);
        self.device.advance(self.now, &mut self.completions);
        for completion in self.completions.drain(..) {
            let pending = &mut self.pending[completion.tag as usize];
            pending.modelled = Some(completion.status);
            if let Some(result) = Self::both(*pending) {
                delivered.push((completion.tag, result));
            }
        }
        while let Some(command) = self.refused.front() {
            if self.device.submit(self.now, command) == Submit::Busy {
                break;
            }
            self.refused.pop_front();
        }
    }

    fn both(pending: Pending) -> Option<i32> {
        match (pending.real?, pending.modelled?) {
            (result, Status::Ok) => Some(result),
            (result, _) if result < 0 => Some(result),
            (_, _) => Some(-EIO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_device::Model;

    #[test]
    fn a_result_comes_when_data_and_model_are_both_done() {
        let model = Model::parse("null,latency_us=10").expect("a model");
        let mut gate = Gate::new(model.build(1, "test"), 4);
        let mut delivered = Vec::new();
        gate.start(1, Operation::Read, Extent::new(0, 8), false, 0);
        gate.start(2, Operation::Read, Extent::new(8, 8), false, 0);
        assert_eq!(gate.moved(1, 4_096), None);
        gate.advance(9_999, &mut delivered);
        assert_eq!(delivered, []);
        gate.advance(10_000, &mut delivered);
        assert_eq!(delivered, [(1, 4_096)]);
        assert_eq!(gate.moved(2, 4_096), Some(4_096));
    }

    #[test]
    fn a_command_outside_the_model_fails_although_the_data_moved() {
        let model = Model::parse("null,latency_us=1").expect("a model").with_capacity_sectors(16);
        let mut gate = Gate::new(model.build(1, "test"), 1);
        let mut delivered = Vec::new();
        gate.start(0, Operation::Write, Extent::new(16, 8), false, 0);
        gate.advance(1_000_000, &mut delivered);
        assert_eq!(gate.moved(0, 4_096).or(delivered.first().map(|(_, result)| *result)), Some(-EIO));
    }
}
