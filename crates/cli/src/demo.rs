//! `hoistway demo`: three tenants on one disk, with and without shares; simulated, then with real
//! I/O.
//!
//! It is `hoistway test` with its arguments filled in: the commands that it shows print the same.

use std::path::PathBuf;

use clap::{Args, Parser};
use hoistway_experiment::{Exit, Measurement};
use hoistway_report::table::TextOptions;
use hoistway_report::{Results, bars, page, table};

use crate::arguments::{Arguments, Command};
use crate::exit::{Error, Outcome, Reporter, print};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::{ProgressName, TestArguments};
use crate::run_test::plan::Plan;
use crate::run_test::store::write;
use crate::run_test::{self, Made, show};

/// `hoistway demo`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway demo\n  hoistway demo --output /tmp/report.html\n\nNeeds neither root nor a device; the temporary file (in TMPDIR or /tmp) is removed."
)]
pub struct DemoArguments {
    /// Write the HTML report to this file
    #[arg(long, value_name = "FILE", default_value = "hoistway-demo.html")]
    pub output: PathBuf,
    /// Run only the simulated part
    #[arg(long)]
    pub no_file: bool,
}

/// A device slow enough that any real disk behind it keeps up: about 4,000 reads per second of 4
/// KiB, 8 at a time.
const MODEL: &str = "model:ssd,channels=4,dies_per_channel=2,t_read_us=1150";
/// The tenants. As is common in practice, the one with the smallest weight has the most requests.
const TENANTS: [&str; 3] = [
    "name=batch,weight=100,workload=randread:bs=4k,iodepth=64",
    "name=web,weight=200,workload=randread:bs=4k,iodepth=32",
    "name=database,weight=400,workload=randread:bs=4k,iodepth=32",
];

const INTRODUCTION: &str = "\
Three tenants read from one disk at the same time. They were promised shares of it:
database 400, web 200, batch 100. Batch, which was promised the least, asks for the most.
Three schedulers decide whose request goes next:
  none         no scheduler: takes them as they come, from each processor in turn
  mq-deadline  Linux's usual choice: sorts them, but knows nothing of promises
  paternoster  our own: shares by weight at full throughput
";

/// Why the halves differ where they do.
const DIFFERENCE: &str = "
Where 2 differs from 1: the engine has one queue, so that without a scheduler the tenant with the most
requests waiting gets the most (batch: 64 of 128); the simulated computer has a queue for each processor, which take
turns. The total is lower, because the time of this machine counts. Shares by weight are the same.
";

/// The two halves of the demonstration.
#[derive(Copy, Clone)]
enum DemoPart {
    Simulated,
    Real,
}

impl DemoPart {
    fn name(self) -> &'static str {
        match self {
            DemoPart::Simulated => "simulated",
            DemoPart::Real => "real",
        }
    }

    /// The command line that this half runs.
    fn words(self) -> Vec<String> {
        let host = match self {
            DemoPart::Simulated => "simulator",
            DemoPart::Real => "engine",
        };
        let mut words: Vec<&str> = vec!["hoistway", "test", "--host", host, MODEL];
        for tenant in TENANTS {
            words.extend(["--group", tenant]);
        }
        words.extend([
            "-s",
            "none",
            "-s",
            "mq-deadline",
            "-s",
            "paternoster",
            "--device-depth",
            "8",
            "--queue-requests",
            "256",
        ]);
        words.extend(["--size", "16M", "--runtime", "6s", "--ramp", "1s", "--no-store"]);
        words.into_iter().map(str::to_owned).collect()
    }

    fn arguments(self) -> Result<TestArguments, Error> {
        let parsed = Arguments::try_parse_from(self.words());
        match parsed.map(|arguments| arguments.command) {
            Ok(Command::Test(arguments)) => Ok(*arguments),
            Ok(_) => Err(Error::failed("the demo's command is not 'test'", "please report this")),
            Err(error) => Err(Error::failed(error.to_string(), "please report this")),
        }
    }
}

