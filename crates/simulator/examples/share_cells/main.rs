//! Compares schedulers' shares and throughput with what is attainable, cell by cell:
//!
//! ```text
//! cargo run --release -p hoistway-simulator --example share_cells -- crates/simulator/examples/cells/development.txt
//! share_cells FILE [-s SCHEDULER]... [--seeds 1,2,3] [--ramp 5] [--runtime 3] [--only TEXT] [--walk N] [--swing 0] [--change 0]
//! ```
//! Prints a Markdown table. Each row has N* and the population that reaches 97 % of the throughput;
//! then for each scheduler the throughput in per cent of none's (and that of the worst seed), the
//! share error in per cent, and the largest distance from the shares attainable at 3 % loss
//! (`hoistway_experiment::attainable`) among tenants of at least 2 % share, in per cent.
//!
//! Three options print something else. `--change 0` is for cells that change when the ramp ends
//! (`SIDES => SIDES`): the distance from the wanted shares, second by second. `--walk N` prints the
//! scheduler's messages in the N-th of the selected cells. `--swing 0` prints the mean and the
//! scatter of the throughput of 1 s windows, seed by seed, beside none's.

mod change;

use std::sync::Mutex;

use hoistway_experiment::attainable::{Attainable, Curve, Tenant};
use hoistway_experiment::{Experiment, Group, Host, LiveFigures, Measurement, Progress, Unattended, Weight};
use hoistway_simulator::{HostCosts, Simulator};
use hoistway_workload::job::{BlockSize, Pattern, PerDirection};
use hoistway_workload::trace::{Event, Tracer};
use hoistway_workload::{Engine, Job};

const SECOND: u64 = 1_000_000_000;
/// Time from the device's completion to the next command on the simulated machine: the cost of a
/// completion. The cost of a submission comes after the submission.
const THINK_NS: f64 = 3_000.0;
/// Populations at which a device is measured.
const POPULATIONS: [u32; 26] =
    [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256];

#[derive(Clone, PartialEq)]
struct Side {
    weight: u32,
    depth: u32,
    /// 0 if the side does not exist.
    jobs: u32,
    block_bytes: u32,
}

impl Side {
    const fn outstanding(&self) -> u32 {
        self.depth * self.jobs
    }
}

#[derive(Clone)]
struct Cell {
    model: String,
    sides: Vec<Side>,
    /// The sides after the ramp; empty if they do not change.
    after: Vec<Side>,
    text: String,
}

fn side(text: &str) -> Side {
    let (weight, rest) = text.split_once(':').expect("weight:depthxjobs");
    let number = |text: &str| text.parse().expect("a number");
    if rest == "-" {
        return Side { weight: number(weight), depth: 1, jobs: 0, block_bytes: 4_096 };
    }
    let (rest, kib) = rest.split_once('@').unwrap_or((rest, "4"));
    let (depth, jobs) = rest.split_once('x').expect("depthxjobs");
    Side { weight: number(weight), depth: number(depth), jobs: number(jobs), block_bytes: number(kib) * 1_024 }
}

fn cell(line: &str) -> Cell {
    let (model, sides) = line.split_once('|').expect("MODEL | SIDES");
    let list = |text: &str| text.split_whitespace().map(side).collect::<Vec<_>>();
    let (before, after) = sides.split_once("=>").unwrap_or((sides, ""));
    let (before, after) = (list(before), list(after));
    let name = |sides: &[Side], text: &str| match sides {
        [first, .., last] if sides.len() > 3 => {
            format!("{} groups {}..{}, {}x{}", sides.len(), first.weight, last.weight, first.depth, first.jobs)
        }
        _ => text.trim().to_owned(),
    };
    let text = sides.split("=>").zip([&before, &after]).map(|(text, sides)| name(sides, text)).collect::<Vec<_>>();
    Cell { model: model.trim().to_owned(), sides: before, after, text: text.join(" => ") }
}

fn reads(side: &Side) -> Job {
    Job::default().with(|job| {
        job.name = "read".to_owned();
        job.threads = side.jobs;
        job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
        job.shape.random_map = false;
        job.shape.block_sizes = PerDirection::all(BlockSize::Fixed(side.block_bytes));
        job.submission.engine = Engine::Async;
        job.submission.iodepth = side.depth;
        job.submission.direct = true;
        job.times.time_based = true;
        job.times.runtime_ns = Some(1 << 50);
    })
}

