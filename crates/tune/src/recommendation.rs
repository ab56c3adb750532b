//! What comes out: what to set, to what, by which rule, on what evidence, and how sure that is.

use experiment::SchedulerSpec;
use serde::{Deserialize, Serialize};

use crate::candidates::Carrier;
use crate::class::Classified;
use crate::heritage::Idling;
use crate::score::{Goal, Scores};

/// How sure.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// From facts alone, or by preference between equals.
    Low,
    /// Measured, but inside twice the noise.
    Medium,
    /// Measured, and clear.
    High,
}

/// What is to be done.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Change something.
    Change,
    /// Leave everything as it is.
    Keep,
    /// The figures are too noisy to say; leave everything as it is.
    Inconclusive,
    /// Nothing can be set here.
    Nothing,
}

/// One setting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Item {
    /// `scheduler`, `iosched/low_latency`, `wbt_lat_usec`, ...: a file below the device's `queue/`; `io.cost/rbps`, ...: a word
    /// of the device's lines in `io.cost.model` and `io.cost.qos`.
    pub setting: String,
    /// What it is now.
    pub old: String,
    /// What it is to be.
    pub new: String,
    /// The rule, `R-...`; docs/reference/tune.md has them all.
    pub rule: String,
    /// What was measured.
    pub evidence: String,
    /// What would change the advice.
    pub unless: String,
    /// How sure.
    pub confidence: Confidence,
}

/// Advice for one carrier.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Advice {
    /// For whom.
    pub carrier: Carrier,
    /// What to do.
    pub verdict: Verdict,
    /// What to run; what is set now, if that is to be kept.
    pub spec: SchedulerSpec,
    /// What to set, in the order in which it must be set.
    pub items: Vec<Item>,
    /// What was considered and left, with the reason.
    pub left: Vec<String>,
    /// How the candidates compare; none if nothing was measured.
    pub scores: Option<Scores>,
}

/// All of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Recommendation {
    /// What the user wanted most.
    pub goal: Goal,
    /// What the device is.
    pub class: Classified,
    /// Whether readers are to be waited for, by the staircase of streams, and why.
    pub idling: Option<(Idling, String)>,
    /// For the kernel.
    pub kernel: Advice,
    /// For `hoistway serve`, where its policies could be measured.
    pub serve: Option<Advice>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}
