//! Fuzzes device models with settings, `model:ssd,channels=8`, and files of models: arbitrary text,
//! and commands to every accepted model.

use crate::target::{Seen, Target};
use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Operation, Status};
use hoistway_device::{AnyDevice, Command, Device, Model, NEVER, Preset, Submit};

pub const TARGET: Target = Target {
    name: "device-model",
    promise: "no panic; an accepted model can be built and answers each command once, not before its submission",
    run,
    corpus,
    tokens: &[
        b"model:",
        b"null",
        b"sata",
        b"hdd",
        b"wd2500js",
        b"ide2003",
        b"raid5x12",
        b"raid5x12-stream",
        b"ssd",
        b"ssd-lsi",
        b"ssd-plextor",
        b"nvme",
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
        b"dies_per_channel=",
        b"planes=",
        b"page_kib=",
        b"pages_per_block=",
        b"t_read_us=",
        b"t_prog_us=",
        b"t_erase_us=",
        b"channel_MBps=",
        b"link_MBps=",
        b"cmd_us=",
        b"serial_us=",
        b"write_buffer_kib=",
        b"overprovision=",
        b"gc_low=",
        b"read_priority=",
        b"none",
        b"residual",
        b"suspend",
        b"die_hold=",
        b"plp=",
        b"sim_mib=",
        b"precondition=",
        b"fill",
        b"random",
        b"random_mult=",
        b"rpm=",
        b"heads=",
        b"zones=",
        b"spt_outer=",
        b"spt_inner=",
        b"seek_track_ms=",
        b"seek_avg_ms=",
        b"seek_full_ms=",
        b"seek_jitter_ms=",
        b"commit=",
        b"transfer_end",
        b"coalesce=",
        b"age_weight=",
        b"segments=",
        b"segment_kib=",
        b"readahead_kib=",
        b"write_cache=",
        b"wc_entries=",
        b"wc_kib=",
        b"ncq=",
        b"max_age_ms=",
        b"disks=",
        b"level=",
        b"chunk_kib=",
        b"ctl_latency_us=",
        b"prefetch_kib=",
        b"write_back=",
        b"write_cache_mib=",
        b"destage_low=",
        b"disk.",
        b"read_delay_us=",
        b"delay_jitter_us=",
        b"cap_iops=",
        b"cap_burst_ios=",
        b"cap_MBps=",
        b"slc_mib=",
        b"slc_fold_MBps=",
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
        b"type = \"hdd\"\n",
        b"type = \"raid\"\n",
        b"type = \"flash\"\n",
        b"base = \"sata\"\n",
        b"[disk]\n",
        b"[[anchor]]\n",
        b"seek_table = [[1, 0.5], [90000, 9]]\n",
        b"published = ",
        b"figure = \"iops\"\n",
        b"unit = \"1/s\"\n",
        b"seeds = [1, 2]\n",
        b"job = \"\"\"\n",
        b"\n",
        b"true",
        b"false",
        b"[",
        b"-1",
        b"1e9",
        b"nan",
    ],
    longest_bytes: 1_024,
};

/// Commands given to each device.
const COMMANDS: u32 = 64;

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    // Text with several lines is a file; files that `base` and names with a slash refer to are
    // read, but are not fuzzed.
    let read = if text.contains('\n') { Preset::read("fuzz.toml", text).map(checked) } else { Model::parse(text) };
    match read {
        Ok(model) => {
            let errors =
                if is_small(&model) { Host::new(model.build(1, "dev0"), model.capacity_sectors()).drive() } else { 0 };
            let settings = text.split([',', '\n']).filter_map(|setting| setting.split_once('='));
            settings.fold(Seen::NOTHING.and_count(errors), |seen, (key, _)| seen.and(key.trim().as_bytes()))
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty(), "a refusal without a reason");
            Seen::NOTHING.and_message(&message, text)
        }
    }
}

