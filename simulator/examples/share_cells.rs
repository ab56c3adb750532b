//! Shares and throughput of schedulers against what can be had, cell by cell:
//!
//! ```text
//! cargo run --release -p hoistway-simulator --example share_cells -- simulator/examples/cells/development.txt
//! share_cells FILE [-s SCHEDULER]... [--seeds 1,2,3] [--ramp 5] [--runtime 3] [--only TEXT] [--walk N] [--swing 0]
//! ```
//! `--walk N` prints instead what the scheduler tells of the N-th of those cells; `--swing 0` how much the throughput of 1 s windows scatters,
//! seed by seed, beside none's, and how much it is. Otherwise a Markdown table. Each row: N* and the population that 97 % of the throughput need, then of each scheduler the
//! throughput in per cent of none's (and of the worst seed), the share error in per cent, and how far the farthest tenant of at
//! least 2 % share is from what can be had at 3 % loss (`experiment::attainable`), in per cent.

use std::sync::Mutex;

use experiment::attainable::{Attainable, Curve, Tenant};
use experiment::{Experiment, Group, Host, LiveFigures, Machine, Measurement, Progress, ShareUnit, Unattended, Weight};
use hoistway_simulator::{HostCosts, Simulator};
use workload::job::{BlockSize, Pattern, PerDirection};
use workload::trace::{Event, Tracer};
use workload::{Engine, Job};

const SECOND: u64 = 1_000_000_000;
/// From the device's completion to the next command, on the simulated machine: a completion and a submission.
const THINK_NS: f64 = 4_500.0;
/// Populations at which a device is measured.
const POPULATIONS: [u32; 26] =
    [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256];

#[derive(Clone)]
struct Side {
    weight: u32,
    depth: u32,
    jobs: u32,
}

#[derive(Clone)]
struct Cell {
    model: String,
    sides: Vec<Side>,
    text: String,
}

fn cell(line: &str) -> Cell {
    let (model, sides) = line.split_once('|').expect("MODEL | SIDES");
    let side = |text: &str| {
        let (weight, rest) = text.split_once(':').expect("weight:depthxjobs");
        let (depth, jobs) = rest.split_once('x').expect("depthxjobs");
        let number = |text: &str| text.parse().expect("a number");
        Side { weight: number(weight), depth: number(depth), jobs: number(jobs) }
    };
    let sides = sides.trim();
    let list: Vec<Side> = sides.split_whitespace().map(side).collect();
    let text = if list.len() > 3 {
        format!(
            "{} groups {}..{}, {}x{}",
            list.len(),
            list[0].weight,
            list[list.len() - 1].weight,
            list[0].depth,
            list[0].jobs
        )
    } else {
        sides.to_owned()
    };
    Cell { model: model.trim().to_owned(), sides: list, text }
}

fn reads(depth: u32, jobs: u32) -> Job {
    Job {
        name: "read".to_owned(),
        threads: jobs,
        pattern: Pattern::Random { run: 1, repeat_offset: false },
        random_map: false,
        block_sizes: PerDirection::all(BlockSize::Fixed(4_096)),
        engine: Engine::Async,
        iodepth: depth,
        direct: true,
        time_based: true,
        runtime_ns: Some(1 << 50),
        ..Job::default()
    }
}

struct Length {
    ramp_ns: u64,
    runtime_ns: u64,
}

fn question(cell: &Cell, scheduler: &str, seed: u64, length: &Length) -> Experiment {
    let group = |(index, side): (usize, &Side)| {
        Group::new(format!("g{index}"), Weight::new(side.weight).expect("a weight"), vec![reads(side.depth, side.jobs)])
    };
    let outstanding: u32 = cell.sides.iter().map(|side| side.depth * side.jobs).sum();
    Experiment {
        target: format!("model:{}", cell.model),
        workload: "cell".to_owned(),
        scheduler: scheduler.parse().expect("a scheduler"),
        groups: cell.sides.iter().enumerate().map(group).collect(),
        threads: 1,
        set: 1,
        seed,
        runtime_ns: length.runtime_ns,
        ramp_ns: length.ramp_ns,
        device_depth: None,
        queue_requests: Some(256.max(outstanding * 2)),
        share_unit: ShareUnit::Bytes,
        limiters: Vec::new(),
        machine: Machine::default(),
    }
}

/// Prints what the walker says.
struct Walk;

impl Progress for Walk {
    fn started(&mut self, _experiment: &Experiment) {}

    fn advanced(&mut self, _figures: &LiveFigures<'_>) {}

    fn cancelled(&self) -> bool {
        false
    }

    fn tracer(&mut self) -> Option<&mut dyn Tracer> {
        Some(self)
    }
}

impl Tracer for Walk {
    fn process(&mut self, _at_ns: u64, _pid: u32, _name: &str) {}

    fn event(&mut self, _event: &Event) {}

