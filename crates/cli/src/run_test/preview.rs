//! The plan in a few lines, before anything happens. Source: docs/specifications/harness.md,
//! section 5.4.

use std::fmt::Write;
use std::time::Duration;

use hoistway_experiment::Experiment;
use hoistway_experiment::matrix::Matrix;

use super::plan::Plan;
use crate::target::HostName;

/// The lines; with `all` also every run, in order.
pub fn text(plan: &Plan, all: bool) -> String {
    let matrix = &plan.matrix;
    let counts = [
        counted(matrix.workloads.len(), "workload"),
        counted(matrix.schedulers.len(), "scheduler"),
        counted(matrix.threads.len(), "thread count"),
        counted(matrix.sets as usize, "set"),
    ];
    let each = match plan.expected_ns {
        Some(expected_ns) => format!("{} of trace each", span(expected_ns)),
        None if is_until_done(matrix) => "each until its jobs are done".to_owned(),
        None => format!("{} + {} ramp each", span(matrix.runtime_ns), span(matrix.ramp_ns)),
    };
    let runs = runs(matrix);
    let time = match real_time(plan) {
        Some(time) => format!("about {}, {each}", minutes(time)),
        None if plan.host == HostName::Simulator => format!("simulated, {each}"),
        None => each,
    };
    let more = if plan.max_sets > matrix.sets { format!(", up to {} sets", plan.max_sets) } else { String::new() };
    let mut text = format!("plan: {} = {}{more}, {time}\n", counts.join(" x "), counted(runs, "run"));
    let solo = plan.solo_runs();
    if let Some(first) = solo.first() {
        let each = format!("{} + {} ramp", span(first.runtime_ns), span(first.ramp_ns));
        let what = "what each group achieves alone; --no-solo leaves them out";
        let _ = writeln!(text, "before them: {} of {each}: {what}", counted(solo.len(), "solo run"));
    }
    let _ = writeln!(
        text,
        "target: {} on the {}   access: {}",
        matrix.target,
        plan.host.text(),
        plan.target.access(plan.terms.may_write)
    );
    for workload in &matrix.workloads {
        let groups: Vec<String> =
            workload.groups.iter().map(|group| format!("{} {}", group.path, group.weight)).collect();
        let _ = writeln!(text, "{}: {}: {}", workload.name, counted(groups.len(), "group"), groups.join(", "));
    }
    let schedulers: Vec<String> = matrix.schedulers.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "schedulers: {}", schedulers.join("  "));
    let threads: Vec<String> = matrix.threads.iter().map(u32::to_string).collect();
    let _ = writeln!(text, "threads per group: {}", threads.join(", "));
    if plan.target.is_made() {
        let _ = writeln!(text, "test file: {} MiB", plan.file_bytes() >> 20);
    }
    if all {
        for (index, run) in matrix.experiments().iter().enumerate() {
            let _ = writeln!(text, "{:>4}  {}", index + 1, hoistway::plan::check::name_of(run));
        }
    }
    text
}

/// The number of runs, without those that the required precision may add.
pub fn runs(matrix: &Matrix) -> usize {
    matrix.workloads.len() * matrix.schedulers.len() * matrix.threads.len() * matrix.sets as usize
}

fn is_until_done(matrix: &Matrix) -> bool {
    matrix.runtime_ns == Experiment::UNTIL_DONE_NS
}

/// The duration of the runs, if they take real time and it is known.
pub fn real_time(plan: &Plan) -> Option<Duration> {
    if is_until_done(&plan.matrix) && plan.expected_ns.is_none() {
        return None;
    }
    let run_ns = plan.expected_ns.unwrap_or_else(|| plan.matrix.runtime_ns.saturating_add(plan.matrix.ramp_ns));
    if plan.host == HostName::Simulator {
        return None;
    }
    let each_ns = run_ns.saturating_add(plan.cooldown_ns);
    let solo = plan.solo_runs();
    let solo_ns: u64 = solo.iter().map(|run| run.length_ns().saturating_add(plan.cooldown_ns)).sum();
    Some(Duration::from_nanos(each_ns.saturating_mul(runs(&plan.matrix) as u64).saturating_add(solo_ns)))
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

fn span(ns: u64) -> String {
    if ns.is_multiple_of(1_000_000_000) { format!("{}s", ns / 1_000_000_000) } else { format!("{}ms", ns / 1_000_000) }
}
