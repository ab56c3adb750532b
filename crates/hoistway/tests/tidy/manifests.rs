//! Rules on what is published: each manifest takes version, licence and addresses from one place, and documents name
//! that version.

use crate::source::{Finding, Source, expect_lines, expect_none, root, sources};

/// What a published crate takes from `[workspace.package]`.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "repository", "homepage"];

/// Breaches of one manifest of a crate.
fn not_inherited(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("crates/") || !source.path.ends_with("/Cargo.toml") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for key in INHERITED {
        if !source.text.lines().any(|line| line == format!("{key}.workspace = true")) {
            let remedy = "write KEY.workspace = true: Cargo.toml of the workspace has the value";
            findings.push(source.finding(1, format!("`{key}` is not the workspace's"), remedy));
        }
    }
    let value = |key: &str| {
        let line = source.text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|rest| rest.split('"').next()).unwrap_or("")
    };
    if value("documentation") != format!("https://docs.rs/{}", value("name")) {
        let remedy = "write documentation = \"https://docs.rs/NAME\"";
        findings.push(source.finding(1, "`documentation` is not the crate's page of docs.rs", remedy));
    }
    findings
}

#[test]
fn every_crate_takes_what_is_published_from_the_workspace() {
    expect_none(&sources("Cargo.toml").iter().flat_map(not_inherited).collect::<Vec<_>>());
    let complete: String = INHERITED.iter().map(|key| format!("{key}.workspace = true\n")).collect();
    let text = format!("name = \"hoistway-x\"\n{complete}documentation = \"https://docs.rs/hoistway-x\"\n");
    expect_lines(not_inherited, "crates/x/Cargo.toml", &text, &[]);
    expect_lines(not_inherited, "crates/x/Cargo.toml", &text.replace("homepage.workspace", "homepage"), &[1]);
    expect_lines(not_inherited, "crates/x/Cargo.toml", &text.replace("rs/hoistway-x", "rs/x"), &[1]);
}

/// The places outside the manifests that name the version, as `packaging/set_version` writes them.
fn places(version: &str, series: &str) -> Vec<(&'static str, String)> {
    vec![
        ("Cargo.toml", format!("path = \"crates/block\", version = \"{version}\"")),
        ("crates/conformance/Cargo.toml", format!("version = \"{version}\"")),
        ("README.md", format!("**Status:** {version}")),
        ("CHANGELOG.md", format!("## {version}")),
        ("docs/howto/install-packages.md", format!("hoistway_{version}-1_amd64.deb")),
        ("docs/howto/embed.md", format!("version = \"{series}\"")),
        ("docs/start/researcher.md", format!("hoistway = \"{series}\"")),
    ]
}

#[test]
fn version() {
    let version = env!("CARGO_PKG_VERSION");
    let (series, _) = version.rsplit_once('.').expect("three numbers");
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let places = places(version, series);
    let missing = places.iter().filter(|(path, text)| !read(path).contains(text));
    let findings = missing.map(|(path, text)| Finding {
        file: (*path).to_owned(),
        line: 1,
        what: format!("does not name version {version}: `{text}` is not in it"),
        remedy: "run packaging/set_version VERSION, and add a new place there",
    });
    expect_none(&findings.collect::<Vec<_>>());
    // A version of a dependency of ours that was forgotten.
    let manifest = read("Cargo.toml");
    let ours = manifest.lines().filter(|line| line.contains("path = \"crates/") && line.contains("version = "));
    for line in ours {
        assert!(line.contains(&format!("version = \"{version}\"")), "Cargo.toml: {line}: the version is {version}");
    }
}
