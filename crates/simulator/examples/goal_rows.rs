//! Compares every scheduler with paternoster in a set of workloads (rows) and lists the schedulers
//! that are ahead of it:
//!
//! ```text
//! cargo run --release -p hoistway-simulator --example goal_rows -- crates/simulator/examples/cells/rows.txt
//! goal_rows FILE [-s SCHEDULER]... [--seeds 1,2] [--only TEXT]
//! ```
//! A row: `NAME | RAMP+RUNTIME | MODEL | WEIGHT:KINDxDEPTHxJOBS ...`, times in seconds; kinds are
//! `r4` (random reads of 4 KiB), `w4` (random writes), `W128` (sequential writes), `b4` (streams
//! through the page cache, readers 4 GiB apart). The output is Markdown. For each scheduler:
//! throughput (also in per cent of none's), the largest share error, median and 99th percentile of
//! the first tenant's latency.
//!
//! A scheduler is *ahead* of paternoster in a row if it is more than 5 % better in one of the row's
//! goals and not more than 5 % worse in any other. Goals are throughput and, where the first tenant
//! is one sync reader that asks for less than its share (the row's name ends in `bomb`), that
//! reader's rate, median and 99th percentile; elsewhere the share error (5 % are five percentage
//! points of it). Latencies below 100 us count as 100 us.

use std::sync::Mutex;

use hoistway_experiment::{Experiment, Group, Host, Machine, Measurement, ShareUnit, Unattended, Weight};
use hoistway_simulator::Simulator;
use hoistway_workload::job::{Amount, BlockSize, Mix, Pattern, PerDirection};
use hoistway_workload::{Engine, Job};

const SECOND: u64 = 1_000_000_000;
const SCHEDULERS: [&str; 18] = [
    "none",
    "noop",
    "mq-deadline",
    "kyber",
    "deadline",
    "anticipatory",
    "cfq",
    "uchida",
    "tarasov",
    "bfq",
    "bfq:low_latency=0",
    "wfq",
    "sfq:depth=8",
    "sfq",
    "sfq-d2",
    "mqfq",
    "paternoster:give=10",
    OURS,
];
const OURS: &str = "paternoster";
/// The smallest relative difference that counts.
const NOTABLE: f64 = 0.05;

#[derive(Clone)]
struct Side {
    weight: u32,
    kind: char,
    kib: u32,
    depth: u32,
    jobs: u32,
}

struct Row {
    name: String,
    ramp_ns: u64,
    runtime_ns: u64,
    model: String,
    sides: Vec<Side>,
    text: String,
}

fn row(line: &str) -> Row {
    let parts: Vec<&str> = line.split('|').map(str::trim).collect();
    let [name, times, model, sides] = parts[..] else { panic!("NAME | RAMP+RUNTIME | MODEL | SIDES, not '{line}'") };
    let (ramp, runtime) = times.split_once('+').expect("RAMP+RUNTIME");
    let seconds = |text: &str| text.parse::<u64>().expect("seconds") * SECOND;
    Row {
        name: name.to_owned(),
        ramp_ns: seconds(ramp),
        runtime_ns: seconds(runtime),
        model: model.to_owned(),
        sides: sides.split_whitespace().map(side).collect(),
        text: sides.to_owned(),
    }
}

fn side(text: &str) -> Side {
    let (weight, rest) = text.split_once(':').expect("WEIGHT:KIND");
    let parts: Vec<&str> = rest.split('x').collect();
    let [kind, depth, jobs] = parts[..] else { panic!("KINDxDEPTHxJOBS, not '{rest}'") };
    let number = |text: &str| text.parse().expect("a number");
    let (kind, kib) = kind.split_at(1);
    Side {
        weight: number(weight),
        kind: kind.chars().next().expect("a kind"),
        kib: number(kib),
        depth: number(depth),
        jobs: number(jobs),
    }
}

fn job(side: &Side) -> Job {
    let is_buffered = side.kind == 'b';
    Job {
        name: "row".to_owned(),
        threads: side.jobs,
        mix: if side.kind.eq_ignore_ascii_case(&'w') { Mix::Write } else { Mix::Read },
        pattern: match side.kind {
            'r' | 'w' => Pattern::Random { run: 1, repeat_offset: false },
            'W' | 'b' => Pattern::Sequential { skip_bytes: 0 },
            kind => panic!("kind {kind}?"),
        },
        random_map: false,
        block_sizes: PerDirection::all(BlockSize::Fixed(side.kib * 1024)),
        engine: if is_buffered { Engine::default() } else { Engine::Async },
        iodepth: if is_buffered { 1 } else { side.depth },
        direct: !is_buffered,
        offset_increment: Amount::Bytes(if is_buffered { 4 << 30 } else { 0 }),
        time_based: true,
        runtime_ns: Some(1 << 50),
        ..Job::default()
    }
}

fn question(row: &Row, scheduler: &str, seed: u64) -> Experiment {
    let group = |(index, side): (usize, &Side)| {
        Group::new(format!("g{index}"), Weight::new(side.weight).expect("a weight"), vec![job(side)])
    };
    let outstanding: u32 = row.sides.iter().map(|side| side.depth * side.jobs).sum();
    Experiment {
        target: format!("model:{}", row.model),
        workload: row.name.clone(),
        scheduler: scheduler.parse().expect("a scheduler"),
        groups: row.sides.iter().enumerate().map(group).collect(),
        threads: 1,
        set: 1,
        seed,
        runtime_ns: row.runtime_ns,
        ramp_ns: row.ramp_ns,
        device_depth: None,
        queue_requests: Some(256.max(outstanding * 2)),
        share_unit: ShareUnit::Bytes,
        limiters: Vec::new(),
        machine: Machine::default(),
    }
}

