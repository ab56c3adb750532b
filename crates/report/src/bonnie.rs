//! bonnie++'s own lines: K/sec and %CP of each block phase of the workload `bonnie`.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;
use hoistway_experiment::measurement::Measurement;

use crate::Results;
use crate::quantity::scheduler;

/// The phases by the names of their jobs, in the order of bonnie++'s columns.
const PHASES: [&str; 3] = ["write", "rewrite", "read"];
/// Columns of a phase: `K/sec %CP`.
const WIDTH: usize = 12;

/// The lines, one per cell; a phase that a cell does not have is `-`.
///
/// A rewritten byte counts once, as in bonnie++. `%CP` is the processor time of calls and of copying to and
/// from the page cache, known for simulated runs only.
pub fn lines(results: &Results<'_>) -> String {
    let cells = results.cells();
    let names: Vec<String> = cells.iter().map(scheduler).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("Scheduler".len());
    let mut text = format!(
        "{:width$} {:>8} --Sequential Output------ Input-------\n{:width$} {:>8} ---Block---- --Rewrite--- ---Block----\n{:width$} {:>8}",
        "", "", "", "", "Scheduler", "Size"
    );
    text.push_str(&"   K/sec  %CP".repeat(PHASES.len()));
    text.push('\n');
    for (cell, name) in cells.iter().zip(&names) {
        let _ = write!(text, "{name:width$} {:>8}", size(cell));
        for phase in PHASES {
            let figures: Vec<(f64, Option<f64>)> = cell.runs.iter().filter_map(|run| figures(run, phase)).collect();
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            if figures.is_empty() {
                let _ = write!(text, " {:>WIDTH$}", "-");
                continue;
            }
            let rates: Vec<f64> = figures.iter().map(|(rate, _)| *rate).collect();
            let used: Vec<f64> = figures.iter().filter_map(|(_, used)| *used).collect();
            let used = if used.is_empty() { "-".to_owned() } else { format!("{:.0}", mean(&used)) };
            let _ = write!(text, " {:>7.0} {used:>4}", mean(&rates));
        }
        text.push('\n');
    }
    text
}

/// Size of the file.
fn size(cell: &Cell<'_>) -> String {
    let job = cell.plan_groups().find_map(|group| group.jobs.first());
    match job.and_then(|job| job.area.size) {
        Some(hoistway_experiment::job::Amount::Bytes(bytes)) => crate::quantity::size(bytes),
        _ => "-".to_owned(),
    }
}

/// KiB per second and percent of a processor of a phase; `None` if nothing was done in it.
fn figures(run: &Measurement, phase: &str) -> Option<(f64, Option<f64>)> {
    let threads = run.groups.iter().flat_map(|group| &group.threads);
    // WORKLOAD.PHASE.NUMBER
    let is_of_phase = |name: &str| name.rsplit('.').nth(1) == Some(phase);
    let threads = threads.filter(|thread| is_of_phase(&thread.name));
    let (mut bytes, mut ios, mut elapsed_ns) = (0, 0, 0);
    for thread in threads {
        (bytes, ios) = (bytes + thread.bytes, ios + thread.ios);
        elapsed_ns = elapsed_ns.max(thread.elapsed_ns);
    }
    if elapsed_ns == 0 {
        return None;
    }
    let written_once = if phase == "rewrite" { bytes / 2 } else { bytes };
    let machine = &run.experiment.machine;
    let copied_ns = bytes as f64 * 1e3 / machine.copy_mb_per_s_in_force().max(1) as f64;
    let used_ns = ios as f64 * machine.call_ns as f64 + copied_ns;
    let used = (run.host == "simulator").then_some(used_ns * 100.0 / elapsed_ns as f64);
    Some((written_once as f64 / 1_024.0 / (elapsed_ns as f64 / 1e9), used))
}
