//! Readers that behave like `dd bs=1M` of Linux 2.6. Source: docs/specifications/devices.md,
//! sections 8.2 and 9.2.
//!
//! The first request has two windows of 128 KiB; from then on, the reader requests another window
//! whenever it reaches the first page of the newest, before it waits for that one: two windows are
//! outstanding while it waits.

use std::collections::VecDeque;

use hoistway_block::{Extent, Flags, Nanos, Operation, Sector};
use hoistway_device::{Completion, Device, DiskParameters, NEVER};

use crate::driver::{disk, submit};

const WINDOW_SECTORS: u32 = 256;
/// 128 KiB at 1.8 GB/s.
const COPY_NS: Nanos = 72_818;
const SUBMIT_NS: Nanos = 5_000;
const COMPLETE_NS: Nanos = 15_000;
/// A reader has at most this many windows in flight or not yet copied.
const WINDOWS: usize = 4;

/// Requests for the disk in order, as noop keeps them.
type Queue = VecDeque<(u32, Extent)>;

struct Reader {
    first: Sector,
    start: Nanos,
    windows: u64,
    /// The window that it is at.
    window: u64,
    /// When it continues; NEVER while it waits for a window.
    acts_at: Nanos,
    /// Arrival times of the last windows, by their number modulo `WINDOWS`; NEVER if not arrived
    /// yet.
    came_at: [Nanos; WINDOWS],
    finished: Nanos,
}

/// A window that arrived from the disk.
#[derive(Copy, Clone, Debug)]
pub struct Arrived {
    pub reader: u32,
    pub sector: Sector,
    pub sectors: u32,
    pub at: Nanos,
}

/// The results of the readers.
pub struct Outcome {
    /// MB/s of each reader over its own time.
    pub rates: Vec<f64>,
    pub makespan: Nanos,
    pub bytes: u64,
    pub arrived: Vec<Arrived>,
}

impl Outcome {
    pub fn sum(&self) -> f64 {
        self.rates.iter().sum()
    }

    pub fn aggregate(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.makespan as f64
    }

