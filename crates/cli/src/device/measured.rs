//! The user's measurements for calibration: rows of their own, a result of fio, or a stored test.

use hoistway_linux::input::Ceiling;
use std::path::Path;

use hoistway_block::Direction;
use hoistway_device::{Anchor, Figure, Repetition};
use hoistway_experiment::measurement::GroupMeasurement;
use hoistway_experiment::{Experiment, Measurement};
use hoistway_report::fio_json::{self, FioJob};
use hoistway_report::fio_terse;
use hoistway_workload::Job;
use hoistway_workload::fio::{self, Surroundings};
use hoistway_workload::job::Placement;

use super::wrong_model;
use crate::device::arguments::CalibrateArguments;
use crate::exit::{Error, Reporter};
use crate::run_test::{foreign, store};
use hoistway_study::calibration::row::Row;

/// The rows of `--rows`; at least one.
pub fn read(arguments: &CalibrateArguments, reporter: Reporter) -> Result<Vec<Row>, Error> {
    let path = arguments.rows.as_path();
    let place = || format!("--rows {}", path.display());
    let rows = if path.is_dir() {
        stored(path, reporter)?
    } else if path.file_name().is_some_and(|name| name == "result.json") && path.with_file_name("plan.json").exists() {
        stored(path.parent().unwrap_or(Path::new(".")), reporter)?
    } else {
        let text = hoistway_linux::input::text(path, Ceiling::RESULTS)
            .map_err(|error| Error::usage(format!("cannot read {}: {error}", path.display()), HELP))?;
        if is_of_fio(&text) {
            let understood = understood(&text, arguments, reporter).map_err(|error| error.at(place()))?;
            of_fio(understood, arguments).map_err(|error| error.at(place()))?
        } else {
            anchors(&path.display().to_string(), &text)?
        }
    };
    if rows.is_empty() {
        return Err(Error::usage(format!("{} has no row to calibrate with", path.display()), HELP).at(place()));
    }
    Ok(rows)
}

const HELP: &str = "name a file with [[anchor]] entries (hoistway device show sata has some), a result of fio \
                    (--output-format=json or terse), or a directory that hoistway test wrote";

fn anchors(file: &str, text: &str) -> Result<Vec<Row>, Error> {
    let anchors = Anchor::read_all(file, text).map_err(wrong_model)?;
    anchors.into_iter().map(Row::of).collect()
}

/// An anchor of requests per second.
fn row_of_ios(name: String, source: String, published: Vec<f64>) -> Anchor {
    Anchor {
        name,
        source,
        figure: Figure::Iops,
        published,
        unit: "1/s".to_owned(),
        direction: None,
        scheduler: String::new(),
        machine: String::new(),
        job: String::new(),
        copies: 1,
        stride_bytes: 0,
        random_bytes: 0,
        stagger_ns: 0,
        repetitions: vec![Repetition { seed: 1, offset_bytes: 0 }],
        is_provisional: false,
    }
}

/// One value per group if all have one, else their sum; None if nothing was transferred.
fn per_group(values: Vec<f64>) -> Option<Vec<f64>> {
    let sum: f64 = values.iter().sum();
    if values.iter().all(|value| *value > 0.0) { Some(values) } else { (sum > 0.0).then(|| vec![sum]) }
}

// ---- a result of fio ----

/// Whether a text is fio's output, possibly with notes before and a human-readable report after it.
fn is_of_fio(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
        || text.contains("\"fio version\"")
        || fio_terse::is_terse(text)
}

/// The jobs of a result, and whether they are of terse lines. Options that no simulated job can have
/// (zones, an engine's own, those of a newer fio) are left out with a warning: the figures are worth
/// more than the option.
fn understood(text: &str, arguments: &CalibrateArguments, reporter: Reporter) -> Result<(Vec<FioJob>, bool), Error> {
    let is_terse = fio_terse::is_terse(text);
    let entries = if is_terse { fio_terse::read(text) } else { fio_json::read(text) };
    let mut entries = entries.map_err(|error| foreign::error_of(&error))?;
    let parses =
        |lines: &str| fio::parse("row", format!("[j]\nfilename=f\n{lines}").as_bytes(), &Surroundings::none()).is_ok();
    let mut left_out: Vec<String> = Vec::new();
    for entry in &mut entries {
        // An option may need another one, so that it is tried alone only where the whole job fails.
        if !parses(&lines(&entry.options)) {
            entry.options.retain(|(key, value)| {
                let is_known = line(key, value).is_none_or(|line| parses(&line));
                if !is_known && !left_out.contains(key) {
                    left_out.push(key.clone());
                }
                is_known
            });
        }
    }
    if !left_out.is_empty() {
        let what = format!("{}: left out: {}", arguments.rows.display(), left_out.join(", "));
        reporter.warn(what, "no simulated job has these options; the rows are repeated without them");
    }
    Ok((entries, is_terse))
}

