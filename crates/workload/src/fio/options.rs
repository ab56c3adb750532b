//! The type of an option row: names, class, kind of value, setter. The rows are in
//! [`super::table`].

use hoistway_block::Nanos;

use super::diagnostic::{Findings, Place, Severity};
use super::draft::Draft;
use super::units;
use super::values::not_one_of;
use super::{checks, newer, output_table, table};
use crate::job::{Amount, PerDirection};

/// How an option is treated. Source: docs/specifications/harness.md, section 6.3.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// Class A: works as in fio.
    Honoured,
    /// Class B: accepted without effect, with one note.
    NoEffect,
    /// Class A in the specification, but no host supports it yet: refused, except for values that
    /// have no effect.
    NotYet,
    /// Class C: refused, except for values that have no effect.
    Refused,
}

/// The result of a setter; an error describes what is wrong with the value.
pub type Outcome = Result<(), String>;

/// Kind of the value, and the setter that stores it.
#[derive(Copy, Clone, Debug)]
pub enum Action {
    /// A number with an optional suffix, between two limits.
    Integer(u64, u64, fn(&mut Draft, u64)),
    /// A signed number between two limits.
    Signed(i64, i64, fn(&mut Draft, i64)),
    /// Up to three numbers, for reads, writes and trims.
    Triple(u64, u64, fn(&mut Draft, PerDirection<Option<u64>>)),
    /// Bytes, or a percentage of the file.
    Size(fn(&mut Draft, Amount)),
    /// A time; the first field is the unit of a bare number, in nanoseconds.
    Time(Nanos, fn(&mut Draft, Nanos)),
    /// 0 or 1.
    Switch(fn(&mut Draft, bool)),
    /// Without a value, or with a number.
    Flag(fn(&mut Draft, bool)),
    /// Any other text.
    Text(fn(&mut Draft, &str) -> Outcome),
    /// Any other text, or no value.
    Perhaps(fn(&mut Draft, &str) -> Outcome),
    /// Not stored: accepted with the reason (class B) or refused with it, except for the harmless
    /// values listed.
    Nothing {
        /// Values that have no effect; accepted without a note.
        harmless: &'static [&'static str],
        /// Completes the message "option 'x' ...".
        why: &'static str,
    },
}

/// One option.
#[derive(Copy, Clone, Debug)]
pub struct Row {
    /// fio's name.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// How it is treated.
    pub class: Class,
    /// Kind of the value, and setter.
    pub action: Action,
    /// Description in one sentence.
    pub doc: &'static str,
}

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    table::ROWS.iter().chain(output_table::ROWS).chain(checks::ROWS).chain(newer::ROWS)
}

/// The row of a name or alias.
pub fn find(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.name == name || row.aliases.contains(&name))
}

fn all_names() -> impl Iterator<Item = &'static str> {
    rows().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied()))
}

/// Prefixes of option families that are refused as a whole, with the reason.
const REFUSED_FAMILIES: &[(&str, &str)] = &[("zbd", "zoned devices are not supported")];

/// Stores one `key=value` in the draft, or reports what is wrong with it.
pub fn apply(draft: &mut Draft, key: &str, value: Option<&str>, place: &Place, findings: &mut Findings) {
    let Some(row) = find(key) else { return unknown(key, place, findings) };
    if let Action::Nothing { harmless, why } = row.action {
        return nothing(row, key, value, harmless, why, place, findings);
    }
    draft.given_at.insert(row.name, place.clone());
    if let Err(message) = store(draft, row, value) {
        let help = format!("{}: {}", row.name, row.doc);
        return findings.error(place, format!("option '{key}': {message}"), help);
    }
    if let Some(remark) = draft.numbers.remark.take() {
        findings.remark(Severity::Warning, place, format!("option '{key}': {remark}"));
    }
    if is_number(row.action)
        && let Some(word) = behind_a_blank(&place.text, key)
    {
        let remark = format!("option '{key}': fio ends '{word}' at its unit because of the blank in front of it");
        findings.remark(Severity::Warning, place, remark);
    }
    if let Some((text, value)) = draft.numbers.ib_suffix.take() {
        let base = if draft.numbers.base == units::Base::Binary { 1024 } else { 1000 };
        findings.note_first(place, "in fio files ", format_args!("'{text}' means {value} bytes (kb_base={base})"));
    }
}

fn is_number(action: Action) -> bool {
    matches!(action, Action::Integer(..) | Action::Triple(..) | Action::Size(_) | Action::Time(..))
}

