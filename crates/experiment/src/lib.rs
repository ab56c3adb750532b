//! Experiments, measurements, and the hosts that run them.
//!
//! An [`Experiment`] is one run of a test: target x scheduler x groups x jobs. A [`Host`] runs it
//! and returns a [`Measurement`]. A [`Cell`] summarises the repetitions of one experiment: means,
//! intervals, shares. Schedulers and devices are only names here; each host checks them. All of it
//! is plain, serialisable data. Views of it are in `report`, advice from it in `tune`.
//!
//! ```
//! use hoistway_experiment::share::Fairness;
//! use hoistway_experiment::statistics::Estimate;
//! use hoistway_experiment::{Machine, SchedulerSpec};
//!
//! let spec: SchedulerSpec = "bfq@5.2:low_latency=0".parse().unwrap();
//! assert_eq!((spec.name.as_str(), spec.setting("low_latency")), ("bfq", Some("0")));
//! assert_eq!(Machine::parse("era=2.6,memory_mib=512").unwrap().memory_mib, 512);
//! // Two groups with weights 3:1 got 60 and 40 MB/s: the first is 20 % below its share, the second 60 % above.
//! let fairness = Fairness::of(&[60e6, 40e6], &[3.0, 1.0]).unwrap();
//! assert!((fairness.error_max - 0.6).abs() < 1e-9);
//! let total = Estimate::of(&[100e6, 102e6, 98e6]);
//! assert!(total.low() < 100e6 && 100e6 < total.high());
//! ```
//!
//! Units: times in nanoseconds (`_ns`), sizes in bytes (`_bytes`), rates per second (`_per_s`), shares as fractions of 1.
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
pub mod delta;
pub mod diagnostic;
pub mod dispatches;
pub mod entitlement;
pub mod exit;
mod experiment;
pub mod group;
mod group_list;
pub mod histogram;
mod host;
pub mod io_cost_lines;
pub mod io_latency_line;
mod io_limits;
mod job_counts;
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
pub mod printable;
pub mod recorder;
pub mod schedule;
pub mod scheduler;
pub mod share;
pub mod solo;
pub mod statistics;
pub mod steady_state;
pub mod trace;
pub mod units;

pub use areas::{Area, Areas};
pub use cell::Cell;
pub use diagnostic::Diagnostic;
pub use dispatches::{DispatchRecorder, Dispatches};
pub use exit::Exit;
pub use experiment::{EXACT_LIMITER, Experiment, GROUP_LIMITER, IssuerPlace, LATENCY_LIMITER, ShareUnit};
pub use group::{Group, GroupPriority, Limits, Reweigh, Weight};
pub use group_list::GroupList;
pub use histogram::Histogram;
/// Descriptions of jobs, for readers of results, which contain them in an [`Experiment`].
pub use hoistway_workload::job;
pub use host::{Host, LiveFigures, LiveGroup, Progress, Refusal, RunError, Unattended};
pub use machine::{FileLayout, FileSystem, KernelEra, Machine};
pub use matrix::{Matrix, Order, WorkloadPlan};
pub use measurement::{Measurement, SchedulerInForce, TargetFacts, TunableInForce};
pub use percentile::Percentile;
pub use printable::{printable, printable_lines};
pub use recorder::{Completion, IoDirection, Recorder, Window};
pub use schedule::Schedule;
pub use scheduler::{SchedulerSpec, Setting};
