//! Isolation on a page: mechanisms x desiderata, priority against utilisation as a picture, tables.

use std::fmt::Write;

use super::beginning;
use super::svg::{Anchor, Svg, escaped, scheduler_class};
use super::verdicts::table;

const WIDTH: f64 = 940.0;
const PANEL: f64 = 400.0;
/// Edges of the plot inside its panel.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 660.0;
const ABOVE: f64 = 44.0;
const BELOW: f64 = 62.0;
/// The smallest latency that is drawn, as a multiple of that of the tenant alone.
const LEAST_LATENCY: f64 = 0.8;
/// Largest throughput that is drawn, in per cent of that of `none`.
const MOST_UTILISATION: f64 = 120.0;

/// The content of the page.
#[derive(Clone, Debug, Default)]
pub struct IsolationPage {
    /// Title in one line.
    pub title: String,
    /// Lines below the title.
    pub notes: Vec<String>,
    /// The table of verdicts with its head.
    pub verdicts: Vec<Vec<String>>,
    /// The pictures.
    pub fronts: Vec<Front>,
    /// Further tables.
    pub tables: Vec<Table>,
}

/// A table with its heading; the first row is its head.
#[derive(Clone, Debug)]
pub struct Table {
    /// The heading.
    pub heading: String,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// Latency against throughput in one cell.
#[derive(Clone, Debug)]
pub struct Front {
    /// The cell.
    pub title: String,
    /// Largest latency and smallest throughput of a setting that meets the desideratum.
    pub met: (f64, f64),
    /// The mechanisms.
    pub series: Vec<FrontSeries>,
}

/// A mechanism with its settings.
#[derive(Clone, Debug)]
pub struct FrontSeries {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub marks: Vec<FrontMark>,
}

/// A setting.
#[derive(Clone, Debug)]
pub struct FrontMark {
    /// 99th percentile, as a multiple of that of the tenant alone.
    pub latency_ratio: f64,
    /// Throughput in per cent of that of `none`.
    pub utilisation: f64,
    /// Whether no other setting is better in both.
    pub is_on_front: bool,
    /// Text of the tooltip.
    pub hint: String,
}

/// The page.
pub fn html(content: &IsolationPage) -> String {
    let mut page = beginning(&content.title, "");
    for note in &content.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(note));
    }
    let _ = write!(page, "<section><h2>Mechanisms and desiderata</h2>\n{}</section>\n", table(&content.verdicts));
    if !content.fronts.is_empty() {
        let mut svg = Svg::new(WIDTH, PANEL * content.fronts.len() as f64, "Priority against utilisation");
        content.fronts.iter().enumerate().for_each(|(index, front)| panel(&mut svg, PANEL * index as f64, front));
        let note = "Higher is more throughput, further left is a shorter wait of the sensitive tenant. The line joins the settings that no other one beats in both; inside the box the desideratum is met.";
        let _ = writeln!(
            page,
            "<section><h2>Priority against utilisation</h2>\n<p class=\"note\">{note}</p>\n{}</section>",
            svg.finish()
        );
    }
    for Table { heading, rows } in &content.tables {
        let _ = writeln!(page, "<section><h2>{}</h2>\n{}</section>", escaped(heading), table(rows));
    }
    page.push_str("<footer>Written by hoistway.</footer>\n</main>\n</body>\n</html>\n");
    page
}

