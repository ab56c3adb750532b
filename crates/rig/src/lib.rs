//! The model rig: a device model as a block device of this machine, so that the kernel's schedulers
//! can be measured on a disk that is not there.
//!
//! ```
//! use hoistway_rig::{Lateness, Settings};
//!
//! let settings = Settings { model: "sata".to_owned(), size_bytes: Some(8 << 30), seed: 1, memory_bytes: 1 << 30 };
//! let (model, sectors) = settings.resolve()?;
//! assert_eq!((model.name(), sectors), ("sata", (8 << 30) / 512));
//! assert!(Settings { size_bytes: Some(4_097), ..settings }.resolve().is_err());
//! let mut lateness = Lateness::default();
//! lateness.add(1_500);
//! assert_eq!((lateness.replies(), lateness.below_us(50)), (1, 2));
//! # Ok::<(), hoistway_rig::RigError>(())
//! ```
//! Serving a device needs root, `/dev/fuse` and loop devices:
//! ```no_run
//! use hoistway_rig::{Lifetime, RigError, Settings, serve};
//!
//! fn run(settings: &Settings, holder: std::process::Command) -> Result<(), RigError> {
//!     serve(settings, holder, Lifetime::UntilSignal, &mut |rig| {
//!         println!("{}", rig.node().display());
//!         true
//!     })
//! }
//! ```
//! Units: sizes and memory in bytes, the model's capacity in sectors of 512 bytes, times in
//! nanoseconds of the monotonic clock; lateness is counted in powers of two of a microsecond.
//!
//! ```text
//! processes -> /dev/loop64 (the kernel's scheduler) -> loop driver -> FUSE -> server: device model in real time
//!                  ^ open in the holder                                 ^ open in the server
//! ```
//! Two processes hold the block device, so that it vanishes if either of them is killed, or both in
//! any order, by any signal:
//! - the [`server`] has `/dev/fuse` open and answers; it never accesses the block device, because
//!   it could wait for itself;
//! - the [`device_holder`] has the loop device open. The kernel detaches the file when the last descriptor closes.
//!
//! There is no mount point and no file on any disk ([`hoistway_linux::fuse::Session::mount`]). The note in
//! `/run/hoistway-root` is only used by `device list`. Source:
//! docs/specifications/harness.md, section 12.1.
//!
//! Differences from the same model in the simulator: the host's overhead (about 20 to 60 us per
//! request, `docs/devices.md`), one hardware queue, requests of at most 1 MiB, and flushes that
//! delay later requests of their own cgroup (the loop driver performs one flush at a time per
//! cgroup).
#![forbid(unsafe_code)]

pub mod device_holder;
mod lateness;
mod note;
pub mod server;
mod service;
mod store;

pub use device_holder::hold;
pub use lateness::Lateness;
pub use note::{Rig, find, list};
pub use server::{Lifetime, Settings, serve};

/// Why there is no device, or the device has ended.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// The model is not available.
    #[error(transparent)]
    Model(#[from] hoistway_device::ModelError),
    /// The size is not possible.
    #[error("{0}")]
    Size(String),
    /// The system refuses an operation.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The holder failed.
    #[error("{0}")]
    Holder(String),
}

impl RigError {
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| RigError::System { what, source }
    }
}
