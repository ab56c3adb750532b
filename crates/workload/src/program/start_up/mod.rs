//! The replayed start of an application: the I/O of its processes in one global order, one process
//! at a time.
//!
//! - Every process reads a file of its own of 20,000,000 bytes and bypasses the page cache.
//! - `Seq` continues where the process's last read ended and wraps; `Rand` goes to any sector.
//! - In its turn a process submits a read-ahead without waiting for it. Before any other read it
//!   waits for its own read-aheads; then it waits for the read itself, and the next process has its
//!   turn.
//! - Times of the trace are ignored. The result is the total time: the job ends when the replay has
//!   ended.
//!
//! [`trace`] generates positions such that the totals are exactly those of the traces of the
//! benchmark suite S. Source: docs/specifications/bfq.md, section 21.

mod trace;

use hoistway_block::SECTOR_BYTES;
use hoistway_block::random::Stream;
use serde::{Deserialize, Serialize};

use super::run::{Ask, Step};
use super::settings::{self, Key, Settings};
use crate::job::{BlockSize, Engine, Job, Mix, Pattern, PerDirection, Placement};
use trace::{MOST_PAGES, PAGE_BYTES, Request};

/// Sectors of a process's file: 20,000,000 bytes without the half sector at the end.
const FILE_SECTORS: u64 = 20_000_000 / SECTOR_BYTES;
/// Distance between files in bytes: whole pages.
const FILE_STRIDE: u64 = 20_000_000_u64.next_multiple_of(4096);
/// Maximum number of reads in flight. Runs of read-aheads have at most 31 per process, so it is
/// seldom reached.
const DEPTH: u32 = 128;

/// Applications whose start can be replayed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// `xterm /bin/true`: 718 requests of 2 processes.
    #[default]
    Xterm,
    /// `gnome-terminal -e /bin/true`: 2781 requests of 7 processes.
    GnomeTerminal,
    /// `lowriter --terminate_after_init`: 1268 requests of 4 processes, most of the data in one.
    Lowriter,
    /// A browser of 2010: 4,000 requests of 3 processes, 60 MB; ours.
    Browser,
}

impl App {
    /// All applications with their names.
    pub const ALL: [(App, &str); 4] = [
        (App::Xterm, "xterm"),
        (App::GnomeTerminal, "gnome-terminal"),
        (App::Lowriter, "lowriter"),
        (App::Browser, "browser"),
    ];

    fn name(self) -> &'static str {
        App::ALL.iter().find(|(app, _)| *app == self).map_or("", |(_, name)| name)
    }
}

/// Settings of a replay.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StartUp {
    /// The application.
    pub app: App,
    /// Alignment of random reads in bytes: 512 as in the suite, 4096 for devices with larger
    /// sectors.
    pub align_bytes: u32,
}

impl StartUp {
    /// xterm, aligned to sectors.
    pub const USUAL: Self = Self { app: App::Xterm, align_bytes: 512 };

    /// Size of the files of all processes.
    pub(super) fn area_bytes(self) -> u64 {
        FILE_STRIDE * u64::from(trace::processes(self.app))
    }
}

impl Default for StartUp {
    fn default() -> Self {
        Self::USUAL
    }
}

const KEYS: &[Key] = &[
    Key { name: "app", allowed: "xterm, gnome-terminal, lowriter, browser", doc: "Whose start is replayed." },
    Key { name: "align", allowed: "512 or 4096", doc: "Random reads begin at multiples of it." },
];

impl Settings for StartUp {
    fn name(&self) -> &'static str {
        "startup"
    }

    fn doc(&self) -> &'static str {
        "replayed start of an application, direct reads of several processes in turn; ends when it is done"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn value(&self, key: &str) -> String {
        match key {
            "app" => self.app.name().to_owned(),
            "align" => self.align_bytes.to_string(),
            _ => String::new(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "app" => {
                let found = App::ALL.iter().find(|(_, name)| *name == value);
                let names = App::ALL.iter().map(|(_, name)| *name);
                self.app = found.ok_or_else(|| format!("app {}", settings::not_one_of(value, names)))?.0;
            }
            "align" => match settings::number(key, value, 512, 4096)? {
                bytes @ (512 | 4096) => self.align_bytes = bytes,
                _ => return Err(format!("align={value} is neither 512 nor 4096")),
            },
            _ => return Err(settings::unknown(key, KEYS)),
        }
        Ok(())
    }

    fn describe(&self, job: &mut Job) {
        job.shape.mix = Mix::Read;
        job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
        job.shape.random_map = false;
        let max = u32::from(MOST_PAGES) * PAGE_BYTES;
        job.shape.block_sizes = PerDirection::all(BlockSize::Range { min: PAGE_BYTES, max });
        job.area.placement = Placement::Split;
        job.submission.direct = true;
        job.submission.iodepth = DEPTH;
        job.submission.engine = if job.submission.engine == Engine::Null { Engine::Null } else { Engine::Async };
    }
}

/// One process of the application.
#[derive(Clone, Debug, Default)]
struct Process {
    /// Start of its next sequential read, in sectors of its file.
    sector: u64,
    /// Number of its read-aheads in flight.
    ahead: u32,
}

/// State of a replay.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    trace: Box<[Request]>,
    processes: Box<[Process]>,
    /// Index of the next request.
    at: usize,
    /// Whether a read that its process waits for is in flight; no other process has its turn
    /// meanwhile.
    is_blocked: bool,
    align_sectors: u64,
    random: Stream,
}

/// Tag of a read that its process waits for; the tag of a read-ahead is its process.
const AWAITED: u32 = u32::MAX;

impl Replay {
    pub(super) fn new(settings: StartUp, mut random: Stream) -> Self {
        let trace = trace::make(settings.app, &mut random);
        let processes = (0..trace::processes(settings.app)).map(|_| Process::default()).collect();
        let align_sectors = (u64::from(settings.align_bytes) / SECTOR_BYTES).max(1);
        Self { trace, processes, at: 0, is_blocked: false, align_sectors, random }
    }

    pub(super) fn actors(&self) -> u16 {
        u16::try_from(self.processes.len()).unwrap_or(u16::MAX)
    }

    pub(super) fn next(&mut self) -> Step {
        if self.is_blocked {
            return Step::Wait;
        }
        let Some(&request) = self.trace.get(self.at) else { return Step::Done };
        let process = &mut self.processes[usize::from(request.process)];
        if !request.is_ahead && process.ahead > 0 {
            return Step::Wait;
        }
        let sectors = request.sectors();
        if request.is_random {
            let drawn = self.random.below(FILE_SECTORS - sectors);
            process.sector = drawn / self.align_sectors * self.align_sectors;
        } else if process.sector >= FILE_SECTORS - sectors {
            process.sector = 0;
        }
        let offset_bytes = u64::from(request.process) * FILE_STRIDE + process.sector * SECTOR_BYTES;
        process.sector += sectors;
        process.ahead += u32::from(request.is_ahead);
        self.is_blocked = !request.is_ahead;
        self.at += 1;
        let tag = if request.is_ahead { u32::from(request.process) } else { AWAITED };
        let read = Ask::read(offset_bytes, u32::from(request.pages) * PAGE_BYTES);
        Step::Ask(Ask { actor: request.process, tag, ..read })
    }

    pub(super) fn completed(&mut self, tag: u32) {
        match self.processes.get_mut(tag as usize) {
            Some(process) => process.ahead = process.ahead.saturating_sub(1),
            None => self.is_blocked = false,
        }
    }

    /// Starts again with the same requests; random ones go to other sectors.
    pub(super) fn restart(&mut self) {
        self.at = 0;
    }
}