    /// Rate of the fastest reader over that of the slowest.
    pub fn spread(&self) -> f64 {
        let fastest = self.rates.iter().copied().fold(0.0, f64::max);
        fastest / self.rates.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

impl Reader {
    /// At a window: requests the one after the newest, then copies this one or waits for it.
    fn act(&mut self, now: Nanos, id: u32, queue: &mut Queue) {
        if self.window == self.windows {
            self.finished = now;
            self.acts_at = NEVER;
            return;
        }
        match self.window {
            0 => self.ask(id, queue, 0, 2),
            window => self.ask(id, queue, window + 1, 1),
        }
        let free_at = now + SUBMIT_NS;
        self.acts_at = NEVER;
        if self.came_at[self.window as usize % WINDOWS] != NEVER {
            self.copy(free_at);
        }
    }

    fn ask(&mut self, id: u32, queue: &mut Queue, window: u64, count: u32) {
        for window in window..window + u64::from(count) {
            self.came_at[window as usize % WINDOWS] = NEVER;
        }
        let extent = Extent::new(self.first + window * u64::from(WINDOW_SECTORS), count * WINDOW_SECTORS);
        let tag = id * WINDOWS as u32 + (window % WINDOWS as u64) as u32;
        queue.push_back((tag, extent));
    }

    fn copy(&mut self, from: Nanos) {
        self.window += 1;
        self.acts_at = from + COPY_NS;
    }

    /// A window arrived. Wakes the reader if it waits for that one.
    fn came(&mut self, at: Nanos, slot: usize) {
        self.came_at[slot] = at;
        if self.window == 0 {
            self.came_at[1] = at;
        }
        if self.acts_at == NEVER && self.finished == NEVER && self.window as usize % WINDOWS == slot {
            self.copy(at + COMPLETE_NS);
        }
    }

    /// First sector and length of the window in flight that uses `slot`. Window n uses slot n modulo
    /// `WINDOWS`, and no two windows in flight use the same. The first two windows are one request.
    fn position(&self, slot: usize) -> (Sector, u32) {
        if self.window == 0 {
            return (self.first, 2 * WINDOW_SECTORS);
        }
        let ahead = (slot + WINDOWS - self.window as usize % WINDOWS) % WINDOWS;
        (self.first + (self.window + ahead as u64) * u64::from(WINDOW_SECTORS), WINDOW_SECTORS)
    }
}

/// Runs readers from these sectors, each over `windows` windows of 128 KiB, with 0.5 ms between
/// their starts.
pub fn run(parameters: &DiskParameters, seed: u64, starts: &[Sector], windows: u64) -> Outcome {
    let mut disk = disk(parameters, seed);
    let mut readers: Vec<Reader> = Vec::new();
    for (index, &first) in starts.iter().enumerate() {
        let start = 500_000 * index as u64;
        let came_at = [NEVER; WINDOWS];
        readers.push(Reader { first, start, windows, window: 0, acts_at: start, came_at, finished: NEVER });
    }
    let mut queue = Queue::new();
    let mut in_flight = 0;
    let mut arrived = Vec::new();
    let mut completions: Vec<Completion> = Vec::new();
    while readers.iter().any(|reader| reader.finished == NEVER) {
        let (id, at) = readers.iter().map(|reader| reader.acts_at).enumerate().min_by_key(|next| next.1).unwrap();
        let event = disk.next_event();
        if at < event {
            readers[id].act(at, id as u32, &mut queue);
        }
        assert!(at != NEVER || event != NEVER, "readers wait for nothing");
        let now = at.min(event);
        disk.advance(now, &mut completions);
        for completion in completions.drain(..) {
            in_flight -= 1;
            let (reader, slot) = (completion.tag as usize / WINDOWS, completion.tag as usize % WINDOWS);
            let (sector, sectors) = readers[reader].position(slot);
            arrived.push(Arrived { reader: reader as u32, sector, sectors, at: completion.at_ns });
            readers[reader].came(completion.at_ns, slot);
        }
        while in_flight < disk.info().depth
            && let Some((tag, extent)) = queue.pop_front()
        {
            submit(&mut disk, now, tag, Operation::Read, extent, Flags::NONE);
            in_flight += 1;
        }
    }
    let bytes = windows * u64::from(WINDOW_SECTORS) * 512;
    let rates = readers.iter().map(|reader| bytes as f64 * 1e3 / (reader.finished - reader.start) as f64).collect();
    let makespan = readers.iter().map(|reader| reader.finished).max().unwrap();
    Outcome { rates, makespan, bytes: bytes * starts.len() as u64, arrived }
}

/// Means over the offsets of the recipe.
#[derive(Debug, Default)]
pub struct Means {
    pub sum: f64,
    pub aggregate: f64,
    pub spread: f64,
}

pub fn sectors_of_gb(gb: f64) -> Sector {
    (gb * 1e9 / 512.0) as u64 / 8 * 8
}

/// Recipe of docs/specifications/devices.md, section 9.2, for disks: `count` readers of 256 MiB,
/// `stride_gb` apart, mean over eight offsets with seeds 1 to 8.
pub fn recipe(parameters: &DiskParameters, count: u64, stride_gb: f64) -> Means {
    let offsets_gb = [0.0, 0.5, 1.1, 1.9, 2.6, 3.3, 4.1, 5.0];
    let mut means = Means::default();
    for (index, offset_gb) in offsets_gb.into_iter().enumerate() {
        let starts: Vec<_> = (0..count).map(|i| sectors_of_gb(i as f64 * stride_gb + offset_gb)).collect();
        let outcome = run(parameters, index as u64 + 1, &starts, 2_048);
        means.sum += outcome.sum() / 8.0;
        means.aggregate += outcome.aggregate() / 8.0;
        means.spread += outcome.spread() / 8.0;
    }
    means
}
