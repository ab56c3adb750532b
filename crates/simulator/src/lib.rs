//! The deterministic host: queue, elevator and device on a virtual clock.
//!
//! ```text
//! workload::Issuer -> processes (os layers) -> queue::RequestQueue with a policy -> device::AnyDevice
//!         ^                                                                                  |
//!         +------ experiment::Recorder <--- events (time, then order of insertion) <---------+
//! ```
//! One run is one thread, reads only its virtual clock, allocates nothing per request, and replays
//! bit for bit from its seed. The runs of a matrix can run in parallel.
//!
//! Above the queue is the machine that `experiment::Machine` describes: an operating system of the
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
mod run;
mod scheduler;
mod starvation;
mod storm;
mod tracing;

pub use costs::HostCosts;
pub use events::{EventWheel, NEVER, Payload};
pub use host::Simulator;
pub use storm::{Storm, StormFailure, StormReport};
