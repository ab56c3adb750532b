//! A disk reduced to seek, rotation and transfer: one command at the media at a time.
//!
//! Promise  random I/O costs a seek and on average half a turn, sequential I/O the media rate; more commands in flight
//!          help only through NCQ, which takes the one with the shortest positioning time.
//! Fits     policies on rotating disks, roughly. Not: zones, track skew, write caches, prefetch policies (those are
//!          the calibrated disk's).
//! Model    seek(d) = track + (full - track) * sqrt(d / capacity); the angle of a sector is its place in its track;
//!          after a read the head reads on, so that the next one of a stream is fetched without a lost turn.

use block::random::Stream;
use block::{Extent, Nanos, Operation, Sector, Status};

use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::rate::jittered;

/// A target the head passed less than this ago still counts as under the head: times are rounded to nanoseconds.
const ROTATION_SLACK_NS: Nanos = 20_000;

/// Settings of [`SimpleDisk`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimpleDiskParameters {
    /// Capacity in sectors.
    pub capacity_sectors: u64,
    /// Revolutions per minute.
    pub rpm: u64,
    /// Sectors of a track.
    pub track_sectors: u64,
    /// Seek to the next track in nanoseconds.
    pub seek_track_ns: u64,
    /// Seek over the whole disk in nanoseconds.
    pub seek_full_ns: u64,
    /// Width of the uniform jitter of a seek, in nanoseconds.
    pub seek_jitter_ns: u64,
    /// Added to a seek that ends in a write, in nanoseconds.
    pub write_settle_ns: u64,
    /// Firmware time before a command can use the media, in nanoseconds; overlaps the previous command.
    pub command_ns: u64,
    /// How far the head reads on behind a read, in sectors.
    pub readahead_sectors: u64,
    /// 1 = picks by positioning time, 0 = in order of arrival.
    pub ncq: u64,
    /// A command that has waited longer goes next, in nanoseconds.
    pub max_age_ns: u64,
    /// Commands in flight.
    pub depth: u64,
    /// Longest command, in sectors.
    pub max_sectors: u64,
    /// 1 = announces a volatile cache, so that the host sends flushes.
    pub volatile_cache: u64,
    /// 1 = honours FUA.
    pub fua: u64,
}

impl Default for SimpleDiskParameters {
    /// A 250 GB SATA disk of 7,200 rpm with NCQ: 61 MB/s sequential, 9 ms average seek.
    fn default() -> Self {
        Self {
            capacity_sectors: 488_282_256,
            rpm: 7_200,
            track_sectors: 1_000,
            seek_track_ns: 1_000_000,
            seek_full_ns: 16_000_000,
            seek_jitter_ns: 500_000,
            write_settle_ns: 500_000,
            command_ns: 200_000,
            readahead_sectors: 1_024,
            ncq: 1,
            max_age_ns: 2_000_000_000,
            depth: 32,
            max_sectors: 2_560,
            volatile_cache: 0,
            fua: 0,
        }
    }
}

/// A command inside the drive.
#[derive(Copy, Clone, Debug)]
struct Waiting {
    tag: u32,
    operation: Operation,
    extent: Extent,
    /// When the firmware is done with it.
    ready_at: Nanos,
    arrived_at: Nanos,
    sequence: u64,
}

/// The head reading on behind a read: at `since` it stood before `next`.
#[derive(Copy, Clone, Debug)]
struct ReadOn {
    next: Sector,
    since: Nanos,
    /// Sectors behind `next` at which it stops.
    limit_sectors: u64,
}

/// The simple disk.
#[derive(Clone, Debug)]
pub struct SimpleDisk {
    info: DeviceInfo,
    parameters: SimpleDiskParameters,
    turn_ns: Nanos,
    waiting: Vec<Waiting>,
    /// The command at the media and when it ends.
    active: Option<(Waiting, Nanos)>,
    /// Commands that failed before the media, in order.
    rejected: Vec<(Nanos, u32, Status)>,
    /// Where the head stands: behind the last sector it transferred.
    head: Sector,
    read_on: Option<ReadOn>,
    next_sequence: u64,
    stream: Stream,
    counters: Counters,
}

