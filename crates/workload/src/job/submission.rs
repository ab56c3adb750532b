//! How a job calls the system.

use serde::{Deserialize, Serialize};

use super::is_default;

/// How it calls the system: engine, depth, page cache and durability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
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
}

impl Default for Submission {
    fn default() -> Self {
        Self {
            engine: Engine::Sync,
            engine_name: String::new(),
            iodepth: 1,
            iodepth_low: None,
            completion_batch: 1,
            direct: false,
            invalidate: true,
            sync: SyncKind::None,
            fsync_every: 0,
            fdatasync_every: 0,
            end_fsync: false,
            fsync_on_close: false,
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
