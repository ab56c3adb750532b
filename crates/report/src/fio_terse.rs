//! Parses fio's terse output (`--output-format=terse`, versions 2 to 5): one line per job, fields
//! separated by semicolons.
//!
//! For old results only: of latencies it contains only the completion percentiles, in microseconds.
//! Source: docs/specifications/harness.md, section 7.5; fields counted in the output of fio 3.33.

use hoistway_experiment::Diagnostic;

use crate::fio_json::{FioDirection, FioError, FioJob, FioLatency};

/// Where a version has its fields, from 0.
struct Layout {
    /// The job's name; its group and its error follow.
    name: usize,
    /// Number of fields of a direction: total KiB, KiB/s, IOPS, runtime, latencies, percentiles,
    /// bandwidth; in version 5 also samples of bandwidth and IOPS.
    direction_fields: usize,
    /// Whether trims follow reads and writes.
    has_trims: bool,
}

impl Layout {
    /// The layout of a line; `None` if it is no terse output.
    fn of(line: &str) -> Option<Layout> {
        let (version, rest) = line.split_once(';')?;
        let (name, direction_fields, has_trims) = match version {
            // Version 2 does not name the version of fio, so the number of fields has to tell.
            "2" if rest.split(';').count() > 3 + 3 * 41 => (1, 41, true),
            "3" if rest.starts_with("fio-") => (2, 41, false),
            "4" if rest.starts_with("fio-") => (2, 41, true),
            "5" if rest.starts_with("fio-") => (2, 47, true),
            _ => return None,
        };
        Some(Layout { name, direction_fields, has_trims })
    }
}

/// Whether a text is terse output of a known version: one of its lines is.
pub fn is_terse(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').lines().any(|line| Layout::of(line).is_some())
}

/// Parses all jobs of a text; other lines (notes) are skipped.
///
/// # Errors
/// A job failed, a line has too few fields, or a field is not a number.
pub fn read(text: &str) -> Result<Vec<FioJob>, FioError> {
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let jobs = lines.filter_map(|(index, line)| Some((index, line, Layout::of(line)?)));
    jobs.map(|(index, line, layout)| job(index + 1, line, &layout)).collect()
}

fn job(line_number: usize, line: &str, layout: &Layout) -> Result<FioJob, FioError> {
    let fields: Vec<&str> = line.split(';').collect();
    let unreadable = |what: String| {
        let help = "it ends too early or is damaged; fio --output-format=json+ is better";
        FioError::Unreadable(Diagnostic::new(format!("fio's terse output, line {line_number}: {what}"), help))
    };
    let first_of = |direction: usize| layout.name + 3 + direction * layout.direction_fields;
    let wanted = first_of(if layout.has_trims { 3 } else { 2 });
    if fields.len() < wanted {
        return Err(unreadable(format!("{} fields, at least {wanted} are expected", fields.len())));
    }
    let number = |at: usize| -> Result<f64, FioError> {
        let text = fields[at];
        text.parse().map_err(|_| unreadable(format!("field {} is not a number: '{text}'", at + 1)))
    };
    let name = fields[layout.name].to_owned();
    let error_at = layout.name + 2;
    if number(error_at)? != 0.0 {
        let what = format!("fio job '{name}' failed: error {}", fields[error_at]);
        return Err(FioError::JobFailed(Diagnostic::new(what, "fio's own messages precede its results")));
    }
    let direction = |first: usize| -> Result<FioDirection, FioError> {
        let (kib_per_s, iops, runtime_ms) = (number(first + 1)?, number(first + 2)?, number(first + 3)?);
        let total_bytes = fields[first].parse::<u64>().unwrap_or(0).saturating_mul(1024);
        // Submission: 4 fields, completion: 4, then 20 percentiles as `99.000000%=123`, then 4 of
        // the total.
        let percentile = |field: &&str| -> Option<(f64, f64)> {
            let (percent, us) = field.split_once("%=")?;
            Some((percent.parse().ok()?, us.parse::<f64>().ok()? * 1000.0))
        };
        let percentiles_ns: Vec<(f64, f64)> = fields[first + 12..first + 32]
            .iter()
            .filter_map(percentile)
            .filter(|(percent, _)| *percent > 0.0)
            .collect();
        let us = |at: usize| Ok::<f64, FioError>(number(first + at)? * 1000.0);
        let clat = FioLatency { min_ns: us(8)?, max_ns: us(9)?, mean_ns: us(10)?, percentiles_ns, histogram: None };
        let lat = FioLatency { min_ns: us(32)?, max_ns: us(33)?, mean_ns: us(34)?, ..FioLatency::default() };
        #[expect(clippy::cast_possible_truncation, reason = "a count of requests: positive and far below 2^53")]
        let total_ios = (iops * runtime_ms / 1000.0).round() as u64;
        Ok(FioDirection {
            bytes_per_s: kib_per_s * 1024.0,
            ios_per_s: iops,
            total_bytes,
            total_ios,
            runtime_ms,
            lat,
            clat,
        })
    };
    Ok(FioJob {
        name,
        group: fields[layout.name + 1].parse().unwrap_or(0),
        options: Vec::new(),
        read: direction(first_of(0))?,
        write: direction(first_of(1))?,
        trim: if layout.has_trims { direction(first_of(2))? } else { FioDirection::default() },
    })
}
