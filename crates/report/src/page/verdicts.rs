//! Many judged cells in one picture: largest share error against throughput, a point per cell whose
//! shape is the verdict.
//!
//! There is a panel per scheduler and kind of device. The picture is an SVG file of its own, or the
//! head of a page with tables.

use std::fmt::Write;

use super::svg::{Anchor, Point, Svg, escaped, scheduler_class};
use super::{STYLE, beginning};

const WIDTH: f64 = 940.0;
const PANEL: f64 = 356.0;
const HEAD: f64 = 64.0;
/// Left and right edge of the plot inside its panel, and the space above and below it.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 690.0;
const ABOVE: f64 = 44.0;
const BELOW: f64 = 58.0;
/// Errors up to the first are drawn as zero, those beyond the second as the second, in percent.
const NO_ERROR: f64 = 0.1;
const MOST_ERROR: f64 = 1_000.0;
/// Maximum throughput that is drawn, in percent of that of `none`; on disks it may be twenty times
/// as much.
const MOST: f64 = 150.0;
const LEAST: f64 = 40.0;
/// The limits of an exact share: error and throughput in percent.
const EXACT: (f64, f64) = (5.0, 97.0);

/// Classes of colours; good verdicts are green or blue.
const COLOURS: [usize; 4] = [4, 7, 1, 3];

fn class(verdict: usize) -> String {
    scheduler_class(COLOURS[verdict % COLOURS.len()])
}

/// A cell under one scheduler.
#[derive(Clone, Debug)]
pub struct VerdictDot {
    /// The verdict, as an index into [`Verdicts::verdicts`].
    pub verdict: usize,
    /// The largest share error in percent.
    pub error: f64,
    /// Throughput in percent of that of `none`.
    pub throughput: f64,
    /// Text of the tooltip.
    pub hint: String,
}

/// The cells of one scheduler and kind of device.
#[derive(Clone, Debug)]
pub struct VerdictPanel {
    /// Scheduler and device.
    pub title: String,
    /// The cells.
    pub dots: Vec<VerdictDot>,
}

/// The content of picture and page.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// Title in one line.
    pub title: String,
    /// Description below the title.
    pub lead: String,
    /// The verdicts in the order of their marks.
    pub verdicts: Vec<String>,
    /// The pictures.
    pub panels: Vec<VerdictPanel>,
    /// Tables with their header as the first row: the summaries, then the cells.
    pub tables: Vec<Vec<Vec<String>>>,
}

/// The picture as a file of its own.
pub fn figure(verdicts_page: &Verdicts) -> String {
    let height = HEAD + PANEL * verdicts_page.panels.len() as f64;
    let mut svg = Svg::standalone(WIDTH, height, &verdicts_page.title, STYLE);
    svg.text("strong", Anchor::Start, (LEFT - 46.0, 26.0), &verdicts_page.title);
    let lead = "Higher is faster, further left is closer to the weights. A point is a cell; if the queue depth is too small, no scheduler can reach the upper left corner.";
    svg.text("caption", Anchor::Start, (LEFT - 46.0, 46.0), lead);
    panels(&mut svg, verdicts_page, HEAD);
    svg.finish_alone()
}

/// The page: the picture, the summaries, all cells.
pub fn html(verdicts_page: &Verdicts) -> String {
    let mut page = beginning(&verdicts_page.title, "");
    let _ = writeln!(page, "<p class=\"lead\">{}</p>", escaped(&verdicts_page.lead));
    let mut svg = Svg::new(WIDTH, PANEL * verdicts_page.panels.len() as f64, &verdicts_page.title);
    panels(&mut svg, verdicts_page, 0.0);
    let note = "Higher is faster, further left is closer to the weights. Point at a mark to see its cell.";
    let _ = writeln!(
        page,
        "<section><h2>Error against throughput</h2>\n<p class=\"note\">{note}</p>\n{}</section>",
        svg.finish()
    );
    let last = verdicts_page.tables.len().saturating_sub(1);
    for (index, rows) in verdicts_page.tables.iter().enumerate() {
        let heading = match index {
            0 => "<section><h2>Summary</h2>\n",
            _ if index == last => "</section>\n<section><h2>Cells</h2>\n",
            _ => "",
        };
        let _ = write!(page, "{heading}{}", table(rows));
    }
    page.push_str(
        "</section>\n<footer>Written by hoistway. Figures are means over seeds.</footer>\n</main>\n</body>\n</html>\n",
    );
    page
}

