//! Reads a model's file: `type` or `base`, parameters by their names, `[disk]` for an array's
//! members, `[[anchor]]`.
//!
//! Errors name line and column; reading stops at the first one.

use std::ops::Range;
use std::path::Path;

use hoistway_block::Direction;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Model;
use super::anchor::{Anchor, Figure, MB, Repetition};
use super::error::{self, ModelError};
use super::kind::{Kind, MEMBER};
use super::preset::{Preset, is_path};
use crate::parameter::{Parameter, Unit};

/// The text, its name, and the number of files based on it.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
    depth: u32,
}

type Value<'a> = Spanned<DeValue<'a>>;

/// Reads a whole file. `depth` is the number of files based on this one.
pub(crate) fn read(file: &str, text: &str, depth: u32) -> Result<Preset, ModelError> {
    let source = Source { file, text, depth };
    let document = source.document()?;
    let table = document.get_ref();
    let mut model = source.begin(table)?;
    let (mut doc, mut anchors) = (String::new(), Vec::new());
    for (key, value) in in_order(table) {
        match &**key.get_ref() {
            "type" | "base" => {}
            "doc" => doc = source.text_of("doc", value)?.to_owned(),
            "anchor" => anchors = source.anchors(value)?,
            "disk" if matches!(model.kind, Kind::Array(..)) => source.members(&mut model, value)?,
            name => source.set(&mut model, "", name, key.span(), value)?,
        }
    }
    model.kind.check().map_err(|(key, what)| source.wrong(place_of(table, &key, &what), format!("{key}: {what}")))?;
    Ok(Preset { doc, model, anchors, text: text.to_owned() })
}

/// The `[[anchor]]` entries of a file that is a model's or has only anchors.
pub(crate) fn read_anchors(file: &str, text: &str) -> Result<Vec<Anchor>, ModelError> {
    let source = Source { file, text, depth: 0 };
    let document = source.document()?;
    let table = document.get_ref();
    if table.contains_key("type") || table.contains_key("base") {
        return Ok(read(file, text, 0)?.anchors);
    }
    if let Some((key, _)) = in_order(table).into_iter().find(|(key, _)| key.get_ref() != "anchor") {
        let what = format!("'{}' is neither [[anchor]] nor part of a model, which has type or base", key.get_ref());
        return Err(source.wrong(key.span(), what));
    }
    table.get("anchor").map_or(Ok(Vec::new()), |value| source.anchors(value))
}

/// Entries in the order of the file, so that the first error is the one reported.
fn in_order<'a, 'b>(table: &'b DeTable<'a>) -> Vec<(&'b Spanned<std::borrow::Cow<'a, str>>, &'b Value<'a>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// The position of a key, dotted or not. If the key is inherited, the position of the first key of
/// this file that the reason names, which is the one that contradicts it; otherwise the beginning
/// of the file.
fn place_of(table: &DeTable<'_>, key: &str, reason: &str) -> Range<usize> {
    let find = |table: &DeTable<'_>, key: &str| {
        table.iter().find(|(known, _)| known.get_ref() == key).map(|(known, _)| known.span())
    };
    let inside = key.strip_prefix(MEMBER).and_then(|key| {
        let members = table.get("disk")?.get_ref().as_table()?;
        find(members, key)
    });
    let members = table.get("disk").and_then(|members| members.get_ref().as_table());
    let all = in_order(table).into_iter().chain(members.map(in_order).unwrap_or_default());
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = || {
        let mut keys = all.map(|(key, _)| key);
        keys.find(|key| reason.split(|c| !is_word(c)).any(|word| word == key.get_ref())).map(Spanned::span)
    };
    inside.or_else(|| find(table, key)).or_else(named).unwrap_or(0..0)
}

