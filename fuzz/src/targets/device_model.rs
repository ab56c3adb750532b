//! Device models with settings, `model:ssd,channels=8`: any text, and commands to whatever is accepted.

use crate::target::{Seen, Target};
use block::random::Stream;
use block::{Extent, Flags, HardwareQueue, Operation, Status};
use device::{AnyDevice, Command, Device, Model, NEVER, Submit};

pub const TARGET: Target = Target {
    name: "device-model",
    promise: "no panic; what is accepted can be built and answers each command once, not before it came",
    run,
    corpus,
    tokens: &[
        b"model:",
        b"null",
        b"ssd",
        b"nvme",
        b"sata",
        b",",
        b"=",
        b"capacity_sectors=",
        b"latency_us=",
        b"servers=",
        b"qd=",
        b"hw_queues=",
        b"mbps=",
        b"iops=",
        b"inline=",
        b"max_sectors=",
        b"volatile_cache=",
        b"fua=",
        b"channels=",
        b"t_read_us=",
        b"t_prog_us=",
        b"t_flush_us=",
        b"jitter_us=",
        b"cmd_us=",
        b"stripe_sectors=",
        b"rpm=",
        b"spt=",
        b"seek_track_ms=",
        b"seek_full_ms=",
        b"seek_jitter_ms=",
        b"readahead_sectors=",
        b"ncq=",
        b"max_age_ms=",
        b"read_delay_us=",
        b"delay_jitter_us=",
        b"error_ppm=",
        b"bad_first_sector=",
        b"bad_sectors=",
        b"stall_ppm=",
        b"stall_ms=",
        b"reset_ppm=",
        b"reset_ms=",
        b"seed=",
        b"0",
        b"1",
        b"0.001",
        b"1000000",
        b"18446744073709551615",
    ],
    longest_bytes: 512,
};

/// Commands given to each device.
const COMMANDS: u32 = 64;

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    match Model::parse(text) {
        Ok(model) => {
            let errors = Host::new(model.build(1, "dev0"), model.capacity_sectors()).drive();
            let settings = text.split(',').filter_map(|setting| setting.split_once('='));
            settings.fold(Seen::NOTHING.and_count(errors), |seen, (key, _)| seen.and(key.as_bytes()))
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty(), "a refusal without a reason");
            Seen::NOTHING.and_message(&message, text)
        }
    }
}

/// Keeps the first hardware queue of a device busy with random commands.
struct Host {
    device: AnyDevice,
    capacity_sectors: u64,
    random: Stream,
    now: u64,
    /// When each command was submitted, until it is answered.
    begun_ns: Vec<Option<u64>>,
    in_flight: usize,
    errors: usize,
}

impl Host {
    fn new(device: AnyDevice, capacity_sectors: u64) -> Self {
        let random = Stream::new(3);
        Self { device, capacity_sectors, random, now: 1_000, begun_ns: Vec::new(), in_flight: 0, errors: 0 }
    }

    /// Submits and awaits all commands; the number of errors among the answers.
    fn drive(mut self) -> usize {
        let depth = usize::try_from(self.device.info().depth).unwrap_or(usize::MAX);
        // A device has a few events of its own for each command, and far fewer than this.
        for _ in 0..COMMANDS * 1_000 {
            let may_submit = self.begun_ns.len() < COMMANDS as usize && self.in_flight < depth;
            if may_submit && self.submit() {
                continue;
            }
            let at = self.device.next_event();
            if at == NEVER {
                break;
            }
            self.advance_to(at);
        }
        let answered = self.begun_ns.iter().filter(|begun| begun.is_none()).count();
        assert_eq!(answered, COMMANDS as usize, "commands answered (left) and given (right)");
        self.errors
    }

    fn submit(&mut self) -> bool {
        let tag = u32::try_from(self.begun_ns.len()).unwrap_or(u32::MAX);
        let longest = u64::from(self.device.info().max_sectors).clamp(1, 64);
        let sectors = u32::try_from(self.random.below(longest) + 1).unwrap_or(1);
        let first_sector = self.random.below(self.capacity_sectors);
        let (operation, extent) = match tag % 4 {
            0 => (Operation::Read, Extent::new(first_sector, sectors)),
            1 => (Operation::Write, Extent::new(first_sector, sectors)),
            2 => (Operation::Discard, Extent::new(first_sector, sectors)),
            _ => (Operation::Flush, Extent::default()),
        };
        let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
        let is_taken = self.device.submit(self.now, &command) == Submit::Accepted;
        if is_taken {
            self.begun_ns.push(Some(self.now));
            self.in_flight += 1;
        }
        is_taken
    }

    fn advance_to(&mut self, at: u64) {
        self.now = self.now.max(at);
        let mut done = Vec::new();
        self.device.advance(self.now, &mut done);
        for completion in done {
            let begun = self.begun_ns.get_mut(completion.tag as usize).and_then(Option::take);
            assert!(begun.is_some_and(|begun| begun <= completion.at_ns), "{completion:?}, submitted at {begun:?}");
            assert!(completion.at_ns <= self.now, "{completion:?}, told at {}", self.now);
            self.errors += usize::from(completion.status != Status::Ok);
            self.in_flight -= 1;
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    [
        "model:ssd,seed=7,channels=4,qd=16,t_read_us=12.5",
        "null,latency_us=10,servers=2,inline=0,mbps=100,iops=5000",
        "null,inline=1",
        "nvme,stripe_sectors=8,hw_queues=4,jitter_us=3,volatile_cache=1",
        "sata,rpm=15000,ncq=0,readahead_sectors=256,max_age_ms=50",
        "hdd,seek_full_ms=20,seek_track_ms=1,spt=500,write_settle_ms=1",
        "ssd,error_ppm=100000,stall_ppm=100000,stall_ms=5,reset_ppm=50000,reset_ms=7",
        "ssd,read_delay_us=100,write_delay_us=7,flush_delay_us=1,delay_jitter_us=9,bad_first_sector=8,bad_sectors=64",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
