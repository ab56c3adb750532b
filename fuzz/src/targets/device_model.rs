//! Device models with settings, `model:ssd,channels=8`: any text, and commands to whatever is accepted.

use crate::target::{Seen, Target};
use block::random::Stream;
use block::{Extent, Flags, HardwareQueue, Operation};
use device::{AnyDevice, Command, Device, Model, NEVER, Submit};

pub const TARGET: Target = Target {
    name: "device-model",
    promise: "no panic; whatever is accepted can be built and answers each command once, not before it came",
    run,
    corpus: || {
        [
            "model:ssd",
            "null",
            "nvme,channels=4",
            "sata,rpm=15000",
            "hdd,seed=7",
            "null,delay_ns=1000",
            "ssd,stall_ppm=1000",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    tokens: &[
        b"model:",
        b"null",
        b"ssd",
        b"nvme",
        b"sata",
        b",",
        b"=",
        b"channels=",
        b"capacity=",
        b"capacity_gib=",
        b"depth=",
        b"read_us=",
        b"write_us=",
        b"rpm=",
        b"seed=",
        b"error_ppm=",
        b"stall_ppm=",
        b"stall_ms=",
        b"delay_us=",
        b"jitter_us=",
        b"0",
        b"1",
        b"18446744073709551615",
        b"1000000",
        b"k",
        b"GiB",
    ],
    longest_bytes: 512,
};

/// Commands given to each device.
const COMMANDS: u32 = 64;

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    match Model::parse(text) {
        Ok(model) => {
            let answered = drive(&mut model.build(1, "dev0"), model.capacity_sectors());
            Seen::NOTHING.and_count(answered)
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty(), "a refusal without a reason");
            Seen::NOTHING.and_message(&message, text)
        }
    }
}

/// Random commands, as many in flight as the device takes; the number of errors among the answers.
fn drive(device: &mut AnyDevice, capacity_sectors: u64) -> usize {
    let mut random = Stream::new(3);
    let most = usize::try_from(COMMANDS).unwrap_or(0).min(device.info().total_depth());
    let mut submitted_ns = vec![None; COMMANDS as usize];
    let (mut now, mut in_flight, mut errors, mut next_tag) = (1_000, 0, 0, 0);
    let mut done = Vec::new();
    // Each turn submits or waits for one event; a device needs a few events per command at most.
    for _ in 0..COMMANDS * 64 {
        if next_tag < COMMANDS && in_flight < most {
            let sectors = u32::try_from(random.below(64) + 1).unwrap_or(1);
            let first_sector = random.below(capacity_sectors.saturating_sub(64).max(1));
            let operation =
                [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard][(next_tag % 4) as usize];
            let extent =
                if operation == Operation::Flush { Extent::default() } else { Extent::new(first_sector, sectors) };
            let command =
                Command { tag: next_tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            if device.submit(now, &command) == Submit::Accepted {
                submitted_ns[next_tag as usize] = Some(now);
                in_flight += 1;
                next_tag += 1;
                continue;
            }
        }
        let at = device.next_event();
        if at == NEVER {
            break;
        }
        now = now.max(at);
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            let begun = submitted_ns.get_mut(completion.tag as usize).and_then(Option::take);
            assert!(begun.is_some_and(|begun| begun <= completion.at_ns), "{completion:?}, submitted at {begun:?}");
            errors += usize::from(completion.status != block::Status::Ok);
            in_flight -= 1;
        }
    }
    errors
}
