//! The progress of a test, on stderr: a line redrawn in place on a terminal, one line per finished
//! run elsewhere. Source: docs/specifications/harness.md, section 5.10.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use hoistway_block::Nanos;
use hoistway_experiment::job::{Amount, BlockSize};
use hoistway_experiment::{Experiment, LiveGroup, Measurement, printable};

use crate::run_test::arguments::ProgressName;

/// Time between two redraws of the line.
const REDRAW: Duration = Duration::from_millis(500);
/// Time between two lines of a condensed display.
const CONDENSED: Duration = Duration::from_secs(5);
/// Columns if the terminal does not report its width.
const DEFAULT_WIDTH: usize = 80;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Way {
    Silent,
    Lines,
    InPlace,
    /// The format of iostest.
    Classic,
}

/// Shows progress.
#[derive(Debug)]
pub struct Display {
    way: Way,
    total: usize,
    finished: usize,
    begun: Instant,
    drawn: Option<Instant>,
    /// Wall-clock duration of the whole test, if it is known in advance.
    known: Option<Duration>,
    latest: String,
    last_workload: String,
    /// Minimum time between two lines.
    apart: Duration,
    written: Instant,
}

/// The progress of a run.
#[derive(Clone, Debug)]
pub struct Live {
    /// Time since the run's start on the run's own clock, in nanoseconds.
    pub elapsed_ns: Nanos,
    /// The groups' figures since the window began.
    pub groups: Vec<LiveGroup>,
}

impl Display {
    /// Chooses the form of the display. `known` is the duration of all runs together, if they take
    /// real time.
    pub fn new(wanted: ProgressName, is_quiet: bool, is_classic: bool, known: Option<Duration>) -> Self {
        let way = match wanted {
            _ if is_quiet => Way::Silent,
            ProgressName::None => Way::Silent,
            ProgressName::Auto if is_classic => Way::Classic,
            ProgressName::Auto if io::stderr().is_terminal() => Way::InPlace,
            // A line that is redrawn in place is never written to a pipe.
            ProgressName::Bar if io::stderr().is_terminal() => Way::InPlace,
            ProgressName::Auto | ProgressName::Bar | ProgressName::Line => Way::Lines,
        };
        Self {
            way,
            total: 0,
            finished: 0,
            begun: Instant::now(),
            drawn: None,
            known,
            latest: String::new(),
            last_workload: String::new(),
            apart: Duration::ZERO,
            written: Instant::now(),
        }
    }

    /// For thousands of short runs: a line at intervals instead of one per run.
    #[must_use]
    pub fn condensed(self) -> Self {
        Self { apart: CONDENSED, ..self }
    }

    /// Announces further runs.
    pub fn expect(&mut self, runs: usize, threads: &[u32]) {
        if self.way == Way::Classic && self.total == 0 {
            let most = threads.iter().max().unwrap_or(&1);
            line(&format!("Will run workloads for increasing number of threads upto a max of {most}"));
        }
        self.total += runs;
    }

    /// A run begins.
    pub fn started(&mut self, experiment: &Experiment) {
        match self.way {
            Way::Classic => {
                self.classic_end(&experiment.workload);
                line(&classic_start(experiment));
            }
            Way::InPlace => {
                self.latest = self.head(experiment);
                self.draw(false);
            }
            Way::Silent | Way::Lines => {}
        }
    }

    /// A run has progressed.
    pub fn advanced(&mut self, experiment: &Experiment, live: &Live) {
        if self.way == Way::InPlace {
            let window_ns = live.elapsed_ns.saturating_sub(experiment.ramp_ns);
            let seconds = live.elapsed_ns / 1_000_000_000;
            self.latest =
                format!("{}  {seconds}s{}", self.head(experiment), figures(experiment, &live.groups, window_ns));
            self.draw(false);
        }
    }

    /// A run has ended.
    pub fn finished(&mut self, measurement: &Measurement) {
        self.finished += 1;
        let experiment = &measurement.experiment;
        let groups = measurement.groups.iter().map(|group| LiveGroup {
            bytes: group.bytes(),
            ios: group.ios(),
            latency_ns_p99: group.latency().percentile_ns(99.0),
        });
        let groups: Vec<LiveGroup> = groups.collect();
        match self.way {
            Way::Lines if self.written.elapsed() < self.apart && self.finished < self.total => {}
            Way::Lines => {
                self.written = Instant::now();
                let figures = figures(experiment, &groups, measurement.window_ns);
                line(&format!("{}{figures}{}", self.head(experiment), self.eta()));
            }
            Way::InPlace => {
                self.latest =
                    format!("{}{}", self.head(experiment), figures(experiment, &groups, measurement.window_ns));
                self.draw(self.finished == self.total);
            }
            Way::Silent | Way::Classic => {}
        }
    }

