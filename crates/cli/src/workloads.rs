//! Workloads by name (those of fio, the twelve codes, dd, bonnie, programs) and job files, with the options of
//! the command line applied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hoistway_experiment::{Experiment, Group};
use hoistway_linux::input::Ceiling;
use hoistway_workload::Job;
use hoistway_workload::fio;
use hoistway_workload::job::{Amount, Mix};
use hoistway_workload::name;

use crate::exit::{Error, Reporter};
use crate::run_test::arguments::WorkloadArguments;
pub use hoistway::plan::workloads::groups_of;
use hoistway::plan::workloads::{jobs_of_file, name_of_file, of_name};

/// Area of a test file per job without a size.
const AREA_BYTES: u64 = 256 << 20;

/// A workload as the user named it.
#[derive(Debug)]
pub enum Workload {
    /// A name: a code, a job with a name of its own, a program. It applies to every group.
    Named {
        /// The name in reports.
        name: String,
        /// The jobs of one thread.
        jobs: Vec<Job>,
    },
    /// A job file, which defines its own groups.
    File {
        /// The file's name without directory and suffix.
        name: String,
        /// The groups with their jobs.
        groups: Vec<Group>,
    },
}

/// Reads all of `--workload` and `--job`; `usual` if there are none.
pub fn read(arguments: &WorkloadArguments, usual: &str, reporter: Reporter) -> Result<Vec<Workload>, Error> {
    let mut workloads = Vec::new();
    for text in arguments.workload.iter().flat_map(|list| split(list)) {
        if is_file(&text) {
            workloads.push(file(Path::new(&text), arguments, reporter)?);
        } else if text.eq_ignore_ascii_case("all") {
            for code in name::ALL {
                workloads.push(named(code, arguments)?);
            }
        } else {
            workloads.push(named(&text, arguments)?);
        }
    }
    for path in &arguments.job {
        workloads.push(file(path, arguments, reporter)?);
    }
    if workloads.is_empty() {
        workloads.push(named(usual, arguments)?);
    }
    Ok(workloads)
}

/// Splits `drr:bs=4k,iodepth=4,bsr`: a piece that begins a new workload is a name, `all` or a file;
/// every other one continues the suffix before it.
fn split(list: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for piece in list.split(',') {
        match pieces.last_mut() {
            Some(last) if last.contains(':') && !begins_workload(piece) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => pieces.push(piece.trim().to_owned()),
        }
    }
    pieces
}

fn begins_workload(piece: &str) -> bool {
    let head = piece.split(':').next().unwrap_or("").trim();
    let is_path = !piece.contains('=') && is_file(piece);
    head.eq_ignore_ascii_case("all") || is_path || name::names().any(|name| name.eq_ignore_ascii_case(head))
}

fn is_file(text: &str) -> bool {
    hoistway::plan::workloads::is_job_file(text)
}

fn named(text: &str, arguments: &WorkloadArguments) -> Result<Workload, Error> {
    let (name, jobs) = of_name(text, &options(arguments)).map_err(|error| error.at(format!("--workload {text}")))?;
    Ok(Workload::Named { name, jobs })
}

/// `--bs` and similar options in the language of job files.
pub fn options(arguments: &WorkloadArguments) -> Vec<String> {
    let given = [
        arguments.block_bytes.map(|bytes| format!("bs={bytes}")),
        arguments.iodepth.map(|depth| format!("iodepth={depth}")),
        arguments.size_bytes.map(|bytes| format!("size={bytes}")),
        arguments.rwmixread.map(|percent| format!("rwmixread={percent}")),
        arguments.fsync.map(|writes| format!("fsync={writes}")),
        arguments.rate_iops.map(|rate| format!("rate_iops={rate}")),
    ];
    given.into_iter().flatten().collect()
}

/// Reads a job file and prints its notes.
fn file(path: &Path, arguments: &WorkloadArguments, reporter: Reporter) -> Result<Workload, Error> {
    if let Some(option) = options(arguments).first() {
        let what = format!("'{option}' and the job file {} contradict each other", path.display());
        return Err(Error::usage(what, "set it in the file; --bs and similar options are for workload names"));
    }
    let jobs = match jobs_of(path, arguments.buffered_async, reporter) {
        Err(refusal) if arguments.generator.is_some() => vec![fio_only(path, &refusal, reporter)?],
        jobs => jobs?,
    };
    let jobs = jobs.into_iter().map(|job| crate::replay::job_file::with_trace(job, reporter));
    let jobs = jobs.collect::<Result<Vec<Job>, Error>>()?;
    Ok(Workload::File { name: name_of_file(path), groups: groups_of(path, jobs)? })
}

