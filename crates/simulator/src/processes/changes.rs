//! Changes of what a process does while a session runs: another issuer, a rest, the end of a rest.
//!
//! A change never touches an I/O in flight. The issuer is told to stop, its I/Os end as they would
//! have, and then the process goes on with what follows.

use std::ops::Range;

use hoistway_block::Nanos;
use hoistway_elevator::Elevator;
use hoistway_queue::RequestQueue;
use hoistway_workload::{Issuer, Job};

use super::cached::Call;
use super::{Process, Processes, number};

/// What a process does when its issuer has stopped and its I/Os have ended.
#[derive(Debug, Default)]
pub(crate) enum Successor {
    /// It ends as well.
    #[default]
    Nothing,
    /// It rests until the next change.
    Rest,
    /// It goes on with this issuer.
    Issuer(Box<Issuer>),
}

/// What became of a process whose issuer has ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Succession {
    Ends,
    Rests,
    Continues,
}

impl Process {
    /// How an issuer of this job is driven.
    pub(super) fn refills_at_once(job: &Job) -> bool {
        job.submission.iodepth_low.is_none() && job.submission.completion_batch <= 1
    }
}

impl Processes {
    /// The threads of a group by its index in the experiment.
    pub(crate) fn threads_of(&self, group: usize) -> Range<usize> {
        self.schedule.threads_of_group(group)
    }

    /// I/Os that a process has issued and not seen completed.
    pub(crate) fn in_flight_of(&self, index: usize) -> u32 {
        self.processes[index].issuer.in_flight()
    }

    /// The contexts of a process.
    pub(crate) fn contexts_of(&self, index: usize) -> Range<u32> {
        let process = &self.processes[index];
        let first = process.template.context.0;
        first..first + u32::from(process.issuer.actors())
    }

    /// The size of the file that a process works on.
    pub(crate) fn area_bytes_of(&self, index: usize) -> u64 {
        self.processes[index].place.bytes
    }

    /// Whether a process only makes direct transfers, so that its issuer can be replaced.
    pub(crate) fn is_replaceable(&self, index: usize) -> bool {
        let process = &self.processes[index];
        process.is_plain() && process.issuer.actors() == 1
    }

    /// Before the start: the process begins with a rest.
    pub(crate) fn rest_at_start(&mut self, index: usize) {
        self.processes[index].issuer.stop();
        self.processes[index].successor = Successor::Rest;
    }

    /// Ends what the process does; `successor` follows when its I/Os have ended. `job` is that of the
    /// issuer that follows, if one does.
    pub(crate) fn replace(
        &mut self,
        index: usize,
        (successor, job): (Successor, Option<&Job>),
        now: Nanos,
        queue: &mut RequestQueue<impl Elevator>,
    ) {
        let process = &mut self.processes[index];
        if !process.is_running {
            return;
        }
        process.issuer.stop();
        process.successor = successor;
        // The old issuer is driven until its I/Os have ended by the more careful of the two ways.
        process.refills_at_once &= job.is_none_or(Process::refills_at_once);
        self.pump(index, now, queue);
    }

    /// The issuer of a process has ended, with its I/Os: lets its successor follow.
    #[cold]
    pub(super) fn succeed(&mut self, index: usize) -> Succession {
        match std::mem::take(&mut self.processes[index].successor) {
            Successor::Nothing => Succession::Ends,
            Successor::Rest => {
                self.processes[index].successor = Successor::Rest;
                Succession::Rests
            }
            Successor::Issuer(issuer) => {
                self.install(index, *issuer);
                Succession::Continues
            }
        }
    }

    /// Gives a process without I/O in flight an issuer, and room for its I/Os.
    fn install(&mut self, index: usize, issuer: Issuer) {
        let process = &mut self.processes[index];
        let room = process.ios_room.max(process.issuer.depth());
        if issuer.depth() > room {
            // Powers of two, so that all the room ever given up is at most that in use.
            process.ios_room = issuer.depth().next_power_of_two();
            process.first_io = self.ios.extend(number(index), process.ios_room);
            if !self.calls.is_empty() {
                self.calls.resize(self.ios.len(), Call::default());
            }
        } else {
            process.ios_room = room;
        }
        process.issuer = issuer;
    }
}
