//! The types of `result.json`: `json::result` fills them, and their JSON Schema is printed by
//! `hoistway schema test`.

use std::collections::BTreeMap;

use hoistway_experiment::statistics::Estimate;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

/// Results of a test or of a replay: one entry of `cells` per workload, scheduler and number of
/// threads. Keys may be added; a key never changes its meaning within one `schema`.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ResultDocument {
    /// Version of hoistway.
    pub hoistway: String,
    /// Version of this layout.
    pub schema: u64,
    /// Whether every planned run was made.
    pub complete: bool,
    /// When the test was started, in UTC.
    pub started: String,
    /// The host that issued the I/O: `simulator`, `engine` or `native`.
    pub host: String,
    /// The device or file; null without any run.
    pub target: Option<TargetDocument>,
    /// Properties of the machine, as text.
    pub environment: BTreeMap<String, String>,
    /// The groups of the first cell.
    pub groups: Vec<GroupFacts>,
    /// The results.
    pub cells: Vec<CellDocument>,
    /// The assertions (`--assert`).
    pub assertions: Vec<AssertionDocument>,
}

/// The device or file that was measured. Further keys are notes of the host, as text.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TargetDocument {
    /// Its path, or the model.
    pub path: String,
    /// The model name that the device reports.
    pub model: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether positioning costs time.
    pub rotational: bool,
    /// Number of hardware queues.
    pub hw_queues: u32,
    /// Commands that it accepts at a time.
    pub queue_depth: u32,
    /// Notes of the host.
    #[serde(flatten)]
    pub notes: BTreeMap<String, String>,
}

/// A group and its weight.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct GroupFacts {
    /// Its path.
    pub name: String,
    /// Its weight as requested.
    pub weight: u32,
    /// Its weight in the scheduler's range.
    pub effective_weight: u32,
}

/// The result of an assertion.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct AssertionDocument {
    /// The assertion as given.
    pub expr: String,
    /// Whether it holds.
    pub ok: bool,
    /// Whether the confidence interval contains the limit.
    pub inconclusive: bool,
    /// The measured value.
    pub value: Number,
    /// The limit.
    pub limit: Number,
    /// The cell that it applies to.
    pub cell: String,
}

/// One workload under one scheduler with one number of threads, over all sets.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct CellDocument {
    /// The workload.
    pub workload: String,
    /// The scheduler.
    pub sched: String,
    /// The scheduler with its settings as given.
    pub spec: String,
    /// The kernel version whose behaviour was requested.
    pub version: Option<String>,
    /// The settings as given.
    pub tunables: Entries<String>,
    /// All tunables in force.
    pub tunables_in_force: Entries<TunableDocument>,
    /// Number of threads of each group.
    pub nr: u32,
    /// Number of sets (repetitions).
    pub sets: u64,
    /// Figures of all groups together.
    pub total: TotalDocument,
    /// Figures of each group.
    pub groups: Vec<GroupDocument>,
    /// Jain's index over the groups' shares relative to what was due; null where nothing was due.
    pub jain: Option<Number>,
    /// Got / entitled of the group that is worst off, 0 to 1; null where what the groups achieve
    /// alone was not measured.
    pub isolation: Option<Number>,
    /// The largest deviation of a group from its due share by weight, as a fraction of that share.
    pub share_error_max: Option<Number>,
    /// The mean deviation, as a fraction.
    pub share_error_mean: Option<Number>,
    /// Throughput relative to the best scheduler of the same workload and number of threads, 0 to 1.
    pub efficiency: Number,
    /// Failed I/Os.
    pub errors: u64,
    /// How often the scheduler gave each reason for a dispatch.
    pub dispatch_reasons: BTreeMap<String, u64>,
    /// Warnings about the measurement.
    pub flags: Vec<String>,
    /// For a replay: delay of I/Os relative to their recorded times, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slip_ns: Option<SlipDocument>,
}

/// A tunable in force.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TunableDocument {
    /// Its value.
    pub value: String,
    /// Its unit; empty for plain numbers.
    pub unit: String,
    /// Whether the value is the default.
    pub default: bool,
}

/// Figures of all groups together.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct TotalDocument {
    /// Bytes per second read and written.
    pub bw_bytes: EstimateDocument,
    /// Bytes per second discarded.
    pub discard_bw_bytes: EstimateDocument,
    /// I/Os per second.
    pub iops: EstimateDocument,
    /// Latencies in ns, by direction.
    pub lat_ns: Directions<LatencyDocument>,
}

