//! What a scenario file says about cells that are judged: settings, a grid, single cells, and parts that can be run alone.
//!
//! ```toml
//! [judge]                                   # everything here has a default
//! schedulers = ["paternoster"]
//! against = ["mqfq", "wfq"]
//! seeds = [1, 2, 3, 4]
//! flash = { ramp = "3s", writes_ramp = "30s", runtime = "10s" }
//! [grid]                                    # devices x workloads x weights
//! devices = ["ssd", "nvme"]
//! workloads = ["drr", "drr:bs=4k,iodepth=8"]
//! weights = ["100,800"]
//! [[cell]]                                  # tenants one by one, as --group has them
//! name = "deep-beside-shallow"
//! devices = ["nvme"]
//! groups = ["name=a,weight=100,workload=drr:bs=4k,iodepth=32", "name=b,weight=800,workload=drr:bs=4k"]
//! [[part]]                                  # --scenario NAME:quick
//! name = "quick"
//! every = 7
//! seeds = [1]
//! ```

use std::collections::BTreeMap;

use block::Nanos;
use block::time::SECOND;
use serde::{Deserialize, Deserializer};

use crate::units;

/// `[judge]`: who is judged against whom, and for how long.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Judged where `--sched` names none.
    pub schedulers: Vec<String>,
    /// Measured besides, to know what can be had; `none` always is.
    pub against: Vec<String>,
    /// One run of each cell and scheduler per seed.
    pub seeds: Vec<u64>,
    /// Times of runs on devices without positioning.
    pub flash: Times,
    /// Times of runs on disks and arrays.
    pub rotational: Times,
    /// Instead of `writes_ramp`, by device.
    pub writes_ramp_of: BTreeMap<String, Time>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            schedulers: vec!["paternoster".to_owned()],
            against: ["mqfq", "wfq", "bfq:low_latency=0", "cfq"].map(str::to_owned).to_vec(),
            seeds: vec![1, 2, 3, 4],
            flash: Times { ramp: Time(3 * SECOND), writes_ramp: Time(30 * SECOND), runtime: Time(10 * SECOND) },
            rotational: Times { ramp: Time(10 * SECOND), writes_ramp: Time(10 * SECOND), runtime: Time(60 * SECOND) },
            writes_ramp_of: BTreeMap::new(),
        }
    }
}

/// How long a run takes, in simulated time.
#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// Before anything is judged; convergence is looked for from the start.
    pub ramp: Time,
    /// The same where something is written: until garbage collection is in its steady state.
    pub writes_ramp: Time,
    /// What is judged.
    pub runtime: Time,
}

/// A time as the command line writes it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Time(pub Nanos);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        units::time(&text)
            .map(Time)
            .map_err(|wrong| serde::de::Error::custom(format!("{}: {}", wrong.message, wrong.help)))
    }
}

/// `[grid]`: every combination is a cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Device models, as behind `model:`.
    pub devices: Vec<String>,
    /// Workloads by name, one for all groups of a cell.
    pub workloads: Vec<String>,
    /// Weights of the groups.
    pub weights: Vec<String>,
}

/// `[[cell]]`: tenants that differ.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellText {
    /// In tables, behind the device.
    pub name: String,
    /// In one line.
    #[serde(default)]
    pub doc: String,
    /// A cell for each of them.
    pub devices: Vec<String>,
    /// The tenants, as `--group` has them.
    pub groups: Vec<String>,
    /// When something changes: how soon shares follow is told for each, and what comes last is judged.
    #[serde(default)]
    pub changes: Vec<Time>,
    /// The device becomes slower by itself: that moment, found in each run, is the change.
    #[serde(default)]
    pub falls: bool,
    /// Instead of the usual one.
    #[serde(default)]
    pub ramp: Option<Time>,
    /// Instead of the usual one.
    #[serde(default)]
    pub runtime: Option<Time>,
}

/// `[[part]]`: what `--scenario NAME:PART` runs alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Behind the colon.
    pub name: String,
    /// In one line.
    #[serde(default)]
    pub doc: String,
    /// Of which kinds; all without.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Every n-th cell only.
    #[serde(default)]
    pub every: Option<usize>,
    /// Instead of those of `[judge]`.
    #[serde(default)]
    pub seeds: Option<Vec<u64>>,
    /// Instead of those of `[judge]`.
    #[serde(default)]
    pub against: Option<Vec<String>>,
}

/// What a cell is about.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// All tenants do the same.
    Grid,
    /// Tenants that differ.
    Tenants,
    /// Tenants that come, go, pulse or change.
    Changes,
}

impl Kind {
    /// In tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Grid => "grid",
            Kind::Tenants => "tenants",
            Kind::Changes => "changes",
        }
    }
}
