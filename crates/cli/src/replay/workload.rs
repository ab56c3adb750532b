//! Converts a trace to the workload of a test: reads it, selects events, and makes one job per
//! group.

use std::path::Path;
use std::sync::Arc;

use hoistway_block::Nanos;
use hoistway_experiment::group::parse_weights;
use hoistway_experiment::{Group, Weight, WorkloadPlan};
use hoistway_workload::Replay;
use hoistway_workload::job::{Amount, Job};
use hoistway_workload::replay::{Fit, Pace, Recording};
use hoistway_workload::trace::recording::{Builder, Recorded, Selection};

use super::groups::Grouping;
use crate::exit::{Error, Reporter};
use crate::replay::arguments::{PlugsName, ReplayOptions};
use crate::run_test::arguments::TestArguments;
use crate::run_test::groups::only_weights;
use crate::target::HostName;
use crate::trace::arguments::FormatArguments;
use crate::trace::open::{How, Opened};

/// Runtime of a replay, which ends with its trace: longer than most traces (a longer one has its
/// own length), but small enough to be shown in tables.
const ENDLESS_NS: Nanos = 86_400_000_000_000;
/// Largest size of a file that is created for a trace.
const MADE_BYTES: u64 = 1 << 30;

/// The workload of a trace.
#[derive(Debug)]
pub struct Traced {
    /// The only workload of the test.
    pub plan: WorkloadPlan,
    /// The duration of a run, if the trace determines it.
    pub expected_ns: Option<Nanos>,
    /// The longest allowed duration of a run.
    pub runtime_ns: Nanos,
}

/// Reads the trace that the arguments name. `writes` says whether its writes may be replayed,
/// `is_made` whether a file is created for it.
pub fn read(
    arguments: &TestArguments,
    host: HostName,
    (writes, is_made): (bool, bool),
    reporter: Reporter,
) -> Result<Option<Traced>, Error> {
    let Some(path) = &arguments.workload.trace else { return Ok(None) };
    refuse_what_contradicts(arguments)?;
    let plugs = Some(plugs(arguments.replay.plugs, host)?);
    let wanted = Wanted {
        path,
        options: &ReplayOptions { strict: arguments.groups.strict, plugs, ..arguments.replay.clone() },
        weights: only_weights(&arguments.groups)?,
        iodepth: arguments.workload.iodepth,
        size_bytes: arguments.workload.size_bytes,
        writes,
        is_made,
    };
    let (plan, expected_ns) = wanted.plan(reporter)?;
    let runtime_ns = arguments.workload.runtime.unwrap_or(expected_ns.unwrap_or(0).max(ENDLESS_NS));
    Ok(Some(Traced { plan, expected_ns, runtime_ns }))
}

/// A trace, and how to replay it.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// A file, or the base name of blktrace's files.
    pub path: &'a Path,
    /// Which events are read, and how they are replayed.
    pub options: &'a ReplayOptions,
    /// Weights of the groups in their order; none = those of the table that forms the groups, or
    /// the default.
    pub weights: Option<&'a str>,
    /// Largest number of I/Os in flight; none = as recorded.
    pub iodepth: Option<u32>,
    /// Number of bytes of the target to use; none = all.
    pub size_bytes: Option<u64>,
    /// Whether its writes may be replayed.
    pub writes: bool,
    /// Whether a file is created for it.
    pub is_made: bool,
}

