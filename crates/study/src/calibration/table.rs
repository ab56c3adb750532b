//! Published and modelled figures side by side: as text, as a pipe table, as JSON.

use std::fmt::Write;

use hoistway_device::Anchor;
use hoistway_report::json::Json;

use super::row::Row;

/// A row with its figures on one model.
pub struct Fitted<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The measurement.
    pub row: &'a Row,
    /// The model's values, one per published value.
    pub values: Vec<f64>,
}

impl Fitted<'_> {
    /// The relative error.
    pub fn error(&self) -> f64 {
        self.row.error(&self.values)
    }

    /// Whether the error exceeds the tolerance and the row counts.
    pub fn is_failed(&self, tolerance: f64) -> bool {
        // A value that is not a number fails as well.
        !self.row.anchor.is_provisional && (self.error().abs() > tolerance || self.error().is_nan())
    }

    fn cells(&self) -> [String; 5] {
        let anchor = &self.row.anchor;
        let mark = if anchor.is_provisional { " (provisional)" } else { "" };
        [
            self.model.to_owned(),
            format!("{}{mark}", anchor.name),
            published(anchor),
            figures(&self.values),
            percent(self.error()),
        ]
    }

    /// The row as a JSON object.
    pub fn json(&self, tolerance: f64) -> Json {
        let anchor = &self.row.anchor;
        let list = |values: &[f64]| Json::List(values.iter().map(|value| Json::Decimal(*value)).collect());
        Json::object([
            ("model", Json::text(self.model)),
            ("name", Json::text(&anchor.name)),
            ("source", Json::text(&anchor.source)),
            ("figure", Json::text(anchor.figure.name())),
            ("unit", Json::text(&anchor.unit)),
            ("published", list(&anchor.published)),
            ("modelled", list(&self.values)),
            ("error", Json::Decimal(self.error())),
            ("provisional", Json::Bool(anchor.is_provisional)),
            ("ok", Json::Bool(!self.is_failed(tolerance))),
        ])
    }
}

const HEAD: [&str; 5] = ["model", "measurement", "published", "modelled", "error"];

/// The rows as columns for a terminal.
pub fn text(rows: &[Fitted<'_>]) -> String {
    let cells: Vec<[String; 5]> =
        std::iter::once(HEAD.map(str::to_owned)).chain(rows.iter().map(Fitted::cells)).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for [model, name, published, value, error] in cells {
        let [a, b, c, d, e] = widths;
        let _ = writeln!(text, "{model:<a$}  {name:<b$}  {published:>c$}  {value:>d$}  {error:>e$}");
    }
    text
}

/// The rows as a pipe table.
pub fn markdown(rows: &[Fitted<'_>]) -> String {
    let line = |cells: [String; 5]| format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    let mut text = line(HEAD.map(str::to_owned));
    text.push_str("| --- | --- | --: | --: | --: |\n");
    text.extend(rows.iter().map(|row| line(row.cells())));
    text
}

/// The rows as a JSON array.
pub fn json(rows: &[Fitted<'_>], tolerance: f64) -> Json {
    Json::List(rows.iter().map(|row| row.json(tolerance)).collect())
}

/// The published values as they were published, with their unit.
pub fn published(anchor: &Anchor) -> String {
    let values: Vec<String> = anchor.published.iter().map(f64::to_string).collect();
    format!("{} {}", values.join(" : "), anchor.unit)
}

/// Values with about three digits, separated by colons as shares are.
fn figures(values: &[f64]) -> String {
    let one = |value: &f64| {
        let places = if *value < 100.0 { 1 } else { 0 };
        format!("{value:.places$}")
    };
    values.iter().map(one).collect::<Vec<_>>().join(" : ")
}

/// Formats a ratio as `+12 %`.
pub fn percent(ratio: f64) -> String {
    format!("{:+.1} %", ratio * 100.0)
}
