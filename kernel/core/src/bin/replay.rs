//! `replay FILE...`: replays the calls that a kernel recorded (debugfs `hoistway/DISK/config`
//! followed by `calls`), and requires the same answers. Exit code 1 at the first difference.

use kernel::{Config, DevicePolicy, Record, elevator_type};
use std::process::ExitCode;

/// Reads little-endian numbers from a file, in order.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => [0; N],
        }
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn config(&mut self) -> Config {
        Config {
            policy: self.u32(),
            slots: self.u32(),
            groups: self.u32(),
            contexts: self.u32(),
            requests: self.u32(),
            device: self.u32(),
            max_sectors: self.u32(),
            hardware_queues: self.u16(),
            software_queues: self.u16(),
            capacity_sectors: self.u64(),
            seed: self.u64(),
            rotational: self.u32(),
            queueing: self.u32(),
            version: self.u64(),
        }
    }

    fn record(&mut self) -> Record {
        Record {
            call: self.u32(),
            id: self.u32(),
            now_ns: self.u64(),
            ask: kernel::Ask {
                sector: self.u64(),
                sectors: self.u32(),
                context: self.u32(),
                group: self.u32(),
                flags: self.u16(),
                priority: self.u16(),
                segments: self.u16(),
                hardware_queue: self.u16(),
                software_queue: self.u16(),
                operation: u8::from_le_bytes(self.take()),
                unused: u8::from_le_bytes(self.take()),
            },
            answer: self.u64(),
            answer_more: self.u64(),
        }
    }
}

/// Replays one file. The records end with the file, or with zeros.
fn replay(bytes: &[u8]) -> Result<String, String> {
    let mut reader = Reader(bytes);
    let config = reader.config();
    let name =
        elevator_type(config.policy).map(|elevator_type| elevator_type.entry.name).ok_or("no policy of that number")?;
    let mut device_policy = DevicePolicy::try_new(&config).map_err(|why| format!("{name}: {why:?}"))?;
    let mut calls = 0_u64;
    while !reader.0.is_empty() {
        let record = reader.record();
        if record.call == 0 {
            break;
        }
        calls += 1;
        let given = (record.answer, record.answer_more);
        match record.play(&mut device_policy) {
            Some(now) if now == given => {}
            Some(now) => return Err(format!("{name}: call {calls} answers {now:x?} here, in the kernel {record:x?}")),
            None => return Err(format!("{name}: call {calls} is none: {record:x?}")),
        }
    }
    let stats = device_policy.stats();
    device_policy.check().map_err(|broken| format!("{name}: {} at {}", broken.what, broken.at))?;
    if stats.faults != 0 {
        return Err(format!("{name}: {} faults", stats.faults));
    }
    Ok(format!("{name}: {calls} calls, {} requests: identical", stats.finished))
}

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for path in std::env::args().skip(1) {
        let outcome = std::fs::read(&path).map_err(|why| why.to_string()).and_then(|bytes| replay(&bytes));
        match outcome {
            Ok(line) => println!("{line}"),
            Err(why) => {
                eprintln!("replay: {path}: {why}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
