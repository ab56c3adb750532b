//! `hoistway test`: plan, runs, results.
//!
//! ```text
//! arguments -> plan (decides, checks) -> target (opened) -> run (hosts) -> store (journal) -> show (tables, page)
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hoistway_experiment::assertion::Verdict;
use hoistway_experiment::cell::{cells, is_precise};
use hoistway_experiment::{Exit, Experiment, Host, Measurement, journal};
use hoistway_report::{Results, page};

mod advise;
pub mod arguments;
mod blkio;
pub mod compare;
pub mod foreign;
pub mod groups;
pub mod host;
mod logs;
pub mod plan;
mod preview;
pub mod run;
pub mod schedulers;
pub mod show;
pub mod solo;
mod steps;
pub mod store;
mod tracing;

use crate::exit::{Error, Outcome, Reporter, print};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::TestArguments;
use crate::run_test::arguments::{OutputArguments, ReportArguments, Stored as StoredCommand};
use crate::stamp::stamp;
use crate::target::OpenTarget;
use hoistway::plan::check;
use hoistway::plan::machine;
use host::OnTarget;
use plan::Plan;
use run::RunSettings;
use show::Views;
use solo::Solo;
use store::{Head, Store, Stored};

/// A test that was run, completely or not.
#[derive(Debug)]
pub struct Made {
    /// The plan and its origin.
    pub head: Head,
    /// The machine.
    pub environment: BTreeMap<String, String>,
    /// The completed runs, in the plan's order.
    pub measurements: Vec<Measurement>,
    /// Whether all runs were made.
    pub complete: bool,
    /// Why runs are missing, unless it was a signal.
    pub failure: Option<Error>,
}

impl Made {
    /// The results for output.
    pub fn results<'a>(&'a self, verdicts: &'a [Verdict]) -> Results<'a> {
        Results {
            version: env!("CARGO_PKG_VERSION"),
            started_unix_ms: self.head.started_unix_ms,
            complete: self.complete,
            host: &self.head.host,
            matrix: &self.head.matrix,
            measurements: &self.measurements,
            environment: &self.environment,
            verdicts,
        }
    }
}

/// Runs the subcommand.
pub fn run(arguments: &TestArguments, reporter: Reporter) -> Outcome {
    match &arguments.stored {
        Some(StoredCommand::Report(report)) => return show_stored(report),
        Some(StoredCommand::Compare(arguments)) => return compare::run(arguments),
        None => {}
    }
    if let Some(directory) = &arguments.output.report {
        let mut show = arguments.output.show.clone();
        if show.format.is_empty() && !show.total {
            show.total = printed_totals(&store::read(directory)?);
        }
        return show_stored(&ReportArguments { directory: directory.clone(), show });
    }
    if let Some(path) = &arguments.workload.show_jobs {
        print(&hoistway_workload::fio::show(&crate::workloads::jobs_of(
            path,
            arguments.workload.buffered_async,
            reporter,
        )?))?;
        return Ok(Exit::Done);
    }
    match &arguments.scenario {
        Some(scenario) => steps::run(scenario, arguments, reporter, |step| measure(step, reporter)),
        None => measure(arguments, reporter),
    }
}

/// One test: its runs, stored, shown and judged.
fn measure(arguments: &TestArguments, reporter: Reporter) -> Outcome {
    let views = Views::read(&arguments.output.show)?;
    let plan = Plan::of(arguments, reporter)?;
    views.check(&plan.matrix)?;
    let baseline = arguments.repetition.baseline.as_deref().map(store::read).transpose()?;
    check(&plan)?;
    if arguments.output.dry_run {
        print(&preview::text(&plan, true))?;
        return Ok(Exit::Done);
    }
    advise::two_shares(&plan.matrix, reporter);
    crate::restore::warn(reporter);
    let interrupt = Interrupt::install()?;
    preview::text(&plan, false).lines().for_each(|line| reporter.line(line));
    let mut store = open_store(&plan, arguments)?;
    let display = |known| Display::new(arguments.output.progress, reporter.quiet, views.is_classic(), known);
    let made = make(&plan, arguments, &mut store, &interrupt, display(real_time(&plan)), reporter)?;
    conclude(&plan, &made, &views, store.map(|(store, _)| store), baseline.as_ref(), (&interrupt, reporter))
}

/// Checks every combination with the host; nothing is changed.
pub fn check(plan: &Plan) -> Result<(), Error> {
    let host = host::open(plan.host, &plan.terms);
    let host = OnTarget::new(host, &plan.target.stand_in(plan.host, plan.file_bytes()), &plan.target.text, None);
    check::with_host(&host, &plan.matrix)
}

/// The duration of the runs, if they take real time.
pub fn real_time(plan: &Plan) -> Option<Duration> {
    preview::real_time(plan)
}

