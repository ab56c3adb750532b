//! The drive: accepts commands, does one piece of work at a time on the media, and completes
//! commands.
//!
//! Order at one time: completions, end of the work on the media, commitment to the next, arrivals
//! of commands in order of submission, end of a prefetch. While the media is unused, no work waits
//! for it.

use hoistway_block::random::Stream;
use hoistway_block::{Flags, Nanos, Operation, Sector, Status};

use super::cache::{ReadCache, SegmentId};
use super::choose::{Choice, ChoiceContext, Chooser};
use super::geometry::{Run, Track};
use super::mechanics::Mechanics;
use super::parameters::DiskParameters;
use super::read_queue::{Read, ReadQueue};
use super::write_cache::{DirtyExtent, WriteCache};
use crate::interface::{Command, Completion, Counters, Device, DeviceInfo, NEVER, Submit};
use crate::pending::Pending;
use crate::rate::Rate;

/// From the last sector of a read to its status at the host.
pub(super) const STATUS_NS: Nanos = 5_000;

/// A hard disk of one arm with zones, skews, rotation, read-ahead, a write cache and NCQ.
///
/// Decisions that docs/specifications/devices.md, section 4, leaves open: a command beyond the
/// medium fails after its firmware time. A read of a range within one dirty extent is a hit,
/// because the medium has older data. A discard takes its firmware time and drops the range from
/// the read cache; a disk has no mapping to change. A zeroing write is a write whose data needs
/// neither link nor cache memory. A reset keeps dirty data and continues writing it: a bus reset is
/// not a power failure.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(super) info: DeviceInfo,
    pub(super) counters: Counters,
    pub(super) timing: Timing,
    pub(super) mechanics: Mechanics,
    pub(super) chooser: Chooser,
    pub(super) stream: Stream,
    /// Commands in the firmware, by the time at which it will have processed them.
    pub(super) arrivals: Pending<Arrival>,
    pub(super) reads: ReadQueue,
    pub(super) writes: WriteCache,
    pub(super) cache: ReadCache,
    pub(super) media: Option<Media>,
    pub(super) prefetch: Option<Prefetch>,
    /// The track of the head while the media is unused.
    pub(super) head: Track,
    pub(super) link_free_at: Nanos,
    pub(super) completions: Pending<(u32, Status)>,
    outstanding: usize,
    next_sequence: u64,
}

/// The settings that the events use.
#[derive(Copy, Clone, Debug)]
pub(super) struct Timing {
    command_ns: Nanos,
    hit_ns: Nanos,
    pub(super) link: Rate,
    pub(super) commits_at_start: bool,
    pub(super) readahead_sectors: u64,
    pub(super) write_cache: bool,
}

/// A command in the firmware.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Arrival {
    pub(super) tag: u32,
    pub(super) operation: Operation,
    pub(super) fua: bool,
    pub(super) first: Sector,
    pub(super) sectors: u32,
    pub(super) sequence: u64,
    pub(super) submitted_at: Nanos,
}

/// What uses the media.
#[derive(Copy, Clone, Debug)]
pub(super) enum Work {
    Read(Read),
    Destage(DirtyExtent),
}

/// A piece of work on the media, from the start of its positioning.
#[derive(Copy, Clone, Debug)]
pub(super) struct Media {
    pub(super) work: Work,
    pub(super) transfer_at: Nanos,
    pub(super) end_at: Nanos,
    pub(super) end_track: Track,
    /// Whether the drive has decided what comes next (possibly nothing).
    pub(super) committed: bool,
    pub(super) next: Option<Choice>,
}

/// The head reads ahead into a segment, up to `limit`.
#[derive(Copy, Clone, Debug)]
pub(super) struct Prefetch {
    pub(super) run: Run,
    pub(super) limit: Sector,
    pub(super) end_at: Nanos,
    pub(super) segment: SegmentId,
}

