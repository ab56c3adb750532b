//! A closed loop that keeps a number of commands in flight and measures: shared by the device
//! tests.
#![allow(dead_code, reason = "each test file uses a part of it")]

use hoistway_block::random::{Stream, fnv1a64, fnv1a64_continued};
use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation};
use hoistway_device::{AnyDevice, Command, Completion, Device, Model, NEVER, Submit};

/// The results of a closed loop.
pub struct Outcome {
    pub elapsed_ns: Nanos,
    pub latency_sum_ns: Nanos,
    pub completed: u64,
    pub errors: u64,
    /// FNV-1a over time, tag and status of every completion.
    pub checksum: u64,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.completed as f64 * 1e9 / self.elapsed_ns as f64
    }

    pub fn mean_latency_us(&self) -> f64 {
        self.latency_sum_ns as f64 / self.completed as f64 / 1e3
    }
}

/// The device of a model's text under seed 1.
pub fn device(text: &str) -> AnyDevice {
    Model::parse(text).unwrap().build(1, "dev0")
}

/// Submits a command and asserts that it is accepted.
pub fn submit(device: &mut AnyDevice, now: Nanos, tag: u32, operation: Operation, extent: Extent) {
    let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
    assert_eq!(device.submit(now, &command), Submit::Accepted);
}

/// Keeps `depth` commands of `next` in flight until `count` have completed.
pub fn run(device: &mut AnyDevice, depth: u32, count: u64, mut next: impl FnMut() -> (Operation, Extent)) -> Outcome {
    let mut outcome = Outcome { elapsed_ns: 0, latency_sum_ns: 0, completed: 0, errors: 0, checksum: fnv1a64(b"") };
    let mut submitted_ns = vec![0; depth as usize];
    for tag in 0..depth {
        let (operation, extent) = next();
        submit(device, 0, tag, operation, extent);
    }
    let mut completions: Vec<Completion> = Vec::new();
    while outcome.completed < count {
        let now = device.next_event();
        assert_ne!(now, NEVER, "commands are in flight");
        device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            assert!(completion.at_ns <= now && completion.at_ns >= outcome.elapsed_ns, "completions in order of time");
            let tag = completion.tag as usize;
            outcome.elapsed_ns = completion.at_ns;
            outcome.latency_sum_ns += completion.at_ns - submitted_ns[tag];
            outcome.completed += 1;
            outcome.errors += u64::from(!completion.status.is_ok());
            for bytes in [completion.at_ns, u64::from(completion.tag), completion.status as u64] {
                outcome.checksum = fnv1a64_continued(outcome.checksum, &bytes.to_le_bytes());
            }
            submitted_ns[tag] = completion.at_ns;
            let (operation, extent) = next();
            submit(device, completion.at_ns, completion.tag, operation, extent);
        }
    }
    outcome
}

/// Random reads of 4 KiB over the whole device.
pub fn random_reads(device: &AnyDevice, seed: u64) -> impl FnMut() -> (Operation, Extent) + use<> {
    random(device, Operation::Read, seed)
}

/// Random commands of 4 KiB over the whole device.
pub fn random(device: &AnyDevice, operation: Operation, seed: u64) -> impl FnMut() -> (Operation, Extent) + use<> {
    let mut stream = Stream::new(seed);
    let blocks = device.info().capacity_sectors / 8;
    move || (operation, Extent::new(stream.below(blocks) * 8, 8))
}

/// One sequential stream of commands of `sectors`.
pub fn sequential(operation: Operation, sectors: u32) -> impl FnMut() -> (Operation, Extent) {
    let mut first_sector = 0;
    move || {
        let extent = Extent::new(first_sector, sectors);
        first_sector += u64::from(sectors);
        (operation, extent)
    }
}
