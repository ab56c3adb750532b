//! Access to the operating system for the other crates: io_uring, buffers, devices and files.
//!
//! ```
//! use hoistway_linux::buffer::{Arena, Span};
//! use hoistway_linux::ring::{Ring, Wait};
//!
//! let mut ring = Ring::new(Arena::new(1 << 20)?.into(), 1)?;
//! let file = ring.add_file(tempfile::tempfile()?.into())?;
//! let span = Span { offset_bytes: 0, length_bytes: 5 };
//! ring.arena().copy_in(span, b"hello");
//! ring.write(7, file, &[span], 0, false);
//! let mut completions = Vec::new();
//! while completions.is_empty() {
//!     ring.enter(Wait::Forever)?;
//!     ring.reap(1, &mut completions);
//! }
//! assert_eq!((completions[0].token, completions[0].result), (7, 5));
//! # Ok::<(), std::io::Error>(())
//! ```
//! Units: offsets and lengths in bytes, times in nanoseconds of [`thread::monotonic_ns`], results
//! of requests in bytes or as a negative errno.
//!
//! Unsafe code lives in `ring`, `aio`, `buffer`, `window`, `fault`, `ioctl` and `ublk` only, each behind an interface
//! that cannot be misused from safe code. The crate knows nothing of block-layer requests,
//! elevators or the protocols of clients.

pub mod actuators;
pub mod aio;
pub mod block_queue;
pub mod block_trace;
pub mod buffer;
pub mod cgroup;
pub mod claims;
pub mod device;
pub mod event;
pub mod fault;
pub mod fuse;
pub mod input;
pub mod ioctl;
pub mod loop_device;
pub mod output;
pub mod own_files;
pub mod patience;
pub mod process;
pub mod ring;
pub mod run_directory;
pub mod setting;
pub mod signature;
mod slots;
pub mod socket;
pub mod thread;
pub mod ublk;
pub mod window;

pub use slots::{CLASSES, Slot, Slots, TOP_CLASS_BYTES};
