//! The deterministic host: queue, elevator and device round a hand-cranked clock.
//!
//! ```text
//! workload::Issuer -> processes (os layers) -> queue::RequestQueue round a policy -> device::AnyDevice
//!         ^                                                                                  |
//!         +------ experiment::Recorder <--- events (time, then order of insertion) <---------+
//! ```
//! One run is one thread, reads no clock but its own, allocates nothing per request, and replays bit for bit from its
//! seed. Whoever runs a matrix runs several at a time.
//!
//! Above the queue stands what `experiment::Machine` describes: an operating system of the eras 2.4, 2.6, 3 or mq with
//! page cache, read-ahead, write-back, throttling, block maps, an ordered journal and the host's costs. Its decisions are
//! in `os/`, carrying them out in `processes/`.
//!
//! Direct I/O allocates nothing per request. Through the page cache, memory grows with what is cached, up to the
//! machine's.
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
