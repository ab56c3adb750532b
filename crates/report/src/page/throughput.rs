//! Total throughput: a line per scheduler over the thread counts, or bars if there is a single
//! thread count.

use hoistway_experiment::cell::Cell;

use super::chart_width::{ChartWidth, both};
use super::legend::{Entry, legend};
use super::scale::Linear;
use super::svg::{Anchor, Svg, scheduler_class};
use crate::quantity::{decimals, mib, scheduler};

/// The chart for the cells of one workload.
pub(super) fn chart(block: &[Cell<'_>]) -> String {
    let series: Vec<&[Cell<'_>]> = block.chunk_by(|a, b| a.spec == b.spec).collect();
    let mut counts: Vec<u32> = block.iter().map(|cell| cell.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    let largest = block.iter().map(|cell| mib(cell.bytes_per_s.high())).fold(0.0, f64::max);
    let axis = Linear::up_to(largest);
    if counts.len() == 1 {
        return both(|chart_width| bars(&series, &axis, chart_width));
    }
    let entry = |(index, cells): (usize, &&[Cell<'_>])| Entry {
        series: index,
        name: cells.first().map(scheduler).unwrap_or_default(),
        figures: cells.last().map(|cell| format!("{} with {}", value(cell), cell.threads)).unwrap_or_default(),
    };
    let entries: Vec<Entry> = series.iter().enumerate().map(entry).collect();
    both(|chart_width| lines(&series, &counts, &axis, chart_width)) + &legend(&entries)
}

fn value(cell: &Cell<'_>) -> String {
    let total = mib(cell.bytes_per_s.mean);
    let places = decimals(total);
    match cell.bytes_per_s.ci95 {
        Some(ci95) => format!("{total:.places$} ± {:.places$} MiB/s", mib(ci95)),
        None => format!("{total:.places$} MiB/s"),
    }
}

fn lines(series: &[&[Cell<'_>]], counts: &[u32], axis: &Linear, chart_width: ChartWidth) -> String {
    let (width, height) = (chart_width.width(), chart_width.choose(380.0, 300.0));
    let (left, right, top, bottom) = (64.0, width - 16.0, 26.0, height - 52.0);
    let mut svg = Svg::new(width, height, "Total throughput over threads per group, one line per scheduler");
    let y = |mib: f64| bottom - axis.part(mib) * (bottom - top);
    for tick in axis.ticks() {
        svg.line("grid", (left, y(tick)), (right, y(tick)));
        svg.text("tick", Anchor::End, (left - 10.0, y(tick) + 4.0), &axis.label(tick));
    }
    svg.text("caption", Anchor::Start, (left - 46.0, 12.0), "MiB/s");
    let room = (right - left - 60.0) / (counts.len() - 1) as f64;
    let x = |count: u32| left + 30.0 + counts.iter().position(|c| *c == count).unwrap_or(0) as f64 * room;
    for &count in counts {
        svg.text("tick", Anchor::Middle, (x(count), bottom + 22.0), &count.to_string());
    }
    svg.line("axis", (left, bottom), (right, bottom));
    svg.text("caption", Anchor::Middle, (f64::midpoint(left, right), height - 8.0), "threads per group (NR)");
    // Shifted sideways, so that intervals of equal schedulers stay readable.
    let aside = |index: usize| (index as f64 - (series.len() - 1) as f64 / 2.0) * 5.0;
    for (index, cells) in series.iter().enumerate() {
        let class = scheduler_class(index);
        let at = |cell: &Cell<'_>| (x(cell.threads) + aside(index), y(mib(cell.bytes_per_s.mean)));
        let points = cells.iter().map(|cell| format!("{} with {}", value(cell), cell.threads)).collect::<Vec<_>>();
        let name = cells.first().map(scheduler).unwrap_or_default();
        let figures = format!("{name}: {}", points.join(", "));
        let draw = |svg: &mut Svg| {
            // Curves are shifted, so none covers another.
            svg.curve(&class, index, 0, &cells.iter().map(at).collect::<Vec<_>>());
            for cell in *cells {
                let (at_x, at_y) = at(cell);
                if cell.bytes_per_s.ci95.is_some() {
                    let (low, high) = (y(mib(cell.bytes_per_s.low()).max(0.0)), y(mib(cell.bytes_per_s.high())));
                    let whisker = format!("{class} whisker");
                    svg.line(&whisker, (at_x, low), (at_x, high));
                    svg.line(&whisker, (at_x - 3.5, low), (at_x + 3.5, low));
                    svg.line(&whisker, (at_x - 3.5, high), (at_x + 3.5, high));
                }
                let hint = format!("{}, {} threads: {}", scheduler(cell), cell.threads, value(cell));
                svg.mark(&class, index, (at_x, at_y), &hint);
            }
        };
        svg.series(&figures, (left + 8.0, top + 14.0), chart_width.characters(), draw);
    }
    svg.finish()
}

fn bars(series: &[&[Cell<'_>]], axis: &Linear, chart_width: ChartWidth) -> String {
    let (row, thick) = (chart_width.choose(46.0, 58.0), 28.0);
    let (left, right, top) =
        (chart_width.choose(210.0, 4.0), chart_width.width() - chart_width.choose(190.0, 14.0), 12.0);
    let height = top + row * series.len() as f64 + 44.0;
    let bottom = height - 40.0;
    let mut svg = Svg::new(chart_width.width(), height, "Total throughput, one bar per scheduler");
    let x = |mib: f64| left + axis.part(mib) * (right - left);
    for tick in axis.ticks() {
        svg.line("grid", (x(tick), top), (x(tick), bottom));
        let anchor = if tick == 0.0 && chart_width.is_narrow() { Anchor::Start } else { Anchor::Middle };
        svg.text("tick", anchor, (x(tick), bottom + 18.0), &axis.label(tick));
    }
    svg.text("caption", Anchor::Middle, (f64::midpoint(left, right), height - 4.0), "MiB/s");
    for (index, cell) in series.iter().filter_map(|cells| cells.first()).enumerate() {
        let y = top + row * (index + 1) as f64 - thick - 9.0;
        let total = mib(cell.bytes_per_s.mean);
        let name = scheduler(cell);
        if chart_width.is_narrow() {
            svg.text("name", Anchor::Start, (left, y - 6.0), &shortened(&name, 30));
            svg.text("strong", Anchor::End, (chart_width.width() - 4.0, y - 6.0), &value(cell));
        } else {
            svg.text("name", Anchor::End, (left - 14.0, y + 19.0), &shortened(&name, 22));
            let label_x = x(mib(cell.bytes_per_s.high()).max(total)) + 12.0;
            svg.text("strong", Anchor::Start, (label_x, y + 19.0), &value(cell));
        }
        svg.rect("bar", (left, y), (x(total) - left, thick), &format!("{name}: {}", value(cell)));
        if cell.bytes_per_s.ci95.is_some() {
            let (low, high, middle) =
                (x(mib(cell.bytes_per_s.low()).max(0.0)), x(mib(cell.bytes_per_s.high())), y + thick / 2.0);
            svg.line("due", (low, middle), (high, middle));
            svg.line("due", (low, middle - 5.0), (low, middle + 5.0));
            svg.line("due", (high, middle - 5.0), (high, middle + 5.0));
        }
    }
    svg.line("axis", (left, top), (left, bottom));
    svg.finish()
}

/// A label cut with an ellipsis to `limit` characters.
pub(super) fn shortened(label: &str, limit: usize) -> String {
    if label.chars().count() <= limit {
        return label.to_owned();
    }
    let mut short: String = label.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}
