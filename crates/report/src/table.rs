//! Tables for the terminal: the layout of iostest (the test script of 2010 that `hoistway test`
//! replaces), stable for scripts, and the more detailed text table.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;
use hoistway_experiment::job::Amount;
use hoistway_experiment::measurement::{Flag, GroupMeasurement};
use hoistway_experiment::metric::Metric;
use hoistway_experiment::statistics::{Estimate, truncated_mean};
use hoistway_experiment::{KernelEra, Percentile};

use crate::grid::Grid;
use crate::quantity::{self, decimals, half_width, mib, percent, scheduler, span, time, tunables};
use crate::wrap;
use crate::{Results, jobs, legend, winners};

/// Maximum number of rows of jobs in a table for users.
pub(crate) const JOB_ROWS: usize = 100;

/// Tunables that iostest's header names first, in this order.
const CLASSIC_FIRST: [&str; 4] = ["group_isolation", "slice_idle", "group_idle", "quantum"];

/// iostest's layout: means truncated to KiB/s, one block per workload and scheduler.
pub fn classic(results: &Results<'_>, with_total: bool) -> String {
    let cells = results.cells();
    let groups = cells.iter().map(|cell| cell.groups.len()).max().unwrap_or(0);
    let (directory, device) = match cells.first().map(|cell| &cell.runs[0].target) {
        Some(target) if target.notes.contains_key("directory") => (target.notes["directory"].as_str(), "-"),
        Some(target) => ("-", target.path.as_str()),
        None => ("-", "-"),
    };
    let mut text = format!(
        "Host={} Kernel={}\nGROUPMODE={} NRGRP={groups}\nDIR={directory} DEV={device}\n",
        results.environment("hostname"),
        kernel(results, cells.first()),
        u8::from(groups > 1),
    );
    for block in cells.chunk_by(|a, b| a.workload == b.workload && a.spec == b.spec) {
        classic_block(&mut text, block, with_total);
    }
    text
}

/// The kernel whose rules the runs had: the simulated one's era, else the machine's own.
fn kernel(results: &Results<'_>, first: Option<&Cell<'_>>) -> String {
    match first.and_then(|cell| cell.runs.first()) {
        Some(run) if run.host == "simulator" => {
            let era = match run.experiment.machine.era {
                KernelEra::Linux24 => "2.4",
                KernelEra::Linux26 => "2.6",
                KernelEra::Linux3 => "3",
                KernelEra::Mq => "mq",
            };
            format!("{era}(simulated)")
        }
        _ => results.environment("kernel").to_owned(),
    }
}

fn classic_block(text: &mut String, block: &[Cell<'_>], with_total: bool) {
    let Some(first) = block.first() else { return };
    let job = first.plan_groups().find_map(|group| group.jobs.first());
    let file_size = match job.and_then(|job| job.area.size) {
        Some(Amount::Bytes(bytes)) => quantity::size(bytes),
        Some(Amount::Percent(percent)) => format!("{percent}%"),
        None => "-".to_owned(),
    };
    let bs = job.map_or_else(|| "-".to_owned(), quantity::block_size);
    let name = &first.scheduler.name;
    let mut tunables: Vec<_> = first.scheduler.tunables.iter().collect();
    tunables.sort_by_key(|t| {
        let first = CLASSIC_FIRST.iter().position(|name| *name == t.name);
        (first.unwrap_or(CLASSIC_FIRST.len()), t.name.as_str())
    });
    let tunables: Vec<String> = tunables.iter().map(|t| format!("{}={}", t.name, t.value)).collect();
    let rows: Vec<ClassicRow> = block.iter().map(|cell| ClassicRow::of(cell, with_total)).collect();
    let mut names: Vec<&str> = first.groups.iter().map(|group| group.path).collect();
    names.extend(with_total.then_some("total"));
    let _ = write!(
        text,
        "Workload={workload} iosched={name} Filesz={file_size} bs={bs}\n{}\n{}\nAVERAGE[{workload}] [bw in KB/s]\n-------\n{}",
        tunables.join(" "),
        "=".repeat(73),
        classic_rows(&names, &rows),
        workload = first.workload,
    );
}

/// One row of the classic table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassicRow {
    /// The workload.
    pub job: String,
    /// Number of repetitions that were averaged.
    pub sets: usize,
    /// Thread count.
    pub threads: u32,
    /// KiB/s of each group, followed by the total if requested.
    pub kib_per_s: Vec<u64>,
}

