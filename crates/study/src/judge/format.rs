//! The format of judged cells in a scenario file: settings, a grid, single cells, and parts that
//! can be run alone.
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

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;
use serde::{Deserialize, Deserializer};

use hoistway_experiment::units;

/// `[judge]`: which schedulers are judged and compared, and for how long.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The schedulers to judge if the user gives no `--sched`.
    pub schedulers: Vec<String>,
    /// Schedulers that are also measured, to know what is attainable; `none` is always measured.
    pub against: Vec<String>,
    /// One run of each cell and scheduler per seed.
    pub seeds: Vec<u64>,
    /// Times of runs on devices without positioning.
    pub flash: Times,
    /// Times of runs on disks and arrays.
    pub rotational: Times,
    /// Values that replace `writes_ramp`, by device.
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

/// Duration of a run, in simulated time.
#[derive(Copy, Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// The part before the judged one; convergence is evaluated from the start.
    pub ramp: Time,
    /// The ramp of runs with writes, which lasts until garbage collection is in its steady state.
    pub writes_ramp: Time,
    /// The judged part.
    pub runtime: Time,
}

/// A time in the form of the command line.
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
    /// Device models, without `model:`.
    pub devices: Vec<String>,
    /// Workloads by name, one for all groups of a cell.
    pub workloads: Vec<String>,
    /// The lists of the groups' weights.
    pub weights: Vec<String>,
}

/// `[[cell]]`: tenants that differ.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellText {
    /// Its name in tables, after the device.
    pub name: String,
    /// Description in one line.
    #[serde(default)]
    pub doc: String,
    /// A cell for each of these devices.
    pub devices: Vec<String>,
    /// The tenants, in the form of `--group`.
    pub groups: Vec<String>,
    /// Times of changes: the time to settle is reported for each, and the part after the last is
    /// judged.
    #[serde(default)]
    pub changes: Vec<Time>,
    /// Whether the device becomes slower by itself: that time, detected in each run, is the change.
    #[serde(default)]
    pub falls: bool,
    /// Whether isolation and weighted speedup are judged, instead of shares.
    #[serde(default, rename = "unequal")]
    pub is_unequal: bool,
    /// The simulated computer, in the form of `--machine`.
    #[serde(default)]
    pub machine: Option<String>,
    /// The ramp, instead of that of `[judge]`.
    #[serde(default)]
    pub ramp: Option<Time>,
    /// The runtime, instead of that of `[judge]`.
    #[serde(default)]
    pub runtime: Option<Time>,
}

/// `[[part]]`: a subset of cells for `--scenario NAME:PART`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The name after the colon.
    pub name: String,
    /// Description in one line.
    #[serde(default)]
    pub doc: String,
    /// The kinds of cells; all if empty.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Only every n-th cell.
    #[serde(default)]
    pub every: Option<usize>,
    /// Instead of those of `[judge]`.
    #[serde(default)]
    pub seeds: Option<Vec<u64>>,
    /// Instead of those of `[judge]`.
    #[serde(default)]
    pub against: Option<Vec<String>>,
}

/// The kind of a cell.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// All tenants have the same workload.
    Grid,
    /// Tenants with different workloads.
    Tenants,
    /// Tenants with different workloads, judged by isolation and weighted speedup.
    Unequal,
    /// Tenants that come, go, pulse or change.
    Changes,
}

impl Kind {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Grid => "grid",
            Kind::Tenants => "tenants",
            Kind::Unequal => "unequal",
            Kind::Changes => "changes",
        }
    }
}
