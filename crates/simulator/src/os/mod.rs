//! The operating system between a process's calls and the request queue.
//!
//! Each file here is a state machine without clock, queue or device: it takes events and returns
//! the resulting actions, which the processes (`crate::processes`) execute. Source:
//! docs/specifications/devices.md, section 8.

pub(crate) mod files;
pub(crate) mod journal;
pub(crate) mod pages;
pub(crate) mod read_ahead;
pub(crate) mod throttle;
pub(crate) mod write_back;
