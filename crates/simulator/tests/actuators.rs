//! A drive with two actuators, and what a scheduler gains by knowing them (bfq since Linux 6.3).

mod experiments;

use experiments::{KIB, MS, experiment, random_reads, run};
use hoistway_experiment::Measurement;
use hoistway_workload::Job;
use hoistway_workload::job::{Amount, BlockSize, Pattern, PerDirection};

/// A sequential reader of blocks of 128 KiB, which starts anywhere on the disk of 250 GB.
fn stream_from(gigabytes: u64) -> Job {
    random_reads(1).with(|job| {
        job.name = "stream".to_owned();
        job.shape.pattern = Pattern::Sequential { skip_bytes: 0 };
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(128 * KIB));
        job.area.file = "disk".to_owned();
        job.area.offset = Amount::Bytes(gigabytes * 1_000_000_000);
        job.area.size = Some(Amount::Bytes(20_000_000_000));
    })
}

/// Random reads from the whole disk.
fn anywhere(depth: u32) -> Job {
    random_reads(depth).with(|job| {
        job.area.file = "disk".to_owned();
        job.area.size = Some(Amount::Bytes(240_000_000_000));
    })
}

/// Megabytes per second of each group.
fn rates(measurement: &Measurement) -> Vec<f64> {
    measurement.groups.iter().map(|group| measurement.per_s(group.bytes()) / 1e6).collect()
}

fn on_drive(actuators: u32, scheduler: &str, groups: Vec<(&str, u32, Job)>) -> f64 {
    let mut question = experiment(&format!("sata,actuators={actuators}"), scheduler, groups);
    (question.ramp_ns, question.runtime_ns) = (1_000 * MS, 4_000 * MS);
    let measurement = run(&question);
    let rates = rates(&measurement);
    let sum = rates.iter().sum();
    println!("{actuators} actuators {scheduler:12} {rates:.2?} together {sum:.2}");
    sum
}

/// Two readers, each in the half of one arm.
fn two_streams(actuators: u32, scheduler: &str) -> f64 {
    on_drive(actuators, scheduler, vec![("a", 100, stream_from(10)), ("b", 100, stream_from(130))])
}

fn readers_at_random(actuators: u32, scheduler: &str) -> f64 {
    on_drive(actuators, scheduler, vec![("a", 100, anywhere(8)), ("b", 100, anywhere(8))])
}

#[test]
fn two_streams_run_in_parallel_if_bfq_distinguishes_both_actuators() {
    let [none, before, knowing] = ["none", "bfq@6.2", "bfq"].map(|scheduler| two_streams(2, scheduler));
    assert!(knowing > 1.5 * before, "{knowing} after {before}");
    assert!(knowing > 0.9 * none, "{knowing} beside {none} without a scheduler");
}

#[test]
fn with_one_arm_nothing_is_different() {
    let [before, knowing] = ["bfq@6.2", "bfq"].map(|scheduler| two_streams(1, scheduler));
    assert!((before - knowing).abs() < 1e-9, "{knowing} after {before}");
}

/// Half of the reads for each arm. bfq gives the arm whose turn it is at most four requests, which
/// costs it part of the gain from reordering: the version that knows the arms is not faster here
/// than the one that does not.
#[test]
fn random_reads_gain_by_the_second_arm() {
    for scheduler in ["none", "bfq"] {
        let [one, two] = [1, 2].map(|actuators| readers_at_random(actuators, scheduler));
        assert!(two > one, "{scheduler}: {two} with two arms, {one} with one");
    }
}
