//! The flusher: the kernel's thread that writes dirty pages of the device.
//!
//! It submits until no request is free, sleeps until it has one, and goes on; by itself it wakes for the periodic rounds
//! of write-back.

use block::{ContextId, Direction, Flags, GroupId, Nanos, Operation, Priority};
use elevator::{Bio, Elevator};
use experiment::{KernelEra, Machine};
use queue::RequestQueue;

use super::submission::Mover;
use super::{Processes, WRITE_BACK};
use crate::events::{NEVER, Payload};
use crate::os::throttle::NAP_NS;

/// What the flusher is at.
#[derive(Debug)]
pub(super) struct Flusher {
    /// A bio of it waits for a request.
    is_asleep: bool,
    /// When it runs next by itself; other events are stale.
    runs_at: Nanos,
    /// Whether data belongs to the group that dirtied it when it is written.
    knows_groups: bool,
    /// Whether pages being written count as dirty for those who dirty more.
    pub counts_write_back: bool,
    /// Whether windows are read page by page.
    pub reads_4k_bios: bool,
    /// 2.6: it keeps off a congested queue.
    avoids_congestion: bool,
    is_keeping_off: bool,
    /// 2.6: calls that sleep until congestion ends, or longer.
    pub nappers: Vec<u32>,
    was_congested: bool,
}

impl Flusher {
    pub(super) fn new(machine: &Machine) -> Self {
        let knows_groups = machine.cgroup_writeback.map_or(machine.era == KernelEra::Mq, |value| value != 0);
        Self {
            is_asleep: false,
            runs_at: NEVER,
            knows_groups,
            counts_write_back: machine.era != KernelEra::Linux24,
            reads_4k_bios: machine.raw_4k_bios,
            avoids_congestion: machine.era == KernelEra::Linux26,
            is_keeping_off: false,
            nappers: Vec::new(),
            was_congested: false,
        }
    }
}

impl Flusher {
    /// Whether this kernel puts off what nobody waits for while the queue is congested (2.6).
    #[inline]
    pub(super) fn avoids_congestion(&self) -> bool {
        self.avoids_congestion
    }

    /// Whether somebody waits for the queue to become less full.
    #[inline]
    pub(super) fn watches_congestion(&self) -> bool {
        self.is_keeping_off || !self.nappers.is_empty()
    }
}

impl Processes {
    /// Those who wait for congestion to end go on when it does.
    pub(super) fn look_at_congestion(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        let is_congested = queue.is_congested(Direction::Write);
        let has_ended = std::mem::replace(&mut self.flusher.was_congested, is_congested) && !is_congested;
        if !has_ended {
            return;
        }
        while let Some(io) = self.flusher.nappers.pop() {
            self.resume_at(io, now);
        }
        if std::mem::take(&mut self.flusher.is_keeping_off) {
            self.flush(now, queue);
        }
    }

    /// The time for a periodic round has come.
    pub(super) fn flush_at(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        if self.flusher.runs_at == now {
            self.flusher.runs_at = NEVER;
            self.flush(now, queue);
        }
    }

    /// Pages are written: if too many are still dirty and the flusher had found nothing it could write, it looks again.
    pub(super) fn flush_again(&mut self, now: Nanos) {
        let flusher = &mut self.flusher;
        let is_waiting = !flusher.is_asleep && !flusher.is_keeping_off && flusher.runs_at > now;
        if is_waiting && self.cache.dirty_pages() > self.write_back.rules().background_pages {
            flusher.runs_at = now;
            self.wheel.insert(now, Payload::new(WRITE_BACK, 0));
        }
    }

    /// The flusher has the request that it slept for.
    pub(super) fn flusher_runs_again(&mut self, now: Nanos, queue: &mut RequestQueue<impl Elevator>) {
        self.flusher.is_asleep = false;
        self.flush(now, queue);
    }

    /// Lets the flusher write what is due.
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
            let Some((file, pages)) = self.write_back.next(&mut self.cache, now) else { break };
            has_written = true;
            let group = if self.flusher.knows_groups { self.write_back.dirtier(file) } else { GroupId::ROOT };
            let bio = Bio { group, ..self.background_bio() };
            let carriage = self.write_carriage(Mover::Flusher);
            let (_, sleeps) = self.submit_pages(&bio, (file, pages), carriage, now, queue);
            if sleeps {
                self.flusher.is_asleep = true;
                break;
            }
        }
        if has_written {
            self.unplug(true, now, queue);
            if !self.flusher.counts_write_back {
                // bdflush runs the disk's task queue when it is through; later kernels leave it to the plug's timer.
                self.begins_to_wait(now, queue);
            }
        }
        // A round that is due now but kept off waits with the rest.
        let at = if at == NEVER { self.write_back.next_round_ns() } else { at };
        if at < self.flusher.runs_at || (at != NEVER && self.flusher.runs_at <= now) {
            self.flusher.runs_at = at;
            self.wheel.insert(at, Payload::new(WRITE_BACK, 0));
        }
    }

    /// A write in the background by the kernel's own thread.
    fn background_bio(&self) -> Bio {
        let template = self
            .processes
            .first()
            .map_or(Bio::new(Operation::Write, block::Extent::default()), |process| process.template);
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
