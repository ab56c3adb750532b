//! The table of exports, with their nodes and clients.

use std::collections::BTreeMap;

use serde_json::Value;

use super::grid::Grid;
use super::{list, words};
use crate::top::table;

/// Clients named per export.
const NAMED: usize = 8;
/// Columns that the clients need to stand beside their export instead of below it.
const CLIENTS_WIDTH: usize = 24;
/// The columns that a narrow terminal does not show, the first to go first.
const OMITTED: [&str; 3] = ["DEVICE", "ERRORS", "INFL"];
const KINDS: [&str; 5] = ["read", "write", "flush", "discard", "write_zeroes"];

/// The lines of the table.
pub fn lines(answer: &Value, width: usize) -> Vec<String> {
    let mut header = vec!["EXPORT", "DEVICE", "SIZE", "NODE", "STATE", "INFL", "ERRORS"];
    let exports = list(answer, "exports");
    let connections = |export: &Value| -> Vec<&Value> {
        let is_its = |it: &&Value| it["export"] == export["name"] && it["device"] == export["device"];
        list(answer, "connections").iter().filter(is_its).collect()
    };
    let mut rows: Vec<Vec<String>> = exports.iter().map(|export| cells(export, &connections(export))).collect();
    // Most servers have neither nodes nor exports in a special state.
    for column in ["NODE", "STATE"] {
        let Some(at) = header.iter().position(|it| *it == column) else { continue };
        if rows.iter().all(|row| row[at] == "-") {
            header.remove(at);
            rows.iter_mut().for_each(|row| _ = row.remove(at));
        }
    }
    table::fit(&mut header, &mut rows, width, &OMITTED);
    let clients = exports.iter().map(|export| clients(&connections(export))).collect();
    let mut lines = Grid { header, rows, last: ("CLIENTS", clients) }.lines(CLIENTS_WIDTH, width);
    lines.extend(exports.iter().flat_map(remarks));
    lines
}

/// What an operator has to know of an export, in whole sentences.
fn remarks(export: &Value) -> impl Iterator<Item = String> {
    let name = words(&export["name"]);
    let damage = export["damage"].as_str().map(|_| {
        let why = words(&export["damage"]);
        format!("answered writes may be lost, because {why}; FLUSH and FUA fail until it is opened again")
    });
    let note = export["note"].as_str().map(|_| words(&export["note"]));
    let disk = export["ublk"].as_object().map(|disk| {
        let (node, features) = (words(&export["node"]), list(&export["ublk"], "features"));
        let features: Vec<String> = features.iter().map(|feature| words(feature).replace('_', " ")).collect();
        let queues = disk["queues"].as_u64().unwrap_or(0);
        let s = if queues == 1 { "" } else { "s" };
        format!("{node} has {queues} queue{s}; {}", features.join(", "))
    });
    [damage, note, disk].into_iter().flatten().map(move |remark| format!("    {name}: {remark}"))
}

fn cells(export: &Value, connections: &[&Value]) -> Vec<String> {
    let in_flight: u64 = connections.iter().filter_map(|it| it["in_flight"].as_u64()).sum();
    let errors: u64 = KINDS.iter().filter_map(|kind| export[kind]["errors"].as_u64()).sum();
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    vec![
        words(&export["name"]),
        words(&export["device"]),
        size(export["size_bytes"].as_u64().unwrap_or(0)),
        or_none(words(&export["node"])),
        or_none(state(export)),
        in_flight.to_string(),
        errors.to_string(),
    ]
}

/// What is special about an export; empty if nothing is.
fn state(export: &Value) -> String {
    let states = [
        ("damaged", export["damaged"] == true),
        ("UNSAFE_FLUSH", export["UNSAFE_FLUSH"] == true),
        ("removed", export["served"] == false),
        ("read-only", export["read_only"] == true),
    ];
    let hangs = export["unanswered"]["oldest_s"].as_f64().map(|seconds| format!("hangs {seconds:.0} s"));
    let words = states.into_iter().filter(|(_, is)| *is).map(|(word, _)| word.to_owned());
    hangs.into_iter().chain(words).collect::<Vec<_>>().join(",")
}

/// The clients, each with the number of its connections if it has several.
fn clients(connections: &[&Value]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for connection in connections {
        *counts.entry(words(&connection["client"])).or_default() += 1;
    }
    let name = |(client, count): (&String, &usize)| match count {
        1 => client.clone(),
        count => format!("{client}({count})"),
    };
    let mut names: Vec<String> = counts.iter().take(NAMED).map(name).collect();
    if counts.len() > NAMED {
        names.push(format!("and {} more", counts.len() - NAMED));
    }
    names.join(", ")
}

/// A size in the largest unit that leaves at least 1.
fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >= 1 << shift);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, shift)| {
            let whole = bytes as f64 / (1_u64 << shift) as f64;
            if whole.fract() == 0.0 { format!("{whole:.0} {unit}") } else { format!("{whole:.1} {unit}") }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn many_clients_are_counted() {
        let connections: Vec<Value> = (0..11).map(|at| json!({"client": format!("pid:{}", 10 + at.min(9))})).collect();
        let clients = clients(&connections.iter().collect::<Vec<_>>());
        assert!(clients.starts_with("pid:10, pid:11, ") && clients.ends_with("pid:17, and 2 more"), "{clients}");
    }

    #[test]
    fn a_backing_that_hangs_is_a_state() {
        let export = json!({"served": true, "damaged": true, "unanswered": {"oldest_s": 12.4, "ios": 3}});
        assert_eq!(state(&export), "hangs 12 s,damaged");
        assert_eq!(state(&json!({"served": true})), "");
    }

    #[test]
    fn damage_and_notes_stand_below_the_table() {
        let export = json!({
            "name": "db", "device": "d", "size_bytes": 512, "damaged": true,
            "damage": "writing to stable storage failed", "note": "it uses the page cache"
        });
        let shown = lines(&json!({"exports": [export], "connections": []}), 132);
        assert!(shown[1].contains("damaged"), "{shown:?}");
        let below = [
            "    db: answered writes may be lost, because writing to stable storage failed; FLUSH and FUA fail until it is \
             opened again",
            "    db: it uses the page cache",
        ];
        assert_eq!(shown[2..], below);
    }

    #[test]
    fn sizes_have_a_unit() {
        let shown: Vec<String> = [512, 4096, 3 << 19, 64 << 20, 5 << 40].into_iter().map(size).collect();
        assert_eq!(shown, ["512 B", "4 KiB", "1.5 MiB", "64 MiB", "5 TiB"]);
    }
}
