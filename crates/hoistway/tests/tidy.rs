//! Project rules that the compiler does not check: lengths, names, imports between crates, files
//! that must accompany others.
//!
//! Each rule reads the sources and fails with file, line and remedy; each is tested here with a
//! planted breach. If a rule conflicts with something that is right, change it in the same commit
//! and say why.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest file, in lines; tests, benches and fuzz targets may be longer.
const LONGEST_LINES: usize = 900;

/// Names that say nothing about the contents.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "utility", "helper", "helpers", "common", "misc", "manager", "managers"];

/// Which crate may import which. Tests and benches may also use the testbed. A new crate needs its
/// row before its first line.
const IMPORTS: &[(&str, &[&str])] = &[
    ("block", &[]),
    ("linux", &[]),
    ("prefetch", &[]),
    ("elevator", &["block", "prefetch"]),
    ("queue", &["block", "elevator"]),
    ("device", &["block"]),
    ("workload", &["block"]),
    ("experiment", &["block", "elevator", "workload"]),
    ("simulator", &["block", "elevator", "queue", "device", "workload", "experiment"]),
    ("engine", &["block", "elevator", "queue", "device", "workload", "experiment", "linux"]),
    ("rig", &["block", "device", "linux"]),
    ("native", &["block", "workload", "experiment", "linux"]),
    ("export", &["block", "experiment", "engine", "linux"]),
    ("tune", &["experiment"]),
    ("report", &["block", "experiment"]),
    ("kernel", &["block", "elevator"]),
    ("testbed", &["block", "elevator", "queue"]),
    (
        "hoistway",
        &[
            "block",
            "elevator",
            "queue",
            "device",
            "workload",
            "experiment",
            "simulator",
            "linux",
            "engine",
            "native",
            "rig",
            "export",
            "tune",
            "report",
        ],
    ),
    (
        "fuzz",
        &["block", "elevator", "queue", "device", "workload", "experiment", "engine", "export", "report", "testbed"],
    ),
];

/// Files that may contain `unsafe`, and tests that count allocations or call the kernel.
const UNSAFE_FILES: &[&str] = &[
    "crates/prefetch/src/lib.rs",
    "crates/linux/src/aio.rs",
    "crates/linux/src/ring.rs",
    "crates/linux/src/buffer.rs",
    "crates/linux/src/ioctl.rs",
    "crates/export/src/vhost_user_blk/guest_memory.rs",
    "crates/device/tests/array_allocations.rs",
    "crates/experiment/tests/recorder.rs",
    "crates/hoistway/tests/kernel_differential/kernel.rs",
    "crates/hoistway/tests/kernel_differential/loop_device.rs",
    "crates/hoistway/tests/kernel_differential/submission.rs",
    "crates/hoistway/tests/kernel_differential/trace.rs",
];

/// Crates whose root cannot forbid `unsafe`, because a file of theirs is in [`UNSAFE_FILES`].
const UNSAFE_CRATES: &[&str] = &["prefetch", "linux", "export", "kernel"];

/// Names that `structures/` must not use, so that data structures stay independent of policies.
const NOT_FOR_STRUCTURES: &[&str] =
    &["crate::request", "crate::group", "crate::interface", "RequestId", "GroupId", "ContextId", "Nanos"];

// ---- findings and sources ----

struct Finding {
    file: String,
    line: usize,
    what: String,
    remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n  remedy: {}", self.file, self.line, self.what, self.remedy)
    }
}

/// A file of the repository: its path from the root, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn finding(&self, line: usize, what: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { file: self.path.clone(), line, what: what.into(), remedy }
    }

    /// Lines with their numbers, without comments and the contents of string literals: what the
    /// compiler sees.
    fn code(&self) -> Vec<(usize, String)> {
        let bare = without_comments_and_texts(&self.text);
        bare.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect()
    }

    /// The crate's folder, or the first folder outside `crates/`.
    fn folder(&self) -> &str {
        self.path.strip_prefix("crates/").unwrap_or(&self.path).split('/').next().unwrap_or("")
    }

    fn is_product(&self) -> bool {
        !self.path.starts_with("fuzz/") && !self.path.split('/').any(|part| part == "tests" || part == "benches")
    }

    fn stem(&self) -> &str {
        Path::new(&self.path).file_stem().and_then(|stem| stem.to_str()).unwrap_or("")
    }
}

