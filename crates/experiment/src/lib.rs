//! Experiments, measurements, and the hosts that run them.
//!
//! An [`Experiment`] is one run of a test: target x scheduler x groups x jobs. A [`Host`] runs it
//! and returns a [`Measurement`]. A [`Cell`] summarises the repetitions of one experiment: means,
//! intervals, shares. Schedulers and devices are only names here; each host checks them. All of it
//! is plain, serialisable data. Views of it are in `report`, advice from it in `tune`.
//!
//! ```text
//! Matrix -> Experiment -> Host::run (issuers + Recorder) -> Measurement -> Journal
//!                                                           Measurement... -> Cell -> assertions, report, tune
//! ```
#![forbid(unsafe_code)]

pub mod areas;
pub mod assertion;
pub mod attainable;
pub mod blkio;
pub mod cell;
pub mod diagnostic;
pub mod dispatches;
pub mod exit;
mod experiment;
pub mod group;
mod group_list;
pub mod histogram;
mod host;
pub mod io_cost_lines;
pub mod io_latency_line;
mod job_lanes;
pub mod job_results;
pub mod job_summary;
pub mod journal;
pub mod limit_lines;
pub mod log;
pub mod machine;
pub mod matrix;
pub mod measurement;
pub mod metric;
mod outcome;
pub mod percentile;
pub mod recorder;
pub mod schedule;
pub mod scheduler;
pub mod share;
pub mod statistics;
pub mod trace;

pub use areas::{Area, Areas};
pub use cell::Cell;
pub use diagnostic::Diagnostic;
pub use dispatches::{DispatchRecorder, Dispatches};
pub use exit::Exit;
pub use experiment::{Experiment, GROUP_LIMITER, IssuerPlace, LATENCY_LIMITER, ShareUnit};
pub use group::{Group, GroupPriority, Limits, Reweigh, Weight};
pub use group_list::GroupList;
pub use histogram::Histogram;
pub use host::{Host, LiveFigures, LiveGroup, Progress, Refusal, RunError, Unattended};
pub use machine::{FileLayout, FileSystem, KernelEra, Machine};
pub use matrix::{Matrix, Order, WorkloadPlan};
pub use measurement::{Measurement, SchedulerInForce, TargetFacts, TunableInForce};
pub use percentile::Percentile;
pub use recorder::{Completion, IoDirection, Recorder, Window};
pub use schedule::Schedule;
pub use scheduler::{SchedulerSpec, Setting};
/// Descriptions of jobs, for readers of results, which contain them in an [`Experiment`].
pub use workload::job;
