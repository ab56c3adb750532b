//! What the I/Os of a job look like.

use serde::{Deserialize, Serialize};

use super::{Amount, Direction, PerDirection};

/// What its I/Os look like: directions, places and sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
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
    /// [`Job::uses_random_map`](super::Job::uses_random_map) and [`Job::trims_to_map`](super::Job::trims_to_map) allow.
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
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            mix: Mix::Read,
            pattern: Pattern::default(),
            distribution: Distribution::Uniform,
            centre_millionths: None,
            random_map: true,
            random_percent: PerDirection::all(100),
            block_sizes: PerDirection::default(),
            sizes_unaligned: false,
            block_align_bytes: PerDirection::all(0),
            sizes_by_pattern: false,
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

/// One entry of [`BlockSize::Split`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitEntry {
    /// Size in bytes.
    pub bytes: u32,
    /// Weight; the share is the weight divided by the sum of weights (fio's percentages, in
    /// hundredths of a percent).
    pub weight: u32,
}
