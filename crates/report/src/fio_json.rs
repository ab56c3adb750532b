//! Parses the output of fio's `--output-format=json`, even if notes precede it or the
//! human-readable report follows. Output without a complete document is an error that says where it
//! ends, or that it has no JSON.
//!
//! Accepted: fio 2 (`clat` in microseconds) to the newest, json and json+. Unknown keys are
//! ignored. Of several documents (`--status-interval`) the last complete one counts. A job with an
//! error makes the whole output fail. Source: docs/specifications/harness.md, section 7.2.

use hoistway_experiment::{Diagnostic, Histogram};
use serde_json::Value;

/// One entry of `jobs`.
#[derive(Clone, PartialEq, Debug)]
pub struct FioJob {
    /// `jobname`.
    pub name: String,
    /// `groupid`.
    pub group: u64,
    /// `job options` after `global options`, as fio repeats them.
    pub options: Vec<(String, String)>,
    /// Reads.
    pub read: FioDirection,
    /// Writes.
    pub write: FioDirection,
    /// Trims; all zero in old documents.
    pub trim: FioDirection,
}

/// One direction of a job.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FioDirection {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Requests per second.
    pub ios_per_s: f64,
    /// Bytes transferred.
    pub total_bytes: u64,
    /// Requests completed.
    pub total_ios: u64,
    /// Runtime in milliseconds; 0 without I/O or if the document does not contain it.
    pub runtime_ms: f64,
    /// Latency as the application saw it, including submission.
    pub lat: FioLatency,
    /// Latency from submission; close to zero if the submitting call did the I/O.
    pub clat: FioLatency,
}

/// Latency figures, always in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FioLatency {
    /// Minimum.
    pub min_ns: f64,
    /// Maximum.
    pub max_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Percentile (0 to 100) and latency; empty if fio did not output them.
    pub percentiles_ns: Vec<(f64, f64)>,
    /// The buckets of json+. Percentiles over several jobs are computed from the merged buckets.
    pub histogram: Option<Histogram>,
}

/// Why fio's output cannot be used.
#[derive(Clone, PartialEq, Debug)]
pub enum FioError {
    /// The document cannot be parsed (exit 2).
    Unreadable(Diagnostic),
    /// fio reports that a job failed (exit 1).
    JobFailed(Diagnostic),
}

impl std::fmt::Display for FioError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.diagnostic().fmt(f)
    }
}

impl std::error::Error for FioError {}

impl FioError {
    /// The message for the user.
    pub fn diagnostic(&self) -> &Diagnostic {
        match self {
            FioError::Unreadable(diagnostic) | FioError::JobFailed(diagnostic) => diagnostic,
        }
    }
}

const RERUN: &str = "run fio again with --output-format=json (or json+) --output=FILE and let it finish";

/// Parses fio's output.
pub fn read(text: &str) -> Result<Vec<FioJob>, FioError> {
    let document = last_document(text.trim_start_matches('\u{feff}')).map_err(FioError::Unreadable)?;
    let unreadable = |what: String| FioError::Unreadable(Diagnostic::new(what, RERUN));
    let json: Value = serde_json::from_str(document).map_err(|error| unreadable(format!("fio output: {error}")))?;
    // A client (`fio --client`) lists the jobs of all servers, and then their sum.
    let listed = json.get("jobs").or_else(|| json.get("client_stats"));
    let mut jobs =
        listed.and_then(Value::as_array).ok_or_else(|| unreadable("fio output has no jobs[]".into()))?.clone();
    if jobs.len() > 1 && json.get("client_stats").is_some() {
        jobs.retain(|job| job.get("jobname").and_then(Value::as_str) != Some("All clients"));
    }
    if jobs.is_empty() {
        let help = "fio ran no job, or a tool removed the jobs: use a file with results";
        return Err(FioError::Unreadable(Diagnostic::new("fio output has no results: its jobs[] is empty", help)));
    }
    let globals = options(json.get("global options"));
    jobs.iter().enumerate().map(|(index, value)| job(index, value, &globals)).collect()
}

/// Options by name, as text.
fn options(value: Option<&Value>) -> Vec<(String, String)> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn job(index: usize, value: &Value, globals: &[(String, String)]) -> Result<FioJob, FioError> {
    let missing =
        |key: &str| FioError::Unreadable(Diagnostic::new(format!("fio output has no jobs[{index}].{key}"), RERUN));
    let name = value.get("jobname").and_then(Value::as_str).ok_or_else(|| missing("jobname"))?.to_owned();
    let error = value.get("error").and_then(Value::as_i64).unwrap_or(0);
    if error != 0 {
        let reason = std::io::Error::from_raw_os_error(i32::try_from(error.abs()).unwrap_or(i32::MAX));
        let what = format!("fio job '{name}' failed: {reason}");
        return Err(FioError::JobFailed(Diagnostic::new(what, "fio's own messages precede its JSON")));
    }
    let part = |key: &str, required: bool| match value.get(key) {
        Some(value) => direction(value).map_err(|inner| missing(&format!("{key}.{inner}"))),
        None if required => Err(missing(key)),
        None => Ok(FioDirection::default()),
    };
    let group = value.get("groupid").and_then(Value::as_u64).unwrap_or(0);
    let (read, write, trim) = (part("read", true)?, part("write", true)?, part("trim", false)?);
    let options = [globals.to_vec(), options(value.get("job options"))].concat();
    Ok(FioJob { name, group, options, read, write, trim })
}