/// The jobs of a result with their options, each in a group of its own, and their rates per
/// direction. Reporting groups of fio run one after another (`stonewall`), so each has rows of its
/// own.
fn of_fio((entries, is_terse): (Vec<FioJob>, bool), arguments: &CalibrateArguments) -> Result<Vec<Row>, Error> {
    let phases: Vec<&[FioJob]> = entries.chunk_by(|one, next| one.group == next.group).collect();
    let job_file = match &arguments.job_file {
        Some(path) if phases.len() > 1 => {
            let what = format!("{} has {} reporting groups of fio", arguments.rows.display(), phases.len());
            let help = "a job file cannot be divided among them: give JSON without --job-file, or one phase at a time";
            return Err(Error::usage(what, help).at(path.display().to_string()));
        }
        Some(path) => Some(grouped(
            &hoistway_linux::input::text(path, Ceiling::RESULTS).map_err(|error| Error::file(path, "read", &error))?,
        )),
        None if is_terse => {
            let what = "fio's terse output does not say what the jobs were";
            return Err(Error::usage(what, "give the job file: --job-file FILE; or use --output-format=json"));
        }
        None => None,
    };
    let mut rows = Vec::new();
    for phase in phases {
        rows.extend(of_phase(phase, job_file.as_deref(), arguments)?);
    }
    Ok(rows)
}

/// The rows of jobs that ran at the same time.
fn of_phase(entries: &[FioJob], job_file: Option<&str>, arguments: &CalibrateArguments) -> Result<Vec<Row>, Error> {
    let mut job = job_file.unwrap_or_default().to_owned();
    // Threads of one job are separate entries unless group_reporting joined them.
    let mut named: Vec<(String, [f64; 2])> = Vec::new();
    let mut groups = GroupNames::default();
    for entry in entries {
        let name = entry.name.replace([']', '\n'], "_");
        let rates = [entry.read.ios_per_s, entry.write.ios_per_s];
        if let Some((_, known)) = named.iter_mut().find(|(known, _)| *known == name) {
            *known = [known[0] + rates[0], known[1] + rates[1]];
            continue;
        }
        if job_file.is_none() {
            job.push_str(&format!("[{name}]\n{}cgroup={}\n", lines(&entry.options), groups.of(&name)));
        }
        named.push((name, rates));
    }
    let source = arguments.rows.display().to_string();
    let mut rows = Vec::new();
    for (index, direction) in [Direction::Read, Direction::Write].into_iter().enumerate() {
        let Some(published) = per_group(named.iter().map(|(_, rates)| rates[index]).collect()) else { continue };
        let word = ["reads", "writes"][index];
        let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        let anchor = Anchor {
            direction: Some(direction),
            scheduler: arguments.sched.clone(),
            machine: arguments.machine.as_ref().map_or_else(String::new, hoistway_experiment::Machine::text),
            job: job.clone(),
            ..row_of_ios(format!("{word} of {}", names.join(", ")), source.clone(), published)
        };
        rows.push(Row::of(anchor)?);
    }
    Ok(rows)
}

/// Names of groups for jobs of fio, which may be named by any text.
#[derive(Default)]
struct GroupNames(Vec<(String, String)>);

impl GroupNames {
    /// The group of a job: its name with an underscore for each character that no group has, and a
    /// number if another job has that group.
    fn of(&mut self, job: &str) -> String {
        if let Some((_, group)) = self.0.iter().find(|(known, _)| known == job) {
            return group.clone();
        }
        let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let plain: String = job.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect();
        let plain = if matches!(plain.as_str(), "" | "." | "..") { "_".to_owned() } else { plain };
        let numbered = (2_u32..).map(|number| format!("{plain}_{number}"));
        let is_free = |group: &String| self.0.iter().all(|(_, known)| known != group);
        let group = std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or(plain);
        self.0.push((job.to_owned(), group.clone()));
        group
    }
}

/// Options as lines of a job file. If an option occurs twice, the last one is kept: it is the job's
/// own.
fn lines(options: &[(String, String)]) -> String {
    let own = |index: usize| !options[index + 1..].iter().any(|(key, _)| *key == options[index].0);
    let kept = options.iter().enumerate().filter(|(index, _)| own(*index));
    kept.filter_map(|(_, (key, value))| line(key, value)).collect()
}

