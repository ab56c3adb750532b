//! The layers above the queue, cases 45 to 58 of the devices' specification, section 13. Case 45 page for page, and the
//! decisions of 47 and 48, are with the rules in `src/os/read_ahead.rs`; 52 needs CFQ and the calibrated disk.

mod experiments;

use experiment::{Experiment, Machine, Measurement};
use experiments::{KIB, MS, buffered_stream, experiment, random_reads, run};
use workload::Job;
use workload::job::{Amount, BlockSize, Mix, Pattern, PerDirection, Placement};

fn on(target: &str, scheduler: &str, machine: &str, job: Job) -> Experiment {
    groups_on(target, scheduler, machine, vec![("a", 100, job)])
}

fn groups_on(target: &str, scheduler: &str, machine: &str, groups: Vec<(&str, u32, Job)>) -> Experiment {
    let mut question = experiment(target, scheduler, groups);
    question.machine = Machine::parse(machine).unwrap();
    question
}

/// A buffered stream of another block size.
fn stream(mix: Mix, block_bytes: u32) -> Job {
    Job { block_sizes: PerDirection::all(BlockSize::Fixed(block_bytes)), ..buffered_stream(mix) }
}

fn mbps(measurement: &Measurement) -> f64 {
    measurement.bytes_per_s() / 1e6
}

fn kib_per_read(measurement: &Measurement) -> f64 {
    let read = measurement.device.read;
    read.sectors as f64 / 2.0 / read.ios as f64
}

#[test]
fn t46_dd_of_2_6_keeps_two_windows_outstanding() {
    for block_bytes in [1_024 * KIB, 4 * KIB] {
        let machine = "era=2.6,copy_mb_per_s=1800,complete_ns=15000,submit_ns=5000";
        let mut question = on("null,latency_us=10000", "noop", machine, stream(Mix::Read, block_bytes));
        (question.ramp_ns, question.runtime_ns) = (500 * MS, 4_000 * MS);
        let measurement = run(&question);
        // 256 KiB per 10 ms + 0.073 ms of copying + 0.02 ms.
        assert!((mbps(&measurement) / 26.0 - 1.0).abs() < 0.02, "{block_bytes}: {}", mbps(&measurement));
        assert_eq!(kib_per_read(&measurement), 128.0);
    }
}

#[test]
fn t47_random_buffered_reads_fetch_a_page_each() {
    let job = Job { direct: false, ..random_reads(1) };
    let measurement = run(&on("ssd", "noop", "", job));
    assert_eq!(kib_per_read(&measurement), 4.0);
    assert!(measurement.device.read.ios.abs_diff(measurement.groups[0].ios()) <= 1);
}

#[test]
fn t49_adjacent_bios_of_a_page_become_one_request_in_a_plug() {
    for (machine, kib) in [("raw_4k_bios=1", 128.0), ("era=2.6,raw_4k_bios=1", 128.0), ("era=3,raw_4k_bios=1", 128.0)] {
        let measurement = run(&on("ssd", "noop", machine, stream(Mix::Read, 64 * KIB)));
        assert!((kib_per_read(&measurement) / kib - 1.0_f64).abs() < 0.05, "{machine}: {}", kib_per_read(&measurement));
        let merges = measurement.device.read.merges as f64 / measurement.device.read.ios as f64;
        assert!((merges - 31.0).abs() < 1.5, "{machine}: {merges}");
    }
}

#[test]
fn t58_dd_of_today_reads_a_mebibyte_at_a_time_and_dd_of_2_6_windows() {
    let measurement = run(&on("ssd", "noop", "", stream(Mix::Read, 1_024 * KIB)));
    let info_kib = f64::from(device::Device::info(&device::Model::parse("ssd").unwrap().build(1, "d")).max_sectors) / 2.0;
    assert!((kib_per_read(&measurement) / info_kib.min(1_024.0) - 1.0).abs() < 0.01, "{}", kib_per_read(&measurement));
    let measurement = run(&on("ssd", "noop", "era=2.6", stream(Mix::Read, 1_024 * KIB)));
    assert!((kib_per_read(&measurement) / 128.0 - 1.0).abs() < 0.05, "{}", kib_per_read(&measurement));
}