/// Blanks comments and the contents of string literals and keeps all line ends. Handles raw strings
/// and characters, not nested comments.
fn without_comments_and_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if first == '"' {
            1 + end_of_text(&rest[1..])
        } else if rest.starts_with("r\"") || rest.starts_with("r#") {
            let hashes: String = rest[1..].chars().take_while(|c| *c == '#').collect();
            let open = 1 + hashes.len();
            let is_text = rest[open..].starts_with('"') && !out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let close = format!("\"{hashes}");
            if is_text { rest[open + 1..].find(&close).map_or(rest.len(), |at| open + 1 + at + close.len()) } else { 0 }
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest[1..].find('\'').map_or(1, |at| at + 2)
        } else {
            0
        };
        if end == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[end..];
        }
    }
    out
}

/// Bytes up to and including the closing quote.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All files of the repository with this suffix, sorted.
fn sources(ending: &str) -> Vec<Source> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a readable folder").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                let is_ours = !path.join("CACHEDIR.TAG").exists()
                    && name != "target"
                    && !name.as_encoded_bytes().starts_with(b".");
                if is_ours {
                    walk(&path, found);
                }
            } else {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    let read = |path: &PathBuf| Source {
        path: path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned(),
        text: std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    };
    paths.iter().map(read).collect()
}

#[track_caller]
fn expect_none(findings: &[Finding]) {
    let texts: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} breaches\n{}", findings.len(), texts.join("\n"));
}

/// Asserts that the rule finds exactly these lines in a planted file.
#[track_caller]
fn expect_lines(rule: impl Fn(&Source) -> Vec<Finding>, path: &str, text: &str, lines: &[usize]) {
    let source = Source { path: path.into(), text: text.into() };
    let found: Vec<_> = rule(&source).iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "lines found (left) and planted (right) in\n{text}");
}

// ---- lengths and names ----

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
fn names_say_what_is_inside() {
    expect_none(&sources(".rs").iter().flat_map(empty_names).collect::<Vec<_>>());
    expect_lines(empty_names, "crates/queue/src/util.rs", "", &[1]);
    expect_lines(empty_names, "crates/queue/src/tags_v2.rs", "", &[1]);
    expect_lines(empty_names, "crates/elevator/src/read_latency2.rs", "", &[]);
    expect_lines(empty_names, "crates/linux/src/cgroup/v2.rs", "", &[]);
    expect_lines(empty_names, "crates/queue/src/a.rs", "mod misc;\npub struct TagManager;\nlet helper = 1;", &[1, 2]);
}

// ---- comments and units ----

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

// ---- policies ----

/// A row of the registry.
struct Registered {
    name: String,
    variant: String,
    module: String,
    kind: String,
}

/// Parses the rows `"name" = Variant : crate::module::Type, ...` of the registry.
fn registered(text: &str) -> Vec<Registered> {
    let row = |line: &str| {
        let (name, rest) = line.trim().strip_prefix('"')?.split_once('"')?;
        let (variant, rest) = rest.trim_start().strip_prefix('=')?.split_once(':')?;
        let path = rest.split(',').next()?.trim().strip_prefix("crate::")?;
        let (module, kind) = path.split_once("::")?;
        Some(Registered { name: name.into(), variant: variant.trim().into(), module: module.into(), kind: kind.into() })
    };
    text.lines().filter_map(row).collect()
}

