//! The format of a scenario that measures isolation: mechanisms, cells, and parts that can be run
//! alone.
//!
//! ```toml
//! [isolation]
//! target = "model:ssd"                     # if the user names none
//! overhead_target = "model:nvme"
//! repetitions = 10
//! rounds = 8                               # steady state is searched among them
//! round = "20ms"
//! ramp = "10ms"
//! [[isolation.mechanism]]
//! name = "bfq slice_idle=0"
//! sched = "bfq:slice_idle=0"
//! important = "weight=800"                 # how the first tenant of a cell is preferred
//! knob = ["weight=100", "weight=800"]      # what is tried for priority against utilisation
//! [[isolation.cell]]
//! name = "16 groups, 1..16"
//! desideratum = "equal-requests"
//! count = 16
//! weights = "1..16"
//! workload = "drr:bs=4k,iodepth=32"
//! ```

use serde::Deserialize;

use super::desideratum::{Desideratum, Measurement};
use crate::judge::format::Time;

/// `[isolation]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The target if the user names none.
    pub target: String,
    /// Instead of it, that of the cells of the overhead: a device that does not limit the schedulers.
    pub overhead_target: String,
    /// Runs of every figure.
    pub repetitions: u32,
    /// Rounds of a run, among which the steady state is searched.
    pub rounds: u32,
    /// Length of a round.
    pub round: Time,
    /// Time before the first round.
    pub ramp: Time,
    /// The simulated computer of cells of the overhead, as `--machine` has it.
    #[serde(default)]
    pub overhead_machine: String,
    /// The mechanisms; the first is `none`, to which the others are compared.
    #[serde(rename = "mechanism")]
    pub mechanisms: Vec<MechanismText>,
    /// The cells.
    #[serde(rename = "cell")]
    pub cells: Vec<CellText>,
    /// Subsets that can be run alone.
    #[serde(default, rename = "part")]
    pub parts: Vec<Part>,
}

/// `[[isolation.mechanism]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanismText {
    /// Its name in tables.
    pub name: String,
    /// The scheduler.
    pub sched: String,
    /// The limiter above it.
    #[serde(default)]
    pub limiter: Option<String>,
    /// Instead of both, the name of a scheduler on the native host.
    #[serde(default)]
    pub native: Option<String>,
    /// Whether shares are given as limits (io.max), because it knows no weights.
    #[serde(default)]
    pub shares_as_limits: bool,
    /// Whether it has a cost model, whose coefficients are measured first (io.cost).
    #[serde(default)]
    pub cost_model: bool,
    /// Time before the rounds of cells about priority, if it needs more than the cell gives.
    #[serde(default)]
    pub priority_ramp: Option<Time>,
    /// Settings with which its overhead is measured.
    #[serde(default)]
    pub overhead: String,
    /// Settings that prefer the first tenant of a cell as far as possible.
    #[serde(default)]
    pub important: String,
    /// The settings tried for priority against utilisation.
    #[serde(default)]
    pub knob: Vec<String>,
}

/// `[[isolation.cell]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellText {
    /// Its name; unique.
    pub name: String,
    /// What it measures.
    pub desideratum: Desideratum,
    /// The tenants, in the form of `--group`. The first is the important one.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Instead of `groups`: the number of tenants with the same workload.
    #[serde(default)]
    pub count: Option<usize>,
    /// Their weights: a range from the first to the last, or a list; equal if it is left out.
    #[serde(default)]
    pub weights: Option<String>,
    /// Their workload.
    #[serde(default)]
    pub workload: Option<String>,
    /// Time at which the first tenant comes back: rounds begin there.
    #[serde(default)]
    pub returns: Option<Time>,
    /// Instead of that of `[isolation]`.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Instead of that of `[isolation]`.
    #[serde(default)]
    pub round: Option<Time>,
    /// Instead of that of `[isolation]`.
    #[serde(default)]
    pub ramp: Option<Time>,
}

/// `[[isolation.part]]`: a subset for `--scenario NAME:PART`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The name after the colon.
    pub name: String,
    /// Description in one line.
    pub doc: String,
    /// Only this measurement.
    #[serde(default)]
    pub measurement: Option<Measurement>,
    /// Only cells with these names; all if empty.
    #[serde(default)]
    pub cells: Vec<String>,
    /// Instead of that of `[isolation]`.
    #[serde(default)]
    pub repetitions: Option<u32>,
    /// Only every n-th setting of a knob, the first and the last included.
    #[serde(default)]
    pub every_setting: Option<usize>,
}
