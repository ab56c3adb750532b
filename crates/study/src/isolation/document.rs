//! The results as plain data: the JSON document, of which table and page are views.

use schemars::JsonSchema;
use serde::Serialize;

use super::desideratum::{Desideratum, Score};

/// `hoistway test --scenario isolation --format json`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Document {
    /// Version of Hoistway.
    pub hoistway: &'static str,
    /// Version of the layout.
    pub schema: u32,
    /// Title of the scenario.
    pub scenario: String,
    /// The host: simulator, engine, native.
    pub host: &'static str,
    /// The target.
    pub target: String,
    /// That of the cells of the overhead.
    pub overhead_target: String,
    /// What was done to the target before the first run.
    pub preconditioning: String,
    /// Whether all runs were made.
    pub complete: bool,
    /// Runs of each figure.
    pub repetitions: u32,
    /// Seed of the load and of the random order of the runs.
    pub seed: u64,
    /// The simulated computer of the cells of the overhead; empty for the default.
    pub overhead_machine: String,
    /// The measured values that io.cost was set to.
    pub cost_model: Vec<NamedNumber>,
    /// The same for the cells of the overhead.
    pub overhead_cost_model: Vec<NamedNumber>,
    /// The desiderata, in the order of the table.
    pub desiderata: Vec<DesideratumRow>,
    /// The rows of the table.
    pub mechanisms: Vec<MechanismRow>,
    /// Every cell.
    pub cells: Vec<CellRow>,
}

/// A number with its name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NamedNumber {
    /// The name.
    pub name: &'static str,
    /// The number.
    pub value: u64,
}

/// A column of the table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DesideratumRow {
    /// Its name.
    pub name: Desideratum,
    /// Its head.
    pub title: &'static str,
    /// The figure and its limit.
    pub rule: &'static str,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MechanismRow {
    /// Its name.
    pub name: String,
    /// Scheduler, limiter and strongest setting.
    pub settings: String,
    /// Why it runs in no cell here; null if it runs.
    pub unavailable: Option<String>,
    /// One verdict for each desideratum that was measured.
    pub verdicts: Vec<Verdict>,
}

/// Whether a mechanism meets a desideratum.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Verdict {
    /// The desideratum.
    pub desideratum: Desideratum,
    /// Null if the mechanism cannot run in any of its cells.
    pub score: Option<Score>,
    /// Cells that are met, and all that were run.
    pub met_cells: usize,
    /// See `met_cells`.
    pub cells: usize,
    /// The cell with the worst figure.
    pub worst_cell: Option<String>,
    /// That figure.
    pub figure: Option<Figure>,
    /// Why it could not run in some of the cells.
    pub refusal: Option<String>,
}

/// A figure from all repetitions.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit: `%`, `us`, `ms`, `x` (times), `1/s`, `MB/s`, or empty.
    pub unit: &'static str,
    /// Mean of the repetitions.
    pub mean: f64,
    /// Half width of the 95 % interval of the mean; null for one repetition.
    pub ci95: Option<f64>,
    /// Repetitions.
    pub n: usize,
    /// Repetitions whose run reached the steady state.
    pub steady: usize,
    /// The latest round, from 1, with which one of them reached it.
    pub steady_from_round: Option<usize>,
    /// Whether the interval contains the limit, so that another seed may change the verdict.
    pub is_close: bool,
    /// Whether some repetition ended before the event whose time it is: the mean is then a lower
    /// bound.
    pub is_lower_bound: bool,
}

/// A cell under all mechanisms.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellRow {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub desideratum: Desideratum,
    /// Time before the rounds, in seconds.
    pub ramp_s: f64,
    /// Length of a round, in seconds.
    pub round_s: f64,
    /// Rounds of a run.
    pub rounds: usize,
    /// Mechanism by mechanism.
    pub results: Vec<CellResult>,
}

/// A cell under one mechanism.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellResult {
    /// The mechanism.
    pub mechanism: String,
    /// Why it cannot run here; null if it can.
    pub refusal: Option<String>,
    /// Whether the desideratum is met in this cell.
    pub score: Option<Score>,
    /// The setting that decides, as an index into `settings`.
    pub decided_by: Option<usize>,
    /// The settings with their figures.
    pub settings: Vec<SettingRow>,
}

/// The figures of a cell under one setting of a mechanism.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingRow {
    /// The setting; empty if there is none.
    pub setting: String,
    /// The figures; the first one is the one that is judged.
    pub figures: Vec<Figure>,
    /// Whether no other setting of any mechanism has both a lower latency and a higher throughput;
    /// null in cells without such a comparison.
    pub is_on_front: Option<bool>,
}

impl Figure {
    /// The figure with its interval: `3.1 ±0.2 %`; `*` if the steady state was not reached in every
    /// run, `?` if the interval contains the limit.
    pub fn text(&self) -> String {
        let decimals = match self.mean.abs() {
            size if size >= 99.95 => 0,
            size if size >= 9.995 => 1,
            _ => 2,
        };
        let half = self.ci95.map_or_else(String::new, |half| format!(" ±{half:.decimals$}"));
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let bound = if self.is_lower_bound { "> " } else { "" };
        format!("{bound}{:.decimals$}{half}{unit}{}", self.mean, self.marks())
    }

    /// The marks behind it.
    pub fn marks(&self) -> String {
        let unsteady = if self.steady < self.n { "*" } else { "" };
        let close = if self.is_close { "?" } else { "" };
        format!("{unsteady}{close}")
    }
}