    /// No run follows; the line is cleared.
    pub fn end(&mut self) {
        match self.way {
            Way::InPlace if self.drawn.is_some() => {
                // A closed stderr cannot be reported, here and below.
                let _ = write!(io::stderr(), "\r\x1b[K");
            }
            Way::Classic => self.classic_end(""),
            _ => {}
        }
    }

    fn classic_end(&mut self, next: &str) {
        if self.last_workload != next {
            if !self.last_workload.is_empty() {
                line(&format!("Finished test for workload [{}]", self.last_workload));
            }
            next.clone_into(&mut self.last_workload);
        }
    }

    fn head(&self, experiment: &Experiment) -> String {
        let digits = self.total.to_string().len();
        let Experiment { workload, scheduler, threads, set, seed, .. } = experiment;
        let which = if self.apart.is_zero() { format!("nr={threads} set={set}") } else { format!("seed={seed}") };
        format!("[{:>digits$}/{}] {workload} {scheduler} {which}", self.finished, self.total)
    }

    /// The remaining time, from the known duration or from the runs done so far.
    fn eta(&self) -> String {
        let left = self.total.saturating_sub(self.finished);
        if self.finished == 0 || left == 0 {
            return String::new();
        }
        let passed = self.begun.elapsed();
        let seconds = match self.known {
            Some(whole) => whole.saturating_sub(passed).as_secs(),
            None => {
                let count = |runs: usize| u32::try_from(runs).unwrap_or(u32::MAX);
                (passed.saturating_mul(count(left)) / count(self.finished)).as_secs()
            }
        };
        match seconds {
            0..100 => format!("  eta {seconds}s"),
            100..6000 => format!("  eta {}m", (seconds + 30) / 60),
            _ => format!("  eta {}h", (seconds + 1800) / 3600),
        }
    }

    fn draw(&mut self, at_once: bool) {
        if !at_once && self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(DEFAULT_WIDTH, |(width, _)| width.0.into());
        let text = format!("{}{}", self.latest, self.eta());
        let shown: String = printable(&text).chars().take(width.saturating_sub(1)).collect();
        let mut stderr = io::stderr();
        let _ = write!(stderr, "\r\x1b[K{shown}").and_then(|()| stderr.flush());
    }
}

fn line(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(text));
}

/// `  412 MiB/s  shares 101:205:297:398 (due 100:200:300:400)  worst p99 4.1ms`.
fn figures(experiment: &Experiment, groups: &[LiveGroup], window_ns: Nanos) -> String {
    let bytes: u64 = groups.iter().map(|group| group.bytes).sum();
    if window_ns == 0 || bytes == 0 {
        return String::new();
    }
    let mib_per_s = bytes as f64 / f64::from(1 << 20) / (window_ns as f64 / 1e9);
    let places = if mib_per_s < 100.0 { 2 } else { 0 };
    let mut text = format!("  {mib_per_s:.places$} MiB/s");
    if groups.len() > 1 {
        let weights: Vec<u32> = experiment.groups.iter().map(|group| group.weight.get()).collect();
        let sum: u32 = weights.iter().sum();
        let got = groups.iter().map(|group| format!("{:.0}", group.bytes as f64 / bytes as f64 * f64::from(sum)));
        let got: Vec<String> = got.collect();
        let due: Vec<String> = weights.iter().map(u32::to_string).collect();
        text.push_str(&format!("  shares {} (due {})", got.join(":"), due.join(":")));
    }
    let p99_ns = groups.iter().map(|group| group.latency_ns_p99).max().unwrap_or(0);
    if p99_ns > 0 {
        // As in the table, the figure is that of the group with the highest latency.
        let of = if groups.len() > 1 { "worst " } else { "" };
        text.push_str(&format!("  {of}p99 {:.1}ms", p99_ns as f64 / 1e6));
    }
    text
}

/// The line with which iostest announced a run.
fn classic_start(experiment: &Experiment) -> String {
    let job = experiment.groups.iter().find_map(|group| group.jobs.first());
    let size = match job.and_then(|job| job.area.size) {
        Some(Amount::Bytes(bytes)) => format!("{}M", bytes >> 20),
        Some(Amount::Percent(percent)) => format!("{percent}%"),
        None => "-".to_owned(),
    };
    let block = match job.map(|job| &job.shape.block_sizes.read) {
        Some(BlockSize::Fixed(bytes)) => format!("{}k", bytes >> 10),
        _ => "-".to_owned(),
    };
    let Experiment { workload, set, threads, runtime_ns, .. } = experiment;
    let runtime = match *runtime_ns {
        Experiment::UNTIL_DONE_NS => "-".to_owned(),
        runtime_ns => (runtime_ns / 1_000_000_000).to_string(),
    };
    format!(
        "Starting test for [{workload}] with set={set} numjobs={threads} filesz={size} bs={block} runtime={runtime}"
    )
}
