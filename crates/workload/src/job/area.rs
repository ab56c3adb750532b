//! Which files, and which part of them, a job uses.

use serde::{Deserialize, Serialize};

use super::{is_default, is_one, is_zero};

/// Which files and which part of them it uses, and how much it transfers there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Area {
    /// File or device that the job names; if empty, [`Job::area_name`](super::Job::area_name) generates one.
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
}

impl Default for Area {
    fn default() -> Self {
        Self {
            file: String::new(),
            directory: String::new(),
            files: 1,
            file_order: FileOrder::RoundRobin,
            file_run: 1,
            placement: Placement::Shared,
            offset: Amount::Bytes(0),
            offset_align_bytes: 0,
            zones: None,
            offset_increment: Amount::Bytes(0),
            size: None,
            file_bytes: None,
            least_file_bytes: None,
            io_size: None,
            number_ios: None,
            loops: 1,
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
