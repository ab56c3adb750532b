//! Shares: a bar per scheduler, divided by the groups' shares, with marks at what they are entitled to, or at
//! the division by weight where that is not known.

use hoistway_experiment::cell::Cell;
use hoistway_experiment::measurement::SoloRates;
use hoistway_experiment::share::Fairness;

use super::chart_width::{ChartWidth, both};
use super::svg::{Anchor, Svg, group_class};
use super::throughput::shortened;
use crate::quantity::{isolation, percent, scheduler};

const THICK: f64 = 34.0;

/// Positions in the chart.
#[derive(Copy, Clone)]
struct Place {
    left: f64,
    bar: f64,
    /// Top of the first scheduler's bar, and the distance between bars.
    top: f64,
    row: f64,
}

impl Place {
    fn of(chart_width: ChartWidth) -> Self {
        match chart_width {
            ChartWidth::Wide => Self { left: 200.0, bar: 580.0, top: 74.0, row: 64.0 },
            ChartWidth::Narrow => Self { left: 6.0, bar: 448.0, top: 104.0, row: 78.0 },
        }
    }
}

/// The chart for one cell per scheduler; `None` if no cell has shares.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let shown: Vec<(&Cell<'_>, &Fairness)> = cells
        .iter()
        .filter(|cell| cell.groups.len() > 1)
        .filter_map(|cell| Some((*cell, cell.fairness.as_ref()?)))
        .collect();
    shown.first()?;
    Some(both(|chart_width| draw(&shown, chart_width)))
}

