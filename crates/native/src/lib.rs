//! Host 3: the kernel's own schedulers on a real block device, under real processes in real
//! cgroups.
//!
//! ```text
//! NativeHost::run -> run_setup (lock, journal, watcher; scheduler and tunables; cgroups and weights)
//!                 -> workers   (one worker process per thread; pipes)  <-> worker (issuer, recorder, AIO)
//!                 -> merged figures, then everything is restored
//! ```
//! One process per thread, not one for all: the kernel keeps its state of an issuer (BFQ's and
//! CFQ's queues) per process. Each worker enters its cgroup before it opens the device. Issuer and
//! recorder are those of the other hosts: only the scheduler differs. Sources:
//! docs/specifications/harness.md, section 2; docs/specifications/harness.md, section 3;
//! docs/specifications/harness.md, section 4; docs/specifications/harness.md, section 5.
#![forbid(unsafe_code)]

mod fio;
mod host;
pub mod io_cost;
mod merge;
mod message;
mod recordings;
mod run;
mod run_setup;
pub mod target;
mod tunables;
mod weights;
pub mod worker;
mod workers;

pub use fio::{FioHost, Generated, ReadOutput};
pub use host::{NativeHost, Programs};
pub use tunables::{SCHEDULERS, known};
pub use weights::Scaled;