impl ClassicRow {
    fn of(cell: &Cell<'_>, with_total: bool) -> Self {
        let kib_of = |index: Option<usize>| {
            let per_set = cell.runs.iter().map(|run| match index {
                Some(index) => run.groups.get(index).map_or(0.0, |group| run.per_s(group.bytes()) / 1024.0),
                None => run.bytes_per_s() / 1024.0,
            });
            truncated_mean(&per_set.collect::<Vec<_>>())
        };
        let mut kib_per_s: Vec<u64> = cell.groups.iter().map(|group| kib_of(Some(group.index))).collect();
        // Computed from the totals of the sets, so it may exceed the sum of the columns, as in
        // iostest.
        kib_per_s.extend(with_total.then(|| kib_of(None)));
        Self { job: cell.workload.to_owned(), sets: cell.runs.len(), threads: cell.threads, kib_per_s }
    }
}

/// Header, rule and rows of the classic table; `names` are those of the columns, including the
/// total.
pub fn classic_rows(names: &[&str], rows: &[ClassicRow]) -> String {
    let digits = rows.iter().flat_map(|row| &row.kib_per_s).map(|value| value.to_string().len());
    let names_width = names.iter().map(|name| name.chars().count());
    // All columns become wider as soon as one needs more than six characters.
    let width = digits.chain(names_width).max().unwrap_or(0).max(6) + 1;
    let job_width = rows.iter().map(|row| row.job.chars().count()).max().unwrap_or(0).max(3);
    let mut text = format!("{:<job_width$} Set NR", "job");
    for name in names {
        let _ = write!(text, " {name:>width$}");
    }
    let _ = writeln!(text, "\n{} --- -- {}", "-".repeat(job_width), "-".repeat(width * names.len()));
    for row in rows {
        let _ = write!(text, "{:<job_width$} {:>3} {:>2}", row.job, row.sets, row.threads);
        for value in &row.kib_per_s {
            let _ = write!(text, " {value:>width$}");
        }
        text.push('\n');
    }
    text
}

/// Optional columns of the text table.
#[derive(Clone, PartialEq, Debug)]
pub struct TextOptions {
    /// Percentiles of latency, each 0 to 100 (100 = the maximum).
    pub percentiles: Vec<f64>,
    /// Whether there is an additional line per group with its latencies.
    pub per_group_latency: bool,
    /// Columns of the terminal: sentences are wrapped, and percentiles that do not fit are left out. Without
    /// one, as in a file or a pipe, every line is as long as it needs to be.
    pub width: Option<usize>,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { percentiles: vec![50.0, 99.0, 99.9], per_group_latency: false, width: None }
    }
}

/// The text table: one block per workload.
pub fn text(results: &Results<'_>, options: &TextOptions) -> String {
    let cells = results.cells();
    let blocks = cells.chunk_by(|a, b| a.workload == b.workload);
    // Symbols are explained once, below the first table.
    let signs = |index| if index == 0 { legend::below(&cells, &options.percentiles) } else { String::new() };
    let blocks: Vec<String> =
        blocks.enumerate().map(|(index, block)| text_block(results, block, options, &signs(index))).collect();
    blocks.join("\n") + incomplete(results) + &verdicts(results)
}