impl SimpleDisk {
    /// A disk of these settings, named `name`; `stream` feeds the jitter.
    pub fn new(name: &str, parameters: &SimpleDiskParameters, stream: Stream) -> Self {
        let depth = u32::try_from(parameters.depth).unwrap_or(u32::MAX);
        let info = DeviceInfo {
            name: name.to_owned(),
            capacity_sectors: parameters.capacity_sectors,
            logical_block_bytes: 512,
            rotational: true,
            hardware_queues: 1,
            depth,
            max_sectors: u32::try_from(parameters.max_sectors).unwrap_or(u32::MAX),
            max_segments: 128,
            volatile_cache: parameters.volatile_cache != 0,
            fua: parameters.fua != 0,
            optimal_io_bytes: 0,
        };
        Self {
            turn_ns: 60_000_000_000 / parameters.rpm.max(1),
            waiting: Vec::with_capacity(depth as usize),
            active: None,
            rejected: Vec::with_capacity(depth as usize),
            head: 0,
            read_on: None,
            next_sequence: 0,
            stream,
            counters: Counters::default(),
            parameters: parameters.clone(),
            info,
        }
    }

    /// Time that `sectors` take under the head.
    fn media_ns(&self, sectors: u64) -> Nanos {
        sectors.saturating_mul(self.turn_ns) / self.parameters.track_sectors.max(1)
    }

    /// Seek from the head's place to a sector, without jitter; 0 inside a track.
    fn seek_ns(&self, target: Sector) -> Nanos {
        let track_sectors = self.parameters.track_sectors.max(1);
        if self.head / track_sectors == target / track_sectors {
            return 0;
        }
        let distance = u128::from(self.head.abs_diff(target));
        // Square root of the distance's share of the disk, in 1/65536.
        let root = ((distance << 32) / u128::from(self.parameters.capacity_sectors.max(1))).isqrt();
        let span = u128::from(self.parameters.seek_full_ns.saturating_sub(self.parameters.seek_track_ns));
        self.parameters.seek_track_ns + u64::try_from((span * root) >> 16).unwrap_or(u64::MAX)
    }

    /// Time until the angle of `target` comes under the head.
    fn rotation_ns(&self, at: Nanos, target: Sector) -> Nanos {
        let angle = self.media_ns(target % self.parameters.track_sectors.max(1));
        let wait = (angle + self.turn_ns - at % self.turn_ns) % self.turn_ns;
        if wait + ROTATION_SLACK_NS >= self.turn_ns { 0 } else { wait }
    }

    /// When a read that the head is already reading towards will have its data; `None` if it must be positioned for.
    fn streamed_at(&self, now: Nanos, command: &Waiting) -> Option<Nanos> {
        let read_on = self.read_on.filter(|_| command.operation == Operation::Read)?;
        let begin = command.extent.first_sector.checked_sub(read_on.next)?;
        let end = begin + u64::from(command.extent.sectors);
        let elapsed_ns = now.saturating_sub(read_on.since);
        let runs = elapsed_ns < self.media_ns(read_on.limit_sectors);
        let reached = (begin <= read_on.limit_sectors) && self.media_ns(begin) <= elapsed_ns;
        (reached && (runs || end <= read_on.limit_sectors)).then(|| now.max(read_on.since + self.media_ns(end)))
    }

    /// When `command` would end if it were started at `now` with a seek that takes `extra_ns` longer than average.
    fn end_of(&self, now: Nanos, command: &Waiting, seek_ns: Nanos) -> Nanos {
        let settle =
            if seek_ns > 0 && command.operation == Operation::Write { self.parameters.write_settle_ns } else { 0 };
        let there = now + seek_ns + settle;
        there + self.rotation_ns(there, command.extent.first_sector) + self.media_ns(u64::from(command.extent.sectors))
    }

    /// What choosing compares: the planned end less the transfer. Firmware plans with half the jitter as margin.
    fn positioning_ns(&self, now: Nanos, command: &Waiting) -> Nanos {
        let media_ns = self.media_ns(u64::from(command.extent.sectors));
        if let Some(end) = self.streamed_at(now, command) {
            return end.saturating_sub(now + media_ns);
        }
        let seek_ns = self.seek_ns(command.extent.first_sector);
        let margin = if seek_ns > 0 { self.parameters.seek_jitter_ns / 2 } else { 0 };
        self.end_of(now, command, seek_ns + margin).saturating_sub(now + media_ns)
    }

