//! Latency: what part of the requests was done after how long, a curve per scheduler; and a line per group.

use experiment::Histogram;
use experiment::cell::Cell;

use super::form::{Form, both};
use super::legend::{Entry, legend};
use super::scale::{Logarithmic, nines};
use super::svg::{Anchor, Point, Svg, group_class, scheduler_class};
use super::throughput::shortened;
use crate::quantity::{scheduler, time};

/// Percentiles that are marked and written beside the axis.
const MARKED: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// The chart for one cell per scheduler; none if nobody has latencies.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let histograms: Vec<Histogram> = cells.iter().map(|cell| cell.latency(None, None).histogram).collect();
    let known: Vec<&Histogram> = histograms.iter().filter(|histogram| histogram.count() > 0).collect();
    // A percentile is shown while ten requests at least lie above it.
    let most = known.iter().map(|histogram| histogram.count()).max()?;
    let highest = reach_of(most);
    let low = known.iter().map(|histogram| histogram.percentile_ns(1.0)).min()? as f64;
    let high = known.iter().map(|histogram| histogram.percentile_ns(highest)).max()? as f64;
    let axis = Logarithmic::over(low, high);
    let entry = |(index, histogram): (usize, &Histogram)| Entry {
        series: index,
        name: scheduler(cells[index]),
        figures: format!(
            "p50 {}, p99 {}",
            time(histogram.percentile_ns(50.0) as f64),
            time(histogram.percentile_ns(99.0) as f64)
        ),
    };
    let entries: Vec<Entry> = histograms.iter().enumerate().filter(|(_, it)| it.count() > 0).map(entry).collect();
    let drawn = both(|form| curves(cells, &histograms, &axis, highest, form));
    Some(drawn + &legend(&entries) + &groups(cells))
}

