//! Reads a TOML table key by key, and reports the keys that were not read as unknown.
//!
//! Every problem is collected and none ends the reading, so that a user sees all of them at once. A
//! key with a problem takes its default; the caller never uses a configuration with problems.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use hoistway_experiment::diagnostic::boundary_before;
use hoistway_experiment::units;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::MAXIMUM_LIST;
use super::problem::{Place, Problem, Sourced, nearest};
use super::size::Size;

/// The text being read, its file name, and the problems found.
pub struct Source<'a> {
    /// Name of the file as the user gave it.
    pub file: &'a str,
    /// All of its text.
    pub text: &'a str,
    /// The problems in the order found.
    pub problems: RefCell<Vec<Problem>>,
    /// Where each line begins, so that a place is found without reading the text before it.
    line_starts: Vec<usize>,
    /// The place of everything in a text that was made from a flag.
    flag: Option<Place>,
}

/// Bytes of a line that are quoted, from [`QUOTED_BEFORE_BYTES`] before the place; lines have any length.
const QUOTED_BYTES: usize = 400;
const QUOTED_BEFORE_BYTES: usize = 100;
/// Bytes of a line up to which columns count characters; beyond it they count bytes, which needs no reading.
const COUNTED_BYTES: usize = 4_096;

impl<'a> Source<'a> {
    /// A text without problems so far.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let line_starts = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { file, text, problems: RefCell::new(Vec::new()), line_starts, flag: None }
    }

    /// A text that was made from a flag's options: all values are texts, a list of one has no brackets, and all of it
    /// is at the flag's place.
    pub fn of_flag(text: &'a str, place: Place) -> Self {
        Self { flag: Some(place), ..Self::new("", text) }
    }

    /// Line and column (from 1, in characters; in bytes far into a long line) of a byte range, with its line quoted.
    pub fn place(&self, span: Range<usize>) -> Place {
        if let Some(flag) = &self.flag {
            return flag.clone();
        }
        let at = boundary_before(self.text, span.start);
        let line = self.line_starts.partition_point(|start| *start <= at);
        let line_start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let line_end = self.line_starts.get(line).copied().unwrap_or(self.text.len());
        let before = &self.text[line_start..at];
        let column = if before.len() > COUNTED_BYTES { before.len() } else { before.chars().count() } + 1;
        let (mut begin, mut end) = (line_start, line_end);
        if end - begin > QUOTED_BYTES {
            begin = boundary_before(self.text, at.saturating_sub(QUOTED_BEFORE_BYTES).max(line_start));
            end = boundary_before(self.text, (begin + QUOTED_BYTES).min(line_end));
        }
        let quoted = self.text[begin..end].trim();
        Place { at: format!("{}:{line}:{column}", self.file).into(), quoted: quoted.into() }
    }

    /// Adds a problem.
    pub fn report(&self, place: &Place, what: impl Into<String>, help: impl Into<String>) {
        self.problems.borrow_mut().push(Problem::new(place, what, help));
    }
}

/// One table of the source.
pub struct Reader<'a> {
    source: &'a Source<'a>,
    table: &'a DeTable<'a>,
    /// The table's name in messages, `[[device]]`.
    title: &'static str,
    known: Vec<&'static str>,
    /// Where the table begins.
    pub place: Place,
}

impl<'a> Reader<'a> {
    /// A table that is called `title` in messages.
    pub fn new(source: &'a Source<'a>, title: &'static str, table: &'a DeTable<'a>, place: Place) -> Self {
        Self { source, table, title, known: Vec::new(), place }
    }

    /// The value of a key with its place; marks the key as known.
    fn value(&mut self, key: &'static str) -> Option<(&'a DeValue<'a>, Place)> {
        self.known.push(key);
        let value: &Spanned<DeValue<'_>> = self.table.get(key)?;
        Some((value.get_ref(), self.source.place(value.span())))
    }

    /// The place of a key's value; the table's own place if the key is absent.
    pub fn place_of(&self, key: &str) -> Place {
        self.table.get(key).map_or_else(|| self.place.clone(), |value| self.source.place(value.span()))
    }