/// A direction, or the missing key.
fn direction(value: &Value) -> Result<FioDirection, &'static str> {
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    let bytes_per_s = number("bw_bytes").or_else(|| number("bw").map(|kib| kib * 1024.0)).ok_or("bw_bytes")?;
    let total_ios = value.get("total_ios").and_then(Value::as_u64).ok_or("total_ios")?;
    // In fio 2 `io_bytes` counts KiB; fio 3 also has `io_kbytes`, and counts bytes.
    let unit = if value.get("io_kbytes").is_some() { 1 } else { 1024 };
    let total_bytes = value.get("io_bytes").and_then(Value::as_u64).unwrap_or(0) * unit;
    // Before fio 3.0 the keys had no unit and were in microseconds.
    let latency = |new: &str, old: &str| match (value.get(new), value.get(old)) {
        (Some(value), _) => latency(value, 1.0),
        (None, Some(value)) => latency(value, 1000.0),
        (None, None) => FioLatency::default(),
    };
    let (lat, clat) = (latency("lat_ns", "lat"), latency("clat_ns", "clat"));
    let (ios_per_s, runtime_ms) = (number("iops").unwrap_or(0.0), number("runtime").unwrap_or(0.0));
    Ok(FioDirection { bytes_per_s, ios_per_s, total_bytes, total_ios, runtime_ms, lat, clat })
}

fn latency(value: &Value, unit_ns: f64) -> FioLatency {
    let number = |key: &str| value.get(key).and_then(Value::as_f64).unwrap_or(0.0) * unit_ns;
    let pairs = |key: &str| -> Vec<(f64, f64)> {
        let entries = value.get(key).and_then(Value::as_object).into_iter().flatten();
        let mut pairs: Vec<(f64, f64)> =
            entries.filter_map(|(key, value)| Some((key.parse().ok()?, value.as_f64()?))).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        pairs
    };
    let bins = value.get("bins").and_then(Value::as_object).filter(|bins| !bins.is_empty());
    let histogram = bins.map(|bins| {
        Histogram::from_bins(bins.iter().filter_map(|(ns, count)| Some((ns.parse().ok()?, count.as_u64()?))))
    });
    let percentiles_ns = pairs("percentile").into_iter().map(|(percent, value)| (percent, value * unit_ns)).collect();
    FioLatency { min_ns: number("min"), max_ns: number("max"), mean_ns: number("mean"), percentiles_ns, histogram }
}

/// The last complete document. Each starts with a line that begins with `{`, as written by fio and
/// tools that rewrite JSON.
fn last_document(text: &str) -> Result<&str, Diagnostic> {
    let mut found = None;
    let mut at = 0;
    loop {
        match begin_of_document(text, at) {
            None => {
                return found
                    .ok_or_else(|| Diagnostic::new("fio output has no line '{': there is no JSON in it", RERUN));
            }
            Some(begin) => match end_of_document(&text[begin..]) {
                Ok(length) => {
                    found = Some(&text[begin..begin + length]);
                    at = begin + length;
                }
                // fio was stopped while writing the next of several documents; the previous one
                // counts.
                Err(_) if found.is_some() => return found.ok_or_else(|| Diagnostic::new("no document", RERUN)),
                Err(path) => {
                    let place = if path.is_empty() { String::new() } else { format!(" inside \"{path}\"") };
                    return Err(Diagnostic::new(format!("fio output ends at byte {}{place}", text.len()), RERUN));
                }
            },
        }
    }
}

/// Position of the next line that begins with `{`, from `at` on; must not be called inside of a
/// document.
fn begin_of_document(text: &str, at: usize) -> Option<usize> {
    let mut begin = at;
    for line in text[at..].split_inclusive('\n') {
        if line.starts_with('{') {
            return Some(begin);
        }
        begin += line.len();
    }
    None
}

/// A nesting level of the document.
enum Level {
    Object { key: String },
    Array { index: usize },
}

/// Length of the document at the start of `text`, or the path at which the text ends too early.
fn end_of_document(text: &str) -> Result<usize, String> {
    let mut levels: Vec<Level> = Vec::new();
    let mut expects_key = false;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '{' => levels.push(Level::Object { key: String::new() }),
            '[' => levels.push(Level::Array { index: 0 }),
            '}' | ']' => {
                levels.pop();
                if levels.is_empty() {
                    return Ok(at + 1);
                }
            }
            ',' => {
                if let Some(Level::Array { index }) = levels.last_mut() {
                    *index += 1;
                }
            }
            '"' => {
                let Some(string) = string(&mut characters) else { return Err(path(&levels)) };
                if let (true, Some(Level::Object { key })) = (expects_key, levels.last_mut()) {
                    *key = string;
                }
            }
            _ => {}
        }
        // A key follows the opening of an object and the comma between its entries.
        expects_key = match character {
            '{' => true,
            ',' => matches!(levels.last(), Some(Level::Object { .. })),
            character if character.is_whitespace() => expects_key,
            _ => false,
        };
    }
    Err(path(&levels))
}

/// The rest of a string after its opening quote; `None` if the text ends first.
fn string(characters: &mut std::str::CharIndices<'_>) -> Option<String> {
    let mut string = String::new();
    while let Some((_, character)) = characters.next() {
        match character {
            '"' => return Some(string),
            '\\' => string.push(characters.next()?.1),
            other => string.push(other),
        }
    }
    None
}

fn path(levels: &[Level]) -> String {
    let mut path = String::new();
    for level in levels {
        match level {
            Level::Object { key } if key.is_empty() => {}
            Level::Object { key } if path.is_empty() => path.push_str(key),
            Level::Object { key } => path.push_str(&format!(".{key}")),
            Level::Array { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}
