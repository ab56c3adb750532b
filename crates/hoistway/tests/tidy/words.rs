//! The rule on words: technical terms instead of private coinages (docs/internals/writing.md says why).

use crate::source::{Finding, Source, expect_lines, expect_none, written_sources};

/// Words and phrases that may stand in no text and no identifier, and what to use instead. Case and line ends within a
/// phrase do not count.
const PHRASES: &[(&str, &str)] = &[
    ("aboard", "in flight"),
    ("alight", "in flight"),
    ("whoever", "the subject: the caller, a process, a client"),
    ("nobody", "no process, no queue, no client, none"),
    ("somebody", "the subject: a process, a user, another queue"),
    ("so many", "the number or its name: N requests, at most `depth`"),
    ("what is inside", "in flight; contents"),
    ("who is inside", "in flight"),
    ("by which", "that, with which, or a sentence of its own"),
    ("who is asked", "the function that is called"),
    ("bury", "release, free"),
    ("buries", "releases, frees"),
    ("buried", "released, freed"),
    ("heed", "apply, handle"),
    ("heeds", "applies, handles"),
    ("heeded", "applied, handled"),
    ("stands aside", "disables, gives way to"),
    ("lest", "so that ... not"),
    ("thereof", "of it"),
    ("as it were", "nothing"),
];

/// Files in which the words may stand: sources quoted in specifications and records, the history of changes, and the
/// texts about these words.
const EXEMPT: [&str; 5] = [
    "docs/specifications/",
    "docs/measured/",
    "docs/internals/writing.md",
    "CHANGELOG.md",
    "crates/hoistway/tests/tidy/words.rs",
];

/// A word of a text, its line, and whether only spaces, underscores or line ends separate it from
/// the word before it, so that both may belong to one phrase.
struct Word {
    line: usize,
    text: String,
    continues: bool,
}

/// The words of a text in lower case. `FooBar` and `foo_bar` are two words each; a comment's leader at the beginning of a
/// line does not separate words.
fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut line, mut continues, mut in_word, mut was_lower) = (1, true, false, false);
    let mut at_line_start = false;
    for c in text.chars() {
        if c.is_alphanumeric() {
            if !in_word || (was_lower && c.is_uppercase()) {
                words.push(Word { line, text: String::new(), continues });
            }
            if let Some(word) = words.last_mut() {
                word.text.extend(c.to_lowercase());
            }
            (in_word, continues, at_line_start, was_lower) = (true, true, false, c.is_lowercase());
            continue;
        }
        in_word = false;
        if c == '\n' {
            line += 1;
            at_line_start = true;
        } else if !(c == '_' || c.is_whitespace() || (at_line_start && "/!#*;>".contains(c))) {
            continues = false;
        }
    }
    words
}

fn forbidden_words(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if EXEMPT.iter().any(|exempt| source.path.starts_with(exempt)) {
        return findings;
    }
    let remedy = "docs/internals/writing.md says why; docs/glossary.md has the terms";
    let lower = source.text.to_lowercase();
    // Most files contain no phrase.
    let is_possible = |(phrase, _): &&(&str, &str)| phrase.split(' ').all(|part| lower.contains(part));
    let possible: Vec<_> = PHRASES.iter().filter(is_possible).collect();
    let words = if possible.is_empty() { Vec::new() } else { words(&source.text) };
    for (phrase, instead) in possible {
        let parts: Vec<&str> = phrase.split(' ').collect();
        for found in words.windows(parts.len()) {
            let is_phrase = found.iter().zip(&parts).all(|(word, part)| word.text == *part)
                && found[1..].iter().all(|word| word.continues);
            if is_phrase {
                findings.push(source.finding(found[0].line, format!("{phrase:?}; use instead: {instead}"), remedy));
            }
        }
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

#[test]
fn words_are_those_of_the_field() {
    expect_none(&written_sources().iter().flat_map(forbidden_words).collect::<Vec<_>>());
}

#[test]
fn forbidden_words_are_found_in_texts_and_identifiers() {
    for (phrase, _) in PHRASES {
        let (snake, wrapped) = (phrase.replace(' ', "_"), phrase.replace(' ', "\n/// "));
        let planted = format!("/// It is {phrase}.\nfn is_{snake}() {{}}\n/// Not {wrapped} and\n");
        expect_lines(forbidden_words, "crates/queue/src/a.rs", &planted, &[1, 2, 3]);
        expect_lines(forbidden_words, "bench/a/run", &format!("#!/bin/sh\n# {}\n", phrase.to_uppercase()), &[2]);
        expect_lines(forbidden_words, "docs/measured/a.md", phrase, &[]);
    }
    let right = "enum Turn { NobodyWaits }\nby the queue, which waits\nso. Many wait\nburying\n";
    expect_lines(forbidden_words, "crates/queue/src/a.rs", right, &[1]);
}
