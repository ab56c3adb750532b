//! Latency: the fraction of requests of each group that completed within a time, as a curve per
//! scheduler, and a range per group.

use hoistway_experiment::Histogram;
use hoistway_experiment::cell::Cell;

use super::chart_width::both;
use super::legend::{Entry, legend};
use super::scale::{Logarithmic, nines};
use super::svg::{Anchor, Point, Svg, beneath, group_class, scheduler_class};
use super::throughput::shortened;
use crate::quantity::{scheduler, time};

/// Percentiles that are marked on the axis.
const MARKED: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// Maximum number of groups with a chart of their own; those with the largest latencies are chosen.
const GROUPS: usize = 8;

/// The charts for one cell per scheduler; `None` without latencies. Several groups have a chart
/// each, because all requests together are a mixture whose curve has a step if a scheduler serves
/// groups differently on purpose.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let all: Vec<Histogram> = cells.iter().map(|cell| cell.latency(None, None).histogram).collect();
    let pooled = pooled(cells, &all)?;
    let groups = of_groups(cells);
    if groups.is_empty() {
        return Some(pooled);
    }
    let note = "All groups as one: where a scheduler serves them differently, its curve has a step between one group and the next, which is not an error.";
    Some(format!(
        "{groups}<details><summary>All groups together</summary><p class=\"note\">{note}</p>\n{pooled}</details>\n{}",
        ranges(cells)
    ))
}

