//! The description of one job as plain data, with everything that an issuer needs.
//!
//! A [`Job`] is the same for every host; it holds no file handle, clock or random state. It is
//! created by [`crate::name`] (the twelve workload codes) and [`crate::fio`] (job files), and used
//! by [`crate::Issuer`]. Units are part of the names. `Default` is fio's default of each option, so
//! that only differences need to be set.

use hoistway_block::{Nanos, Operation};
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

    /// The value of one direction, mutable.
    #[inline]
    pub fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
            Direction::Trim => &mut self.trim,
        }
    }
}

/// The direction of a data I/O.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Data is read from the device.
    Read,
    /// Data is written to the device.
    Write,
    /// Data is discarded.
    Trim,
}

impl Direction {
    /// All three, in the order of fio's triples.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

    /// The operation that the device gets.
    #[inline]
    pub const fn operation(self) -> Operation {
        match self {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
            Direction::Trim => Operation::Discard,
        }
    }
}

/// The directions of a job's I/Os.
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
    /// Each block is read, then written back to the same place (bonnie++'s rewrite).
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

/// How offsets are chosen.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Block after block, wrapping at the end of the area.
    Sequential {
        /// Added to the position after every I/O: 0 is contiguous, positive values leave gaps,
        /// negative ones go backwards.
        skip_bytes: i64,
    },
    /// Random blocks.
    Random {
        /// I/Os per drawn offset (fio `rw=randread:8`), at least 1.
        run: u32,
        /// Whether the rest of a run repeats the offset or continues with the blocks after it.
        repeat_offset: bool,
    },
}

impl Default for Pattern {
    fn default() -> Self {
        Pattern::Sequential { skip_bytes: 0 }
    }
}

/// The distribution of random offsets over the area. Parameters are integers, so that jobs compare
/// and replay exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Every block equally often.
    #[default]
    Uniform,
    /// The k-th hottest block gets I/Os in proportion to k^-theta.
    Zipf {
        /// theta x 10^6, above 0.
        theta_millionths: u32,
    },
    /// Pareto: a fraction `h` of the blocks gets `1 - h` of the I/Os.
    Pareto {
        /// h x 10^6, above 0 and below 10^6.
        h_millionths: u32,
    },
    /// Normal distribution around the middle of the area.
    Normal {
        /// Standard deviation in millionths of the area (10 % = 100,000), 1 to 10^6.
        deviation_millionths: u32,
    },
    /// Parts of the area from its start, each with its share of the I/Os; uniform inside each.
    Zoned(PerDirection<Vec<ZoneShare>>),
}

/// A part of the area and its share of the I/Os.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneShare {
    /// Share of the I/Os in percent, 0 to 100.
    pub percent: u8,
    /// Size of the part.
    pub size: Amount,
}

/// Sizes of the I/Os of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockSize {
    /// A fixed size in bytes.
    Fixed(u32),
    /// Uniform between two sizes, in multiples of the smaller one (any number of bytes if the job
    /// permits unaligned sizes).
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
    /// Weight; the share is the weight divided by the sum of weights (fio's percentages, in
    /// hundredths of a percent).
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

/// A size or position: absolute, or relative to the area.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// This percentage of the area, 0 to 100.
    Percent(u8),
}

impl Amount {
    /// An equal part of an absolute size; a percentage already applies to each part.
    #[must_use]
    pub fn part(self, count: u64) -> Self {
        match self {
            Amount::Bytes(bytes) => Amount::Bytes(bytes / count.max(1)),
            percent @ Amount::Percent(_) => percent,
        }
    }

    /// The size in bytes in an area of `area_bytes`, rounded down.
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
    /// Up to `iodepth` in flight.
    Async,
    /// Completes at once without touching the device.
    Null,
}

/// Durability of each write.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncKind {
    /// No durability without an explicit sync.
    #[default]
    None,
    /// O_DSYNC: data is durable when the write returns (the I/O carries FUA).
    DataSync,
    /// O_SYNC: data and metadata are durable (the I/O carries FUA).
    Sync,
}

