//! What the operating system does between a process's call and the request queue.
//!
//! Each file here is a state machine without clock, queue or device: told what happened, it answers what follows. The
//! processes (`crate::processes`) carry the answers out. Source: specification of the devices, section 8.

pub(crate) mod files;
pub(crate) mod journal;
pub(crate) mod pages;
pub(crate) mod read_ahead;
pub(crate) mod throttle;
pub(crate) mod write_back;
