//! What a disk should run, and why: which question comes next, what the answers mean, what follows from them.
//!
//! Pure: no I/O, no clock, nothing random. Questions are [`Experiment`](experiment::Experiment)s, answers are
//! [`Measurement`](experiment::Measurement)s; whoever runs them is somebody else, so that every rule is tested with
//! figures written down by hand.
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

pub use candidates::{Candidate, Carrier, short_list};
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