fn policies() -> Vec<Registered> {
    let path = root().join("crates/elevator/src/registry.rs");
    let policies = registered(&std::fs::read_to_string(path).expect("the registry"));
    assert!(policies.len() >= 4, "the registry's rows were not understood");
    policies
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

/// Only the registry names a policy's type: elsewhere a policy is a text. The policy's own files
/// are exempt.
fn names_a_policy(source: &Source, policies: &[Registered]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let in_elevator = source.path.starts_with("crates/elevator/src/");
    if source.path == "crates/elevator/src/registry.rs" {
        return findings;
    }
    for policy in policies {
        let own = format!("crates/elevator/src/{}", policy.module);
        // The policy's own test may use it directly.
        let test = format!("crates/elevator/tests/{}.rs", policy.module);
        if source.path == format!("{own}.rs") || source.path.starts_with(&format!("{own}/")) || source.path == test {
            continue;
        }
        let paths = [format!("crate::{}::", policy.module), format!("super::{}::", policy.module)];
        let outside = [format!("elevator::{}::", policy.module), format!("Any::{}", policy.variant)];
        for (number, line) in source.code() {
            let names = |path: &String| line.contains(path.as_str());
            let inside = in_elevator && (paths.iter().any(names) || has_word(&line, &policy.kind));
            if inside || outside.iter().any(names) {
                let what = format!("names the policy {}", policy.name);
                findings.push(source.finding(
                    number,
                    what,
                    "reach policies through the registry, by their name as text",
                ));
            }
        }
    }
    findings
}

#[test]
fn only_the_registry_names_a_policy() {
    let policies = policies();
    let rule = |source: &Source| names_a_policy(source, &policies);
    expect_none(&sources(".rs").iter().flat_map(rule).collect::<Vec<_>>());
    let planted = "use crate::noop::Noop;\nlet a = Any::Wfq(x);\n// crate::noop::Noop\nlet name = \"noop\";\n";
    expect_lines(rule, "crates/elevator/src/none.rs", planted, &[1, 2]);
    expect_lines(rule, "crates/simulator/src/a.rs", "use elevator::wfq::Wfq;\nstruct Noop;\n", &[1]);
}

/// `linux` may not import the policies, so it keeps a list of those of the kernel module in which weights have an effect.
#[test]
fn weights_have_an_effect_in_the_module_where_the_policy_says_so() {
    for entry in elevator::registry::ENTRIES.iter().filter(|entry| entry.traits.is_elevator && entry.name.len() <= 12) {
        let scheduler = format!("hw-{}", entry.name);
        assert_eq!(linux::cgroup::has_weights(&scheduler), entry.traits.has_shares, "{scheduler}");
    }
}

/// The files that must exist for each policy, named after it.
fn siblings(policy: &Registered) -> [Vec<String>; 3] {
    let (module, name) = (&policy.module, &policy.name);
    [
        vec![format!("crates/elevator/src/{module}.rs"), format!("crates/elevator/src/{module}/mod.rs")],
        vec![format!("crates/elevator/tests/{module}.rs"), format!("crates/elevator/tests/{module}/main.rs")],
        vec![format!("docs/elevators/{name}.md")],
    ]
}

fn missing_siblings(policies: &[Registered], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in policies {
        for places in siblings(policy) {
            if !places.iter().any(|place| exists(place)) {
                let what = format!("{} is registered without this file", policy.name);
                let remedy = "write it; the other policies' files of that folder show how";
                findings.push(Finding { file: places.join(" or "), line: 1, what, remedy });
            }
        }
    }
    findings
}

#[test]
fn every_policy_has_its_module_test_and_page() {
    let policies = policies();
    expect_none(&missing_siblings(&policies, |place| root().join(place).exists()));
    assert_eq!(missing_siblings(&policies[..1], |place| !place.ends_with(".md")).len(), 1, "a missing page is found");

    let names: BTreeSet<String> = policies.iter().map(|policy| format!("docs/elevators/{}.md", policy.name)).collect();
    let pages = sources(".md").into_iter().filter(|page| page.path.starts_with("docs/elevators/"));
    let stray: Vec<_> = pages.filter(|page| !names.contains(&page.path)).collect();
    let remedy = "delete the page, or register its policy";
    expect_none(&stray.iter().map(|page| page.finding(1, "page of no policy", remedy)).collect::<Vec<_>>());
}

#[test]
fn the_tables_of_tunables_are_those_of_the_rows() {
    for policy in policies() {
        testbed::check_tunables_table(&policy.name);
    }
}

fn knows_too_much(source: &Source) -> Vec<Finding> {
    let lines = if source.path.starts_with("crates/elevator/src/structures/") { source.code() } else { Vec::new() };
    let broken = lines.iter().filter_map(|(number, line)| {
        let word = NOT_FOR_STRUCTURES.iter().find(|word| line.contains(*word))?;
        let remedy = "structures hold slots and keys; what these mean is the policy's";
        Some(source.finding(*number, format!("a structure knows {word}"), remedy))
    });
    broken.collect()
}

#[test]
fn structures_know_neither_requests_nor_groups_nor_time() {
    expect_none(&sources(".rs").iter().flat_map(knows_too_much).collect::<Vec<_>>());
    expect_lines(knows_too_much, "crates/elevator/src/structures/heap.rs", "use block::RequestId;\n", &[1]);
}

// ---- unsafe ----

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

// ---- files and crates ----

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
    // The gate compiles its files itself, for the kernel; the sample policy is compiled where
    // `examples/own_policy/follow` copies it to.
    let is_exempt = |path: &str| path.starts_with("kernel/gate/") || path.starts_with("examples/own_policy/");
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
fn metadata() -> Value {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// A crate's folder, from its package name.
fn folder_of(package: &str) -> Option<&str> {
    if package == "hoistway" { Some(package) } else { package.strip_prefix("hoistway-") }
}

fn wrong_imports(metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in list(metadata, "packages") {
        let Some(folder) = folder_of(text(package, "name")) else { continue };
        let file = format!("crates/{folder}/Cargo.toml");
        let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == folder) else {
            let remedy = "give it a row in IMPORTS of this test, and a place on the map in ARCHITECTURE.md";
            findings.push(Finding { file, line: 1, what: format!("{folder} is not on the map"), remedy });
            continue;
        };
        for dependency in list(package, "dependencies") {
            let Some(import) = folder_of(text(dependency, "name")) else { continue };
            let for_tests = text(dependency, "kind") == "dev";
            let may = allowed.contains(&import) || (for_tests && import == "testbed");
            if !may {
                let what = format!("{folder} imports {import}, it may import {}", allowed.join(", "));
                let remedy = "imports point downwards only (ARCHITECTURE.md); move the code to where it may be";
                findings.push(Finding { file: file.clone(), line: 1, what, remedy });
            }
        }
    }
    findings
}

#[test]
fn imports_point_downwards() {
    expect_none(&wrong_imports(&metadata()));
    let planted = serde_json::json!({"packages": [
        {"name": "hoistway-device", "dependencies": [{"name": "hoistway-queue", "kind": null}]},
        {"name": "hoistway-queue", "dependencies": [{"name": "hoistway-testbed", "kind": "dev"}]},
        {"name": "hoistway-cellar", "dependencies": []},
    ]});
    let found: Vec<_> = wrong_imports(&planted).into_iter().map(|finding| finding.what).collect();
    assert_eq!(found, ["device imports queue, it may import block", "cellar is not on the map"]);
}

// ---- licences ----

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

// ---- documents ----

/// A section of a page that reports a measurement with a figure must say how to repeat it.
fn unrepeatable_figures(page: &Source) -> Vec<Finding> {
    const COMMANDS: [&str; 7] = ["cargo ", "./", "hoistway ", "fio ", "perf ", "valgrind ", "docs/measured/"];
    let mut findings = Vec::new();
    let mut section: Option<(usize, String)> = None;
    let mut in_block = false;
    let lines = page.text.lines().enumerate().map(|(index, line)| (index + 1, line)).chain([(0, "# end")]);
    for (number, line) in lines {
        in_block ^= line.starts_with("```");
        if line.starts_with('#') && !in_block {
            if let Some((first, text)) = section.take() {
                let is_claim = text.lines().any(|line| {
                    line.to_lowercase().contains("measured") && line.contains(|c: char| c.is_ascii_digit())
                });
                if is_claim && !COMMANDS.iter().any(|command| text.contains(command)) {
                    let remedy = "give date, machine and command, or the file below docs/measured/";
                    findings.push(page.finding(first, "a measured figure without its command", remedy));
                }
            }
            section = Some((number, String::new()));
        } else if let Some((_, text)) = &mut section {
            text.push_str(line);
            text.push('\n');
        }
    }
    findings
}

#[test]
fn measured_figures_come_with_their_command() {
    // A specification quotes the figures of its sources and of prototypes; those of the product are on other pages.
    let pages: Vec<_> =
        sources(".md").into_iter().filter(|page| !page.path.starts_with("docs/specifications/")).collect();
    expect_none(&pages.iter().flat_map(unrepeatable_figures).collect::<Vec<_>>());
    let planted = "# a\nmeasured: 14 ns\n# b\nmeasured: 14 ns by `cargo bench`\n# c\nmeasured elsewhere\n";
    expect_lines(unrepeatable_figures, "docs/a.md", planted, &[1]);
}

// ---- citations ----

/// What comes before the name of a specification in a citation, whether it is a path from the root or a relative link.
const SPECIFICATIONS: &str = "specifications/";

/// The section numbers of each specification, by the name of its file.
type Sections = BTreeMap<String, BTreeSet<String>>;

/// The numbers that the headings of a Markdown text begin with: `## 4. State` gives 4, `### 4.2 Queue` gives 4.2.
fn section_numbers(text: &str) -> BTreeSet<String> {
    let mut in_block = false;
    let number = |line: &str| {
        in_block ^= line.starts_with("```");
        let heading = line.strip_prefix('#').filter(|_| !in_block)?.trim_start_matches('#');
        let first = heading.split_whitespace().next()?.trim_end_matches('.');
        first.starts_with(|c: char| c.is_ascii_digit()).then(|| first.to_owned())
    };
    text.lines().filter_map(number).collect()
}

/// The section numbers directly behind a file's name: `, section 4.2`, `, sections 4 to 7`, `, sections 1.6, 1.9 and 2.3`.
fn cited_sections(behind: &str) -> Vec<String> {
    let behind = behind.trim_start_matches(['`', ')', ',', ' ']);
    let Some(rest) = behind.strip_prefix("section") else { return Vec::new() };
    let (rest, most) = rest.strip_prefix('s').map_or((rest, 1), |rest| (rest, usize::MAX));
    let list = rest.split([';', ':', '(', ')']).next().unwrap_or("").split(". ").next().unwrap_or("");
    let words = list.split([' ', ',', '-']).filter(|word| !matches!(*word, "" | "to" | "and"));
    let number = |word: &str| {
        let end = word.find(|c: char| !c.is_alphanumeric() && c != '.').unwrap_or(word.len());
        word[..end].trim_end_matches('.').to_owned()
    };
    words.map(number).take_while(|word| word.starts_with(|c: char| c.is_ascii_digit())).take(most).collect()
}

/// The citations of a line: the name of each cited file, with the sections cited behind it.
fn citations(line: &str) -> Vec<(String, Vec<String>)> {
    let citation = |cited: &str| {
        let (name, behind) = cited.split_once(".md")?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        is_name.then(|| (format!("{name}.md"), cited_sections(behind)))
    };
    line.split(SPECIFICATIONS).skip(1).filter_map(citation).collect()
}

fn lost_citations(source: &Source, sections: &Sections) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        for (name, cited) in citations(line) {
            let Some(known) = sections.get(&name) else {
                let remedy = "cite a file that lies in docs/specifications";
                findings.push(source.finding(index + 1, format!("there is no specification {name}"), remedy));
                continue;
            };
            for number in cited.iter().filter(|number| !known.contains(*number)) {
                let remedy = "cite a number that a heading of the specification bears";
                findings.push(source.finding(index + 1, format!("{name} has no section {number}"), remedy));
            }
        }
    }
    findings
}

