//! Simulated requests per second of one core: issuer, queue, policy, device, recorder and events together.
//!
//! `cargo bench -p hoistway-simulator`. Targets (devices.md 13, design.md 8): at least 8 M/s for null + noop without
//! host costs, 5 M/s for mq-deadline on the simple SSD, 0.5 M/s for a disk with 32 commands queued.

#[path = "../tests/experiments/mod.rs"]
mod experiments;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use experiment::{Experiment, Host, Unattended};
use experiments::{experiment, random_reads};
use hoistway_simulator::{HostCosts, Simulator};

/// One run long enough for about 400,000 requests, and how many they are exactly.
fn sized(target: &str, scheduler: &str, depth: u32, costs: HostCosts) -> (Experiment, u64) {
    let mut question = experiment(target, scheduler, vec![("a", 100, random_reads(depth))]);
    question.ramp_ns = 0;
    let count = |question: &Experiment| {
        let measurement = Simulator::with_costs(costs).run(question, &mut Unattended).unwrap();
        measurement.groups[0].ios()
    };
    question.runtime_ns = question.runtime_ns * 400_000 / count(&question).max(1);
    let requests = count(&question);
    (question, requests)
}

fn requests_per_second(criterion: &mut Criterion) {
    let cases = [
        ("null", "noop", 64, HostCosts::NONE, "null noop free host"),
        ("null", "noop", 64, HostCosts::default(), "null noop"),
        ("ssd", "none", 32, HostCosts::default(), "ssd none"),
        ("ssd", "mq-deadline", 32, HostCosts::NONE, "ssd mq-deadline free host"),
        ("ssd", "mq-deadline", 32, HostCosts::default(), "ssd mq-deadline"),
        ("ssd", "mq-deadline", 64, HostCosts::default(), "ssd mq-deadline depth 64"),
        ("nvme", "mq-deadline", 64, HostCosts::default(), "nvme mq-deadline"),
        ("sata", "mq-deadline", 32, HostCosts::default(), "sata mq-deadline"),
    ];
    let mut group = criterion.benchmark_group("simulator");
    group.sample_size(10).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for (target, scheduler, depth, costs, name) in cases {
        let (question, requests) = sized(target, scheduler, depth, costs);
        group.throughput(Throughput::Elements(requests));
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(Simulator::with_costs(costs).run(&question, &mut Unattended).unwrap()));
        });
    }
    group.finish();
}

criterion_group!(benches, requests_per_second);
criterion_main!(benches);
