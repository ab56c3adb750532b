//! The member disks and the commands the controller has at them.

use std::collections::VecDeque;

use block::{Extent, Flags, HardwareQueue, Nanos, Operation, Status};

use super::slab::Slab;
use crate::interface::{Command, Completion, Device, NEVER, Submit};

/// On whose behalf a disk works.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// A host's read, by its place.
    Read(u32),
    /// A line of the read cache, by its place.
    Line(u32),
    /// A row that is being written back, by its job's place.
    Destage(u32),
}

/// A command to a disk.
#[derive(Copy, Clone, Debug)]
pub(super) struct DiskCommand {
    pub(super) disk: usize,
    pub(super) operation: Operation,
    pub(super) extent: Extent,
    pub(super) owner: Owner,
    /// Goes before those that are not.
    pub(super) is_urgent: bool,
}

/// The end of a command to a disk.
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

/// The disks, each with the commands that found it full.
#[derive(Clone, Debug)]
pub(super) struct Members<M> {
    members: Vec<Member<M>>,
    /// Next event of each disk, asked for again only after something happened to it.
    next: Vec<Nanos>,
    commands: Slab<DiskCommand>,
    depth: u32,
    scratch: Vec<Completion>,
}

impl<M: Device> Members<M> {
    /// `disk_depth` commands at a disk at a time, or as many as it takes.
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

    /// Disks that have a command.
    pub(super) fn busy(&self) -> usize {
        self.members.iter().filter(|member| member.in_flight > 0).count()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.members.iter().all(|member| member.in_flight == 0 && member.device.is_idle())
    }

    /// When a disk has something to do next.
    #[inline]
    pub(super) fn next_event(&self) -> Nanos {
        self.next.iter().copied().min().unwrap_or(NEVER)
    }

    /// Hands a command to its disk, or keeps it until the disk has room.
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

    /// Handles what the disks have to do at `now`, and appends what ended.
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

    /// Sends on what waits for a disk, as far as it has room.
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
