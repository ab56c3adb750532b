//! The tables of the page: settings, all figures, plan and machine.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;
use hoistway_experiment::matrix::Order;
use hoistway_experiment::{Percentile, ShareUnit};

use super::svg::escaped;
use crate::Results;
use crate::quantity::{
    amount, decimals, half_width, isolation, mib, percent, scheduler, span, time, tunables, weights,
};
use crate::table::{discarded, discards, length};

/// Maximum number of rows of jobs on the page.
const JOB_ROWS: usize = 1_000;

/// Each scheduler with all settings in force.
pub(super) fn settings(cells: &[&Cell<'_>]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table><tr><th>scheduler</th><th class=\"text\">settings in force</th></tr>\n",
    );
    for cell in cells {
        let mut list = String::new();
        for tunable in tunables(cell) {
            let shown = escaped(&tunable);
            let changed = tunable.ends_with('*');
            let _ = if changed {
                write!(list, "<b><code>{shown}</code></b>")
            } else {
                write!(list, "<code>{shown}</code>")
            };
        }
        if list.is_empty() {
            list.push_str("no settings");
        }
        let shares = if cell.scheduler.has_shares { "" } else { "<br><small>weights have no effect</small>" };
        let name = escaped(&scheduler(cell));
        let _ = writeln!(
            text,
            "<tr><td class=\"text\"><b>{name}</b>{shares}</td><td class=\"text\"><div class=\"settings\">{list}</div></td></tr>"
        );
    }
    text.push_str("</table></div>\n");
    text
}

