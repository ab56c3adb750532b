//! Workloads: jobs, the I/O sequence of each of their threads, and the languages in which jobs are written (names such as
//! `drr:iodepth=4`, fio's job files, traces).
//!
//! ```
//! use hoistway_workload::{Issuer, Next, name};
//!
//! // Direct random reads of 4 KiB, two in flight; thread 0 on an area of 1 GiB, seed 1.
//! let job = &name::parse("drr:bs=4k,iodepth=2").unwrap().jobs[0];
//! let mut thread = Issuer::new(job, 0, 1 << 30, 1).unwrap();
//! let Next::Issue(first) = thread.next(0) else { panic!("a new thread issues at once") };
//! assert_eq!((first.length_bytes, first.offset_bytes % 4096), (4096, 0));
//! assert!(matches!(thread.next(0), Next::Issue(_)));
//! assert_eq!(thread.next(0), Next::Busy);
//! thread.completed(first.token, true);
//! assert!(matches!(thread.next(250_000), Next::Issue(_)));
//! ```
//!
//! Units: offsets and lengths in bytes (`_bytes`), times in nanoseconds (`_ns`) of a clock that the caller chooses, rates
//! per second.
//!
//! ```text
//! "drr:iodepth=4" -> name::parse ---+
//!                                   +-> Job (plain data) -> Issuer (one per thread) -> Io, Io, not before t, Io, ...
//! "oltp.fio" -----> fio::parse -----+
//! traces ---------> trace ----------+
//! ```
//! A job follows a pattern (fio's options), is a [`Program`] with its own logic, or replays a trace
//! ([`Replay`]). Jobs are deterministic: the caller provides time, files and environment, and a run
//! replays from (job, thread, area, seed).
#![forbid(unsafe_code)]

mod arrival;
mod distribution;
mod files;
pub mod fio;
pub mod goal;
mod issuer;
pub mod job;
pub mod name;
pub mod output;
mod pattern;
pub mod program;
pub mod replay;
mod sizes;
mod suggest;
pub mod trace;
pub mod verify;
mod visited;

pub use issuer::{Call, Check, Ending, Flows, Io, Issuer, Next, Unsuitable, part_of_thread, size_of_thread};
pub use job::{Engine, Job};
pub use program::Program;
pub use replay::Replay;
pub use suggest::{did_you_mean, nearest};