/// All requests of each scheduler.
fn pooled(cells: &[&Cell<'_>], histograms: &[Histogram]) -> Option<String> {
    let scale = Scale::over(histograms.iter())?;
    let drawn = both(|chart_width| {
        let (width, height) = (chart_width.width(), chart_width.choose(400.0, 330.0));
        let mut svg = Svg::new(width, height, "Latency percentiles, one curve per scheduler");
        svg.text("caption", Anchor::Start, (18.0, 13.0), "part of all requests that were done after …");
        svg.text("caption", Anchor::Middle, (width / 2.0 + 24.0, height - 8.0), "latency, logarithmic");
        let plot = Plot { left: 72.0, right: width - 24.0, top: 30.0, bottom: height - 56.0, scale: &scale };
        plot.draw(&mut svg, cells, histograms, chart_width.characters() * 3 / 4);
        svg.finish()
    });
    Some(drawn + &names(cells, histograms, true))
}

/// The schedulers' names, with figures if they describe a single chart.
fn names(cells: &[&Cell<'_>], histograms: &[Histogram], with_figures: bool) -> String {
    let entry = |(index, histogram): (usize, &Histogram)| {
        let [p50, p99] = [50.0, 99.0].map(|percent| time(histogram.percentile_ns(percent) as f64));
        let figures = if with_figures { format!("p50 {p50}, p99 {p99} of all requests") } else { String::new() };
        Entry { series: index, name: scheduler(cells[index]), figures }
    };
    let known = histograms.iter().enumerate().filter(|(_, histogram)| histogram.count() > 0);
    legend(&known.map(entry).collect::<Vec<_>>())
}

/// A chart per group with a curve per scheduler, on one scale; empty if no cell has several groups.
fn of_groups(cells: &[&Cell<'_>]) -> String {
    let Some(first) = cells.iter().find(|cell| cell.groups.len() > 1) else { return String::new() };
    let of_group = |path: &str| -> Vec<Histogram> {
        let of_cell = |cell: &&Cell<'_>| {
            let index = cell.groups.iter().position(|group| group.path == path);
            index.map_or_else(Histogram::new, |index| cell.latency(Some(index), None).histogram)
        };
        cells.iter().map(of_cell).collect()
    };
    let mut groups: Vec<(usize, Vec<Histogram>)> =
        first.groups.iter().enumerate().map(|(index, group)| (index, of_group(group.path))).collect();
    let all = groups.len();
    let longest = |histograms: &[Histogram]| histograms.iter().map(|it| it.percentile_ns(99.0)).max();
    groups.sort_by_key(|(_, histograms)| std::cmp::Reverse(longest(histograms)));
    groups.truncate(GROUPS);
    groups.sort_by_key(|(index, _)| *index);
    let Some(scale) = Scale::over(groups.iter().flat_map(|(_, histograms)| histograms)) else { return String::new() };
    let panel = |(index, histograms): &(usize, Vec<Histogram>)| {
        const WIDTH: f64 = 500.0;
        const HEIGHT: f64 = 300.0;
        let group = &first.groups[*index];
        let mut svg =
            Svg::new(WIDTH, HEIGHT, &format!("Latency percentiles of {}, one curve per scheduler", group.path));
        let title = format!("{}, weight {}", shortened(group.path, 40), group.weight);
        svg.text("name", Anchor::Start, (0.0, 15.0), &title);
        let plot = Plot { left: 62.0, right: WIDTH - 14.0, top: 32.0, bottom: HEIGHT - 30.0, scale: &scale };
        plot.draw(&mut svg, cells, histograms, 58);
        svg.finish_panel() + "</div>\n"
    };
    let note = if all > GROUPS {
        format!("<p class=\"note\">The {GROUPS} of {all} groups with the longest waits.</p>\n")
    } else {
        String::new()
    };
    let panels: String = groups.iter().map(panel).collect();
    let names = groups.first().map(|(_, histograms)| names(cells, histograms, false)).unwrap_or_default();
    format!("{note}<div class=\"panels\">\n{panels}</div>\n{names}")
}

/// What charts that are compared share.
struct Scale {
    axis: Logarithmic,
    /// The highest percentile shown.
    highest: f64,
}

impl Scale {
    /// A scale for all of these; `None` if nothing was counted.
    fn over<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Option<Self> {
        let known: Vec<&Histogram> = histograms.filter(|histogram| histogram.count() > 0).collect();
        // A percentile is shown only if at least ten requests are above it.
        let highest = reach_of(known.iter().map(|histogram| histogram.count()).max()?);
        let low = known.iter().map(|histogram| histogram.percentile_ns(1.0)).min()? as f64;
        let high = known.iter().map(|histogram| histogram.percentile_ns(highest)).max()? as f64;
        Some(Self { axis: Logarithmic::over(low, high), highest })
    }
}

/// The area of the curves.
struct Plot<'a> {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    scale: &'a Scale,
}

impl Plot<'_> {
    fn x(&self, ns: f64) -> f64 {
        self.left + self.scale.axis.part(ns).clamp(0.0, 1.0) * (self.right - self.left)
    }

    fn y(&self, percent: f64) -> f64 {
        self.bottom - nines(percent) / nines(self.scale.highest) * (self.bottom - self.top)
    }

    /// Axes, and a curve for each non-empty histogram; its figures are wrapped into lines of
    /// `characters`.
    fn draw(&self, svg: &mut Svg, cells: &[&Cell<'_>], histograms: &[Histogram], characters: usize) {
        let Plot { left, right, top, bottom, scale } = *self;
        for tick in scale.axis.ticks() {
            svg.line("grid", (self.x(tick), top), (self.x(tick), bottom));
            svg.text("tick", Anchor::Middle, (self.x(tick), bottom + 22.0), &time(tick).replace(".0", ""));
        }
        for percent in MARKED.into_iter().filter(|percent| *percent <= scale.highest) {
            svg.line("grid", (left, self.y(percent)), (right, self.y(percent)));
            svg.text("tick", Anchor::End, (left - 10.0, self.y(percent) + 4.0), &format!("{percent} %"));
        }
        svg.line("axis", (left, bottom), (right, bottom));
        let curves: Vec<Vec<Point>> = histograms.iter().map(|histogram| self.curve(histogram)).collect();
        for (index, (curve, beneath)) in curves.iter().zip(beneath(&curves)).enumerate() {
            if curve.is_empty() {
                continue;
            }
            let (histogram, name) = (&histograms[index], scheduler(cells[index]));
            let class = scheduler_class(index);
            let marked: Vec<(f64, String)> = MARKED
                .into_iter()
                .filter(|percent| (50.0..=reach_of(histogram.count())).contains(percent))
                .map(|percent| (percent, time(histogram.percentile_ns(percent) as f64)))
                .collect();
            let within: Vec<String> = marked.iter().map(|(percent, ns)| format!("{percent} % within {ns}")).collect();
            svg.series(&format!("{name}: {}", within.join(", ")), (left + 8.0, top + 14.0), characters, |svg| {
                svg.curve(&class, index, beneath, curve);
                for ((percent, _), within) in marked.iter().zip(&within) {
                    let at = (self.x(histogram.percentile_ns(*percent) as f64), self.y(*percent));
                    svg.mark(&class, index, at, &format!("{name}: {within}"));
                }
            });
        }
    }

    fn curve(&self, histogram: &Histogram) -> Vec<Point> {
        if histogram.count() == 0 {
            return Vec::new();
        }
        let reach = nines(reach_of(histogram.count()));
        let point = |step: i32| {
            let percent = percent_of(f64::from(step) / 120.0 * reach);
            (self.x(histogram.percentile_ns(percent) as f64), self.y(percent))
        };
        (0..=120).map(point).collect()
    }
}

/// A panel per scheduler with the range of each group from the median over p99 to p99.9 or the
/// maximum. Empty for a single group.
fn ranges(cells: &[&Cell<'_>]) -> String {
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
        "<h3>Scheduler by scheduler</h3>\n<p class=\"note\">{note}</p>\n<div class=\"panels\">\n{}</div>\n",
        panels.collect::<String>()
    )
}

/// Median, p99, and p99.9 or the maximum.
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
        let hint =
            format!("{}: half within {}, 99 % within {}, tip {}", group.path, time(*median), time(*p99), time(*tip));
        svg.series(&hint, (4.0, y + 4.5), 60, |svg| {
            svg.line(&format!("{class} range"), (median_x, y), (p99_x, y));
            svg.line(&format!("{class} whisker"), (p99_x, y), (tip_x, y));
            svg.line(&format!("{class} whisker"), (tip_x, y - 5.0), (tip_x, y + 5.0));
            svg.mark(&class, index, (median_x, y), &hint);
        });
    }
    svg.finish_panel() + "</div>\n"
}

/// The highest of the marked percentiles with at least ten of `count` requests above it.
fn reach_of(count: u64) -> f64 {
    let is_backed = |percent: &f64| (1.0 - percent / 100.0) * count as f64 >= 10.0;
    MARKED.into_iter().filter(is_backed).fold(50.0, f64::max)
}

/// The percentile at a position on the axis of nines.
fn percent_of(nines: f64) -> f64 {
    100.0 * (1.0 - 10_f64.powf(-nines))
}