/// Distribution of the gaps between scheduled issue times if a rate is set.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateProcess {
    /// Equal gaps.
    #[default]
    Linear,
    /// Exponentially distributed gaps of the same mean.
    Poisson,
}

/// The part of the named area that a thread uses.
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

/// The order in which a thread's I/Os use its files.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOrder {
    /// One after the other, cyclically.
    #[default]
    RoundRobin,
    /// A random file each time.
    Random,
    /// The first file to its end, then the second.
    Sequential,
}

/// Strided zones: the job works on one stretch of the file, then on the next.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zones {
    /// Bytes to transfer before the next zone begins, at least 1.
    pub size_bytes: u64,
    /// Length of a zone in bytes, at least 1.
    pub range_bytes: u64,
    /// Gap in bytes between the end of a zone and the start of the next.
    pub skip_bytes: u64,
}

/// The jobs that are ended together with a job.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// The jobs of its reporting group.
    #[default]
    Group,
    /// The jobs that run at the same time between two stonewalls.
    Phase,
    /// All jobs of the file, including those that have not started.
    All,
}

/// Pauses between I/Os.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Think {
    /// Pause in nanoseconds from the completion of everything issued; 0 means none.
    pub time_ns: Nanos,
    /// Number of I/Os between two pauses; 0 counts as 1.
    pub blocks: u32,
    /// Whether I/Os are counted at issue instead of completion (fio `thinktime_blocks_type=issue`).
    pub counts_issued: bool,
    /// Time without a pause after which one follows in any case, in nanoseconds; 0 means never.
    #[serde(skip_serializing_if = "is_zero")]
    pub io_time_ns: Nanos,
}

/// Another priority for a share of the I/Os.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityShare {
    /// Percent of the reads, 0 to 100.
    pub read_percent: u8,
    /// Percent of the writes, 0 to 100.
    pub write_percent: u8,
    /// The priority of these I/Os, in Linux's encoding.
    pub priority_bits: u16,
}

/// Another priority for a share of the I/Os of one size.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrioritySplit {
    /// The size in bytes.
    pub bytes: u32,
    /// Percent of the I/Os of that size, 0 to 100.
    pub percent: u8,
    /// The priority of these I/Os, in Linux's encoding.
    pub priority_bits: u16,
}

/// A trace that a job file names (fio's read_iolog).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Input {
    /// The file.
    pub file: String,
    /// Whether to replay as fast as the depth permits instead of at recorded times.
    pub as_fast_as_possible: bool,
    /// Factor of recorded times, in percent.
    pub time_percent: u32,
    /// Divisor of offsets; 0 counts as 1.
    pub divide_offsets_by: u32,
    /// Offsets are rounded down to multiples of this; 0 means no rounding.
    pub align_bytes: u32,
    /// Which operations are left out: reads, writes, trims, flushes.
    pub skips: [bool; 4],
}

/// Settings that the job requests for its group; the experiment merges those of all jobs of a
/// group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupSettings {
    /// Weight, 1 to 10,000.
    pub weight: Option<u32>,
    /// Priority level, 0 to 7, for schedulers whose groups have levels instead of weights.
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
    /// Specification of the scheduler to run this job under.
    pub scheduler: Option<String>,
}

