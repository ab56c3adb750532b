//! Rules on crates: where `unsafe` stands, which files belong to a crate, and what the library must not build.

use crate::source::{Finding, Source, expect_lines, expect_none, has_word, root, sources};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Files that may contain `unsafe`: code of the product, and tests that count allocations or call
/// the kernel.
const UNSAFE_FILES: &[&str] = &[
    "crates/prefetch/src/lib.rs",
    "crates/linux/src/aio.rs",
    "crates/linux/src/ring.rs",
    "crates/linux/src/buffer.rs",
    "crates/linux/src/window.rs",
    "crates/linux/src/fault.rs",
    "crates/linux/src/ioctl.rs",
    "crates/linux/src/ublk/control.rs",
    "crates/linux/src/ublk/queue.rs",
    "crates/export/src/vhost_user_blk/guest_memory.rs",
    "crates/conformance/src/counting.rs",
    "web/src/lib.rs",
    "examples/ublk_target/src/main.rs",
    "crates/device/tests/array_allocations.rs",
    "crates/experiment/tests/recorder.rs",
    "crates/hoistway/tests/kernel_differential/kernel.rs",
    "crates/hoistway/tests/kernel_differential/loop_device.rs",
    "crates/hoistway/tests/kernel_differential/submission.rs",
    "crates/hoistway/tests/kernel_differential/trace.rs",
];

/// Crates whose root cannot forbid `unsafe`, because a file of theirs is in [`UNSAFE_FILES`].
const UNSAFE_CRATES: &[&str] = &["prefetch", "linux", "export", "conformance", "kernel", "web", "examples"];

fn unsafe_outside(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_kernel = source.path.starts_with("kernel/");
    // A counting allocator requires unsafe by its trait.
    let counts = source.path.ends_with("/tests/allocation.rs") || source.path.ends_with("/tests/allocations.rs");
    let may = is_kernel || counts || UNSAFE_FILES.contains(&source.path.as_str());
    for (number, line) in source.code() {
        if !may && (has_word(&line, "unsafe") || line.contains("allow(unsafe_code)")) {
            let remedy = "ask `linux` for it; the files that may are in UNSAFE_FILES of this test";
            findings.push(source.finding(number, "unsafe outside the files that may", remedy));
        }
    }
    let is_root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
    let must_forbid = is_root && !UNSAFE_CRATES.contains(&source.folder());
    if must_forbid && !source.text.contains("#![forbid(unsafe_code)]") {
        findings.push(source.finding(1, "the crate does not forbid unsafe", "add #![forbid(unsafe_code)]"));
    }
    findings
}

#[test]
fn unsafe_stands_in_named_files_only() {
    expect_none(&sources(".rs").iter().flat_map(unsafe_outside).collect::<Vec<_>>());
    expect_lines(unsafe_outside, "crates/queue/src/a.rs", "//! unsafe\nunsafe { x() }\n", &[2]);
    expect_lines(unsafe_outside, "crates/queue/src/lib.rs", "//! x\n", &[1]);
}

/// The paths that the files of a file's declared modules may have.
fn declared(source: &Source) -> Vec<String> {
    let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_root = matches!(source.stem(), "mod" | "lib" | "main") || is_target(&source.path);
    let below = if is_root { folder.to_owned() } else { format!("{folder}/{}", source.stem()) };
    let mut files = Vec::new();
    let mut path = None;
    for line in source.text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.split('"').next();
            continue;
        }
        let module = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        if let Some(name) = module.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            match path.take() {
                Some(path) => files.push(format!("{folder}/{path}")),
                None => files.extend([format!("{below}/{name}.rs"), format!("{below}/{name}/mod.rs")]),
            }
        }
    }
    files
}

/// Files that Cargo builds without a declaration.
fn is_target(path: &str) -> bool {
    // The kernel's crate is beside its C code.
    let below = path.strip_prefix("kernel/").or(path.strip_prefix("crates/")).unwrap_or(path);
    let parts: Vec<&str> = below.split('/').collect();
    matches!(
        parts.as_slice(),
        [_, "src", "lib.rs" | "main.rs"]
            | [_, "build.rs"]
            | [_, "tests" | "benches" | "examples", _]
            | [_, "src", "bin", _]
            | [_, "tests" | "benches" | "examples", _, "main.rs"]
    )
}

