//! Solo runs: what each group achieves alone, and what the device does when it is kept full with
//! requests of that kind. Both say what the group is entitled to beside the others.
//! Source: docs/concepts/entitlement.md.

use std::collections::BTreeMap;

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;
use hoistway_experiment::measurement::SoloRates;
use hoistway_experiment::solo::{self, crowd, hard, outstanding};
use hoistway_experiment::{Experiment, Group, Limits, Measurement, SchedulerSpec};

use super::run::RunSettings;
use crate::exit::{Error, Reporter};
use crate::progress::Display;
use crate::run_test::arguments::TestArguments;
use crate::target::HostName;

/// The longest measured time of a solo run on a real device: long enough for a rate, and for a plan
/// of a minute per scheduler a small addition.
const SHORT_NS: Nanos = 5 * SECOND;

/// Name of the run of a group by itself, which its limits bind.
const ALONE: &str = "alone";

/// Solo runs that are needed, and the rates that are known.
#[derive(Debug)]
pub struct Solo {
    host: HostName,
    /// The scheduler without which the groups run alone.
    scheduler: SchedulerSpec,
    rates: BTreeMap<String, Vec<SoloRates>>,
}

/// A solo run.
#[derive(Clone, PartialEq, Debug)]
struct Kind {
    /// The experiment without the names of group and job, which identifies the run.
    key: Experiment,
    /// The experiment as it runs.
    run: Experiment,
}

/// The two runs of a group: alone, and the full device.
struct Pair {
    group: usize,
    runs: [usize; 2],
}

/// The pairs of each test by its key, with the number of its groups.
type Pairs = BTreeMap<String, (usize, Vec<Pair>)>;

impl Solo {
    /// For a plan with these schedulers. The groups run alone under `none`, so that no scheduler's
    /// pauses count as theirs; on the native host only if the plan may set it, else under the first
    /// scheduler.
    pub fn new(host: HostName, schedulers: &[SchedulerSpec]) -> Self {
        let none = SchedulerSpec::named("none");
        let first = schedulers.first().filter(|_| host == HostName::Native && !schedulers.contains(&none));
        Self { host, scheduler: first.cloned().unwrap_or(none), rates: BTreeMap::new() }
    }

    /// The rates that stored measurements hold.
    pub fn recall(&mut self, measurements: &[Measurement]) {
        for measurement in measurements.iter().filter(|it| it.solo_rates.iter().any(SoloRates::is_full_known)) {
            self.rates.insert(key_of(&measurement.experiment), measurement.solo_rates.clone());
        }
    }

    /// The runs that these experiments still need, each once.
    pub fn runs(&self, all: &[Experiment]) -> Vec<Experiment> {
        self.needed(all).1.into_iter().map(|kind| kind.run).collect()
    }

    /// Makes the runs that these experiments still need.
    pub fn measure(
        &mut self,
        run_settings: &RunSettings<'_>,
        all: &[Experiment],
        display: &mut Display,
        reporter: Reporter,
    ) -> Result<(), Error> {
        let (pairs, kinds) = self.needed(all);
        let host = (run_settings.host)();
        for kind in &kinds {
            if let Err(refusal) = host.check(&kind.run) {
                reporter.note(format!(
                    "isolation is not known: {} is not possible: {}",
                    kind.run.workload, refusal.message
                ));
                return Ok(());
            }
        }
        let runs: Vec<Experiment> = kinds.into_iter().map(|kind| kind.run).collect();
        let mut made: Vec<Option<Measurement>> = vec![None; runs.len()];
        display.expect(runs.len(), &[]);
        // The runs finish in any order; each result is identified by its experiment.
        run_settings.run(&runs, display, &mut |measurement| {
            if let Some(at) = runs.iter().position(|run| *run == measurement.experiment) {
                made[at] = Some(measurement);
            }
            Ok(())
        })?;
        for (key, (groups, pairs)) in pairs {
            let mut rates = vec![SoloRates::default(); groups];
            for Pair { group, runs: [alone, full] } in pairs {
                let (Some(alone), Some(full)) = (&made[alone], &made[full]) else { continue };
                rates[group] = SoloRates::of(alone, full);
            }
            self.rates.insert(key, rates);
        }
        Ok(())
    }

    /// The rates of a run's groups; empty without solo runs.
    pub fn of(&self, experiment: &Experiment) -> Vec<SoloRates> {
        self.rates.get(&key_of(experiment)).cloned().unwrap_or_default()
    }

