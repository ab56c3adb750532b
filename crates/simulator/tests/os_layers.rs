//! The layers above the queue. Source: docs/specifications/devices.md, section 13, cases 45 to 58.
//! Case 45 page for page, and the decisions of 47 and 48, are tested with the rules in
//! `src/os/read_ahead.rs`; 52 needs CFQ and the calibrated disk, and is tested in
//! crates/cli/tests/devices.rs.

mod experiments;

use experiments::{KIB, MS, buffered_stream, experiment, random_reads, run};
use hoistway_experiment::{Experiment, Machine, Measurement};
use hoistway_workload::Job;
use hoistway_workload::job::{Amount, BlockSize, Mix, Pattern, PerDirection, Placement};

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
    buffered_stream(mix).with(|job| job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(block_bytes)))
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

/// Twelve readers would keep 24 windows in a queue of 16 requests, and wait for each other's; 2.6
/// skips read-ahead while the queue is congested.
#[test]
fn reading_ahead_is_put_off_while_the_queue_of_2_6_is_congested() {
    let job = stream(Mix::Read, 4 * KIB).with(|job| {
        job.threads = 12;
        job.area.placement = Placement::Own;
    });
    let mut question = on("null,latency_us=10000,queue_depth=64", "noop", "era=2.6", job);
    (question.ramp_ns, question.runtime_ns) = (500 * MS, 2_000 * MS);
    question.queue_requests = Some(16);
    let read = run(&question).groups[0].read.clone();
    // No reader waits for more than one window of its own.
    assert!(read.latency.max_ns() < 11 * MS, "{} us at worst", read.latency.max_ns() / 1_000);
}

#[test]
fn t47_random_buffered_reads_fetch_a_page_each() {
    let job = random_reads(1).with(|job| job.submission.direct = false);
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
    let info_kib = f64::from(
        hoistway_device::Device::info(&hoistway_device::Model::parse("ssd").unwrap().build(1, "d")).max_sectors,
    ) / 2.0;
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

/// Files of 250 MB, fragmented as on an aged ext3.
#[test]
fn t51_the_block_map_is_read_once_per_4_mib() {
    let job = random_reads(1).with(|job| {
        job.area.size = Some(Amount::Bytes(248 << 20));
        job.area.placement = Placement::Own;
        job.area.number_ios = Some(1_000);
        job.times.time_based = false;
        job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
    });
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
    let reader = random_reads(1).with(|job| {
        job.pacing.rate_ios_per_s = PerDirection { read: 10, ..PerDirection::default() };
        job.submission.direct = false;
        job.area.size = Some(Amount::Bytes(8 << 30));
    });
    let bomb = stream(Mix::Write, 1_024 * KIB).with(|job| job.area.size = Some(Amount::Bytes(1_000 << 20)));
    let machine = "era=2.6,memory_mib=512";
    let mean_ms = |scheduler: &str, with_bomb: bool, depth: Option<u32>| {
        let mut groups = vec![("reader", 100, reader.clone())];
        if with_bomb {
            groups.push(("bomb", 100, bomb.clone()));
        }
        let mut question = groups_on("sata", scheduler, machine, groups);
        (question.ramp_ns, question.runtime_ns) = (3_000 * MS, 20_000 * MS);
        question.device_depth = depth;
        let latency = run(&question).groups[0].read.latency.clone();
        (latency.mean_ns() / 1e6, latency.max_ns() / MS)
    };
    let (idle, _) = mean_ms("noop", false, None);
    let (under_bomb, _) = mean_ms("noop", true, None);
    assert!(under_bomb > 20.0 * idle, "{under_bomb} ms against {idle} ms");
    // Expired reads go first: half a second of waiting, the rest of a batch of writes, and one more
    // batch. Without NCQ, because the drive serves its own queue in any order.
    let (_, worst_ms) = mean_ms("mq-deadline", true, Some(1));
    assert!(worst_ms < 1_100, "{worst_ms} ms at worst");
}

fn appends_and_syncs() -> Job {
    // The journal is in the middle of the disk; the case is about a file near it. With a file at
    // the edge every sync seeks across half the disk and back, 25 times a second with a write cache
    // or without.
    stream(Mix::Write, 4 * KIB).with(|job| {
        job.submission.fsync_every = 1;
        job.area.offset = Amount::Bytes(116 << 30);
        job.area.size = Some(Amount::Bytes(256 << 20));
    })
}

/// Syncs per second, and writes and flushes of the device per sync.
fn syncs(target: &str, machine: &str) -> (f64, f64, f64) {
    let machine = format!("journal=1,files_exist=0,{machine}");
    let mut question = on(target, "mq-deadline", &machine, appends_and_syncs());
    question.runtime_ns = 10_000 * MS;
    let measurement = run(&question);
    let syncs = measurement.groups[0].sync.ios as f64;
    let device = &measurement.device;
    (measurement.per_s(measurement.groups[0].sync.ios), device.write.ios as f64 / syncs, device.flushes as f64 / syncs)
}

#[test]
fn t55_an_append_with_fsync_is_data_journal_and_commit() {
    for era in ["era=mq", "era=3", "era=2.6"] {
        let (rate, writes, _) = syncs("sata", era);
        // Data, descriptor with blocks, commit block; at least one flush where the cache is
        // volatile.
        assert!((writes - 3.0).abs() < 0.1, "{era}: {writes} writes a sync");
        assert!((25.0..=60.0).contains(&rate), "{era}: {rate}");
        // Without a volatile cache nothing is flushed, and every write waits for its place on the
        // platter.
        let (rate, _, flushes) = syncs("sata,write_cache=0", era);
        assert!((40.0..=60.0).contains(&rate) && flushes == 0.0, "{era}: {rate}, {flushes} flushes");
    }
}

#[test]
fn t55_a_cache_that_survives_power_loss_syncs_5000_times_a_second() {
    let (rate, _, _) = syncs("nvme", "");
    assert!(rate > 5_000.0, "{rate}");
}

#[test]
fn t55_without_metadata_there_is_data_and_a_flush() {
    let measurement = run(&on("ssd", "noop", "journal=1", appends_and_syncs()));
    let syncs = measurement.groups[0].sync.ios as f64;
    let device = &measurement.device;
    let per_sync = [device.write.sectors / 8, device.flushes].map(|count| count as f64 / syncs);
    assert!(per_sync.iter().all(|count| (count - 1.0).abs() < 0.02), "{per_sync:?}");
}

#[test]
fn t50_two_hundred_readers_of_a_disk_share_64_requests() {
    let mut job = random_reads(1);
    job.threads = 200;
    let mut question = on("sata", "mq-deadline", "", job);
    question.runtime_ns = 40_000 * MS;
    let measurement = run(&question);
    // 64 requests had a tag, of which the disk had 32. The other threads slept until a tag was
    // free.
    let in_flight = measurement.device.weighted_ns as f64 / measurement.device.busy_ns as f64;
    assert!((in_flight - 64.0).abs() < 1.0, "{in_flight}");
    // The longest sleeper is admitted first, so that no thread gets much more than another.
    let counts: Vec<_> = measurement.groups[0].threads.iter().map(|thread| thread.ios).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least > 10 && most - least <= most / 3, "{least} to {most}");
}

