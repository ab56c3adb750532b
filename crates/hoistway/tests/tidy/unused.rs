//! The rule on public functions: one that no other code names is not kept.
//!
//! The compiler finds unused functions inside a crate, but not public ones that no crate calls.

use crate::source::{Finding, Source, expect_none, written_sources};
use std::collections::BTreeMap;

/// The names in the code of a text, and in the code blocks of its documentation, which are run.
fn names(source: &Source) -> Vec<String> {
    let is_rust = source.path.ends_with(".rs");
    let mut text: Vec<String> = if is_rust {
        source.code().into_iter().map(|(_, line)| line).collect()
    } else {
        source.text.lines().map(str::to_owned).collect()
    };
    if is_rust {
        let mut in_block = false;
        for line in source.text.lines().map(str::trim_start) {
            let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
            let is_fence = comment.trim_start().starts_with("```");
            in_block ^= is_fence;
            if in_block && !is_fence {
                text.push(comment.to_owned());
            }
        }
    }
    let is_separator = |c: char| !c.is_alphanumeric() && c != '_';
    text.iter().flat_map(|line| line.split(is_separator)).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The name of a function that a line declares as public.
fn public_function(line: &str) -> Option<&str> {
    let declaration = line.trim_start().strip_prefix("pub")?;
    let (before, behind) = declaration.split_once("fn ")?;
    let is_declaration = before.chars().all(|c| c.is_ascii_lowercase() || " ()".contains(c));
    let end = behind.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(behind.len());
    (is_declaration && end > 0).then_some(&behind[..end])
}

fn unused(sources: &[Source]) -> Vec<Finding> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for name in sources.iter().filter(|source| !source.path.ends_with(".md")).flat_map(names) {
        *times.entry(name).or_default() += 1;
    }
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs")) {
        let code = source.code();
        for (index, (number, line)) in code.iter().enumerate() {
            let Some(name) = public_function(line) else { continue };
            // What other languages and linkers call bears an attribute.
            let mut attributes = code[index.saturating_sub(3)..index].iter();
            let is_exported = attributes.any(|(_, line)| line.contains("no_mangle") || line.contains("export_name"));
            if times.get(name) == Some(&1) && !is_exported {
                let remedy = "delete it, or call it in the example of its documentation";
                findings.push(source.finding(*number, format!("no code calls {name}"), remedy));
            }
        }
    }
    findings
}

#[test]
fn public_functions_are_called() {
    expect_none(&unused(&written_sources()));

    let planted = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let sources = [
        planted(
            "a/src/a.rs",
            "/// Uses [`nothing`].\npub fn nothing() {}\npub(crate) const fn used() {}\n#[unsafe(no_mangle)]\npub fn out() {}\n",
        ),
        planted(
            "b/src/b.rs",
            "/// ```\n/// shown();\n/// ```\npub fn shown() {}\n// nothing() and alone()\n    pub unsafe fn alone(&self) { used() }\n",
        ),
        planted("docs/a.md", "`nothing`\n"),
    ];
    let found: Vec<_> = unused(&sources).into_iter().map(|finding| (finding.file, finding.line)).collect();
    assert_eq!(found, [("a/src/a.rs".to_owned(), 2), ("b/src/b.rs".to_owned(), 6)]);
}
