//! What processes do where processors are simulated (`--machine contention=1`): an I/O enters the
//! queue when its process's processor has come so far, and its process learns of its end when it
//! runs again.

use hoistway_block::Nanos;
use hoistway_elevator::Elevator;
use hoistway_queue::RequestQueue;

use super::{Processes, number};
use crate::processors::{Processor, Processors, Task};

impl Processes {
    /// A process begins to submit an I/O. It does nothing else until that has been done.
    pub(super) fn begin_submission(&mut self, index: usize, io: u32, now: Nanos) {
        let bytes = self.ios.rest(io).left_bytes;
        let bios = u64::from(bytes).div_ceil(self.submission.longest_bio_bytes()).max(1);
        let bios = u32::try_from(bios).unwrap_or(u32::MAX);
        self.processes[index].is_submitting = true;
        self.run_process(index, Task::Submission { process: number(index), io, bios }, now);
    }

    /// The submission of an I/O is over: its process goes on.
    pub(crate) fn submission_ended(&mut self, process: u32, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let index = process as usize;
        self.processes[index].is_submitting = false;
        self.pump(index, now, queue);
    }

    /// A process runs again because an I/O of it has ended.
    pub(super) fn tell_process(&mut self, io: u32, now: Nanos) {
        let index = self.ios.process_of(io);
        self.run_process(index, Task::Delivery { process: number(index), io }, now);
    }

    fn run_process(&mut self, index: usize, task: Task, now: Nanos) {
        let processor = Processor::try_from(self.processes[index].cpu).unwrap_or(0);
        if let Some(processors) = &mut self.processors {
            processors.run_process(processor, task, now);
        }
    }

    /// The processors of a run that has them.
    pub(crate) fn processors(&mut self) -> &mut Processors {
        self.processors.as_mut().expect("asked only where processors are simulated")
    }
}