    /// The next command for the media among those ready, as an index into `waiting`. Nothing younger than a waiting
    /// flush may go before it; the flush itself goes when it is the oldest.
    fn choose(&self, now: Nanos) -> Option<usize> {
        let barrier = self.waiting.iter().filter(|c| c.operation == Operation::Flush).map(|c| c.sequence).min();
        let candidates = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, c)| c.ready_at <= now && barrier.is_none_or(|barrier| c.sequence < barrier));
        let oldest = candidates.clone().min_by_key(|(_, c)| c.sequence);
        let Some((oldest_index, oldest)) = oldest else {
            let is_first = |c: &&Waiting| barrier.is_some_and(|barrier| c.sequence < barrier);
            let earlier_waits = self.waiting.iter().any(|c| is_first(&c));
            return self
                .waiting
                .iter()
                .position(|c| Some(c.sequence) == barrier && c.ready_at <= now && !earlier_waits);
        };
        if self.parameters.ncq == 0 || now.saturating_sub(oldest.arrived_at) > self.parameters.max_age_ns {
            return Some(oldest_index);
        }
        candidates.min_by_key(|(_, c)| (self.positioning_ns(now, c), c.sequence)).map(|(index, _)| index)
    }

    /// Puts the best ready command on the media, if there is one.
    fn start_next(&mut self, now: Nanos) {
        let Some(index) = self.choose(now) else { return };
        let command = self.waiting.remove(index);
        let end = match command.operation {
            Operation::Read | Operation::Write => self.transfer(now, &command),
            _ => now,
        };
        self.active = Some((command, end));
    }

    /// Moves the head for a read or write; the time at which it is done.
    fn transfer(&mut self, now: Nanos, command: &Waiting) -> Nanos {
        let readahead = self.parameters.readahead_sectors;
        if let Some(end) = self.streamed_at(now, command) {
            if let Some(read_on) = &mut self.read_on {
                read_on.limit_sectors = read_on.limit_sectors.max(command.extent.end() - read_on.next + readahead);
            }
            self.head = command.extent.end();
            return end;
        }
        let mut seek_ns = self.seek_ns(command.extent.first_sector);
        if seek_ns > 0 {
            seek_ns = jittered(seek_ns, self.parameters.seek_jitter_ns, &mut self.stream);
        }
        let end = self.end_of(now, command, seek_ns);
        self.head = command.extent.end();
        let reads_on = command.operation == Operation::Read && readahead > 0;
        self.read_on = reads_on.then_some(ReadOn { next: self.head, since: end, limit_sectors: readahead });
        end
    }

    /// When an idle drive has something to begin with.
    fn next_start(&self) -> Nanos {
        self.waiting.iter().map(|c| c.ready_at).min().unwrap_or(NEVER)
    }
}

impl Device for SimpleDisk {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.waiting.len() + self.rejected.len() + usize::from(self.active.is_some()) >= self.info.total_depth() {
            return Submit::Busy;
        }
        self.counters.count(command.operation, command.extent.sectors);
        let ready_at = now + self.parameters.command_ns;
        if let Some(status) = self.info.rejects(command) {
            self.counters.errors += 1;
            self.rejected.push((ready_at, command.tag, status));
            return Submit::Accepted;
        }
        self.waiting.push(Waiting {
            tag: command.tag,
            operation: command.operation,
            extent: command.extent,
            ready_at,
            arrived_at: now,
            sequence: self.next_sequence,
        });
        self.next_sequence += 1;
        Submit::Accepted
    }

    fn next_event(&self) -> Nanos {
        let media = self.active.as_ref().map_or_else(|| self.next_start(), |active| active.1);
        self.rejected.first().map_or(media, |rejected| media.min(rejected.0))
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        while let Some(&(at_ns, tag, status)) = self.rejected.first().filter(|rejected| rejected.0 <= now) {
            self.rejected.remove(0);
            out.push(Completion { at_ns, tag, status });
        }
        loop {
            match self.active {
                Some((command, end)) if end <= now => {
                    out.push(Completion { at_ns: end, tag: command.tag, status: Status::Ok });
                    self.active = None;
                    self.start_next(end);
                }
                Some(_) => return,
                None => {
                    let start = self.next_start();
                    if start > now {
                        return;
                    }
                    self.start_next(start);
                    if self.active.is_none() {
                        return;
                    }
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty() && self.rejected.is_empty()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn reset(&mut self, _now: Nanos) {
        self.waiting.clear();
        self.rejected.clear();
        self.active = None;
        self.read_on = None;
    }
}
