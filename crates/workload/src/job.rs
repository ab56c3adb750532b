//! What is asked of a device, as plain data: one job, with everything an issuer needs to know.
//!
//! A [`Job`] is the same for every host; it holds no file handle, no clock and no random state. It is written by
//! [`crate::name`] (the twelve workload codes) and by [`crate::fio`] (job files), and read by [`crate::Issuer`].
//! Units are in the names; `Default` is fio's default of each option, so a job says only what it changes.

use block::{Nanos, Operation};
use serde::{Deserialize, Serialize};

use crate::goal::Goals;
use crate::output::Output;
use crate::program::Program;
pub use crate::replay::{Pace, Replay};
use crate::verify::Verify;

mod defaults;
mod derived;

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One value per data direction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims (discards).
    pub trim: T,
}

impl<T: Clone> PerDirection<T> {
    /// The same value for all three.
    pub fn all(value: T) -> Self {
        Self { read: value.clone(), write: value.clone(), trim: value }
    }
}

impl<T> PerDirection<T> {
    /// The value of one direction.
    #[inline]
    pub fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
            Direction::Trim => &self.trim,
        }
    }

    /// The value of one direction, to be changed.
    #[inline]
    pub fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
            Direction::Trim => &mut self.trim,
        }
    }
}

/// What a data I/O does, as jobs tell it apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Data from the device.
    Read,
    /// Data to the device.
    Write,
    /// Data given up.
    Trim,
}

impl Direction {
    /// All three, in the order of fio's triples.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

    /// The operation a device sees.
    #[inline]
    pub const fn operation(self) -> Operation {
        match self {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
            Direction::Trim => Operation::Discard,
        }
    }
}

/// What the I/Os do.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// Reads only.
    #[default]
    Read,
    /// Writes only.
    Write,
    /// Discards only.
    Trim,
    /// Reads and writes, drawn independently for each I/O.
    ReadWrite {
        /// Share of reads in percent, 0 to 100.
        read_percent: u8,
    },
    /// Each block is discarded, then written.
    TrimWrite,
    /// Each block is read, then written back where it was (bonnie++'s rewrite).
    Rewrite,
}

impl Mix {
    /// Whether the job changes data.
    pub fn has_writes(self) -> bool {
        !matches!(self, Mix::Read)
    }

    /// The directions that occur.
    pub const fn directions(self) -> &'static [Direction] {
        match self {
            Mix::Read => &[Direction::Read],
            Mix::Write => &[Direction::Write],
            Mix::Trim => &[Direction::Trim],
            Mix::ReadWrite { .. } | Mix::Rewrite => &[Direction::Read, Direction::Write],
            Mix::TrimWrite => &[Direction::Trim, Direction::Write],
        }
    }
}

/// Where the offsets go.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Block after block, wrapping at the end of the area.
    Sequential {
        /// Added to the position after every I/O: 0 is dense, positive strides, negative goes backwards.
        skip_bytes: i64,
    },
    /// Random blocks.
    Random {
        /// I/Os per drawn offset (fio `rw=randread:8`), at least 1.
        run: u32,
        /// What the rest of a run does: the same offset again, or the blocks behind it.
        repeat_offset: bool,
    },
}

impl Default for Pattern {
    fn default() -> Self {
        Pattern::Sequential { skip_bytes: 0 }
    }
}

/// How random offsets spread over the area. Parameters are integers so that jobs compare and replay exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Every block equally often.
    #[default]
    Uniform,
    /// The k-th hottest block in proportion to k^-theta.
    Zipf {
        /// theta x 10^6, above 0.
        theta_millionths: u32,
    },
    /// Pareto: `h` is the share of blocks that gets `1 - h` of the I/Os.
    Pareto {
        /// h x 10^6, above 0 and below 10^6.
        h_millionths: u32,
    },
    /// Bell curve round the middle of the area.
    Normal {
        /// Standard deviation as a share of the area, in millionths of it (10 % = 100,000), 1 to 10^6.
        deviation_millionths: u32,
    },
    /// Parts of the area, from its begin, each with its share of the I/Os; uniform inside each.
    Zoned(PerDirection<Vec<ZoneShare>>),
}

/// A part of the area and its share of the I/Os.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneShare {
    /// Share of the I/Os in percent, 0 to 100.
    pub percent: u8,
    /// How large the part is.
    pub size: Amount,
}

