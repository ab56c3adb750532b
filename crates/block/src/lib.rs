//! The words of block I/O: what every other crate means by an operation, an extent, a priority, a time, an identity.
//!
//! Plain values without behaviour of their own; no dependency, `no_std`, nothing allocates. Everything is
//! `#[inline]`, because the kernel build links the elevators as one object and must find no call that leaves it.
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