#[test]
fn t53_a_writer_of_today_runs_free_then_follows_the_device() {
    let mut question = on("sata", "noop", "memory_mib=1024", stream(Mix::Write, 64 * KIB));
    (question.ramp_ns, question.runtime_ns) = (0, 12_000 * MS);
    let measurement = run(&question);
    let samples = &measurement.groups[0].write.samples;
    // 15 % of nine tenths of 1 GiB at memory speed, within the first second.
    assert!(samples[0].bytes > 140_000_000, "{}", samples[0].bytes);
    let device: u64 = measurement.device.write.sectors * 512 / 12;
    for sample in &samples[3..] {
        let share = sample.bytes as f64 / device as f64;
        assert!((share - 1.0).abs() < 0.15, "{} against {device} at {} s", sample.bytes, sample.at_ns / 1_000_000_000);
    }
}

#[test]
fn t53_a_writer_of_2_6_stalls_and_writes_itself() {
    let mut question = on("sata", "noop", "era=2.6,memory_mib=1024", stream(Mix::Write, 64 * KIB));
    (question.ramp_ns, question.runtime_ns) = (3_000 * MS, 5_000 * MS);
    let measurement = run(&question);
    let write = &measurement.groups[0].write;
    assert!(write.latency.max_ns() >= 100 * MS, "{}", write.latency.max_ns());
    assert!(mbps(&measurement) > 30.0, "{}", mbps(&measurement));
}

/// Files of 250 MB, laid out as ext3 does after years.
#[test]
fn t51_the_block_map_is_read_once_per_4_mib() {
    let job = Job {
        size: Some(Amount::Bytes(248 << 20)),
        placement: Placement::Own,
        number_ios: Some(1_000),
        time_based: false,
        pattern: Pattern::Random { run: 1, repeat_offset: false },
        ..random_reads(1)
    };
    let mut question = on("sata", "noop", "fs=ext3,layout=aged", job);
    (question.ramp_ns, question.runtime_ns) = (0, 60_000 * MS);
    let measurement = run(&question);
    assert_eq!(measurement.groups[0].ios(), 1_000);
    let maps = measurement.device.read.ios - 1_000;
    // 62 (1 - (1 - 1/62)^1000) = 62.0.
    assert!((61..=62).contains(&maps), "{maps}");
}

#[test]
fn t57_a_write_bomb_ruins_a_readers_day_under_noop() {
    let reader = Job {
        rate_ios_per_s: PerDirection { read: 10, ..PerDirection::default() },
        direct: false,
        size: Some(Amount::Bytes(8 << 30)),
        ..random_reads(1)
    };
    let bomb = Job { size: Some(Amount::Bytes(1_000 << 20)), ..stream(Mix::Write, 1_024 * KIB) };
    let machine = "era=2.6,memory_mib=512";
    let mean_ms = |scheduler: &str, with_bomb: bool| {
        let mut groups = vec![("reader", 100, reader.clone())];
        if with_bomb {
            groups.push(("bomb", 100, bomb.clone()));
        }
        let mut question = groups_on("sata", scheduler, machine, groups);
        (question.ramp_ns, question.runtime_ns) = (3_000 * MS, 20_000 * MS);
        let latency = run(&question).groups[0].read.latency.clone();
        (latency.mean_ns() / 1e6, latency.max_ns() / MS)
    };
    let (idle, _) = mean_ms("noop", false);
    let (under_bomb, _) = mean_ms("noop", true);
    assert!(under_bomb > 20.0 * idle, "{under_bomb} ms against {idle} ms");
}