/// A file that is refused here, as a job that fio runs unchanged.
fn fio_only(path: &Path, refusal: &Error, reporter: Reporter) -> Result<Job, Error> {
    let text = hoistway_linux::input::text(path, Ceiling::JOB_FILE).map_err(|error| Error::input(path, &error))?;
    let why = refusal.messages.first().map_or("", |message| message.what.as_str());
    reporter.note(format!("{} is run by fio unchanged, on the target: {why}", path.display()));
    let mix = if fio::only_reads(&text) { Mix::Read } else { Mix::ReadWrite { read_percent: 50 } };
    Ok(Job::default().with(|job| {
        job.name = "fio".to_owned();
        job.shape.mix = mix;
        job.source.fio_only = Some(text);
    }))
}

/// The jobs of a file as they will run.
pub fn jobs_of(path: &Path, buffered_async: bool, reporter: Reporter) -> Result<Vec<Job>, Error> {
    let bytes = match (hoistway_linux::input::bytes(path, Ceiling::JOB_FILE), crate::scenario::job_file(path)) {
        (Ok(bytes), _) => bytes,
        (Err(_), Some(shipped)) => shipped.as_bytes().to_owned(),
        (Err(error), None) => {
            let help = if error.kind() == std::io::ErrorKind::NotFound { "name an existing file" } else { "" };
            return Err(Error::usage(format!("cannot read the job file {}: {error}", path.display()), help));
        }
    };
    let read_include = |included: &str| {
        hoistway_linux::input::bytes(Path::new(included), Ceiling::JOB_FILE).map_err(|error| error.to_string())
    };
    let (jobs, notes) = jobs_of_file(&path.display().to_string(), &bytes, &read_include, buffered_async)?;
    notes.iter().for_each(|note| reporter.report(note));
    Ok(jobs)
}

/// Gives the default area to every job without a size, so that the file to create has one; except if
/// another job has a size for the same file: then it has the size that the jobs before it give that
/// file, because fio makes the files job by job.
pub fn give_sizes(groups: &mut [Group]) {
    let mut made: BTreeMap<String, u64> = BTreeMap::new();
    for job in groups.iter_mut().flat_map(|group| &mut group.jobs) {
        if let Some(bytes) = job.wanted_area_bytes() {
            for name in area_names(job) {
                let file_bytes = made.entry(name).or_default();
                *file_bytes = bytes.max(*file_bytes);
            }
        } else if job.area.size.is_none() && job.area.files <= 1 {
            job.area.file_bytes = area_names(job).filter_map(|name| made.get(&name).copied()).max();
        }
    }
    let jobs = groups.iter().flat_map(|group| &group.jobs).filter(|job| job.wanted_area_bytes().is_some());
    let sized: BTreeSet<String> = jobs.flat_map(area_names).collect();
    for job in groups.iter_mut().flat_map(|group| &mut group.jobs) {
        if job.wanted_area_bytes().is_some() || area_names(job).any(|name| sized.contains(&name)) {
            continue;
        }
        match job.area.size {
            // A share of the file remains one.
            Some(Amount::Percent(_)) => job.area.file_bytes = Some(AREA_BYTES),
            _ => job.area.size = Some(Amount::Bytes(AREA_BYTES)),
        }
    }
}

fn area_names(job: &Job) -> impl Iterator<Item = String> {
    (0..job.threads).map(|thread| job.area_name(thread))
}

/// The total size of an experiment's areas in bytes, each rounded up to a whole MiB.
pub fn area_bytes(experiment: &Experiment) -> u64 {
    let mut areas: BTreeMap<String, u64> = BTreeMap::new();
    for place in experiment.issuers() {
        let bytes = place.job.wanted_area_bytes().unwrap_or(0);
        let largest = areas.entry(place.job.area_name(place.thread)).or_default();
        *largest = (*largest).max(bytes);
    }
    let sized = |bytes: u64| if bytes > 0 { bytes } else { AREA_BYTES };
    areas.values().map(|bytes| sized(*bytes).next_multiple_of(1 << 20)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_workloads_keeps_the_commas_of_their_suffixes() {
        assert_eq!(split("bsr,drr"), ["bsr", "drr"]);
        assert_eq!(split("drr:bs=4k,16k,iodepth=4,BSR,x.fio"), ["drr:bs=4k,16k,iodepth=4", "BSR", "x.fio"]);
        assert_eq!(split("drr:bs=4k,all"), ["drr:bs=4k", "all"]);
        assert_eq!(
            split("randread:bs=4k,iodepth=4,read,rw:size=1m"),
            ["randread:bs=4k,iodepth=4", "read", "rw:size=1m"]
        );
        assert_eq!(split("dbench:files=8,size=4m,video,dd"), ["dbench:files=8,size=4m", "video", "dd"]);
    }
}
