//! The text table as a pipe table, to paste into an issue or a mail.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;

use crate::quantity::{decimals, half_width, isolation, mib, percent, percentile_of, scheduler, time};
use crate::table::{JOB_ROWS, discarded, discards};
use crate::{Results, jobs};

/// One pipe table per workload.
pub fn table(results: &Results<'_>, percentiles: &[f64]) -> String {
    let cells = results.cells();
    let blocks = cells.chunk_by(|a, b| a.workload == b.workload).map(|block| workload(block, percentiles));
    blocks.collect::<Vec<_>>().join("\n")
}

fn workload(block: &[Cell<'_>], percentiles: &[f64]) -> String {
    let Some(first) = block.first() else { return String::new() };
    let mut header: Vec<String> = ["sched", "NR", "total MiB/s", "+-"].map(str::to_owned).into();
    let has_discards = block.iter().any(discards);
    header.extend(has_discards.then(|| "discarded MiB/s".to_owned()));
    header.extend(first.groups.iter().map(|group| format!("{} ({})", group.path, group.weight)));
    let has_entitlements = block.iter().any(|cell| cell.entitlement.is_some());
    header.push(if has_entitlements { "isolation" } else { "share error max" }.to_owned());
    header.extend(percentiles.iter().map(|&percent| percentile_of(first, percent)));
    let mut text = format!("**{}** on {}\n\n", escaped(first.workload), escaped(&first.runs[0].target.path));
    line(&mut text, &header);
    let rules: Vec<String> =
        (0..header.len()).map(|column| if column == 0 { "---" } else { "--:" }.to_owned()).collect();
    line(&mut text, &rules);
    for cell in block {
        let places = decimals(mib(cell.bytes_per_s.mean));
        let total = &cell.bytes_per_s;
        let mut row = vec![scheduler(cell), cell.threads.to_string(), format!("{:.places$}", mib(total.mean))];
        row.push(half_width(total, mib(1.0), places));
        row.extend(has_discards.then(|| discarded(&cell.discarded_bytes_per_s)));
        row.extend(cell.groups.iter().map(|group| format!("{:.places$}", mib(group.bytes_per_s.mean))));
        row.push(match &cell.fairness {
            _ if has_entitlements => isolation(cell, None),
            Some(fairness) => percent(fairness.error_max),
            None => "-".to_owned(),
        });
        let worst = |percent| cell.slowest_group(percent).map_or_else(|| "-".to_owned(), |(_, it)| time(it.ns));
        row.extend(percentiles.iter().map(|&percent| worst(percent)));
        line(&mut text, &row);
    }
    text.push_str(&jobs_of(block, percentiles));
    text
}

/// The results of single jobs.
fn jobs_of(block: &[Cell<'_>], percentiles: &[f64]) -> String {
    let Some(table) = jobs::table(block, percentiles, JOB_ROWS) else { return String::new() };
    let mut text = format!("\n{}\n\n", jobs::NOTE);
    line(&mut text, &table.header);
    let is_name = |column: usize| column < table.names || column + 1 == table.header.len();
    let rules = (0..table.header.len()).map(|column| if is_name(column) { "---" } else { "--:" }.to_owned());
    line(&mut text, &rules.collect::<Vec<_>>());
    table.rows.iter().for_each(|row| line(&mut text, row));
    let omitted = jobs::omitted(&table);
    if !omitted.is_empty() {
        let _ = writeln!(text, "\n{omitted}");
    }
    text
}

fn line(text: &mut String, cells: &[String]) {
    for cell in cells {
        let _ = write!(text, "| {} ", escaped(cell));
    }
    text.push_str("|\n");
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