impl Wanted<'_> {
    /// The workload, and its duration if the trace determines it.
    pub fn plan(&self, reporter: Reporter) -> Result<(WorkloadPlan, Option<Nanos>), Error> {
        let settings = Settings::read(self.options)?;
        let grouping = Grouping::read(self.options.groups_by.as_deref())?.unwrap_or_default();
        let recorded = self.recorded(&grouping, reporter)?;
        report(&recorded, self.writes, settings.pace, reporter);
        check_pace(&recorded, settings.pace)?;
        let name = Opened::short_name(self.path);
        let weights = weights(self.weights, &recorded, &grouping)?;
        let groups = recorded.groups.iter().zip(weights).map(|((group, recording), weight)| {
            let job = self.job(&settings, &name, (group, recording));
            Group::new(group.clone(), weight, vec![job])
        });
        let groups = groups.collect();
        let plan = WorkloadPlan { name, groups };
        hoistway_experiment::group::check(&plan.groups)?;
        let length_ns = (settings.pace == Pace::AsRecorded).then(|| settings.length_ns(recorded.duration_ns));
        Ok((plan, length_ns))
    }

    fn recorded(&self, grouping: &Grouping, reporter: Reporter) -> Result<Recorded, Error> {
        let Self { path, options, .. } = self;
        let reading = FormatArguments {
            time_unit: options.time_unit.unwrap_or_default(),
            iolog_wait: options.iolog_wait.unwrap_or_default(),
            skip_damaged: false,
        };
        let mut trace = Opened::new(path, How::new(options.trace_format.as_deref(), &reading))?;
        let mut builder = Builder::new(Selection {
            devices: options.devices.clone(),
            time_ns: options.time.map_or((0, Nanos::MAX), |span| (span.from_ns, span.to_ns)),
            writes: self.writes,
            by: grouping.by.clone(),
            own_threads: options.own_processes,
            is_start_up: trace.format().name == "start-up",
            has_stages: trace.format().has_stages,
            plugs: options.plugs.unwrap_or_default() == PlugsName::Recorded,
        });
        let unusable = |wrong: hoistway_workload::trace::recording::Unusable| {
            Error::usage(format!("{}: {wrong}", path.display()), "hoistway trace info shows what is in it")
        };
        while let Some(item) = trace.next()? {
            builder.add(item).map_err(unusable)?;
        }
        trace.conclude(reporter)?;
        reporter.note(trace.summary());
        builder.finish().map_err(unusable)
    }

    fn job(&self, settings: &Settings, trace: &str, (group, recording): (&str, &Arc<Recording>)) -> Job {
        let mut replay = Replay::new(trace, Arc::clone(recording));
        (replay.pace, replay.speed_permille, replay.repeats) =
            (settings.pace, settings.speed_permille, settings.repeats);
        replay.fit = settings.fit;
        let depth = self.iodepth.unwrap_or_else(|| replay.default_depth());
        let span_bytes = replay.span_bytes.max(1).next_multiple_of(1 << 20);
        let mut job = replay.job(group, depth);
        group.clone_into(&mut job.group);
        let size_bytes = self.size_bytes.or(self.is_made.then_some(span_bytes.min(MADE_BYTES)));
        job.area.size = size_bytes.map(Amount::Bytes);
        job
    }
}

/// The options after validation.
struct Settings {
    pace: Pace,
    speed_permille: u32,
    repeats: u32,
    fit: Fit,
}

impl Settings {
    fn read(options: &ReplayOptions) -> Result<Self, Error> {
        let pace = match &options.pace {
            None => Pace::AsRecorded,
            Some(given) => {
                let known = Pace::ALL.iter().find(|(name, _)| name == given);
                let names = Pace::ALL.map(|(name, _)| name).join(", ");
                let wrong = || Error::usage(format!("there is no pace '{given}'"), format!("known are {names}"));
                known.ok_or_else(|| wrong().at("--pace"))?.1
            }
        };
        let speed_permille = options.speed.as_deref().map(speed).transpose()?.unwrap_or(1_000);
        if pace != Pace::AsRecorded && options.speed.is_some() {
            return Err(Error::usage(
                "--speed applies only to the recorded times",
                "leave it out, or use --pace as-recorded",
            )
            .at("--speed"));
        }
        let fit = match options {
            ReplayOptions { scale: true, .. } => Fit::Scale,
            ReplayOptions { strict: true, .. } => Fit::Strict,
            _ => Fit::Wrap,
        };
        Ok(Self { pace, speed_permille, repeats: options.repeat.unwrap_or(1), fit })
    }

    fn length_ns(&self, duration_ns: Nanos) -> Nanos {
        let all = u128::from(duration_ns) * u128::from(self.repeats) * 1_000 / u128::from(self.speed_permille);
        u64::try_from(all).unwrap_or(Nanos::MAX)
    }
}

