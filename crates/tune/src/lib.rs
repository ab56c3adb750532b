//! Decides which scheduler a disk should run, and why: which question to ask next, what the answers
//! mean and what follows from them.
//!
//! The crate does no I/O, has no clock and uses no randomness. Questions are
//! [`Experiment`](hoistway_experiment::Experiment)s and answers are
//! [`Measurement`](hoistway_experiment::Measurement)s. The caller runs them, so that every rule can be
//! tested with figures written by hand.
//!
//! ```
//! use hoistway_experiment::statistics::Estimate;
//! use hoistway_tune::{Class, Goal, Idling, StreamStep, idling, static_choice};
//!
//! // Measured: the total rate of 1, 2, 4 and 8 sequential readers, which reduce each other's rate by seeks.
//! let streams = [(1, 63.3e6), (2, 18.7e6), (4, 21.6e6), (8, 29.6e6)].map(|(count, rate)| StreamStep {
//!     count,
//!     bytes_per_s: Estimate::of(&[rate]),
//!     each_bytes_per_s: Vec::new(),
//! });
//! let (conclusion, why) = idling(&streams, true).unwrap();
//! assert_eq!(conclusion, Idling::PerQueue, "{why}");
//! // The choice for a disk with one arm if nothing can be measured.
//! assert!(static_choice(Class::SeekBound, Goal::Throughput).is_some());
//! ```
//!
//! Units: rates in bytes or I/Os per second (`_per_s`), times in nanoseconds (`_ns`), tunables in the kernel's own units.
//!
//! ```text
//! Device (facts) -> Tuner -> batch of probes -> Findings -> Class -> short list -> batch per candidate -> Findings
//!                                                        -> Scores -> Recommendation (items: old, new, rule, evidence)
//! ```
#![forbid(unsafe_code)]

mod budget;
mod candidates;
mod class;
mod cost;
mod device;
mod findings;
mod iostune;
mod mixed;
mod probe;
mod recommendation;
mod rules;
mod score;
mod solo;
mod tuner;

pub use candidates::{Candidate, RunsIn, short_list};
pub use class::{Class, Classified, classify, static_choice};
pub use cost::{Coefficients, CostLine, Latencies, lines as cost_lines};
pub use device::{Attachment, Device, HostKind};
pub use findings::{
    Among, CandidateFindings, DepthStep, Findings, LoadFigures, Noisy, READS_OF_A_P99, Shares, StreamStep, gather,
};
pub use iostune::{Idling, classic_table, idling};
pub use mixed::{Mixed, MixedSteps};
pub use probe::{Probe, Timing};
pub use recommendation::{Advice, Confidence, Item, Recommendation, Verdict};
pub use rules::recommend;
pub use score::{Goal, Score, Scores, score};
pub use tuner::{Batch, Pace, Request, Step, Tuner, classic_batch};
