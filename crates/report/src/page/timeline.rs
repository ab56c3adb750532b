//! Bandwidth of each group over time: one small chart per scheduler, all on the same scale.

use hoistway_experiment::cell::Cell;
use hoistway_experiment::measurement::GroupMeasurement;

use super::scale::Linear;
use super::svg::{Anchor, Point, Svg, beneath, group_class, spread};
use super::throughput::shortened;
use crate::quantity::{mib, scheduler};

const WIDTH: f64 = 500.0;
const HEIGHT: f64 = 226.0;

/// The charts for one cell per scheduler, of its first set; `None` if no run lasted two whole
/// seconds.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let series: Vec<Vec<Vec<Point>>> = cells.iter().map(|cell| lines(cell)).collect();
    let points = || series.iter().flatten().flatten();
    if series.iter().flatten().all(|line| line.len() < 2) {
        return None;
    }
    let axis = Linear::up_to(points().map(|point| point.1).fold(0.0, f64::max));
    let end_s = points().map(|point| point.0).fold(0.0, f64::max).max(1.0);
    let panels = cells.iter().zip(&series).map(|(cell, lines)| panel(cell, lines, &axis, end_s));
    Some(format!("<div class=\"panels\">\n{}</div>\n", panels.collect::<String>()))
}

/// The whole seconds of the first set per group: end of the second in s, MiB/s.
fn lines(cell: &Cell<'_>) -> Vec<Vec<Point>> {
    let Some(run) = cell.runs.first() else { return Vec::new() };
    cell.groups.iter().filter_map(|group| run.groups.get(group.index)).map(seconds).collect()
}

fn seconds(group: &GroupMeasurement) -> Vec<Point> {
    // Transferred bytes only; a discard is no throughput.
    let directions = [&group.read, &group.write];
    let longest = directions.iter().map(|tally| &tally.samples).max_by_key(|samples| samples.len());
    let whole = longest.into_iter().flatten().enumerate().filter(|(_, sample)| sample.length_ns >= 1_000_000_000);
    whole
        .map(|(index, sample)| {
            let bytes: u64 = directions.iter().filter_map(|tally| tally.samples.get(index)).map(|s| s.bytes).sum();
            let end_s = (sample.at_ns + sample.length_ns) as f64 / 1e9;
            (end_s, mib(bytes as f64 * 1e9 / sample.length_ns as f64))
        })
        .collect()
}

fn panel(cell: &Cell<'_>, lines: &[Vec<Point>], axis: &Linear, end_s: f64) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, &format!("Bandwidth of each group over time under {}", scheduler(cell)));
    let (left, right, top, bottom) = (42.0, WIDTH - 104.0, 34.0, HEIGHT - 30.0);
    let x = |s: f64| left + s / end_s * (right - left);
    let y = |mib: f64| bottom - axis.part(mib) * (bottom - top);
    svg.text("name", Anchor::Start, (0.0, 15.0), &shortened(&scheduler(cell), 54));
    for tick in axis.ticks() {
        svg.line("grid", (left, y(tick)), (right, y(tick)));
        svg.text("tick", Anchor::End, (left - 8.0, y(tick) + 4.0), &axis.label(tick));
    }
    let time = Linear::up_to(end_s);
    for tick in time.ticks().into_iter().filter(|tick| *tick <= end_s) {
        svg.text("tick", Anchor::Middle, (x(tick), bottom + 19.0), &format!("{} s", time.label(tick)));
    }
    svg.line("axis", (left, bottom), (right, bottom));
    let place = |point: &Point| (x(point.0), y(point.1));
    let curves: Vec<Vec<Point>> = lines.iter().map(|line| line.iter().map(place).collect()).collect();
    for (index, (curve, beneath)) in curves.iter().zip(beneath(&curves)).enumerate() {
        svg.curve(&group_class(index), index, beneath, curve);
    }
    // The label is at the mean of the last quarter, because the very last second fluctuates.
    let end_of = |line: &Vec<Point>| {
        let tail = &line[line.len() - line.len().div_ceil(4)..];
        let sum: f64 = tail.iter().map(|point| point.1).sum();
        y(if tail.is_empty() { 0.0 } else { sum / tail.len() as f64 })
    };
    let ends: Vec<f64> = lines.iter().map(end_of).collect();
    for (index, label_y) in spread(&ends, 15.0, top, bottom).into_iter().enumerate() {
        let class = group_class(index);
        let label = shortened(cell.groups[index].path, 10);
        svg.text(&format!("{class} label"), Anchor::Start, (right + 8.0, label_y + 4.5), &label);
    }
    svg.finish_panel() + "</div>\n"
}
