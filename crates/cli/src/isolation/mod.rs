//! `hoistway test --scenario isolation`: mechanisms against what the field asks of isolation:
//! overhead, fairness, priority against utilisation, bursts.
//!
//! ```text
//! scenario + arguments -> cells, mechanisms -> plan -> preconditioning, calibration -> runs (random order)
//!   -> samples (steady rounds) -> evaluation (figures, scores) -> document -> table, JSON, page
//! ```
//! The scores' rules are pure functions in `desideratum.rs`.

mod cells;
mod page;
mod preconditioning;
mod runs;

use hoistway_experiment::Exit;

use crate::exit::{Error, Outcome, Reporter, print};
use crate::formats::{self, Places};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::TestArguments;
use crate::run_test::host::Terms;
use crate::scenario::Scenario;
use crate::target::{HostName, Target};
use cells::Place;
use hoistway::plan::machine;
use hoistway_study::isolation::calibration::CostModel;
use hoistway_study::isolation::cell::Cell;
use hoistway_study::isolation::document::{Document, NamedNumber};
use hoistway_study::isolation::format::{Part, Settings};
use hoistway_study::isolation::mechanism::Mechanism;
use hoistway_study::isolation::plan::Plan;
use hoistway_study::isolation::{evaluation, show};
use runs::{Bench, Texts};

/// Version of the document's layout.
const SCHEMA: u32 = 1;
/// The formats; the first is the default.
const FORMATS: [(&str, Format); 3] = [("text", Format::Text), ("json", Format::Json), ("html", Format::Html)];

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
    Html,
}

/// Runs the scenario.
pub fn run(scenario: &Scenario, user: &TestArguments, reporter: Reporter) -> Outcome {
    let Some(settings) = &scenario.isolation else { return Ok(Exit::Done) };
    check_options(user)?;
    let places: Places<Format> = formats::read(&user.output.show, &FORMATS, "results of isolation")?;
    let (host, target) = resolve(settings, user)?;
    let measurement = scenario.measurement.map(|measurement| Part {
        name: measurement.name().to_owned(),
        doc: String::new(),
        measurement: Some(measurement),
        cells: Vec::new(),
        repetitions: None,
        every_setting: None,
    });
    let parts: Vec<&Part> = measurement.iter().chain(scenario.isolation_part()?).collect();
    let interrupt = Interrupt::install()?;
    let may_write = user.place.destructive.is_some();
    let bench = Bench {
        host,
        terms: Terms { may_write, ..Terms::default() },
        target: &target,
        texts: texts(settings, user, host, &target),
        workers: if host == HostName::Simulator { workers(user) } else { 1 },
        writes: target.check_writes(host, &user.place).err().map(|error| error.messages[0].what.clone()),
        interrupt: &interrupt,
    };
    let plan = plan(settings, &parts, user, &bench)?;
    target.check_destructive(host, &user.place, plan.cells.iter().any(Cell::has_writes))?;
    if user.output.dry_run {
        print(&show::plan(&plan, &target.text))?;
        return Ok(Exit::Done);
    }
    reporter.line(&format!(
        "{}: {} cells x {} mechanisms x {} repetitions = {} runs in random order, seed {}, on {} ({})",
        scenario.title,
        plan.cells.len(),
        plan.mechanisms.len(),
        plan.repetitions,
        plan.count(),
        plan.seed,
        target.text,
        host.text(),
    ));
    let document = make(&plan, scenario, &bench, user, reporter)?;
    if document.cells.is_empty() {
        reporter.warn("no cell is complete", "let it run to its end");
    } else {
        formats::write(&places, |format| match format {
            Format::Text => show::text(&document),
            Format::Json => format!("{}\n", serde_json::to_string_pretty(&document).unwrap_or_default()),
            Format::Html => page::html(&document),
        })?;
    }
    Ok(interrupt.exit().unwrap_or(Exit::Done))
}

/// Host and target: the user's, or those of the scenario.
fn resolve(settings: &Settings, user: &TestArguments) -> Result<(HostName, Target), Error> {
    let text = user.target.as_deref().unwrap_or(&settings.target);
    Target::resolve(Some(text), &user.place)
}

/// What the target is called in each kind of cell.
fn texts(settings: &Settings, user: &TestArguments, host: HostName, target: &Target) -> Texts {
    let reads = target.text.clone();
    match host {
        HostName::Simulator => Texts {
            writes: preconditioning::simulated(&reads),
            overhead: if user.target.is_some() { reads.clone() } else { settings.overhead_target.clone() },
            reads,
        },
        HostName::Engine | HostName::Native => Texts { writes: reads.clone(), overhead: reads.clone(), reads },
    }
}

fn workers(user: &TestArguments) -> usize {
    user.repetition.workers.map_or_else(machine::cpus, usize::from)
}

