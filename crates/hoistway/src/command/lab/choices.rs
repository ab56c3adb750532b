//! What a page can choose from, read from the tables that the parsers use: devices, schedulers with
//! their tunables, and what reasons mean.

use elevator::registry::{self, Entry};
use elevator::tunable::{Tunable, Unit};
use elevator::{Configuration, Elevator};
use serde_json::{Value, json};
use simulator::Session;

use super::frame::bucket_starts_ns;
use super::state::State;

/// The choices, with the state to begin with.
pub fn all(first: &State) -> Value {
    let devices: Vec<Value> =
        device::MODELS.iter().map(|row| json!({"name": row.name, "summary": summary(row.text)})).collect();
    json!({
        "devices": devices,
        "schedulers": registry::entries().map(scheduler).collect::<Vec<_>>(),
        "first": first,
        "bucket_starts_ns": bucket_starts_ns(),
    })
}

/// The description in a model's file.
fn summary(text: &str) -> &str {
    let line = text.lines().find_map(|line| line.strip_prefix("doc = \""));
    line.map_or("", |line| line.trim_end_matches('"'))
}

fn scheduler(entry: &Entry) -> Value {
    let policy = registry::build(entry.name, None, &Configuration::default());
    let rows = policy.as_ref().map_or(&[][..], Elevator::tunables);
    json!({
        "name": entry.name,
        "summary": entry.summary,
        "has_shares": entry.traits.has_shares,
        "tunables": rows.iter().map(tunable).collect::<Vec<_>>(),
    })
}

fn tunable(row: &Tunable) -> Value {
    let words: &[&str] = if let Unit::Choice(words) = row.unit { words } else { &[] };
    json!({
        "name": row.name, "unit": row.unit.text(), "min": row.min, "max": row.max, "default": row.default,
        "doc": row.doc, "words": words, "is_switch": row.unit == Unit::Boolean,
    })
}

/// What a page must know about the lanes that were started for it.
pub fn of_lanes<'a>(lanes: impl Iterator<Item = &'a Session>) -> Value {
    let lane = |session: &Session| {
        let info = session.device();
        let reasons: Vec<Value> = session
            .reasons()
            .iter()
            .map(|name| json!({"name": name, "meaning": report::page::gloss(name).unwrap_or_default()}))
            .collect();
        let tunables: Vec<Value> =
            session.tunables().map(|(row, value)| json!({"name": row.name, "value": value})).collect();
        json!({
            "reasons": reasons,
            "tunables": tunables,
            "device": {
                "name": info.name, "capacity_sectors": info.capacity_sectors, "rotational": info.rotational,
                "depth": info.total_depth(),
            },
        })
    };
    lanes.map(lane).collect()
}