    /// The digits and the radix of an integer.
    fn integer<'b>(&self, value: &'b DeValue<'_>) -> Option<(&'b str, u32)> {
        let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let of_flag = || self.of_flag(value).filter(is_number).map(|digits| (digits, 10));
        value.as_integer().map(|integer| (integer.as_str(), integer.radix())).or_else(of_flag)
    }

    /// A text that may stand for another type, because it is a flag's.
    fn of_flag<'b>(&self, value: &'b DeValue<'_>) -> Option<&'b str> {
        value.as_str().filter(|_| self.source.flag.is_some())
    }

    fn wrong_type(&self, key: &str, value: &DeValue<'_>, place: &Place, wanted: &str, example: &str) {
        if self.source.flag.is_some() {
            let what = match value.as_str() {
                Some(text) => format!("{key}={text} is not {wanted}"),
                None => format!("{key} is given more than once, or with a key below it"),
            };
            return self.source.report(place, what, format!("for example: {key}={}", example.trim_matches('"')));
        }
        let what = format!("{key} is {} where {wanted} is needed", article(value.type_str()));
        self.source.report(place, what, format!("for example: {key} = {example}"));
    }

    /// Adds a problem of this table.
    pub fn report(&self, place: &Place, what: impl Into<String>, help: impl Into<String>) {
        self.source.report(place, what, help);
    }

    /// Marks a key as known whose problem was reported already.
    pub fn ignore(&mut self, key: &'static str) {
        self.known.push(key);
    }

    /// Whether the table has a key.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A string, if the key is present.
    pub fn text(&mut self, key: &'static str) -> Option<Sourced<String>> {
        let (value, place) = self.value(key)?;
        match value.as_str() {
            Some(text) => Some(Sourced::new(text.to_owned(), &place)),
            None => {
                self.wrong_type(key, value, &place, "a text", "\"...\"");
                None
            }
        }
    }

    /// A required string.
    pub fn needed_text(&mut self, key: &'static str, example: &str) -> Sourced<String> {
        if !self.table.contains_key(key) {
            let what = format!("{} has no {key}", self.title);
            self.source.report(&self.place, what, format!("add {key} = \"{example}\""));
        }
        self.text(key).unwrap_or_else(|| Sourced::new(String::new(), &self.place))
    }

    /// One of a few words.
    pub fn choice(&mut self, key: &'static str, allowed: &[&'static str], default: &'static str) -> &'static str {
        let Some(text) = self.text(key) else { return default };
        if let Some(word) = allowed.iter().find(|word| **word == text.value) {
            return word;
        }
        let meant = nearest(&text.value, allowed).map_or(String::new(), |word| format!("; did you mean \"{word}\"?"));
        let what = format!("{key} = \"{}\" is not one of {}{meant}", text.value, allowed.join(", "));
        self.source.report(&text.place, what, format!("the default is \"{default}\""));
        default
    }

    /// An integer in a range.
    pub fn number(&mut self, key: &'static str, range: RangeInclusive<u64>, default: u64) -> Sourced<u64> {
        let place = self.place_of(key);
        let number = self.optional_number(key, range, default, &format!("the default is {default}"));
        Sourced::new(number.unwrap_or(default), &place)
    }

    /// An integer in a range, if the key is present; `example` is shown for a value that is not an
    /// integer, `help` for one out of range.
    pub fn optional_number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        example: u64,
        help: &str,
    ) -> Option<u64> {
        let (value, place) = self.value(key)?;
        let Some((digits, radix)) = self.integer(value) else {
            self.wrong_type(key, value, &place, "a whole number", &example.to_string());
            return None;
        };
        match u64::from_str_radix(digits, radix) {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                let integer = value.as_integer().map_or_else(|| digits.to_owned(), ToString::to_string);
                let what = format!("{key} = {integer} is outside {} to {}", range.start(), range.end());
                self.source.report(&place, what, help);
                None
            }
        }
    }

    /// A list of integers in a range.
    pub fn numbers(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Vec<u64> {
        let Some((value, place)) = self.value(key) else { return Vec::new() };
        if let Some(only) = self.integer(value).and_then(|(digits, radix)| u64::from_str_radix(digits, radix).ok())
            && self.source.flag.is_some()
            && range.contains(&only)
        {
            return vec![only];
        }
        let Some(list) = value.as_array() else {
            self.wrong_type(key, value, &place, "a list of whole numbers", "[0, 1]");
            return Vec::new();
        };
        if !self.is_within(key, list.len(), MAXIMUM_LIST, &place) {
            return Vec::new();
        }
        let mut numbers = Vec::new();
        for entry in list {
            let place = self.source.place(entry.span());
            let number = self.integer(entry.get_ref());
            let number = number.and_then(|(digits, radix)| u64::from_str_radix(digits, radix).ok());
            match number.filter(|number| range.contains(number)) {
                Some(number) => numbers.push(number),
                None => {
                    let what = format!("{key} contains a value outside {} to {}", range.start(), range.end());
                    self.source.report(&place, what, "give whole numbers");
                }
            }
        }
        numbers
    }

    /// A boolean.
    pub fn switch(&mut self, key: &'static str, default: bool) -> bool {
        let Some((value, place)) = self.value(key) else { return default };
        let of_flag = || self.of_flag(value).and_then(|text| text.parse().ok());
        value.as_bool().or_else(of_flag).unwrap_or_else(|| {
            self.wrong_type(key, value, &place, "true or false", &default.to_string());
            default
        })
    }

    /// A switch, or a number in a range, which switches on; `None` is off, `Some(None)` on.
    pub fn switch_or_number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<Option<u64>> {
        if self.table.get(key).is_some_and(|value| self.integer(value.get_ref()).is_some()) {
            let help = format!("{key} = true chooses a free number");
            return self.optional_number(key, range, 0, &help).map(Some);
        }
        self.switch(key, false).then_some(None)
    }

    /// A size: a string with a unit, or an integer number of bytes.
    pub fn size(&mut self, key: &'static str, range: RangeInclusive<Size>, default: Size) -> Size {
        self.quantity(key, range, default, Size::parse)
    }

    /// Bytes per second: as a size, and `/s` may follow.
    pub fn rate(&mut self, key: &'static str, range: RangeInclusive<Size>, default: Size) -> Size {
        self.quantity(key, range, default, Size::parse_rate)
    }

    /// I/Os per second: a number, or a string such as "20k".
    pub fn ios_per_s(&mut self, key: &'static str, range: RangeInclusive<u64>, default: u64) -> u64 {
        let text = self.table.get(key).and_then(|value| value.get_ref().as_str());
        let number = text.and_then(|text| units::ios_per_s(text).ok()).filter(|number| range.contains(number));
        match number {
            Some(number) => {
                // Marks the key as known.
                let _ = self.value(key);
                number
            }
            None => self.number(key, range, default).value,
        }
    }

    fn quantity(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Size>,
        default: Size,
        parse: fn(&str) -> Option<Size>,
    ) -> Size {
        let Some((value, place)) = self.value(key) else { return default };
        let (size, shown) = match (value.as_str(), value.as_integer()) {
            (Some(text), _) => (parse(text), format!("\"{text}\"")),
            (_, Some(integer)) => {
                (u64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Size), integer.to_string())
            }
            _ => {
                self.wrong_type(key, value, &place, "a size", &format!("\"{default}\""));
                return default;
            }
        };
        match size {
            Some(size) if range.contains(&size) => size,
            Some(_) => {
                let what = format!("{key} = {shown} is outside {} to {}", range.start(), range.end());
                self.source.report(&place, what, format!("the default is \"{default}\""));
                default
            }
            None => {
                let reason = match value.as_integer() {
                    Some(integer) if integer.as_str().starts_with('-') => ": it is negative",
                    Some(_) => ": it does not fit in 64 bits",
                    None => "",
                };
                let what = format!("{key} = {shown} is not a size{reason}");
                // 0 has no unit, so another example is shown.
                let example = if default == Size(0) { Size(64 << 20) } else { default };
                let help = format!("write a whole number and KiB, MiB, GiB or TiB, for example {key} = \"{example}\"");
                self.source.report(&place, what, help);
                default
            }
        }
    }

    /// A list of strings.
    pub fn texts(&mut self, key: &'static str, default: &[&str]) -> Vec<Sourced<String>> {
        let by_default = default.iter().map(|text| Sourced::new((*text).to_owned(), &self.place)).collect();
        let Some((value, place)) = self.value(key) else { return by_default };
        if let Some(only) = self.of_flag(value) {
            return vec![Sourced::new(only.to_owned(), &place)];
        }
        let Some(list) = value.as_array() else {
            self.wrong_type(key, value, &place, "a list of texts", "[\"a\", \"b-*\"]");
            return by_default;
        };
        if !self.is_within(key, list.len(), MAXIMUM_LIST, &place) {
            return by_default;
        }
        let mut texts = Vec::new();
        for entry in list {
            let place = self.source.place(entry.span());
            match entry.get_ref().as_str() {
                Some(text) => texts.push(Sourced::new(text.to_owned(), &place)),
                None => {
                    let what = format!("{key} holds {}", article(entry.get_ref().type_str()));
                    self.source.report(&place, what, "give texts only");
                }
            }
        }
        texts
    }

    /// The tables of an array `[[key]]`, of which there may be `most`.
    pub fn tables(&mut self, key: &'static str, title: &'static str, most: usize) -> Vec<Reader<'a>> {
        let Some((value, place)) = self.value(key) else { return Vec::new() };
        if value.as_array().is_some_and(|array| !self.is_within(title, array.len(), most, &place)) {
            return Vec::new();
        }
        let mut readers = Vec::new();
        for entry in value.as_array().into_iter().flat_map(|array| array.iter()) {
            let place = self.source.place(entry.span());
            match entry.get_ref().as_table() {
                Some(table) => readers.push(Reader::new(self.source, title, table, place)),
                None => self.wrong_type(key, entry.get_ref(), &place, "a table", "{ ... }"),
            }
        }
        if value.as_array().is_none() {
            let what = format!("{key} is {} where {title} is needed", article(value.type_str()));
            self.source.report(&place, what, format!("begin each one with {title}"));
        }
        readers
    }

    /// Whether a number of entries is allowed; reports it if not.
    fn is_within(&self, title: &str, count: usize, most: usize, place: &Place) -> bool {
        if count > most {
            let help = "divide them among several servers";
            self.source.report(place, format!("there are {count} {title}, and {most} are allowed"), help);
        }
        count <= most
    }

    /// The table of a `[key]`.
    pub fn table(&mut self, key: &'static str, title: &'static str) -> Option<Reader<'a>> {
        let (value, place) = self.value(key)?;
        let Some(table) = value.as_table() else {
            let what = format!("{key} is {} where {title} is needed", article(value.type_str()));
            self.source.report(&place, what, format!("begin it with {title}"));
            return None;
        };
        Some(Reader::new(self.source, title, table, place))
    }

    /// All keys have been read: the remaining ones are unknown.
    pub fn finish(self) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let meant = nearest(name, &self.known).map_or(String::new(), |word| format!("; did you mean {word}?"));
            let place = self.source.place(key.span());
            let known = self.known.join(", ");
            let (what, help) = if self.source.flag.is_some() {
                let help = format!("options are {known}; a path with a comma needs a file");
                (format!("unknown option {name}{meant}"), help)
            } else if GROUP_KEYS.contains(&name) {
                let help = format!(
                    "it is a key of [[group]]: write group = \"NAME\" in [[device.export]], and [[group]] with path = \"NAME\" and {name}"
                );
                (format!("{} has no key {name}", self.title), help)
            } else {
                (format!("{} has no key {name}{meant}", self.title), format!("known keys: {known}"))
            };
            self.source.report(&place, what, help);
        }
    }
}

/// Keys of `[[group]]` that are looked for where an export or a device is described.
const GROUP_KEYS: [&str; 11] = [
    "weight",
    "leaf_weight",
    "priority",
    "read_bps_max",
    "write_bps_max",
    "total_bps_max",
    "read_iops_max",
    "write_iops_max",
    "total_iops_max",
    "burst_ms",
    "latency_target_us",
];

fn article(noun: &str) -> String {
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}