/// Parses a speed such as `10` or `0.5` to thousandths.
fn speed(text: &str) -> Result<u32, Error> {
    let wrong = || {
        let help = "write a number from 0.001 to 1000 with up to three decimals, for example 2 or 0.5";
        Error::usage(format!("'{text}' is not a speed"), help).at("--speed")
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let fraction: u32 = format!("{fraction:0<3}").parse().map_err(|_| wrong())?;
    let permille = whole.checked_mul(1_000).and_then(|permille| permille.checked_add(fraction));
    permille.filter(|permille| (1..=1_000_000).contains(permille)).ok_or_else(wrong)
}

/// Whether plugs are replayed on this host. The processes of the native host have the kernel's
/// plugs, which end with the system call that opened them and therefore cannot hold I/Os of several
/// calls.
fn plugs(asked: Option<PlugsName>, host: HostName) -> Result<PlugsName, Error> {
    match (asked, host) {
        (Some(PlugsName::Recorded), HostName::Native) => {
            let what =
                "the kernel ends a plug with the system call that opened it, so no I/O can wait in it for a later call";
            Err(Error::usage(what, "leave it out, or use --host engine or simulator").at("--plugs recorded"))
        }
        (None, HostName::Native) => Ok(PlugsName::None),
        (asked, _) => Ok(asked.unwrap_or_default()),
    }
}

/// Refuses options that describe a load, because the trace is the load.
fn refuse_what_contradicts(arguments: &TestArguments) -> Result<(), Error> {
    let given = &arguments.workload;
    let groups = &arguments.groups;
    let options = [
        (!given.workload.is_empty(), "--workload"),
        (!given.job.is_empty(), "--job"),
        (given.max_threads.is_some(), "--max-threads"),
        (given.threads.is_some(), "--threads"),
        (given.block_bytes.is_some(), "--bs"),
        (given.rwmixread.is_some(), "--rwmixread"),
        (given.fsync.is_some(), "--fsync"),
        (given.rate_iops.is_some(), "--rate-iops"),
        (groups.groups || groups.nrgrp.is_some() || !groups.group.is_empty(), "--groups, --nrgrp, --group"),
    ];
    match options.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => {
            let what = "the trace determines the I/Os and the processes";
            Err(Error::usage(what, "leave it out; --groups-by forms groups of a trace").at(option))
        }
        None => Ok(()),
    }
}

fn check_pace(recorded: &Recorded, pace: Pace) -> Result<(), Error> {
    let has_completions = recorded.groups.iter().any(|(_, recording)| recording.has_completions());
    if pace == Pace::Dependent && !has_completions {
        let what = "the trace has no completions, so no I/O can depend on another";
        return Err(Error::usage(what, "use --pace closed, with --iodepth N").at("--pace dependent"));
    }
    Ok(())
}

/// Notes about the recording.
fn report(recorded: &Recorded, writes: bool, pace: Pace, reporter: Reporter) {
    for (what, count) in &recorded.left_out {
        match *what {
            "writes" if !writes => reporter.note(format!("{count} writes not replayed (read-only)")),
            what => reporter.note(format!("{count} {what} not replayed")),
        }
    }
    if recorded.is_merged {
        reporter.note(
            "the trace has no queueing events: the requests issued to the device are replayed, as they were merged",
        );
    }
    if recorded.held > 0 {
        reporter.note(format!("{} I/Os are plugged as recorded; --plugs none turns this off", recorded.held));
    }
    if let [_, _, ..] = recorded.devices[..] {
        let devices = recorded.devices.join(", ");
        reporter.note(format!("{} devices follow one another on the target: {devices}", recorded.devices.len()));
    }
    if pace == Pace::Closed && !recorded.groups.iter().any(|(_, recording)| recording.has_completions()) {
        reporter.note("the trace does not contain the number of I/Os in flight: up to 32 are, unless --iodepth sets another limit");
    }
}

/// The weights of the groups: from `--weights`, from the table that forms the groups, or the
/// default.
fn weights(given: Option<&str>, recorded: &Recorded, grouping: &Grouping) -> Result<Vec<Weight>, Error> {
    let count = recorded.groups.len();
    let Some(text) = given else {
        let weight = |(group, _): &(String, Arc<Recording>)| grouping.weights.get(group).copied();
        return Ok(recorded.groups.iter().map(|group| weight(group).unwrap_or(Weight::DEFAULT)).collect());
    };
    let place = format!("--weights {text}");
    // An even range needs the number of groups; the length of a list is checked below.
    let steps = text.contains("..").then_some(count);
    let weights = parse_weights(text, steps).map_err(|wrong| Error::from(wrong).at(place.clone()))?;
    if weights.len() != count {
        let names = recorded.groups.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let what = format!("{} weights for {count} groups: {names}", weights.len());
        return Err(Error::usage(what, "give one per group, or a table: --groups-by file=MAP.csv").at(place));
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_plugs_are_refused_on_hosts_without_plugs() {
        let refusal = plugs(Some(PlugsName::Recorded), HostName::Native).expect_err("calls are the kernel's");
        assert!(refusal.messages[0].what.contains("the kernel ends a plug with the system call"), "{refusal:?}");
        assert_eq!(plugs(None, HostName::Native).ok(), Some(PlugsName::None));
        assert_eq!(plugs(None, HostName::Engine).ok(), Some(PlugsName::Recorded));
        assert_eq!(plugs(Some(PlugsName::None), HostName::Simulator).ok(), Some(PlugsName::None));
    }
}
