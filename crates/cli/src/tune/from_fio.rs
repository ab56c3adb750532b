//! Findings from results of fio (`--from-fio`), which replace measurements of our own.
//!
//! Jobs that ran together (one `groupid` of one file) are one figure; the same figure in several
//! files is a repetition. The jobs determine the figure: sequential readers measure the throughput
//! of that number of streams, random readers the throughput at their depth, and one random reader
//! beside other jobs measures the latency of that reader. fio does not report the scheduler; the
//! user gives it by `SPEC=FILE`. Without it the figures count as those of the device without a
//! scheduler.

use hoistway_linux::input::Ceiling;
use std::path::{Path, PathBuf};

use hoistway_experiment::job::{Mix, Pattern};
use hoistway_experiment::measurement::Tally;
use hoistway_experiment::statistics::Estimate;
use hoistway_experiment::{Histogram, SchedulerSpec};
use hoistway_report::fio_json::{self, FioJob};
use hoistway_tune::{Among, CandidateFindings, DepthStep, Findings, StreamStep};

use crate::exit::{Error, Reporter};
use crate::run_test::foreign;

const KIB: u32 = 1 << 10;
/// Random reads up to this size measure the gain of depth; larger ones are limited by bandwidth.
const RANDOM_BYTES: u32 = 16 * KIB;
/// Streams of smaller requests are limited by the CPU.
const STREAM_BYTES: u32 = 64 * KIB;
/// This many large reads at a time measure bandwidth.
const BANDWIDTH_DEPTH: u32 = 4;

/// The options that determine a job's load.
const SHAPE: [&str; 10] =
    ["rw", "readwrite", "bs", "blocksize", "iodepth", "numjobs", "ioengine", "direct", "buffered", "rwmixread"];

/// A file, and the scheduler under which fio ran.
#[derive(Clone, PartialEq, Debug)]
pub struct Source {
    spec: Option<SchedulerSpec>,
    path: PathBuf,
}

impl Source {
    /// `FILE`, or `SPEC=FILE`. A file whose own name contains a `=` is written with `./` before it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let spec_and_file =
            text.rsplit_once('=').filter(|_| !text.starts_with(['.', '/']) && !Path::new(text).exists());
        let Some((spec, file)) = spec_and_file else { return Ok(Self { spec: None, path: text.into() }) };
        let spec = spec.parse::<SchedulerSpec>().map_err(|error| Error::from(error).at("--from-fio"))?;
        Ok(Self { spec: Some(spec), path: file.into() })
    }
}

/// The figure that concurrent jobs measure.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Figure {
    Streams(u32),
    Depth(u32),
    Bandwidth,
    AmongReaders,
    AmongWriters,
}

/// One figure, measured once.
struct Sample {
    spec: Option<SchedulerSpec>,
    figure: Figure,
    /// The measured part: all jobs, or the reader among others.
    tallies: Vec<Tally>,
    /// Bytes per second of the others.
    others: f64,
}

/// Reads all files. Jobs that are no figure of ours are named and skipped.
///
/// # Errors
/// A file that cannot be read, a job that failed, or no usable figure.
pub fn read(sources: &[String], reporter: Reporter) -> Result<Findings, Error> {
    let mut samples = Vec::new();
    for text in sources {
        let source = Source::parse(text)?;
        samples.extend(samples_of(&source, reporter)?);
    }
    let findings = findings(&samples);
    if findings.streams.is_empty() && findings.depths.is_empty() && findings.candidates.is_empty() {
        let what = "no figure in it describes the device".to_owned();
        let help = "sequential reads of 64k and more (numjobs=1, 2, 4, 8) and random ones of 4k (iodepth=1, 2, 4, ...) are needed";
        return Err(Error::usage(what, help).at("--from-fio"));
    }
    Ok(findings)
}

/// The disk that the jobs name, if they all name the same one.
pub fn device_of(sources: &[String]) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for text in sources {
        let text = hoistway_linux::input::text(&Source::parse(text).ok()?.path, Ceiling::RESULTS).ok()?;
        let jobs = fio_json::read(&text).ok()?;
        names.extend(jobs.iter().map(|job| option(job, "filename").unwrap_or_default().to_owned()));
    }
    names.dedup();
    match &names[..] {
        [one] if one.starts_with("/dev/") => Some(one.clone()),
        _ => None,
    }
}

