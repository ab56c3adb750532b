//! The result: which settings to change, the rule, the evidence and the confidence.

use hoistway_experiment::SchedulerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidates::RunsIn;
use crate::class::Classified;
use crate::iostune::Idling;
use crate::score::{Goal, Scores};

/// Confidence of an item.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Decided by properties alone, or by preference between equals.
    Low,
    /// Measured, but within twice the noise.
    Medium,
    /// Measured, and beyond twice the noise.
    High,
}

/// What to do.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Change something.
    Change,
    /// Leave everything as it is.
    Keep,
    /// The figures are too noisy to decide; leave everything as it is.
    Inconclusive,
    /// The device has nothing to set.
    Nothing,
}

/// One setting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// `scheduler`, `iosched/low_latency`, `wbt_lat_usec`, ...: a file below the device's `queue/`.
    /// `io.cost/rbps`, ...: a key of the device's lines in `io.cost.model` and `io.cost.qos`.
    pub setting: String,
    /// Current value.
    pub old: String,
    /// Recommended value.
    pub new: String,
    /// The rule, `R-...`; all are listed in docs/reference/tune.md.
    pub rule: String,
    /// The measured evidence.
    pub evidence: String,
    /// What would change the advice.
    pub unless: String,
    /// Confidence.
    pub confidence: Confidence,
}

/// Advice for the kernel or for `hoistway serve`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Which of them it is for.
    #[serde(rename = "carrier")]
    pub runs_in: RunsIn,
    /// What to do.
    pub verdict: Verdict,
    /// The scheduler to run; the current one if it is to be kept.
    pub spec: SchedulerSpec,
    /// What to set, in the order in which it must be set.
    pub items: Vec<Item>,
    /// What was considered and rejected, with reasons.
    pub left: Vec<String>,
    /// Scores of the candidates; `None` if nothing was measured.
    pub scores: Option<Scores>,
}

/// The complete result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// The user's goal.
    pub goal: Goal,
    /// The class of the device.
    pub class: Classified,
    /// Whether to idle for readers, and why, from the rates of parallel streams.
    pub idling: Option<(Idling, String)>,
    /// Advice for the kernel.
    pub kernel: Advice,
    /// Advice for `hoistway serve`, if its policies could be measured.
    pub serve: Option<Advice>,
    /// Further notes.
    pub notes: Vec<String>,
}
