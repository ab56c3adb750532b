//! The host that does real I/O: a request queue over io_uring, files and block devices.
#![forbid(unsafe_code)]

pub mod protocol;

pub mod counters;
mod error;
mod flush;
mod memory;
mod table;
mod turn;

pub use turn::ConnectionBounds;
mod backing;
mod gate;
