//! The trials of a calibration, written beside its output as they end, so that the same command
//! continues after it was interrupted. The search has no chance in it: with the same trials it goes
//! the same way, and the result is that of an uninterrupted run.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::exit::Error;
use hoistway_study::calibration::search::Residuals;

/// Trials by the text of their model.
pub struct Journal {
    /// None: the model goes to stdout, and nothing is kept.
    path: Option<PathBuf>,
    known: HashMap<String, Residuals>,
}

impl Journal {
    /// The trials of an interrupted calibration to `output` that had the same model and rows;
    /// `identity` is a text of both. Trials of another one are dropped.
    pub fn open(output: Option<&Path>, identity: &str) -> Result<Self, Error> {
        let Some(output) = output else { return Ok(Self { path: None, known: HashMap::new() }) };
        let mut name = output.as_os_str().to_owned();
        name.push(".trials");
        let path = PathBuf::from(name);
        let first = format!("hoistway calibration {:016x}", fingerprint(identity));
        let text = fs::read_to_string(&path).unwrap_or_default();
        let known = match text.strip_prefix(&first) {
            // The last line may have been cut short.
            Some(rest) => rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).filter_map(trial).collect(),
            None => HashMap::new(),
        };
        if known.is_empty() {
            fs::write(&path, format!("{first}\n")).map_err(|error| Error::file(&path, "write", &error))?;
        }
        Ok(Self { path: Some(path), known })
    }

    /// Number of trials that need not be repeated.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// The errors of this model, if it was tried.
    pub fn get(&self, model: &str) -> Option<&Residuals> {
        self.known.get(model)
    }

    /// Adds trials that ended.
    pub fn add(&mut self, trials: Vec<(String, Residuals)>) -> Result<(), Error> {
        if let Some(path) = &self.path {
            let lines: String = trials.iter().map(|(model, residuals)| line(model, residuals)).collect();
            let file = fs::OpenOptions::new().append(true).open(path);
            file.and_then(|mut file| file.write_all(lines.as_bytes()))
                .map_err(|error| Error::file(path, "write", &error))?;
        }
        self.known.extend(trials);
        Ok(())
    }

    /// The calibration has its result: removes the file.
    pub fn remove(&self) {
        if let Some(path) = &self.path {
            // A file that stays behind costs nothing: its trials are right.
            let _ = fs::remove_file(path);
        }
    }
}

fn line(model: &str, residuals: &Residuals) -> String {
    let mut text = model.to_owned();
    match residuals {
        // The shortest form that reads back as the same number.
        Some(values) => values.iter().for_each(|value| {
            let _ = write!(text, "\t{value:?}");
        }),
        None => text.push_str("\tinvalid"),
    }
    text.push('\n');
    text
}

fn trial(line: &str) -> Option<(String, Residuals)> {
    let (model, values) = line.trim_end_matches('\n').split_once('\t')?;
    let residuals = match values {
        "invalid" => None,
        _ => Some(values.split('\t').map(|value| value.parse().ok()).collect::<Option<Vec<f64>>>()?),
    };
    Some((model.to_owned(), residuals))
}

/// FNV-1a: stable over builds, as the standard library's hash is not.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_read_back_exactly_and_only_under_their_identity() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("my.toml");
        let mut journal = Journal::open(Some(&output), "rows").unwrap();
        let trials = vec![("m,a=1".to_owned(), Some(vec![0.1 + 0.2, -1e-17])), ("m,a=2".to_owned(), None)];
        journal.add(trials.clone()).unwrap();
        // A line that was cut by the end of the process.
        let path = directory.path().join("my.toml.trials");
        fs::write(&path, fs::read_to_string(&path).unwrap() + "m,a=3\t0.25").unwrap();
        let again = Journal::open(Some(&output), "rows").unwrap();
        assert_eq!(again.len(), 2);
        assert!(trials.iter().all(|(model, residuals)| again.get(model) == Some(residuals)));
        assert_eq!(Journal::open(Some(&output), "other rows").unwrap().len(), 0);
        assert_eq!(Journal::open(Some(&output), "rows").unwrap().len(), 0, "the other one has begun anew");
        again.remove();
        assert!(!path.exists());
    }
}
