//! A member disk that takes a random time for each command and records the commands.

use std::cell::RefCell;
use std::rc::Rc;

use hoistway_block::random::Stream;
use hoistway_block::{Nanos, Operation, Sector, Status};
use hoistway_device::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};

/// A command to a member, with its time of arrival.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub at_ns: Nanos,
    pub disk: usize,
    pub operation: Operation,
    pub first_sector: Sector,
    pub sectors: u32,
}

/// The commands to all members of an array, in order.
pub type Log = Rc<RefCell<Vec<Record>>>;

/// The member.
#[derive(Clone, Debug)]
pub struct Recorder {
    info: DeviceInfo,
    disk: usize,
    log: Log,
    /// Time of completion and tag of the commands in flight, unsorted.
    inside: Vec<(Nanos, u32)>,
    stream: Stream,
}

impl Recorder {
    /// `disks` members of `capacity_sectors` with one log.
    pub fn set(disks: usize, capacity_sectors: Sector, depth: u32) -> (Vec<Self>, Log) {
        let log = Log::default();
        let info = DeviceInfo {
            name: "recorder".to_owned(),
            capacity_sectors,
            logical_block_bytes: 512,
            rotational: true,
            hardware_queues: 1,
            depth,
            max_sectors: 65_536,
            max_segments: 128,
            volatile_cache: false,
            fua: false,
            optimal_io_bytes: 0,
            ranges: Vec::new(),
        };
        let member = |disk| Self {
            info: info.clone(),
            disk,
            log: Rc::clone(&log),
            inside: Vec::new(),
            stream: Stream::new(disk as u64),
        };
        ((0..disks).map(member).collect(), log)
    }
}

impl Device for Recorder {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        assert!(self.inside.len() < self.info.depth as usize, "the controller counts its commands");
        assert!(command.extent.sectors > 0 && command.extent.end() <= self.info.capacity_sectors, "{command:?}");
        let (first_sector, sectors) = (command.extent.first_sector, command.extent.sectors);
        let operation = command.operation;
        self.log.borrow_mut().push(Record { at_ns: now, disk: self.disk, operation, first_sector, sectors });
        self.inside.push((now + 1_000_000 + self.stream.below(9_000_000), command.tag));
        Submit::Accepted
    }

    fn next_event(&self) -> Nanos {
        self.inside.iter().map(|entry| entry.0).min().unwrap_or(NEVER)
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.inside.sort_unstable();
        let due = self.inside.partition_point(|entry| entry.0 <= now);
        out.extend(self.inside.drain(..due).map(|(at_ns, tag)| Completion { at_ns, tag, status: Status::Ok }));
    }

    fn is_idle(&self) -> bool {
        self.inside.is_empty()
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn reset(&mut self, _now: Nanos) {
        self.inside.clear();
    }
}
