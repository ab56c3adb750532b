//! The flusher: the kernel thread that writes the device's dirty pages.
//!
//! It submits until no request is free, sleeps until it gets one, and continues. It also wakes for
//! the periodic rounds of write-back.

use hoistway_block::{ContextId, Direction, Flags, GroupId, Nanos, Operation, Priority};
use hoistway_elevator::{Bio, Elevator};
use hoistway_experiment::{KernelEra, Machine};
use hoistway_queue::RequestQueue;

use super::Processes;
use super::agenda::WRITE_BACK;
use super::transfers::PageSubmitter;
use crate::events::NEVER;
use crate::os::throttle::NAP_NS;

/// The state of the flusher.
#[derive(Debug)]
pub(super) struct Flusher {
    /// Its bio waits for a request.
    is_asleep: bool,
    /// When it next runs by itself; other events are stale.
    runs_at: Nanos,
    /// Whether writes are attributed to the group that dirtied the data.
    knows_groups: bool,
    /// 2.4: it unplugs the queue when it is done.
    unplugs: bool,
    /// Whether read-ahead submits one bio per page.
    reads_4k_bios: bool,
    /// 2.6: it does not submit while the queue is congested.
    avoids_congestion: bool,
    /// 2.6: it waits for congestion to end.
    is_keeping_off: bool,
    was_congested: bool,
}

impl Flusher {
    pub(super) fn new(machine: &Machine) -> Self {
        let knows_groups = machine.cgroup_writeback.map_or(machine.era == KernelEra::Mq, |value| value != 0);
        Self {
            is_asleep: false,
            runs_at: NEVER,
            knows_groups,
            unplugs: machine.era == KernelEra::Linux24,
            reads_4k_bios: machine.raw_4k_bios,
            avoids_congestion: machine.era == KernelEra::Linux26,
            is_keeping_off: false,
            was_congested: false,
        }
    }
}

impl Flusher {
    /// Whether this kernel skips I/O that no task waits for while the queue is congested (2.6).
    #[inline]
    pub(super) fn avoids_congestion(&self) -> bool {
        self.avoids_congestion
    }

    /// Whether read-ahead submits one bio per page.
    pub(super) fn reads_4k_bios(&self) -> bool {
        self.reads_4k_bios
    }

    /// Whether it waits for congestion to end.
    #[inline]
    pub(super) fn watches_congestion(&self) -> bool {
        self.is_keeping_off
    }
}

impl Processes {
    /// Resumes the flusher if it waits for congestion that has ended.
    pub(super) fn look_at_congestion(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let is_congested = queue.is_congested(Direction::Write);
        let has_ended = std::mem::replace(&mut self.flusher.was_congested, is_congested) && !is_congested;
        if !has_ended {
            return;
        }
        if std::mem::take(&mut self.flusher.is_keeping_off) {
            self.flush(now, queue);
        }
    }

    /// The timer of a periodic round has expired.
    pub(super) fn flush_at(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if self.flusher.runs_at == now {
            self.flusher.runs_at = NEVER;
            self.flush(now, queue);
        }
    }

    /// Pages were written: the flusher runs again if too many are still dirty and it had found none
    /// that it could write.
    pub(super) fn flush_again(&mut self, now: Nanos) {
        let flusher = &mut self.flusher;
        let is_waiting = !flusher.is_asleep && !flusher.is_keeping_off && flusher.runs_at > now;
        if is_waiting && self.memory.is_above_background() {
            flusher.runs_at = now;
            self.agenda.add(now, WRITE_BACK, 0);
        }
    }

    /// The flusher got the request that it slept for.
    pub(super) fn flusher_runs_again(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        self.flusher.is_asleep = false;
        self.flush(now, queue);
    }

    /// Writes the pages that are due.
    pub(super) fn flush(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if self.flusher.is_asleep {
            return;
        }
        let mut has_written = false;
        let mut at = NEVER;
        loop {
            if self.flusher.avoids_congestion && queue.is_congested(Direction::Write) {
                (self.flusher.is_keeping_off, self.flusher.was_congested) = (true, true);
                at = now + NAP_NS;
                break;
            }
            let Some((file, pages)) = self.memory.next_write(now) else { break };
            has_written = true;
            let group = if self.flusher.knows_groups { self.memory.dirtier(file) } else { GroupId::ROOT };
            let bio = Bio { group, ..self.background_bio() };
            let shape = self.write_shape(PageSubmitter::Flusher);
            let (_, sleeps) = self.submit_pages(&bio, (file, pages), shape, now, queue);
            if sleeps {
                self.flusher.is_asleep = true;
                break;
            }
        }
        if has_written {
            self.submission.unplug(true, now, queue);
            if self.flusher.unplugs {
                // bdflush, the flusher of Linux 2.4, unplugs the queue when it is done (it runs the
                // disk's task queue); later kernels leave that to the plug's timer.
                self.begins_to_wait(now, queue);
            }
        }
        // If the flusher stopped because of congestion, it tries again at `at`; otherwise it runs
        // at the next periodic round.
        let at = if at == NEVER { self.memory.next_round_ns() } else { at };
        if at < self.flusher.runs_at || (at != NEVER && self.flusher.runs_at <= now) {
            self.flusher.runs_at = at;
            self.agenda.add(at, WRITE_BACK, 0);
        }
    }

    /// A background write by the kernel's own thread.
    fn background_bio(&self) -> Bio {
        let template = self
            .processes
            .first()
            .map_or(Bio::new(Operation::Write, hoistway_block::Extent::default()), |process| process.template);
        Bio {
            operation: Operation::Write,
            flags: Flags::BACKGROUND,
            context: ContextId(0),
            priority: Priority::NONE,
            group: GroupId::ROOT,
            ..template
        }
    }
}
