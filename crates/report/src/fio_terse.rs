//! Parses fio's terse output (`--output-format=terse`, version 3): one line per job, fields
//! separated by semicolons.
//!
//! For old results only: of latencies it contains only the completion percentiles, in microseconds.
//! Source: docs/specifications/harness.md, section 7.5; fields counted in the output of fio 3.33.

use experiment::Diagnostic;

use crate::fio_json::{FioDirection, FioError, FioJob, FioLatency};

/// Number of fields of a direction: total KiB, KiB/s, IOPS, runtime, latencies, percentiles,
/// bandwidth.
const DIRECTION_FIELDS: usize = 41;
/// First field of reads, from 0; the fields of writes follow those of reads.
const READ: usize = 5;

/// Whether a text is terse output: one of its lines begins with `3;fio-`.
pub fn is_terse(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("3;fio-"))
}

/// Parses all jobs of a text; other lines (notes) are skipped.
///
/// # Errors
/// A job failed, a line has too few fields, or a field is not a number.
pub fn read(text: &str) -> Result<Vec<FioJob>, FioError> {
    let jobs = text.lines().enumerate().filter(|(_, line)| line.starts_with("3;fio-"));
    jobs.map(|(index, line)| job(index + 1, line)).collect()
}

fn job(line_number: usize, line: &str) -> Result<FioJob, FioError> {
    let fields: Vec<&str> = line.split(';').collect();
    let unreadable = |what: String| {
        let help = "only terse version 3 is supported; fio --output-format=json+ is better";
        FioError::Unreadable(Diagnostic::new(format!("fio's terse output, line {line_number}: {what}"), help))
    };
    let wanted = READ + 2 * DIRECTION_FIELDS;
    if fields.len() < wanted {
        return Err(unreadable(format!("{} fields, at least {wanted} are expected", fields.len())));
    }
    let number = |at: usize| -> Result<f64, FioError> {
        let text = fields[at];
        text.parse().map_err(|_| unreadable(format!("field {} is not a number: '{text}'", at + 1)))
    };
    let name = fields[2].to_owned();
    if number(4)? != 0.0 {
        let what = format!("fio job '{name}' failed: error {}", fields[4]);
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
        group: fields[3].parse().unwrap_or(0),
        options: Vec::new(),
        read: direction(READ)?,
        write: direction(READ + DIRECTION_FIELDS)?,
        trim: FioDirection::default(),
    })
}