#[test]
fn t54_bonnie_of_2_4_on_the_ide_disk_of_2003() {
    let file = Some(Amount::Bytes(1 << 30));
    // Flushing starts above 128 MiB, with a limit of 256 MiB; copies at 0.25 GB/s.
    let machine = "era=2.4,memory_mib=475,copy_mb_per_s=250";
    let measured = |mix: Mix| {
        let job = stream(mix, 4 * KIB).with(|job| {
            job.area.size = file;
            job.times.time_based = false;
            job.times.runtime_ns = None;
            job.submission.end_fsync = mix == Mix::Write;
        });
        // The elevator of 2.4.20. With `noop`, which keeps the order of arrival, writer and flusher
        // move the arm to and fro.
        let mut question = on("ide2003", "linus", machine, job);
        (question.ramp_ns, question.runtime_ns) = (0, 120_000 * MS);
        run(&question)
    };
    let (write, read) = (measured(Mix::Write), measured(Mix::Read));
    let per_write = write.device.write.sectors as f64 / 2.0 / write.device.write.ios as f64;
    // Buffers of 4 KiB merge in the queue, up to 128 KiB.
    assert!(per_write > 100.0 && kib_per_read(&read) > 120.0, "{per_write} KiB");
    for (what, measured, modelled, published) in
        [("write", mbps(&write), 34_245.0, 34_939.0), ("read", mbps(&read), 34_990.0, 34_112.0)]
    {
        let kib = measured * 1e6 / 1024.0;
        assert!((kib / modelled - 1.0).abs() < 0.03, "{what}: {kib} KiB/s");
        assert!((kib / published - 1.0).abs() < 0.05, "{what}: {kib} KiB/s");
    }
}

/// Clients of a file server on a device of 1 ms per command.
fn clients(count: u32) -> Job {
    let mut job = Job::of(hoistway_workload::Program::parse("dbench").unwrap());
    (job.threads, job.times.time_based, job.times.runtime_ns) = (count, true, Some(1 << 50));
    job
}

