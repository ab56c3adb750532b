//! The files of the repository as the rules of this test read them, and the report of a rule about
//! a breach.

use std::fmt;
use std::path::{Path, PathBuf};

pub struct Finding {
    pub file: String,
    pub line: usize,
    pub what: String,
    pub remedy: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n  remedy: {}", self.file, self.line, self.what, self.remedy)
    }
}

/// A file of the repository: its path from the root, and its text.
pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn finding(&self, line: usize, what: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { file: self.path.clone(), line, what: what.into(), remedy }
    }

    /// Lines with their numbers, without comments and the contents of string literals: what the
    /// compiler sees.
    pub fn code(&self) -> Vec<(usize, String)> {
        let bare = without_comments_and_texts(&self.text);
        bare.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect()
    }

    /// The folder of the crate that the file belongs to; for a file outside `crates/`, the first
    /// folder of its path.
    pub fn folder(&self) -> &str {
        self.path.strip_prefix("crates/").unwrap_or(&self.path).split('/').next().unwrap_or("")
    }

    pub fn is_product(&self) -> bool {
        !self.path.starts_with("fuzz/") && !self.path.split('/').any(|part| part == "tests" || part == "benches")
    }

    pub fn stem(&self) -> &str {
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

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The paths of all files of the repository, sorted.
fn paths() -> Vec<PathBuf> {
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
    let mut paths = Vec::new();
    walk(&root(), &mut paths);
    paths.sort();
    paths
}

fn read(path: &Path, text: String) -> Source {
    let path = path.strip_prefix(root()).expect("below the root");
    Source { path: path.to_string_lossy().into_owned(), text }
}

/// All files of the repository with this suffix, sorted.
pub fn sources(ending: &str) -> Vec<Source> {
    let mut paths = paths();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    let text =
        |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    paths.iter().map(|path| read(path, text(path))).collect()
}

/// All files of the repository that people write and read as text: Rust, C, TOML, shell, Python and Markdown. A
/// script without a suffix is recognised by its first line.
pub fn written_sources() -> Vec<Source> {
    const ENDINGS: [&str; 7] = ["rs", "c", "h", "toml", "sh", "py", "md"];
    let source = |path: &PathBuf| {
        let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned());
        let is_known = ending.as_deref().is_some_and(|ending| ENDINGS.contains(&ending));
        let text = (is_known || ending.is_none()).then(|| String::from_utf8(std::fs::read(path).ok()?).ok())??;
        (is_known || text.starts_with("#!")).then(|| read(path, text))
    };
    paths().iter().filter_map(source).collect()
}

#[track_caller]
pub fn expect_none(findings: &[Finding]) {
    let texts: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} breaches\n{}", findings.len(), texts.join("\n"));
}

/// Asserts that the rule finds exactly these lines in a planted file.
#[track_caller]
pub fn expect_lines(rule: impl Fn(&Source) -> Vec<Finding>, path: &str, text: &str, lines: &[usize]) {
    let source = Source { path: path.into(), text: text.into() };
    let found: Vec<_> = rule(&source).iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "lines found (left) and planted (right) in\n{text}");
}

pub fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

#[test]
fn comments_and_texts_are_not_code() {
    let text = "let a = \"unsafe // \\\" x\"; // unsafe\n/* unsafe\n */ let b = r#\"unsafe \" \"#; let c = '\"'; let d = unsafe_one;\n";
    let source = Source { path: String::new(), text: text.into() };
    assert!(source.code().iter().all(|(_, line)| !has_word(line, "unsafe")), "{:?}", source.code());
    assert!(source.code()[2].1.contains("unsafe_one"), "{:?}", source.code());
}