fn draw(shown: &[(&Cell<'_>, &Fairness)], chart_width: ChartWidth) -> String {
    let Some(&(first, expected)) = shown.first() else { return String::new() };
    let at = Place::of(chart_width);
    let height = at.top + at.row * shown.len() as f64;
    let mut svg =
        Svg::new(chart_width.width(), height, "Share of each group under each scheduler, with marks at the due share");
    let figure = if first.entitlement.is_some() { "isolation" } else { "furthest from due" };
    let last = at.top + at.row * (shown.len() - 1) as f64 + THICK + 8.0;
    let due = due_of(first, expected);
    for edge in edges(&due) {
        svg.line("due-guide", (at.left + edge * at.bar, 46.0), (at.left + edge * at.bar, last));
    }
    let parts = parts(first, &due, at);
    for part in &parts {
        // About 7.4 units per character at this size.
        let room = characters(part.width, 7.4);
        let class = format!("{} label", part.class);
        svg.text(&class, Anchor::Middle, (part.x + part.width / 2.0, 14.0), &shortened(part.name, room.max(1)));
    }
    if chart_width.is_narrow() {
        svg.text("caption", Anchor::Start, (at.left, 62.0), &format!("above: {}", yardstick(first)));
        svg.text("caption", Anchor::End, (chart_width.width() - 4.0, 62.0), figure);
    } else {
        svg.text("caption", Anchor::End, (at.left - 14.0, 37.0), yardstick(first));
        svg.text("caption", Anchor::Start, (at.left + at.bar + 18.0, 37.0), figure);
    }
    fill(&mut svg, &parts, (22.0, 22.0));
    write(&mut svg, &parts, (22.0, 22.0), false);
    for (row, (cell, fairness)) in shown.iter().enumerate() {
        let y = at.top + at.row * row as f64;
        let (name_at, name, error_at, error_anchor) = if chart_width.is_narrow() {
            ((at.left, y - 13.0), Anchor::Start, (chart_width.width() - 4.0, y - 13.0), Anchor::End)
        } else {
            let middle = y + THICK / 2.0 + 5.0;
            ((at.left - 14.0, middle), Anchor::End, (at.left + at.bar + 18.0, middle), Anchor::Start)
        };
        let limit = if chart_width.is_narrow() { 28 } else { 20 };
        svg.text("name", name, name_at, &shortened(&scheduler(cell), limit));
        let parts = self::parts(cell, &fairness.share, at);
        let got = parts.iter().map(|part| format!("{} {}", part.name, percent(part.part))).collect::<Vec<_>>();
        let figures = format!("{}: {}", scheduler(cell), got.join(", "));
        svg.series(&figures, (at.left, y + THICK + 16.0), chart_width.characters() * 5 / 8, |svg| {
            fill(svg, &parts, (y, THICK));
            due_marks(svg, &due_of(cell, fairness), at, y);
            write(svg, &parts, (y, THICK), true);
        });
        let word = match &cell.entitlement {
            Some(_) => isolation(cell, None),
            None if cell.scheduler.has_shares => percent(fairness.error_max),
            None => format!("{}, no shares", percent(fairness.error_max)),
        };
        svg.text("strong", error_anchor, error_at, &word);
    }
    svg.finish()
}

/// The groups' entitlements in bytes as parts of their sum; `None` if they are not known, or count I/Os.
fn entitled_parts(cell: &Cell<'_>) -> Option<Vec<f64>> {
    let entitled = &cell.entitlement.as_ref()?.entitled_per_s;
    let counts_ios = |index: usize| cell.runs[0].solo_rates.get(index).is_some_and(SoloRates::counts_ios);
    let sum: f64 = entitled.iter().sum();
    let is_in_bytes = sum > 0.0 && !cell.groups.iter().any(|group| counts_ios(group.index));
    is_in_bytes.then(|| entitled.iter().map(|per_s| per_s / sum).collect())
}

/// The parts that the marks show.
fn due_of(cell: &Cell<'_>, fairness: &Fairness) -> Vec<f64> {
    entitled_parts(cell).unwrap_or_else(|| fairness.due.clone())
}

/// What the marks show, in words.
pub(super) fn yardstick(cell: &Cell<'_>) -> &'static str {
    if entitled_parts(cell).is_some() { "entitled" } else { "due by weight" }
}

/// One group's part of a bar.
struct Part<'a> {
    index: usize,
    class: String,
    name: &'a str,
    weight: u32,
    part: f64,
    x: f64,
    width: f64,
}

/// The parts of a bar in the groups' order; they add up to 1.
fn parts<'a>(cell: &Cell<'a>, parts: &[f64], at: Place) -> Vec<Part<'a>> {
    let mut x = at.left;
    let mut place = |(index, (part, group)): (usize, (&f64, &hoistway_experiment::cell::CellGroup<'a>))| {
        let (left, width) = (x, part * at.bar);
        x += width;
        let class = group_class(index);
        Part { index, class, name: group.path, weight: group.weight, part: *part, x: left, width }
    };
    parts.iter().zip(&cell.groups).enumerate().map(&mut place).collect()
}

/// The coloured and patterned areas, at `(y, thickness)`.
fn fill(svg: &mut Svg, parts: &[Part<'_>], (y, thick): (f64, f64)) {
    for part in parts {
        let hint = format!("{} (weight {}): {}", part.name, part.weight, percent(part.part));
        let size = ((part.width - 1.5).max(0.5), thick);
        svg.rect(&format!("{} part", part.class), (part.x, y), size, &hint);
        svg.hatched(&format!("hatch{}", part.index % 8), (part.x, y), size);
    }
}

/// The figures inside the areas if they fit, with names if those fit too.
fn write(svg: &mut Svg, parts: &[Part<'_>], (y, thick): (f64, f64), with_names: bool) {
    for part in parts {
        let named = format!("{} {}", part.name, percent(part.part));
        let room = characters(part.width - 8.0, 7.2);
        let label = if with_names && named.chars().count() <= room { named } else { percent(part.part) };
        if label.chars().count() <= room {
            let place = (part.x + part.width / 2.0, y + thick / 2.0 + 4.5);
            svg.text(&format!("{} inside", part.class), Anchor::Middle, place, &label);
        }
    }
}

/// Number of characters of width `of_one` that fit into `width`.
#[expect(clippy::cast_possible_truncation, reason = "a few hundred at most; rounding down is wanted")]
fn characters(width: f64, of_one: f64) -> usize {
    (width / of_one).max(0.0) as usize
}

/// The borders between the parts.
fn edges(parts: &[f64]) -> Vec<f64> {
    let mut edge = 0.0;
    let all = parts.iter().map(|part| {
        edge += part;
        edge
    });
    all.take(parts.len().saturating_sub(1)).collect()
}

/// Marks at the borders between the due shares, above and below the bar.
fn due_marks(svg: &mut Svg, due: &[f64], at: Place, y: f64) {
    for edge in edges(due) {
        let x = at.left + edge * at.bar - 0.75;
        // The mark is open in the middle, where the figures are.
        svg.line("due", (x, y - 4.0), (x, y + 8.0));
        svg.line("due", (x, y + THICK - 8.0), (x, y + THICK + 4.0));
        svg.polygon("due-tip", &[(x - 5.0, y - 10.0), (x + 5.0, y - 10.0), (x, y - 3.0)]);
    }
}

/// A pattern per group, so that groups can be distinguished without colour. The patterns are in a
/// drawing of their own that is never hidden, because browsers do not fill with the patterns of a
/// hidden one.
pub(super) fn patterns() -> String {
    let mut text = String::from("<svg width=\"0\" height=\"0\" class=\"patterns\" aria-hidden=\"true\"><defs>\n");
    for index in 0..8 {
        let lines = match index {
            0 => "",
            1 => "<path class=\"hatch\" d=\"M-2 2L2 -2M0 10L10 0M8 12L12 8\"/>",
            2 => {
                "<circle class=\"dot\" cx=\"3\" cy=\"3\" r=\"1.3\"/><circle class=\"dot\" cx=\"8\" cy=\"8\" r=\"1.3\"/>"
            }
            3 => "<path class=\"hatch\" d=\"M0 5H10\"/>",
            4 => "<path class=\"hatch\" d=\"M5 0V10\"/>",
            5 => "<path class=\"hatch\" d=\"M0 0L10 10M-2 8L2 12M8 -2L12 2\"/>",
            6 => "<path class=\"hatch\" d=\"M0 5H10M5 0V10\"/>",
            _ => "<path class=\"hatch\" d=\"M0 0L10 10M10 0L0 10\"/>",
        };
        let class = group_class(index);
        text.push_str(&format!(
            "<pattern id=\"hatch{index}\" class=\"{class}\" width=\"10\" height=\"10\" patternUnits=\"userSpaceOnUse\">{lines}</pattern>\n"
        ));
    }
    text.push_str("</defs></svg>\n");
    text
}