/// Sizes of the I/Os of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockSize {
    /// Always this many bytes.
    Fixed(u32),
    /// Uniform between two sizes, in multiples of the smaller (every byte if the job says unaligned).
    Range {
        /// Smallest size in bytes.
        min: u32,
        /// Largest size in bytes.
        max: u32,
    },
    /// One of a list, by weight.
    Split(Vec<SplitEntry>),
}

/// One entry of [`BlockSize::Split`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitEntry {
    /// Size in bytes.
    pub bytes: u32,
    /// Weight; the shares are weight / sum of weights (fio's percentages, in hundredths of a percent).
    pub weight: u32,
}

impl Default for BlockSize {
    fn default() -> Self {
        BlockSize::Fixed(4096)
    }
}

impl BlockSize {
    /// The smallest size in bytes that can be drawn.
    pub fn smallest_bytes(&self) -> u32 {
        match self {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::Range { min, .. } => *min,
            BlockSize::Split(entries) => entries.iter().map(|entry| entry.bytes).min().unwrap_or(4096),
        }
    }

    /// The largest size in bytes that can be drawn.
    pub fn largest_bytes(&self) -> u32 {
        match self {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::Range { max, .. } => *max,
            BlockSize::Split(entries) => entries.iter().map(|entry| entry.bytes).max().unwrap_or(4096),
        }
    }
}

/// A size or position: absolute, or a share of the area.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// This share of the area in percent, 0 to 100.
    Percent(u8),
}

impl Amount {
    /// An equal part of a number of bytes; a percentage is one of each part anyway.
    #[must_use]
    pub fn part(self, count: u64) -> Self {
        match self {
            Amount::Bytes(bytes) => Amount::Bytes(bytes / count.max(1)),
            percent @ Amount::Percent(_) => percent,
        }
    }

    /// The bytes it means in an area of `area_bytes`, rounded down.
    pub fn of(self, area_bytes: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(percent) => {
                area_bytes / 100 * u64::from(percent) + area_bytes % 100 * u64::from(percent) / 100
            }
        }
    }
}

/// How an I/O is submitted and waited for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// One call at a time; `iodepth` is ignored.
    #[default]
    Sync,
    /// Up to `iodepth` outstanding.
    Async,
    /// Completes at once without touching the device.
    Null,
}

/// Durability of each write.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncKind {
    /// None: durable only by an explicit sync.
    #[default]
    None,
    /// O_DSYNC: data durable when the write returns (the I/O carries FUA).
    DataSync,
    /// O_SYNC: data and metadata durable (the I/O carries FUA).
    Sync,
}

/// How scheduled issue times follow each other when a rate is set.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateProcess {
    /// Evenly.
    #[default]
    Linear,
    /// With exponential gaps of the same mean.
    Poisson,
}

/// Which part of the named area a thread uses.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// All threads share one area (fio with `filename=`; the random workload codes).
    #[default]
    Shared,
    /// One area, cut into equal parts of whole MiB, one per thread (the sequential workload codes).
    Split,
    /// Every thread has an area of its own (fio without `filename=`).
    Own,
}

/// In which order a thread's I/Os go to its files.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOrder {
    /// One after the other, and round again.
    #[default]
    RoundRobin,
    /// Any of them.
    Random,
    /// The first to its end, then the second.
    Sequential,
}

/// Strided zones: a stretch of the file is worked on, then the next one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Bytes to transfer before the next zone begins, at least 1.
    pub size_bytes: u64,
    /// Length of a zone in bytes, at least 1.
    pub range_bytes: u64,
    /// Bytes left out between the end of a zone and the begin of the next.
    pub skip_bytes: u64,
}

/// Which jobs the end of a job ends.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// Those of its reporting group.
    #[default]
    Group,
    /// Those that run beside it between two stonewalls.
    Phase,
    /// All of the file, also those that have not begun.
    All,
}

/// Pauses between I/Os.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Think {
    /// Pause in nanoseconds, counted from the completion of everything issued; 0 = none.
    pub time_ns: Nanos,
    /// I/Os between two pauses; 0 counts as 1.
    pub blocks: u32,
    /// Counts I/Os as they are issued, not as they complete (fio `thinktime_blocks_type=issue`).
    pub counts_issued: bool,
    /// A pause also follows after so long without one, in nanoseconds; 0 = never.
    #[serde(skip_serializing_if = "is_zero")]
    pub io_time_ns: Nanos,
}

/// A share of the I/Os that carries another priority than the job.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityShare {
    /// Percent of the reads, 0 to 100.
    pub read_percent: u8,
    /// Percent of the writes, 0 to 100.
    pub write_percent: u8,
    /// The priority they carry, in Linux's encoding.
    pub priority_bits: u16,
}