fn plan(settings: &Settings, parts: &[&Part], user: &TestArguments, bench: &Bench<'_>) -> Result<Plan, Error> {
    let place = Place { is_simulated: bench.host == HostName::Simulator };
    let cells = cells::of(settings, parts, &user.judge.cells, place)?;
    let wanted = &user.schedulers.sched;
    let unknown = wanted.iter().find(|name| !settings.mechanisms.iter().any(|it| it.name == **name));
    if let Some(unknown) = unknown {
        let names: Vec<&str> = settings.mechanisms.iter().map(|it| it.name.as_str()).collect();
        let what = format!("the scenario has no mechanism '{unknown}'");
        return Err(Error::usage(what, format!("there are: {}", names.join(", "))).at("--sched"));
    }
    // All others are compared with the first.
    let is_wanted = |(index, name): (usize, &String)| index == 0 || wanted.is_empty() || wanted.contains(name);
    let mechanisms = settings.mechanisms.iter().enumerate().filter(|(index, it)| is_wanted((*index, &it.name)));
    let mechanisms = mechanisms
        .map(|(_, text)| Mechanism::read(text, bench.host == HostName::Native))
        .collect::<Result<Vec<_>, _>>()?;
    let repetitions = parts.iter().find_map(|part| part.repetitions).unwrap_or(settings.repetitions);
    let repetitions = user.repetition.sets.unwrap_or(repetitions);
    let every = parts.iter().find_map(|part| part.every_setting).unwrap_or(1);
    let mut plan = Plan::new(cells, mechanisms, every, (repetitions, user.workload.seed.unwrap_or(1)));
    let file_bytes = bench.file_bytes(&plan);
    bench.check(&mut plan, file_bytes);
    let first = (0..plan.cells.len()).map(|at| plan.refusals.get(&(at, 0))).collect::<Option<Vec<_>>>();
    if let Some(refusal) = first.and_then(|refusals| refusals.first().copied()) {
        let help = "no cell can run without a scheduler here; name another target or --host";
        return Err(Error::usage(refusal.clone(), help).at(bench.target.text.clone()));
    }
    Ok(plan)
}

fn make(
    plan: &Plan,
    scenario: &Scenario,
    bench: &Bench<'_>,
    user: &TestArguments,
    reporter: Reporter,
) -> Result<Document, Error> {
    let open = bench.target.open(bench.file_bytes(plan), &user.place, bench.interrupt, reporter)?;
    let mut display = Display::new(user.output.progress, reporter.quiet, false, None).condensed();
    let made = || {
        let preconditioning = preconditioning::precondition(bench, &open, &mut display)?;
        let known = bench.calibrate(plan, &open, &mut display)?;
        let samples = bench.make(plan, &open, &known, &mut display)?;
        Ok::<_, Error>((preconditioning, known, samples))
    };
    let outcome = { made }();
    display.end();
    let (preconditioning, known, samples) = outcome?;
    let (desiderata, mechanisms, cells) = evaluation::evaluate(plan, &samples);
    let overhead = plan.cells.iter().find(|cell| !cell.machine.is_default());
    Ok(Document {
        hoistway: env!("CARGO_PKG_VERSION"),
        schema: SCHEMA,
        scenario: scenario.title.clone(),
        host: bench.host.text(),
        target: bench.target.text.clone(),
        overhead_target: bench.texts.overhead.clone(),
        preconditioning,
        complete: samples.values().map(|runs| runs.len()).sum::<usize>() == plan.count(),
        repetitions: plan.repetitions,
        seed: plan.seed,
        overhead_machine: overhead.map_or_else(String::new, |cell| cell.machine.text()),
        cost_model: named(&known.cost),
        overhead_cost_model: named(&known.overhead_cost),
        desiderata,
        mechanisms,
        cells,
    })
}

fn named(model: &CostModel) -> Vec<NamedNumber> {
    model.lines().into_iter().map(|(name, value)| NamedNumber { name, value }).collect()
}

/// Refuses options of a test that do not apply.
fn check_options(user: &TestArguments) -> Result<(), Error> {
    let TestArguments { repetition, output, workload, groups, judge, .. } = user;
    let show = &output.show;
    let given = [
        ("--workload", !workload.workload.is_empty()),
        ("--runtime", workload.runtime.is_some()),
        ("--ramp", workload.ramp.is_some()),
        ("--weights", !groups.weights.is_empty()),
        ("--group", !groups.group.is_empty()),
        ("--device", !judge.device.is_empty()),
        ("--seeds", judge.seeds.is_some()),
        ("--against", !judge.against.is_empty()),
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
        "--outdir" => "write results into files: --format json=FILE, --format html=FILE",
        "--seeds" => "give one --seed, and the number of repetitions as --sets",
        _ => "leave it out; --cells and --sched choose among cells and mechanisms, --sets and --seed repetitions",
    };
    Err(Error::usage("a scenario that measures isolation does not support it", help).at(option))
}