pub(super) fn table(rows: &[Vec<String>]) -> String {
    let mut text = String::from("<div class=\"scroll\"><table>\n");
    for (index, row) in rows.iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        let cell = |(column, cell): (usize, &String)| {
            let class = if column == 0 { " class=\"name\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(cell))
        };
        let cells: String = row.iter().enumerate().map(cell).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
    }
    text + "</table></div>\n"
}

fn panels(svg: &mut Svg, verdicts_page: &Verdicts, top: f64) {
    for (index, one) in verdicts_page.panels.iter().enumerate() {
        panel(svg, top + PANEL * index as f64, one, &verdicts_page.verdicts);
    }
}

fn panel(svg: &mut Svg, top: f64, panel: &VerdictPanel, verdicts: &[String]) {
    let (upper, lower) = (top + ABOVE, top + PANEL - BELOW);
    let decades = (MOST_ERROR / NO_ERROR).log10();
    let x = |error: f64| {
        LEFT + 12.0 + (error.clamp(NO_ERROR, MOST_ERROR) / NO_ERROR).log10() / decades * (RIGHT - LEFT - 24.0)
    };
    let y = |percent: f64| lower - (percent.clamp(LEAST, MOST) - LEAST) / (MOST - LEAST) * (lower - upper);
    svg.text("name", Anchor::Start, (LEFT - 46.0, top + 14.0), &panel.title);
    svg.text("caption", Anchor::Start, (LEFT - 46.0, top + 32.0), "throughput, % of none's");
    let mut tick = LEAST;
    while tick <= MOST {
        svg.line("grid", (LEFT, y(tick)), (RIGHT, y(tick)));
        let end = if tick >= MOST {
            "≥ "
        } else if tick <= LEAST {
            "≤ "
        } else {
            ""
        };
        svg.text("tick", Anchor::End, (LEFT - 8.0, y(tick) + 4.0), &format!("{end}{tick:.0}"));
        tick += 10.0;
    }
    let mut error = NO_ERROR;
    while error <= MOST_ERROR {
        svg.line("grid", (x(error), upper), (x(error), lower));
        let text = if error <= NO_ERROR { "≤ 0.1".to_owned() } else { format!("{error:.0}") };
        svg.text("tick", Anchor::Middle, (x(error), lower + 18.0), &text);
        error *= 10.0;
    }
    svg.line("axis", (x(EXACT.0), upper), (x(EXACT.0), y(EXACT.1)));
    svg.line("axis", (LEFT, y(EXACT.1)), (x(EXACT.0), y(EXACT.1)));
    svg.line("axis", (LEFT, lower), (RIGHT, lower));
    svg.text("caption", Anchor::Middle, (f64::midpoint(LEFT, RIGHT), lower + 38.0), "largest error of a share, %");
    for dot in &panel.dots {
        svg.mark(&class(dot.verdict), dot.verdict, (x(dot.error), y(dot.throughput)), &dot.hint);
    }
    for (number, verdict) in verdicts.iter().enumerate() {
        let count = panel.dots.iter().filter(|dot| dot.verdict == number).count();
        entry(svg, number, &format!("{verdict}: {count}"), (RIGHT + 26.0, upper + 8.0 + 20.0 * number as f64));
    }
}

/// A line of the list on the right.
fn entry(svg: &mut Svg, number: usize, text: &str, (x, y): Point) {
    svg.mark(&class(number), number, (x, y - 4.0), text);
    svg.text("label", Anchor::Start, (x + 14.0, y), text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_a_mark_of_its_verdict_and_none_leaves_the_plot() {
        let dot = |verdict, error, throughput| VerdictDot { verdict, error, throughput, hint: "a <cell>".to_owned() };
        let panel = VerdictPanel {
            title: "x on flash".to_owned(),
            dots: vec![dot(0, 0.0, 100.0), dot(1, 20.0, 97.0), dot(1, 5_000.0, 2_400.0)],
        };
        let verdicts = ["exact", "bound"].map(str::to_owned).to_vec();
        let verdicts_page = Verdicts { title: "t".to_owned(), verdicts, panels: vec![panel], ..Verdicts::default() };
        let svg = figure(&verdicts_page);
        assert_eq!(svg.matches("a &lt;cell&gt;").count(), 3);
        assert!(svg.contains("exact: 1") && svg.contains("bound: 2"), "{svg}");
        // The mark of the last cell is a square; both figures are clamped, so its centre is in the
        // upper right corner.
        let (x, y) = (RIGHT - 12.0, HEAD + ABOVE);
        assert!(svg.contains(&format!("{:.1},{:.1}", x - 4.8, y - 4.8)), "{svg}");
    }
}