impl<'a> Source<'a> {
    fn document(&self) -> Result<Spanned<DeTable<'a>>, ModelError> {
        DeTable::parse(self.text)
            .map_err(|error| self.wrong(error.span().unwrap_or(0..0), format!("not TOML: {}", error.message())))
    }

    fn wrong(&self, span: Range<usize>, message: impl Into<String>) -> ModelError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let (line, column) = (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
        ModelError::new(format!("{}:{line}:{column}", self.file), message)
    }

    /// The model before any key is applied: the base's, or the type's defaults.
    fn begin(&self, table: &DeTable<'_>) -> Result<Model, ModelError> {
        let word = table.get("type").map(|value| Ok((self.text_of("type", value)?, value.span()))).transpose()?;
        let mut model = match table.get("base") {
            Some(base) => self.base(base)?,
            None => {
                let Some((word, span)) = word.clone() else {
                    let words = Kind::WORDS.join(", ");
                    return Err(self.wrong(0..0, format!("the file has neither type ({words}) nor base (a model)")));
                };
                let kind = Kind::of_word(word).ok_or_else(|| self.no_type(word, span))?;
                Model::of_kind(self.file, kind)
            }
        };
        if let Some((word, span)) = word.filter(|(word, _)| *word != model.kind.word()) {
            let what = match Kind::of_word(word) {
                None => return Err(self.no_type(word, span)),
                Some(_) => format!("type = \"{word}\" contradicts the base, which is \"{}\"", model.kind.word()),
            };
            return Err(self.wrong(span, what));
        }
        self.file.clone_into(&mut model.name);
        Ok(model)
    }

    fn no_type(&self, word: &str, span: Range<usize>) -> ModelError {
        let nearest = error::nearest(word, Kind::WORDS.into_iter());
        let words = Kind::WORDS.join(", ");
        self.wrong(span, format!("type = \"{word}\" is not one of {words}; nearest: {nearest}"))
    }

    /// The model of a `base`; paths are relative to this file.
    fn base(&self, value: &Value<'_>) -> Result<Model, ModelError> {
        let name = self.text_of("base", value)?;
        let beside = Path::new(self.file).parent().filter(|_| is_path(self.file) && is_path(name));
        let name = beside.map_or_else(|| name.to_owned(), |folder| folder.join(name).display().to_string());
        let loaded = Preset::load_at(&name, self.depth + 1);
        Ok(loaded.map_err(|error| self.wrong(value.span(), format!("base: {error}")))?.model)
    }

    /// Applies the `[disk]` table of an array.
    fn members(&self, model: &mut Model, value: &Value<'_>) -> Result<(), ModelError> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.wrong(value.span(), "disk is no table; begin it with [disk]"));
        };
        if let Some(base) = table.get("base") {
            let Kind::Disk(disk) = self.base(base)?.kind else {
                return Err(self.wrong(base.span(), "the members of an array are disks: name a model of type hdd"));
            };
            if let Some(members) = model.kind.disk_mut() {
                *members = disk;
            }
        }
        for (key, value) in in_order(table) {
            if key.get_ref() != "base" {
                self.set(model, MEMBER, key.get_ref(), key.span(), value)?;
            }
        }
        Ok(())
    }

    /// Applies one parameter.
    fn set(
        &self,
        model: &mut Model,
        prefix: &str,
        name: &str,
        span: Range<usize>,
        value: &Value<'_>,
    ) -> Result<(), ModelError> {
        let of_disk = !prefix.is_empty() || matches!(model.kind, Kind::Disk(_));
        if name == "seek_table" && of_disk {
            let table = self.seek_table(value)?;
            if let Some(disk) = model.kind.disk_mut() {
                disk.seeks.seek_table = table;
            }
            return Ok(());
        }
        let key = format!("{prefix}{name}");
        let Some(parameter) = model.parameter(&key) else {
            return Err(self.wrong(span, model.unknown_key(&key)));
        };
        let written = self.scalar(&key, parameter, value)?;
        model.set(&key, &written).map_err(|what| self.wrong(value.span(), what))
    }

    /// A value as it would be written after `key=` on the command line.
    fn scalar(&self, key: &str, parameter: &Parameter, value: &Value<'_>) -> Result<String, ModelError> {
        let is_word = matches!(parameter.unit, Unit::Choice(_));
        let written = match value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().trim_start_matches('+').to_owned(),
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix())
                .map_or_else(|_| integer.to_string(), |number| number.to_string()),
            DeValue::Float(float) => float.as_str().to_owned(),
            DeValue::Boolean(switch) => switch.to_string(),
            DeValue::String(word) if is_word => word.clone().into_owned(),
            DeValue::String(word) => {
                let unit = parameter.unit.label();
                let bare =
                    if unit.is_empty() { "a bare number".to_owned() } else { format!("a bare number of {unit}") };
                let bare = if parameter.unit == Unit::Switch { "true or false".to_owned() } else { bare };
                let what =
                    format!("{key} = \"{word}\": write {bare}, without quotes; allowed: {}", parameter.allowed());
                return Err(self.wrong(value.span(), what));
            }
            other => {
                let what = format!("{key} cannot be of type {}; allowed: {}", other.type_str(), parameter.allowed());
                return Err(self.wrong(value.span(), what));
            }
        };
        Ok(written)
    }

    /// `[[cylinders, milliseconds], ...]`: cylinders ascend from at least 1, milliseconds never
    /// fall.
    fn seek_table(&self, value: &Value<'_>) -> Result<Vec<(u64, u64)>, ModelError> {
        let shape = "seek_table is a list of [cylinders, milliseconds], ascending in both";
        let mut table: Vec<(u64, u64)> = Vec::new();
        for point in value.get_ref().as_array().ok_or_else(|| self.wrong(value.span(), shape))?.iter() {
            let pair = point.get_ref().as_array().filter(|pair| pair.len() == 2);
            let number = |index: usize, unit: Unit| match pair?.get(index)?.get_ref() {
                DeValue::Integer(integer) if integer.radix() == 10 => unit.parse(integer.as_str()),
                DeValue::Float(float) => unit.parse(float.as_str()),
                _ => None,
            };
            let (cylinders, ns) = (number(0, Unit::Count), number(1, Unit::Milliseconds));
            let sound = cylinders.zip(ns).filter(|(cylinders, ns)| {
                let (before, fewer) = table.last().map_or((0, 0), |last| (last.0, last.1));
                *cylinders > before && *ns >= fewer && *ns <= 10_000_000_000
            });
            table.push(sound.ok_or_else(|| self.wrong(point.span(), shape))?);
        }
        Ok(table)
    }

    fn text_of<'b>(&self, key: &str, value: &'b Value<'_>) -> Result<&'b str, ModelError> {
        value.get_ref().as_str().ok_or_else(|| self.wrong(value.span(), format!("{key} is a text: {key} = \"...\"")))
    }

    fn anchors(&self, value: &Value<'_>) -> Result<Vec<Anchor>, ModelError> {
        let list = value.get_ref().as_array();
        let list = list.ok_or_else(|| self.wrong(value.span(), "anchors begin with [[anchor]]"))?;
        list.iter().map(|entry| self.anchor(entry)).collect()
    }

    fn anchor(&self, entry: &Value<'_>) -> Result<Anchor, ModelError> {
        let Some(table) = entry.get_ref().as_table() else {
            return Err(self.wrong(entry.span(), "anchors begin with [[anchor]]"));
        };
        for (key, _) in in_order(table) {
            if !ANCHOR_KEYS.contains(&&**key.get_ref()) {
                let nearest = error::nearest(key.get_ref(), ANCHOR_KEYS.into_iter());
                let what = format!("an anchor has no '{}'; nearest: {nearest}", key.get_ref());
                return Err(self.wrong(key.span(), format!("{what}. All of them: {}", ANCHOR_KEYS.join(", "))));
            }
        }
        let text = |key: &str| table.get(key).map_or(Ok(""), |value| self.text_of(key, value));
        let needed = |key: &str| match table.get(key) {
            Some(value) => self.text_of(key, value),
            None => Err(self.wrong(entry.span(), format!("an anchor needs {key}"))),
        };
        let number = |key: &str, default: u64, highest: u64| match table.get(key) {
            Some(value) => self.number(key, value, highest),
            None => Ok(default),
        };
        let figure = self.figure(table, needed("figure")?)?;
        let (published, unit) = self.published(table, entry, figure, needed("unit")?)?;
        Ok(Anchor {
            name: needed("name")?.to_owned(),
            source: text("source")?.to_owned(),
            figure,
            published,
            unit,
            direction: self.direction(table)?,
            scheduler: needed("scheduler")?.to_owned(),
            machine: text("machine")?.to_owned(),
            job: needed("job")?.to_owned(),
            copies: u32::try_from(number("copies", 1, 1_000)?.max(1)).unwrap_or(1),
            stride_bytes: number("stride_mb", 0, MOST_MB)? * MB,
            random_bytes: number("random_mb", 0, MOST_MB)? * MB,
            stagger_ns: number("stagger_us", 0, 1_000_000_000)? * 1_000,
            repetitions: self.repetitions(table)?,
            is_provisional: match table.get("provisional") {
                None => false,
                Some(value) => {
                    value.get_ref().as_bool().ok_or_else(|| self.wrong(value.span(), "provisional is true or false"))?
                }
            },
        })
    }

    fn figure(&self, table: &DeTable<'_>, name: &str) -> Result<Figure, ModelError> {
        Figure::named(name).ok_or_else(|| {
            let all: Vec<_> = Figure::names().collect();
            let nearest = error::nearest(name, Figure::names());
            let what = format!("there is no figure '{name}'; nearest: {nearest}. All of them: {}", all.join(", "));
            self.wrong(span_of(table, "figure"), what)
        })
    }

    fn direction(&self, table: &DeTable<'_>) -> Result<Option<Direction>, ModelError> {
        let Some(value) = table.get("direction") else { return Ok(None) };
        match self.text_of("direction", value)? {
            "read" => Ok(Some(Direction::Read)),
            "write" => Ok(Some(Direction::Write)),
            other => Err(self.wrong(value.span(), format!("direction = \"{other}\" is not one of read, write"))),
        }
    }

    fn published(
        &self,
        table: &DeTable<'_>,
        entry: &Value<'_>,
        figure: Figure,
        unit: &str,
    ) -> Result<(Vec<f64>, String), ModelError> {
        if figure.worth(unit).is_none() {
            let (name, all): (_, Vec<_>) = (figure.name(), figure.units().collect());
            let what = format!("unit = \"{unit}\" is none of {name}; allowed: {}", all.join(", "));
            return Err(self.wrong(span_of(table, "unit"), what));
        }
        let value = table.get("published").ok_or_else(|| self.wrong(entry.span(), "an anchor needs published"))?;
        let all: Vec<&Value<'_>> = match value.get_ref() {
            DeValue::Array(list) => list.iter().collect(),
            _ => vec![value],
        };
        let positive = |value: &Value<'_>| {
            let number: Option<f64> = match value.get_ref() {
                DeValue::Integer(integer) => integer.as_str().parse().ok(),
                DeValue::Float(float) => float.as_str().parse().ok(),
                _ => None,
            };
            number.filter(|number| number.is_finite() && *number > 0.0)
        };
        let numbers: Option<Vec<f64>> = all.into_iter().map(positive).collect();
        let numbers = numbers.filter(|numbers| !numbers.is_empty());
        let wrong = || self.wrong(value.span(), format!("published is a number above 0 of {unit}, or a list of them"));
        Ok((numbers.ok_or_else(wrong)?, unit.to_owned()))
    }

    fn repetitions(&self, table: &DeTable<'_>) -> Result<Vec<Repetition>, ModelError> {
        let seeds = self.numbers(table, "seeds", i64::MAX as u64)?.unwrap_or_else(|| vec![1]);
        let offsets = self.numbers(table, "offsets_mb", MOST_MB)?.unwrap_or_else(|| vec![0; seeds.len()]);
        if seeds.is_empty() || seeds.len() > 1_000 || seeds.len() != offsets.len() {
            let (seeds, offsets) = (seeds.len(), offsets.len());
            let what =
                format!("{seeds} seeds and {offsets} offsets_mb: give 1 to 1000 seeds, and as many offsets or none");
            return Err(self.wrong(span_of(table, "seeds"), what));
        }
        let one = |(seed, offset_mb)| Repetition { seed, offset_bytes: offset_mb * MB };
        Ok(seeds.into_iter().zip(offsets).map(one).collect())
    }

    /// A list of whole numbers, or a single one.
    fn numbers(&self, table: &DeTable<'_>, key: &str, highest: u64) -> Result<Option<Vec<u64>>, ModelError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let all: Vec<&Value<'_>> = match value.get_ref() {
            DeValue::Array(list) => list.iter().collect(),
            _ => vec![value],
        };
        all.into_iter().map(|value| self.number(key, value, highest)).collect::<Result<_, _>>().map(Some)
    }

    fn number(&self, key: &str, value: &Value<'_>, highest: u64) -> Result<u64, ModelError> {
        let integer = value.get_ref().as_integer();
        let number = integer.and_then(|integer| u64::from_str_radix(integer.as_str(), integer.radix()).ok());
        let shown = integer.map_or_else(|| value.get_ref().type_str().to_owned(), ToString::to_string);
        let wrong = || self.wrong(value.span(), format!("{key} cannot be {shown}; allowed: 0 to {highest}"));
        number.filter(|number| *number <= highest).ok_or_else(wrong)
    }
}

/// A petabyte of distance is enough for every disk.
const MOST_MB: u64 = 1_000_000_000;

const ANCHOR_KEYS: [&str; 16] = [
    "name",
    "source",
    "figure",
    "published",
    "unit",
    "direction",
    "scheduler",
    "machine",
    "job",
    "copies",
    "stride_mb",
    "random_mb",
    "stagger_us",
    "seeds",
    "offsets_mb",
    "provisional",
];

/// The position of a key's value; the beginning of the file if it is missing.
fn span_of(table: &DeTable<'_>, key: &str) -> Range<usize> {
    table.get(key).map_or(0..0, Spanned::span)
}
