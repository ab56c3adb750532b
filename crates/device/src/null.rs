//! null: a fixed latency and nothing else, for measuring the cost of an elevator and for tests of
//! policies.
//!
//! Optional: a number of servers (further requests then queue inside the device), and caps on
//! bandwidth and on requests per second: token buckets with room for one request. Completions come
//! in order of submission. `inline` is null_blk's irqmode=0: a command completes at the time of its
//! submission, and the next `advance` reports it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hoistway_block::{Nanos, SECTOR_BYTES, Status};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::pending::Pending;
use crate::rate::Pace;

/// Settings of [`Null`]. Rates of 0 mean no cap.
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
    /// 1 = commands complete at the time of their submission, whatever the other settings are.
    pub inline: u64,
    /// Longest command, in sectors.
    pub max_sectors: u64,
    /// 1 = has a volatile cache and needs flushes.
    pub volatile_cache: u64,
    /// 1 = supports FUA.
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
    /// A device with these settings, named `name`.
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
            ranges: Vec::new(),
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

    /// When a command that arrives `now` completes.
    #[inline]
    fn done_at(&mut self, now: Nanos, sectors: u32) -> Nanos {
        if self.inline {
            return now;
        }
        // It needs room in both buckets: 10^9 / iops ns for the request, 10^6 / (kB/s) for each
        // byte.
        let mut start = self.bandwidth.ready(self.requests.ready(now));
        self.requests.spend(start, 1_000_000_000);
        self.bandwidth.spend(start, u64::from(sectors) * SECTOR_BYTES * 1_000_000);
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

    /// Commands submitted at one time also complete at one time: at most as many as `out` has room
    /// for are reported, but at least one.
    #[inline]
    fn advance_to_completion(&mut self, now: Nanos, before: Nanos, out: &mut Vec<Completion>) -> Nanos {
        let at = self.next_event().max(now);
        if at < before {
            while (out.is_empty() || out.len() < out.capacity())
                && let Some((at_ns, (tag, status))) = self.pending.pop_due(at)
            {
                out.push(Completion { at_ns, tag, status });
            }
        }
        at
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

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::{Extent, Flags, HardwareQueue, Operation};

    /// Tag and time of each completion of reads submitted at these times with these lengths.
    fn ends(parameters: &NullParameters, commands: &[(Nanos, u32)]) -> Vec<(u32, Nanos)> {
        let mut device = Null::new("null", parameters);
        let mut out = Vec::new();
        for (tag, &(now, sectors)) in (0..).zip(commands) {
            device.advance(now, &mut out);
            let (operation, extent) = (Operation::Read, Extent::new(0, sectors));
            let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            assert_eq!(device.submit(now, &command), Submit::Accepted);
        }
        device.advance(NEVER - 1, &mut out);
        assert!(device.is_idle());
        out.iter().map(|completion| (completion.tag, completion.at_ns)).collect()
    }

    #[test]
    fn without_servers_everything_takes_its_latency_in_order_of_submission() {
        let commands = [(0, 8), (0, 2_560), (0, 8), (3_000, 8)];
        let expected = [(0, 10_000), (1, 10_000), (2, 10_000), (3, 13_000)];
        assert_eq!(ends(&NullParameters::default(), &commands), expected);
    }

    #[test]
    fn the_earliest_of_the_servers_takes_the_next() {
        let two = NullParameters { servers: 2, ..NullParameters::default() };
        let commands = [(0, 8), (4_000, 8), (4_000, 8), (4_000, 8), (50_000, 8)];
        // The servers become free at 10,000 and 14,000 ns, then at 20,000 and 24,000 ns. When the
        // last read arrives, both are free.
        let expected = [(0, 10_000), (1, 14_000), (2, 20_000), (3, 24_000), (4, 60_000)];
        assert_eq!(ends(&two, &commands), expected);
    }

    /// 3 MB/s: 4 KiB take 1,365,333.3 ns. The first starts at once, each other when the previous
    /// one has been paid for.
    #[test]
    fn a_cap_on_bandwidth_is_exact_to_the_fraction_of_a_nanosecond() {
        let capped = NullParameters { kb_per_s: 3_000, ..NullParameters::default() };
        let expected = [(0, 10_000), (1, 1_375_333), (2, 2_740_666), (3, 4_106_000)];
        assert_eq!(ends(&capped, &[(0, 8); 4]), expected);
        // After a pause there is room for one request; unused room does not accumulate.
        let expected = [(0, 10_000), (1, 60_010_000), (2, 61_375_333)];
        assert_eq!(ends(&capped, &[(0, 8), (60_000_000, 8), (60_000_000, 8)]), expected);
    }

    #[test]
    fn the_stricter_of_two_caps_decides() {
        let both = NullParameters { kb_per_s: 4_096, iops: 2_000, ..NullParameters::default() };
        // 4 KiB take 1 ms, 512 B take 0.125 ms, and each request takes 0.5 ms.
        let expected = [(0, 10_000), (1, 1_010_000), (2, 2_010_000), (3, 2_510_000), (4, 3_010_000)];
        let commands = [(0, 8), (0, 8), (0, 1), (0, 1), (0, 1)];
        assert_eq!(ends(&both, &commands), expected);
    }

    #[test]
    fn inline_ends_at_its_own_submission_whatever_else_is_set() {
        let inline = NullParameters { inline: 1, iops: 10, servers: 1, ..NullParameters::default() };
        assert_eq!(ends(&inline, &[(0, 8), (0, 8), (70, 8)]), [(0, 0), (1, 0), (2, 70)]);
    }
}
