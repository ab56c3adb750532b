//! The result directory: plan, journal during the runs, results at the end; and reading one again.
//! Source: docs/specifications/harness.md, section 5.8.
//!
//! ```text
//! DIR/plan.json env.json journal.jsonl        written as the test goes on
//! DIR/result.json report.txt report.html      written at its end
//! DIR/runs/<workload>/<scheduler>/nr<N>/set<K>.json (fio's layout), set<K>.samples.csv
//! ```

use hoistway_linux::input::Ceiling;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hoistway_experiment::journal::{self, Journal};
use hoistway_experiment::{Matrix, Measurement};
use hoistway_report::Results;
use serde::{Deserialize, Serialize};

use super::{foreign, logs, show};
use crate::exit::Error;

const PLAN: &str = "plan.json";
const ENVIRONMENT: &str = "env.json";
const JOURNAL: &str = "journal.jsonl";

/// An open result directory.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    journal: Journal,
}

/// The properties of a test besides its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Head {
    /// Its start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The host's name.
    pub host: String,
    /// Largest number of repetitions.
    pub max_sets: u32,
    /// The plan.
    pub matrix: Matrix,
}

/// A stored test.
#[derive(Debug)]
pub struct Stored {
    /// The properties of the test.
    pub head: Head,
    /// The machine on which it ran.
    pub environment: BTreeMap<String, String>,
    /// Its runs, in the plan's order.
    pub measurements: Vec<Measurement>,
}

impl Store {
    /// Creates the directory and begins the journal; an existing directory must be empty.
    pub fn create(directory: &Path, head: &Head, environment: &BTreeMap<String, String>) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::file(directory, "create the result directory", &error);
        fs::create_dir_all(directory).map_err(failed)?;
        if fs::read_dir(directory).map_err(failed)?.next().is_some() {
            let what = format!("{} exists and is not empty", directory.display());
            return Err(Error::usage(what, "choose another --outdir, or continue with --resume").at("--outdir"));
        }
        write_json(&directory.join(PLAN), head)?;
        write_json(&directory.join(ENVIRONMENT), environment)?;
        let journal = Journal::create(&directory.join(JOURNAL), head.matrix.fingerprint())?;
        Ok(Self { directory: directory.to_owned(), journal })
    }

    /// Resumes a directory of the same plan; returns its runs and properties.
    pub fn resume(directory: &Path, matrix: &Matrix) -> Result<(Self, Stored), Error> {
        let stored = read(directory)?;
        let (journal, _) = Journal::resume(&directory.join(JOURNAL), matrix.fingerprint())?;
        Ok((Self { directory: directory.to_owned(), journal }, stored))
    }

    /// Appends a finished run; it is on stable storage when this returns.
    pub fn append(&mut self, measurement: &Measurement) -> Result<(), Error> {
        Ok(self.journal.append(measurement)?)
    }

    /// Writes everything that is derived from the runs.
    pub fn finish(&self, results: &Results<'_>) -> Result<(), Error> {
        write(&self.directory.join("result.json"), &hoistway_report::json::result(results).document())?;
        write(&self.directory.join("report.txt"), &show::stored_text(results))?;
        write(&self.directory.join("report.html"), &hoistway_report::page::html(results))?;
        for run in results.measurements {
            let directory = self.directory.join(hoistway_report::json::run_directory(run));
            fs::create_dir_all(&directory).map_err(|error| Error::file(&directory, "create", &error))?;
            let set = run.experiment.set;
            write(&directory.join(format!("set{set}.json")), &hoistway_report::json::fio(results, [run]).document())?;
            write(&directory.join(format!("set{set}.samples.csv")), &hoistway_report::csv::samples(run))?;
            logs::write(&directory, run)?;
        }
        Ok(())
    }

    /// The path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Reads a result directory, or fio's output, which may come from a pipe.
pub fn read(directory: &Path) -> Result<Stored, Error> {
    if directory.exists() && !directory.is_dir() {
        return foreign::read(directory);
    }
    let plan = directory.join(PLAN);
    if !plan.exists() {
        let what = format!("{} is not a result directory: it has no {PLAN}", directory.display());
        return Err(Error::usage(what, "name a directory written by hoistway test: hoistway-test-..."));
    }
    let head: Head = read_json(&plan)?;
    let environment = read_json(&directory.join(ENVIRONMENT))?;
    let mut measurements = journal::read(&directory.join(JOURNAL))?;
    sort(&mut measurements, &head);
    Ok(Stored { head, environment, measurements })
}

/// Sorts runs into the plan's order.
pub fn sort(measurements: &mut [Measurement], head: &Head) {
    let mut plan = head.matrix.experiments();
    plan.extend((head.matrix.sets + 1..=head.max_sets).flat_map(|set| head.matrix.interleaved_set(set)));
    measurements.sort_by_cached_key(|m| plan.iter().position(|experiment| *experiment == m.experiment));
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text =
        hoistway_linux::input::text(path, Ceiling::RESULTS).map_err(|error| Error::file(path, "read", &error))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::usage(format!("{}: {error}", path.display()), "the file was changed by something else"))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    // Plain data with string keys: serialising it as JSON cannot fail.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    write(path, &format!("{text}\n"))
}

/// Writes a whole file.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::file(path, "write", &error))
}
