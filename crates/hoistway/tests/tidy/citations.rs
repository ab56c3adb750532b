//! The rules on citations: one of a specification names its file and a section that exists.

use crate::source::{Finding, Source, expect_lines, expect_none, has_word, sources, written_sources};
use std::collections::{BTreeMap, BTreeSet};

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

/// Consecutive lines of one comment, or of one paragraph of Markdown, as one text.
#[derive(Default)]
struct Passage {
    text: String,
    /// Where each line begins in the text, and its number.
    lines: Vec<(usize, usize)>,
}

impl Passage {
    fn push(&mut self, number: usize, line: &str) {
        self.lines.push((self.text.len(), number));
        self.text.push_str(line.trim());
        self.text.push(' ');
    }

    fn line(&self, at: usize) -> usize {
        self.lines.iter().rfind(|(begin, _)| *begin <= at).map_or(1, |(_, number)| *number)
    }
}

/// A comment's text without its leader; `None` for a line of code.
fn comment<'a>(line: &'a str, path: &str) -> Option<&'a str> {
    let line = line.trim_start();
    let is_c = [".rs", ".c", ".h"].iter().any(|ending| path.ends_with(ending));
    let leaders: &[&str] = if is_c { &["///", "//!", "//", "/*", "*"] } else { &["#"] };
    leaders.iter().find_map(|leader| line.strip_prefix(leader))
}

fn passages(source: &Source) -> Vec<Passage> {
    let is_markdown = source.path.ends_with(".md");
    let mut passages = vec![Passage::default()];
    let mut in_block = false;
    for (index, line) in source.text.lines().enumerate() {
        in_block ^= is_markdown && line.starts_with("```");
        let continued = if is_markdown {
            let is_alone = in_block || line.trim().is_empty() || line.starts_with(['#', '|']);
            (!is_alone).then_some(line)
        } else {
            comment(line, &source.path)
        };
        if continued.is_none() {
            passages.push(Passage::default());
        }
        if let Some(passage) = passages.last_mut() {
            passage.push(index + 1, continued.unwrap_or(line));
        }
        if continued.is_none() {
            passages.push(Passage::default());
        }
    }
    passages
}

