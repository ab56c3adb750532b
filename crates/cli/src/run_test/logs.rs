//! The log files that jobs ask for (write_bw_log and similar, write_iolog), in fio's format.
//! Source: docs/specifications/harness.md, section 7.6.
//!
//! They are stored beside the run's own files: `runs/.../set1/PREFIX_bw.1.log`. Times count from
//! the beginning of the measured window. There is one latency here, from the submitting call to the
//! observed completion: `_clat` equals `_lat`, and there is no `_slat`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_experiment::Measurement;
use hoistway_experiment::log::{LoggedHistogram, LoggedIo, LoggedSpan, ThreadLog};
use hoistway_workload::output::Output;

use super::store;
use crate::exit::{Error, Reporter};

/// Warns about logs that are not stored, and about logs that were cut.
pub fn check(is_stored: bool, measurements: &[Measurement], reporter: Reporter) {
    let has_logs = measurements.iter().any(|run| run.experiment.issuers().any(|it| it.job.output.is_wanted()));
    if has_logs && !is_stored {
        reporter
            .warn("logs of jobs are written to the result directory, but --no-store was given", "leave --no-store out");
    }
    let threads = measurements.iter().flat_map(|run| &run.groups).flat_map(|group| &group.threads);
    if threads.filter_map(|thread| thread.log.as_ref()).any(|log| log.is_cut) {
        reporter.warn("a log is too long and was cut", "use log_avg_msec=100 for a shorter log");
    }
}

/// Writes the logs of a run below its directory.
pub fn write(directory: &Path, run: &Measurement) -> Result<(), Error> {
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for (index, group) in run.groups.iter().enumerate() {
        let places = run.experiment.issuers().filter(|place| place.group == index);
        for (place, thread) in places.zip(&group.threads) {
            if let Some(log) = &thread.log {
                let number = u64::from(place.job.first_thread) + u64::from(place.thread) + 1;
                let file = format!("{}.{}.0", place.job.name, place.thread).replace(char::is_whitespace, "_");
                add(&mut files, (&place.job.output, log), number, &file);
            }
        }
    }
    let directory = directory.join(format!("set{}", run.experiment.set));
    for (name, text) in files {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(&directory);
        fs::create_dir_all(parent).map_err(|error| Error::file(parent, "create", &error))?;
        store::write(&path, &text)?;
    }
    Ok(())
}

fn add(files: &mut BTreeMap<PathBuf, String>, (output, log): (&Output, &ThreadLog), number: u64, file: &str) {
    let mut file_of = |prefix: &str, kind: &str, text: String| {
        let suffix = if output.in_one_file { ".log".to_owned() } else { format!(".{number}.log") };
        let name = if kind.is_empty() { inside(prefix) } else { inside(&format!("{prefix}_{kind}{suffix}")) };
        *files.entry(name).or_default() += &text;
    };
    let prefixes = [&output.bandwidth_log, &output.ios_log, &output.latency_log];
    let names: [&[&str]; 3] = [&["bw"], &["iops"], &["lat", "clat"]];
    let values: [fn(&Entry) -> u64; 3] = [Entry::kib_per_s, Entry::ios_per_s, |entry| entry.latency_ns];
    for ((prefix, names), value) in prefixes.into_iter().zip(names).zip(values) {
        let Some(prefix) = prefix else { continue };
        let ios = log.ios.iter().map(|io| line(&Entry::from(io), value, output));
        let spans = log.spans.iter().map(|span| line(&Entry::from(span), value, output));
        let text: String = ios.chain(spans).collect();
        names.iter().for_each(|name| file_of(prefix, name, text.clone()));
    }
    if let Some(prefix) = &output.histogram_log {
        file_of(prefix, "clat_hist", log.histograms.iter().map(|it| histogram(it, output)).collect());
    }
    if let Some(name) = &output.iolog {
        file_of(name, "", iolog(log, file));
    }
}

