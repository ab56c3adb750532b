//! The vocabulary of block I/O for all other crates: operations, extents, priorities, times and
//! identities.
//!
//! ```
//! use hoistway_block::time::MILLISECOND;
//! use hoistway_block::{Class, Direction, Extent, Flags, Operation, Priority, is_sync};
//!
//! let (first, next) = (Extent::new(2048, 8), Extent::new(2056, 16));
//! assert!(first.is_followed_by(next) && !first.overlaps(next));
//! assert_eq!((next.end(), next.bytes()), (2072, 8192));
//! assert_eq!(Operation::Discard.direction(), Direction::Write);
//! assert!(is_sync(Operation::Read, Flags::NONE) && !is_sync(Operation::Write, Flags::NONE));
//! assert_eq!(Priority::new(Class::RealTime, 2).level(), 2);
//! assert_eq!(5 * MILLISECOND, 5_000_000);
//! ```
//!
//! Units: positions and lengths are in sectors of 512 bytes ([`SECTOR_BYTES`]), times in nanoseconds
//! ([`Nanos`]) since an origin that the host chooses.
//!
//! All types are plain values. The crate has no dependencies, is `no_std` and allocates nothing.
//! Every function that an elevator calls is `#[inline]`, because the kernel build compiles the
//! elevators into one object, which must not call functions outside itself.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

mod extent;
mod identity;
pub mod names;
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
