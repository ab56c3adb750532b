//! Every option that a document names exists, and at the command that it is named with. `docs_blocks` runs commands;
//! this reads the rest: names in sentences and tables, and blocks that are not run.

#[path = "program/mod.rs"]
#[expect(dead_code, reason = "other tests look into directories")]
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use program::hoistway;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// Options of other programs, where a document names them without the program.
const FOREIGN: &[(&str, &str)] =
    &[("--user", "podman"), ("--output-format", "fio"), ("--rounds", "bench/goals/run"), ("--only", "bench/goals/run")];

/// The options of each command, by its words: `ctl set group`. Options for all commands are part of each.
fn options() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let said = hoistway(Path::new("/"), &arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {}", said.stderr);
        let mut section = "";
        let mut own = BTreeSet::new();
        for line in said.stdout.lines() {
            if !line.starts_with(' ') {
                section = line;
            }
            let first = line.trim_start().split([' ', ',', '=', '[', '<']);
            let is_option = line.trim_start().starts_with('-');
            if section.starts_with("Commands") && line.starts_with("  ") && !line.starts_with("   ") {
                let name = first.clone().next().unwrap_or_default();
                if name != "help" {
                    open.push(words.iter().cloned().chain([name.to_owned()]).collect());
                }
            }
            if is_option && !section.starts_with("Examples") {
                own.extend(first.filter(|word| word.starts_with("--")).take(1).map(str::to_owned));
                let long = line.trim_start().split([' ', ',', '=', '[', '<']).find(|word| word.starts_with("--"));
                own.extend(long.map(str::to_owned));
            }
        }
        found.insert(words.join(" "), own);
    }
    found
}

/// The long options among words; a text in quotes is a value, and after `--` come those of another command.
fn named(words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_quoted = false;
    for word in words {
        if !is_quoted {
            match *word {
                "--" | "|" | ";" | "&&" | "||" | "#" | "&" => break,
                word if word.starts_with("--") => {
                    let name = word.trim_start_matches('-');
                    let end = name.find(|it: char| !it.is_ascii_alphanumeric() && it != '-').unwrap_or(name.len());
                    found.extend((end > 0).then(|| format!("--{}", name[..end].trim_end_matches('-'))));
                }
                _ => {}
            }
        }
        is_quoted ^= word.matches(['"', '\'']).count() % 2 == 1;
    }
    found
}

/// What is wrong with the options in a piece of code; nothing if it is of another program.
fn wrong(code: &str, options: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let words: Vec<&str> = code.split_whitespace().skip_while(|word| *word == "sudo").collect();
    match words.first() {
        Some(&"hoistway") => {
            let mut command = String::new();
            // Options of all commands may stand in between: `ctl --control PATH set group`.
            for word in &words[1..] {
                let longer = format!("{command} {word}");
                if options.contains_key(longer.trim_start()) {
                    longer.trim_start().clone_into(&mut command);
                }
            }
            let known = &options[&command];
            let missing = named(&words).into_iter().filter(|name| !known.contains(name));
            missing.map(|name| format!("`hoistway {command}` has no {name}: {code}")).collect()
        }
        Some(first) if first.starts_with("--") => {
            let is_known = |name: &String| {
                options.values().any(|known| known.contains(name)) || FOREIGN.iter().any(|(foreign, _)| foreign == name)
            };
            let missing = named(&words).into_iter().filter(|name| !is_known(name));
            missing.map(|name| format!("no command has {name}: {code}")).collect()
        }
        _ => Vec::new(),
    }
}

/// The pieces of code in a document: spans, and commands of blocks.
fn code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_block = false;
    for event in Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_block = true,
            Event::End(TagEnd::CodeBlock) => is_block = false,
            Event::Text(text) if is_block => {
                let lines = text.replace("\\\n", " ");
                let commands = lines.lines().map(|line| line.trim_start_matches("$ "));
                // A line that begins with an option is one of a list, of any program.
                found.extend(commands.filter(|line| !line.trim_start().starts_with("--")).map(str::to_owned));
            }
            Event::Code(text) => found.push(text.replace('\n', " ")),
            _ => {}
        }
    }
    found
}

fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match path.extension().and_then(|it| it.to_str()) {
            None if path.is_dir() => documents(&path, found),
            Some("md") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn every_option_in_the_documents_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options = options();
    assert!(options.len() > 30 && options["ctl set group"].contains("--control"), "{options:?}");
    let single = ["README.md", "SECURITY.md", "docs/kernel.md", "docs/devices.md", "docs/glossary.md"];
    let mut pages = single.map(|page| root.join(page)).to_vec();
    // Specifications and measurements quote other programs, and options of their day.
    for folder in ["start", "howto", "reference", "concepts", "elevators", "limiters"] {
        documents(&root.join("docs").join(folder), &mut pages);
    }
    pages.sort();
    let mut problems = Vec::new();
    let mut seen = 0;
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for piece in code(&text) {
            seen += usize::from(piece.contains("--"));
            let wrong = wrong(&piece, &options);
            problems.extend(wrong.into_iter().map(|what| format!("{}: {what}", page.display())));
        }
    }
    assert!(seen > 300, "{seen}");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn an_option_that_does_not_exist_is_found() {
    let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let options = BTreeMap::from([
        (String::new(), known(&["--help"])),
        ("ctl".to_owned(), known(&["--control"])),
        ("ctl status".to_owned(), known(&["--control", "--json"])),
    ]);
    for (code, count) in [
        ("hoistway ctl --control /run/x status --json", 0),
        ("sudo hoistway ctl --json", 1),
        ("hoistway ctl status --jsn=1 | jq --raw", 1),
        ("--json=FILE", 0),
        ("--store", 1),
        ("hoistway ctl status \"a --b c\" --c", 1),
        ("fio --store", 0),
        ("hoistway ctl -- --any", 0),
    ] {
        assert_eq!(wrong(code, &options).len(), count, "{code}: {:?}", wrong(code, &options));
    }
}
