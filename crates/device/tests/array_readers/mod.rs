//! Sequential readers like dd in 2010, without the other OS layers: read system calls of 1 MiB
//! through a page cache with 128 KiB of read-ahead. The kernel marks a page of each window of
//! read-ahead; a reader that reaches a marked page requests the next window. Source:
//! docs/specifications/devices.md, section 8.2 (era 2.6) and section 9.2.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation};
use hoistway_device::{Command, Completion, Device, NEVER, Submit};

/// Read-ahead windows of 32 pages.
const WINDOW_SECTORS: u32 = 256;
const COPY_NS: Nanos = 131_072 * 1_000 / 1_800;
const COMPLETE_NS: Nanos = 15_000;
const SUBMIT_NS: Nanos = 5_000;
/// Delay between the starts of two readers.
const STAGGER_NS: Nanos = 500_000;

/// The results of a run of readers.
pub struct Rates {
    /// Sum of bytes per elapsed time over the readers, in MB/s: the figure in the tables of 2010.
    pub sum: f64,
    /// Mean over time of the caller's probe.
    pub mean_probe: f64,
}

#[derive(Clone)]
struct Reader {
    first_sector: u64,
    start_ns: Nanos,
    end_ns: Nanos,
    /// The window that it copies next, and the first one that it has not requested.
    at: u32,
    asked: u32,
    /// Whether each window is in the page cache.
    is_here: Vec<bool>,
    is_waiting: bool,
}

/// Runs a reader from each of `first_sectors`, each of `windows` windows; `probe` is averaged over
/// time.
pub fn read_all<D: Device>(device: &mut D, first_sectors: &[u64], windows: u32, probe: impl Fn(&D) -> f64) -> Rates {
    let mut wakes = BinaryHeap::new();
    let mut readers = Vec::new();
    for (index, &first_sector) in first_sectors.iter().enumerate() {
        let start_ns = index as u64 * STAGGER_NS;
        let is_here = vec![false; windows as usize + 2];
        readers.push(Reader { first_sector, start_ns, end_ns: 0, at: 0, asked: 0, is_here, is_waiting: false });
        wakes.push(Reverse((start_ns, index)));
    }
    let mut completions: Vec<Completion> = Vec::new();
    let (mut running, mut last_ns, mut probed) = (readers.len(), 0, 0.0);
    while running > 0 {
        let wake_ns = wakes.peek().map_or(NEVER, |Reverse((at_ns, _))| *at_ns);
        let now = wake_ns.min(device.next_event());
        probed += probe(device) * (now - last_ns) as f64;
        last_ns = now;
        device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let index = completion.tag as usize & 0xff;
            let first = (completion.tag >> 8) as usize;
            let reader = &mut readers[index];
            let count = if first == 0 { 2 } else { 1 };
            (first..(first + count).min(reader.is_here.len())).for_each(|window| reader.is_here[window] = true);
            if reader.is_waiting && reader.is_here[reader.at as usize] {
                reader.is_waiting = false;
                wakes.push(Reverse((now + COMPLETE_NS, index)));
            }
        }
        while let Some(&Reverse((at_ns, index))) = wakes.peek().filter(|Reverse((at_ns, _))| *at_ns <= now) {
            wakes.pop();
            let reader = &mut readers[index];
            match reader.go_on(device, at_ns, index, windows) {
                Some(next) => wakes.push(Reverse((next, index))),
                None => running -= usize::from(reader.at == windows),
            }
        }
    }
    let bytes = f64::from(windows) * 131_072.0;
    let rate = |reader: &Reader| bytes / (reader.end_ns - reader.start_ns) as f64 * 1e3;
    Rates { sum: readers.iter().map(rate).sum(), mean_probe: probed / last_ns as f64 }
}

impl Reader {
    /// The reader is at the first page of window `at`: requests the next window if that page is
    /// marked, then copies this one or waits for it. Returns the time at which it acts again;
    /// `None` if it waits or has ended.
    fn go_on(&mut self, device: &mut impl Device, now: Nanos, index: usize, windows: u32) -> Option<Nanos> {
        if self.at == windows {
            self.end_ns = now;
            return None;
        }
        // The first call requests two windows at once and marks the first page of the second window.
        // Each later call requests one window and marks its first page.
        let wanted = if self.asked == 0 { 2 } else { self.at + 2 };
        if self.asked < wanted {
            let count = wanted - self.asked;
            let first = self.first_sector + u64::from(self.asked * WINDOW_SECTORS);
            let command = Command {
                tag: self.asked << 8 | u32::try_from(index).unwrap(),
                operation: Operation::Read,
                flags: Flags::NONE,
                extent: Extent::new(first, WINDOW_SECTORS * count),
                hardware_queue: HardwareQueue(0),
            };
            assert_eq!(device.submit(now, &command), Submit::Accepted);
            self.asked = wanted;
            return Some(now + SUBMIT_NS);
        }
        if self.is_here[self.at as usize] {
            self.at += 1;
            return Some(now + COPY_NS);
        }
        self.is_waiting = true;
        None
    }
}
