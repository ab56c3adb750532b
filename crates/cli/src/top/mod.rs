//! `hoistway top`: the current and the due share of each group of a device.
//!
//! ```text
//! source (server | block device | measurement) -> interval -> shares -> table: screen, lines, JSON
//! ```

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hoistway_experiment::{Exit, Measurement};

mod exporter;
pub mod json;
mod kernel;
mod playback;
pub mod sample;
mod screen;
pub mod server;
mod shares;
mod source;
pub mod stat;
pub mod table;
mod trace;
pub mod tree;

use crate::arguments::Command;
use crate::ctl;
use crate::exit::{Error, Outcome, Reporter, print_to_reader};
use crate::interrupt::Interrupt;
use crate::progress::Display;
use crate::run_test::arguments::ProgressName;
use crate::run_test::arguments::TestArguments;
use crate::run_test::plan::Plan;
use crate::run_test::{self, store};
use crate::units;
use crate::usage;
use kernel::Kernel;
use playback::Playback;
use sample::Interval;
use server::Server;
use source::Source;
use table::{History, Shown, Sort};

/// `hoistway top`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway top                                  the server at $HOISTWAY_CONTROL, or /run/hoistway/control.sock\n  hoistway top --control /run/h.sock -b -n 10   ten intervals as plain lines\n  hoistway top /dev/sda                         the kernel's scheduler and control groups\n  hoistway top hoistway-test-20261122-101500    play a stored result\n  hoistway top --speed 10 -- model:sata -s cfq --weights 100,800   play a simulated test at ten times its speed\n  hoistway top --metrics tcp:127.0.0.1:9891     all block devices and their control groups, for Prometheus\n\nDUE% divides the device by weight among the groups that have requests waiting, none more than it can use; a group\nwithout waiting requests is due what it got. ISOL% is how much of that a group got. The kernel does not count waiting requests per group, so on a block device every group that does I/O\ncounts as waiting, and latencies are not known. DIFF is in percentage points; ! marks more than 5. INFL and QUEUED are\naverages. A util of 100% does not mean that a device with a queue depth above 1 is saturated.\nFor a server, the lines below the table say whether the device is saturated, and why a group does not get its share.\n\nKeys: q quit, s sort, p pause, + - interval, r show reads and writes separately, d next device, h help,\nEnter show tunables and reasons"
)]
pub struct TopArguments {
    /// What to watch: a block device, or a result directory of `hoistway test` [default: the server behind --control]
    #[arg(value_name = "TARGET")]
    target: Option<PathBuf>,
    /// Control socket of the server
    #[arg(long, value_name = "PATH", value_parser = ctl::socket)]
    control: Option<ctl::Socket>,
    /// Length of an interval
    #[arg(short = 'd', long = "interval", value_name = "TIME", default_value = "1s", value_parser = units::time)]
    interval_ns: u64,
    /// Exit after N intervals
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Print plain lines instead of a screen; the default if stdout is not a terminal
    #[arg(short = 'b', long)]
    batch: bool,
    /// How to sort the groups
    #[arg(long, value_name = "BY", default_value = "share")]
    sort: Sort,
    /// Show only this device of a server
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Output format; text is the default
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Playback speed of a test: seconds of the test shown per second
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Serve the figures of TARGET, or of all block devices, to Prometheus: unix:PATH or tcp:ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["control", "iterations", "batch", "device", "format", "test"])]
    metrics: Option<String>,
    /// Arguments of `hoistway test`, after `--`; its first run is played
    #[arg(last = true, value_name = "TEST")]
    test: Vec<OsString>,
}

impl TopArguments {
    fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns)
    }
}

/// The output format.
#[derive(clap::ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
enum Format {
    /// A table
    Text,
    /// One JSON object per line and interval
    Json,
    /// The device's counters at the end of each interval, as in /proc/diskstats
    Diskstats,
}

/// Runs the subcommand.
pub fn run(arguments: &TopArguments, reporter: Reporter) -> Outcome {
    if let Some(address) = &arguments.metrics {
        return exporter::run(address, arguments.target.as_ref(), reporter);
    }
    if !(arguments.speed > 0.0 && arguments.speed.is_finite()) {
        let what = format!("--speed {}: not above 0", arguments.speed);
        return Err(Error::usage(what, "write 10 to play ten seconds per second"));
    }
    if arguments.interval() < Duration::from_millis(10) {
        return Err(Error::usage("an interval is at least 10 ms long", "-d 1s").at("--interval"));
    }
    let interrupt = Interrupt::install()?;
    let source = source(arguments, &interrupt, reporter)?;
    let is_batch = arguments.batch || arguments.format.is_some() || !std::io::stdout().is_terminal();
    if is_batch { batch(arguments, source, &interrupt) } else { screen::run(arguments, source, &interrupt) }
}