/// One option as a line of a job file; `None` for an option that is left out. The name is in the
/// section's heading, groups are created here, and directories do not matter, because every file is
/// a part of the simulated disk.
fn line(key: &str, value: &str) -> Option<String> {
    if ["name", "cgroup", "cgroup_weight", "directory"].contains(&key) {
        return None;
    }
    Some(match value {
        "" => format!("{key}\n"),
        // A device's name would be a path with a colon or slash in it, so one word replaces it.
        value if key == "filename" => format!("filename={}\n", value.replace([':', '/'], "_")),
        value => format!("{key}={value}\n"),
    })
}

/// A job file in which each job is a separate group.
fn grouped(text: &str) -> String {
    let mut all = String::new();
    let mut groups = GroupNames::default();
    for whole in text.lines() {
        let written = whole.trim();
        if let Some(name) = written.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(name, _)| name) {
            all.push_str(&format!("[{name}]\n"));
            if name != "global" {
                all.push_str(&format!("cgroup={}\n", groups.of(name)));
            }
        } else {
            let (key, value) = written.split_once('=').unwrap_or((written, ""));
            all.extend(line(key.trim(), value.trim()));
        }
    }
    all
}

// ---- a stored test ----

/// One row per combination of a stored test; its sets are repetitions.
fn stored(directory: &Path, reporter: Reporter) -> Result<Vec<Row>, Error> {
    let measurements = store::read(directory)?.measurements;
    let mut rows: Vec<(Experiment, Vec<&Measurement>)> = Vec::new();
    for measurement in &measurements {
        let combination = Experiment { set: 1, ..measurement.experiment.clone() };
        match rows.iter_mut().find(|(known, _)| *known == combination) {
            Some((_, runs)) => runs.push(measurement),
            None => rows.push((combination, vec![measurement])),
        }
    }
    let source = directory.display().to_string();
    let rows = rows.iter().filter_map(|(experiment, runs)| stored_row(experiment, runs, &source));
    let rows: Vec<Row> = rows.collect();
    let lost = rows.iter().filter(|row| row.anchor.job.is_empty()).count();
    if lost > 0 {
        reporter.note(format!("{lost} rows cannot be written as job files: the new model's file will not name them"));
    }
    Ok(rows)
}

fn stored_row(experiment: &Experiment, runs: &[&Measurement], source: &str) -> Option<Row> {
    let groups = runs.first()?.groups.len();
    let mean = |index: usize| {
        let rates =
            runs.iter().map(|run| run.groups.get(index).map_or(0.0, |group| run.per_s(GroupMeasurement::ios(group))));
        rates.sum::<f64>() / runs.len() as f64
    };
    let published = per_group((0..groups).map(mean).collect())?;
    let Experiment { workload, scheduler, threads, .. } = experiment;
    let seeds = runs.iter().map(|run| Repetition { seed: run.experiment.seed, offset_bytes: 0 });
    let anchor = Anchor {
        scheduler: scheduler.to_string(),
        machine: experiment.machine.text(),
        job: job_file(experiment).unwrap_or_default(),
        repetitions: seeds.collect(),
        ..row_of_ios(format!("{workload} {scheduler} nr={threads}"), source.to_owned(), published)
    };
    let experiments = runs.iter().map(|run| Experiment { target: String::new(), ..run.experiment.clone() });
    Some(Row { anchor, experiments: experiments.collect() })
}

/// The jobs of an experiment as a job file, if one can express all of it.
fn job_file(experiment: &Experiment) -> Option<String> {
    let mut jobs = Vec::new();
    for group in &experiment.groups {
        for job in &group.jobs {
            let mut job = job.clone();
            job.group.clone_from(&group.path);
            job.group_settings.weight = Some(group.weight.get());
            // Jobs of a job file have results of their own, those of a workload by name do not.
            job.reporting.has_own_results = true;
            (job.times.runtime_ns, job.times.ramp_ns) = (Some(experiment.runtime_ns), experiment.ramp_ns);
            if job.area.placement != Placement::Own && (job.threads == 1 || job.area.placement == Placement::Shared) {
                (job.area.file, job.area.placement) = (job.area_name(0), Placement::Shared);
            }
            jobs.push(job);
        }
    }
    let text = fio::show(&jobs);
    let again = fio::parse("row", text.as_bytes(), &Surroundings::none()).ok()?.jobs;
    // A job of a workload by name has no engine of fio.
    let unnamed = |job: &Job| job.clone().with(|job| job.submission.engine_name = String::new());
    again.iter().map(unnamed).eq(jobs.iter().map(unnamed)).then_some(text)
}
