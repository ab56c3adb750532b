//! The schedulers and their settings: `--sched`, the shorthands, `--sweep`.

use hoistway_elevator::registry::{self, parse_version};
use hoistway_elevator::tunable::Tunable;
use hoistway_experiment::SchedulerSpec;

use crate::exit::{Error, Reporter};
use crate::run_test::arguments::SchedulerArguments;
use crate::target::HostName;
use hoistway::lists::tunables;
use hoistway::plan::USUAL_SCHEDULERS;

/// The name for every scheduler of the registry.
const ALL: &str = "all";

/// The kernel of the reports that use `-G`: 2.6.35 with the patches discussed in them.
const GROUP_ISOLATION_KERNEL: &str = "2.7";

/// Whether `-G` alone decides: CFQ of the kernel that had its switch, on a computer of its time.
pub fn are_of_2010(arguments: &SchedulerArguments) -> bool {
    arguments.sched.is_empty() && arguments.group_isolation
}

/// The schedulers of a test, in the order in which reports show them.
pub fn read(
    arguments: &SchedulerArguments,
    (host, is_fios): (HostName, bool),
    reporter: Reporter,
) -> Result<Vec<SchedulerSpec>, Error> {
    let mut specs = Vec::new();
    for text in &arguments.sched {
        if text == ALL && host != HostName::Native {
            specs.extend(registry::entries().map(|entry| SchedulerSpec::named(entry.name)));
            continue;
        }
        specs.push(text.parse::<SchedulerSpec>().map_err(|wrong| Error::from(wrong).at(format!("--sched {text}")))?);
    }
    if specs.is_empty() && (host == HostName::Native || is_fios) {
        // Whatever is set at present: a first measurement of a machine must not change its
        // settings.
        specs = vec![SchedulerSpec::named("current")];
    } else if are_of_2010(arguments) {
        // Only CFQ of 2.6.33 to 2.6.37 has that switch, so a test with it means that kernel.
        specs = vec![SchedulerSpec { version: Some(GROUP_ISOLATION_KERNEL.to_owned()), ..SchedulerSpec::named("cfq") }];
    } else if specs.is_empty() {
        specs = USUAL_SCHEDULERS.into_iter().map(SchedulerSpec::named).collect();
    }
    for (option, key, value) in shorthands(arguments) {
        if specs.iter().all(|spec| !has(host, spec, key)) {
            reporter.note(format!("{option} has no effect: no scheduler of this test has a tunable '{key}'"));
        }
        specs =
            specs.into_iter().map(|spec| if has(host, &spec, key) { spec.with(key, value) } else { spec }).collect();
    }
    for sweep in &arguments.sweep {
        specs = swept(host, specs, sweep).map_err(|error| error.at(format!("--sweep {sweep}")))?;
    }
    let mut seen: Vec<&SchedulerSpec> = Vec::new();
    for spec in &specs {
        if seen.contains(&spec) {
            return Err(Error::usage(
                format!("scheduler '{spec}' is given twice"),
                "give each variant once; repeat with --sets",
            ));
        }
        seen.push(spec);
    }
    Ok(specs)
}

/// The shorthands that were given: option, tunable, value.
fn shorthands(arguments: &SchedulerArguments) -> Vec<(&'static str, &'static str, &str)> {
    let given = [
        ("--slice-idle", "slice_idle", arguments.slice_idle.as_deref()),
        ("--group-idle", "group_idle", arguments.group_idle.as_deref()),
        ("--quantum", "quantum", arguments.quantum.as_deref()),
        ("--low-latency", "low_latency", arguments.low_latency.as_deref()),
        ("-G", "group_isolation", arguments.group_isolation.then_some("1")),
    ];
    given.into_iter().filter_map(|(option, key, value)| Some((option, key, value?))).collect()
}

/// Whether the scheduler has the tunable; an unknown scheduler has none, and the host refuses it.
fn has(host: HostName, spec: &SchedulerSpec, key: &str) -> bool {
    names(host, spec).contains(&key)
}

/// The tunables that a host knows of a scheduler.
fn names(host: HostName, spec: &SchedulerSpec) -> Vec<&'static str> {
    match host {
        HostName::Native => hoistway_native::known(&spec.name).map(|tunable| tunable.name).collect(),
        HostName::Simulator | HostName::Engine => rows(spec).iter().map(|row| row.name).collect(),
    }
}

fn rows(spec: &SchedulerSpec) -> &'static [Tunable] {
    let version = spec.version.as_deref().and_then(parse_version);
    registry::find(&spec.name).map_or(&[], |entry| tunables(entry, version))
}

fn swept(host: HostName, specs: Vec<SchedulerSpec>, sweep: &str) -> Result<Vec<SchedulerSpec>, Error> {
    let values =
        sweep.split_once('=').filter(|(key, values)| !key.is_empty() && values.split(',').all(|v| !v.is_empty()));
    let Some((key, values)) = values else {
        return Err(Error::usage(
            format!("'{sweep}' is not a sweep"),
            "write KEY=V1,V2,.., for example fifo_batch=1,16,64",
        ));
    };
    if specs.iter().all(|spec| !has(host, spec, key)) {
        let known = specs.iter().flat_map(|spec| names(host, spec));
        let names: Vec<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        let meant = hoistway_experiment::diagnostic::did_you_mean(key, known);
        let what = format!("none of {} has a tunable '{key}'", names.join(", "));
        return Err(Error::usage(what, format!("{meant}hoistway list NAME shows what a scheduler has")));
    }
    let mut variants = Vec::new();
    for spec in specs {
        if has(host, &spec, key) {
            variants.extend(values.split(',').map(|value| spec.clone().with(key, value.trim())));
        } else {
            variants.push(spec);
        }
    }
    Ok(variants)
}
