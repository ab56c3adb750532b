//! `hoistway list devices`: every model with the measurements that it was fitted to, and the
//! parameters of each type side by side.

use std::fmt::Write;

use hoistway_device::{Anchor, Setting};

use hoistway::lists::{Listed, models};
use hoistway_study::calibration::table;

/// The types in the order of the list, with their descriptions.
const TYPES: [(&str, &str); 4] = [
    ("hdd", "hard disks"),
    ("raid", "arrays of hard disks; the members' parameters begin with disk."),
    ("flash", "SSDs"),
    ("null", "no device"),
];

/// One line per model.
pub fn overview() -> String {
    let mut text = String::new();
    for Listed { row, preset } in models() {
        let _ = writeln!(text, "  {:<16}{}", row.name, preset.doc);
    }
    text
}

/// The whole list as text.
pub fn text() -> String {
    let models = models();
    let mut text = String::new();
    for Listed { row, preset } in &models {
        let alias = match row.aliases {
            [] => String::new(),
            aliases => format!(" (also model:{})", aliases.join(", model:")),
        };
        let _ = writeln!(text, "model:{}{alias}\n  {}", row.name, preset.doc);
        for anchor in &preset.anchors {
            let _ = writeln!(text, "  published: {}", published(anchor));
        }
    }
    for (word, meaning) in TYPES {
        let of_type: Vec<&Listed> = models.iter().filter(|model| model.preset.model.type_word() == word).collect();
        let _ = writeln!(text, "\nparameters of type \"{word}\": {meaning}");
        parameters(&mut text, &of_type);
    }
    text.push_str(
        "\nexamples: model:ssd,channels=4,qd=16,seed=7   model:raid5x12,disk.seek_avg_ms=8   model:./my.toml\n\
         a model's file: hoistway device show NAME; how well they fit: hoistway device fit\n",
    );
    text
}

/// `2 dd readers: 18.7 MB/s sum_of_rates (linux-kernel, July 2010, noop)`.
fn published(anchor: &Anchor) -> String {
    let Anchor { name, source, figure, .. } = anchor;
    let mark = if anchor.is_provisional { "; fit provisional" } else { "" };
    format!("{name}: {}, {} ({source}{mark})", table::published(anchor), figure.name())
}

/// One line per parameter: the allowed values, the value in every model, and its meaning.
fn parameters(text: &mut String, models: &[&Listed]) {
    let values: Vec<Vec<Setting>> = models.iter().map(|model| model.preset.model.settings()).collect();
    let Some(first) = values.first() else { return };
    let width = |cells: &mut dyn Iterator<Item = usize>| cells.max().unwrap_or(0);
    let keys = width(&mut first.iter().map(|setting| setting.key.len()));
    let ranges = width(&mut first.iter().map(|setting| setting.parameter.allowed().len()));
    let columns: Vec<usize> = models
        .iter()
        .zip(&values)
        .map(|(model, settings)| {
            let longest = width(&mut settings.iter().map(|setting| setting.value.len()));
            longest.max(model.row.name.len())
        })
        .collect();
    let mut head = format!("  {:<keys$}  {:<ranges$}", "", "");
    for (model, column) in models.iter().zip(&columns) {
        let _ = write!(head, "  {:>column$}", model.row.name);
    }
    let _ = writeln!(text, "{head}");
    for (index, setting) in first.iter().enumerate() {
        let _ = write!(text, "  {:<keys$}  {:<ranges$}", setting.key, setting.parameter.allowed());
        for (settings, column) in values.iter().zip(&columns) {
            let _ = write!(text, "  {:>column$}", settings[index].value);
        }
        let _ = writeln!(text, "  {}", setting.parameter.doc);
    }
}