pub(crate) fn incomplete(results: &Results<'_>) -> &'static str {
    if results.complete { "" } else { "incomplete: the test was interrupted; --resume runs the missing runs\n" }
}

pub(crate) fn verdicts(results: &Results<'_>) -> String {
    let mut text = String::new();
    for verdict in results.verdicts {
        let word = match (verdict.is_inconclusive, verdict.ok) {
            (true, _) => "INCONCLUSIVE",
            (false, true) => "holds",
            (false, false) => "FAILS",
        };
        let [value, limit] = [verdict.value, verdict.limit].map(|value| quantity::amount(verdict.quantity, value));
        let _ = writeln!(text, "{word}: {}   ({value} against {limit}, {})", verdict.expr, verdict.cell);
    }
    text
}

/// Length of the runs: as requested or, if everything was done earlier, that of the first one.
pub(crate) fn length(results: &Results<'_>, cell: &Cell<'_>) -> String {
    let window_ns = cell.runs[0].window_ns;
    match window_ns / 1_000_000 {
        _ if window_ns >= results.matrix.runtime_ns => span(results.matrix.runtime_ns),
        ms @ 0..1_000 => format!("{ms}ms"),
        ms => format!("{:.1}s", ms as f64 / 1e3),
    }
}

fn text_block(results: &Results<'_>, block: &[Cell<'_>], options: &TextOptions, signs: &str) -> String {
    let Some(first) = block.first() else { return String::new() };
    let sets = block.iter().map(|cell| cell.runs.len()).max().unwrap_or(1);
    let runs = if sets == 1 { String::new() } else { format!(" x {sets} sets") };
    let groups = match first.groups.len() {
        1 => "1 group".to_owned(),
        n => format!("{n} groups weight {}", quantity::weights(first)),
    };
    let wrapped = |text: String| options.width.map_or_else(|| text.clone(), |width| wrap::lines(&text, width));
    let title = format!(
        "{}  {}, {groups}, {}{runs}      {}\n",
        first.workload,
        quantity::jobs(first),
        length(results, first),
        first.runs[0].target.path,
    );
    let shape = Shape::of(block);
    let mut grid = Grid::new(&text_header(first, shape, options));
    entitled_rows(block, shape).into_iter().for_each(|row| grid.row(row));
    for cell in block {
        grid.row(text_row(cell, shape, options));
        if options.per_group_latency {
            for group in 0..cell.groups.len() {
                grid.row(group_row(cell, group, shape, options));
            }
        }
    }
    let omitted = options.width.map_or_else(Vec::new, |width| grid.fit(width, options.percentiles.len()));
    let mut text = wrapped(title) + &grid.show();
    if !omitted.is_empty() {
        text.push_str(&wrapped(format!("  too narrow for {}: a wider terminal, or --percentiles", omitted.join(", "))));
    }
    text.push_str(&wrapped(signs.to_owned() + &best(block)));
    text.push_str(&jobs_of(block, &options.percentiles));
    text.push_str(&in_force(block, options.width.unwrap_or(usize::MAX).min(IN_FORCE)));
    text.push_str(&wrapped(processors(block)));
    text.push_str(&wrapped(processes(block)));
    text
}

