//! The rule on errors of the library: a caller's `?` takes them into a `Box<dyn Error>`.

use crate::source::{Source, expect_none, sources};
use std::collections::BTreeSet;

/// The crates that a program imports.
const LIBRARY: &[&str] = &[
    "block",
    "conformance",
    "device",
    "elevator",
    "engine",
    "experiment",
    "hoistway",
    "queue",
    "report",
    "shares",
    "simulator",
    "workload",
];

/// The type of the error in a signature's result, without path and parameters.
fn error_of(line: &str) -> Option<&str> {
    let is_public =
        ["pub fn ", "pub const fn ", "pub async fn "].iter().any(|start| line.trim_start().starts_with(start));
    let (_, result) = line.split_once("-> Result<").filter(|_| is_public)?;
    let mut depth = 0;
    let mut comma = None;
    for (at, letter) in result.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' if depth == 0 => {
                let name = result[comma?..at].trim();
                let name = name.rsplit("::").next().unwrap_or(name);
                return Some(name.split('<').next().unwrap_or(name));
            }
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => comma = Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Whether a type of this name implements `Error` somewhere.
fn implements_error(name: &str, files: &[Source]) -> bool {
    files.iter().any(|source| {
        source.text.contains(&format!("Error for {name} "))
            || source.text.contains(&format!("Error for {name}<"))
            || ["enum", "struct"].iter().any(|kind| {
                let declared =
                    [" ", ";", "<", "("].iter().find_map(|end| source.text.find(&format!("pub {kind} {name}{end}")));
                // The attributes in front of it.
                declared.is_some_and(|at| {
                    let before = &source.text[..at];
                    before.rsplit("\n\n").next().is_some_and(|attributes| attributes.contains("Error)]"))
                })
            })
    })
}

#[test]
fn errors_of_the_library_implement_error() {
    let files = sources(".rs");
    // Types of the standard library, and a device's answer. Lists are shown line by line, and a tuple is taken apart.
    let exempt = BTreeSet::from(["Box", "Infallible", "Status", "String", "Vec", "bool"]);
    let mut findings = Vec::new();
    for source in files.iter().filter(|source| source.is_product() && LIBRARY.contains(&source.folder())) {
        for (number, line) in source.code() {
            let Some(name) = error_of(&line).filter(|name| !exempt.contains(name) && !name.starts_with('(')) else {
                continue;
            };
            if !implements_error(name, &files) {
                let remedy = "implement Display and Error for it";
                findings.push(source.finding(
                    number,
                    format!("{name} is an error and does not implement Error"),
                    remedy,
                ));
            }
        }
    }
    expect_none(&findings);
    assert_eq!(error_of("    pub fn new(of: &S) -> Result<Self, NoMemory> {"), Some("NoMemory"));
    assert_eq!(error_of("pub fn f() -> Result<Vec<(u8, u8)>, crate::a::Rejected<T>> {"), Some("Rejected"));
    assert_eq!(error_of("fn f() -> Result<(), NoMemory> {"), None);
    let planted = [Source { path: "crates/queue/src/a.rs".into(), text: "pub struct Wrong ;\n".into() }];
    assert!(!implements_error("Wrong", &planted));
}
