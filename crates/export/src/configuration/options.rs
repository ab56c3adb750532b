//! Options of a flag, `KEY=VALUE[,KEY=VALUE...]`, read as the table of a file that has these keys.
//!
//! `--group tenants/db,weight=300,read_bps_max=50MiB` is `[[group]]` with `path = "tenants/db"`, `weight = 300` and
//! `read_bps_max = "50MiB"`. So a flag takes what the file takes, and the same values.

use std::collections::BTreeMap;
use std::fmt::Write;

use toml::de::DeTable;

use super::problem::{Place, Problem};
use super::reader::{Reader, Source};

/// Options in the order given. A key may be given several times, where the file takes a list.
#[derive(Clone, Debug, Default)]
pub struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    /// Options from the pieces between commas; a key without a value is switched on.
    pub fn parse(pieces: impl Iterator<Item = &'a str>) -> Self {
        let pieces = pieces.filter(|piece| !piece.is_empty());
        Self(pieces.map(|piece| piece.split_once('=').unwrap_or((piece, "true"))).collect())
    }

    /// The same and another one.
    #[must_use]
    pub fn with(mut self, key: &'a str, value: &'a str) -> Self {
        self.0.push((key, value));
        self
    }

    /// The first of these keys that is given.
    pub fn first_of(&self, keys: &[&'a str]) -> Option<&'a str> {
        keys.iter().copied().find(|key| self.0.iter().any(|(given, _)| given == key))
    }

    /// Reads them as a table.
    ///
    /// # Errors
    /// All problems of the options, at the flag's place.
    pub fn read<T>(&self, place: &Place, read: impl FnOnce(Reader<'_>) -> T) -> Result<T, Vec<Problem>> {
        let text = self.table();
        let source = Source::of_flag(&text, place.clone());
        let (table, errors) = DeTable::parse_recoverable(&text);
        if let Some(error) = errors.first() {
            let what = format!("the options cannot be read: {}", error.message());
            return Err(vec![Problem::new(place, what, "write them as KEY=VALUE, with commas between")]);
        }
        let value = read(Reader::new(&source, "the flag", table.get_ref(), place.clone()));
        let problems = source.problems.into_inner();
        if problems.is_empty() { Ok(value) } else { Err(problems) }
    }

    fn table(&self) -> String {
        let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (key, value) in &self.0 {
            values.entry(key).or_default().push(quoted(value));
        }
        let mut text = String::new();
        for (key, values) in values {
            // A dot leads to a table below: `io.max`.
            let key: Vec<String> = key.split('.').map(quoted).collect();
            let value = if let [only] = &values[..] { only.clone() } else { format!("[{}]", values.join(", ")) };
            // Writing into a text cannot fail.
            let _ = writeln!(text, "{} = {value}", key.join("."));
        }
        text
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_a_table() {
        let options = Options::parse("weight=3,io.max=rbps=5 wiops=max,exports=a,exports=b-*,list".split(','));
        let table = "\"exports\" = [\"a\", \"b-*\"]\n\"io\".\"max\" = \"rbps=5 wiops=max\"\n\"list\" = \"true\"\n\
                     \"weight\" = \"3\"\n";
        assert_eq!(options.table(), table);
    }

    #[test]
    fn any_letters_are_read_back() {
        let text = "a \"quoted\" \\ path\twith\u{1}\u{7f}\u{85}ä\n";
        let read = Options::default().with("key", text).read(&Place::default(), |mut reader| reader.text("key"));
        assert_eq!(read.unwrap().unwrap().value, text);
    }
}
