//! `hoistway test --scenario`: one test per step, with the user's additional options.

use std::ffi::OsString;

use hoistway_experiment::Exit;

use crate::arguments::Command;
use crate::exit::{Error, Outcome, Reporter, print};
use crate::run_test::arguments::TestArguments;
use crate::run_test::arguments::{OutputArguments, RepetitionArguments};
use crate::scenario::{Scenario, Step};
use crate::usage;

/// Formats that cannot follow one another in one stream.
const LONE_FORMATS: [&str; 5] = ["json", "fio-json", "csv", "html", "figure"];

/// Runs the steps in order; a signal or an error ends the scenario, and the exit code is the worst
/// of all steps.
pub fn run(text: &str, user: &TestArguments, reporter: Reporter, test: impl Fn(&TestArguments) -> Outcome) -> Outcome {
    let scenario = Scenario::read(text)?;
    if scenario.has_cells() {
        return crate::judge::run(&scenario, user, reporter);
    }
    if scenario.isolation.is_some() {
        return crate::isolation::run(&scenario, user, reporter);
    }
    check_options(text, user)?;
    check_output(&scenario, text, &user.output)?;
    // All steps are parsed before the first runs.
    let steps: Vec<(&Step, TestArguments)> = scenario
        .steps
        .iter()
        .map(|step| Ok((step, arguments_of(&scenario, step, user)?)))
        .collect::<Result<_, Error>>()?;
    reporter.line(&format!(
        "{}{}",
        scenario.title,
        if scenario.source.is_empty() { String::new() } else { format!(" ({})", scenario.source) }
    ));
    scenario.doc.lines().for_each(|line| reporter.line(line));
    let mut exit = Exit::Done;
    for (index, (step, arguments)) in steps.iter().enumerate() {
        if steps.len() > 1 {
            let gap = if index == 0 { "" } else { "\n" };
            print(&format!("{gap}{}: {}\n", step.name, step.doc))?;
        } else {
            reporter.line(&format!("{}: {}", step.name, step.doc));
        }
        exit = exit.worse(test(arguments)?);
        if matches!(exit, Exit::Interrupted | Exit::Terminated) {
            break;
        }
    }
    Ok(exit)
}

/// Refuses options that only cells have.
fn check_options(text: &str, user: &TestArguments) -> Result<(), Error> {
    let given = [
        ("--workload", !user.workload.workload.is_empty()),
        ("--weights", !user.groups.weights.is_empty()),
        ("--group", !user.groups.group.is_empty()),
        ("--device", !user.judge.device.is_empty()),
        ("--seeds", user.judge.seeds.is_some()),
        ("--against", !user.judge.against.is_empty()),
        ("--cells", !user.judge.cells.is_empty()),
        ("--destructive", user.place.destructive.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let what =
                format!("the steps of {text} define their own workloads and groups, so {option} is not possible");
            Err(Error::usage(what, "leave it out, or use a scenario with verdicts, such as everyday").at(option))
        }
    }
}

/// Refuses outputs for which several results would have to go into one file or document.
fn check_output(scenario: &Scenario, text: &str, output: &OutputArguments) -> Result<(), Error> {
    if scenario.steps.len() == 1 {
        return Ok(());
    }
    let show = &output.show;
    let is_lone = |format: &String| format.contains('=') || LONE_FORMATS.contains(&format.as_str());
    let place = match show.format.iter().find(|format| is_lone(format)) {
        Some(format) => format!("--format {format}"),
        None if show.output.is_some() => "--output".to_owned(),
        None => return Ok(()),
    };
    let names: Vec<&str> = scenario.steps.iter().map(|step| step.name.as_str()).collect();
    let help = format!("run one step, for example --scenario {text}:{}; there are: {}", names[0], names.join(", "));
    Err(Error::usage(format!("{} steps give several results", names.len()), help).at(place))
}