/// The result directory, and its previous contents.
type OpenStore = Option<(Store, Option<Stored>)>;

fn open_store(plan: &Plan, arguments: &TestArguments) -> Result<OpenStore, Error> {
    let OutputArguments { outdir, no_store, .. } = &arguments.output;
    if let Some(directory) = &arguments.repetition.resume {
        let (store, stored) = Store::resume(directory, &plan.matrix)?;
        return Ok(Some((store, Some(stored))));
    }
    if *no_store {
        return Ok(None);
    }
    let head = head_of(plan);
    let directory = outdir.clone().unwrap_or_else(|| default_directory(&head));
    Ok(Some((Store::create(&directory, &head, &machine::environment())?, None)))
}

fn head_of(plan: &Plan) -> Head {
    Head {
        started_unix_ms: machine::now_unix_ms(),
        host: plan.host.text().to_owned(),
        max_sets: plan.max_sets,
        matrix: plan.matrix.clone(),
    }
}

/// `hoistway/hoistway-test-20261120-095012` below the directory for the user's state, with a number
/// appended if that exists.
fn default_directory(head: &Head) -> PathBuf {
    let (made_at, state) = (stamp(head.started_unix_ms), state_directory());
    let name = |number: u32| {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        state.join(format!("hoistway-test-{made_at}{suffix}"))
    };
    (1..1000).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1000))
}

/// Where results are kept that nothing else was said of: below `$XDG_STATE_HOME`, or what the XDG
/// specification takes in its place; the working directory for a user without a home.
fn state_directory() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.map_or_else(PathBuf::new, |state| state.join("hoistway"))
}

/// Opens the target and makes the runs.
pub fn make(
    plan: &Plan,
    arguments: &TestArguments,
    store: &mut OpenStore,
    interrupt: &Interrupt,
    mut display: Display,
    reporter: Reporter,
) -> Result<Made, Error> {
    let stored = store.as_mut().and_then(|(_, stored)| stored.take());
    let mut made = match stored {
        Some(Stored { head, environment, measurements }) => {
            Made { head, environment, measurements, complete: false, failure: None }
        }
        None => Made {
            head: head_of(plan),
            environment: machine::environment(),
            measurements: Vec::new(),
            complete: false,
            failure: None,
        },
    };
    made.head.max_sets = made.head.max_sets.max(plan.max_sets);
    let target = plan.target.open(plan.file_bytes(), &arguments.place, interrupt, reporter)?;
    let outcome = make_sets(plan, &target, &mut made, store, interrupt, (&mut display, reporter));
    display.end();
    if let Some(path) = target.kept() {
        reporter.note(format!("{} is kept: use it again with --file", path.display()));
    }
    store::sort(&mut made.measurements, &made.head);
    match outcome {
        Ok(()) => made.complete = !interrupt.is_asked() && planned(plan, &made.measurements).is_empty(),
        Err(error) => made.failure = Some(error),
    }
    Ok(made)
}

/// The runs of the plan that have not been made.
fn planned(plan: &Plan, measurements: &[Measurement]) -> Vec<Experiment> {
    journal::missing(plan.matrix.experiments(), measurements)
}

/// The sets of the plan, then further ones until the figures are precise enough.
fn make_sets(
    plan: &Plan,
    target: &OpenTarget,
    made: &mut Made,
    store: &mut OpenStore,
    interrupt: &Interrupt,
    (display, reporter): (&mut Display, Reporter),
) -> Result<(), Error> {
    let open = || -> Box<dyn Host> {
        let host = host::open(plan.host, &plan.terms);
        Box::new(OnTarget::new(host, &target.host_text, &plan.target.text, target.directory.clone()))
    };
    // The page has one picture of dispatches per scheduler, from the first run with the largest
    // number of threads.
    let most_threads = plan.matrix.threads.iter().copied().max();
    let pictured = |experiment: &Experiment| {
        let is_pictured = experiment.set == 1 && Some(experiment.threads) == most_threads;
        if is_pictured { page::DISPATCHES } else { 0 }
    };
    let run_settings = RunSettings {
        host: &open,
        workers: plan.workers,
        cooldown: Duration::from_nanos(plan.cooldown_ns),
        interrupt,
        trace_out: plan.trace_out.as_deref(),
        dispatches: &pictured,
    };
    // The solo runs are not shown, so they need no traces and no dispatches.
    let unseen = RunSettings { trace_out: None, dispatches: &|_| 0, ..run_settings };
    let mut solo = Solo::new(plan.host, &plan.matrix.schedulers);
    solo.recall(&made.measurements);
    let mut batch = |experiments: Vec<Experiment>, measurements: &mut Vec<Measurement>| {
        if plan.has_solo {
            solo.measure(&unseen, &experiments, display, reporter)?;
        }
        display.expect(experiments.len(), &plan.matrix.threads);
        run_settings.run(&experiments, display, &mut |measurement| {
            let solo_rates = solo.of(&measurement.experiment);
            let measurement = Measurement { solo_rates, ..measurement };
            if let Some((store, _)) = store {
                store.append(&measurement)?;
            }
            if let Some(base) = &plan.blkio_out {
                blkio::write(base, &measurement)?;
            }
            measurements.push(measurement);
            Ok(())
        })
    };
    batch(planned(plan, &made.measurements), &mut made.measurements)?;
    for set in plan.matrix.sets + 1..=plan.max_sets {
        let is_enough = set > 2 && is_precise(&cells(&made.measurements, &plan.matrix.schedulers), plan.precision);
        if is_enough || interrupt.is_asked() {
            break;
        }
        batch(journal::missing(plan.matrix.interleaved_set(set), &made.measurements), &mut made.measurements)?;
    }
    Ok(())
}

