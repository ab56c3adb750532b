//! Access to the operating system for the other crates: io_uring, buffers, devices and files.
//!
//! Unsafe code lives in `ring`, `aio`, `buffer`, `ioctl` and `ublk` only, each behind an interface that
//! cannot be misused from safe code. The crate knows nothing of requests, elevators or protocols.

pub mod actuators;
pub mod aio;
pub mod block_queue;
pub mod buffer;
pub mod cgroup;
pub mod device;
pub mod event;
pub mod fuse;
pub mod input;
pub mod ioctl;
pub mod loop_device;
pub mod process;
pub mod ring;
pub mod run_directory;
pub mod setting;
pub mod signature;
mod slots;
pub mod socket;
pub mod thread;
pub mod ublk;

pub use slots::{CLASSES, Slot, Slots, TOP_CLASS_BYTES};
