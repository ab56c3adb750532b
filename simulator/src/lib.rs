//! The deterministic host: queue, elevator and device round a hand-cranked clock.
//!
//! ```text
//! workload::Issuer -> processes (page cache) -> queue::RequestQueue round a policy -> device::AnyDevice
//!         ^                                                                                  |
//!         +------ experiment::Recorder <--- events (time, then order of insertion) <---------+
//! ```
//! One run is one thread, reads no clock but its own, allocates nothing per request, and replays bit for bit from its
//! seed. Whoever runs a matrix runs several at a time.
//!
//! Of the layers above the queue there is as much as the standard workloads need: direct I/O in full, buffered I/O by a
//! simple read-ahead window and a simple write-back cache (`page_cache.rs` says what they leave out). Page cache,
//! journal and the kernel's dirty throttling in full come with the calibrated devices.
#![forbid(unsafe_code)]

mod costs;
mod events;
mod groups;
mod host;
mod invariants;
mod limiting;
mod os;
mod processes;
mod run;
mod scheduler;
mod storm;

pub use costs::HostCosts;
pub use events::{EventWheel, NEVER, Payload};
pub use host::Simulator;
pub use storm::{Storm, StormFailure, StormReport};