/// One job: `threads` identical issuers of one I/O sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    /// Name in results.
    pub name: String,
    /// Free text.
    pub description: String,
    /// The group (cgroup, tenant) that it runs in; empty means the root group.
    pub group: String,
    /// Settings that it requests for that group.
    #[serde(rename = "wishes")]
    pub group_settings: GroupSettings,
    /// Clones of this job (fio `numjobs`), at least 1.
    pub threads: u32,
    /// Number of threads of earlier jobs of the same file, which makes thread numbers and therefore
    /// random streams unique.
    pub first_thread: u32,

    /// A program with its own logic instead of a pattern. The program decides on its I/Os; the
    /// fields below, which [`Job::of`] sets, describe them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Program>,
    /// A recording instead of a pattern; the fields below describe its I/Os as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<Replay>>,

    /// Text of a job file that only fio can run, instead of everything else (`--generator fio`).
    #[serde(rename = "foreign", skip_serializing_if = "Option::is_none")]
    pub fio_only: Option<String>,

    /// Directions of the I/Os.
    pub mix: Mix,
    /// How offsets are chosen.
    pub pattern: Pattern,
    /// Distribution of random offsets.
    pub distribution: Distribution,
    /// Position of the hottest block of an uneven distribution, in millionths of the area; `None`
    /// means the distribution's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub centre_millionths: Option<u32>,
    /// Whether random I/Os visit every block once per pass (fio without `norandommap`), as far as
    /// [`Job::uses_random_map`] and [`Job::trims_to_map`] allow.
    pub random_map: bool,
    /// Percentage of the I/Os of a random pattern that draw a new offset, per direction; the rest
    /// continue from the last one.
    pub random_percent: PerDirection<u8>,
    /// I/O sizes per direction.
    pub block_sizes: PerDirection<BlockSize>,
    /// Whether sizes of ranges may be any number of bytes rather than multiples of the smallest
    /// one.
    pub sizes_unaligned: bool,
    /// Alignment of random offsets in bytes per direction; 0 means the smallest block size of that
    /// direction.
    pub block_align_bytes: PerDirection<u32>,
    /// Whether sizes depend on the pattern instead of the direction: those of reads for sequential
    /// I/Os, those of writes for random ones.
    pub sizes_by_pattern: bool,

    /// File or device that the job names; if empty, [`Job::area_name`] generates one.
    pub file: String,
    /// Directory of generated files; empty means the host's default.
    pub directory: String,
    /// Number of files of each thread, at least 1; they are equal parts of its area.
    #[serde(skip_serializing_if = "is_one")]
    pub files: u32,
    /// The order in which the files are used.
    #[serde(skip_serializing_if = "is_default")]
    pub file_order: FileOrder,
    /// Number of consecutive I/Os to one file, at least 1.
    #[serde(skip_serializing_if = "is_one")]
    pub file_run: u32,
    /// The part of the area that a thread uses.
    pub placement: Placement,
    /// First byte of the area that is used.
    pub offset: Amount,
    /// An offset in percent is rounded up to a multiple of this; 0 means the smallest block.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset_align_bytes: u64,
    /// Zones to use one after the other instead of the whole area.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Zones>,
    /// Added to `offset` once for each earlier thread of the job.
    pub offset_increment: Amount,
    /// Number of bytes used from `offset`; `None` means to the end of the area.
    pub size: Option<Amount>,
    /// Size in bytes of the file to lay out; `None` means as large as offset and size require. If
    /// it is given, the job uses the file from `offset` to its end, and `size` in bytes is the
    /// amount to transfer per loop.
    pub file_bytes: Option<u64>,
    /// Each file has a random size from this to `file_bytes`; `None` means `file_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_file_bytes: Option<u64>,
    /// Amount to transfer per loop; `None` means `size`. If it is larger than `size`, offsets wrap.
    pub io_size: Option<Amount>,
    /// Maximum number of I/Os per thread and loop; `None` means unlimited.
    pub number_ios: Option<u64>,
    /// Number of passes over the area, at least 1.
    pub loops: u32,

    /// How I/Os are submitted.
    pub engine: Engine,
    /// fio's name of the engine, for jobs of job files; it selects nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub engine_name: String,
    /// I/Os in flight per thread, at least 1; only for asynchronous and null engines.
    pub iodepth: u32,
    /// Once the depth is reached, nothing is issued until only this many are in flight; `None`
    /// means to refill at once.
    pub iodepth_low: Option<u32>,
    /// Once the depth is reached, nothing is issued until this many have completed; 0 counts as 1.
    pub completion_batch: u32,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// Whether cached pages of the file are dropped before the job starts. No host uses this:
    /// simulated caches start cold, and the engine bypasses the page cache, or states in its
    /// target's notes that it could not.
    pub invalidate: bool,
    /// Durability of each write.
    pub sync: SyncKind,
    /// Number of writes after which an fsync follows; 0 means never.
    pub fsync_every: u32,
    /// Number of writes after which an fdatasync follows; 0 means never.
    pub fdatasync_every: u32,
    /// Whether an fsync follows the last write.
    pub end_fsync: bool,
    /// Whether an fsync follows the writes of each pass and the last write.
    #[serde(skip_serializing_if = "is_default")]
    pub fsync_on_close: bool,

    /// Maximum rate of a thread in bytes/s per direction; 0 means unlimited.
    pub rate_bytes_per_s: PerDirection<u64>,
    /// Maximum rate of a thread in I/Os per second per direction; 0 means unlimited.
    pub rate_ios_per_s: PerDirection<u32>,
    /// Distribution of issue times under a rate.
    pub rate_process: RateProcess,
    /// Whether pauses shift the rate's schedule instead of being caught up afterwards (fio
    /// `rate_ignore_thinktime`).
    pub rate_ignores_think: bool,
    /// Pauses.
    pub think: Think,

    /// Goals that it must achieve, and limits that end it.
    #[serde(skip_serializing_if = "is_default")]
    pub goals: Goals,
    /// CPUs that its threads may run on; empty means all. Only hosts with a process per thread can
    /// apply it to each thread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Whether each thread gets one of these CPUs for itself, in turn (fio
    /// `cpus_allowed_policy=split`).
    #[serde(skip_serializing_if = "is_default")]
    pub splits_cpus: bool,
    /// Logs that are written about its I/Os.
    #[serde(skip_serializing_if = "is_default")]
    pub output: Output,
    /// The trace that it replays instead of a pattern. Once the trace has been read, a [`Replay`]
    /// takes its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<Input>>,

    /// How the data that it writes and reads is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Box<Verify>>,

    /// Whether failed I/Os leave the thread running. By default the first failure ends it; a failed
    /// sync always does.
    pub continue_on_error: PerDirection<bool>,

    /// End of issuing, in nanoseconds after start and ramp; `None` means when all bytes are
    /// transferred.
    pub runtime_ns: Option<Nanos>,
    /// Whether to start again when all bytes are transferred, until `runtime_ns`.
    pub time_based: bool,
    /// Unmeasured time before the runtime starts.
    pub ramp_ns: Nanos,
    /// Earliest and latest start after the start of the phase; each thread draws a time between
    /// them.
    pub start_delay_ns: (Nanos, Nanos),

    /// I/O priority of every request, in Linux's encoding; 0 means none.
    pub priority_bits: u16,
    /// Another priority for a share of the requests.
    pub priority_share: PriorityShare,
    /// Other priorities by size, for the reads and writes to which `priority_share` gives none.
    #[serde(skip_serializing_if = "is_default")]
    pub priority_splits: PerDirection<Vec<PrioritySplit>>,
    /// Seed of this job instead of the run's.
    pub seed: Option<u64>,

    /// Jobs of one phase run together; a phase starts when the previous one has ended (fio
    /// `stonewall`).
    pub phase: u32,
    /// Name of the jobs that must end before it starts; empty means none.
    pub wait_for: String,
    /// Whether the jobs that `ends` selects are ended when this job ends.
    pub ends_phase: bool,
    /// The jobs that are ended.
    #[serde(skip_serializing_if = "is_default")]
    pub ends: Ends,
    /// Jobs with equal numbers form one reporting group.
    pub report_group: u32,
    /// Whether all threads of the reporting group are shown as one entry.
    pub group_reporting: bool,
    /// Whether it has results of its own besides those of its group, by thread or reporting group;
    /// true for jobs of job files.
    #[serde(skip_serializing_if = "is_default")]
    pub has_own_results: bool,
}
