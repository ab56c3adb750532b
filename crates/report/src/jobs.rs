//! Results of single jobs as rows, for the tables in the terminal, in Markdown and on the page.

use hoistway_experiment::cell::Cell;
use hoistway_experiment::job_summary::{JobDirection, JobSummary, summaries};

use crate::quantity::{decimals, mib, percentile_name, scheduler, time};

/// Explanation of the rows in one line.
pub(crate) const NOTE: &str = "Results of jobs: rates are over each job's own time.";

/// The jobs of the cells of one workload.
pub(crate) struct JobTable {
    /// Names of the columns; the last one contains remarks and has no name.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// Number of columns from the left that contain names; the others contain figures.
    pub names: usize,
    /// Number of omitted rows.
    pub omitted: usize,
}

/// At most `most_rows` rows; `None` if no job has a result of its own.
pub(crate) fn table(block: &[Cell<'_>], percentiles: &[f64], most_rows: usize) -> Option<JobTable> {
    let all: Vec<(&Cell<'_>, Vec<JobSummary<'_>>)> = block.iter().map(|cell| (cell, summaries(cell))).collect();
    let first = block.first()?;
    let jobs = || all.iter().flat_map(|(_, jobs)| jobs);
    let first_group = jobs().next()?.group;
    // Properties that all rows share need no column.
    let has_schedulers = block.iter().any(|cell| scheduler(cell) != scheduler(first));
    let has_threads = block.iter().any(|cell| cell.threads != first.threads);
    let has_groups = jobs().any(|job| job.group != first_group);
    let names = [(has_schedulers, "sched"), (has_threads, "NR"), (has_groups, "group"), (true, "job"), (true, "")];
    let mut header: Vec<String> =
        names.iter().filter(|(is_shown, _)| *is_shown).map(|(_, name)| (*name).to_owned()).collect();
    let names = header.len();
    header.extend(["MiB/s", "IOPS", "time"].map(str::to_owned));
    header.extend(percentiles.iter().map(|&percent| percentile_name(percent)));
    header.push(String::new());
    let fastest = jobs().flat_map(|job| &job.directions).map(|it| mib(it.bytes_per_s.mean)).fold(0.0, f64::max);
    let mut rows = Vec::new();
    for (cell, job) in all.iter().flat_map(|(cell, jobs)| jobs.iter().map(move |job| (cell, job))) {
        let key = |direction: &str| {
            let mut row: Vec<String> = has_schedulers.then(|| scheduler(cell)).into_iter().collect();
            row.extend(has_threads.then(|| cell.threads.to_string()));
            row.extend(has_groups.then(|| job.group.to_owned()));
            row.extend([job.label.clone(), direction.to_owned()]);
            row
        };
        if job.directions.is_empty() {
            let mut row = key("-");
            row.resize(header.len() - 1, "-".to_owned());
            row.push(job.cut_off.clone());
            rows.push(row);
        }
        for direction in &job.directions {
            let mut row = key(direction.name);
            row.extend(figures(direction, decimals(fastest), percentiles));
            row.push(job.cut_off.clone());
            rows.push(row);
        }
    }
    let omitted = rows.len().saturating_sub(most_rows);
    rows.truncate(most_rows);
    Some(JobTable { header, rows, names, omitted })
}

fn figures(it: &JobDirection, places: usize, percentiles: &[f64]) -> Vec<String> {
    // Flushes have no bytes.
    let rate = if it.name == "sync" { "-".to_owned() } else { format!("{:.places$}", mib(it.bytes_per_s.mean)) };
    let mut row = vec![rate, format!("{:.0}", it.ios_per_s.mean), time(it.runtime_ns.mean)];
    row.extend(percentiles.iter().map(|&percent| time(it.latency.percentile_ns(percent) as f64)));
    row
}

/// A note about omitted rows; empty if there are none.
pub(crate) fn omitted(table: &JobTable) -> String {
    match table.omitted {
        0 => String::new(),
        count => format!("{count} more rows are in --format csv and json"),
    }
}
