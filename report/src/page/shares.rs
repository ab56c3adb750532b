//! Shares: a bar per scheduler, divided as the groups got it, with marks where it should have been divided.

use experiment::cell::Cell;
use experiment::share::Fairness;

use super::svg::{Anchor, Svg, group_class};
use super::throughput::shortened;
use crate::quantity::{percent, scheduler};

const WIDTH: f64 = 940.0;
const LEFT: f64 = 200.0;
const BAR: f64 = 580.0;
const ROW: f64 = 64.0;
const THICK: f64 = 34.0;
/// Where the first scheduler's bar begins.
const TOP: f64 = 74.0;

/// The chart for one cell per scheduler; none if no cell has shares to speak of.
pub(super) fn chart(cells: &[&Cell<'_>]) -> Option<String> {
    let shown: Vec<(&Cell<'_>, &Fairness)> = cells
        .iter()
        .filter(|cell| cell.groups.len() > 1)
        .filter_map(|cell| Some((*cell, cell.fairness.as_ref()?)))
        .collect();
    let &(first, expected) = shown.first()?;
    let height = TOP + ROW * shown.len() as f64;
    let mut svg = Svg::new(WIDTH, height, "Share of each group under each scheduler, with marks where it was due");
    svg.raw(&patterns(first.groups.len()));
    let last = TOP + ROW * (shown.len() - 1) as f64 + THICK + 8.0;
    for edge in edges(&expected.due) {
        svg.line("due-guide", (LEFT + edge * BAR, 46.0), (LEFT + edge * BAR, last));
    }
    let parts = parts(first, &expected.due);
    for part in &parts {
        // About 7.4 units per character at this size.
        let room = characters(part.width, 7.4);
        let class = format!("{} label", part.class);
        svg.text(&class, Anchor::Middle, (part.x + part.width / 2.0, 14.0), &shortened(part.name, room.max(1)));
    }
    svg.text("caption", Anchor::End, (LEFT - 14.0, 37.0), "due by weight");
    fill(&mut svg, &parts, (22.0, 22.0));
    write(&mut svg, &parts, (22.0, 22.0), false);
    svg.text("caption", Anchor::Start, (LEFT + BAR + 18.0, 37.0), "furthest from due");
    for (row, (cell, fairness)) in shown.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let middle = y + THICK / 2.0 + 5.0;
        svg.text("name", Anchor::End, (LEFT - 14.0, middle), &shortened(&scheduler(cell), 26));
        let parts = self::parts(cell, &fairness.share);
        fill(&mut svg, &parts, (y, THICK));
        due_marks(&mut svg, fairness, y);
        write(&mut svg, &parts, (y, THICK), true);
        let error = percent(fairness.error_max);
        let word = if cell.scheduler.has_shares { error } else { format!("{error}, no shares") };
        svg.text("strong", Anchor::Start, (LEFT + BAR + 18.0, middle), &word);
    }
    Some(svg.finish())
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

/// The parts of a bar, which add up to 1, in the groups' order.
fn parts<'a>(cell: &Cell<'a>, parts: &[f64]) -> Vec<Part<'a>> {
    let mut x = LEFT;
    let mut place = |(index, (part, group)): (usize, (&f64, &experiment::cell::CellGroup<'a>))| {
        let (left, width) = (x, part * BAR);
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

/// The figures inside the areas, as far as they fit, with names where those fit too.
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

/// How many characters of this width fit.
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

/// Marks at the borders between the due parts, above and below the bar.
fn due_marks(svg: &mut Svg, fairness: &Fairness, y: f64) {
    for edge in edges(&fairness.due) {
        let x = LEFT + edge * BAR - 0.75;
        // Open in the middle, where the figures stand.
        svg.line("due", (x, y - 4.0), (x, y + 8.0));
        svg.line("due", (x, y + THICK - 8.0), (x, y + THICK + 4.0));
        svg.polygon("due-tip", &[(x - 5.0, y - 10.0), (x + 5.0, y - 10.0), (x, y - 3.0)]);
    }
}

/// A pattern per group: groups are told apart without their colour.
fn patterns(groups: usize) -> String {
    let mut text = String::from("<defs>\n");
    for index in 0..groups.min(8) {
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
    text.push_str("</defs>\n");
    text
}
