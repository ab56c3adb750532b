//! Latency: what part of the requests was done after how long, a curve per scheduler.

use experiment::Histogram;
use experiment::cell::Cell;

use super::scale::{Logarithmic, nines};
use super::svg::{Anchor, Point, Svg, scheduler_class, spread};
use super::throughput::shortened;
use crate::quantity::{scheduler, time};

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = WIDTH - 236.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = HEIGHT - 56.0;

/// Percentiles that are marked and written beside the axis.
const MARKED: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// The chart for one cell per scheduler; none if nobody has latencies.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let histograms: Vec<Histogram> = cells.iter().map(|cell| cell.latency(None, None).histogram).collect();
    let known: Vec<&Histogram> = histograms.iter().filter(|histogram| histogram.count() > 0).collect();
    // A percentile is shown while ten requests at least lie above it.
    let most = known.iter().map(|histogram| histogram.count()).max()?;
    let highest = MARKED.iter().copied().filter(|percent| is_backed(*percent, most)).fold(50.0, f64::max);
    let low = known.iter().map(|histogram| histogram.percentile_ns(1.0)).min()? as f64;
    let high = known.iter().map(|histogram| histogram.percentile_ns(highest)).max()? as f64;
    let axis = Logarithmic::over(low, high);
    let mut svg = Svg::new(WIDTH, HEIGHT, "Percentiles of latency, a curve per scheduler");
    let x = |ns: f64| LEFT + axis.part(ns).clamp(0.0, 1.0) * (RIGHT - LEFT);
    let y = |percent: f64| BOTTOM - nines(percent) / nines(highest) * (BOTTOM - TOP);
    for tick in axis.ticks() {
        svg.line("grid", (x(tick), TOP), (x(tick), BOTTOM));
        svg.text("tick", Anchor::Middle, (x(tick), BOTTOM + 22.0), &time(tick).replace(".0", ""));
    }
    for percent in MARKED.into_iter().filter(|percent| *percent <= highest) {
        svg.line("grid", (LEFT, y(percent)), (RIGHT, y(percent)));
        svg.text("tick", Anchor::End, (LEFT - 10.0, y(percent) + 4.0), &format!("{percent} %"));
    }
    svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    svg.text("caption", Anchor::Start, (LEFT - 54.0, 13.0), "of all requests, so many were done after …");
    svg.text("caption", Anchor::Middle, (f64::midpoint(LEFT, RIGHT), HEIGHT - 8.0), "latency, logarithmic");
    let mut ends: Vec<(usize, Point)> = Vec::new();
    for (index, histogram) in histograms.iter().enumerate().filter(|(_, histogram)| histogram.count() > 0) {
        let point = |percent: f64| (x(histogram.percentile_ns(percent) as f64), y(percent));
        let reach =
            MARKED.iter().copied().filter(|percent| is_backed(*percent, histogram.count())).fold(50.0, f64::max);
        let steps: Vec<f64> = (0..=120).map(|step| percent_of(f64::from(step) / 120.0 * nines(reach))).collect();
        let class = scheduler_class(index);
        svg.curve(&class, index, &steps.iter().map(|&percent| point(percent)).collect::<Vec<_>>());
        for percent in MARKED.into_iter().filter(|percent| (50.0..=reach).contains(percent)) {
            let hint = format!(
                "{}: {percent} % within {}",
                scheduler(cells[index]),
                time(histogram.percentile_ns(percent) as f64)
            );
            svg.mark(&class, index, point(percent), &hint);
        }
        ends.push((index, point(reach)));
    }
    labels(&mut svg, cells, &histograms, &ends);
    Some(svg.finish())
}

/// Names on the right, in the order of the curves' upper ends from left (fast, on top) to right, with median and p99.
fn labels(svg: &mut Svg, cells: &[&Cell<'_>], histograms: &[Histogram], ends: &[(usize, Point)]) {
    let mut order: Vec<&(usize, Point)> = ends.iter().collect();
    order.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let wanted: Vec<f64> = (0..order.len()).map(|place| TOP + 12.0 + 46.0 * place as f64).collect();
    for ((index, _), y) in order.into_iter().zip(spread(&wanted, 38.0, TOP, BOTTOM)) {
        let class = scheduler_class(*index);
        let histogram = &histograms[*index];
        let label = scheduler(cells[*index]);
        let figures = format!(
            "p50 {}, p99 {}",
            time(histogram.percentile_ns(50.0) as f64),
            time(histogram.percentile_ns(99.0) as f64)
        );
        svg.curve(&class, *index, &[(RIGHT + 14.0, y), (RIGHT + 40.0, y)]);
        svg.mark(&class, *index, (RIGHT + 27.0, y), &label);
        svg.text(&format!("{class} label"), Anchor::Start, (RIGHT + 48.0, y + 4.5), &shortened(&label, 24));
        svg.text("tick", Anchor::Start, (RIGHT + 48.0, y + 21.0), &figures);
    }
}

/// Whether ten requests of `count` lie above this percentile.
fn is_backed(percent: f64, count: u64) -> bool {
    (1.0 - percent / 100.0) * count as f64 >= 10.0
}

/// The percentile at a position on the axis of nines.
fn percent_of(nines: f64) -> f64 {
    100.0 * (1.0 - 10_f64.powf(-nines))
}
