//! A client of a file server as dbench simulates it: small files are created, written, synced, read
//! back and removed.
//!
//! ```text
//! create -> 6 to 8 x [append 4-64 KiB -> perhaps fsync -> reads of what was written] -> unlink | rename -> next slot
//! ```
//! Per 1000 writes a NetBench load has 3100 reads, 140 flushes and 1500 closes; closes, and opens
//! of existing files, cause no I/O and are left out. It also has 400 unlinks and 85 renames per
//! 1000 writes, but here every file has about 7 writes and ends with one of the two, so there are
//! fewer of them; their ratio is kept. Each client has its files in slots of its part of the area.
//! A renamed file stays in its slot until the client returns there and removes it, as dbench clears
//! its directory before each pass. Source: docs/specifications/devices.md, section 9.2.

use hoistway_block::Operation;
use hoistway_block::random::Stream;
use serde::{Deserialize, Serialize};

use super::run::{Ask, Step};
use super::settings::{self, Key, Settings};
use crate::issuer::Call;
use crate::job::{BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};

/// Smallest unit of a write: a page.
const PAGE_BYTES: u32 = 4096;
/// Largest write in pages.
const MOST_PAGES: u32 = 16;
/// Maximum number of writes of a file.
const MOST_WRITES: u32 = 8;
/// Size of a slot: the maximum size of a file.
const SLOT_BYTES: u32 = MOST_WRITES * PAGE_BYTES * MOST_PAGES;
/// Reads after each write, in tenths.
const READ_TENTHS: u64 = 31;
/// Relative frequencies of files that end with a rename and with an unlink.
const RENAMES: u64 = 85;
const UNLINKS: u64 = 400;

/// Settings of a client; `numjobs` clients form a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dbench {
    /// Files of a pass, each in a slot of 512 KiB; fewer if the area is smaller.
    pub files: u32,
    /// One in this many writes is followed by an fsync; 0 means none.
    pub flush_one_in: u32,
}

impl Dbench {
    /// 64 files; one write in seven is synced.
    pub const USUAL: Self = Self { files: 64, flush_one_in: 7 };

    /// Size of all files of a pass.
    pub(super) fn area_bytes(self) -> u64 {
        u64::from(self.files) * u64::from(SLOT_BYTES)
    }

    /// The smallest part that a client can work in.
    pub(super) fn least_bytes(self) -> u64 {
        u64::from(SLOT_BYTES)
    }
}

impl Default for Dbench {
    fn default() -> Self {
        Self::USUAL
    }
}

const KEYS: &[Key] = &[
    Key { name: "files", allowed: "1 to 1048576", doc: "Files of a pass, each in a slot of 512 KiB." },
    Key { name: "flush", allowed: "0 to 1000000", doc: "Number of writes per fsync; 0 = no fsync." },
];

impl Settings for Dbench {
    fn name(&self) -> &'static str {
        "dbench"
    }

    fn doc(&self) -> &'static str {
        "file server client: create, buffered appends with an fsync now and then, cached reads, unlink or rename"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn value(&self, key: &str) -> String {
        match key {
            "files" => self.files.to_string(),
            "flush" => self.flush_one_in.to_string(),
            _ => String::new(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "files" => self.files = settings::number(key, value, 1, 1 << 20)?,
            "flush" => self.flush_one_in = settings::number(key, value, 0, 1_000_000)?,
            _ => return Err(settings::unknown(key, KEYS)),
        }
        Ok(())
    }

    fn describe(&self, job: &mut Job) {
        let max = PAGE_BYTES * MOST_PAGES;
        job.shape.mix = Mix::ReadWrite { read_percent: 75 };
        job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
        job.shape.block_sizes = PerDirection::all(BlockSize::Range { min: PAGE_BYTES, max });
        job.area.placement = Placement::Split;
        job.submission.direct = false;
        job.submission.iodepth = 1;
        job.submission.engine = if job.submission.engine == Engine::Null { Engine::Null } else { Engine::Sync };
    }
}

/// Position of a client in its sequence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum At {
    /// Before the file of the slot is created; a file of an earlier pass is removed first.
    Begin,
    /// Before write `.0`.
    Write(u32),
    /// Before the fsync that follows write `.0`.
    Sync(u32),
    /// Before the reads that follow write `.0`; `.1` of them are left.
    Read(u32, u32),
    /// Before the file is removed or renamed.
    End,
}

