//! What there is, as data: schedulers with their tunables, device models with their parameters,
//! workloads by name. Everything is read from the tables that the parsers use.

use hoistway_device::{Anchor, MODELS, ModelRow, Preset, Setting};
use hoistway_elevator::registry::{self, Entry};
use hoistway_elevator::tunable::{OutOfRange, Tunable};
use hoistway_elevator::{Configuration, Elevator, Version};
use hoistway_report::json::Json;
use hoistway_workload::{name, program};

/// The schedulers at their newest versions, as [`scheduler`] has each.
pub fn schedulers() -> Json {
    Json::List(registry::entries().map(|entry| scheduler(entry, None)).collect())
}

/// A scheduler at a kernel version (none = the newest): its name, what it is, whether it has shares, the versions at
/// which its behaviour changed, its tunables.
pub fn scheduler(entry: &Entry, version: Option<Version>) -> Json {
    let versions = entry.versions.iter().map(|version| Json::text(show_version(*version)));
    Json::object([
        ("name", Json::text(entry.name)),
        ("summary", Json::text(entry.summary)),
        ("has_shares", Json::Bool(entry.traits.has_shares)),
        ("versions", Json::List(versions.collect())),
        ("tunables", Json::List(tunables(entry, version).iter().map(tunable).collect())),
    ])
}

/// The tunables of a scheduler at a kernel version (none = the newest), read from the policy
/// itself.
pub fn tunables(entry: &Entry, version: Option<Version>) -> &'static [Tunable] {
    // The default configuration is small; if memory is short even for it, the list stays empty.
    registry::build(entry.name, version, &Configuration::default()).map_or(&[], |policy| policy.tunables())
}

/// A tunable: its name, unit, range, default, and what becomes of a value outside the range.
pub fn tunable(row: &Tunable) -> Json {
    Json::object([
        ("name", Json::text(row.name)),
        ("unit", Json::text(row.unit.text())),
        ("min", Json::text(row.min.to_string())),
        ("max", Json::text(row.max.to_string())),
        ("default", row.default.map_or(Json::Null, |default| Json::text(default.to_string()))),
        ("out_of_range", Json::text(if row.out_of_range == OutOfRange::Clamp { "clamped" } else { "refused" })),
        ("doc", Json::text(row.doc)),
    ])
}

/// `6.9`, or `2.6.26`.
pub fn show_version(Version(major, minor, patch): Version) -> String {
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

/// A model included in the program, after parsing.
pub struct Listed {
    /// Its names.
    pub row: &'static ModelRow,
    /// The model, its description and the measurements that it was fitted to.
    pub preset: Preset,
}

/// The models included in the program.
pub fn models() -> Vec<Listed> {
    // Models included in the program are read by its tests, so none is skipped here.
    MODELS.iter().filter_map(|row| Some(Listed { row, preset: Preset::load(row.name).ok()? })).collect()
}

/// The device models with their parameters, and the measurements that they were fitted to.
pub fn devices() -> Json {
    let models = models().into_iter().map(|Listed { row, preset }| {
        let parameters = preset.model.settings().into_iter().map(|Setting { key, parameter, value }| {
            Json::object([
                ("name", Json::text(key)),
                ("alias", Json::text(parameter.alias)),
                ("unit", Json::text(parameter.unit.label())),
                ("min", Json::Whole(parameter.minimum)),
                ("max", Json::Whole(parameter.maximum)),
                ("default", Json::text(value)),
                ("doc", Json::text(parameter.doc)),
            ])
        });
        Json::object([
            ("name", Json::text(row.name)),
            ("aliases", Json::List(row.aliases.iter().copied().map(Json::text).collect())),
            ("type", Json::text(preset.model.type_word())),
            ("doc", Json::text(&preset.doc)),
            ("anchors", Json::List(preset.anchors.iter().map(anchor_json).collect())),
            ("parameters", Json::List(parameters.collect())),
        ])
    });
    Json::List(models.collect())
}

fn anchor_json(anchor: &Anchor) -> Json {
    Json::object([
        ("name", Json::text(&anchor.name)),
        ("source", Json::text(&anchor.source)),
        ("figure", Json::text(anchor.figure.name())),
        ("published", Json::List(anchor.published.iter().map(|value| Json::Decimal(*value)).collect())),
        ("unit", Json::text(&anchor.unit)),
        ("provisional", Json::Bool(anchor.is_provisional)),
    ])
}

/// The workloads that have names.
pub fn workloads() -> Json {
    let workload =
        |(name, meaning): (&str, String)| Json::object([("name", Json::text(name)), ("doc", Json::text(meaning))]);
    Json::List(meanings().map(workload).collect())
}

/// The workloads that have names, with one line each.
pub fn meanings() -> impl Iterator<Item = (&'static str, String)> {
    let fio = name::FIO.into_iter().map(|(name, code)| (name, format!("{} ({code})", meaning(code))));
    let others = name::CODES.into_iter().filter(|code| name::FIO.iter().all(|(_, known)| known != code));
    let codes = fio.chain(others.map(|code| (code, meaning(code))));
    let jobs = name::JOBS.into_iter().map(|(name, doc)| (name, doc.to_owned()));
    let programs = program::ALL.into_iter().map(|program| (program.name(), program.doc().to_owned()));
    codes.chain(jobs).chain(programs)
}

/// The meaning of the letters of a code.
fn meaning(code: &str) -> String {
    let mut letters = code.chars();
    let cache = if letters.next() == Some('b') { "buffered" } else { "direct" };
    let pattern = if letters.next() == Some('s') { "sequential" } else { "random" };
    let direction = match letters.next() {
        Some('r') => "reads",
        Some('w') => "writes",
        _ => "50 % reads, 50 % writes",
    };
    let size = if cache == "buffered" { "4k" } else { "32k" };
    format!("{cache} {pattern} {direction} of {size}, one at a time per thread")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_meaning_that_matches_its_job() {
        for code in name::CODES {
            let job = &name::parse(code).unwrap().jobs[0];
            assert_eq!(meaning(code).contains("direct"), job.submission.direct, "{code}");
            assert_eq!(meaning(code).contains("writes"), job.shape.mix.has_writes(), "{code}");
        }
    }
}
