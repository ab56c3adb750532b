//! The policies inside Linux: one [`DevicePolicy`] per device, driven through the C interface of
//! [`abi`].
//!
//! Promise  the policies are those of the other hosts, compiled again; every call returns its
//!          answer as a value; no panic, no float, no recursion, no allocation except in
//!          `hoist_new` and `hoist_delete` (`kernel/gate/run --module`).
//! Cost     a match over the policies per call, except insertion, choice and end, which go through
//!          a table of functions; a table of 64 bytes per request.
//! Sources  docs/specifications/kernel-host.md, sections 8 to 18.
//!
//! Read `life.rs` first: insertion, choice and end of a request. [`records`]: records of the calls,
//! if wanted, and their replay in user space.
#![no_std]

extern crate alloc;

#[allow(unsafe_code)]
pub mod abi;
mod device_policy;
mod device_state;
mod elevator_types;
mod ids;
mod life;
#[cfg(feature = "module")]
#[allow(unsafe_code)]
mod memory;
pub mod records;
mod values;

pub use device_policy::DevicePolicy;
pub use device_state::DeviceState;
pub use elevator_types::{ElevatorType, elevator_type, elevator_types};
pub use records::Record;
pub use values::{Action, Ask, Config, Effect, Line, NONE, Shared, Stats};