/// The first number with a unit that follows a blank in `key = 4k` or `key=4k, 8k`. Source: fio 3.33 reads 4 and
/// 8 there, which `fio --debug=parse` shows.
fn behind_a_blank<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, value) = line.split_once('=').filter(|(name, _)| name.trim() == key)?;
    let value = super::lex::uncommented(value).trim_end();
    let has_unit = |word: &str| {
        let unit = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
        unit.len() < word.len() && unit.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '%')
    };
    let words = value.split(',').filter(|part| part.starts_with([' ', '\t']));
    words.map(str::trim).find(|word| !word.starts_with("0x") && has_unit(word))
}

fn unknown(key: &str, place: &Place, findings: &mut Findings) {
    for (prefix, why) in REFUSED_FAMILIES {
        if key.starts_with(prefix) {
            let help = "remove it, or run the file with fio itself: hoistway test TARGET --generator fio";
            return findings.error(place, format!("option '{key}' is not supported ({why})"), help);
        }
    }
    let shown: String = key.chars().take(64).collect();
    let help = match crate::suggest::nearest(key, all_names()) {
        Some(name) if name == key.to_lowercase() => format!("did you mean '{name}'? Names are lower case"),
        Some(name) => format!("did you mean '{name}'?"),
        None => "hoistway list options has those of fio up to 3.43".to_owned(),
    };
    findings.error(place, format!("unknown option '{shown}'"), help);
}

fn nothing(
    row: &Row,
    key: &str,
    value: Option<&str>,
    harmless: &[&str],
    why: &str,
    place: &Place,
    findings: &mut Findings,
) {
    if harmless.contains(&value.unwrap_or("1")) {
        return;
    }
    let elsewhere = "remove it, or run the file with fio itself: hoistway test TARGET --generator fio";
    match row.class {
        Class::NoEffect | Class::Honoured => {
            findings.remark(Severity::Note, place, format!("option '{key}' has no effect here: {why}"));
        }
        Class::NotYet => findings.error(place, format!("option '{key}' is not supported yet ({why})"), elsewhere),
        Class::Refused => findings.error(place, format!("option '{key}' is not supported ({why})"), elsewhere),
    }
}

fn store(draft: &mut Draft, row: &Row, value: Option<&str>) -> Outcome {
    if let Action::Flag(set) = row.action {
        let is_on = match value {
            None => true,
            Some(text) => draft.numbers.signed(text, i64::MIN / 2, i64::MAX / 2)? != 0,
        };
        set(draft, is_on);
        return Ok(());
    }
    if let Action::Perhaps(set) = row.action {
        return set(draft, value.unwrap_or(""));
    }
    let text = value.filter(|text| !text.is_empty()).ok_or("it needs a value: option=value")?;
    match row.action {
        Action::Integer(min, max, set) => {
            let number = draft.numbers.within(text, min, max)?;
            set(draft, number);
        }
        Action::Signed(min, max, set) => {
            let number = draft.numbers.signed(text, min, max)?;
            set(draft, number);
        }
        Action::Triple(min, max, set) => {
            let triple = draft.numbers.triple(text, min, max)?;
            set(draft, triple);
        }
        Action::Size(set) => {
            let amount = draft.numbers.amount(text)?;
            set(draft, amount);
        }
        Action::Time(bare_unit_ns, set) => {
            let units::Time { value_ns, remark } = units::time(text, bare_unit_ns)?;
            draft.numbers.remark = remark;
            set(draft, value_ns);
        }
        Action::Switch(set) => match text {
            "0" => set(draft, false),
            "1" => set(draft, true),
            _ => return Err(not_one_of(text, &["0", "1"])),
        },
        Action::Text(set) => set(draft, text)?,
        Action::Flag(_) | Action::Perhaps(_) | Action::Nothing { .. } => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_row_is_documented() {
        let mut names: Vec<_> = all_names().collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a name stands twice: {names:?}");
        for row in rows() {
            assert!(row.doc.ends_with('.') && row.doc.len() > 5, "{}", row.name);
        }
    }

    #[test]
    fn every_refusal_says_why_and_only_silent_rows_store_nothing() {
        for row in rows() {
            let stores_nothing = matches!(row.action, Action::Nothing { .. });
            assert_eq!(stores_nothing, row.class != Class::Honoured, "{}", row.name);
        }
    }
}
