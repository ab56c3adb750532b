//! `hoistway test --scenario everyday`: many small cells, each with a verdict on every scheduler.
//!
//! ```text
//! scenario + arguments -> cells -> runs (all processors) -> series -> field (figures of a cell) -> verdict -> summary, table
//!                                              oracle (formula 4) ---^
//! ```
//! The rules of the verdict are in `verdict.rs`, pure; nothing here reads a clock.

mod cells;
mod field;
pub mod format;
mod judged;
mod oracle;
mod runs;
mod series;
mod show;
mod summary;
mod verdict;

use experiment::{Exit, SchedulerSpec};

use crate::arguments::TestArguments;
use crate::arguments::test::SchedulerArguments;
use crate::exit::{Error, Outcome, Voice, print};
use crate::interrupt::Interrupt;
use crate::machine;
use crate::progress::Display;
use crate::scenario::Scenario;
use crate::target::HostName;
use crate::test::explain::Curves;
use crate::test::schedulers;
use judged::JudgedCell;
use runs::Plan;

/// Judges.
pub fn run(scenario: &Scenario, user: &TestArguments, voice: Voice) -> Outcome {
    let plan = plan(scenario, user, voice)?;
    plan.check()?;
    if user.output.dry_run {
        print(&plan.cells.iter().map(|cell| format!("{}\n", cell.name)).collect::<String>())?;
        return Ok(Exit::Done);
    }
    let interrupt = Interrupt::install()?;
    voice.line(&format!(
        "{}: {} cells x {} schedulers x {} seeds = {} simulated runs",
        scenario.title,
        plan.cells.len(),
        plan.schedulers.len(),
        plan.seeds.len(),
        plan.count()
    ));
    let mut display = Display::new(user.output.progress, voice.quiet, false, None).condensed();
    let outcome = plan.make(&interrupt, &mut display);
    display.end();
    let runs = outcome?;
    let mut curves = Curves::new();
    let cells: Vec<JudgedCell> =
        (0..plan.cells.len()).filter_map(|index| JudgedCell::of(&plan, &runs, index, &mut curves)).collect();
    print(&format!("{}\n{}", show::table(&plan, &cells), show::summary(&plan, &cells)))?;
    Ok(interrupt.exit().unwrap_or(Exit::Done))
}

fn plan(scenario: &Scenario, user: &TestArguments, voice: Voice) -> Result<Plan, Error> {
    let part = scenario.part()?;
    let mut cells = cells::of(scenario, part, user, voice)?;
    let wanted = &user.judge.cells;
    if !wanted.is_empty() {
        cells.retain(|cell| wanted.iter().any(|text| cell.name.contains(text)));
        if cells.is_empty() {
            let what = format!("no cell has '{}' in its name", wanted.join("' or '"));
            return Err(Error::usage(what, "--dry-run tells the names of all cells").at("--cells"));
        }
    }
    let settings = &scenario.judge;
    let given = |texts: &[String]| schedulers::read(&only(user, texts), (HostName::Simulator, false), voice);
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
    let workers = user.repetition.workers.map_or_else(machine::cpus, usize::from);
    Ok(Plan { cells, schedulers: all, judged: count, seeds, workers })
}

/// The user's options of schedulers with other names.
fn only(user: &TestArguments, texts: &[String]) -> SchedulerArguments {
    SchedulerArguments { sched: texts.to_vec(), ..user.schedulers.clone() }
}
