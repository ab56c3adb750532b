//! A flash device reduced to its parallelism: n channels, and a link in each direction.
//!
//! Promise  throughput grows with the commands in flight until every channel is busy or the link is full, no further.
//! Fits     policies on flash: depth against latency, shares at saturation. Not: write cliffs, garbage collection.
//! Model    a command is cut into stripes; each takes the channel that is free first for the cell time plus its
//!          transfer. Reads then pass the link out, in order of their sensing; writes pass the link in before.

use block::random::Stream;
use block::{Nanos, Operation, Status};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::pending::Pending;
use crate::rate::{Rate, jittered};

/// Settings of [`SimpleSsd`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimpleSsdParameters {
    /// Capacity in sectors.
    pub capacity_sectors: u64,
    /// Units that work at the same time, at least 1.
    pub channels: u64,
    /// Cell time of a read in nanoseconds, per stripe.
    pub read_ns: u64,
    /// Cell time of a write in nanoseconds, per stripe.
    pub write_ns: u64,
    /// Time of a discard or zeroing write in nanoseconds, whatever its length.
    pub discard_ns: u64,
    /// What a flush takes behind the last write, in nanoseconds.
    pub flush_ns: u64,
    /// Width of the uniform jitter of a cell time, in nanoseconds.
    pub jitter_ns: u64,
    /// Firmware's fixed latency per command in nanoseconds; pipelined, so it limits no rate.
    pub command_ns: u64,
    /// Transfer between channel and controller in kB/s; 0 = takes no time.
    pub channel_kb_per_s: u64,
    /// Transfer between controller and host in kB/s, each direction for itself; 0 = takes no time.
    pub link_kb_per_s: u64,
    /// Piece of a command that one channel serves, in sectors.
    pub stripe_sectors: u64,
    /// Commands in flight per hardware queue.
    pub depth: u64,
    /// Submission queues.
    pub hardware_queues: u64,
    /// Longest command, in sectors.
    pub max_sectors: u64,
    /// 1 = needs flushes.
    pub volatile_cache: u64,
    /// 1 = honours FUA.
    pub fua: u64,
}

impl Default for SimpleSsdParameters {
    /// A 240 GB SATA SSD: eight 4 KiB reads in flight keep all channels busy, about 78,000 reads/s.
    fn default() -> Self {
        Self {
            capacity_sectors: 468_862_128,
            channels: 8,
            read_ns: 80_000,
            write_ns: 90_000,
            discard_ns: 50_000,
            flush_ns: 300_000,
            jitter_ns: 10_000,
            command_ns: 5_000,
            channel_kb_per_s: 200_000,
            link_kb_per_s: 530_000,
            stripe_sectors: 64,
            depth: 32,
            hardware_queues: 1,
            max_sectors: 2_560,
            volatile_cache: 1,
            fua: 1,
        }
    }
}

impl SimpleSsdParameters {
    /// A PCIe 3 drive: saturates at about 64 reads in flight, at the link's 3.3 GB/s.
    pub fn nvme() -> Self {
        Self {
            capacity_sectors: 1_953_525_168,
            channels: 64,
            read_ns: 58_000,
            write_ns: 45_000,
            discard_ns: 20_000,
            flush_ns: 50_000,
            jitter_ns: 12_000,
            command_ns: 8_000,
            channel_kb_per_s: 800_000,
            link_kb_per_s: 3_300_000,
            stripe_sectors: 32,
            depth: 128,
            hardware_queues: 1,
            max_sectors: 1_024,
            volatile_cache: 1,
            fua: 1,
        }
    }
}

/// The simple flash device.
#[derive(Clone, Debug)]
pub struct SimpleSsd {
    info: DeviceInfo,
    parameters: SimpleSsdParameters,
    channel_rate: Rate,
    link_rate: Rate,
    stripe_sectors: u32,
    channel_free_at: Vec<Nanos>,
    link_in_free_at: Nanos,
    link_out_free_at: Nanos,
    /// Reads by the end of their sensing: (tag, time on the link). The link serves them in this order, so only the
    /// first one's completion need be known, and it cannot be overtaken by a read not yet submitted.
    sensing: Pending<(u32, Nanos)>,
    /// Everything else by its completion.
    finishing: Pending<(u32, Status)>,
    total_depth: usize,
    stream: Stream,
    counters: Counters,
}

