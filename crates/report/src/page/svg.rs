//! Elements of inline SVG: shapes with classes, so that one style sheet colours all of them for
//! light and dark.

use std::fmt::Write;

use hoistway_experiment::printable_lines;

/// Escapes text for HTML element content and quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    printable_lines(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Which point of a text is at the given position.
#[derive(Copy, Clone)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A point in the drawing's own units.
pub(super) type Point = (f64, f64);

/// A drawing under construction.
pub(super) struct Svg {
    text: String,
}

impl Svg {
    /// A drawing of this size; `title` is for screen readers.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let title = escaped(title);
        Self { text: format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n") }
    }

    /// A drawing that is a file of its own.
    pub(super) fn standalone(width: f64, height: f64, title: &str, style: &str) -> Self {
        let title = escaped(title);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" role=\"img\" aria-label=\"{title}\" style=\"background:var(--card);font:14px system-ui,sans-serif\">\n<style>\n{style}</style>\n"
        );
        Self { text }
    }

    /// A small decorative drawing, hidden from screen readers.
    pub(super) fn decoration(width: f64, height: f64) -> Self {
        let size = format!("width=\"{width:.0}\" height=\"{height:.0}\"");
        Self { text: format!("<svg {size} viewBox=\"0 0 {width:.0} {height:.0}\" aria-hidden=\"true\">") }
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): Point, (x2, y2): Point) {
        let _ = writeln!(
            self.text,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, (x, y): Point, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// A rectangle with a tooltip.
    pub(super) fn rect(&mut self, class: &str, (x, y): Point, (width, height): Point, hint: &str) {
        let hint = escaped(hint);
        let _ = writeln!(
            self.text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" rx=\"2\"><title>{hint}</title></rect>",
            width.max(0.0),
        );
    }

    /// A rectangle filled with a defined pattern.
    pub(super) fn hatched(&mut self, pattern: &str, (x, y): Point, (width, height): Point) {
        let _ = writeln!(
            self.text,
            "<rect fill=\"url(#{pattern})\" pointer-events=\"none\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
            width.max(0.0),
        );
    }

    /// The elements of one series as one focusable group: on Tab, touch or click it shows `figures`
    /// at `at`, wrapped into lines of `characters`.
    pub(super) fn series(&mut self, figures: &str, at: Point, characters: usize, draw: impl FnOnce(&mut Self)) {
        let _ = writeln!(
            self.text,
            "<g class=\"series\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">",
            escaped(figures)
        );
        draw(self);
        let mut tip = String::new();
        for (line, text) in wrapped(figures, characters).iter().enumerate() {
            let y = at.1 + 16.0 * line as f64;
            let _ = write!(tip, "<tspan x=\"{:.1}\" y=\"{y:.1}\">{}</tspan>", at.0, escaped(text));
        }
        let _ = writeln!(self.text, "<text class=\"tip\">{tip}</text></g>");
    }

    /// A line through points, dashed by the series' number. If other lines are drawn over it, it is
    /// wider by `beneath` steps, so that it is visible on both sides of them.
    pub(super) fn curve(&mut self, class: &str, series: usize, beneath: usize, points: &[Point]) {
        if points.len() < 2 {
            return;
        }
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        const DASHES: [&str; 5] = ["", "8 4", "2 4", "10 3 2 3", "14 4"];
        let dash = DASHES[series % DASHES.len()];
        let width = if beneath > 0 { format!(" beneath-{}", beneath.min(4)) } else { String::new() };
        let _ = writeln!(self.text, "<path class=\"{class}{width} curve\" stroke-dasharray=\"{dash}\" d=\"{path}\"/>");
        // An invisible wide line, because a thin one is hard to touch.
        let _ = writeln!(self.text, "<path class=\"hit\" d=\"{path}\"/>");
    }

    /// A mark whose shape identifies the series without colour.
    pub(super) fn mark(&mut self, class: &str, series: usize, (x, y): Point, hint: &str) {
        let hint = escaped(hint);
        let polygon = |corners: &[Point]| {
            let points: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
            format!("<polygon class=\"{class} mark\" points=\"{}\">", points.join(" "))
        };
        let (shape, end) = match series % 6 {
            0 => (format!("<circle class=\"{class} mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\">"), "circle"),
            1 => (polygon(&[(-4.8, -4.8), (4.8, -4.8), (4.8, 4.8), (-4.8, 4.8)]), "polygon"),
            2 => (polygon(&[(0.0, -6.2), (5.8, 4.4), (-5.8, 4.4)]), "polygon"),
            3 => (polygon(&[(0.0, -6.6), (6.6, 0.0), (0.0, 6.6), (-6.6, 0.0)]), "polygon"),
            4 => (polygon(&[(0.0, 6.2), (5.8, -4.4), (-5.8, -4.4)]), "polygon"),
            _ => (polygon(&[(-6.0, -2.2), (6.0, -2.2), (6.0, 2.2), (-6.0, 2.2)]), "polygon"),
        };
        let _ = writeln!(self.text, "{shape}<title>{hint}</title></{end}>");
    }

    /// A filled polygon.
    pub(super) fn polygon(&mut self, class: &str, corners: &[Point]) {
        let points: Vec<String> = corners.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.text, "<polygon class=\"{class}\" points=\"{}\"/>", points.join(" "));
    }

    /// Any markup, which must be safe already.
    pub(super) fn raw(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    /// The file of a drawing from [`Svg::standalone`].
    pub(super) fn finish_alone(self) -> String {
        self.text + "</svg>\n"
    }

    /// The drawing without a box.
    pub(super) fn finish_bare(self) -> String {
        self.text + "</svg>"
    }

    /// The drawing, scaled down to any window, in a box within a row of boxes; the caller ends the
    /// box.
    pub(super) fn finish_panel(self) -> String {
        format!("<div class=\"panel\">{}</svg>", self.text)
    }

    /// The drawing in a box that scrolls if the window is narrower.
    pub(super) fn finish(self) -> String {
        format!("<div class=\"scroll\">{}</svg></div>\n", self.text)
    }
}

/// For each curve, the number of later curves that cover a considerable part of it. Points of equal
/// index correspond.
pub(super) fn beneath(curves: &[Vec<Point>]) -> Vec<usize> {
    let over = |one: &[Point], other: &[Point]| {
        let pairs = one.iter().zip(other);
        let together = pairs.filter(|((ax, ay), (bx, by))| (ax - bx).hypot(ay - by) < 3.0).count();
        together * 5 >= one.len().max(1)
    };
    let count = |(index, one): (usize, &Vec<Point>)| curves[index + 1..].iter().filter(|it| over(one, it)).count();
    curves.iter().enumerate().map(count).collect()
}

/// Wraps text at spaces into lines of at most `characters`.
fn wrapped(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The class of the n-th scheduler.
pub(super) fn scheduler_class(series: usize) -> String {
    format!("s{}", series % 8)
}

/// The class of the n-th group.
pub(super) fn group_class(series: usize) -> String {
    format!("g{}", series % 8)
}

/// Moves labels apart so that neighbours keep `gap`, within `low..=high`, in their order; returns
/// their new positions.
pub(super) fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut placed = wanted.to_vec();
    let mut floor = low;
    for &index in &order {
        placed[index] = wanted[index].max(floor);
        floor = placed[index] + gap;
    }
    // Labels moved beyond the end push the others back.
    let mut ceiling = high;
    for &index in order.iter().rev() {
        placed[index] = placed[index].min(ceiling);
        ceiling = placed[index] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_order() {
        assert_eq!(spread(&[10.0, 11.0, 50.0], 14.0, 0.0, 100.0), [10.0, 24.0, 50.0]);
        assert_eq!(spread(&[99.0, 98.0], 14.0, 0.0, 100.0), [100.0, 86.0]);
    }

    #[test]
    fn a_line_under_another_is_wider() {
        let line = |y: f64| (0..10).map(|x| (f64::from(x), y)).collect::<Vec<Point>>();
        let curves = [line(0.0), line(1.0), line(9.0), line(0.5)];
        assert_eq!(beneath(&curves), [2, 1, 0, 0]);
        let mut svg = Svg::new(10.0, 10.0, "x");
        svg.curve("s0", 0, 2, &curves[0]);
        svg.curve("s1", 1, 0, &curves[1]);
        assert_eq!(svg.text.matches("beneath-2 curve\"").count(), 1, "{}", svg.text);
        assert_eq!(svg.text.matches("beneath-").count(), 1, "{}", svg.text);
    }

    #[test]
    fn figures_of_a_series_are_there_without_a_pointer() {
        let mut svg = Svg::new(10.0, 10.0, "x");
        svg.series("wfq: one two three", (1.0, 2.0), 10, |svg| svg.mark("s0", 0, (0.0, 0.0), "hint"));
        assert!(svg.text.contains("tabindex=\"0\" role=\"group\" aria-label=\"wfq: one two three\""), "{}", svg.text);
        assert!(
            svg.text.contains("y=\"2.0\">wfq: one</tspan>") && svg.text.contains("y=\"18.0\">two three<"),
            "{}",
            svg.text
        );
    }

    #[test]
    fn markup_in_a_name_stays_text() {
        assert_eq!(escaped("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
    }
}