/// Means over the seeds.
struct Got {
    total: f64,
    error: f64,
    median_us: f64,
    late_us: f64,
    rates: Vec<f64>,
}

fn measure(row: &Row, scheduler: &str, seeds: &[u64]) -> Got {
    let runs: Vec<Measurement> = seeds
        .iter()
        .map(|seed| Simulator::default().run(&question(row, scheduler, *seed), &mut Unattended).expect("a run"))
        .collect();
    let mean = |of: &dyn Fn(&Measurement) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let rates: Vec<f64> =
        (0..row.sides.len()).map(|index| mean(&|run| run.per_s(run.groups[index].bytes()) / 1e6)).collect();
    let latency_us = |percent: f64| mean(&|run| run.groups[0].latency().percentile_unclamped_ns(percent) as f64 / 1e3);
    let (total, weights) = (rates.iter().sum::<f64>(), row.sides.iter().map(|side| side.weight).sum::<u32>());
    let error =
        |(rate, side): (&f64, &Side)| (rate / (total * f64::from(side.weight) / f64::from(weights)) - 1.0).abs();
    let error = rates.iter().zip(&row.sides).map(error).fold(0.0, f64::max);
    Got { total, error, median_us: latency_us(50.0), late_us: latency_us(99.0), rates }
}

/// How much better one is than another in each goal: above 0.05 is notably better, below -0.05
/// notably worse.
fn advantages(row: &Row, one: &Got, other: &Got) -> Vec<(&'static str, f64)> {
    let mut goals = vec![("throughput", one.total / other.total - 1.0)];
    if row.name.ends_with("bomb") {
        let sooner = |one: f64, other: f64| other.max(100.0) / one.max(100.0) - 1.0;
        goals.push(("the reader's rate", one.rates[0] / other.rates[0] - 1.0));
        goals.push(("median", sooner(one.median_us, other.median_us)));
        goals.push(("p99", sooner(one.late_us, other.late_us)));
    } else {
        goals.push(("error", other.error - one.error));
    }
    goals
}

/// The goal in which a scheduler is ahead of paternoster, if there is one.
fn ahead(row: &Row, got: &Got, ours: &Got) -> Option<&'static str> {
    let goals = advantages(row, got, ours);
    let is_worse = goals.iter().any(|(_, by)| *by < -NOTABLE);
    goals.into_iter().filter(|(_, by)| !is_worse && *by > NOTABLE).map(|(name, _)| name).next()
}

/// More decimals for low rates: one decimal would hide a notable difference of a disk's few MB/s.
fn digits(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.3}") } else { format!("{rate:.1}") }
}

fn table(row: &Row, schedulers: &[String], seeds: &[u64]) -> (String, Vec<String>) {
    let got: Vec<(&String, Got)> = schedulers.iter().map(|name| (name, measure(row, name, seeds))).collect();
    let none = measure(row, "none", seeds).total;
    let (_, ours) = got.iter().find(|(name, _)| *name == OURS).expect("paternoster is among them");
    let mut text = format!("\n### {}: {}\n\n`{}`\n\n", row.name, row.model, row.text);
    text += "| scheduler | MB/s | % of none | error, % | first: median, us | p99, us | each, MB/s | ahead in |\n";
    text += "| --- | --: | --: | --: | --: | --: | --- | --- |\n";
    let mut verdicts = Vec::new();
    for (name, got) in &got {
        // A row of paternoster with other settings is not another scheduler.
        let ahead = if name.starts_with(OURS) { None } else { ahead(row, got, ours) };
        verdicts.extend(ahead.map(|goal| format!("{} on {}: {name} in {goal}", row.name, row.model)));
        let rates: Vec<String> = got.rates.iter().map(|rate| digits(*rate)).collect();
        text += &format!(
            "| {name} | {} | {:.1} | {:.1} | {:.0} | {:.0} | {} | {} |\n",
            digits(got.total),
            got.total / none * 100.0,
            got.error * 100.0,
            got.median_us,
            got.late_us,
            rates.join(" : "),
            ahead.unwrap_or_default()
        );
    }
    (text, verdicts)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a file of rows");
    let (mut schedulers, mut seeds, mut only) = (Vec::new(), vec![1, 2], String::new());
    while let Some(option) = arguments.next() {
        let value = arguments.next().expect("a value");
        match option.as_str() {
            "-s" => schedulers.push(value),
            "--seeds" => seeds = value.split(',').map(|seed| seed.parse().expect("a seed")).collect(),
            "--only" => only = value,
            _ => panic!("{option}?"),
        }
    }
    if schedulers.is_empty() {
        schedulers = SCHEDULERS.map(str::to_owned).into();
    } else if !schedulers.iter().any(|name| name == OURS) {
        schedulers.push(OURS.to_owned());
    }
    let text = std::fs::read_to_string(&file).expect("the file");
    let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains('|') && line.contains(&only));
    let rows: Vec<Row> = lines.map(row).collect();
    let next = Mutex::new(0..rows.len());
    let tables = Mutex::new(vec![None; rows.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(index) = next.lock().expect("a lock").next() else { return };
                    let table = table(&rows[index], &schedulers, &seeds);
                    eprintln!("{}", table.0);
                    tables.lock().expect("a lock")[index] = Some(table);
                }
            });
        }
    });
    let mut verdicts = Vec::new();
    for (text, of_row) in tables.into_inner().expect("a lock").into_iter().flatten() {
        print!("{text}");
        verdicts.extend(of_row);
    }
    println!(
        "\n{} rows; ahead of {OURS} (better by more than 5 %, in nothing worse by more): {}",
        rows.len(),
        verdicts.len()
    );
    for verdict in verdicts {
        println!("- {verdict}");
    }
}