fn option<'a>(job: &'a FioJob, key: &str) -> Option<&'a str> {
    job.options.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
}

fn samples_of(source: &Source, reporter: Reporter) -> Result<Vec<Sample>, Error> {
    let path = &source.path;
    let text = hoistway_linux::input::text(path, Ceiling::RESULTS).map_err(|error| Error::input(path, &error))?;
    let jobs = fio_json::read(&text).map_err(|error| foreign::error_of(&error).at(path.display().to_string()))?;
    let mut samples = Vec::new();
    let mut rest = &jobs[..];
    while let Some(first) = rest.first() {
        let side_by_side = rest.iter().take_while(|job| job.group == first.group).count();
        let (now, later) = rest.split_at(side_by_side);
        rest = later;
        match sample(source.spec.clone(), now) {
            Some(sample) => samples.push(sample),
            None => {
                reporter.note(format!("{}: '{}' is not one of the figures that tune needs", path.display(), first.name))
            }
        }
    }
    Ok(samples)
}

/// The load of one job.
struct Part {
    pattern: Pattern,
    mix: Mix,
    bytes: u32,
    /// Concurrent requests of all its threads.
    depth: u32,
    threads: u32,
    read: Tally,
    write: Tally,
}

fn sample(spec: Option<SchedulerSpec>, jobs: &[FioJob]) -> Option<Sample> {
    let parts: Vec<Part> = jobs.iter().map(|job| part(job, jobs)).collect();
    let is_reader = |part: &Part| {
        part.mix == Mix::Read && part.bytes <= RANDOM_BYTES && matches!(part.pattern, Pattern::Random { .. })
    };
    let is_stream = |part: &Part| part.mix == Mix::Read && matches!(part.pattern, Pattern::Sequential { .. });
    let is_writer = |part: &Part| part.mix == Mix::Write;
    let depth: u32 = parts.iter().map(|part| part.depth).sum();
    let threads: u32 = parts.iter().map(|part| part.threads).sum();
    let figure = if parts.iter().all(is_reader) {
        Figure::Depth(depth)
    } else if parts.iter().all(|part| is_stream(part) && part.bytes >= STREAM_BYTES) {
        if depth == threads {
            Figure::Streams(threads)
        } else if depth >= BANDWIDTH_DEPTH {
            Figure::Bandwidth
        } else {
            return None;
        }
    } else {
        let [reader] = &parts.iter().filter(|part| is_reader(part)).collect::<Vec<_>>()[..] else { return None };
        let others = || parts.iter().filter(|part| !is_reader(part));
        match reader.depth {
            1 if others().all(is_stream) => Figure::AmongReaders,
            1 if others().all(is_writer) => Figure::AmongWriters,
            _ => return None,
        }
    };
    let is_among = matches!(figure, Figure::AmongReaders | Figure::AmongWriters);
    let (measured, others): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| !is_among || is_reader(part));
    let others = others.iter().map(|part| (part.read.bytes + part.write.bytes) as f64).sum();
    Some(Sample { spec, figure, tallies: measured.into_iter().map(|part| part.read).collect(), others })
}

fn part(job: &FioJob, side_by_side: &[FioJob]) -> Part {
    // Other options do not matter here, and an unknown one must not hide the job's load.
    let matters = |(key, _): &&(String, String)| SHAPE.contains(&key.as_str());
    let shape = FioJob { options: job.options.iter().filter(matters).cloned().collect(), ..job.clone() };
    let plan = foreign::described(&shape);
    // Without group_reporting each clone has an entry, and each entry contains the number of
    // clones.
    let entries = side_by_side.iter().filter(|other| other.name == job.name).count();
    let threads = if entries > 1 { 1 } else { plan.threads };
    // The work of one second, so that all figures are rates per second.
    let (read, write) = (foreign::tally(&job.read, 1.0), foreign::tally(&job.write, 1.0));
    Part {
        pattern: plan.shape.pattern,
        mix: plan.shape.mix,
        bytes: plan.shape.block_sizes.read.largest_bytes(),
        depth: threads * plan.effective_depth(),
        threads,
        read,
        write,
    }
}

