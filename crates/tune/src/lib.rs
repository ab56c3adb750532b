//! Decides which scheduler a disk should run, and why: which question to ask next, what the answers
//! mean and what follows from them.
//!
//! The crate does no I/O, has no clock and uses no randomness. Questions are
//! [`Experiment`](experiment::Experiment)s and answers are
//! [`Measurement`](experiment::Measurement)s. The caller runs them, so that every rule can be
//! tested with figures written by hand.
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
mod heritage;
mod probe;
mod recommendation;
mod rules;
mod score;
mod tuner;

pub use candidates::{Candidate, RunsIn, short_list};
pub use class::{Class, Classified, classify, static_choice};
pub use cost::{Coefficients, CostLine, Latencies, lines as cost_lines};
pub use device::{Attachment, Device, HostKind};
pub use findings::{Among, CandidateFindings, DepthStep, Findings, LoadFigures, Noisy, Shares, StreamStep, gather};
pub use heritage::{Idling, classic_table, idling};
pub use probe::{Probe, Timing};
pub use recommendation::{Advice, Confidence, Item, Recommendation, Verdict};
pub use rules::recommend;
pub use score::{Goal, Score, Scores, score};
pub use tuner::{Batch, Pace, Request, Step, Tuner, classic_batch};
