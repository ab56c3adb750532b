//! Load descriptions: jobs, the I/O sequence of each of their threads, and the languages in which
//! jobs are written.
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
pub use suggest::nearest;
