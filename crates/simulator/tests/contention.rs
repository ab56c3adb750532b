//! Processors that do one thing at a time and schedulers whose locks are queues (`contention=1`).
//! Source: docs/specifications/devices.md, section 8.10.

mod experiments;

use experiments::{MS, buffered_stream, experiment, random_reads, run};
use hoistway_elevator::registry::ENTRIES;
use hoistway_experiment::{Experiment, Host, Machine, Measurement, Unattended};
use hoistway_simulator::{Locking, Simulator};
use hoistway_workload::Job;
use hoistway_workload::job::Mix;

/// A process of `depth` for each of `processors`.
fn question(target: &str, scheduler: &str, machine: &str, processors: u32, depth: u32) -> Experiment {
    let job = random_reads(depth).with(|job| job.threads = processors);
    let mut question = experiment(target, scheduler, vec![("a", 100, job)]);
    question.machine = Machine::parse(&format!("cpus={processors},{machine}")).unwrap();
    question
}

fn cpu_ns_per_io(measurement: &Measurement) -> f64 {
    measurement.processors.unwrap().busy_ns as f64 / measurement.groups[0].ios() as f64
}

fn takes_per_io(measurement: &Measurement) -> f64 {
    measurement.processors.unwrap().lock_takes as f64 / measurement.groups[0].ios() as f64
}

fn near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value / expected - 1.0).abs() < tolerance
}

#[test]
fn without_contention_its_keys_change_nothing() {
    let plain = question("ssd", "mq-deadline", "", 2, 16);
    let mut keys = plain.clone();
    keys.machine = Machine::parse("cpus=2,lock_transfer_ns=5000,instruction_ps=90000").unwrap();
    let (plain, keys) = (run(&plain), run(&keys));
    assert_eq!(plain.target.notes, keys.target.notes, "the log of completions is among the notes");
    assert_eq!(plain.processors, None);
    let mut with = question("ssd", "mq-deadline", "contention=1", 2, 16);
    let log = run(&with).target.notes["completion_log"].clone();
    assert_ne!(log, plain.target.notes["completion_log"]);
    assert_eq!(log, run(&with).target.notes["completion_log"], "the same question has the same answer");
    with.machine.lock_transfer_ns = 5_000;
    assert_ne!(log, run(&with).target.notes["completion_log"]);
}

#[test]
fn a_saturated_lock_lets_through_what_its_time_allows() {
    // 1 us each to insert, to choose and to complete, all under the device's lock; instructions cost
    // next to nothing.
    for (processors, transfer_ns) in [(8, 0), (16, 0), (16, 500)] {
        let machine = format!(
            "contention=1,submit_ns=100,complete_ns=100,sched_ns_per_op=1000,instruction_ps=1,lock_transfer_ns={transfer_ns}"
        );
        let measurement = run(&question("null,inline=1,queue_depth=1023", "noop", &machine, processors, 8));
        let takes = takes_per_io(&measurement);
        // Besides the three, a submitter finds that another one has dispatched its request meanwhile.
        assert!((3.0..4.0).contains(&takes), "{takes} holds for each I/O");
        let held = measurement.ios_per_s() * takes * (1_000 + transfer_ns) as f64 / 1e9;
        assert!(near(held, 1.0, 0.03), "{processors} processors, {transfer_ns} ns: held {held} of the time");
        let time = measurement.processors.unwrap();
        assert!(2 * time.lock_wait_ns > time.busy_ns, "{time:?}");
    }
}

#[test]
fn lists_of_processors_save_holds_of_the_lock() {
    let rate_and_takes = |lists: u32| {
        let machine = format!("contention=1,submit_ns=100,complete_ns=100,processor_lists={lists}");
        let measurement = run(&question("null,inline=1,queue_depth=1023", "paternoster", &machine, 16, 32));
        (measurement.ios_per_s(), takes_per_io(&measurement))
    };
    // Search, insertion, choice and end; choice and end; choice; and choices that find nothing left.
    let found = [0, 1, 2].map(rate_and_takes);
    for ((rate, takes), expected) in found.into_iter().zip([4.0, 2.0, 1.0]) {
        assert!(
            (expected..expected + 1.0).contains(&takes),
            "{rate} per second, {takes} holds for each, not {expected}"
        );
    }
    assert!(found[0].0 < found[1].0 && found[1].0 < found[2].0, "{found:?}");
}

