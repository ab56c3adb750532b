//! The rule on licences and sources of dependencies.

use crate::crates::{folder_of, list, metadata, text};
use crate::source::{Finding, expect_none, root};
use std::collections::BTreeSet;

/// Whether an SPDX expression can be satisfied with these licences. `/` is the old way to write OR.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let satisfied = any_of(&words, &mut at, allowed);
    satisfied && at == words.len()
}

fn any_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut satisfied = all_of(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        satisfied |= all_of(words, at, allowed);
    }
    satisfied
}

fn all_of(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut satisfied = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        satisfied &= one(words, at, allowed);
    }
    satisfied
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let satisfied = any_of(words, at, allowed);
        let is_closed = words.get(*at) == Some(&")");
        *at += 1;
        return satisfied && is_closed;
    }
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
        let with = words.get(*at - 1).map(|exception| format!("{word} WITH {exception}"));
        return with.is_some_and(|licence| allowed.contains(&licence));
    }
    allowed.contains(*word)
}

/// The licences that deny.toml allows: one list for cargo-deny and for machines without it.
fn allowed_licences() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    let document: toml::Table = text.parse().expect("TOML");
    let allowed = document["licenses"]["allow"].as_array().expect("licenses.allow is a list");
    allowed.iter().filter_map(|licence| licence.as_str().map(str::to_owned)).collect()
}

#[test]
fn every_dependency_has_an_allowed_licence_and_comes_from_crates_io() {
    let allowed = allowed_licences();
    let metadata = metadata();
    let mut findings = Vec::new();
    for package in list(&metadata, "packages") {
        let (name, licence, source) = (text(package, "name"), text(package, "license"), text(package, "source"));
        let mut find = |what, remedy| findings.push(Finding { file: "Cargo.lock".into(), line: 1, what, remedy });
        if !is_satisfied(licence, &allowed) {
            find(format!("{name} has the licence {licence:?}"), "use another crate, or allow the licence in deny.toml");
        }
        let is_ours = folder_of(name).is_some() && package["source"].is_null();
        if !is_ours && source != "registry+https://github.com/rust-lang/crates.io-index" {
            find(format!("{name} comes from {source:?}"), "use a released version from crates.io");
        }
    }
    expect_none(&findings);
}

#[test]
fn licence_expressions_are_understood() {
    let allowed: BTreeSet<String> = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned).into();
    for good in ["MIT", "MIT/GPL-3.0", "GPL-2.0 OR MIT", "(MIT OR GPL-2.0) AND Unicode-3.0", "MIT AND Apache-2.0"] {
        assert!(is_satisfied(good, &allowed), "{good}");
    }
    for bad in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-2.0 OR MIT) AND X", "Apache-2.0 WITH LLVM-exception", "(MIT", "MIT)"]
    {
        assert!(!is_satisfied(bad, &allowed), "{bad}");
    }
}
