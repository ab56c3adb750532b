//! Shares as bars for the terminal: the share of each group, with a mark at its due share.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;

use crate::Results;
use crate::quantity::{decimals, mib, percent, scheduler};

/// Length of the longest bar in characters.
const WIDTH: usize = 40;

/// A block of bars per workload and scheduler, at the highest thread count of each.
///
/// ```text
/// drr  nr=4                 share got, ┃ = due                          got     due    MiB/s
/// wfq          gold    400  ██████████████████████████████████████┃    57.0%   57.1%    57.1
/// ```
pub fn shares(results: &Results<'_>) -> String {
    let cells = results.cells();
    let mut text = String::new();
    for workload in cells.chunk_by(|a, b| a.workload == b.workload) {
        let shown: Vec<&Cell<'_>> = workload.chunk_by(|a, b| a.spec == b.spec).filter_map(<[_]>::last).collect();
        text.push_str(&block(&shown));
    }
    text
}

fn block(cells: &[&Cell<'_>]) -> String {
    let sharing = cells.iter().filter(|cell| cell.groups.len() > 1 && cell.fairness.is_some());
    let shown: Vec<&Cell<'_>> = sharing.copied().collect();
    let Some(first) = shown.first() else { return String::new() };
    let parts = shown.iter().filter_map(|cell| cell.fairness.as_ref()).flat_map(|f| f.share.iter().chain(&f.due));
    let longest = parts.copied().fold(f64::MIN_POSITIVE, f64::max);
    let columns = |part: f64| part / longest * WIDTH as f64;
    let label_width = shown.iter().map(|cell| scheduler(cell).chars().count()).max().unwrap_or(0);
    let names = shown.iter().flat_map(|cell| &cell.groups).map(|group| group.path.chars().count());
    let name_width = names.max().unwrap_or(0);
    let title = format!("{}  nr={}", first.workload, first.threads);
    let left = label_width + name_width + 10;
    let bar_width = WIDTH + 2;
    let mut text = format!("{title:<left$}{:<bar_width$}    got     due    MiB/s\n", "share got, ┃ = due");
    for cell in shown {
        let Some(fairness) = &cell.fairness else { continue };
        for (index, group) in cell.groups.iter().enumerate() {
            let label = if index == 0 { scheduler(cell) } else { String::new() };
            let (share, due) = (fairness.share[index], fairness.due[index]);
            let rate = mib(group.bytes_per_s.mean);
            let places = decimals(rate);
            let _ = writeln!(
                text,
                "{label:<label_width$}  {:<name_width$}  {:>5} {:<bar_width$} {:>6}  {:>6} {rate:>8.places$}",
                group.path,
                group.weight,
                bar(columns(share), columns(due)),
                percent(share),
                percent(due),
            );
        }
    }
    text
}

/// A bar of `length` columns, in eighths of a column, with the mark in the column where `due` ends.
fn bar(length: f64, due: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let whole = |columns: f64| -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "0 to WIDTH; rounding down is wanted")]
        let whole = columns.clamp(0.0, WIDTH as f64) as usize;
        whole
    };
    let full = whole(length);
    let eighth = whole((length - full as f64) * 8.0).min(7);
    // The mark is directly after the last column of the due part.
    let mark = whole(due.round());
    let mut text: Vec<char> = (0..=WIDTH)
        .map(|column| match column {
            column if column < full => '█',
            column if column == full => EIGHTHS[eighth],
            _ => ' ',
        })
        .collect();
    text[mark] = '┃';
    text.into_iter().collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_behind_the_due_part() {
        assert_eq!(bar(4.0, 4.0), "████┃");
        assert_eq!(bar(2.5, 4.0), "██▌ ┃");
        assert_eq!(bar(6.0, 4.0), "████┃█");
        assert_eq!(bar(0.0, 0.0), "┃");
    }
}