/// A name below the directory, whatever the job file specifies.
fn inside(name: &str) -> PathBuf {
    Path::new(name).components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The data of one line: one I/O, or several.
struct Entry {
    at_ns: u64,
    length_ns: u64,
    ios: u64,
    bytes: u64,
    latency_ns: u64,
    direction: u8,
    /// Length, offset and priority of a single I/O.
    single: Option<(u32, u64, u16)>,
}

impl From<&LoggedIo> for Entry {
    fn from(io: &LoggedIo) -> Self {
        Self {
            at_ns: io.at_ns,
            // fio computes the bandwidth of one I/O from its own latency.
            length_ns: io.latency_ns.max(1),
            ios: 1,
            bytes: u64::from(io.bytes),
            latency_ns: io.latency_ns,
            direction: io.direction,
            single: Some((io.bytes, io.offset_bytes, io.priority_bits)),
        }
    }
}

impl From<&LoggedSpan> for Entry {
    fn from(span: &LoggedSpan) -> Self {
        let LoggedSpan { end_ns, length_ns, direction, ios, bytes, latency_ns } = *span;
        Self { at_ns: end_ns, length_ns: length_ns.max(1), ios, bytes, latency_ns, direction, single: None }
    }
}

impl Entry {
    fn kib_per_s(&self) -> u64 {
        per_second(self.bytes, self.length_ns) / 1_024
    }

    /// For a single I/O fio writes 1.
    fn ios_per_s(&self) -> u64 {
        if self.single.is_some() { 1 } else { per_second(self.ios, self.length_ns) }
    }
}

fn per_second(count: u64, length_ns: u64) -> u64 {
    u64::try_from(u128::from(count) * u128::from(SECOND) / u128::from(length_ns)).unwrap_or(u64::MAX)
}

fn line(entry: &Entry, value: fn(&Entry) -> u64, output: &Output) -> String {
    let (bytes, offset_bytes, priority) = entry.single.unwrap_or((0, 0, 0));
    let mut line = format!("{}, {}, {}, {bytes}", entry.at_ns / MILLISECOND, value(entry), entry.direction);
    if output.with_offsets {
        let _ = write!(line, ", {offset_bytes}");
    }
    // The last column is the priority, or, without that option, only whether it is of the real-time
    // class.
    let _ = match output.with_priorities {
        true => writeln!(line, ", 0x{priority:04x}"),
        false => writeln!(line, ", {}", u8::from(priority >> 13 == 1)),
    };
    line
}

/// Number of fio's buckets, which its tools expect; the last one has everything above 17 s.
const FIO_BUCKETS: usize = 1_856;

/// A line with the counts of all buckets; each step of coarseness joins two buckets to one.
fn histogram(entry: &LoggedHistogram, output: &Output) -> String {
    let step = 1_usize << output.histogram_coarseness.min(6);
    let mut counts = vec![0_u64; FIO_BUCKETS.div_ceil(step)];
    for &(bucket, count) in &entry.counts {
        if let Some(sum) = counts.get_mut(usize::from(bucket).min(FIO_BUCKETS - 1) / step) {
            *sum += u64::from(count);
        }
    }
    let counts = counts.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!("{}, {}, {}, {counts}\n", entry.end_ns / MILLISECOND, entry.direction, entry.bytes)
}

fn iolog(log: &ThreadLog, file: &str) -> String {
    let mut text = format!("fio version 3 iolog\n0 {file} add\n0 {file} open\n");
    let mut last_us = 0;
    for io in &log.issued {
        let word = ["read", "write", "trim", "sync"][usize::from(io.direction).min(3)];
        last_us = io.at_ns / 1_000;
        let _ = writeln!(text, "{last_us} {file} {word} {} {}", io.offset_bytes, io.bytes);
    }
    let _ = writeln!(text, "{last_us} {file} close");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_fio() {
        let io = LoggedIo {
            at_ns: 1_900_000,
            latency_ns: 3_780,
            direction: 1,
            bytes: 4_096,
            offset_bytes: 45_056,
            priority_bits: 0x2004,
        };
        let entry = Entry::from(&io);
        let with = |with_offsets, with_priorities| Output { with_offsets, with_priorities, ..Output::default() };
        assert_eq!(line(&entry, Entry::ios_per_s, &with(true, true)), "1, 1, 1, 4096, 45056, 0x2004\n");
        assert_eq!(line(&entry, |entry| entry.latency_ns, &with(false, false)), "1, 3780, 1, 4096, 1\n");
        // 4096 bytes in 3780 ns.
        assert_eq!(line(&entry, Entry::kib_per_s, &with(false, false)), "1, 1058201, 1, 4096, 1\n");
        let span =
            LoggedSpan { end_ns: SECOND, length_ns: SECOND / 4, direction: 0, ios: 50, bytes: 204_800, latency_ns: 9 };
        assert_eq!(line(&Entry::from(&span), Entry::kib_per_s, &with(false, false)), "1000, 800, 0, 0, 0\n");
        assert_eq!(line(&Entry::from(&span), Entry::ios_per_s, &with(true, false)), "1000, 200, 0, 0, 0, 0\n");
    }

    #[test]
    fn names_stay_inside_and_histograms_shrink() {
        assert_eq!(inside("/a/../b/c_bw.1.log"), Path::new("a/b/c_bw.1.log"));
        let entry = LoggedHistogram { end_ns: SECOND, direction: 0, bytes: 512, counts: vec![(64, 2), (127, 3)] };
        let text = histogram(&entry, &Output { histogram_coarseness: 6, ..Output::default() });
        assert!(text.starts_with("1000, 0, 512, 0, 5, 0, 0"), "{text}");
        assert_eq!(text.split(", ").count(), 3 + 29);
    }
}