fn arguments_of(scenario: &Scenario, step: &Step, user: &TestArguments) -> Result<TestArguments, Error> {
    let words = ["hoistway", "test"].into_iter().map(str::to_owned).chain(scenario.words(step));
    let wrong = |error: Error| error.at(format!("step {} of the scenario", step.name));
    let read = usage::parse(words.map(OsString::from)).map_err(|answer| match answer {
        Err(error) => wrong(error),
        Ok(_) => wrong(Error::usage("a step is a test, and cannot ask for help", "remove --help and --version")),
    })?;
    match read.command {
        Command::Test(own) if own.stored.is_none() && own.scenario.is_none() => Ok(merge(*own, user, step)),
        _ => Err(wrong(Error::usage("a step is a test, not another command", "give it the options of a test"))),
    }
}

/// Merges a step with the user's options, which take precedence.
fn merge(mut step_arguments: TestArguments, user: &TestArguments, step: &Step) -> TestArguments {
    let own = &mut step_arguments;
    own.target = user.target.clone().or(own.target.take());
    own.place.host = user.place.host.clone().or(own.place.host.take());
    own.workload.runtime = user.workload.runtime.or(own.workload.runtime);
    own.workload.ramp = user.workload.ramp.or(own.workload.ramp);
    own.workload.seed = user.workload.seed.or(own.workload.seed);
    if !user.schedulers.sched.is_empty() {
        own.schedulers.sched.clone_from(&user.schedulers.sched);
    }
    let RepetitionArguments { sets, max_sets, precision, order, cooldown, workers, assert, .. } = &user.repetition;
    let repetition = &mut own.repetition;
    repetition.sets = sets.or(repetition.sets);
    repetition.max_sets = max_sets.or(repetition.max_sets);
    repetition.precision = precision.or(repetition.precision);
    repetition.order = *order;
    repetition.cooldown = cooldown.or(repetition.cooldown);
    repetition.workers = workers.or(repetition.workers);
    repetition.assert.extend(assert.iter().cloned());
    let OutputArguments { show, outdir, no_store, progress, dry_run, .. } = &user.output;
    if !show.format.is_empty() {
        own.output.show.format.clone_from(&show.format);
    }
    own.output.show.output.clone_from(&show.output);
    own.output.show.total |= show.total;
    own.output.show.per_group_latency |= show.per_group_latency;
    own.output.show.explain |= show.explain;
    own.output.show.per_set |= show.per_set;
    own.output.show.rates = show.rates.or(own.output.show.rates);
    if show.figures.is_some() {
        own.output.show.figures.clone_from(&show.figures);
    }
    if show.percentiles.is_some() {
        own.output.show.percentiles.clone_from(&show.percentiles);
    }
    own.output.outdir = outdir.as_ref().map(|directory| directory.join(&step.name));
    own.output.no_store |= no_store;
    own.output.progress = *progress;
    own.output.dry_run |= dry_run;
    step_arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(line: &str) -> TestArguments {
        match usage::parse(line.split(' ').map(OsString::from)).unwrap().command {
            Command::Test(arguments) => *arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_step_of_every_scenario_is_a_test() {
        let user = user("hoistway test --scenario x --seed 7 --sets 2 --outdir there -s noop");
        for (name, _) in crate::scenario::SHIPPED {
            let scenario = Scenario::read(name).unwrap();
            for step in &scenario.steps {
                let arguments = arguments_of(&scenario, step, &user).unwrap();
                assert_eq!((arguments.workload.seed, arguments.repetition.sets), (Some(7), Some(2)));
                assert_eq!(arguments.schedulers.sched, ["noop"]);
                assert!(arguments.target.is_some() && arguments.output.outdir.unwrap().ends_with(&step.name));
            }
        }
    }

    #[test]
    fn several_results_do_not_go_into_one_file() {
        let scenario = Scenario::read("write-bomb").unwrap();
        let check = |line: &str| check_output(&scenario, "write-bomb", &user(line).output);
        check("hoistway test --format classic").unwrap();
        let message = check("hoistway test --format json").unwrap_err().to_string();
        assert!(message.contains("--scenario write-bomb:2.4"), "{message}");
        check("hoistway test --format html=a.html").unwrap_err();
        check("hoistway test --output a").unwrap_err();
        let alone = Scenario::read("write-bomb:today").unwrap();
        check_output(&alone, "write-bomb:today", &user("hoistway test --format json").output).unwrap();
    }
}
