//! The deterministic host: queue, elevator and device on a virtual clock.
//!
//! ```text
//! hoistway_workload::Issuer -> processes (os layers) -> hoistway_queue::RequestQueue with a policy -> hoistway_device::AnyDevice
//!         ^                                                                                  |
//!         +------ hoistway_experiment::Recorder <--- events (time, then order of insertion) <---------+
//! ```
//!
//! ```
//! use hoistway_experiment::{Experiment, Group, Host, Unattended, Weight};
//! use hoistway_simulator::Simulator;
//! use hoistway_workload::job::Pattern;
//! use hoistway_workload::{Engine, Job};
//!
//! let job = Job::default().with(|job| {
//!     job.shape.pattern = Pattern::Random { run: 1, repeat_offset: false };
//!     job.submission.engine = Engine::Async;
//!     job.submission.iodepth = 32;
//!     job.submission.direct = true;
//!     job.times.time_based = true;
//!     job.times.runtime_ns = Some(1 << 40);
//! });
//! let group = |path: &str, weight| Group::new(path, Weight::new(weight).unwrap(), vec![job.clone()]);
//! let groups = vec![group("a", 100), group("b", 300)];
//! let experiment = Experiment {
//!     runtime_ns: 50_000_000,
//!     ramp_ns: 5_000_000,
//!     ..Experiment::new("model:ssd,queue_depth=8", "example", "wfq".parse().unwrap(), groups)
//! };
//! let measurement = Simulator::default().run(&experiment, &mut Unattended).unwrap();
//! let [a, b] = [0, 1].map(|group| measurement.groups[group].ios() as f64);
//! assert!((b / a - 3.0).abs() < 0.1, "shares by weight: {a} and {b}");
//! ```
//!
//! Units: simulated times are in nanoseconds since the start of the run, extents in sectors of 512
//! bytes, positions in files in bytes or in pages of 4 KiB.
//!
//! One run is one thread, knows only its virtual clock (a wall clock serves progress reports
//! alone), and replays bit for bit from its seed. The runs of a matrix can run in parallel.
//!
//! Above the queue is the machine that `hoistway_experiment::Machine` describes: an operating system of the
//! eras 2.4, 2.6, 3 or mq with page cache, read-ahead, write-back, throttling, block maps, an
//! ordered journal and the host's costs. Its decisions are in `os/`, their execution is in
//! `processes/`.
//!
//! Direct I/O allocates nothing per request. With buffered I/O, memory grows with the cached pages,
//! up to the machine's memory.
#![forbid(unsafe_code)]

mod costs;
mod events;
mod groups;
mod host;
mod invariants;
mod limiting;
mod os;
mod processes;
mod processors;
mod run;
mod scheduler;
mod session;
mod starvation;
mod storm;
mod tracing;

pub use costs::HostCosts;
pub use events::{EventWheel, NEVER, Payload};
pub use host::Simulator;
pub use processors::{Guard, Locking, Section};
pub use session::{Dispatch, Figures, GroupFigures, Served, Session};
pub use storm::{Storm, StormFailure, StormReport};