/// State of a client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    settings: Dbench,
    at: At,
    slot: u32,
    /// Bytes of the renamed file in each slot; 0 if there is none.
    left_over: Box<[u32]>,
    /// Offset and length of each write of the file.
    writes: [(u32, u32); MOST_WRITES as usize],
    writes_of_file: u32,
    file_bytes: u32,
    random: Stream,
}

impl Client {
    /// A client in a part of `part_bytes`, which holds at least one slot.
    pub(super) fn new(settings: Dbench, part_bytes: u64, random: Stream) -> Self {
        let slots = (part_bytes / u64::from(SLOT_BYTES)).clamp(1, u64::from(settings.files.max(1)));
        let left_over = (0..slots).map(|_| 0).collect();
        let (at, writes) = (At::Begin, [(0, 0); MOST_WRITES as usize]);
        Self { settings, at, slot: 0, left_over, writes, writes_of_file: 0, file_bytes: 0, random }
    }

    pub(super) fn next(&mut self) -> Step {
        match self.at {
            At::Begin => self.begin(),
            At::Write(write) => {
                let is_synced =
                    self.settings.flush_one_in > 0 && self.random.chance(1, u64::from(self.settings.flush_one_in));
                self.at = if is_synced { At::Sync(write) } else { self.reads(write) };
                let (offset, length) = self.writes[write as usize];
                self.ask(Call::Append, Operation::Write, offset, length)
            }
            At::Sync(write) => {
                self.at = self.reads(write);
                // The flush covers everything written so far.
                let (offset, length) = self.writes[write as usize];
                self.ask(Call::Data, Operation::Flush, 0, offset + length)
            }
            At::Read(write, left) => {
                self.at = match left {
                    2.. => At::Read(write, left - 1),
                    _ if write + 1 < self.writes_of_file => At::Write(write + 1),
                    _ => At::End,
                };
                let read = self.random.below(u64::from(write) + 1);
                let (offset, length) = self.writes[usize::try_from(read).unwrap_or(0)];
                self.ask(Call::Data, Operation::Read, offset, length)
            }
            At::End => {
                let is_renamed = self.random.chance(RENAMES, RENAMES + UNLINKS);
                let call = if is_renamed { Call::Rename } else { Call::Unlink };
                let step = self.ask(call, Operation::Write, 0, self.file_bytes);
                if is_renamed {
                    self.left_over[self.slot as usize] = self.file_bytes;
                }
                self.slot += 1;
                self.at = At::Begin;
                step
            }
        }
    }

    /// Starts again from the first slot; renamed files of the previous pass remain.
    pub(super) fn restart(&mut self) {
        self.slot = 0;
    }

    fn begin(&mut self) -> Step {
        let Some(left_over) = self.left_over.get_mut(self.slot as usize) else { return Step::Done };
        let old_bytes = std::mem::take(left_over);
        if old_bytes > 0 {
            return self.ask(Call::Unlink, Operation::Write, 0, old_bytes);
        }
        self.writes_of_file = 6 + u32::try_from(self.random.below(3)).unwrap_or(0);
        self.file_bytes = 0;
        for write in 0..self.writes_of_file {
            let length = self.draw_length();
            self.writes[write as usize] = (self.file_bytes, length);
            self.file_bytes += length;
        }
        self.at = At::Write(0);
        self.ask(Call::Create, Operation::Write, 0, self.file_bytes)
    }

    /// Draws 1 to 16 pages, 7 on average: uniform, except that three of eleven draws are among the
    /// first five sizes only.
    fn draw_length(&mut self) -> u32 {
        let most = if self.random.chance(3, 11) { 5 } else { MOST_PAGES };
        let pages = 1 + self.random.below(u64::from(most));
        u32::try_from(pages).unwrap_or(1) * PAGE_BYTES
    }

    fn reads(&mut self, write: u32) -> At {
        let (whole, tenths) = (READ_TENTHS / 10, READ_TENTHS % 10);
        let reads = whole + u64::from(self.random.chance(tenths, 10));
        At::Read(write, u32::try_from(reads).unwrap_or(1))
    }

    fn ask(&self, call: Call, operation: Operation, offset: u32, length_bytes: u32) -> Step {
        let offset_bytes = u64::from(self.slot) * u64::from(SLOT_BYTES) + u64::from(offset);
        Step::Ask(Ask { call, operation, ..Ask::read(offset_bytes, length_bytes) })
    }
}