fn panel(svg: &mut Svg, top: f64, front: &Front) {
    let (upper, lower) = (top + ABOVE, top + PANEL - BELOW);
    let marks = || front.series.iter().flat_map(|series| &series.marks);
    let most = marks().map(|mark| mark.latency_ratio).fold(10.0, f64::max);
    let decades = (most / LEAST_LATENCY).log10().max(0.1);
    let x = |latency: f64| {
        LEFT + 12.0 + (latency.max(LEAST_LATENCY) / LEAST_LATENCY).log10() / decades * (RIGHT - LEFT - 24.0)
    };
    let y = |percent: f64| lower - percent.clamp(0.0, MOST_UTILISATION) / MOST_UTILISATION * (lower - upper);
    svg.text("name", Anchor::Start, (LEFT - 46.0, top + 14.0), &front.title);
    svg.text("caption", Anchor::Start, (LEFT - 46.0, top + 32.0), "throughput, % of none's");
    let mut tick = 0.0;
    while tick <= MOST_UTILISATION {
        svg.line("grid", (LEFT, y(tick)), (RIGHT, y(tick)));
        svg.text("tick", Anchor::End, (LEFT - 8.0, y(tick) + 4.0), &format!("{tick:.0}"));
        tick += 20.0;
    }
    let mut decade = 1.0;
    while decade <= most {
        for latency in [1.0, 2.0, 5.0].map(|step| step * decade).into_iter().filter(|latency| *latency <= most) {
            svg.line("grid", (x(latency), upper), (x(latency), lower));
            svg.text("tick", Anchor::Middle, (x(latency), lower + 18.0), &format!("{latency:.0}"));
        }
        decade *= 10.0;
    }
    let (latency, utilisation) = front.met;
    svg.line("axis", (x(latency), upper), (x(latency), y(utilisation)));
    svg.line("axis", (LEFT, y(utilisation)), (x(latency), y(utilisation)));
    svg.line("axis", (LEFT, lower), (RIGHT, lower));
    let caption = "99th percentile of the sensitive tenant, times that alone";
    svg.text("caption", Anchor::Middle, (f64::midpoint(LEFT, RIGHT), lower + 40.0), caption);
    let mut best: Vec<&FrontMark> = marks().filter(|mark| mark.is_on_front).collect();
    best.sort_by(|a, b| a.latency_ratio.total_cmp(&b.latency_ratio));
    let points: Vec<_> = best.iter().map(|mark| (x(mark.latency_ratio), y(mark.utilisation))).collect();
    svg.curve("front", 1, 0, &points);
    for (number, series) in front.series.iter().enumerate() {
        let class = scheduler_class(number);
        for mark in &series.marks {
            svg.mark(&class, number, (x(mark.latency_ratio), y(mark.utilisation)), &mark.hint);
        }
        let (x, y) = (RIGHT + 26.0, upper + 8.0 + 20.0 * number as f64);
        svg.mark(&class, number, (x, y - 4.0), &series.name);
        svg.text("label", Anchor::Start, (x + 14.0, y), &series.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_a_mark_and_the_front_a_line() {
        let mark = |latency, utilisation, is_on_front| FrontMark {
            latency_ratio: latency,
            utilisation,
            is_on_front,
            hint: "a <setting>".to_owned(),
        };
        let series = |name: &str, marks| FrontSeries { name: name.to_owned(), marks };
        let front = Front {
            title: "reads".to_owned(),
            met: (2.0, 90.0),
            series: vec![
                series("none", vec![mark(9.0, 100.0, true), mark(9.5, 90.0, false)]),
                series("x", vec![mark(1.0, 40.0, true)]),
            ],
        };
        let rows =
            vec![vec!["mechanism".to_owned(), "fair".to_owned()], vec!["x".to_owned(), "met 1/1, 3 %".to_owned()]];
        let page = html(&IsolationPage { fronts: vec![front], verdicts: rows, ..IsolationPage::default() });
        assert_eq!(page.matches("a &lt;setting&gt;").count(), 3);
        // The front goes from the left, where the latency is smallest, up to the right.
        let y = |percent: f64| PANEL - BELOW - percent / MOST_UTILISATION * (PANEL - BELOW - ABOVE);
        let curve = page.lines().find(|line| line.contains("<path") && line.contains("curve")).expect("the front");
        assert!(
            curve.contains(&format!(" {:.1}L", y(40.0))) && curve.contains(&format!(" {:.1}\"", y(100.0))),
            "{curve}"
        );
        assert!(page.contains(">met 1/1, 3 %</td>"), "{page}");
    }
}
