//! null: a fixed latency and nothing else, for what an elevator itself costs and for tests of policies.
//!
//! Optionally a number of servers (then requests queue inside the device), and caps on bandwidth and on requests per
//! second: token buckets with room for one request. Completions come in order of submission. `inline` is null_blk's
//! irqmode=0: a command is done at the time of its submission, and the next `advance` reports it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{Nanos, SECTOR_BYTES, Status};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::pending::Pending;
use crate::rate::Pace;

/// Settings of [`Null`]. Rates of 0 are "no cap".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NullParameters {
    /// Capacity in sectors.
    pub capacity_sectors: u64,
    /// Time from start of service to completion, in nanoseconds.
    pub latency_ns: u64,
    /// Requests served at a time; 0 = all of them.
    pub servers: u64,
    /// Commands in flight per hardware queue.
    pub depth: u64,
    /// Submission queues.
    pub hardware_queues: u64,
    /// Cap on bandwidth in kB/s.
    pub kb_per_s: u64,
    /// Cap on requests per second.
    pub iops: u64,
    /// 1 = completions carry the time of their submission, whatever the other settings say.
    pub inline: u64,
    /// Longest command, in sectors.
    pub max_sectors: u64,
    /// 1 = needs flushes.
    pub volatile_cache: u64,
    /// 1 = honours FUA.
    pub fua: u64,
}

impl Default for NullParameters {
    fn default() -> Self {
        Self {
            capacity_sectors: 1 << 31,
            latency_ns: 10_000,
            servers: 0,
            depth: 64,
            hardware_queues: 1,
            kb_per_s: 0,
            iops: 0,
            inline: 0,
            max_sectors: 2_560,
            volatile_cache: 0,
            fua: 0,
        }
    }
}

/// The null device.
#[derive(Clone, Debug)]
pub struct Null {
    info: DeviceInfo,
    latency_ns: Nanos,
    inline: bool,
    /// When each server is free; empty without a limit.
    servers: BinaryHeap<Reverse<Nanos>>,
    bandwidth: Pace,
    requests: Pace,
    pending: Pending<(u32, Status)>,
    total_depth: usize,
    counters: Counters,
}

impl Null {
    /// A device of these settings, named `name`.
    pub fn new(name: &str, parameters: &NullParameters) -> Self {
        let info = DeviceInfo {
            name: name.to_owned(),
            capacity_sectors: parameters.capacity_sectors,
            logical_block_bytes: 512,
            rotational: false,
            hardware_queues: u16::try_from(parameters.hardware_queues).unwrap_or(u16::MAX),
            depth: u32::try_from(parameters.depth).unwrap_or(u32::MAX),
            max_sectors: u32::try_from(parameters.max_sectors).unwrap_or(u32::MAX),
            max_segments: 128,
            volatile_cache: parameters.volatile_cache != 0,
            fua: parameters.fua != 0,
            optimal_io_bytes: 0,
        };
        let total_depth = info.total_depth();
        Self {
            latency_ns: parameters.latency_ns,
            inline: parameters.inline != 0,
            servers: (0..parameters.servers).map(|_| Reverse(0)).collect(),
            bandwidth: Pace::new(parameters.kb_per_s),
            requests: Pace::new(parameters.iops),
            pending: Pending::with_capacity(total_depth),
            total_depth,
            counters: Counters::default(),
            info,
        }
    }

    /// When a command that arrives `now` is done.
    #[inline]
    fn done_at(&mut self, now: Nanos, sectors: u32) -> Nanos {
        if self.inline {
            return now;
        }
        // A request is 10^9 / iops ns, a byte 10^6 / (kB/s).
        let start = self.requests.take(now, 1_000_000_000);
        let mut start = self.bandwidth.take(start, u64::from(sectors) * SECTOR_BYTES * 1_000_000);
        if let Some(mut earliest) = self.servers.peek_mut() {
            start = start.max(earliest.0);
            earliest.0 = start + self.latency_ns;
        }
        start + self.latency_ns
    }
}

impl Device for Null {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.pending.len() >= self.total_depth {
            return Submit::Busy;
        }
        let status = self.info.rejects(command).unwrap_or(Status::Ok);
        let done_at = self.done_at(now, command.extent.sectors);
        self.counters.count(command.operation, command.extent.sectors);
        self.counters.errors += u64::from(!status.is_ok());
        self.pending.insert(done_at, (command.tag, status));
        Submit::Accepted
    }

    #[inline]
    fn next_event(&self) -> Nanos {
        self.pending.next()
    }

    #[inline]
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        while let Some((at_ns, (tag, status))) = self.pending.pop_due(now) {
            out.push(Completion { at_ns, tag, status });
        }
    }

    fn is_idle(&self) -> bool {
        self.next_event() == NEVER
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn reset(&mut self, _now: Nanos) {
        self.pending.clear();
    }
}