struct Length {
    ramp_ns: u64,
    runtime_ns: u64,
}

fn question(cell: &Cell, scheduler: &str, seed: u64, length: &Length) -> Experiment {
    let group = |(index, side): (usize, &Side)| {
        let jobs =
            cell.after.get(index).map_or_else(|| vec![reads(side)], |after| change::jobs(side, after, length.ramp_ns));
        Group::new(format!("g{index}"), Weight::new(side.weight).expect("a weight"), jobs)
    };
    let outstanding: u32 = cell.sides.iter().chain(&cell.after).map(Side::outstanding).sum();
    let groups: Vec<Group> = cell.sides.iter().enumerate().map(group).collect();
    Experiment {
        seed,
        runtime_ns: length.runtime_ns,
        ramp_ns: length.ramp_ns,
        queue_requests: Some(256.max(outstanding * 2)),
        ..Experiment::new(format!("model:{}", cell.model), "cell", scheduler.parse().expect("a scheduler"), groups)
    }
}

/// Prints the scheduler's messages.
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

/// I/Os per second of each group.
fn rates(measurement: &Measurement) -> Vec<f64> {
    measurement.groups.iter().map(|group| measurement.per_s(group.bytes()) / 4096.0).collect()
}

fn device_depth(model: &str) -> f64 {
    let alone = alone(model, 1, 4_096);
    let length = Length { ramp_ns: 0, runtime_ns: SECOND / 100 };
    f64::from(run(Simulator::default(), &question(&alone, "none", 1, &length)).target.queue_depth)
}

/// `jobs` jobs of one group, each with one request at a time.
fn alone(model: &str, jobs: u32, block_bytes: u32) -> Cell {
    let side = Side { weight: 100, depth: 1, jobs, block_bytes };
    Cell { model: model.to_owned(), sides: vec![side], after: Vec::new(), text: String::new() }
}

/// Blocks per second at each population.
fn curve(model: &str, depth: f64, block_bytes: u32) -> Curve {
    let length = Length { ramp_ns: SECOND / 5, runtime_ns: SECOND };
    let point = |population: u32| {
        let cell = alone(model, population, block_bytes);
        let measurement = run(Simulator::with_costs(HostCosts::NONE), &question(&cell, "none", 1, &length));
        (f64::from(population), rates(&measurement).iter().sum::<f64>() * 4096.0 / f64::from(block_bytes))
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

fn tenants(sides: &[Side]) -> Vec<Tenant> {
    let tenant = |side: &Side| Tenant {
        weight: f64::from(side.weight),
        outstanding: f64::from(side.outstanding()),
        think_ns: THINK_NS,
    };
    sides.iter().map(tenant).collect()
}

fn row(cell: &Cell, schedulers: &[String], seeds: &[u64], length: &Length, curve: &Curve, depth: f64) -> String {
    let tenants = tenants(&cell.sides);
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

/// Prints the scatter of none and of a scheduler in per cent, seed by seed, their ratio, and the
/// throughput in per cent of none's.
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

/// Prints a scheduler's messages in a cell.
fn print_walk(cell: &Cell, scheduler: &str, seed: u64, length: &Length) {
    println!("{} {}", cell.model, cell.text);
    Simulator::default().run(&question(cell, scheduler, seed, length), &mut Walk).expect("a run");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a file of cells");
    let (mut schedulers, mut seeds) = (Vec::new(), vec![1, 2, 3]);
    let (mut is_swing, mut is_change) = (false, false);
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
            "--change" => is_change = true,
            "--walk" => {
                let text = std::fs::read_to_string(&file).expect("the file");
                let line = text.lines().filter(|line| line.contains(&only)).nth(value.parse().expect("a number"));
                return print_walk(&cell(line.expect("such a cell")), &schedulers[0], seeds[0], &length);
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
    if is_change {
        change::print(&cells, &schedulers, &seeds, &length);
        return;
    }
    let mut curves: Vec<(String, Curve, f64)> = Vec::new();
    for cell in &cells {
        if !curves.iter().any(|(model, ..)| *model == cell.model) {
            let depth = device_depth(&cell.model);
            curves.push((cell.model.clone(), curve(&cell.model, depth, 4_096), depth));
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