/// Judges, stores, prints; returns the command's exit code.
fn conclude(
    plan: &Plan,
    made: &Made,
    views: &Views,
    store: Option<Store>,
    baseline: Option<&Stored>,
    (interrupt, reporter): (&Interrupt, Reporter),
) -> Outcome {
    let judged = if made.complete { judge(plan, made, baseline) } else { Ok(Vec::new()) };
    // The measurements are shown and stored even if an assertion could not be judged.
    let (verdicts, misjudged) = judged.map_or_else(|error| (Vec::new(), Some(error)), |verdicts| (verdicts, None));
    let results = made.results(&verdicts);
    let stored = store.as_ref().map_or(Ok(()), |store| store.finish(&results));
    if !made.measurements.is_empty() {
        views.show(&results)?;
        advise::idle_weights(&results.cells(), reporter);
        hoistway::settling::notes(&made.measurements).iter().for_each(|note| reporter.note(note));
        advise::notes_of_hosts(&made.measurements, reporter);
        advise::endings(&made.measurements, reporter);
        advise::cut_off(&made.measurements, reporter);
        logs::check(store.is_some(), &made.measurements, reporter);
        crate::replay::lateness::report(&made.measurements, reporter);
    }
    stored?;
    if let Some(store) = &store {
        reporter.note(format!("results are in {}", store.directory().display()));
    }
    if let Some(failure) = made.failure.clone().or(misjudged) {
        return Err(failure);
    }
    if let Some(exit) = interrupt.exit() {
        return Ok(exit);
    }
    if let Some(damage) = advise::damage(&made.measurements) {
        return Err(damage);
    }
    let cells = results.cells();
    if plan.max_sets > plan.matrix.sets && !is_precise(&cells, plan.precision) {
        let widest = cells.iter().filter_map(|cell| cell.bytes_per_s.relative_half_width()).fold(0.0, f64::max);
        reporter.note(format!("noisy: +-{:.0} % after {} sets", widest * 100.0, plan.max_sets));
    }
    let exits = verdicts.iter().map(|verdict| match verdict {
        Verdict { is_inconclusive: true, .. } => Exit::Inconclusive,
        Verdict { ok: true, .. } => Exit::Done,
        _ => Exit::AssertionFailed,
    });
    Ok(exits.fold(Exit::Done, Exit::worse))
}

fn judge(plan: &Plan, made: &Made, baseline: Option<&Stored>) -> Result<Vec<Verdict>, Error> {
    let own = cells(&made.measurements, &plan.matrix.schedulers);
    let stored = baseline.map_or_else(Vec::new, |stored| cells(&stored.measurements, &stored.head.matrix.schedulers));
    let judged =
        plan.assertions.iter().map(|assertion| Ok(assertion.evaluate_within(&own, &stored, plan.precision)?));
    judged.collect::<Result<_, Error>>().map_err(|error| error.at("--assert"))
}

/// `hoistway test report DIR` and `-R DIR`.
/// Whether a stored test printed the classic table with its totals: its command line says so.
fn printed_totals(stored: &Stored) -> bool {
    let command = stored.environment.get("command").map_or("", String::as_str);
    command.split(' ').any(|word| word == "--total")
}

fn show_stored(arguments: &ReportArguments) -> Outcome {
    let views = Views::read(&arguments.show)?;
    let made = made_of(&arguments.directory)?;
    views.show(&made.results(&[]))?;
    Ok(Exit::Done)
}

/// Loads a stored test.
fn made_of(directory: &Path) -> Result<Made, Error> {
    let Stored { head, environment, measurements } = store::read(directory)?;
    let complete = journal::missing(head.matrix.experiments(), &measurements).is_empty();
    Ok(Made { head, environment, measurements, complete, failure: None })
}
