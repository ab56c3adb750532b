//! One JSON line per finished run, so that an interrupted test can be resumed.
//!
//! The first line identifies the plan, each following one is a [`Measurement`]. A line is on stable
//! storage before the next run starts. An incomplete last line (the machine stopped while writing)
//! is removed when the journal is resumed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Experiment, Measurement};

/// Longest line that is read, so that a damaged file cannot use all memory.
const MAX_LINE_BYTES: u64 = 512 << 20;
/// Longest first line.
const MAX_HEADER_BYTES: u64 = 4 << 10;
/// Version of the format; others are not read.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    hoistway_journal: u32,
    /// [`Matrix::fingerprint`](crate::Matrix::fingerprint) in hexadecimal, because JSON numbers are
    /// exact only up to 2^53.
    plan: String,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It belongs to another plan.
    #[error(
        "{path} belongs to another plan ({found}, not {expected})\n  help: repeat the options of the first run, or choose another --outdir"
    )]
    OtherPlan {
        /// The file.
        path: PathBuf,
        /// Fingerprint of the requested plan.
        expected: String,
        /// Fingerprint found in it.
        found: String,
    },
    /// A line before the last is invalid.
    #[error(
        "{path}:{line}: {reason}\n  help: the file was changed by something else; start again with another --outdir"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Error of the parser.
        reason: String,
    },
}

/// An open journal, positioned at its end.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Creates a journal; `path` must not exist yet.
    pub fn create(path: &Path, plan: u64) -> Result<Self, JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        let mut journal = Self { path: path.to_owned(), file };
        journal.write_line(&Header { hoistway_journal: FORMAT, plan: hexadecimal(plan) })?;
        Ok(journal)
    }

    /// Opens a journal of the same plan; returns the measurements that it contains.
    pub fn resume(path: &Path, plan: u64) -> Result<(Self, Vec<Measurement>), JournalError> {
        let failed = |source| JournalError::Io { path: path.to_owned(), source };
        check_regular(path)?;
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let (found, measurements, whole_bytes) = read_lines(path, &file)?;
        let expected = hexadecimal(plan);
        if found != expected {
            return Err(JournalError::OtherPlan { path: path.to_owned(), expected, found });
        }
        file.set_len(whole_bytes).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok((Self { path: path.to_owned(), file }, measurements))
    }

    /// Appends a finished run; returns when it is on stable storage.
    pub fn append(&mut self, measurement: &Measurement) -> Result<(), JournalError> {
        self.write_line(measurement)
    }

    fn write_line(&mut self, entry: &impl Serialize) -> Result<(), JournalError> {
        let written = serde_json::to_vec(entry).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.write_all(&line)?;
            self.file.sync_data()
        });
        written.map_err(|source| JournalError::Io { path: self.path.clone(), source })
    }
}

/// Reads the measurements of a journal of any plan.
pub fn read(path: &Path) -> Result<Vec<Measurement>, JournalError> {
    check_regular(path)?;
    let file = File::open(path).map_err(|source| JournalError::Io { path: path.to_owned(), source })?;
    read_lines(path, &file).map(|(_, measurements, _)| measurements)
}

/// Other kinds of files may never end, or block because nothing writes to them.
fn check_regular(path: &Path) -> Result<(), JournalError> {
    let failed = |source| JournalError::Io { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(());
    }
    Err(failed(io::Error::other("it is no regular file")))
}

/// The experiments without a measurement, in order.
pub fn missing(experiments: Vec<Experiment>, measurements: &[Measurement]) -> Vec<Experiment> {
    let done = |experiment: &Experiment| measurements.iter().any(|m| m.experiment == *experiment);
    experiments.into_iter().filter(|experiment| !done(experiment)).collect()
}

/// Plan, measurements, and the length of the complete lines.
fn read_lines(path: &Path, file: &File) -> Result<(String, Vec<Measurement>, u64), JournalError> {
    let failed = |source| JournalError::Io { path: path.to_owned(), source };
    let damaged = |line, reason: String| JournalError::Damaged { path: path.to_owned(), line, reason };
    let (mut reader, mut text) = (BufReader::new(file), String::new());
    let (mut plan, mut measurements, mut whole_bytes) = (None, Vec::new(), 0);
    for line in 1.. {
        text.clear();
        let limit = if line == 1 { MAX_HEADER_BYTES } else { MAX_LINE_BYTES };
        let bytes = reader.by_ref().take(limit).read_line(&mut text).map_err(failed)?;
        if bytes as u64 == limit && !text.ends_with('\n') {
            return Err(damaged(line, format!("the line is longer than {limit} bytes")));
        }
        if !text.ends_with('\n') {
            // The end, or a line that was being written when the machine stopped.
            break;
        }
        if line == 1 {
            let header: Header = serde_json::from_str(&text)
                .map_err(|_| damaged(line, "this is not a journal of hoistway".to_owned()))?;
            if header.hoistway_journal != FORMAT {
                return Err(damaged(line, format!("format {}, this program reads {FORMAT}", header.hoistway_journal)));
            }
            plan = Some(header.plan);
        } else {
            measurements.push(serde_json::from_str(&text).map_err(|error| damaged(line, error.to_string()))?);
        }
        whole_bytes += bytes as u64;
    }
    let plan = plan.ok_or_else(|| damaged(1, "the file is empty".to_owned()))?;
    Ok((plan, measurements, whole_bytes))
}

fn hexadecimal(plan: u64) -> String {
    format!("{plan:016x}")
}