/// I/Os of one size, of which a share has another priority.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrioritySplit {
    /// The size in bytes.
    pub bytes: u32,
    /// Percent of the I/Os of that size, 0 to 100.
    pub percent: u8,
    /// The priority they carry, in Linux's encoding.
    pub priority_bits: u16,
}

/// A trace that a job file names (fio's read_iolog).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    /// The file.
    pub file: String,
    /// As fast as its depth lets it, instead of at recorded times.
    pub as_fast_as_possible: bool,
    /// Recorded times are multiplied by this, in per cent.
    pub time_percent: u32,
    /// Offsets are divided by this; 0 counts as 1.
    pub divide_offsets_by: u32,
    /// Offsets are rounded down to this; 0 = not.
    pub align_bytes: u32,
    /// Operations that are left out: reads, writes, trims, flushes.
    pub skips: [bool; 4],
}

/// What the job asks of its group; the experiment merges the wishes of all jobs of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupWishes {
    /// Weight, 1 to 10,000.
    pub weight: Option<u32>,
    /// Level, 0 to 7, for schedulers that know levels of groups instead of weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Limit of reads in bytes/s.
    pub read_bytes_per_s: Option<u64>,
    /// Limit of writes in bytes/s.
    pub write_bytes_per_s: Option<u64>,
    /// Limit of reads in I/Os per second.
    pub read_ios_per_s: Option<u64>,
    /// Limit of writes in I/Os per second.
    pub write_ios_per_s: Option<u64>,
    /// Soft limit ("high") in bytes/s.
    pub high_bytes_per_s: Option<u64>,
    /// Scheduler specification to run this job under.
    pub scheduler: Option<String>,
}

