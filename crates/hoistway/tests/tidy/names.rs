//! Rules on lengths, names, module comments and units.

use crate::source::{Finding, Source, expect_lines, expect_none, sources};
use std::collections::BTreeSet;

/// Longest file, in lines; tests, benches and fuzz targets may be longer.
const LONGEST_LINES: usize = 900;

/// Names that say nothing about the contents.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "utility", "helper", "helpers", "common", "misc", "manager", "managers"];

fn too_long(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().count();
    let is_long = source.is_product() && lines > LONGEST_LINES;
    let what = format!("{lines} lines, at most {LONGEST_LINES}");
    is_long
        .then(|| source.finding(lines, what, "split it by duty; a policy becomes a folder with its events in mod.rs"))
        .into_iter()
        .collect()
}

#[test]
fn no_file_is_too_long() {
    expect_none(&sources(".rs").iter().flat_map(too_long).collect::<Vec<_>>());
    let long = "//! x\n".repeat(LONGEST_LINES + 1);
    expect_lines(too_long, "crates/queue/src/a.rs", &long, &[LONGEST_LINES + 1]);
    expect_lines(too_long, "crates/queue/tests/a.rs", &long, &[]);
}

/// `foo_v2`, `foov2` and `v2` itself; the versions of the kernel's control groups are legitimate
/// names.
fn has_version_suffix(name: &str, folder: &str) -> bool {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
    before.len() < name.len() && before.ends_with('v') && !(before == "v" && folder.ends_with("cgroup"))
}

fn empty_names(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let parts: Vec<&str> = source.path.trim_end_matches(".rs").split('/').collect();
    for (index, part) in parts.iter().enumerate() {
        let folder = if index == 0 { "" } else { parts[index - 1] };
        if EMPTY_NAMES.contains(part) {
            findings.push(source.finding(1, format!("{part:?} says nothing"), "name the thing that is in it"));
        }
        if has_version_suffix(part, folder) {
            findings.push(source.finding(
                1,
                format!("{part:?} bears a version"),
                "replace the old one; git remembers it",
            ));
        }
    }
    for (number, line) in source.code() {
        let mut words = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .skip_while(|word| !matches!(*word, "mod" | "struct" | "enum" | "trait" | "type"));
        let (Some(_), Some(name)) = (words.next(), words.next()) else { continue };
        let lower = name.to_lowercase();
        let last =
            ["manager", "helper", "helpers", "util", "utils", "misc"].iter().any(|ending| lower.ends_with(ending));
        if last || EMPTY_NAMES.contains(&lower.as_str()) {
            findings.push(source.finding(number, format!("{name:?} says nothing"), "name the thing that it is"));
        }
        if has_version_suffix(&lower, "") && source.folder() != "linux" {
            findings.push(source.finding(
                number,
                format!("{name:?} bears a version"),
                "replace the old one; git remembers it",
            ));
        }
    }
    findings
}

#[test]
fn names_say_what_a_thing_is() {
    expect_none(&sources(".rs").iter().flat_map(empty_names).collect::<Vec<_>>());
    expect_lines(empty_names, "crates/queue/src/util.rs", "", &[1]);
    expect_lines(empty_names, "crates/queue/src/tags_v2.rs", "", &[1]);
    expect_lines(empty_names, "crates/elevator/src/read_latency2.rs", "", &[]);
    expect_lines(empty_names, "crates/linux/src/cgroup/v2.rs", "", &[]);
    expect_lines(empty_names, "crates/queue/src/a.rs", "mod misc;\npub struct TagManager;\nlet helper = 1;", &[1, 2]);
}

fn without_module_comment(source: &Source) -> Vec<Finding> {
    let first = source.text.lines().position(|line| !line.trim().is_empty()).unwrap_or(0);
    let opens = source.text.lines().nth(first).is_some_and(|line| line.starts_with("//! ") && line.len() > 8);
    let remedy = "open the file with `//!` and one sentence: what it is, and what it promises";
    if opens { Vec::new() } else { vec![source.finding(first + 1, "no module comment", remedy)] }
}

#[test]
fn every_file_opens_with_its_module_comment() {
    expect_none(&sources(".rs").iter().flat_map(without_module_comment).collect::<Vec<_>>());
    expect_lines(without_module_comment, "a/src/a.rs", "use std::fmt;\n", &[1]);
    expect_lines(without_module_comment, "a/src/a.rs", "//!\n", &[1]);
}

/// Words in a name that show that a number is a time, a size or a position.
const DIMENSIONS: [&str; 22] = [
    "time", "timeout", "delay", "latency", "deadline", "interval", "period", "age", "duration", "size", "length",
    "offset", "position", "start", "end", "begin", "distance", "wait", "quantum", "expire", "now", "elapsed",
];

/// Words in a name that show its unit.
const UNITS: [&str; 34] = [
    "ns",
    "us",
    "ms",
    "s",
    "seconds",
    "minutes",
    "bytes",
    "byte",
    "kib",
    "mib",
    "gib",
    "sectors",
    "sector",
    "blocks",
    "block",
    "pages",
    "page",
    "ticks",
    "requests",
    "ios",
    "percent",
    "ppm",
    "slots",
    "slot",
    "index",
    "lines",
    "line",
    "pages",
    "cylinders",
    "turns",
    "weight",
    "times",
    "ratio",
    "count",
];

/// The name and type of a public field or constant, if the line declares one.
fn public_number(line: &str) -> Option<(&str, &str)> {
    let declaration = line.trim().strip_prefix("pub ")?;
    // Constants of one or two bytes are numbers of a protocol, not amounts.
    let constant = declaration.strip_prefix("const ").filter(|rest| !rest.contains(": u8") && !rest.contains(": u16"));
    let declaration = constant.unwrap_or(declaration);
    let (name, kind) = declaration.split_once(": ")?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let kind = kind.split([',', '=', ';']).next()?.trim();
    let inner = kind.strip_prefix("Option<").and_then(|inner| inner.strip_suffix('>')).unwrap_or(kind);
    let is_number = ["u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64", "isize", "f32", "f64"].contains(&inner);
    (is_name && is_number).then_some((name, kind))
}

fn without_unit(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !source.is_product() {
        return findings;
    }
    for (number, line) in source.code() {
        let Some((name, kind)) = public_number(&line) else { continue };
        let lower = name.to_lowercase();
        let words: BTreeSet<&str> = lower.split('_').collect();
        if DIMENSIONS.iter().any(|word| words.contains(word)) && !UNITS.iter().any(|unit| words.contains(unit)) {
            let remedy = "add the unit to the name (_ns, _bytes, _sectors, ...), or use a type that has one";
            findings.push(source.finding(number, format!("{name}: {kind} has no unit"), remedy));
        }
    }
    findings
}

#[test]
fn times_sizes_and_positions_bear_their_unit() {
    expect_none(&sources(".rs").iter().flat_map(without_unit).collect::<Vec<_>>());
    let text = "    pub timeout: u64,\n    pub timeout_ms: u64,\n    pub size: Option<u32>,\n    pub wait: Nanos,\npub const MAX_OFFSET: u64 = 1;\n";
    expect_lines(without_unit, "a/src/a.rs", text, &[1, 3, 5]);
}
