//! Runs a fixed number of direct random 4 KiB requests with host costs of zero, for a profiler or
//! an instruction count:
//!
//! ```text
//! cargo build --release -p hoistway-simulator --example fixed_run
//! fixed_run ssd mq-deadline 32 400000 [write]     # MODEL SCHEDULER DEPTH REQUESTS
//! valgrind --tool=callgrind fixed_run ssd noop 32 20000
//! ```
//! Prints nanoseconds per request, the number of I/Os and the virtual duration of the run. The last
//! two must not change when an optimisation changes only the speed.

use std::time::Instant;

use hoistway_experiment::{Experiment, Group, Host, LiveFigures, Machine, Progress, ShareUnit, Weight};
use hoistway_simulator::{HostCosts, Simulator};
use hoistway_workload::job::{BlockSize, Mix, Pattern, PerDirection};
use hoistway_workload::{Engine, Job};

/// Records the time at which a run begins, after its preparation.
struct Begin(Instant);

#[allow(clippy::disallowed_methods, reason = "measures real time")]
fn now() -> Instant {
    Instant::now()
}

impl Progress for Begin {
    fn started(&mut self, _experiment: &Experiment) {
        self.0 = now();
    }

    fn advanced(&mut self, _figures: &LiveFigures<'_>) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, scheduler, depth, requests, rest @ ..] = arguments.as_slice() else {
        eprintln!("fixed_run MODEL SCHEDULER DEPTH REQUESTS [write]");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let job = Job {
        name: "fixed".to_owned(),
        mix: if rest.iter().any(|word| word == "write") { Mix::Write } else { Mix::Read },
        pattern: Pattern::Random { run: 1, repeat_offset: false },
        random_map: false,
        block_sizes: PerDirection::all(BlockSize::Fixed(4_096)),
        engine: Engine::Async,
        iodepth: u32::try_from(number(depth)).expect("a depth"),
        direct: true,
        number_ios: Some(number(requests)),
        time_based: false,
        runtime_ns: None,
        ..Job::default()
    };
    let question = Experiment {
        target: format!("model:{model}"),
        workload: "fixed".to_owned(),
        scheduler: scheduler.parse().expect("a scheduler"),
        groups: vec![Group::new("a", Weight::new(100).expect("a weight"), vec![job])].into(),
        threads: 1,
        set: 1,
        seed: 1,
        runtime_ns: 24 * 3_600_000_000_000,
        ramp_ns: 0,
        device_depth: None,
        queue_requests: None,
        share_unit: ShareUnit::Bytes,
        limiters: Vec::new(),
        machine: Machine::default(),
    };
    let mut begin = Begin(now());
    let measurement = Simulator::with_costs(HostCosts::NONE).run(&question, &mut begin).expect("a run");
    let took = begin.0.elapsed();
    let ios = measurement.groups[0].ios();
    let each_ns = took.as_secs_f64() * 1e9 / f64::from(u32::try_from(ios).expect("fewer than 2^32 I/Os"));
    println!("{model} {scheduler} {depth}: {each_ns:.1} ns per request; {ios} I/Os in {} ns", measurement.window_ns);
}
