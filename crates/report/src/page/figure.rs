//! The cost of shares in one picture: largest share error against throughput, with a mark per
//! scheduler and a panel per workload.
//!
//! If the runs of a scheduler differ in one number (`give`), they form a curve. The picture is an
//! SVG file of its own.

use std::fmt::Write;

use hoistway_experiment::cell::Cell;

use super::STYLE;
use super::svg::{Anchor, Point, Svg, escaped, scheduler_class};
use crate::Results;
use crate::quantity::{jobs, weights};

const WIDTH: f64 = 940.0;
const PANEL: f64 = 356.0;
const HEAD: f64 = 64.0;
/// Left and right edge of the plot inside its panel, and the space above and below it.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 590.0;
const ABOVE: f64 = 44.0;
const BELOW: f64 = 58.0;
/// Errors up to this are drawn as zero, in percent.
const NO_ERROR: f64 = 0.1;

/// A mark.
struct Mark {
    /// Share error and throughput in percent.
    error: f64,
    throughput: f64,
    /// The value of the number in which the scheduler's runs differ.
    value: Option<f64>,
}

/// A scheduler, once or with several values of one tunable.
struct Series {
    name: String,
    marks: Vec<Mark>,
}

/// The drawing, or `None` if no run has shares.
pub fn figure(results: &Results<'_>) -> Option<String> {
    let cells = results.cells();
    let blocks: Vec<&[Cell<'_>]> = cells.chunk_by(|a, b| a.workload == b.workload).collect();
    // A scheduler has the same number in all panels.
    let mut names: Vec<String> = Vec::new();
    let mut panels = Vec::new();
    for block in blocks {
        let highest: Vec<&Cell<'_>> = block.chunk_by(|a, b| a.spec == b.spec).filter_map(<[_]>::last).collect();
        let (series, base) = series_of(&highest);
        let Some(first) = highest.first().filter(|_| !series.is_empty()) else { continue };
        for one in &series {
            if !names.contains(&one.name) {
                names.push(one.name.clone());
            }
        }
        let what = format!("{}, weights {}", jobs(first), weights(first));
        panels.push((first.workload.to_owned(), what, series, base));
    }
    if panels.is_empty() {
        return None;
    }
    let height = HEAD + PANEL * panels.len() as f64;
    let title = format!("What shares cost on {}", results.matrix.target);
    let mut svg = Svg::standalone(WIDTH, height, &title, STYLE);
    svg.text("strong", Anchor::Start, (LEFT - 46.0, 26.0), &title);
    let lead = "Higher is faster, further left is closer to the weights. The upper left corner is both; if the queue depth is too small, no scheduler can reach it.";
    svg.text("caption", Anchor::Start, (LEFT - 46.0, 46.0), lead);
    for (index, (workload, what, series, base)) in panels.iter().enumerate() {
        let top = HEAD + PANEL * index as f64;
        panel(&mut svg, top, &format!("{workload}: {what}"), series, base, &names);
    }
    Some(svg.finish_alone())
}

/// The schedulers of a workload, and the reference for throughput.
fn series_of(cells: &[&Cell<'_>]) -> (Vec<Series>, String) {
    let none = cells.iter().find(|cell| cell.spec.name == "none");
    let best = cells.iter().max_by(|a, b| a.bytes_per_s.mean.total_cmp(&b.bytes_per_s.mean));
    let (base, name) = match (none, best) {
        (Some(none), _) => (none.bytes_per_s.mean, "none's".to_owned()),
        (None, Some(best)) => (best.bytes_per_s.mean, "the best's".to_owned()),
        (None, None) => return (Vec::new(), String::new()),
    };
    let mark = |cell: &Cell<'_>, value| {
        let error = cell.fairness.as_ref()?.error_max * 100.0;
        let throughput = if base > 0.0 { cell.bytes_per_s.mean / base * 100.0 } else { 0.0 };
        (cell.groups.len() > 1).then_some(Mark { error, throughput, value })
    };
    let mut series: Vec<Series> = Vec::new();
    for cell in cells {
        let family: Vec<&&Cell<'_>> = cells.iter().filter(|other| same_family(other, cell)).collect();
        let key = differing(&family);
        let name = match key {
            Some(_) => family_name(cell),
            None => crate::quantity::scheduler(cell),
        };
        let value = key.and_then(|key| value_of(cell, &key));
        let Some(mark) = mark(cell, value) else { continue };
        match series.iter_mut().find(|series| series.name == name) {
            Some(known) => known.marks.push(mark),
            None => series.push(Series { name, marks: vec![mark] }),
        }
    }
    for one in &mut series {
        one.marks.sort_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)));
    }
    (series, name)
}

fn same_family(one: &Cell<'_>, other: &Cell<'_>) -> bool {
    one.scheduler.name == other.scheduler.name && one.spec.version == other.spec.version
}

fn family_name(cell: &Cell<'_>) -> String {
    match &cell.spec.version {
        Some(version) => format!("{}@{version}", cell.scheduler.name),
        None => cell.scheduler.name.clone(),
    }
}