#[test]
fn citations_of_specifications_resolve() {
    let pages = sources(".md");
    let numbered = |page: &Source| {
        let name = page.path.strip_prefix("docs/specifications/")?;
        Some((name.to_owned(), section_numbers(&page.text)))
    };
    let sections: Sections = pages.iter().filter_map(numbered).collect();
    let rule = |source: &Source| lost_citations(source, &sections);
    expect_none(&pages.iter().flat_map(rule).collect::<Vec<_>>());
    for ending in [".rs", ".c", ".h", ".py", ".toml"] {
        expect_none(&sources(ending).iter().flat_map(rule).collect::<Vec<_>>());
    }

    let known = section_numbers("# CFQ\n## 4. State\n### 4.2 Queue\n```\n# 9 is code\n```\n## 7  Events\n");
    let sections = Sections::from([("cfq.md".to_owned(), known)]);
    let rule = |source: &Source| lost_citations(source, &sections);
    let cite = |cited: &str| format!("//! Source: docs/{SPECIFICATIONS}{cited}\n");
    let right =
        ["cfq.md", "cfq.md, section 4.2.", "cfq.md, sections 4.2, 4 and 7. 8 cases", "*.md, section 1"].map(cite);
    expect_lines(rule, "a/src/a.rs", &right.concat(), &[]);
    let wrong =
        ["as.md", "cfq.md, section 4.3", "cfq.md, sections 4 to 6.", "cfq.md`, section 9", "cfq.md, sections 1 and 2"];
    expect_lines(rule, "a/src/a.c", &wrong.map(cite).concat(), &[1, 2, 3, 4, 5, 5]);
}

#[test]
fn comments_and_texts_are_not_code() {
    let text = "let a = \"unsafe // \\\" x\"; // unsafe\n/* unsafe\n */ let b = r#\"unsafe \" \"#; let c = '\"'; let d = unsafe_one;\n";
    let source = Source { path: String::new(), text: text.into() };
    assert!(source.code().iter().all(|(_, line)| !has_word(line, "unsafe")), "{:?}", source.code());
    assert!(source.code()[2].1.contains("unsafe_one"), "{:?}", source.code());
}
