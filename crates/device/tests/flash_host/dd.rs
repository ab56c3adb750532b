//! Buffered sequential readers like dd in 2010, with two windows of read-ahead. Source:
//! docs/specifications/devices.md, section 9.2.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hoistway_block::{Extent, Flags, Nanos, Operation};
use hoistway_device::{Completion, Device, Flash, NEVER};

use super::submit;

const WINDOW_BYTES: u64 = 131_072;
/// A window at 1.0 GB/s.
const COPY_NS: Nanos = 131_072;
const SUBMIT_NS: Nanos = 5_000;
const COMPLETE_NS: Nanos = 15_000;

struct Reader {
    first_sector: u64,
    begin: Nanos,
    end: Nanos,
    /// The window that it copies next.
    next: u64,
    windows: u64,
    /// When the process sees each of the last two windows in memory.
    arrived: [Nanos; 2],
    is_waiting: bool,
}

/// A reader's step: it has reached a window, or it submits one.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Arrive,
    Submit(u64),
}

/// The rate of each of `readers`, `stride_bytes` apart, each reading `bytes` and starting 0.5 ms
/// after the previous one.
pub fn rates_mbps(device: &mut Flash, readers: u32, bytes: u64, stride_bytes: u64) -> Vec<f64> {
    let mut steps = BinaryHeap::new();
    let mut all: Vec<Reader> = Vec::new();
    for reader in 0..readers {
        let begin = u64::from(reader) * 500_000;
        let first_sector = u64::from(reader) * stride_bytes / 4_096 * 8;
        let windows = bytes / WINDOW_BYTES;
        all.push(Reader { first_sector, begin, end: 0, next: 0, windows, arrived: [NEVER; 2], is_waiting: false });
        steps.push(Reverse((begin + SUBMIT_NS, reader, Step::Submit(0))));
        steps.push(Reverse((begin + SUBMIT_NS, reader, Step::Arrive)));
    }
    let mut completions: Vec<Completion> = Vec::new();
    while all.iter().any(|reader| reader.end == 0) {
        let step_at = steps.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        let now = step_at.min(device.next_event());
        if device.next_event() == now {
            device.advance(now, &mut completions);
            for completion in completions.drain(..) {
                let (index, parity) = (completion.tag / 2, completion.tag % 2);
                let reader = &mut all[index as usize];
                let known_at = completion.at_ns + COMPLETE_NS;
                reader.arrived[parity as usize] = known_at;
                if reader.is_waiting && reader.next % 2 == u64::from(parity) {
                    reader.is_waiting = false;
                    copy(reader, index, known_at, &mut steps);
                }
            }
            continue;
        }
        let Some(Reverse((now, index, step))) = steps.pop() else { break };
        let reader = &mut all[index as usize];
        match step {
            Step::Submit(window) => {
                let extent = Extent::new(reader.first_sector + window * WINDOW_BYTES / 512, 256);
                let parity = window % 2;
                reader.arrived[parity as usize] = NEVER;
                let tag = index * 2 + u32::try_from(parity).unwrap();
                submit(device, now, tag, Operation::Read, Flags::NONE, extent);
            }
            Step::Arrive if reader.next == reader.windows => reader.end = now,
            Step::Arrive => {
                // It requests the next window before it waits for this one.
                let mut now = now;
                if reader.next + 1 < reader.windows {
                    now += SUBMIT_NS;
                    steps.push(Reverse((now, index, Step::Submit(reader.next + 1))));
                }
                let arrived = reader.arrived[(reader.next % 2) as usize];
                if arrived == NEVER {
                    reader.is_waiting = true;
                } else {
                    copy(reader, index, arrived.max(now), &mut steps);
                }
            }
        }
    }
    all.iter().map(|reader| bytes as f64 * 1e3 / (reader.end - reader.begin) as f64).collect()
}

fn copy(reader: &mut Reader, index: u32, now: Nanos, steps: &mut BinaryHeap<Reverse<(Nanos, u32, Step)>>) {
    reader.next += 1;
    steps.push(Reverse((now + COPY_NS, index, Step::Arrive)));
}
