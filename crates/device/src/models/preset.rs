//! The models included in the program, and models in files: both have the same format and the same
//! reader.

use std::fs;
use std::io::Read;
use std::path::Path;

use super::anchor::Anchor;
use super::error::{self, ModelError};
use super::kind::Kind;
use super::{Model, Setting, file};
use crate::parameter::Unit;

/// A model included in the program.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ModelRow {
    /// The name after `model:`.
    pub name: &'static str,
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// The text of its file.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal $(| $alias:literal)*),* $(,)?) => {
        &[$(ModelRow {
            name: $name,
            aliases: &[$($alias),*],
            text: include_str!(concat!("../../presets/", $name, ".toml")),
        }),*]
    };
}

/// All models included in the program.
pub const MODELS: &[ModelRow] = presets![
    "null",
    "sata" | "hdd" | "sata-disk",
    "wd2500js",
    "ide2003",
    "raid5x12" | "raid5-array",
    "raid5x12-stream",
    "ssd" | "sata-ssd",
    "ssd-lsi",
    "ssd-plextor",
    "nvme" | "nvme-ssd",
    "nvme-gen4" | "pm9a3",
    "nvme-consumer",
    "nvme-slc",
    "qlc",
    "optane" | "p4800x",
    "nvme-cloud",
    "nvme-tcp",
    "ebs" | "gp3",
    "hdd-18tb",
    "hdd-2x18",
];

/// A model with the description in its file.
#[derive(Clone, PartialEq, Debug)]
pub struct Preset {
    /// One line for listings; may be empty in a user's file.
    pub doc: String,
    /// The model.
    pub model: Model,
    /// The measurements that it was fitted to.
    pub anchors: Vec<Anchor>,
    /// The text of its file.
    pub text: String,
}

/// Larger files are rejected.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Largest length of a chain of files based on each other.
const MAX_DEPTH: u32 = 8;

impl Preset {
    /// Finds a model by name, or reads it from a file (a name that contains a slash or ends in
    /// `.toml`).
    ///
    /// # Errors
    /// As [`Model::parse`].
    pub fn load(name: &str) -> Result<Self, ModelError> {
        Self::load_at(name, 0)
    }

    /// The model of a file's text. `file` is its name in messages, and relative `base` paths are
    /// relative to it.
    ///
    /// # Errors
    /// The first mistake with its line.
    pub fn read(file: &str, text: &str) -> Result<Self, ModelError> {
        file::read(file, text, 0)
    }

    /// `depth` is the number of files based on this one.
    pub(crate) fn load_at(name: &str, depth: u32) -> Result<Self, ModelError> {
        if depth > MAX_DEPTH {
            let what = format!("more than {MAX_DEPTH} models are based on each other; is one based on itself?");
            return Err(ModelError::new(name, what));
        }
        if is_path(name) {
            return file::read(name, &read_file(name)?, depth);
        }
        let row = MODELS.iter().find(|row| row.name == name || row.aliases.contains(&name));
        let row = row.ok_or_else(|| unknown(name))?;
        file::read(row.name, row.text, depth)
    }

    /// The model as the text of a complete file without a base: every parameter with its value and
    /// meaning.
    pub fn to_toml(&self) -> String {
        let mut text = format!("doc = {}\ntype = \"{}\"\n", quoted(&self.doc), self.model.kind.word());
        let defaults = Model::of_kind("", self.model.kind.clone()).settings();
        let mut members = String::from("\n[disk]\n");
        let mut own = 0;
        self.model.kind.clone().each(&mut |_, _, _| own += 1);
        for (index, (setting, default)) in self.model.settings().iter().zip(&defaults).enumerate() {
            let is_member = setting.key.strip_prefix(super::kind::MEMBER);
            // Caps, delays and faults are rarely used: only those that were set are written.
            let is_wanted = index < own || setting.value != default.value;
            let line = line(is_member.unwrap_or(&setting.key), setting);
            match is_member {
                Some(_) => members.push_str(&line),
                None if is_wanted => text.push_str(&line),
                None => {}
            }
        }
        if let Some(seed) = self.model.seed {
            text.push_str(&format!("seed = {seed}\n"));
        }
        let table = self.model.kind.clone().disk_mut().map(|disk| std::mem::take(&mut disk.seeks.seek_table));
        let table = table.filter(|table| !table.is_empty()).map_or_else(String::new, |table| {
            let points = table.iter().map(|(cylinders, ns)| format!("[{cylinders}, {}]", Unit::Milliseconds.show(*ns)));
            format!("seek_table = [{}]\n", points.collect::<Vec<_>>().join(", "))
        });
        match self.model.kind {
            Kind::Array(..) => text.push_str(&format!("{members}{table}")),
            _ => text.push_str(&table),
        }
        for anchor in &self.anchors {
            text.push('\n');
            text.push_str(&anchor.to_toml());
        }
        text
    }
}

/// Whether a model's name is a path.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
}

fn read_file(name: &str) -> Result<String, ModelError> {
    let wrong = |what: String| ModelError::new(format!("model:{name}"), what);
    let failed = |error: std::io::Error| wrong(format!("the file cannot be read: {error}"));
    let unsuitable = || wrong(format!("a model is a regular file of at most {MAX_FILE_BYTES} bytes"));
    if !fs::metadata(name).map_err(failed)?.is_file() {
        return Err(unsuitable());
    }
    let mut text = String::new();
    let mut file = fs::File::open(name).map_err(failed)?.take(MAX_FILE_BYTES + 1);
    // Files of the kernel report a length of zero, so the length is that of the text read.
    let bytes = file.read_to_string(&mut text).map_err(failed)?;
    if bytes as u64 > MAX_FILE_BYTES { Err(unsuitable()) } else { Ok(text) }
}

fn unknown(name: &str) -> ModelError {
    // Names come before aliases, because of two equally similar words the first one is chosen.
    let names = MODELS.iter().map(|row| row.name).chain(MODELS.iter().flat_map(|row| row.aliases.iter().copied()));
    let nearest = error::nearest(name, names);
    let all: Vec<_> = MODELS.iter().map(|row| row.name).collect();
    let all = all.join(", ");
    ModelError::new(
        format!("model:{name}"),
        format!("there is no device model '{name}'; nearest: {nearest}. All of them: {all}; a file: ./NAME.toml"),
    )
}

fn line(key: &str, setting: &Setting) -> String {
    let value = match setting.parameter.unit {
        Unit::Switch if setting.value == "0" => "false".to_owned(),
        Unit::Switch => "true".to_owned(),
        Unit::Choice(_) if setting.value.parse::<u64>().is_err() => quoted(&setting.value),
        _ => setting.value.clone(),
    };
    let start = format!("{key} = {value}");
    format!("{start:<32} # {} {}\n", setting.parameter.doc, setting.parameter.allowed())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
