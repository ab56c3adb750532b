//! The deterministic host: queue, elevator and device round a hand-cranked clock.
//!
//! One run is one thread, reads no clock but its own, and replays bit for bit from its seed.
#![forbid(unsafe_code)]

mod events;

pub use events::{EventWheel, NEVER, Payload};
