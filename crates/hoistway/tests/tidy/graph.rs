//! The rule on imports between crates: ARCHITECTURE.md shows them all, as Cargo knows them. A new import is seen in a
//! review because the page changes with it.

use crate::crates::{folder_of, list, metadata, text};
use crate::source::{Finding, expect_none, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- crates: generated, HOISTWAY_BLESS=1 cargo test -p hoistway --test tidy rewrites -->\n";
const END: &str = "<!-- crates: end -->\n";
/// Tests may import it from any floor.
const TESTBED: &str = "testbed";

/// The imports of each crate, by folder.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// What each crate imports; for its tests, or for itself.
fn imports(metadata: &Value, for_tests: bool) -> Graph {
    let ours =
        list(metadata, "packages").iter().filter_map(|package| Some((folder_of(text(package, "name"))?, package)));
    ours.map(|(folder, package)| {
        let imported = list(package, "dependencies").iter().filter(|it| (text(it, "kind") == "dev") == for_tests);
        let folders = imported.filter_map(|it| folder_of(text(it, "name"))).map(str::to_owned);
        (folder.to_owned(), folders.collect())
    })
    .collect()
}

/// The floor of each crate: one above the highest that it imports. Cargo accepts no circles.
fn floors(graph: &Graph) -> BTreeMap<&str, usize> {
    let mut floors: BTreeMap<&str, usize> = BTreeMap::new();
    while floors.len() < graph.len() {
        let before = floors.len();
        for (name, imports) in graph {
            let below = imports.iter().map(|import| floors.get(import.as_str()).copied());
            if let Some(highest) = below.collect::<Option<Vec<usize>>>().map(|below| below.into_iter().max()) {
                floors.insert(name, highest.unwrap_or(0) + 1);
            }
        }
        assert!(floors.len() > before, "a circle among {:?}", graph.keys());
    }
    floors
}

/// The table of the page, highest floor first.
fn table(graph: &Graph) -> String {
    let floors = floors(graph);
    let mut rows: Vec<(usize, &str)> = floors.iter().map(|(name, floor)| (*floor, *name)).collect();
    rows.sort_by_key(|(floor, name)| (usize::MAX - floor, *name));
    let mut text = String::from("| floor | crate | imports |\n| --- | --- | --- |\n");
    for (floor, name) in rows {
        let mut imports: Vec<&str> = graph[name].iter().map(String::as_str).collect();
        imports.sort_by_key(|import| (usize::MAX - floors[import], *import));
        text.push_str(&format!("| {floor} | `{name}` | {} |\n", imports.join(", ")));
    }
    text
}

/// Tests that import a crate of their floor or above.
fn wrong_tests(metadata: &Value) -> Vec<Finding> {
    let graph = imports(metadata, false);
    let floors = floors(&graph);
    let mut findings = Vec::new();
    for (name, imported) in imports(metadata, true) {
        for import in
            imported.iter().filter(|import| *import != TESTBED && floors[import.as_str()] >= floors[name.as_str()])
        {
            let what = format!("tests of {name} import {import}, which is not below it");
            let remedy = "imports point downwards; a test of several crates belongs to the one above them";
            findings.push(Finding { file: format!("crates/{name}/Cargo.toml"), line: 1, what, remedy });
        }
    }
    findings
}

#[test]
fn the_page_shows_the_imports_of_every_crate() {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).expect(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("the mark before the table");
    let (shown, after) = rest.split_once(END).expect("the mark behind the table");
    let known = format!("\n{}\n", table(&imports(&metadata(), false)));
    if std::env::var_os("HOISTWAY_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, format!("{before}{BEGIN}{known}{END}{after}")).expect("ARCHITECTURE.md is written");
    } else {
        assert!(shown == known, "{PAGE} shows other imports; if a new one is meant, HOISTWAY_BLESS=1. Now:\n{known}");
    }
}

#[test]
fn imports_point_downwards() {
    expect_none(&wrong_tests(&metadata()));
    let planted = serde_json::json!({"packages": [
        {"name": "hoistway-block", "dependencies": [{"name": "hoistway-testbed", "kind": "dev"}]},
        {"name": "hoistway-queue", "dependencies": [{"name": "hoistway-block", "kind": null}]},
        {"name": "hoistway-device", "dependencies": [
            {"name": "hoistway-block", "kind": null}, {"name": "hoistway-queue", "kind": "dev"}]},
        {"name": "hoistway-testbed", "dependencies": [
            {"name": "hoistway-queue", "kind": null}, {"name": "serde", "kind": null}]},
    ]});
    let found: Vec<_> = wrong_tests(&planted).into_iter().map(|finding| finding.what).collect();
    assert_eq!(found, ["tests of device import queue, which is not below it"]);
    let rows = "| 3 | `testbed` | queue |\n| 2 | `device` | block |\n| 2 | `queue` | block |\n| 1 | `block` |  |\n";
    assert_eq!(table(&imports(&planted, false)).split_once("--- |\n").unwrap().1, rows);
}
