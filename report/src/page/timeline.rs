//! Bandwidth of each group over time: one small chart per scheduler, all on the same scale.

use experiment::cell::Cell;
use experiment::measurement::GroupMeasurement;

use super::scale::Linear;
use super::svg::{Anchor, Point, Svg, group_class, spread};
use super::throughput::shortened;
use crate::quantity::{mib, scheduler};

const PANEL: f64 = 460.0;
const GAP: f64 = 20.0;
const HEIGHT: f64 = 226.0;

/// The charts for one cell per scheduler, of its first set; none if no run lasted for two whole seconds.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let series: Vec<Vec<Vec<Point>>> = cells.iter().map(|cell| lines(cell)).collect();
    let points = || series.iter().flatten().flatten();
    if series.iter().flatten().all(|line| line.len() < 2) {
        return None;
    }
    let axis = Linear::up_to(points().map(|point| point.1).fold(0.0, f64::max));
    let end_s = points().map(|point| point.0).fold(0.0, f64::max).max(1.0);
    let rows = cells.len().div_ceil(2);
    let mut svg =
        Svg::new(2.0 * PANEL + GAP, rows as f64 * HEIGHT, "Bandwidth of each group over time, a chart per scheduler");
    for (index, (cell, lines)) in cells.iter().zip(&series).enumerate() {
        let corner = ((index % 2) as f64 * (PANEL + GAP), (index / 2) as f64 * HEIGHT);
        panel(&mut svg, corner, cell, lines, &axis, end_s);
    }
    Some(svg.finish())
}

/// Per group, the whole seconds of the first set: end of the second in s, MiB/s.
fn lines(cell: &Cell<'_>) -> Vec<Vec<Point>> {
    let Some(run) = cell.runs.first() else { return Vec::new() };
    cell.groups.iter().filter_map(|group| run.groups.get(group.index)).map(seconds).collect()
}

fn seconds(group: &GroupMeasurement) -> Vec<Point> {
    let directions = group.directions();
    let longest = directions.iter().map(|(_, tally)| &tally.samples).max_by_key(|samples| samples.len());
    let whole = longest.into_iter().flatten().enumerate().filter(|(_, sample)| sample.length_ns >= 1_000_000_000);
    whole
        .map(|(index, sample)| {
            let bytes: u64 = directions.iter().filter_map(|(_, tally)| tally.samples.get(index)).map(|s| s.bytes).sum();
            let end_s = (sample.at_ns + sample.length_ns) as f64 / 1e9;
            (end_s, mib(bytes as f64 * 1e9 / sample.length_ns as f64))
        })
        .collect()
}

fn panel(svg: &mut Svg, corner: Point, cell: &Cell<'_>, lines: &[Vec<Point>], axis: &Linear, end_s: f64) {
    let (left, right) = (corner.0 + 42.0, corner.0 + PANEL - 92.0);
    let (top, bottom) = (corner.1 + 34.0, corner.1 + HEIGHT - 44.0);
    let x = |s: f64| left + s / end_s * (right - left);
    let y = |mib: f64| bottom - axis.part(mib) * (bottom - top);
    svg.text("name", Anchor::Start, (left, corner.1 + 18.0), &shortened(&scheduler(cell), 44));
    for tick in axis.ticks() {
        svg.line("grid", (left, y(tick)), (right, y(tick)));
        svg.text("tick", Anchor::End, (left - 8.0, y(tick) + 4.0), &axis.label(tick));
    }
    let time = Linear::up_to(end_s);
    for tick in time.ticks().into_iter().filter(|tick| *tick <= end_s) {
        svg.text("tick", Anchor::Middle, (x(tick), bottom + 19.0), &format!("{} s", time.label(tick)));
    }
    svg.line("axis", (left, bottom), (right, bottom));
    for (index, line) in lines.iter().enumerate() {
        let place = |point: &Point| (x(point.0), y(point.1));
        svg.curve(&group_class(index), index, &line.iter().map(place).collect::<Vec<_>>());
    }
    // Beside the mean of the last quarter: the very last second jumps about.
    let end_of = |line: &Vec<Point>| {
        let tail = &line[line.len() - line.len().div_ceil(4)..];
        let sum: f64 = tail.iter().map(|point| point.1).sum();
        y(if tail.is_empty() { 0.0 } else { sum / tail.len() as f64 })
    };
    let ends: Vec<f64> = lines.iter().map(end_of).collect();
    for (index, label_y) in spread(&ends, 15.0, top, bottom).into_iter().enumerate() {
        let class = group_class(index);
        let label = shortened(cell.groups[index].path, 11);
        svg.text(&format!("{class} label"), Anchor::Start, (right + 8.0, label_y + 4.5), &label);
    }
}
