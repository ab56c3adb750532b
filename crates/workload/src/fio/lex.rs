//! Lines of a job file: sections, settings, includes, pragmas.
//!
//! The lexer does not know the meaning of keys. It inserts includes and replaces environment
//! variables and `$keywords`. It never panics, whatever the input, and every size is limited.
//! Source: docs/specifications/harness.md, section 6.1.

use std::sync::Arc;

use super::Surroundings;
use super::diagnostic::{Findings, Place, Severity};

/// Largest file in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Longest line in bytes.
pub const MAX_LINE_BYTES: usize = 64 << 10;
/// Maximum nesting of includes.
pub const MAX_INCLUDE_DEPTH: usize = 16;
/// Maximum number of files; includes that branch would grow without bound otherwise.
const MAX_FILES: usize = 64;
/// Maximum number of lines in all files together.
const MAX_LINES: usize = 200_000;
/// Maximum length of a value after variables are replaced, in bytes.
const MAX_VALUE_BYTES: usize = 64 << 10;

/// Content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// `[name]`
    Section(String),
    /// `key=value`, or a key alone.
    Setting {
        /// The key, without blanks around it.
        key: String,
        /// The value after replacement; `None` without a `=`.
        value: Option<String>,
    },
    /// `;# hoistway: key=value`
    Pragma {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
}

/// A line with content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its place; the column is that of its first character.
    pub place: Place,
    /// Its content.
    pub content: Content,
}

/// The lines of a file and of all its includes, in order.
pub fn lex(name: &str, bytes: &[u8], surroundings: &Surroundings<'_>, findings: &mut Findings) -> Vec<Line> {
    let mut lexer = Lexer { surroundings, findings, lines: Vec::new(), open: Vec::new(), files: 0 };
    lexer.file(name, bytes, None);
    lexer.lines
}

struct Lexer<'a, 'b> {
    surroundings: &'a Surroundings<'b>,
    findings: &'a mut Findings,
    lines: Vec<Line>,
    /// Names of the files that are being read, outermost first.
    open: Vec<String>,
    files: usize,
}

