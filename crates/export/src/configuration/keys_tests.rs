//! The table of keys against the reader.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{DEFAULT_MEMORY, DEFAULT_SCHEDULER, DEFAULT_WEIGHT, file, show};
use super::*;

/// What each table of these keys is called in messages of the reader, and its keys.
fn tables(title: &str, path: &str, keys: &'static [Key], found: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    found.insert(title.to_owned(), keys.iter().flat_map(|key| key.short.into_iter().chain([key.name])).collect());
    for key in keys {
        let below = format!("{path}{}.", key.name);
        match key.kind {
            Kind::Tables(own) => tables(&format!("[[{path}{}]]", key.name), &below, own, found),
            Kind::Table(own) => tables(&format!("[{path}{}]", key.name), &below, own, found),
            _ => {}
        }
    }
}

/// The needed keys of a table, so that only what a test is about is wrong.
fn given(keys: &[Key], but: &str) -> String {
    let needed = keys.iter().filter(|key| key.is_needed && key.name != but);
    needed.map(|key| format!("{} = \"a\"\n", key.name)).collect()
}

/// A file that has one table, with these lines in it.
fn file_with(title: &str, lines: &str) -> String {
    match title {
        "the file" => lines.to_owned(),
        "[[device.export]]" => format!("[[device]]\nname = \"d\"\n[[device.export]]\n{lines}"),
        "[device.export.vhost_user_blk]" => {
            format!(
                "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"a\"\nbacking = \"a\"\n[device.export.vhost_user_blk]\n{lines}"
            )
        }
        "[listen.tls]" => format!("[[listen]]\nunix = \"a\"\n[listen.tls]\n{lines}"),
        "[group.io]" => format!("[[group]]\npath = \"a\"\n[group.io]\n{lines}"),
        title => format!("{title}\n{lines}"),
    }
}

fn problems(text: &str) -> Vec<(String, String)> {
    match file::read("f", text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(|problem| (problem.what.to_string(), problem.help.to_string())).collect(),
    }
}

/// The keys that the reader knows, from its answer to an unknown one.
fn known(title: &str, lines: &str) -> BTreeSet<String> {
    let said = problems(&file_with(title, &format!("{lines}no_such_key = 1\n")));
    let help = said
        .iter()
        .find_map(|(_, help)| help.strip_prefix("known keys: "))
        .unwrap_or_else(|| panic!("{title}: {said:?}"));
    help.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_keys_are_those_of_the_reader() {
    let mut all = BTreeMap::new();
    tables("the file", "", TOP, &mut all);
    assert_eq!(all.len(), 12, "{:?}", all.keys());
    for (title, keys) in all {
        let mut read = known(&title, "");
        // The reader knows a limit by the name that is used.
        let shorts = "rbps = 1\nwbps = 1\ntbps = 1\nriops = 1\nwiops = 1\ntiops = 1\ntarget = 1\n";
        if title == "[[group]]" {
            read.extend(known(&title, shorts));
        }
        assert_eq!(read, keys.into_iter().map(str::to_owned).collect(), "{title}");
    }
}

/// Values that a key must take, and values that it must refuse.
fn samples(kind: Kind) -> (Vec<String>, Vec<String>) {
    let number = |least: u64, most: u64| {
        let below = least.checked_sub(1).map(|it| it.to_string());
        (
            vec![least.to_string(), most.to_string()],
            below.into_iter().chain([(most + 1).to_string(), "\"x\"".into()]).collect(),
        )
    };
    match kind {
        Kind::Number(least, most) => number(least, most),
        Kind::Size(least, most) => number(least, most),
        Kind::SwitchOrNumber(most) => (vec!["true".into(), most.to_string()], vec![(most + 1).to_string()]),
        Kind::Numbers(least, most) => (vec![format!("[{least}, {most}]")], vec![format!("[{}]", most + 1)]),
        Kind::OneOf(numbers) => (numbers.iter().map(ToString::to_string).collect(), vec!["3".into()]),
        Kind::Words(words) => {
            (words.iter().map(|word| format!("\"{word}\"")).collect(), vec!["\"no-such-word\"".into()])
        }
        Kind::Switch => (vec!["true".into(), "false".into()], vec!["1".into()]),
        Kind::Rate => (vec!["0".into(), "\"20k\"".into()], vec!["true".into()]),
        Kind::Texts => (vec!["[\"a\"]".into()], vec!["1".into()]),
        Kind::Text => (Vec::new(), vec!["1".into()]),
        Kind::Table(_) | Kind::Tables(_) => (Vec::new(), vec!["1".into()]),
    }
}

#[test]
fn what_a_range_says_is_what_the_reader_takes() {
    fn check(title: &str, path: &str, keys: &'static [Key], count: &mut usize) {
        for key in keys {
            let (right, wrong) = samples(key.kind);
            let others = given(keys, key.name);
            let address =
                if keys.iter().any(|key| key.name == "tcp") && key.name != "unix" { "unix = \"a\"\n" } else { "" };
            let said = |value: &str| {
                let found = problems(&file_with(title, &format!("{others}{address}{} = {value}\n", key.name)));
                found.into_iter().filter(|(what, _)| what.contains(key.name)).collect::<Vec<_>>()
            };
            for value in &right {
                assert_eq!(said(value), [], "{title} {} = {value}", key.name);
            }
            for value in &wrong {
                assert_ne!(said(value), [], "{title} {} = {value}", key.name);
            }
            *count += right.len() + wrong.len();
            let below = format!("{path}{}.", key.name);
            match key.kind {
                Kind::Tables(own) => check(&format!("[[{path}{}]]", key.name), &below, own, count),
                Kind::Table(own) => check(&format!("[{path}{}]", key.name), &below, own, count),
                _ => {}
            }
        }
    }
    let mut count = 0;
    check("the file", "", TOP, &mut count);
    assert!(count > 120, "{count}");
}

#[test]
fn defaults_are_those_that_check_shows() {
    let least =
        "[[device]]\nname = \"d\"\n[[device.export]]\nname = \"a\"\nbacking = \"a\"\n[[listen]]\nunix = \"a\"\n";
    let shown = show::show(&file::read("f", least).unwrap());
    for keys in [DEVICE, EXPORT, LISTEN, LOG, TOP] {
        for key in keys.iter().filter(|key| !key.default.is_empty()) {
            let line = format!("{} = {}", key.name, key.default);
            assert!(shown.lines().any(|it| it == line), "{line}\n{shown}");
        }
    }
    let weight = GROUP.iter().find(|key| key.name == "weight").unwrap();
    assert_eq!((weight.default, DEFAULT_SCHEDULER), (DEFAULT_WEIGHT.to_string().as_str(), "paternoster"));
    assert_eq!(DEFAULT_MEMORY.to_string(), "256MiB");
}
