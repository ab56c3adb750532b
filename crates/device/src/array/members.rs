//! The member disks and the controller's commands to them.

use std::collections::VecDeque;

use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation, Status};

use super::slab::Slab;
use crate::interface::{Command, Completion, Device, NEVER, Submit};

/// What a disk command belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A host's read; the value is the place of its command in the array's table.
    Read(u32),
    /// A line of the read cache; the value is its place in that cache.
    Line(u32),
    /// A row that is being destaged; the value is the place of its job in the table of jobs.
    Destage(u32),
}

/// A command to a disk.
#[derive(Copy, Clone, Debug)]
pub(super) struct DiskCommand {
    pub(super) disk: usize,
    pub(super) operation: Operation,
    pub(super) extent: Extent,
    pub(super) owner: Owner,
    /// While both wait for room in the disk, it is sent before commands that are not urgent.
    pub(super) is_urgent: bool,
}

/// The completion of a command to a disk.
#[derive(Copy, Clone, Debug)]
pub(super) struct Finished {
    pub(super) owner: Owner,
    pub(super) status: Status,
}

#[derive(Clone, Debug)]
struct Member<M> {
    device: M,
    in_flight: u32,
    urgent: VecDeque<u32>,
    waiting: VecDeque<u32>,
}

/// The disks, each with the commands that wait because the disk is full.
#[derive(Clone, Debug)]
pub(super) struct Members<M> {
    members: Vec<Member<M>>,
    /// Next event of each disk; updated only after a call that may change it.
    next: Vec<Nanos>,
    commands: Slab<DiskCommand>,
    depth: u32,
    scratch: Vec<Completion>,
}

impl<M: Device> Members<M> {
    /// Keeps at most `disk_depth` commands at a disk, or fewer if it accepts fewer.
    pub(super) fn new(devices: Vec<M>, disk_depth: u32) -> Self {
        let deepest = devices.iter().map(|device| device.info().depth).min().unwrap_or(1);
        let depth = disk_depth.min(deepest).max(1);
        let next = devices.iter().map(Device::next_event).collect();
        let member = |device| Member { device, in_flight: 0, urgent: VecDeque::new(), waiting: VecDeque::new() };
        Self {
            commands: Slab::with_capacity(devices.len() * depth as usize),
            members: devices.into_iter().map(member).collect(),
            next,
            depth,
            scratch: Vec::with_capacity(depth as usize),
        }
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = &M> {
        self.members.iter().map(|member| &member.device)
    }

    /// Number of disks with a command.
    pub(super) fn busy(&self) -> usize {
        self.members.iter().filter(|member| member.in_flight > 0).count()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.members.iter().all(|member| member.in_flight == 0 && member.device.is_idle())
    }

    /// The time of the disks' next event.
    #[inline]
    pub(super) fn next_event(&self) -> Nanos {
        self.next.iter().copied().min().unwrap_or(NEVER)
    }

    /// Sends a command to its disk, or queues it until the disk has room.
    pub(super) fn send(&mut self, now: Nanos, command: DiskCommand) {
        let place = self.commands.put(command);
        let member = &mut self.members[command.disk];
        if command.is_urgent {
            member.urgent.push_back(place);
        } else {
            member.waiting.push_back(place);
        }
        self.fill(now, command.disk);
    }

    /// Processes the disks' events up to `now`, and appends the completions.
    pub(super) fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        for disk in 0..self.members.len() {
            if self.next[disk] > now {
                continue;
            }
            let member = &mut self.members[disk];
            member.device.advance(now, &mut self.scratch);
            for completion in self.scratch.drain(..) {
                member.in_flight -= 1;
                self.commands.give_back(completion.tag);
                finished.push(Finished { owner: self.commands[completion.tag].owner, status: completion.status });
            }
            self.fill(now, disk);
        }
    }

    /// Sends the commands queued for a disk, as far as it has room.
    fn fill(&mut self, now: Nanos, disk: usize) {
        let member = &mut self.members[disk];
        while member.in_flight < self.depth {
            let Some(tag) = member.urgent.pop_front().or_else(|| member.waiting.pop_front()) else { break };
            let DiskCommand { operation, extent, .. } = self.commands[tag];
            let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            let submitted = member.device.submit(now, &command);
            debug_assert_eq!(submitted, Submit::Accepted, "never more than the disk's depth");
            member.in_flight += 1;
        }
        self.next[disk] = member.device.next_event();
    }
}
