//! The vocabulary of block I/O for all other crates: operations, extents, priorities, times and
//! identities.
//!
//! Plain values without behaviour of their own; no dependencies, `no_std`, no allocation. Every
//! function is `#[inline]`, because the kernel build links the elevators as one object that must
//! not call out of itself.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod extent;
mod identity;
mod operation;
mod priority;
pub mod random;
mod status;
pub mod time;

pub use extent::{Extent, SECTOR_BYTES, Sector, SectorRange};
pub use identity::{ContextId, DeviceNumber, Generation, GroupId, HardwareQueue, NIL, RequestId, SoftwareQueue};
pub use operation::{Direction, Flags, Operation, is_sync};
pub use priority::{Class, Priority};
pub use status::Status;
pub use time::Nanos;