/// The one tunable in which the runs of a scheduler differ, if its values are numbers.
fn differing(family: &[&&Cell<'_>]) -> Option<String> {
    let first = family.first().filter(|_| family.len() > 1)?;
    let names = first.scheduler.tunables.iter().map(|tunable| tunable.name.as_str());
    let values = |name: &str| family.iter().map(|cell| value_of(cell, name)).collect::<Vec<_>>();
    let differ: Vec<&str> = names.filter(|name| values(name).windows(2).any(|pair| pair[0] != pair[1])).collect();
    match &differ[..] {
        [one] if values(one).iter().all(Option::is_some) => Some((*one).to_owned()),
        _ => None,
    }
}

fn value_of(cell: &Cell<'_>, tunable: &str) -> Option<f64> {
    cell.scheduler.tunables.iter().find(|known| known.name == tunable)?.value.parse().ok()
}

fn panel(svg: &mut Svg, top: f64, title: &str, series: &[Series], base: &str, names: &[String]) {
    let (upper, lower) = (top + ABOVE, top + PANEL - BELOW);
    let marks = || series.iter().flat_map(|series| &series.marks);
    let most_error = marks().map(|mark| mark.error).fold(10.0, f64::max);
    let least = marks().map(|mark| mark.throughput).fold(95.0, f64::min);
    let most = marks().map(|mark| mark.throughput).fold(100.0, f64::max);
    let (floor, ceiling) = ((least / 10.0).floor() * 10.0, (most / 10.0).ceil() * 10.0);
    // The axis is logarithmic, with a place for runs without any error.
    let decades = (most_error / NO_ERROR).log10().ceil();
    let x = |error: f64| LEFT + 22.0 + (error.max(NO_ERROR) / NO_ERROR).log10() / decades * (RIGHT - LEFT - 34.0);
    let y = |percent: f64| lower - (percent - floor) / (ceiling - floor).max(1.0) * (lower - upper);
    svg.text("name", Anchor::Start, (LEFT - 46.0, top + 14.0), title);
    svg.text("caption", Anchor::Start, (LEFT - 46.0, top + 32.0), &format!("throughput, % of {base}"));
    let step = if ceiling - floor > 60.0 { 20.0 } else { 10.0 };
    let mut tick = floor;
    while tick <= ceiling {
        svg.line("grid", (LEFT, y(tick)), (RIGHT, y(tick)));
        svg.text("tick", Anchor::End, (LEFT - 8.0, y(tick) + 4.0), &format!("{tick:.0}"));
        tick += step;
    }
    let mut error = NO_ERROR;
    while error <= most_error * 10.0 && x(error) <= RIGHT {
        svg.line("grid", (x(error), upper), (x(error), lower));
        let text = if error <= NO_ERROR { "≤ 0.1".to_owned() } else { format!("{error:.0}") };
        svg.text("tick", Anchor::Middle, (x(error), lower + 18.0), &text);
        error *= 10.0;
    }
    svg.line("axis", (LEFT, lower), (RIGHT, lower));
    svg.text("caption", Anchor::Middle, (f64::midpoint(LEFT, RIGHT), lower + 38.0), "largest error of a share, %");
    for (row, one) in series.iter().enumerate() {
        let number = names.iter().position(|name| *name == one.name).unwrap_or(0);
        draw(svg, number, one, &|mark| (x(mark.error), y(mark.throughput)));
        entry(svg, number, one, (RIGHT + 26.0, upper + 8.0 + 18.0 * row as f64));
    }
}

fn draw(svg: &mut Svg, number: usize, series: &Series, at: &dyn Fn(&Mark) -> Point) {
    let class = scheduler_class(number);
    svg.curve(&class, 0, 0, &series.marks.iter().map(at).collect::<Vec<_>>());
    for mark in &series.marks {
        let value = mark.value.map_or_else(String::new, |value| format!(" {value}"));
        let hint = format!("{}{value}: {:.1} % throughput, {:.1} % error", series.name, mark.throughput, mark.error);
        svg.mark(&class, number, at(mark), &hint);
        if let Some(value) = mark.value {
            let (x, y) = at(mark);
            svg.text(&format!("{class} label"), Anchor::Start, (x + 8.0, y + 15.0), &format!("{value}"));
        }
    }
}

/// A line of the list on the right.
fn entry(svg: &mut Svg, number: usize, series: &Series, (x, y): Point) {
    let class = scheduler_class(number);
    svg.mark(&class, number, (x, y - 4.0), &series.name);
    let figures = match &series.marks[..] {
        [one] => format!("{:.0} %, error {}", one.throughput, short(one.error)),
        many => format!("{} values", many.len()),
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{y:.1}\"><tspan class=\"{class} label\">{}</tspan> <tspan class=\"tick\">{}</tspan></text>",
        x + 14.0,
        escaped(&super::throughput::shortened(&series.name, 26)),
        escaped(&figures),
    );
    svg.raw(&text);
}

fn short(error: f64) -> String {
    if error < 9.95 { format!("{error:.1} %") } else { format!("{error:.0} %") }
}