/// Figures of one group.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct GroupDocument {
    /// Its path.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Bytes per second read and written.
    pub bw_bytes: EstimateDocument,
    /// Bytes per second discarded.
    pub discard_bw_bytes: EstimateDocument,
    /// I/Os per second.
    pub iops: EstimateDocument,
    /// The fraction of the total service that it got; null where nothing was due.
    pub share: Option<Number>,
    /// The fraction that was due to it by weight.
    pub due: Option<Number>,
    /// What it is entitled to; null where what the groups achieve alone was not measured.
    pub entitlement: Option<EntitlementDocument>,
    /// Its deviation from the due share, as a fraction of it.
    pub share_error: Option<Number>,
    /// Latencies in ns, by direction.
    pub lat_ns: Directions<LatencyDocument>,
    /// Results of its jobs, if it has several or they are reported in groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobDocument>,
}

/// What a group is entitled to beside the others: what it achieves alone, at most its part of the
/// device by weight and of what others leave.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct EntitlementDocument {
    /// Unit of the rates: `bytes`, or `ios` for a group that transfers none.
    pub unit: String,
    /// Its rate per second when it runs alone.
    pub alone_per_s: Number,
    /// The rate of the device kept full with its kind of request.
    pub full_per_s: Number,
    /// The rate that it is entitled to.
    pub entitled_per_s: Number,
    /// The rate that it got.
    pub got_per_s: Number,
    /// Got / entitled; above 1 where others left more. Null if it is entitled to nothing.
    pub fulfilled: Option<Number>,
}

/// A job of a group, or the sum of its reporting group; rates are over its own time.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct JobDocument {
    /// Its name.
    pub name: String,
    /// Number of its reporting group.
    pub report_group: u32,
    /// Number of threads.
    pub threads: u64,
    /// Whether it is the sum of several jobs.
    pub is_sum: bool,
    /// Its own time in ns.
    pub runtime_ns: EstimateDocument,
    /// How it was cut off by the end of the run; empty if it was not.
    pub cut_off: String,
    /// Figures by direction.
    #[serde(flatten)]
    pub directions: Directions<JobDirectionDocument>,
}

/// Figures of a job in one direction.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct JobDirectionDocument {
    /// Time that it covers in ns.
    pub runtime_ns: EstimateDocument,
    /// Bytes per second.
    pub bw_bytes: EstimateDocument,
    /// I/Os per second.
    pub iops: EstimateDocument,
    /// Bytes.
    pub bytes: u64,
    /// I/Os.
    pub ios: u64,
    /// Failed I/Os.
    pub errors: u64,
    /// Latencies in ns.
    pub lat_ns: LatencyDocument,
}

/// Values by direction; only the directions that occurred are present.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Directions<T> {
    /// Of reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<T>,
    /// Of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<T>,
    /// Of trims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim: Option<T>,
    /// Of flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<T>,
}

impl<T> Default for Directions<T> {
    fn default() -> Self {
        Self { read: None, write: None, trim: None, sync: None }
    }
}

/// Latencies in ns.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct LatencyDocument {
    /// Mean.
    pub mean: Number,
    /// Median.
    pub p50: Number,
    /// 90th percentile.
    pub p90: Number,
    /// 95th percentile.
    pub p95: Number,
    /// 99th percentile.
    pub p99: Number,
    /// 99.9th percentile.
    pub p999: Number,
    /// The largest.
    pub max: u64,
    /// Number of I/Os.
    pub n: u64,
}

/// Delays in ns.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct SlipDocument {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The largest.
    pub max: u64,
    /// Number of I/Os.
    pub n: u64,
}

/// A figure over all sets.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct EstimateDocument {
    /// The mean; of a percentile, that of the merged histograms.
    pub mean: Number,
    /// Standard deviation; 0 for one set.
    pub sd: Number,
    /// Half width of the 95 % confidence interval; null for one set.
    pub ci95: Option<Number>,
    /// Number of sets.
    pub n: u64,
}

impl From<&Estimate> for EstimateDocument {
    fn from(estimate: &Estimate) -> Self {
        let Estimate { mean, sd, ci95, n } = *estimate;
        Self { mean: Number(mean), sd: Number(sd), ci95: ci95.map(Number), n: n as u64 }
    }
}

/// A number; null if it is not finite.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl JsonSchema for Number {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Number".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Option<f64>>::json_schema(generator)
    }
}

/// An object whose keys keep their order.
#[derive(Clone, PartialEq, Debug)]
pub struct Entries<T>(pub Vec<(String, T)>);

impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        <BTreeMap<String, T>>::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <BTreeMap<String, T>>::json_schema(generator)
    }
}