/// The model of a file, which must be the same after it has been written and read again.
fn checked(preset: Preset) -> Model {
    let written = preset.to_toml();
    let again = Preset::read("again.toml", &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again.model.settings(), preset.model.settings(), "{written}");
    assert_eq!(again.anchors, preset.anchors, "{written}");
    preset.model
}

/// Whether building it takes little time and memory: the mapping of a flash device or the seek
/// tables of many disks may be large.
fn is_small(model: &Model) -> bool {
    let value = |key: &str| {
        let settings = model.settings();
        let value = settings.iter().find(|setting| setting.key == key).map(|setting| setting.value.clone());
        value.and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let flash_mib = value("sim_mib") * (1.0 + value("random_mult"));
    flash_mib <= 50_000.0
        && value("disks") <= 16.0
        && value("write_cache_mib") <= 4_096.0
        && value("read_cache_mib") <= 4_096.0
}

/// Keeps the first hardware queue of a device busy with random commands.
struct Host {
    device: AnyDevice,
    capacity_sectors: u64,
    random: Stream,
    now: u64,
    /// When each command was submitted, until it completes.
    begun_ns: Vec<Option<u64>>,
    in_flight: usize,
    errors: usize,
}

impl Host {
    fn new(device: AnyDevice, capacity_sectors: u64) -> Self {
        let random = Stream::new(3);
        Self { device, capacity_sectors, random, now: 1_000, begun_ns: Vec::new(), in_flight: 0, errors: 0 }
    }

    /// Submits all commands and waits for them; returns the number of errors.
    fn drive(mut self) -> usize {
        let depth = usize::try_from(self.device.info().depth).unwrap_or(usize::MAX);
        // A device has a few internal events per command, and far fewer than this.
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
        "model:ssd,seed=7,channels=4,qd=16,t_read_us=12.5,sim_mib=512",
        "null,latency_us=10,servers=2,inline=0,mbps=100,iops=5000",
        "null,inline=1",
        "nvme,page_kib=8,hw_queues=4,t_read_jitter_us=3,plp=0,sim_mib=1024",
        "ssd-plextor,precondition=random,random_mult=0.5,sim_mib=256,pages_per_block=16",
        "nvme-slc,sim_mib=256,slc_mib=1,slc_fold_MBps=1,cap_iops=500,cap_burst_ios=3,cap_write_cost=0.5,cap_MBps=9",
        "sata,rpm=15000,ncq=0,readahead_kib=256,max_age_ms=50",
        "hdd,seek_full_ms=20,seek_track_ms=1,spt_outer=1500,write_settle_ms=1,write_cache=0",
        "raid5x12,disks=5,disk.rpm=5400,chunk_kib=64,destage_age_ms=1",
        "raid5x12-stream,level=0,write_back=0",
        "ssd,error_ppm=100000,stall_ppm=100000,stall_ms=5,reset_ppm=50000,reset_ms=7,sim_mib=256",
        "ssd,read_delay_us=100,write_delay_us=7,flush_delay_us=1,delay_jitter_us=9,bad_first_sector=8,bad_sectors=64",
        "type = \"hdd\"\nrpm = 5_400\nseek_avg_ms = 9.5\nreorder = false\ncommit = \"transfer_end\"\n",
        "base = \"sata\"\nseek_table = [[1, 0.5], [1000, 2.25], [90000, 9]]\n",
        "# mine\nbase = \"raid5x12\"\ndoc = \"x\"\nlevel = 0\n[disk]\nbase = \"ide2003\"\nsegments = 4\n",
        "type = \"flash\"\nsim_mib = 256\n[[anchor]]\nname = \"a\"\nfigure = \"bandwidth\"\npublished = [1, 2.5]\n\
         unit = \"MiB/s\"\nscheduler = \"noop\"\nseeds = [1, 2]\noffsets_mb = [0, 5]\njob = \"\"\"\n[j]\nrw=read\n\"\"\"\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
