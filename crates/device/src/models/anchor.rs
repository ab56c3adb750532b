//! A measurement of the real device (an anchor), stored in the file of its model: the recipe, and
//! the figures that it gave.
//!
//! This crate only reads and writes anchors. `hoistway device fit` runs them on the model and
//! compares the results; `hoistway device calibrate` fits a model to measurements of a user's disk.

use std::fmt::Write;

use hoistway_block::{Direction, Nanos};

use super::error::ModelError;

/// Which figure of a run was published.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Sum over processes of bytes per elapsed time of each: how scripts add the lines of several
    /// dd.
    SumOfRates,
    /// All bytes over the time until the last process finished.
    Aggregate,
    /// Bytes per second, per group where there are several values.
    Bandwidth,
    /// Requests per second, likewise.
    Iops,
    /// Requests completed, likewise.
    Ios,
    /// Mean latency, likewise.
    LatencyMean,
    /// Median latency, likewise.
    LatencyMedian,
    /// 99th percentile of latency, likewise.
    LatencyP99,
}

/// The units of a figure: each with its factor to the base unit.
type Units = &'static [(&'static str, f64)];

const RATES: Units = &[("MB/s", 1e6), ("MiB/s", 1_048_576.0), ("KiB/s", 1024.0), ("kB/s", 1e3), ("GB/s", 1e9)];
const PER_SECOND: Units = &[("1/s", 1.0)];
const COUNTS: Units = &[("I/Os", 1.0)];
const TIMES: Units = &[("us", 1e3), ("ms", 1e6), ("ns", 1.0)];

impl Figure {
    /// All figures by name, with their units.
    const ALL: [(&'static str, Figure, Units); 8] = [
        ("sum_of_rates", Figure::SumOfRates, RATES),
        ("aggregate", Figure::Aggregate, RATES),
        ("bandwidth", Figure::Bandwidth, RATES),
        ("iops", Figure::Iops, PER_SECOND),
        ("ios", Figure::Ios, COUNTS),
        ("latency_mean", Figure::LatencyMean, TIMES),
        ("latency_median", Figure::LatencyMedian, TIMES),
        ("latency_p99", Figure::LatencyP99, TIMES),
    ];

    /// All names, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|row| row.0)
    }

    /// The figure of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    fn row(self) -> &'static (&'static str, Figure, Units) {
        // Every figure has a row; the first is only a fallback.
        Self::ALL.iter().find(|row| row.1 == self).unwrap_or(&Self::ALL[0])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its units.
    pub fn units(self) -> impl Iterator<Item = &'static str> {
        self.row().2.iter().map(|unit| unit.0)
    }

    /// The value of one `unit` in bytes per second, requests or nanoseconds; None if it is not a
    /// unit of this figure.
    pub fn worth(self, unit: &str) -> Option<f64> {
        self.row().2.iter().find(|row| row.0 == unit).map(|row| row.1)
    }
}

/// One repetition of an anchor's run.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Repetition {
    /// Seed of everything random in it.
    pub seed: u64,
    /// Added to the area of every copy of the job, in bytes.
    pub offset_bytes: u64,
}

/// One measurement: a recipe and the figure it gave on the real device.
#[derive(Clone, PartialEq, Debug)]
pub struct Anchor {
    /// Its name in tables.
    pub name: String,
    /// Who measured it, when, and under which conditions.
    pub source: String,
    /// The figure.
    pub figure: Figure,
    /// Its values in `unit`: one for all groups together, or one per group in the order in which
    /// jobs name them.
    pub published: Vec<f64>,
    /// The unit of the published values, one of [`Figure::units`].
    pub unit: String,
    /// Only reads or only writes; None = all together.
    pub direction: Option<Direction>,
    /// The scheduler, in the form of `--sched`.
    pub scheduler: String,
    /// The machine, in the form of `--machine`.
    pub machine: String,
    /// The job file of one copy. `${COPY}`, `${START}` (an offset in bytes) and `${DELAY}` (a time)
    /// differ between copies.
    pub job: String,
    /// Number of copies of the job that run together.
    pub copies: u32,
    /// Distance between the areas of two copies, in bytes.
    pub stride_bytes: u64,
    /// Upper bound of the random offset added to each copy's area, in bytes.
    pub random_bytes: u64,
    /// Delay between the starts of two copies, in nanoseconds.
    pub stagger_ns: Nanos,
    /// The runs whose mean is the figure; at least one.
    pub repetitions: Vec<Repetition>,
    /// Whether the figure does not count yet, because the run lacks a property of the original.
    pub is_provisional: bool,
}

impl Anchor {
    /// The anchors of a file's text: a model's, or one with only `[[anchor]]` entries.
    ///
    /// # Errors
    /// The first mistake with its line.
    pub fn read_all(file: &str, text: &str) -> Result<Vec<Self>, ModelError> {
        super::file::read_anchors(file, text)
    }

    /// The anchor in the format of a model's file; [`crate::Preset::read`] parses it to the same
    /// anchor.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("[[anchor]]\n");
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut line = |key: &str, value: String| {
            let _ = writeln!(text, "{key} = {value}");
        };
        line("name", quoted(&self.name));
        line("source", quoted(&self.source));
        line("figure", quoted(self.figure.name()));
        line("published", list(&self.published));
        line("unit", quoted(&self.unit));
        if let Some(direction) = self.direction {
            line("direction", quoted(direction_name(direction)));
        }
        line("scheduler", quoted(&self.scheduler));
        line("machine", quoted(&self.machine));
        if self.is_provisional {
            line("provisional", "true".to_owned());
        }
        line("seeds", list(&self.repetitions.iter().map(|run| run.seed).collect::<Vec<_>>()));
        if self.repetitions.iter().any(|run| run.offset_bytes > 0) {
            line("offsets_mb", list(&self.repetitions.iter().map(|run| run.offset_bytes / MB).collect::<Vec<_>>()));
        }
        line("copies", self.copies.to_string());
        line("stride_mb", (self.stride_bytes / MB).to_string());
        line("random_mb", (self.random_bytes / MB).to_string());
        line("stagger_us", (self.stagger_ns / 1_000).to_string());
        // Several lines within one pair of triple quotes, whatever they contain.
        let job = self.job.replace('\\', "\\\\").replace("\"\"\"", "\"\"\\\"");
        let _ = writeln!(text, "job = \"\"\"\n{}\n\"\"\"", job.trim_end());
        text
    }
}

/// The unit in which anchors write sizes.
pub(crate) const MB: u64 = 1_000_000;

/// The word for a direction.
fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

fn list<T: std::fmt::Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    if let [value] = values.as_slice() { value.clone() } else { format!("[{}]", values.join(", ")) }
}