/// The places where a text says `section` or `sections` and a number.
fn section_mentions(text: &str) -> impl Iterator<Item = usize> {
    // ASCII only, so that the places are those of `text`.
    let lower = text.to_ascii_lowercase();
    let places: Vec<usize> = lower.match_indices("section").map(|(at, _)| at).collect();
    places.into_iter().filter(move |at| {
        let behind = &lower[at + "section".len()..];
        let behind = behind.strip_prefix('s').unwrap_or(behind);
        let is_word = !lower[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        is_word && behind.strip_prefix(' ').is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// The path that ends with the `.md` at this place.
fn path_before(text: &str, at: usize) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./*".contains(c);
    let begin = text[..at]
        .rfind(|c: char| !is_part(c))
        .map_or(0, |place| place + text[place..].chars().next().map_or(1, char::len_utf8));
    &text[begin..at + ".md".len()]
}

/// A specification's file name in a path; `None` for a pattern and for other files.
fn specification(path: &str) -> Option<&str> {
    let (_, name) = path.rsplit_once(SPECIFICATIONS)?;
    let stem = name.strip_suffix(".md")?;
    (!stem.is_empty() && stem.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')).then_some(name)
}

/// Whether a text names a source outside the repository, which has sections as well: a standard, a paper, a year.
fn names_outside_source(text: &str) -> bool {
    let is_year = |word: &str| word.len() == 4 && ["19", "20"].contains(&&word[..2]) && word.parse::<u16>().is_ok();
    let words = || text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words().any(|word| matches!(word, "FIPS" | "RFC" | "NVMe" | "paper") || (word.is_ascii() && is_year(word)))
}

/// Files in which a citation may be older than the rule: specifications cite themselves, and records are not rewritten.
fn keeps_old_citations(path: &str) -> bool {
    path.starts_with("docs/specifications/") || path.starts_with("docs/measured/") || path == file!()
}

fn wrong_citations(source: &Source, sections: &Sections) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line, what, remedy| findings.push(source.finding(line, what, remedy));
    for passage in passages(source) {
        let text = &passage.text;
        for (at, _) in text.match_indices(".md") {
            let Some(name) = specification(path_before(text, at)) else { continue };
            if !sections.contains_key(name) {
                let what = format!("there is no specification {name}");
                find(passage.line(at), what, "cite a file that lies in docs/specifications");
            }
        }
        for at in section_mentions(text) {
            let before = &text[..at];
            let file = before.rfind(".md");
            if names_outside_source(&before[file.unwrap_or(0)..]) {
                continue;
            }
            let Some(file) = file else {
                if !keeps_old_citations(&source.path) {
                    let what =
                        format!("a section without its file: {:?}", text[at..].chars().take(30).collect::<String>());
                    find(passage.line(at), what, "cite it as `docs/specifications/cfq.md, section 7.4`");
                }
                continue;
            };
            let is_directly_behind = before[file + ".md".len()..].chars().all(|c| "`), ".contains(c));
            if keeps_old_citations(&source.path) && !is_directly_behind {
                continue;
            }
            let Some(name) = specification(path_before(text, file)) else { continue };
            let Some(known) = sections.get(name) else { continue };
            for number in
                cited_sections(&text[at..].to_ascii_lowercase()).iter().filter(|number| !known.contains(*number))
            {
                let what = format!("{name} has no section {number}");
                find(passage.line(at), what, "cite a number that a heading of the specification bears");
            }
        }
    }
    findings
}

/// Names of specifications without their path, and specifications that are meant without a name.
fn unnamed_specifications(source: &Source, sections: &Sections) -> Vec<Finding> {
    let mut findings = Vec::new();
    if keeps_old_citations(&source.path) {
        return findings;
    }
    let remedy = "cite it as `docs/specifications/cfq.md, section 7.4`";
    let stems = sections.keys().filter_map(|name| name.strip_suffix(".md")).filter(|stem| stem.contains('-'));
    let names_one = source.text.contains(SPECIFICATIONS);
    let stems: Vec<&str> = stems.collect();
    for (index, line) in source.text.lines().enumerate() {
        for stem in &stems {
            let is_part = |c: char| c.is_alphanumeric() || "-_/".contains(c);
            let is_bare = line.match_indices(stem).any(|(at, _)| {
                let behind = &line[at + stem.len()..];
                let is_link = line.contains(&format!("{stem}.md"));
                !line[..at].ends_with(is_part) && !behind.starts_with(is_part) && !is_link
            });
            if is_bare {
                findings.push(source.finding(index + 1, format!("{stem:?} without the path of its file"), remedy));
            }
        }
        let means_one = ["of the specification", "in the specification"].iter().any(|means| has_word(line, means));
        if !names_one && means_one {
            findings.push(source.finding(index + 1, "a specification that the file does not name", remedy));
        }
    }
    findings
}

/// The sections of all specifications.
fn all_sections() -> Sections {
    let numbered = |page: &Source| {
        let name = page.path.strip_prefix("docs/specifications/")?;
        Some((name.to_owned(), section_numbers(&page.text)))
    };
    sources(".md").iter().filter_map(numbered).collect()
}

#[test]
fn citations_of_specifications_resolve() {
    let sections = all_sections();
    let rule = |source: &Source| wrong_citations(source, &sections);
    expect_none(&written_sources().iter().flat_map(rule).collect::<Vec<_>>());

    let known = section_numbers("# CFQ\n## 4. State\n### 4.2 Queue\n```\n# 9 is code\n```\n## 7  Events\n");
    let sections = Sections::from([("cfq.md".to_owned(), known)]);
    let rule = |source: &Source| wrong_citations(source, &sections);
    let cite = |cited: &str| format!("//! Source: docs/{SPECIFICATIONS}{cited}\n\n");
    let right = [
        "cfq.md, section 4.2.",
        "cfq.md, sections 4.2, 4 and 7. 8 cases",
        "*.md, section 1",
        "cfq.md; and Valente 2012,\n//! section 9",
    ];
    expect_lines(rule, "a/src/a.rs", &right.map(cite).concat(), &[]);
    let wrong =
        ["as.md", "cfq.md, section 4.3", "cfq.md, sections 4 to 6.", "cfq.md`, section 9", "cfq.md, sections 1 and 2"];
    expect_lines(rule, "a/src/a.c", &wrong.map(cite).concat(), &[1, 3, 5, 7, 9, 9]);
    let wrapped = format!("# Source: docs/{SPECIFICATIONS}cfq.md,\n# section 9 and later\n# Section 8.\n");
    expect_lines(rule, "a/run", &wrapped, &[2, 3]);
}

#[test]
fn a_citation_names_its_file() {
    let sections = all_sections();
    let rule = |source: &Source| unnamed_specifications(source, &sections);
    expect_none(&written_sources().iter().flat_map(rule).collect::<Vec<_>>());
    let planted = "// kernel-host, case 4\n// docs/measured/2026-11-24-kernel-host\n\
                   // a case of the specification\n// the kernel-hosts\n";
    expect_lines(rule, "a/src/a.rs", planted, &[1, 3]);
    let named = format!("// docs/{SPECIFICATIONS}cfq.md, case 5\n// a case of the specification\n");
    expect_lines(rule, "a/src/a.rs", &named, &[]);

    let rule = |source: &Source| wrong_citations(source, &sections);
    let old =
        "//! Source: specification section 4.\n\n// sections 2 and 3\nlet a = \"section 4\";\n// RFC 1, section 2\n";
    expect_lines(rule, "a/src/a.rs", old, &[1, 3, 4]);
    expect_lines(rule, "docs/a.md", "# a\nSee\nsection 4.\n\n`crates/a.md`, section 1\n", &[3]);
    expect_lines(rule, "docs/measured/a.md", "See section 4.\n", &[]);
}