impl Lexer<'_, '_> {
    /// Reads one file; `included_at` is the place of its include line, if any.
    fn file(&mut self, name: &str, bytes: &[u8], included_at: Option<&Place>) {
        let file: Arc<str> = name.into();
        let start = Place { file: file.clone(), line: 1, column: 1, text: "".into() };
        let blame = included_at.unwrap_or(&start);
        if bytes.len() > MAX_FILE_BYTES {
            let message = format!("the file is {} bytes long; at most {MAX_FILE_BYTES} are read", bytes.len());
            return self.findings.error(blame, message, "split it");
        }
        self.files += 1;
        if self.files > MAX_FILES {
            return self.findings.error(blame, format!("more than {MAX_FILES} files are included"), "");
        }
        self.open.push(name.to_owned());
        let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => {
                self.findings.remark(
                    Severity::Note,
                    &start,
                    "the file begins with a byte order mark, which fio refuses",
                );
                rest
            }
            None => bytes,
        };
        for (number, line) in (1_u32..).zip(bytes.split(|byte| *byte == b'\n')) {
            if self.findings.is_over_limit() {
                break;
            }
            if self.lines.len() >= MAX_LINES {
                self.findings.error(blame, format!("more than {MAX_LINES} lines in all"), "split the file");
                break;
            }
            let text = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE_BYTES)]);
            let place = Place { file: file.clone(), line: number, column: 1, text: text.trim_end_matches('\r').into() };
            if line.len() > MAX_LINE_BYTES {
                self.findings.error(&place, format!("the line is longer than {MAX_LINE_BYTES} bytes"), "");
            } else {
                self.line(place, std::str::from_utf8(line).is_ok(), included_at.is_some());
            }
        }
        self.open.pop();
    }

    fn line(&mut self, mut place: Place, is_utf8: bool, is_included: bool) {
        let whole = place.text.clone();
        let text = whole.trim();
        place.column = u32::try_from(whole.len() - whole.trim_start().len() + 1).unwrap_or(1);
        if let Some(pragma) = text.strip_prefix(";# hoistway:") {
            return self.pragma(place, pragma);
        }
        if text.is_empty() || text.starts_with([';', '#']) {
            return;
        }
        if !is_utf8 {
            return self.findings.error(&place, "the line is not valid UTF-8", "save the file as UTF-8");
        }
        if let Some(rest) = text.strip_prefix('[') {
            return self.section(place, rest, is_included);
        }
        if let Some(path) = text.strip_prefix("include ").or_else(|| text.strip_prefix("include\t")) {
            return self.include(&place, uncommented(path).trim());
        }
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key.trim(), Some(uncommented(value).trim())),
            None => (uncommented(text).trim(), None),
        };
        let value = match value.map(|value| self.replaced(&place, value)).transpose() {
            Ok(value) => value.map(|value| value.trim().to_owned()),
            Err(message) => {
                return self.findings.error(&place, message, "only ${NAME} with a plain value can be replaced");
            }
        };
        self.lines.push(Line { place, content: Content::Setting { key: key.to_owned(), value } });
    }

    fn section(&mut self, place: Place, rest: &str, is_included: bool) {
        if is_included {
            return self.findings.error(&place, "an included file has a section", "move it to the including file");
        }
        match rest.split_once(']') {
            None => self.findings.error(&place, "'[' without ']'", "end the section's name with ']'"),
            Some((_, behind)) if !uncommented(behind).trim().is_empty() => {
                self.findings.error(&place, "text after the section's ']'", "put it on a line of its own");
            }
            Some(("", _)) => {
                self.findings.error(&place, "the section has no name", "write a job name between '[' and ']'")
            }
            Some((name, _)) => self.lines.push(Line { place, content: Content::Section(name.to_owned()) }),
        }
    }

    fn pragma(&mut self, place: Place, pragma: &str) {
        match pragma.split_once('=') {
            Some((key, value)) => {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                self.lines.push(Line { place, content: Content::Pragma { key, value } });
            }
            None => self.findings.error(&place, "a pragma needs the form ';# hoistway: key=value'", ""),
        }
    }

    fn include(&mut self, place: &Place, path: &str) {
        let including = self.open.last().map_or("", String::as_str);
        let directory = including.rfind('/').map_or("", |slash| &including[..=slash]);
        let full = if path.starts_with('/') { path.to_owned() } else { format!("{directory}{path}") };
        if self.open.len() > MAX_INCLUDE_DEPTH {
            return self.findings.error(place, format!("includes are nested deeper than {MAX_INCLUDE_DEPTH}"), "");
        }
        if self.open.contains(&full) {
            return self.findings.error(place, format!("'{full}' includes itself"), "remove one of the includes");
        }
        match (self.surroundings.read_include)(&full) {
            Ok(bytes) => self.file(&full, &bytes, Some(place)),
            Err(reason) => {
                let help = "the path is relative to the including file";
                self.findings.error(place, format!("cannot read the included file '{full}': {reason}"), help);
            }
        }
    }

    /// The value with `${NAME}` and the `$keywords` replaced.
    fn replaced(&mut self, place: &Place, value: &str) -> Result<String, String> {
        let mut result = String::with_capacity(value.len());
        let mut rest = value;
        while let Some((before, name)) = rest.split_once("${") {
            let (name, behind) = name.split_once('}').ok_or("'${' without '}'")?;
            result.push_str(before);
            let value = (self.surroundings.variable)(name);
            if value.is_none() {
                self.findings.remark(
                    Severity::Warning,
                    place,
                    format!("the variable {name} is not set: '${{{name}}}' is replaced by nothing"),
                );
            }
            let value = value.unwrap_or_default();
            if value.contains([';', '#', '\n', '\r', '$']) {
                return Err(format!("the variable {name} holds one of ; # $ or a line end"));
            }
            result.push_str(&value);
            if result.len() > MAX_VALUE_BYTES {
                return Err(format!("the value is longer than {MAX_VALUE_BYTES} bytes"));
            }
            rest = behind;
        }
        result.push_str(rest);
        Ok(self.computed(result))
    }

    fn computed(&self, value: String) -> String {
        let keywords = [
            ("$pagesize", self.surroundings.page_bytes),
            ("$mb_memory", self.surroundings.memory_mib),
            ("$ncpus", self.surroundings.cpus),
        ];
        if !keywords.iter().any(|(keyword, _)| value.contains(keyword)) {
            return value;
        }
        let text = keywords.iter().fold(value, |text, (word, number)| text.replace(word, &number.to_string()));
        sum_of_products(&text).map_or(text, |number| number.to_string())
    }
}

/// The text before a `;` or `#`. fio cuts a value there whether or not a blank precedes it
/// (verified with fio 3.33).
pub(super) fn uncommented(text: &str) -> &str {
    text.split([';', '#']).next().unwrap_or("")
}

/// Evaluates `a*b+c*d` in integers; `None` for any other text and on overflow.
fn sum_of_products(text: &str) -> Option<u64> {
    let product = |term: &str| {
        term.split('*').map(|factor| factor.trim().parse::<u64>().ok()).try_fold(1_u64, |a, b| a.checked_mul(b?))
    };
    text.split('+').map(product).try_fold(0_u64, |a, b| a.checked_add(b?))
}