    /// The pairs of each test, and the runs that they refer to. Groups that differ only in name and weight share their runs.
    fn needed(&self, all: &[Experiment]) -> (Pairs, Vec<Kind>) {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut pairs = Pairs::new();
        for experiment in all.iter().filter(|experiment| is_judged(experiment)) {
            let key = key_of(experiment);
            if self.rates.contains_key(&key) || pairs.contains_key(&key) {
                continue;
            }
            let mut place = |kind: Kind| match kinds.iter().position(|known| known.key == kind.key) {
                Some(at) => at,
                None => {
                    kinds.push(kind);
                    kinds.len() - 1
                }
            };
            let busy = experiment.groups.iter().enumerate().filter(|(_, group)| !group.jobs.is_empty());
            let of_group = |(index, group): (usize, &Group)| {
                let alone = self.kind(experiment, group, ALONE, solo::alone(&experiment.groups, index));
                let crowd = self.kind(experiment, group, "in a crowd", solo::full(&experiment.groups, index));
                Pair { group: index, runs: [place(alone), place(crowd)] }
            };
            let of_test = (experiment.groups.len(), busy.map(of_group).collect());
            pairs.insert(key, of_test);
        }
        (pairs, kinds)
    }

    /// A solo run of a group, with these groups.
    fn kind(&self, experiment: &Experiment, group: &Group, what: &str, groups: Vec<Group>) -> Kind {
        let runtime_ns = if self.host == HostName::Simulator { Nanos::MAX } else { SHORT_NS };
        let run = Experiment {
            workload: format!("{} {} {what}", experiment.workload, group.path),
            scheduler: self.scheduler.clone(),
            limiters: if what == ALONE { caps(experiment) } else { Vec::new() },
            groups: groups.clone().into(),
            set: 1,
            runtime_ns: experiment.runtime_ns.min(runtime_ns),
            ..experiment.clone()
        };
        let groups = solo::nameless(groups).into();
        let key = Experiment { workload: String::new(), groups, threads: 1, ..run.clone() };
        Kind { key, run }
    }
}

/// Whether isolation is asked for: by a table that shows it, or by name.
pub fn is_wanted(arguments: &TestArguments) -> bool {
    let names = |text: &str| ["isolation", "entitled", "delta"].iter().any(|name| text.contains(name));
    let show = &arguments.output.show;
    let is_shown = |name: &str| match name {
        "text" => show.figures.as_deref().is_none_or(names),
        // iostest's table, fio's layout and the drawing of share errors have no place for it.
        "classic" | "fio-json" | "figure" => false,
        _ => true,
    };
    let mut formats = show.formats().peekable();
    let is_in_view =
        if formats.peek().is_some() { formats.any(|(_, name, _)| is_shown(name)) } else { is_shown("text") };
    !arguments.groups.no_solo
        && (is_in_view || show.explain || arguments.repetition.assert.iter().any(|text| names(text)))
}

/// Whether groups share the device for a given time. A run that lasts until its work is done moves
/// the same bytes under every scheduler.
fn is_judged(experiment: &Experiment) -> bool {
    solo::is_judged(&experiment.groups) && experiment.runtime_ns < Experiment::UNTIL_DONE_NS
}

/// The limiters of a solo run: those that enforce the rates that the user set for groups. Others, as
/// io.cost and wbt, are what is judged: a tenant is entitled to what it achieves without them.
fn caps(experiment: &Experiment) -> Vec<SchedulerSpec> {
    let by = experiment.rates_by();
    let is_capped = experiment.groups.iter().any(|group| hard(&group.limits) != Limits::NONE);
    experiment.limiters.iter().filter(|limiter| is_capped && limiter.name == by).cloned().collect()
}

/// These groups with only the one of this index, which keeps the device full.
pub fn full(groups: &[Group], index: usize) -> Vec<Group> {
    let population = groups.iter().map(outstanding).sum();
    let idle = |group: &Group| Group { jobs: Vec::new(), ..group.clone() };
    let of = |(at, group): (usize, &Group)| if at == index { crowd(group, population) } else { idle(group) };
    groups.iter().enumerate().map(of).collect()
}

fn key_of(experiment: &Experiment) -> String {
    format!("{} {}", experiment.workload, experiment.threads)
}