/// The results of single jobs, below those of the groups.
fn jobs_of(block: &[Cell<'_>], percentiles: &[f64]) -> String {
    let Some(table) = jobs::table(block, percentiles, JOB_ROWS) else { return String::new() };
    let mut grid = Grid::with_names(&table.header, table.names);
    table.rows.iter().for_each(|row| grid.row(row.clone()));
    let mut text = format!("{}\n{}", jobs::NOTE, grid.show());
    let omitted = jobs::omitted(&table);
    if !omitted.is_empty() {
        let _ = writeln!(text, "{omitted}");
    }
    text
}

/// Formatting that all rows of a block share.
#[derive(Copy, Clone)]
struct Shape {
    /// Decimals of rates.
    places: usize,
    /// Whether there is a column of discards, which are no throughput and absent from most loads.
    has_discards: bool,
    /// Whether what the groups are entitled to is known, so that they are judged by it and not by
    /// their weights alone.
    has_entitlements: bool,
}

impl Shape {
    fn of(block: &[Cell<'_>]) -> Self {
        let places = decimals(block.iter().map(|cell| mib(cell.bytes_per_s.mean)).fold(0.0, f64::max));
        let has_entitlements = block.iter().any(|cell| cell.entitlement.is_some());
        Self { places, has_discards: block.iter().any(discards), has_entitlements }
    }
}

/// Whether anything was discarded.
pub(crate) fn discards(cell: &Cell<'_>) -> bool {
    cell.discarded_bytes_per_s.mean > 0.0
}

/// A rate of discards in MiB/s.
pub(crate) fn discarded(rate: &Estimate) -> String {
    format!("{:.*}", decimals(mib(rate.mean)), mib(rate.mean))
}

fn text_header(first: &Cell<'_>, shape: Shape, options: &TextOptions) -> Vec<String> {
    let mut header: Vec<String> = ["sched", "NR", "total MiB/s"].map(str::to_owned).into();
    header.extend(shape.has_discards.then(|| "discarded MiB/s".to_owned()));
    header.extend(first.groups.iter().map(|group| group.path.to_owned()));
    header.push(if shape.has_entitlements { "isolation" } else { "share error" }.to_owned());
    header.extend(options.percentiles.iter().map(|&percent| quantity::percentile_of(first, percent)));
    header.push(String::new());
    header
}

/// What each group is entitled to, once for each thread count. Empty where it is not known, or in
/// I/Os instead of bytes.
fn entitled_rows(block: &[Cell<'_>], shape: Shape) -> Vec<Vec<String>> {
    let mut seen: Vec<u32> = Vec::new();
    let row = |cell: &Cell<'_>| {
        let rate = |group| Metric::Entitled.of(cell, Some(group), None).map(|rate| rate.mean);
        let rates: Vec<f64> = (0..cell.groups.len()).map(rate).collect::<Option<_>>().filter(|_| {
            let is_new = !seen.contains(&cell.threads);
            seen.push(cell.threads);
            is_new
        })?;
        let show = |rate: f64| format!("{:.*}", shape.places, mib(rate));
        let mut row = vec!["entitled".to_owned(), cell.threads.to_string(), String::new()];
        row.extend(shape.has_discards.then(String::new));
        row.extend(rates.into_iter().map(show));
        Some(row)
    };
    block.iter().filter_map(row).collect()
}

fn text_row(cell: &Cell<'_>, shape: Shape, options: &TextOptions) -> Vec<String> {
    let (places, total) = (shape.places, &cell.bytes_per_s);
    let interval = half_width(total, mib(1.0), places);
    let mut row = vec![scheduler(cell), cell.threads.to_string(), format!("{:.places$} +-{interval}", mib(total.mean))];
    row.extend(shape.has_discards.then(|| discarded(&cell.discarded_bytes_per_s)));
    row.extend(cell.groups.iter().map(|group| format!("{:.places$}", mib(group.bytes_per_s.mean))));
    row.push(match &cell.fairness {
        _ if shape.has_entitlements => quantity::isolation(cell, None),
        Some(fairness) => format!("{} max", percent(fairness.error_max)),
        None => "-".to_owned(),
    });
    row.extend(latencies(cell, None, options));
    let other = cell.flags.iter().filter(|flag| **flag != Flag::NoShares);
    let mut marks: Vec<&str> = other.map(|flag| flag.label()).collect();
    marks.extend(mark_of_shares(cell));
    row.push(marks.join(", "));
    row
}

/// The mark of a cell whose scheduler knows no weights, but whose groups have limits.
pub(crate) const LIMITS_ONLY: &str = "what its limit allows";

/// The mark of a cell whose scheduler knows no weights.
pub(crate) fn mark_of_shares(cell: &Cell<'_>) -> Option<&'static str> {
    let is_without = (!cell.scheduler.has_shares && cell.groups.len() > 1) || cell.flags.contains(&Flag::NoShares);
    is_without.then(|| if has_limits(cell) { LIMITS_ONLY } else { Flag::NoShares.label() })
}

/// Whether one of the groups has limits.
fn has_limits(cell: &Cell<'_>) -> bool {
    cell.runs
        .iter()
        .flat_map(|run| &*run.experiment.groups)
        .any(|group| group.limits != hoistway_experiment::Limits::NONE)
}

fn group_row(cell: &Cell<'_>, group: usize, shape: Shape, options: &TextOptions) -> Vec<String> {
    let (places, entry) = (shape.places, &cell.groups[group]);
    let mut row = vec![format!("  {}", entry.path), String::new(), format!("{:.places$}", mib(entry.bytes_per_s.mean))];
    row.extend(shape.has_discards.then(|| discarded(&entry.discarded_bytes_per_s)));
    row.extend(cell.groups.iter().map(|_| String::new()));
    let error = cell.fairness.as_ref().and_then(|fairness| fairness.error(group));
    row.push(match error {
        _ if shape.has_entitlements => quantity::isolation(cell, Some(group)),
        Some(error) => percent(error),
        None => "-".to_owned(),
    });
    row.extend(latencies(cell, Some(group), options));
    row.push(String::new());
    row
}

/// Latencies of one group, or of the slowest one.
fn latencies(cell: &Cell<'_>, group: Option<usize>, options: &TextOptions) -> Vec<String> {
    let figures = group.map(|group| cell.latency(Some(group), None));
    let percentile = |percent: f64| match &figures {
        Some(figures) => Percentile::of(figures, percent),
        None => cell.slowest_group(percent).map(|(_, percentile)| percentile),
    };
    let show = |&percent: &f64| percentile(percent).map_or_else(|| "-".to_owned(), |it| time(it.ns));
    options.percentiles.iter().map(show).collect()
}

/// The lines that name the winners, at the highest thread count of each scheduler.
fn best(block: &[Cell<'_>]) -> String {
    let highest: Vec<&Cell<'_>> = block.chunk_by(|a, b| a.spec == b.spec).filter_map(<[_]>::last).collect();
    if highest.len() < 2 {
        return String::new();
    }
    winners::best(&highest).iter().map(winners::Best::line).collect()
}

/// The longest line of settings, in columns: they are many, and are not compared from row to row.
const IN_FORCE: usize = 120;

/// The tunables in force of each scheduler.
fn in_force(block: &[Cell<'_>], width: usize) -> String {
    let mut text = String::new();
    for cells in block.chunk_by(|a, b| a.spec == b.spec) {
        let Some(first) = cells.first().filter(|cell| !cell.scheduler.tunables.is_empty()) else { continue };
        let mut line = format!("in force: {}", first.scheduler.name);
        for tunable in tunables(first) {
            if line.chars().count() + tunable.len() > width.saturating_sub(2) {
                let _ = writeln!(text, "{line}");
                line = " ".repeat(9);
            }
            let _ = write!(line, " {tunable}");
        }
        let _ = writeln!(text, "{line}");
    }
    let limiters = block.iter().filter_map(|cell| cell.runs.first()?.target.notes.get("limiters"));
    for limiters in limiters.collect::<std::collections::BTreeSet<_>>() {
        let _ = writeln!(text, "above it: {limiters}");
    }
    text
}

/// What an I/O cost the simulated processors under each scheduler.
fn processors(block: &[Cell<'_>]) -> String {
    let mut text = String::new();
    for cell in block {
        let Some(run) = cell.runs.first() else { continue };
        let Some(time) = run.processors else { continue };
        let ios = run.groups.iter().map(GroupMeasurement::ios).sum::<u64>().max(1);
        let available_ns = (run.experiment.machine.cpus * run.window_ns).max(1);
        // A process stays on its processor: no more processors than processes can be busy.
        let processes = run.groups.iter().map(|group| group.threads.len() as u64).sum::<u64>().max(1);
        let usable_ns = run.experiment.machine.cpus.min(processes) * run.window_ns;
        let is_limit = time.busy_ns >= usable_ns / 100 * SATURATED_PERCENT;
        let _ = writeln!(
            text,
            "processors: {} NR {}: {:.2} us per I/O, {:.0}% of it waiting for a lock; {:.0}% busy{}",
            cell.spec,
            run.experiment.threads,
            time.busy_ns as f64 / ios as f64 / 1e3,
            time.lock_wait_ns as f64 * 100.0 / time.busy_ns.max(1) as f64,
            time.busy_ns as f64 * 100.0 / available_ns as f64,
            if is_limit { ": they were the limit, not the device" } else { "" },
        );
    }
    text
}

/// Above this, work waits for processors most of the time.
const SATURATED_PERCENT: u64 = 95;

/// Which runs were limited by their simulated processes: a process submits one I/O after the other, each in
/// `submit_ns`. With `contention=1` the line of processors says it.
fn processes(block: &[Cell<'_>]) -> String {
    let mut text = String::new();
    for cell in block {
        let Some(run) = cell.runs.first().filter(|run| run.host == "simulator" && run.processors.is_none()) else {
            continue;
        };
        let submit_ns = run.experiment.machine.submit_ns_in_force();
        let is_direct = cell.plan_groups().all(|group| group.jobs.iter().all(|job| job.submission.direct));
        let mut threads = run.groups.iter().flat_map(|group| &group.threads).filter(|thread| thread.ios > 0).peekable();
        if !is_direct || submit_ns == 0 || threads.peek().is_none() {
            continue;
        }
        if threads.all(|thread| thread.ios.saturating_mul(submit_ns) >= thread.elapsed_ns / 100 * SATURATED_PERCENT) {
            let _ = writeln!(
                text,
                "processes: {} NR {}: each submits an I/O in {:.2} us and did nothing else: they were the limit, not the \
                 device; --threads gives more of them",
                cell.spec,
                run.experiment.threads,
                submit_ns as f64 / 1e3,
            );
        }
    }
    text
}