/// The kinds of events; at equal times they happen in this order.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Completion,
    End,
    Commit,
    Arrival,
    PrefetchEnd,
}

impl Disk {
    /// A disk of these settings, which have passed [`DiskParameters::check`]; `stream` provides the
    /// jitter of its seeks.
    pub fn new(name: &str, parameters: &DiskParameters, stream: Stream) -> Self {
        let depth = u32::try_from(parameters.firmware.depth).unwrap_or(u32::MAX);
        let info = DeviceInfo {
            name: name.to_owned(),
            capacity_sectors: parameters.layout.capacity_sectors,
            logical_block_bytes: 512,
            rotational: true,
            hardware_queues: 1,
            depth,
            max_sectors: u32::try_from(parameters.firmware.max_sectors).unwrap_or(u32::MAX),
            max_segments: 128,
            volatile_cache: parameters.writing.write_cache != 0,
            // The queued write command has the FUA bit; disks without queueing are flushed instead.
            fua: depth > 1,
            optimal_io_bytes: 0,
            ranges: Vec::new(),
        };
        let timing = Timing {
            command_ns: parameters.firmware.cmd_overhead_ns,
            hit_ns: parameters.firmware.hit_overhead_ns,
            link: Rate::of_kb_per_s(parameters.firmware.link_kb_per_s),
            commits_at_start: parameters.order.commit == 0,
            readahead_sectors: parameters.reading.readahead_kib * 2,
            write_cache: parameters.writing.write_cache != 0,
        };
        let commands = info.total_depth();
        let segments = usize::try_from(parameters.reading.segments).unwrap_or(usize::MAX);
        Self {
            timing,
            mechanics: Mechanics::new(parameters),
            chooser: Chooser::new(&parameters.order),
            stream,
            arrivals: Pending::with_capacity(commands),
            reads: ReadQueue::with_capacity(commands),
            writes: WriteCache::new(&parameters.writing, commands),
            cache: ReadCache::new(segments, parameters.reading.segment_kib * 2),
            media: None,
            prefetch: None,
            head: Track::default(),
            link_free_at: 0,
            completions: Pending::with_capacity(commands),
            outstanding: 0,
            next_sequence: 0,
            counters: Counters::default(),
            info,
        }
    }

    /// A copy in the same state with another name and stream, for the members of an array. Copies
    /// share the seek table.
    #[must_use]
    pub fn sibling(&self, name: &str, stream: Stream) -> Self {
        let mut disk = Self { stream, ..self.clone() };
        name.clone_into(&mut disk.info.name);
        disk
    }

    #[inline]
    fn next(&self) -> (Nanos, Event) {
        let mut next = (self.completions.next(), Event::Completion);
        if let Some(media) = &self.media {
            let commits = self.timing.commits_at_start && !media.committed;
            let event = if commits { (media.transfer_at, Event::Commit) } else { (media.end_at, Event::End) };
            next = next.min(event);
        }
        next = next.min((self.arrivals.next(), Event::Arrival));
        if let Some(prefetch) = &self.prefetch {
            next = next.min((prefetch.end_at, Event::PrefetchEnd));
        }
        next
    }

    /// The transfer of the current work begins: chooses what the media does after this work. Called
    /// only if `commits_at_start`; otherwise the choice is made when the work ends.
    fn commit(&mut self, now: Nanos) {
        let Some(media) = &self.media else { return };
        let context = ChoiceContext { now, free_at: media.end_at, from: media.end_track };
        // What follows a read that is the only command is reading ahead.
        let reads_ahead = matches!(media.work, Work::Read(_)) && !self.is_wanted();
        let next =
            if reads_ahead { None } else { self.chooser.choose(context, &self.mechanics, &self.reads, &self.writes) };
        if let Some(media) = &mut self.media {
            media.next = next;
            media.committed = true;
        }
    }