fn unreachable_files(files: &[Source]) -> Vec<Finding> {
    let by_path: BTreeMap<&str, &Source> = files.iter().map(|source| (source.path.as_str(), source)).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut next: Vec<String> = by_path.keys().filter(|path| is_target(path)).map(|path| (*path).to_owned()).collect();
    while let Some(path) = next.pop() {
        let Some(source) = by_path.get(path.as_str()) else { continue };
        if reached.insert(path) {
            next.extend(declared(source));
        }
    }
    // `kernel/gate/run` compiles the files of its folder itself, for the kernel. The examples are crates outside the
    // workspace, which `examples/own_policy/follow` and `kernel/boot/run ublk_target` build.
    let is_exempt = |path: &str| path.starts_with("kernel/gate/") || path.starts_with("examples/");
    let lost = files.iter().filter(|source| !reached.contains(&source.path) && !is_exempt(&source.path));
    lost.map(|source| source.finding(1, "no crate reaches this file", "declare it with `mod`, or delete it")).collect()
}

#[test]
fn every_file_belongs_to_a_crate() {
    expect_none(&unreachable_files(&sources(".rs")));
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let planted = [
        file("a/src/lib.rs", "mod b;\npub mod d;\n"),
        file("a/src/b.rs", "mod c;\n"),
        file("a/src/b/c.rs", ""),
        file("a/src/d/mod.rs", ""),
        file("a/src/e.rs", ""),
        file("a/tests/f.rs", "mod g;\n"),
        file("a/tests/g/mod.rs", ""),
    ];
    let lost: Vec<_> = unreachable_files(&planted).into_iter().map(|finding| finding.file).collect();
    assert_eq!(lost, ["a/src/e.rs"]);
}

/// Cargo's metadata of the workspace and its dependencies.
pub fn metadata() -> Value {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A crate's folder, from its package name.
pub fn folder_of(package: &str) -> Option<&str> {
    if package == "hoistway" { Some(package) } else { package.strip_prefix("hoistway-") }
}

/// What the command needs and a program that embeds the library must not build.
const OF_THE_COMMAND: [&str; 5] = ["clap", "ratatui", "ring", "rustls", "vhost"];

/// Findings for what a package builds, directly or through others, of [`OF_THE_COMMAND`].
fn too_heavy(metadata: &Value, package: &str) -> Vec<Finding> {
    let nodes = list(&metadata["resolve"], "nodes");
    let by_id: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(node, "id"), node)).collect();
    let names: BTreeMap<&str, &str> =
        list(metadata, "packages").iter().map(|package| (text(package, "id"), text(package, "name"))).collect();
    let mut next: Vec<&str> = names.iter().filter(|(_, name)| **name == package).map(|(id, _)| *id).collect();
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    while let Some(id) = next.pop() {
        if reached.insert(id) {
            let dependencies = by_id.get(id).map_or(&[][..], |node| list(node, "deps"));
            let built = |dependency: &&Value| list(dependency, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
            next.extend(dependencies.iter().filter(built).map(|dependency| text(dependency, "pkg")));
        }
    }
    let heavy = reached.iter().filter_map(|id| names.get(id)).filter(|name| OF_THE_COMMAND.contains(name));
    let remedy = "what needs it belongs to the command (crates/cli), not to the library";
    heavy
        .map(|name| Finding { file: package.into(), line: 1, what: format!("{package} builds {name}"), remedy })
        .collect()
}

#[test]
fn the_library_builds_nothing_of_the_command() {
    let metadata = metadata();
    for package in ["hoistway", "hoistway-python", "hoistway-web"] {
        expect_none(&too_heavy(&metadata, package));
    }
    let mut found: Vec<_> = too_heavy(&metadata, "hoistway-cli").into_iter().map(|finding| finding.what).collect();
    found.sort();
    assert_eq!(found, OF_THE_COMMAND.map(|name| format!("hoistway-cli builds {name}")));
}
