//! Host 3: the kernel's own schedulers on a real block device, under real processes in real cgroups.
//!
//! ```text
//! NativeHost::run -> stage  (lock, journal, watcher; scheduler and tunables; cgroups and weights)
//!                 -> crew   (one worker process per thread of a job; pipes)    <-> worker (issuer + recorder + io_uring)
//!                 -> figures merged, stage struck: everything as it was
//! ```
//! One process per thread, not one for all: the kernel keeps what it knows of an issuer (BFQ's and CFQ's queues) per
//! process. Each worker moves itself into its cgroup before it opens the device. Issuer and recorder are those of the other
//! hosts: what differs is the scheduler. Source: harness 2 to 5.
#![forbid(unsafe_code)]

mod crew;
mod fio;
pub mod ground;
mod host;
pub mod io_cost;
mod merge;
mod message;
mod recordings;
mod run;
mod stage;
mod tunables;
mod weights;
pub mod worker;

pub use fio::{FioHost, Generated, ReadOutput};
pub use host::{NativeHost, Programs};
pub use tunables::{SCHEDULERS, known};
pub use weights::Scaled;