/// Every figure of every cell.
pub(super) fn figures(block: &[Cell<'_>]) -> String {
    let Some(first) = block.first() else { return String::new() };
    let mut text =
        String::from("<div class=\"scroll\"><table><tr><th>scheduler</th><th>NR</th><th>total<br>MiB/s</th><th>±</th>");
    let has_discards = block.iter().any(discards);
    if has_discards {
        text.push_str("<th>discarded<br>MiB/s</th>");
    }
    for group in &first.groups {
        let _ = write!(text, "<th>{}<br>({})</th>", escaped(group.path), group.weight);
    }
    text.push_str("<th>of the<br>best</th><th>isolation</th><th>share<br>error</th><th>Jain</th>");
    let of = if first.groups.len() > 1 { "worst<br>" } else { "" };
    for name in ["p50", "p99", "p99.9", "max"] {
        let _ = write!(text, "<th>{of}{name}</th>");
    }
    text.push_str("</tr>\n");
    for cell in block {
        let total = &cell.bytes_per_s;
        let places = decimals(mib(total.mean));
        let _ = write!(
            text,
            "<tr><td>{}{}</td><td>{}</td><td><b>{:.places$}</b></td><td>{}</td>",
            escaped(&scheduler(cell)),
            marks(cell),
            cell.threads,
            mib(total.mean),
            half_width(total, mib(1.0), places),
        );
        if has_discards {
            let _ = write!(text, "<td>{}</td>", discarded(&cell.discarded_bytes_per_s));
        }
        for group in &cell.groups {
            let _ = write!(text, "<td>{:.places$}</td>", mib(group.bytes_per_s.mean));
        }
        let fairness = cell.fairness.as_ref();
        let error = fairness.map_or_else(|| "-".to_owned(), |fairness| percent(fairness.error_max));
        let jain = fairness.map_or_else(|| "-".to_owned(), |fairness| format!("{:.4}", fairness.jain));
        let (efficiency, isolation) = (percent(cell.efficiency.mean), isolation(cell, None));
        let _ = write!(text, "<td>{efficiency}</td><td>{isolation}</td><td>{error}</td><td>{jain}</td>");
        latencies(&mut text, cell, None);
        text.push_str(
            "</tr>
",
        );
    }
    text.push_str("</table></div>\n");
    text
}

/// Flags of a cell, in small type after its name.
fn marks(cell: &Cell<'_>) -> String {
    let marks: Vec<&str> = cell.flags.iter().map(|flag| flag.label()).collect();
    if marks.is_empty() { String::new() } else { format!(" <small>{}</small>", escaped(&marks.join(", "))) }
}

/// Latencies of each group.
pub(super) fn group_latencies(block: &[Cell<'_>]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table><tr><th>scheduler</th><th>NR</th><th class=\"text\">group</th><th>share</th><th>due</th><th>of its<br>entitlement</th><th>IOPS</th><th>p50</th><th>p99</th><th>p99.9</th><th>max</th></tr>\n",
    );
    for cell in block {
        for (index, group) in cell.groups.iter().enumerate() {
            let part = |parts: fn(&hoistway_experiment::share::Fairness) -> &Vec<f64>| {
                cell.fairness.as_ref().map_or_else(|| "-".to_owned(), |fairness| percent(parts(fairness)[index]))
            };
            let _ = write!(
                text,
                "<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0}</td>",
                escaped(&scheduler(cell)),
                cell.threads,
                escaped(group.path),
                part(|fairness| &fairness.share),
                part(|fairness| &fairness.due),
                isolation(cell, Some(index)),
                group.ios_per_s.mean,
            );
            latencies(&mut text, cell, Some(index));
            text.push_str("</tr>\n");
        }
    }
    text.push_str("</table></div>\n");
    text
}

/// Results of single jobs; empty if none has one.
pub(super) fn jobs(block: &[Cell<'_>]) -> String {
    let Some(table) = crate::jobs::table(block, &[50.0, 99.0, 99.9, 100.0], JOB_ROWS) else { return String::new() };
    let row = |cells: &[String], tag: &str| {
        let cell = |(column, cell): (usize, &String)| {
            let is_text = column < table.names || column + 1 == cells.len();
            let class = if is_text { " class=\"text\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(cell))
        };
        format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    let rows: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
    let omitted = crate::jobs::omitted(&table);
    let omitted = if omitted.is_empty() { omitted } else { format!("<p class=\"note\">{omitted}</p>\n") };
    format!("<div class=\"scroll\"><table>{}{rows}</table></div>\n{omitted}", row(&table.header, "th"))
}

/// Percentiles of one group, or of the slowest one.
fn latencies(text: &mut String, cell: &Cell<'_>, group: Option<usize>) {
    for percent in [50.0, 99.0, 99.9, 100.0] {
        let percentile = match group {
            Some(group) => Percentile::of(&cell.latency(Some(group), None), percent),
            None => cell.slowest_group(percent).map(|(_, percentile)| percentile),
        };
        let shown = percentile.map_or_else(|| "-".to_owned(), |percentile| time(percentile.ns));
        let _ = write!(text, "<td>{shown}</td>");
    }
}

/// The schedulers' reasons; empty if no host recorded them.
pub(super) fn reasons(cells: &[&Cell<'_>]) -> String {
    let mut text = String::new();
    for cell in cells {
        let reasons: Vec<(&String, &u64)> = cell.runs.iter().flat_map(|run| &run.dispatch_reasons).collect();
        let total: u64 = reasons.iter().map(|(_, count)| **count).sum();
        if total == 0 {
            continue;
        }
        let mut names: Vec<&String> = reasons.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        let count =
            |name: &String| reasons.iter().filter(|(other, _)| *other == name).map(|(_, count)| **count).sum::<u64>();
        let parts: Vec<String> = names
            .into_iter()
            .map(|name| format!("{} {}", escaped(name), percent(count(name) as f64 / total as f64)))
            .collect();
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escaped(&scheduler(cell)), parts.join(", "));
    }
    let runs = cells.iter().flat_map(|cell| &cell.runs);
    let meanings = super::glossary::list(runs.flat_map(|run| run.dispatch_reasons.keys()).map(String::as_str));
    if text.is_empty() { text } else { format!("<dl>{text}</dl>\n{meanings}") }
}

/// The plan.
pub(super) fn plan(results: &Results<'_>, cells: &[Cell<'_>]) -> String {
    let matrix = results.matrix;
    let join = |parts: Vec<String>| parts.join(", ");
    let threads = join(matrix.threads.iter().map(u32::to_string).collect());
    let schedulers = join(matrix.schedulers.iter().map(ToString::to_string).collect());
    let workloads = join(matrix.workloads.iter().map(|workload| workload.name.clone()).collect());
    let order = match matrix.order {
        Order::Interleaved => "schedulers shuffled within each set",
        Order::Classic => "scheduler by scheduler",
    };
    let unit = match matrix.share_unit {
        ShareUnit::Bytes => "bytes",
        ShareUnit::Ios => "requests",
        ShareUnit::Time => "device time",
    };
    let measured = cells.first().map_or_else(|| span(matrix.runtime_ns), |first| length(results, first));
    let mut rows = vec![
        ("target", matrix.target.clone()),
        ("workloads", workloads),
        ("schedulers", schedulers),
        ("threads per group", threads),
        ("weights", cells.first().map(weights).unwrap_or_default()),
        (
            "measured per run",
            if matrix.ramp_ns == 0 { measured } else { format!("{measured}, after {} of ramp", span(matrix.ramp_ns)) },
        ),
        ("runs", format!("{} ({} sets, {order})", results.measurements.len(), matrix.sets)),
        ("seed", matrix.seed.to_string()),
        ("shares in", unit.to_owned()),
    ];
    if let Some(depth) = matrix.device_depth {
        rows.push(("device depth", depth.to_string()));
    }
    if let Some(target) = results.measurements.first().map(|run| &run.target) {
        let size = target.size_bytes as f64 / 1e9;
        let kind = if target.rotational { "rotational" } else { "not rotational" };
        let (queues, depth) = (target.hw_queues, target.queue_depth);
        rows.push((
            "device",
            format!("{}, {size:.1} GB, {kind}, {queues} hardware queues, depth {depth}", target.model),
        ));
        rows.extend(target.notes.iter().map(|(key, value)| (key.as_str(), value.clone())));
    }
    definitions(rows.into_iter())
}

/// The machine and the command.
pub(super) fn environment(results: &Results<'_>) -> String {
    let fixed = [
        ("program", format!("hoistway {}", results.version)),
        ("host", results.host.to_owned()),
        ("started", results.started()),
    ];
    definitions(fixed.into_iter().chain(results.environment.iter().map(|(key, value)| (key.as_str(), value.clone()))))
}

fn definitions<'a>(rows: impl Iterator<Item = (&'a str, String)>) -> String {
    let rows = rows.map(|(key, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(key), escaped(&value)));
    format!("<dl>{}</dl>\n", rows.collect::<String>())
}

/// Assertions and their results; empty if there are none.
pub(super) fn verdicts(results: &Results<'_>) -> String {
    if results.verdicts.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section><h2>Assertions</h2><div class=\"scroll\"><table><tr><th>assertion</th><th class=\"text\">result</th><th>value</th><th>against</th><th class=\"text\">in</th></tr>\n",
    );
    for verdict in results.verdicts {
        let word = match (verdict.is_inconclusive, verdict.ok) {
            (true, _) => "? <b>inconclusive</b>: the confidence interval contains the limit",
            (false, true) => "✓ holds",
            (false, false) => "✗ <b>fails</b>",
        };
        let _ = writeln!(
            text,
            "<tr><td><code>{}</code></td><td class=\"text\">{word}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
            escaped(&verdict.expr),
            amount(verdict.quantity, verdict.value),
            amount(verdict.quantity, verdict.limit),
            escaped(&verdict.cell),
        );
    }
    text.push_str("</table></div></section>\n");
    text
}
