//! Judged cells as text: a row per cell, then a summary of all of them.

use std::fmt::Write;

use super::cells::Cell;
use super::format::Kind;
use super::judged::JudgedCell;
use super::runs::Plan;
use super::summary::{Counts, Medium, goal_ns};
use super::verdict::{Field, Score, Verdict};

/// The media of summaries.
pub const MEDIA: [(&str, bool); 2] = [("flash", false), ("disks and arrays", true)];

/// What would be run: cells with their times, then everybody who is measured.
pub fn plan(plan: &Plan) -> String {
    let mut rows = vec![["cell", "kind", "ramp s", "judged s", ""].map(str::to_owned).to_vec()];
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    rows.extend(plan.cells.iter().map(|cell| {
        let Cell { name, kind, ramp_ns, runtime_ns, doc, .. } = cell;
        vec![name.clone(), kind.name().to_owned(), seconds(*ramp_ns), seconds(*runtime_ns), doc.clone()]
    }));
    let names: Vec<String> = plan.schedulers.iter().map(ToString::to_string).collect();
    let (judged, against) = names.split_at(plan.judged);
    let seeds = plan.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "{}{} cells; judged: {}; against: {}; seeds {seeds}: {} runs\n",
        grid(&rows),
        plan.cells.len(),
        judged.join(", "),
        against.join(", "),
        plan.count()
    )
}

/// The table of all cells.
pub fn table(plan: &Plan, cells: &[JudgedCell]) -> String {
    grid(&rows(plan, cells))
}

/// A row for each cell: throughput in per cent of none's, error in per cent, and the verdict on each who is judged.
pub fn rows(plan: &Plan, cells: &[JudgedCell]) -> Vec<Vec<String>> {
    let mut header = vec!["cell".to_owned(), "free".to_owned(), "none MB/s".to_owned()];
    header.extend(plan.schedulers[..plan.judged].iter().map(|spec| format!("{spec}: % of none, error, verdict")));
    let mut rows = vec![header];
    for JudgedCell { cell, field, .. } in cells {
        let free = if field.is_free() { "yes" } else { "no" };
        let mut row = vec![cell.name.clone(), free.to_owned(), format!("{:.2}", field.none.throughput / 1e6)];
        for score in &field.scores[..plan.judged] {
            let percent = field.part_of_none(score) * 100.0;
            row.push(format!("{percent:6.1} {:6.1}  {}", score.error * 100.0, verdict(plan, field, score)));
        }
        rows.push(row);
    }
    rows
}

/// The verdict with who dominates, or with how far it is from what can be had.
pub fn verdict(plan: &Plan, field: &Field, score: &Score) -> String {
    let verdict = field.judge(score);
    let is_oracles = !field.is_rotational && !field.is_free();
    match (verdict, field.distance(score)) {
        (Verdict::Dominated(by), _) => format!("dominated by {}", plan.schedulers[by]),
        (Verdict::Bound | Verdict::Lost, Some(distance)) if is_oracles => {
            format!("{}, {:.0} % off", verdict.name(), distance * 100.0)
        }
        _ => verdict.name().to_owned(),
    }
}

/// The summaries of what there is: of the grid, and of all other cells, by kind of device.
pub fn summary(plan: &Plan, cells: &[JudgedCell]) -> String {
    let texts = summaries(plan, cells).into_iter().map(|rows| grid(&rows));
    texts.collect::<Vec<_>>().join("\n")
}

/// The same as rows of columns.
pub fn summaries(plan: &Plan, cells: &[JudgedCell]) -> Vec<Vec<Vec<String>>> {
    let mut tables = Vec::new();
    for kind in [Kind::Grid, Kind::Tenants, Kind::Changes] {
        let of_kind: Vec<&JudgedCell> = cells.iter().filter(|cell| cell.cell.kind == kind).collect();
        for (name, is_rotational) in MEDIA {
            let medium = Medium::of(&of_kind, is_rotational, plan.schedulers.len());
            if medium.cells > 0 {
                tables.push(medium_rows(plan, &format!("{}, {name}", kind.name()), is_rotational, &medium));
            }
        }
    }
    tables
}

fn medium_rows(plan: &Plan, name: &str, is_rotational: bool, medium: &Medium) -> Vec<Vec<String>> {
    let Medium { cells, free, exact_by_anybody, counts } = medium;
    let mut rows = vec![vec![format!("{name}: {cells} cells")]];
    rows[0].extend(plan.schedulers.iter().map(ToString::to_string));
    let mut row = |what: String, figure: &dyn Fn(&Counts) -> String| {
        rows.push([vec![what], counts.iter().map(figure).collect()].concat());
    };
    let dear = cells - free;
    let bound = if is_rotational { "as fast as exactness can be" } else { "within 10 % of what can be had" };
    let floor = if is_rotational { "at least 97 % of none's throughput" } else { "throughput floor kept" };
    row(format!("exact where it is free ({free})"), &|counts| counts.exact_free.to_string());
    row(format!("where it is not: {bound} ({dear})"), &|counts| counts.bound.to_string());
    row(format!("dominated ({cells})"), &|counts| counts.dominated.to_string());
    row("verdicts: exact/bound/dominated/lost".to_owned(), &|counts| counts.verdicts.map(|n| n.to_string()).join("/"));
    row(format!("{floor} ({cells})"), &|counts| counts.floor_kept.to_string());
    let what = format!("error <= 6 % at >= 97 % of the fastest exact ({exact_by_anybody})");
    row(what, &|counts| counts.as_fast_as_exact.to_string());
    let goal_s = goal_ns(is_rotational) / 1_000_000_000;
    let settlings = counts.first().map_or(0, |counts| counts.settling.count);
    if settlings > 0 {
        row(format!("settled within {goal_s} s, % of {settlings}"), &|counts| {
            percent(counts.settling.in_time, counts.settling.count)
        });
        row("settled after, s: p50/p90/max".to_owned(), &|counts| three(counts.settling.seconds, 1.0));
        row("every window within 10 % then, %".to_owned(), &|counts| {
            percent(counts.settling.calm, counts.settling.count)
        });
    }
    row(format!("CV at most 1.2 of none's, or 1 % ({cells})"), &|counts| counts.steadiness.kept.to_string());
    row("CV, %: p50/p90/max".to_owned(), &|counts| three(counts.steadiness.variations, 100.0));
    rows
}

fn percent(part: usize, whole: usize) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.0}", part as f64 / whole as f64 * 100.0) }
}

fn three(values: Option<[f64; 3]>, unit: f64) -> String {
    values.map_or_else(|| "-".to_owned(), |values| values.map(|value| format!("{:.1}", value * unit)).join("/"))
}

/// Columns; the first to the left, short ones to the right.
fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            // A verdict is read from the left, a figure from the right.
            let is_left = column == 0 || cell.contains(' ');
            let _ = if is_left { write!(line, "{cell:<width$}  ") } else { write!(line, "{cell:>width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