impl SimpleSsd {
    /// A device of these settings, named `name`; `stream` feeds the jitter.
    pub fn new(name: &str, parameters: &SimpleSsdParameters, stream: Stream) -> Self {
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
            channel_rate: Rate::of_kb_per_s(parameters.channel_kb_per_s),
            link_rate: Rate::of_kb_per_s(parameters.link_kb_per_s),
            stripe_sectors: u32::try_from(parameters.stripe_sectors.max(1)).unwrap_or(u32::MAX),
            channel_free_at: vec![0; usize::try_from(parameters.channels.max(1)).unwrap_or(1)],
            link_in_free_at: 0,
            link_out_free_at: 0,
            sensing: Pending::with_capacity(total_depth),
            finishing: Pending::with_capacity(total_depth),
            total_depth,
            stream,
            counters: Counters::default(),
            parameters: parameters.clone(),
            info,
        }
    }

    /// Occupies the channel that is free first, from `ready` on; the end of the occupation.
    #[inline]
    fn occupy_channel(&mut self, ready: Nanos, service_ns: Nanos) -> Nanos {
        let service_ns = jittered(service_ns, self.parameters.jitter_ns, &mut self.stream);
        let (mut first, mut free_at) = (0, Nanos::MAX);
        for (index, &at) in self.channel_free_at.iter().enumerate() {
            if at < free_at {
                (first, free_at) = (index, at);
            }
        }
        let end = free_at.max(ready) + service_ns;
        self.channel_free_at[first] = end;
        end
    }

    /// When the last stripe of a read has been sensed and brought to the controller.
    #[inline]
    fn sense(&mut self, now: Nanos, sectors: u32) -> Nanos {
        let ready = now + self.parameters.command_ns;
        let mut left = sectors;
        let mut sensed = ready;
        while left > 0 {
            let piece = left.min(self.stripe_sectors);
            left -= piece;
            let service_ns = self.parameters.read_ns + self.channel_rate.transfer_ns(piece);
            sensed = sensed.max(self.occupy_channel(ready, service_ns));
        }
        sensed
    }

    /// When the last stripe of a write has been programmed; each stripe goes on as soon as it has come over the link.
    fn program(&mut self, now: Nanos, sectors: u32) -> Nanos {
        let ready = now + self.parameters.command_ns;
        let mut left = sectors;
        let mut programmed = ready;
        while left > 0 {
            let piece = left.min(self.stripe_sectors);
            left -= piece;
            self.link_in_free_at = self.link_in_free_at.max(ready) + self.link_rate.transfer_ns(piece);
            let service_ns = self.parameters.write_ns + self.channel_rate.transfer_ns(piece);
            programmed = programmed.max(self.occupy_channel(self.link_in_free_at, service_ns));
        }
        programmed
    }

    /// When the first read of `sensing` has passed the link.
    #[inline]
    fn next_read(&self) -> Nanos {
        self.sensing.front().map_or(NEVER, |&(sensed, (_, link_ns))| sensed.max(self.link_out_free_at) + link_ns)
    }
}

impl Device for SimpleSsd {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.sensing.len() + self.finishing.len() >= self.total_depth {
            return Submit::Busy;
        }
        let sectors = command.extent.sectors;
        self.counters.count(command.operation, sectors);
        if let Some(status) = self.info.rejects(command) {
            self.counters.errors += 1;
            self.finishing.insert(now + self.parameters.command_ns, (command.tag, status));
            return Submit::Accepted;
        }
        let done_at = match command.operation {
            Operation::Read => {
                let sensed = self.sense(now, sectors);
                self.sensing.insert(sensed, (command.tag, self.link_rate.transfer_ns(sectors)));
                return Submit::Accepted;
            }
            Operation::Write => self.program(now, sectors),
            Operation::Flush => {
                let last_busy = self.channel_free_at.iter().copied().max().unwrap_or(0);
                last_busy.max(now) + self.parameters.flush_ns
            }
            _ => self.occupy_channel(now + self.parameters.command_ns, self.parameters.discard_ns),
        };
        self.finishing.insert(done_at, (command.tag, Status::Ok));
        Submit::Accepted
    }

    #[inline]
    fn next_event(&self) -> Nanos {
        self.next_read().min(self.finishing.next())
    }

    #[inline]
    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        loop {
            let (read_at, other_at) = (self.next_read(), self.finishing.next());
            if read_at.min(other_at) > now {
                return;
            }
            if read_at <= other_at {
                if let Some((_, (tag, _))) = self.sensing.pop() {
                    self.link_out_free_at = read_at;
                    out.push(Completion { at_ns: read_at, tag, status: Status::Ok });
                }
            } else if let Some((at_ns, (tag, status))) = self.finishing.pop() {
                out.push(Completion { at_ns, tag, status });
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.sensing.is_empty() && self.finishing.is_empty()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn reset(&mut self, now: Nanos) {
        self.sensing.clear();
        self.finishing.clear();
        self.channel_free_at.fill(now);
        self.link_in_free_at = now;
        self.link_out_free_at = now;
    }
}