fn findings(samples: &[Sample]) -> Findings {
    let bare: Vec<&Sample> = samples.iter().filter(|sample| sample.spec.is_none()).collect();
    let mut findings = Findings {
        streams: streams(&bare),
        depths: depths(&bare),
        bandwidth: figure(&bare, Figure::Bandwidth, bytes),
        ..Findings::default()
    };
    let mut specs: Vec<&SchedulerSpec> = samples.iter().filter_map(|sample| sample.spec.as_ref()).collect();
    specs.dedup();
    for spec in specs {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.spec.as_ref() == Some(spec)).collect();
        if findings.candidates.iter().any(|known| known.is(spec)) {
            continue;
        }
        findings.candidates.push(CandidateFindings {
            spec: spec.to_string(),
            streams: streams(&own),
            depths: depths(&own),
            among_readers: among(&own, Figure::AmongReaders),
            among_writers: among(&own, Figure::AmongWriters),
            ..CandidateFindings::default()
        });
    }
    // If the device alone was not measured, the figures of the candidate `none` or `noop` are used
    // for it.
    let alone = findings.candidates.iter().find(|it| it.spec == "none" || it.spec == "noop").cloned();
    if let Some(alone) = alone {
        if findings.streams.is_empty() {
            findings.streams = alone.streams;
        }
        if findings.depths.is_empty() {
            findings.depths = alone.depths;
        }
    }
    findings
}

fn bytes(sample: &Sample) -> f64 {
    sample.tallies.iter().map(|tally| tally.bytes as f64).sum()
}

fn latency(sample: &Sample) -> Histogram {
    Histogram::merged(sample.tallies.iter().map(|tally| &tally.latency))
}

fn figure(samples: &[&Sample], wanted: Figure, value: impl Fn(&Sample) -> f64) -> Option<Estimate> {
    let values: Vec<f64> =
        samples.iter().filter(|sample| sample.figure == wanted).map(|sample| value(sample)).collect();
    (!values.is_empty()).then(|| Estimate::of(&values))
}

/// The different figures of a kind, in order of their numbers.
fn numbers(samples: &[&Sample], number: impl Fn(Figure) -> Option<u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = samples.iter().filter_map(|sample| number(sample.figure)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn streams(samples: &[&Sample]) -> Vec<StreamStep> {
    let counts = numbers(samples, |figure| if let Figure::Streams(count) = figure { Some(count) } else { None });
    let step = |count: u32| {
        let bytes_per_s = figure(samples, Figure::Streams(count), bytes)?;
        let last = samples.iter().rev().find(|sample| sample.figure == Figure::Streams(count))?;
        let mut each: Vec<f64> = last.tallies.iter().map(|tally| tally.bytes as f64).collect();
        each.sort_by(|a, b| b.total_cmp(a));
        // If fio reports all clones in one entry, the rate of each is not known.
        let each_bytes_per_s = if each.len() == count as usize { each } else { Vec::new() };
        Some(StreamStep { count, bytes_per_s, each_bytes_per_s })
    };
    counts.into_iter().filter_map(step).collect()
}

fn depths(samples: &[&Sample]) -> Vec<DepthStep> {
    let all = numbers(samples, |figure| if let Figure::Depth(depth) = figure { Some(depth) } else { None });
    let step = |depth: u32| {
        let wanted = Figure::Depth(depth);
        let ios = |sample: &Sample| sample.tallies.iter().map(|tally| tally.ios as f64).sum();
        let ios_per_s = figure(samples, wanted, ios)?;
        let own: Vec<Histogram> = samples.iter().filter(|it| it.figure == wanted).map(|it| latency(it)).collect();
        let merged = Histogram::merged(&own);
        let percentile = |percent: f64| merged.percentile_ns(percent) as f64;
        Some(DepthStep { depth, ios_per_s, p50_ns: percentile(50.0), p99_ns: percentile(99.0) })
    };
    all.into_iter().filter_map(step).collect()
}

fn among(samples: &[&Sample], wanted: Figure) -> Option<Among> {
    let p99_ns = figure(samples, wanted, |sample| latency(sample).percentile_ns(99.0) as f64)?;
    let others_bytes_per_s = figure(samples, wanted, |sample| sample.others)?;
    Some(Among { p99_ns, others_bytes_per_s, reader_ios_per_s: None, reads: None })
}