fn source(arguments: &TopArguments, interrupt: &Interrupt, reporter: Reporter) -> Result<Source, Error> {
    if !arguments.test.is_empty() {
        return playback(&simulate(&arguments.test, interrupt, reporter)?, arguments.speed);
    }
    match &arguments.target {
        None => Source::server(Server::new(&ctl::socket_of(arguments.control.as_ref()))),
        Some(path) if path.is_dir() => playback(&store::read(path)?.measurements, arguments.speed),
        Some(path) => {
            let kernel = Kernel::new(path)?;
            kernel.note().into_iter().for_each(|note| reporter.note(note));
            Source::kernel(kernel)
        }
    }
}

fn playback(measurements: &[Measurement], speed: f64) -> Result<Source, Error> {
    let first = measurements.first().ok_or_else(|| {
        Error::failed(
            "no run was finished: there is nothing to play",
            "hoistway test --resume DIR runs the missing ones",
        )
    })?;
    Ok(Source::Playback(Playback::new(first), speed))
}

/// Runs the test after `--`.
fn simulate(words: &[OsString], interrupt: &Interrupt, reporter: Reporter) -> Result<Vec<Measurement>, Error> {
    let words = [OsString::from("hoistway"), OsString::from("test")].into_iter().chain(words.iter().cloned());
    let no_test = || {
        Error::usage(
            "the arguments after -- are not a test",
            "write: hoistway top -- model:sata -s cfq --weights 100,800",
        )
    };
    let read = usage::parse(words).map_err(|answer| answer.err().unwrap_or_else(no_test))?;
    let Command::Test(test) = read.command else { return Err(no_test()) };
    let test: TestArguments = *test;
    if test.stored.is_some() || test.scenario.is_some() {
        return Err(no_test());
    }
    let plan = Plan::of(&test, reporter)?;
    run_test::check(&plan)?;
    let display = Display::new(ProgressName::Auto, reporter.quiet, false, run_test::real_time(&plan));
    let made = run_test::make(&plan, &test, &mut None, interrupt, display, reporter)?;
    made.failure.map_or(Ok(made.measurements), Err)
}

fn batch(arguments: &TopArguments, mut source: Source, interrupt: &Interrupt) -> Outcome {
    let mut history = History::default();
    let mut left = arguments.iterations;
    while left != Some(0) {
        interrupt.rest(source.pause(arguments.interval()));
        if let Some(exit) = interrupt.exit() {
            return Ok(exit);
        }
        let Some(interval) = source.next()? else { break };
        let text = match arguments.format {
            Some(Format::Json) => json::line(&chosen(&interval, arguments.device.as_deref())?),
            Some(Format::Diskstats) => stat::diskstats(&chosen(&interval, arguments.device.as_deref())?.devices)?,
            Some(Format::Text) | None => {
                text(&chosen(&interval, arguments.device.as_deref())?, arguments.sort, &mut history)
            }
        };
        if !print_to_reader(&text)? {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(Exit::Done)
}

/// The interval without the devices that were not asked for.
fn chosen(interval: &Interval, device: Option<&str>) -> Result<Interval, Error> {
    let mut chosen = interval.clone();
    if let Some(name) = device {
        chosen.devices.retain(|device| device.name == name);
        if chosen.devices.is_empty() {
            let names: Vec<&str> = interval.devices.iter().map(|device| device.name.as_str()).collect();
            return Err(Error::usage(
                format!("there is no device '{name}'"),
                format!("there are: {}", names.join(", ")),
            ));
        }
    }
    Ok(chosen)
}

/// An interval as lines, followed by an empty line.
fn text(interval: &Interval, sort: Sort, history: &mut History) -> String {
    let mut text = String::new();
    for device in &interval.devices {
        let lines = tree::lines(device, interval.seconds(), sort);
        history.add(&device.name, &lines);
        let shown = Shown { split: false, width: None };
        let (header, rows) = table::cells(&device.name, &lines, shown, history);
        text += &format!("{}\n", table::device_line(device, interval));
        let below = device.sentences();
        text += &table::text(&header, &rows).iter().chain(&below).map(|line| format!("{line}\n")).collect::<String>();
    }
    text + "\n"
}