/// One job: `threads` equal issuers of one I/O sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    /// The name results are shown under.
    pub name: String,
    /// Free text.
    pub description: String,
    /// The group (cgroup, tenant) it runs in; empty is the root group.
    pub group: String,
    /// What it asks of that group.
    pub wishes: GroupWishes,
    /// Clones of this job (fio `numjobs`), at least 1.
    pub threads: u32,
    /// Threads of earlier jobs of the same file: makes thread numbers, hence random streams, unique.
    pub first_thread: u32,

    /// A program with a logic of its own instead of a pattern. What its I/Os look like is then described by the fields
    /// below, which [`Job::of`] sets, and decided by the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// What was recorded, instead of a pattern. What its I/Os look like is described by the fields below as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<Replay>>,

    /// The text of a job file that only fio itself can run, instead of everything else: of `--generator fio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,

    /// What the I/Os do.
    pub mix: Mix,
    /// Where they go.
    pub pattern: Pattern,
    /// How random offsets spread.
    pub distribution: Distribution,
    /// Where the hottest place of an uneven distribution is, in millionths of the area; None = the distribution's usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub centre_millionths: Option<u32>,
    /// Random I/Os touch every block once per pass (fio without `norandommap`), where block sizes are fixed.
    pub random_map: bool,
    /// Percent of the I/Os of a random pattern that draw an offset, per direction; the rest continue from the last one.
    pub random_percent: PerDirection<u8>,
    /// I/O sizes per direction.
    pub block_sizes: PerDirection<BlockSize>,
    /// Range sizes take any byte count, not only multiples of the smallest.
    pub sizes_unaligned: bool,
    /// Alignment of random offsets in bytes per direction; 0 = the smallest block size of that direction.
    pub block_align_bytes: PerDirection<u32>,
    /// Sizes are chosen by "sequential or random", not by direction: reads' sizes for the sequential, writes' for the random.
    pub sizes_by_pattern: bool,

    /// File or device the job names; empty = one is made up by [`Job::area_name`].
    pub file: String,
    /// Directory of made-up files; empty = the host's own.
    pub directory: String,
    /// Files of each thread, at least 1: equal parts of its area.
    #[serde(skip_serializing_if = "is_one")]
    pub files: u32,
    /// In which order they are used, and for how many I/Os at a time.
    #[serde(skip_serializing_if = "is_default")]
    pub file_order: FileOrder,
    /// I/Os to one file in a row, at least 1.
    #[serde(skip_serializing_if = "is_one")]
    pub file_run: u32,
    /// Which part of the area a thread uses.
    pub placement: Placement,
    /// First byte used of the area.
    pub offset: Amount,
    /// An offset in percent is rounded up to a multiple of this; 0 = of the smallest block.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset_align_bytes: u64,
    /// Zone after zone instead of the whole area.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Zones>,
    /// Added to `offset` once per earlier thread.
    pub offset_increment: Amount,
    /// Bytes used, from `offset`; None = to the end of the area.
    pub size: Option<Amount>,
    /// Size in bytes of the file to lay out; None = what offset and size need.
    pub file_bytes: Option<u64>,
    /// To transfer per loop; None = `size`. More than `size` wraps.
    pub io_size: Option<Amount>,
    /// I/Os to issue at most per thread and loop; None = no such bound.
    pub number_ios: Option<u64>,
    /// Passes over the area, at least 1.
    pub loops: u32,

    /// How I/Os are submitted.
    pub engine: Engine,
    /// I/Os in flight per thread, at least 1 (counts only with an asynchronous or null engine).
    pub iodepth: u32,
    /// Once full, nothing is issued until so few are in flight; None = refill at once.
    pub iodepth_low: Option<u32>,
    /// Once full, nothing is issued until so many have completed; 0 counts as 1.
    pub completion_batch: u32,
    /// Page cache bypassed.
    pub direct: bool,
    /// Cached pages of the file are dropped before the job starts. No host reads it: simulated caches begin cold, and the
    /// engine goes past the page cache, or says in its target's notes that it could not.
    pub invalidate: bool,
    /// Durability of each write.
    pub sync: SyncKind,
    /// An fsync after so many writes; 0 = never.
    pub fsync_every: u32,
    /// An fdatasync after so many writes; 0 = never.
    pub fdatasync_every: u32,
    /// An fsync when all is written.
    pub end_fsync: bool,

    /// Bytes/s a thread may issue per direction; 0 = no such bound.
    pub rate_bytes_per_s: PerDirection<u64>,
    /// I/Os per second a thread may issue per direction; 0 = no such bound.
    pub rate_ios_per_s: PerDirection<u32>,
    /// Spacing under a rate.
    pub rate_process: RateProcess,
    /// Pauses shift the rate's schedule instead of being caught up afterwards (fio `rate_ignore_thinktime`).
    pub rate_ignores_think: bool,
    /// Pauses.
    pub think: Think,

    /// What it must achieve, and what ends it when it does not.
    #[serde(skip_serializing_if = "is_default")]
    pub goals: Goals,
    /// Processors its threads may run on; empty = all. Only hosts with a process per thread can do that for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Each thread has one of them for itself, in turn (fio `cpus_allowed_policy=split`).
    #[serde(skip_serializing_if = "is_default")]
    pub splits_cpus: bool,
    /// What is written down of its I/Os.
    #[serde(skip_serializing_if = "is_default")]
    pub output: Output,
    /// The trace it repeats instead of a pattern, before it was read: who reads it puts a [`Replay`] in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<Input>>,

    /// How what it writes and reads is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Box<Verify>>,

    /// Which failed I/Os do not end the thread; by default the first failure does (a failed sync always does).
    pub continue_on_error: PerDirection<bool>,

    /// End of issuing, in nanoseconds after start and ramp; None = when the bytes are done.
    pub runtime_ns: Option<Nanos>,
    /// Start again when the bytes are done, until `runtime_ns`.
    pub time_based: bool,
    /// Not measured, before the runtime begins.
    pub ramp_ns: Nanos,
    /// Earliest and latest start after the begin of the phase; each thread draws between them.
    pub start_delay_ns: (Nanos, Nanos),

    /// I/O priority of every request, in Linux's encoding; 0 = none given.
    pub priority_bits: u16,
    /// A share of requests with another priority.
    pub priority_share: PriorityShare,
    /// Shares with another priority by size, instead; for reads and writes.
    #[serde(skip_serializing_if = "is_default")]
    pub priority_splits: PerDirection<Vec<PrioritySplit>>,
    /// Replaces the run's seed for this job.
    pub seed: Option<u64>,

    /// Jobs of one phase run together; a phase begins when the one before has ended (fio `stonewall`).
    pub phase: u32,
    /// Starts only after all jobs of this name have ended; empty = none.
    pub wait_for: String,
    /// When this job ends, others are ended too: those of `ends`.
    pub ends_phase: bool,
    /// Which.
    #[serde(skip_serializing_if = "is_default")]
    pub ends: Ends,
    /// Jobs with an equal number are one reporting group.
    pub report_group: u32,
    /// All threads of the reporting group are shown as one entry.
    pub group_reporting: bool,
    /// Whether it has results beside those of its group, by thread or reporting group: it comes from a job file.
    #[serde(skip_serializing_if = "is_default")]
    pub has_own_results: bool,
}