#[test]
fn t56_no_client_passes_its_fsync_before_the_commit_block() {
    let target = "null,latency_us=1000,volatile_cache=1,fua=1";
    let mut question = on(target, "noop", "journal=1", clients(6));
    question.runtime_ns = 2_000 * MS;
    let measurement = run(&question);
    let sync = &measurement.groups[0].sync;
    // Data, blocks, flush and commit block: 4 ms in sequence. A sync that arrives during a commit
    // waits for the next.
    assert!(sync.ios > 500, "{}", sync.ios);
    assert!(sync.latency.percentile_ns(5.0) >= 4 * MS, "{}", sync.latency.percentile_ns(5.0));
    assert!(sync.latency.max_ns() < 12 * MS, "{}", sync.latency.max_ns());
    // One commit at a time: each takes 3 ms with its flush, and 1 ms of data before it.
    let flushes = measurement.device.flushes;
    assert!(flushes > 300 && flushes <= 667, "{flushes}");
}

#[test]
fn t56_the_journal_thread_has_a_weight_of_its_own() {
    let median_ms = |weight: u32| {
        let machine = format!("journal=1,journal_weight={weight}");
        let mut question =
            groups_on("ssd", "wfq", &machine, vec![("load", 400, random_reads(32)), ("clients", 100, clients(6))]);
        question.device_depth = Some(2);
        question.runtime_ns = 2_000 * MS;
        run(&question).groups[1].sync.latency.percentile_ns(50.0) as f64 / 1e6
    };
    let (light, heavy) = (median_ms(10), median_ms(1_000));
    assert!(heavy < 0.8 * light, "{heavy} ms with a heavy journal, {light} ms with a light one");
}

/// Reads per second of four processes with 16 in flight each, on a device of 10 us.
fn rate_with(machine: &str) -> f64 {
    let mut job = random_reads(16);
    job.threads = 4;
    run(&on("null,latency_us=10", "noop", machine, job)).ios_per_s()
}

#[test]
fn costs_the_elevators_lock_is_taken_by_one_at_a_time() {
    // 1 us each to insert, to choose and to complete.
    let rate = rate_with("submit_ns=0,complete_ns=0,sched_ns_per_op=1000");
    assert!((rate / 333_333.0 - 1.0).abs() < 0.03, "{rate}");
}

#[test]
fn costs_a_processor_serves_its_processes_in_turn() {
    let limited = rate_with("submit_ns=5000,complete_ns=5000,cpus=1,cpu_limit=1");
    assert!((limited / 100_000.0 - 1.0).abs() < 0.03, "{limited}");
    let free = rate_with("submit_ns=5000,complete_ns=5000,cpus=1");
    assert!((free / 800_000.0 - 1.0).abs() < 0.03, "{free}");
}

#[test]
fn costs_an_interrupt_waits_for_others() {
    let question = on("null,latency_us=10", "noop", "irq_coalesce_ns=20000", random_reads(1));
    let latency = run(&question).groups[0].read.latency.clone();
    // 10 us in the device, 20 us until its interrupt, 3 us until the process runs.
    assert_eq!((latency.mean_ns(), latency.max_ns()), (33_000.0, 33_000));
}

#[test]
fn a_warm_cache_answers_without_the_device() {
    let job = random_reads(1).with(|job| {
        job.area.size = Some(Amount::Bytes(64 << 20));
        job.submission.direct = false;
    });
    let measurement = run(&on("sata", "noop", "warm=1", job));
    assert_eq!(measurement.device.read.ios, 0);
    // 300 ns for the call and 819 ns of copying.
    assert_eq!(measurement.groups[0].read.latency.max_ns(), 1_119);
}

#[test]
fn read_failures_reach_the_reader() {
    let mut job = stream(Mix::Read, 64 * KIB);
    *job.checks.continue_on_error.of_mut(hoistway_workload::job::Direction::Read) = true;
    let measurement = run(&on("ssd-lsi,error_ppm=20000", "noop", "", job));
    assert!(measurement.groups[0].read.errors["EIO"] > 5, "{:?}", measurement.groups[0].read.errors);
}

#[test]
fn frames_that_come_too_late_are_counted() {
    let late = |target: &str| {
        let job = Job::of(hoistway_workload::Program::parse("video").unwrap());
        let mut question = on(
            target,
            "noop",
            "",
            job.with(|job| {
                job.times.time_based = true;
                job.times.runtime_ns = Some(1 << 50);
            }),
        );
        question.runtime_ns = 2_000 * MS;
        run(&question).groups[0].late
    };
    assert_eq!(late("null,latency_us=100"), 0);
    assert!(late("null,latency_us=300000") > 2);
}