fn curves(cells: &[&Cell<'_>], histograms: &[Histogram], axis: &Logarithmic, highest: f64, form: Form) -> String {
    let (width, height) = (form.width(), form.choose(400.0, 330.0));
    let (left, right, top, bottom) = (72.0, width - 24.0, 30.0, height - 56.0);
    let mut svg = Svg::new(width, height, "Percentiles of latency, a curve per scheduler");
    let x = |ns: f64| left + axis.part(ns).clamp(0.0, 1.0) * (right - left);
    let y = |percent: f64| bottom - nines(percent) / nines(highest) * (bottom - top);
    for tick in axis.ticks() {
        svg.line("grid", (x(tick), top), (x(tick), bottom));
        svg.text("tick", Anchor::Middle, (x(tick), bottom + 22.0), &time(tick).replace(".0", ""));
    }
    for percent in MARKED.into_iter().filter(|percent| *percent <= highest) {
        svg.line("grid", (left, y(percent)), (right, y(percent)));
        svg.text("tick", Anchor::End, (left - 10.0, y(percent) + 4.0), &format!("{percent} %"));
    }
    svg.line("axis", (left, bottom), (right, bottom));
    svg.text("caption", Anchor::Start, (left - 54.0, 13.0), "of all requests, so many were done after …");
    svg.text("caption", Anchor::Middle, (f64::midpoint(left, right), height - 8.0), "latency, logarithmic");
    for (index, histogram) in histograms.iter().enumerate().filter(|(_, histogram)| histogram.count() > 0) {
        let point = |percent: f64| -> Point { (x(histogram.percentile_ns(percent) as f64), y(percent)) };
        let reach = reach_of(histogram.count());
        let steps: Vec<f64> = (0..=120).map(|step| percent_of(f64::from(step) / 120.0 * nines(reach))).collect();
        let class = scheduler_class(index);
        svg.curve(&class, index, &steps.iter().map(|&percent| point(percent)).collect::<Vec<_>>());
        for percent in MARKED.into_iter().filter(|percent| (50.0..=reach).contains(percent)) {
            let within = time(histogram.percentile_ns(percent) as f64);
            svg.mark(
                &class,
                index,
                point(percent),
                &format!("{}: {percent} % within {within}", scheduler(cells[index])),
            );
        }
    }
    svg.finish()
}

/// A panel per scheduler: each group's line from the median over p99 to p99.9 or the largest. Nothing for one group.
fn groups(cells: &[&Cell<'_>]) -> String {
    let of_cell = |cell: &&Cell<'_>| -> Vec<[f64; 3]> {
        (0..cell.groups.len()).map(|group| ends(&cell.latency(Some(group), None).histogram)).collect()
    };
    let all: Vec<Vec<[f64; 3]>> = cells.iter().map(of_cell).collect();
    let known = || all.iter().flatten().flatten().copied().filter(|ns| *ns > 0.0);
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    if low > high || cells.iter().all(|cell| cell.groups.len() < 2) {
        return String::new();
    }
    let axis = Logarithmic::over(low, high);
    let panels = cells.iter().zip(&all).map(|(cell, groups)| panel(cell, groups, &axis));
    let note = "Each group: its median, the line to its p99, and the tip at its p99.9 (its largest where there are fewer than 10,000 requests).";
    format!(
        "<h3>Group by group</h3>\n<p class=\"note\">{note}</p>\n<div class=\"panels\">\n{}</div>\n",
        panels.collect::<String>()
    )
}

/// Median, p99, and p99.9 or the largest.
fn ends(histogram: &Histogram) -> [f64; 3] {
    if histogram.count() == 0 {
        return [0.0; 3];
    }
    let tip = if histogram.count() >= 10_000 { 99.9 } else { 100.0 };
    [50.0, 99.0, tip].map(|percent| histogram.percentile_ns(percent) as f64)
}

fn panel(cell: &Cell<'_>, groups: &[[f64; 3]], axis: &Logarithmic) -> String {
    const WIDTH: f64 = 500.0;
    const ROW: f64 = 24.0;
    let (left, right, top) = (100.0, WIDTH - 24.0, 28.0);
    let bottom = top + ROW * groups.len() as f64;
    let mut svg = Svg::new(WIDTH, bottom + 24.0, &format!("Latency of each group under {}", scheduler(cell)));
    svg.text("name", Anchor::Start, (0.0, 15.0), &shortened(&scheduler(cell), 54));
    let x = |ns: f64| left + axis.part(ns).clamp(0.0, 1.0) * (right - left);
    for tick in axis.ticks() {
        svg.line("grid", (x(tick), top), (x(tick), bottom));
        svg.text("tick", Anchor::Middle, (x(tick), bottom + 16.0), &time(tick).replace(".0", ""));
    }
    for (index, ([median, p99, tip], group)) in groups.iter().zip(&cell.groups).enumerate() {
        let class = group_class(index);
        let y = top + ROW * (index as f64 + 0.5);
        let label = shortened(group.path, 10);
        svg.text(&format!("{class} label"), Anchor::End, (left - 10.0, y + 4.5), &label);
        if *median <= 0.0 {
            continue;
        }
        let [median_x, p99_x, tip_x] = [*median, *p99, *tip].map(x);
        svg.line(&format!("{class} range"), (median_x, y), (p99_x, y));
        svg.line(&format!("{class} whisker"), (p99_x, y), (tip_x, y));
        svg.line(&format!("{class} whisker"), (tip_x, y - 5.0), (tip_x, y + 5.0));
        let hint =
            format!("{}: half within {}, 99 % within {}, tip {}", group.path, time(*median), time(*p99), time(*tip));
        svg.mark(&class, index, (median_x, y), &hint);
    }
    svg.finish_panel() + "</div>\n"
}

/// The highest of the marked percentiles that ten requests of `count` lie above.
fn reach_of(count: u64) -> f64 {
    let is_backed = |percent: &f64| (1.0 - percent / 100.0) * count as f64 >= 10.0;
    MARKED.into_iter().filter(is_backed).fold(50.0, f64::max)
}

/// The percentile at a position on the axis of nines.
fn percent_of(nines: f64) -> f64 {
    100.0 * (1.0 - 10_f64.powf(-nines))
}