/// Runs the subcommand.
pub fn run(arguments: &DemoArguments, reporter: Reporter) -> Outcome {
    show::check_place(&arguments.output)?;
    let interrupt = Interrupt::install()?;
    print(INTRODUCTION)?;
    print("\n1. Simulated: an SSD of about 4,000 reads per second, 6 seconds per scheduler in virtual time\n\n")?;
    let simulated = make(DemoPart::Simulated, &interrupt, reporter)?;
    show_part(&simulated)?;
    let mut parts = vec![(DemoPart::Simulated, simulated)];
    if !arguments.no_file && !interrupt.is_asked() {
        print(
            "\n2. For real: the same tenants through the I/O engine, on a temporary file behind the same model of an SSD\n   (data moves, completions come when such a disk would give them; 6 seconds per scheduler)\n\n",
        )?;
        match make(DemoPart::Real, &interrupt, reporter) {
            Ok(real) => {
                show_part(&real)?;
                print(DIFFERENCE)?;
                parts.push((DemoPart::Real, real));
            }
            // The first half is still shown if the second fails; the error is reported.
            Err(error) => error.messages.into_iter().for_each(|message| {
                reporter.warn(format!("the part with real I/O was skipped: {}", message.what), message.help);
            }),
        }
    }
    if let Some(exit) = interrupt.exit() {
        return Ok(exit);
    }
    write(&arguments.output, &page_of(&parts))?;
    print(&format!("\nThe report page is {}. Try it yourself:\n  {}\n", arguments.output.display(), command()))?;
    Ok(Exit::Done)
}

fn make(part: DemoPart, interrupt: &Interrupt, reporter: Reporter) -> Result<Made, Error> {
    let arguments = part.arguments()?;
    let plan = Plan::of(&arguments, reporter)?;
    run_test::check(&plan)?;
    let display = Display::new(ProgressName::Auto, reporter.quiet, false, run_test::real_time(&plan));
    let made = run_test::make(&plan, &arguments, &mut None, interrupt, display, reporter.without_notes())?;
    match &made.failure {
        Some(failure) => Err(failure.clone()),
        None => Ok(made),
    }
}

fn show_part(made: &Made) -> Result<(), Error> {
    let results = made.results(&[]);
    let options = TextOptions { percentiles: vec![50.0, 99.0], per_group_latency: false, width: None };
    print(&format!("{}\n{}", table::text(&results, &options), bars::shares(&results)))
}

/// Both halves on one page, as two workloads of one test.
fn page_of(parts: &[(DemoPart, Made)]) -> String {
    let mut measurements: Vec<Measurement> = Vec::new();
    let mut hosts: Vec<&str> = Vec::new();
    for (part, made) in parts {
        hosts.push(&made.head.host);
        measurements.extend(made.measurements.iter().cloned().map(|mut measurement| {
            part.name().clone_into(&mut measurement.experiment.workload);
            measurement
        }));
    }
    let Some((_, first)) = parts.first() else { return String::new() };
    let mut matrix = first.head.matrix.clone();
    matrix.workloads = parts
        .iter()
        .flat_map(|(part, made)| {
            made.head.matrix.workloads.iter().cloned().map(|mut workload| {
                part.name().clone_into(&mut workload.name);
                workload
            })
        })
        .collect();
    let host = hosts.join(" and ");
    page::html(&Results { host: &host, matrix: &matrix, measurements: &measurements, ..first.results(&[]) })
}

/// The simulated half as a command to type.
fn command() -> String {
    DemoPart::Simulated.words().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_are_plans_of_the_same_matrix_but_for_length() {
        let plan = |part: DemoPart| Plan::of(&part.arguments().unwrap(), Reporter::default()).unwrap().matrix;
        let (simulated, real) = (plan(DemoPart::Simulated), plan(DemoPart::Real));
        assert_eq!(simulated.schedulers, real.schedulers);
        assert_eq!(simulated.workloads, real.workloads);
        assert_eq!(simulated.workloads[0].groups.len(), 3);
    }
}