    fn message(&mut self, at_ns: u64, text: &str) {
        if text.contains("walk") || text.contains("restart") || text.contains("probe") {
            println!("{:9.3} {text}", at_ns as f64 / 1e9);
        }
    }
}

fn run(mut simulator: Simulator, question: &Experiment) -> Measurement {
    simulator.check(question).unwrap_or_else(|refusal| panic!("{}: {refusal:?}", question.target));
    simulator.run(question, &mut Unattended).expect("a run")
}

/// I/Os a second of each group.
fn rates(measurement: &Measurement) -> Vec<f64> {
    measurement.groups.iter().map(|group| measurement.per_s(group.bytes()) / 4096.0).collect()
}

fn device_depth(model: &str) -> f64 {
    let alone =
        Cell { model: model.to_owned(), sides: vec![Side { weight: 100, depth: 1, jobs: 1 }], text: String::new() };
    let length = Length { ramp_ns: 0, runtime_ns: SECOND / 100 };
    f64::from(run(Simulator::default(), &question(&alone, "none", 1, &length)).target.queue_depth)
}

fn curve(model: &str, depth: f64) -> Curve {
    let length = Length { ramp_ns: SECOND / 5, runtime_ns: SECOND };
    let point = |population: u32| {
        let cell = Cell {
            model: model.to_owned(),
            sides: vec![Side { weight: 100, depth: 1, jobs: population }],
            text: String::new(),
        };
        let measurement = run(Simulator::with_costs(HostCosts::NONE), &question(&cell, "none", 1, &length));
        (f64::from(population), rates(&measurement).iter().sum())
    };
    let most = POPULATIONS.into_iter().map(f64::from).fold(0.0, f64::max).min(depth);
    let below = POPULATIONS.into_iter().filter(|population| f64::from(*population) < most);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    Curve::new(below.chain([most as u32]).map(point).collect())
}

struct Got {
    rates: Vec<f64>,
    totals: Vec<f64>,
}

fn measure(cell: &Cell, scheduler: &str, seeds: &[u64], length: &Length) -> Got {
    let runs: Vec<Vec<f64>> =
        seeds.iter().map(|seed| rates(&run(Simulator::default(), &question(cell, scheduler, *seed, length)))).collect();
    let mean = |index: usize| runs.iter().map(|run| run[index]).sum::<f64>() / runs.len() as f64;
    Got { rates: (0..cell.sides.len()).map(mean).collect(), totals: runs.iter().map(|run| run.iter().sum()).collect() }
}

fn row(cell: &Cell, schedulers: &[String], seeds: &[u64], length: &Length, curve: &Curve, depth: f64) -> String {
    let tenants: Vec<Tenant> = cell
        .sides
        .iter()
        .map(|side| Tenant {
            weight: f64::from(side.weight),
            outstanding: f64::from(side.depth * side.jobs),
            think_ns: THINK_NS,
        })
        .collect();
    let can = Attainable::new(&tenants, curve, depth, 0.03);
    let none = measure(cell, "none", seeds, length);
    let full: f64 = none.totals.iter().sum();
    let weights: f64 = tenants.iter().map(|tenant| tenant.weight).sum();
    let kind = if can.n_star >= 1.2 * can.n_eps {
        "yes"
    } else if can.n_star >= can.n_eps {
        "nearly"
    } else {
        "no"
    };
    let mut text = format!(
        "| {} {} | {:.1} / {:.1} {kind} | {:.0} |",
        cell.model,
        cell.text,
        can.n_star,
        can.n_eps,
        full / none.totals.len() as f64 * 4096.0 / 1e6
    );
    for scheduler in schedulers {
        let got = measure(cell, scheduler, seeds, length);
        let total: f64 = got.rates.iter().sum();
        let percent = got.totals.iter().sum::<f64>() / full * 100.0;
        let worst = got.totals.iter().zip(&none.totals).map(|(a, b)| a / b * 100.0).fold(f64::MAX, f64::min);
        let (mut error, mut distance) = (0.0_f64, 0.0_f64);
        for ((rate, tenant), can) in got.rates.iter().zip(&tenants).zip(&can.rates) {
            let share = tenant.weight / weights;
            error = error.max((rate / (share * total) - 1.0).abs() * 100.0);
            if share >= 0.02 {
                distance = distance.max((rate / can - 1.0).abs() * 100.0);
            }
        }
        let rates: Vec<_> = got.rates.iter().map(|rate| format!("{:.1}", rate * 4096.0 / 1e6)).collect();
        text += &format!(" {percent:.1} ({worst:.1}), {error:.1}, {distance:.1} [{}] |", rates.join(":"));
    }
    let can: Vec<_> = can.rates.iter().map(|rate| format!("{:.1}", rate * 4096.0 / 1e6)).collect();
    text + &format!(" {} |", can.join(":"))
}

/// Mean and coefficient of variation of the throughput of 1 s windows.
fn swing(cell: &Cell, scheduler: &str, seed: u64, length: &Length) -> (f64, f64) {
    let measurement = run(Simulator::default(), &question(cell, scheduler, seed, length));
    let seconds = usize::try_from(length.runtime_ns / SECOND).expect("few");
    let bytes = |second: usize| measurement.groups.iter().map(|group| group.read.samples[second].bytes as f64).sum();
    let windows: Vec<f64> = (0..seconds).map(bytes).collect();
    let mean = windows.iter().sum::<f64>() / seconds as f64;
    (mean, (windows.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (seconds as f64 - 1.0)).sqrt() / mean)
}

/// None's scatter and a scheduler's, in per cent, seed by seed, how many times as large it is, and the throughput in per cent of none's.
fn print_swing(cell: &Cell, scheduler: &str, seeds: &[u64], length: &Length) {
    let of = |scheduler: &str| seeds.iter().map(|seed| swing(cell, scheduler, *seed, length)).collect::<Vec<_>>();
    let (none, ours) = (of("none"), of(scheduler));
    let pairs = none.iter().zip(&ours);
    let text: Vec<String> = pairs
        .clone()
        .map(|(none, ours)| format!("{:.3}/{:.3} ({:.2})", ours.1 * 100.0, none.1 * 100.0, ours.1 / none.1))
        .collect();
    let ratios = pairs.clone().map(|(none, ours)| ours.1 / none.1);
    let throughputs = pairs.map(|(none, ours)| ours.0 / none.0 * 100.0);
    let count = seeds.len() as f64;
    let root = |runs: &[(f64, f64)]| (runs.iter().map(|run| run.1.powi(2)).sum::<f64>() / count).sqrt();
    println!(
        "{} {}, {scheduler}: {}; mean {:.2}, all {:.2}, throughput {:.2} %",
        cell.model,
        cell.text,
        text.join(" "),
        ratios.sum::<f64>() / count,
        root(&ours) / root(&none),
        throughputs.sum::<f64>() / count
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a file of cells");
    let (mut schedulers, mut seeds) = (Vec::new(), vec![1, 2, 3]);
    let mut is_swing = false;
    let (mut length, mut only) = (Length { ramp_ns: 5 * SECOND, runtime_ns: 3 * SECOND }, String::new());
    while let Some(option) = arguments.next() {
        let value = arguments.next().expect("a value");
        match option.as_str() {
            "-s" => schedulers.push(value),
            "--seeds" => seeds = value.split(',').map(|seed| seed.parse().expect("a seed")).collect(),
            "--ramp" => length.ramp_ns = value.parse::<u64>().expect("seconds") * SECOND,
            "--runtime" => length.runtime_ns = value.parse::<u64>().expect("seconds") * SECOND,
            "--only" => only = value,
            "--swing" => is_swing = true,
            "--walk" => {
                let text = std::fs::read_to_string(&file).expect("the file");
                let line = text.lines().filter(|line| line.contains(&only)).nth(value.parse().expect("a number"));
                let cell = cell(line.expect("such a cell"));
                println!("{} {}", cell.model, cell.text);
                let question = question(&cell, &schedulers[0], seeds[0], &length);
                Simulator::default().run(&question, &mut Walk).expect("a run");
                return;
            }
            _ => panic!("{option}?"),
        }
    }
    if schedulers.is_empty() {
        schedulers.push("paternoster:give=3".to_owned());
    }
    let text = std::fs::read_to_string(&file).expect("the file");
    let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains('|') && line.contains(&only));
    let cells: Vec<Cell> = lines.map(cell).collect();
    if is_swing {
        for cell in &cells {
            schedulers.iter().for_each(|scheduler| print_swing(cell, scheduler, &seeds, &length));
        }
        return;
    }
    let mut curves: Vec<(String, Curve, f64)> = Vec::new();
    for cell in &cells {
        if !curves.iter().any(|(model, ..)| *model == cell.model) {
            let depth = device_depth(&cell.model);
            curves.push((cell.model.clone(), curve(&cell.model, depth), depth));
        }
    }
    println!("| device, weight:depthxjobs | N* / n 3 % | none MB/s | {} | can be had MB/s |", schedulers.join(" | "));
    println!("| --- | --- | --- |{} --- |", " --- |".repeat(schedulers.len()));
    let next = Mutex::new(0..cells.len());
    let rows = Mutex::new(vec![None; cells.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(index) = next.lock().expect("a lock").next() else { return };
                    let cell = &cells[index];
                    let (_, curve, depth) = curves.iter().find(|(model, ..)| *model == cell.model).expect("measured");
                    let row = row(cell, &schedulers, &seeds, &length, curve, *depth);
                    eprintln!("{row}");
                    rows.lock().expect("a lock")[index] = Some(row);
                }
            });
        }
    });
    for row in rows.into_inner().expect("a lock").into_iter().flatten() {
        println!("{row}");
    }
}