#[test]
fn without_a_scheduler_processors_do_not_wait_for_each_other() {
    let rate = |processors| {
        let machine = "contention=1,submit_ns=1000,complete_ns=3000";
        run(&question("null,inline=1,queue_depth=1023", "none", machine, processors, 8)).ios_per_s()
    };
    // One I/O costs its processor 4 us.
    assert!(near(rate(1), 250_000.0, 0.01), "{}", rate(1));
    assert!(near(rate(8), 2_000_000.0, 0.01), "{}", rate(8));
}

#[test]
fn a_scheduler_costs_its_instructions() {
    let cost_ns = |scheduler: &str| {
        cpu_ns_per_io(&run(&question("null,inline=1,queue_depth=1023", scheduler, "contention=1", 1, 64)))
    };
    let none = cost_ns("none");
    assert!(near(none, 4_500.0, 0.01), "{none}");
    for entry in ENTRIES.iter().filter(|entry| entry.traits.is_elevator) {
        let added_ns = Locking::of(entry.name).total() as f64 * 0.42;
        // A worker is woken besides where a policy does not let a request go at once.
        let cost = cost_ns(entry.name);
        assert!(cost > none + 0.95 * added_ns, "{}: {cost} ns, {added_ns} of its own", entry.name);
        assert!(cost < none + 1.05 * added_ns + 2_700.0, "{}: {cost} ns, {added_ns} of its own", entry.name);
    }
}

#[test]
fn every_scheduler_serves_everyone_on_many_queues() {
    for entry in ENTRIES {
        let target = "null,latency_us=20,queue_depth=16,hw_queues=4";
        let measurement = run(&question(target, entry.name, "contention=1", 8, 16));
        assert!(measurement.ios_per_s() > 50_000.0, "{}: {}", entry.name, measurement.ios_per_s());
    }
}

#[test]
fn shares_hold_where_processors_are_the_bottleneck() {
    let job = || random_reads(32).with(|job| job.threads = 2);
    let mut question =
        experiment("null,latency_us=50,queue_depth=8", "wfq", vec![("a", 100, job()), ("b", 300, job())]);
    question.machine = Machine::parse("contention=1,cpus=2").unwrap();
    let groups = run(&question).groups;
    let ratio = groups[1].ios() as f64 / groups[0].ios() as f64;
    assert!(near(ratio, 3.0, 0.05), "{ratio}");
}

#[test]
fn what_it_does_not_simulate_is_refused() {
    let refusal = |machine: &str, job: Job| {
        let mut question = experiment("ssd", "none", vec![("a", 100, job)]);
        question.machine = Machine::parse(machine).unwrap();
        Simulator::default().run(&question, &mut Unattended).unwrap_err().to_string()
    };
    let buffered = refusal("contention=1", buffered_stream(Mix::Read));
    assert!(buffered.contains("direct I/O only"), "{buffered}");
    for (machine, reason) in
        [("era=2.6", "era=mq"), ("journal=1", "journal"), ("irq_coalesce_ns=1000", "irq_coalesce_ns")]
    {
        let text = refusal(&format!("contention=1,{machine}"), random_reads(1));
        assert!(text.contains(reason), "{machine}: {text}");
    }
}

#[test]
fn a_long_run_of_writes_and_several_bios_completes() {
    let job = random_reads(4).with(|job| {
        job.shape.mix = Mix::Write;
        job.shape.block_sizes =
            hoistway_workload::job::PerDirection::all(hoistway_workload::job::BlockSize::Fixed(4 << 20));
    });
    let mut question = experiment("ssd", "mq-deadline", vec![("a", 100, job)]);
    question.machine = Machine::parse("contention=1,cpus=2").unwrap();
    question.runtime_ns = 500 * MS;
    let measurement = run(&question);
    let bytes_per_io = measurement.bytes_per_s() / measurement.ios_per_s();
    assert!(near(bytes_per_io, f64::from(4 << 20), 0.001), "{bytes_per_io}");
}
