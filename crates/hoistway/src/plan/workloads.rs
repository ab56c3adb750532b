//! Workloads as users name them: the jobs of a name with its suffix, and the groups of a job file.

use std::path::Path;

use hoistway_experiment::{Group, GroupPriority, Limits, Weight};
use hoistway_workload::Job;
use hoistway_workload::fio::{self, Surroundings};
use hoistway_workload::name::{self, BadName};

use crate::error::{Error, Message};
use crate::plan::times::ENDLESS_NS;

/// Group of the jobs of a file that name none.
const UNGROUPED: &str = "jobs";

/// The jobs of a name with its suffix, and their common name; the suffix takes precedence over
/// `options`, which are in the language of job files and do not appear in the name.
pub fn of_name(text: &str, options: &[String]) -> Result<(String, Vec<Job>), Error> {
    let plain = name::parse(text).map_err(bad_name)?;
    let mut jobs = plain.jobs.clone();
    if !options.is_empty() {
        let (first, suffix) = text.split_once(':').unwrap_or((text, ""));
        let all: Vec<&str> = options.iter().map(String::as_str).chain((!suffix.is_empty()).then_some(suffix)).collect();
        let changed = name::parse(&format!("{first}:{}", all.join(","))).map_err(bad_name)?;
        let renamed = changed.jobs.into_iter().zip(plain.jobs);
        let rename = |(job, plain): (Job, Job)| {
            job.with(|job| {
                job.name = plain.name;
                job.course.wait_for = plain.course.wait_for;
            })
        };
        jobs = renamed.map(rename).collect();
    }
    for job in &mut jobs {
        let ends = job.times.runtime_ns.is_some()
            || job.area.number_ios.is_some()
            || job.area.io_size.is_some()
            || job.area.loops > 1;
        if !ends && !plain.ends {
            job.times.time_based = true;
            job.times.runtime_ns = Some(ENDLESS_NS);
        }
    }
    Ok((plain.name, jobs))
}

fn bad_name(bad: BadName) -> Error {
    match bad {
        BadName::Overrides(diagnostics) => diagnostics.into(),
        BadName::Unknown { given } => {
            let code = given.split(':').next().unwrap_or("");
            let meant = hoistway_experiment::diagnostic::did_you_mean(code, name::names());
            let known = name::names().collect::<Vec<_>>().join(" ");
            Error::usage(
                format!("unknown workload '{given}'"),
                format!("{meant}known are {known}, all, or a job file of fio"),
            )
        }
    }
}

/// Whether a workload is given as a job file: its name ends in `.fio`, it is a path with a `/`, or a
/// file of that name exists and no workload has it.
pub fn is_job_file(text: &str) -> bool {
    let path = Path::new(text);
    let head = text.split(':').next().unwrap_or("");
    let is_named = name::names().chain(["all"]).any(|name| name.eq_ignore_ascii_case(head.trim()));
    path.extension().is_some_and(|ending| ending == "fio") || head.contains('/') || (!is_named && path.is_file())
}

/// The jobs of a job file as they will run, and notes about them. `name` is its name in messages;
/// `read_include` reads the files that it includes.
pub fn jobs_of_file(
    name: &str,
    bytes: &[u8],
    read_include: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    buffered_async: bool,
) -> Result<(Vec<Job>, Vec<Message>), Error> {
    let surroundings = Surroundings {
        read_include,
        variable: &|name| std::env::var(name).ok(),
        page_bytes: 4096,
        memory_mib: crate::plan::machine::memory_mib(),
        cpus: crate::plan::machine::cpus() as u64,
        buffered_async,
    };
    let parsed = fio::parse(name, bytes, &surroundings)?;
    if parsed.jobs.is_empty() {
        return Err(Error::usage(format!("{name} has no job"), "begin a job with [name]"));
    }
    Ok((parsed.jobs, parsed.notes.into_iter().map(Message::from).collect()))
}

/// A job file's name in reports: without directory and suffix.
pub fn name_of_file(path: &Path) -> String {
    path.file_stem().map_or_else(|| "jobs".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Jobs of one cgroup form one group; those without one form another.
pub fn groups_of(path: &Path, jobs: Vec<Job>) -> Result<Vec<Group>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    for mut job in jobs {
        let unsupported = |what: &str| {
            let what = format!("job '{}' asks for {what}", job.name);
            Error::usage(what, "remove it from the file").at(path.display().to_string())
        };
        if let Some(scheduler) = &job.group_settings.scheduler {
            return Err(unsupported(&format!("scheduler '{scheduler}'; schedulers are chosen with --sched")));
        }
        if job.group.is_empty() {
            UNGROUPED.clone_into(&mut job.group);
        }
        let group_settings = job.group_settings.clone();
        let at = groups.iter().position(|group| group.path == job.group).unwrap_or_else(|| {
            groups.push(Group::new(job.group.clone(), Weight::DEFAULT, Vec::new()));
            groups.len() - 1
        });
        let group = &mut groups[at];
        if let Some(weight) = group_settings.weight {
            group.weight = Weight::new(weight)?;
        }
        if let Some(level) = group_settings.priority {
            let level = GroupPriority::new(level)?;
            if group.group_priority.is_some_and(|other| other != level) {
                let what = format!(
                    "group '{}' is given the priorities {} and {}",
                    job.group,
                    group.group_priority.map_or(0, GroupPriority::get),
                    level.get()
                );
                return Err(Error::usage(what, "one group has one priority").at(path.display().to_string()));
            }
            group.group_priority = Some(level);
        }
        let limits = group.limits;
        group.limits = Limits {
            read_bytes_per_s: group_settings.read_bytes_per_s.or(limits.read_bytes_per_s),
            write_bytes_per_s: group_settings.write_bytes_per_s.or(limits.write_bytes_per_s),
            read_ios_per_s: group_settings.read_ios_per_s.or(limits.read_ios_per_s),
            write_ios_per_s: group_settings.write_ios_per_s.or(limits.write_ios_per_s),
            low: group_settings.high_bytes_per_s.map_or(limits.low, crate::plan::limiters::high),
            ..limits
        };
        group.jobs.push(job);
    }
    Ok(groups)
}
