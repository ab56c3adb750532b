//! `hoistway test --scenario everyday`: many small cells, each with a verdict on every scheduler.
//!
//! ```text
//! scenario + arguments -> cells -> runs (all processors) -> series -> field (figures of a cell) -> verdict -> summary, table
//!                                              oracle (formula 4) ---^
//! ```
//! Here are the options, the cells of the texts, and the runs; the crate `hoistway-study` has the rest, in pure functions.

mod cells;
mod runs;
mod views;

use hoistway_experiment::{Exit, SchedulerSpec};

use crate::exit::{Error, Outcome, Reporter, print};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::SchedulerArguments;
use crate::run_test::arguments::TestArguments;
use crate::run_test::schedulers;
use crate::scenario::Scenario;
use crate::target::HostName;
use hoistway::plan::machine;
use hoistway_study::explain::Curves;
use hoistway_study::judge::cell_verdict::CellVerdict;
use hoistway_study::judge::runs::Plan;
use hoistway_study::judge::show;
use runs::Runner;
use views::Views;

/// Runs and judges a scenario.
pub fn run(scenario: &Scenario, user: &TestArguments, reporter: Reporter) -> Outcome {
    check_options(user)?;
    let views = Views::read(&user.output.show)?;
    let plan = plan(scenario, user, reporter)?;
    let runner = Runner { plan: &plan, workers: user.repetition.workers.map_or_else(machine::cpus, usize::from) };
    runner.check()?;
    if user.output.dry_run {
        print(&show::plan(&plan))?;
        return Ok(Exit::Done);
    }
    let interrupt = Interrupt::install()?;
    reporter.line(&format!(
        "{}: {} cells x {} schedulers x {} seeds = {} simulated runs",
        scenario.title,
        plan.cells.len(),
        plan.schedulers.len(),
        plan.seeds.len(),
        plan.count()
    ));
    let mut display = Display::new(user.output.progress, reporter.quiet, false, None).condensed();
    let outcome = runner.make(&interrupt, &mut display);
    display.end();
    let runs = outcome?;
    let mut curves = Curves::new();
    let cells: Vec<CellVerdict> =
        (0..plan.cells.len()).filter_map(|index| CellVerdict::of(&plan, &runs, index, &mut curves)).collect();
    let complete = cells.len() == plan.cells.len();
    if !cells.is_empty() {
        views.show(&plan, &scenario.title, &cells, complete)?;
    }
    if !complete {
        reporter.warn(format!("{} of {} cells are complete", cells.len(), plan.cells.len()), "the others are left out");
    }
    Ok(interrupt.exit().unwrap_or(Exit::Done))
}

fn plan(scenario: &Scenario, user: &TestArguments, reporter: Reporter) -> Result<Plan, Error> {
    let part = scenario.part()?;
    let mut cells = cells::of(scenario, part, user, reporter)?;
    let wanted = &user.judge.cells;
    if !wanted.is_empty() {
        cells.retain(|cell| wanted.iter().any(|text| cell.name.contains(text)));
        if cells.is_empty() {
            let what = format!("no cell has '{}' in its name", wanted.join("' or '"));
            return Err(Error::usage(what, "--dry-run prints the names of all cells").at("--cells"));
        }
    }
    let settings = &scenario.judge;
    let given = |texts: &[String]| schedulers::read(&only(user, texts), (HostName::Simulator, false), reporter);
    let judged = given(if user.schedulers.sched.is_empty() { &settings.schedulers } else { &user.schedulers.sched })?;
    let usual = part.and_then(|part| part.against.as_ref()).unwrap_or(&settings.against);
    let against = if user.judge.against.is_empty() { usual } else { &user.judge.against };
    let against =
        if against.is_empty() { Vec::new() } else { given(against).map_err(|error| error.at("--against"))? };
    let mut all = judged;
    let count = all.len();
    for other in against.into_iter().chain([SchedulerSpec::named("none")]) {
        if !all.contains(&other) {
            all.push(other);
        }
    }
    let seeds = part.and_then(|part| part.seeds.as_ref()).unwrap_or(&settings.seeds);
    let seeds = user.judge.seeds.as_ref().unwrap_or(seeds).clone();
    let seeds = user.workload.seed.map_or(seeds, |seed| vec![seed]);
    if seeds.is_empty() {
        return Err(Error::usage("there is no seed", "write seeds = [1, 2, 3, 4], or give --seeds 1,2,3,4"));
    }
    Ok(Plan { cells, schedulers: all, judged_schedulers: count, seeds })
}

/// The user's options with other schedulers.
fn only(user: &TestArguments, texts: &[String]) -> SchedulerArguments {
    SchedulerArguments { sched: texts.to_vec(), ..user.schedulers.clone() }
}

/// Refuses options of a test that do not apply to cells.
fn check_options(user: &TestArguments) -> Result<(), Error> {
    let TestArguments { place, repetition, output, .. } = user;
    let show = &output.show;
    let given = [
        ("--host", place.host.as_deref().is_some_and(|host| !["simulator", "sim"].contains(&host))),
        ("--destructive", place.destructive.is_some()),
        ("--sets", repetition.sets.is_some()),
        ("--max-sets", repetition.max_sets.is_some()),
        ("--precision", repetition.precision.is_some()),
        ("--cooldown", repetition.cooldown.is_some()),
        ("--assert", !repetition.assert.is_empty()),
        ("--baseline", repetition.baseline.is_some()),
        ("--outdir", output.outdir.is_some()),
        ("--trace-out", output.trace_out.is_some()),
        ("--blkio-out", output.blkio_out.is_some()),
        ("--figures", show.figures.is_some()),
        ("--percentiles", show.percentiles.is_some()),
        ("--explain", show.explain),
        ("--total", show.total),
        ("--per-group-latency", show.per_group_latency),
    ];
    let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let help = match option {
        "--host" => "leave it out: the thousands of runs of this scenario are simulated",
        "--sets" | "--max-sets" => "give more --seeds instead",
        "--outdir" => "write results into files: --format json=FILE, --format html=FILE",
        _ => "leave it out; one cell with all its figures: hoistway test model:NAME -w W --weights LIST -s SCHEDULER",
    };
    Err(Error::usage("a scenario with verdicts does not support it", help).at(option))
}
