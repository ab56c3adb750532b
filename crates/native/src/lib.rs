//! The native host: the kernel's own schedulers on a real block device, under real processes in
//! real cgroups.
//!
//! ```
//! use hoistway_native::{Scaled, known};
//!
//! // Weights of experiments reach 10,000; those of BFQ end at 1,000.
//! let scaled = Scaled::into_range(&[100, 5_000], 1_000);
//! assert_eq!((scaled.weights.as_slice(), scaled.worst_error), (&[20, 1_000][..], 0.0));
//! let slice_idle = known("bfq").find(|tunable| tunable.name == "slice_idle").expect("a tunable of bfq");
//! assert_eq!((slice_idle.unit, slice_idle.maximum), ("ms", 1_000));
//! ```
//! A run needs root and a block device:
//! ```no_run
//! use std::{path::Path, process::Command};
//!
//! use hoistway_experiment::{Experiment, Host, Unattended};
//! use hoistway_native::{NativeHost, Programs};
//!
//! fn measure(experiment: &Experiment) -> u64 {
//!     let worker = || Command::new("hoistway-worker");
//!     let watcher = |journal: &Path| Command::new(journal);
//!     let mut host = NativeHost::new(Programs { worker, watcher }).with_writes();
//!     host.check(experiment).expect("a possible experiment");
//!     host.run(experiment, &mut Unattended).expect("measured").window_ns
//! }
//! ```
//! Units: offsets and sizes in bytes, times in nanoseconds of the monotonic clock, tunables in the
//! unit of the kernel's file ([`known`] tells it).
//!
//! ```text
//! NativeHost::run -> run_setup (lock, journal, watcher; scheduler and tunables; cgroups and weights)
//!                 -> workers   (one worker process per thread; pipes)  <-> worker (issuer, recorder, AIO)
//!                 -> merged figures, then everything is restored
//! ```
//! One process per thread, not one for all: the kernel keeps its state of an issuer (BFQ's and
//! CFQ's queues) per process. Each worker enters its cgroup before it opens the device. Issuer and
//! recorder are those of the other hosts: only the scheduler differs. Source:
//! docs/specifications/harness.md, sections 2 to 5.
#![forbid(unsafe_code)]

mod fio;
mod host;
pub mod io_cost;
mod merge;
mod message;
mod recordings;
mod run;
mod run_setup;
pub mod target;
mod tunables;
mod weights;
pub mod worker;
mod workers;

pub use fio::{FioHost, Generated, ReadOutput};
pub use host::{NativeHost, Programs};
pub use tunables::{SCHEDULERS, known};
pub use weights::Scaled;