    /// Whether the range can be served without the media, as far as the drive knows at `now`.
    pub(super) fn is_cached(&self, now: Nanos, first: Sector, end: Sector) -> bool {
        self.cache.holding(first, end).is_some() || self.is_dirty(first, end) || self.is_prefetched(now, first, end)
    }

    /// Whether the running prefetch has read the whole range by `now`. It may be ahead of what its
    /// segment records.
    fn is_prefetched(&self, now: Nanos, first: Sector, end: Sector) -> bool {
        self.prefetch.is_some_and(|prefetch| {
            let mut run = prefetch.run;
            self.cache.start(prefetch.segment) <= first
                && end <= self.mechanics.geometry().follow(&mut run, prefetch.limit, now)
        })
    }

    /// Whether an extent of the write cache contains the whole range.
    pub(super) fn is_dirty(&self, first: Sector, end: Sector) -> bool {
        let busy = self.media.as_ref().and_then(|media| match &media.work {
            Work::Destage(extent) => Some(extent),
            Work::Read(_) => None,
        });
        self.writes.iter().chain(busy).any(|extent| extent.holds(first, end))
    }

    /// When `sectors` that are ready for the link at `now` have crossed it.
    pub(super) fn cross_link(&mut self, now: Nanos, sectors: u32) -> Nanos {
        self.link_free_at = self.link_free_at.max(now) + self.timing.link.transfer_ns(sectors);
        self.link_free_at
    }
}

impl Device for Disk {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&mut self, now: Nanos, command: &Command) -> Submit {
        if self.outstanding >= self.info.total_depth() {
            return Submit::Busy;
        }
        self.outstanding += 1;
        let Command { tag, operation, extent, .. } = *command;
        self.counters.count(operation, extent.sectors);
        let rejected = self.info.rejects(command);
        if rejected.is_some() || (extent.sectors == 0 && operation != Operation::Flush) {
            self.counters.errors += u64::from(rejected.is_some());
            self.completions.insert(now + self.timing.hit_ns, (tag, rejected.unwrap_or(Status::Ok)));
            return Submit::Accepted;
        }
        let needs_media = operation == Operation::Read && !self.is_cached(now, extent.first_sector, extent.end());
        let firmware_ns = if needs_media { self.timing.command_ns } else { self.timing.hit_ns };
        let arrival = Arrival {
            tag,
            operation,
            fua: command.flags.0 & Flags::FUA.0 != 0,
            first: extent.first_sector,
            sectors: extent.sectors,
            sequence: self.next_sequence,
            submitted_at: now,
        };
        self.next_sequence += 1;
        self.arrivals.insert(now + firmware_ns, arrival);
        Submit::Accepted
    }

    fn next_event(&self) -> Nanos {
        self.next().0
    }

    fn advance(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        loop {
            let (at_ns, event) = self.next();
            if at_ns > now || at_ns == NEVER {
                return;
            }
            match event {
                Event::Completion => {
                    if let Some((_, (tag, status))) = self.completions.pop() {
                        self.outstanding -= 1;
                        out.push(Completion { at_ns, tag, status });
                    }
                }
                Event::End => self.end_work(at_ns),
                Event::Commit => self.commit(at_ns),
                Event::Arrival => {
                    if let Some((_, arrival)) = self.arrivals.pop() {
                        self.arrive(at_ns, &arrival);
                    }
                }
                Event::PrefetchEnd => {
                    self.stop_prefetch(at_ns);
                    self.start_best(at_ns);
                }
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.media.is_none() && self.prefetch.is_none()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn reset(&mut self, now: Nanos) {
        self.arrivals.clear();
        self.completions.clear();
        self.reads.clear();
        self.writes.forget_commands();
        self.outstanding = 0;
        if let Some(media) = &mut self.media {
            media.next = None;
            match &mut media.work {
                Work::Destage(extent) => extent.waiter = None,
                Work::Read(read) => {
                    self.head = read.place.track;
                    self.media = None;
                }
            }
        }
        if self.media.is_none() {
            self.start_best(now);
        }
    }
}
