//! Judged cells as text: a row per cell, then the summary.

use std::fmt::Write;

use super::judged::JudgedCell;
use super::runs::Plan;
use super::summary::{Counts, Medium};
use super::verdict::Verdict;

/// The table of all cells: throughput in per cent of none's, error in per cent, and the verdict on each who is judged.
pub fn table(plan: &Plan, cells: &[JudgedCell]) -> String {
    let mut header = vec!["cell".to_owned(), "free".to_owned(), "none MB/s".to_owned()];
    header.extend(plan.schedulers[..plan.judged].iter().map(|spec| format!("{spec}: %none  error  verdict")));
    let mut rows = vec![header];
    for JudgedCell { cell, field } in cells {
        let none = field.none.throughput;
        let free = if field.is_free() { "yes" } else { "no" };
        let mut row = vec![cell.name.clone(), free.to_owned(), format!("{:.2}", none / 1e6)];
        for score in &field.scores[..plan.judged] {
            let verdict = match field.judge(score) {
                Verdict::Dominated(by) => format!("dominated by {}", plan.schedulers[by]),
                Verdict::Bound if field.distance(score).is_some() && !cell.is_rotational => {
                    format!("bound ({:.0} % off)", field.distance(score).unwrap_or(0.0) * 100.0)
                }
                Verdict::Lost if !field.is_free() && !cell.is_rotational => match field.distance(score) {
                    Some(distance) => format!("lost ({:.0} % off)", distance * 100.0),
                    None => "lost".to_owned(),
                },
                other => other.name().to_owned(),
            };
            let percent = if none > 0.0 { score.throughput / none * 100.0 } else { 0.0 };
            row.push(format!("{percent:7.1} {:7.1}  {verdict}", score.error * 100.0));
        }
        rows.push(row);
    }
    grid(&rows)
}

/// The summary of every scheduler, by kind of device.
pub fn summary(plan: &Plan, cells: &[JudgedCell]) -> String {
    let mut text = String::new();
    let media = [("flash", false), ("disks and arrays", true)];
    for (name, is_rotational) in media {
        let of_medium = cells.iter().filter(|cell| cell.cell.is_rotational == is_rotational);
        let medium = Medium::of(of_medium, plan.schedulers.len());
        if medium.cells == 0 {
            continue;
        }
        let mut rows = vec![vec![format!("{name}: {} cells", medium.cells)]];
        rows[0].extend(plan.schedulers.iter().map(ToString::to_string));
        let free = medium.free;
        let dear = medium.cells - free;
        let bound = if is_rotational { "as fast as exactness can be" } else { "within 10 % of what can be had" };
        let all = medium.cells;
        let lines: [(String, &dyn Fn(&Counts) -> usize); 6] = [
            (format!("exact where it is free ({free})"), &|counts| counts.exact_free),
            (format!("exact is not free: {bound} ({dear})"), &|counts| counts.bound),
            (format!("dominated ({all})"), &|counts| counts.dominated),
            (format!("lost ({all})"), &|counts| counts.verdicts[3]),
            (format!("throughput floor kept ({all})"), &|counts| counts.floor_kept),
            (format!("error <= 6 % at >= 97 % of the fastest exact ({})", medium.exact_by_anybody), &|counts| {
                counts.as_fast_as_exact
            }),
        ];
        for (what, count) in lines {
            rows.push([vec![what], medium.counts.iter().map(|counts| count(counts).to_string()).collect()].concat());
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&grid(&rows));
    }
    text
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
            let is_left = column == 0 || cell.contains("  ");
            let _ = if is_left { write!(line, "{cell:<width$}  ") } else { write!(line, "{cell:>width$}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
