//! The model rig: a device model as a block device of this machine, so that the kernel's schedulers can be measured on a
//! disk one does not have.
//!
//! ```text
//! processes -> /dev/loop64 (the kernel's scheduler) -> loop driver -> FUSE -> server: device model in real time
//!                  ^ open in the keeper                                 ^ open in the server
//! ```
//! Two processes hold it, so that it vanishes whoever of them is killed, in whatever order and by whatever signal:
//! - the [`server`] has `/dev/fuse` open and answers; it never touches the block device, on which it could wait for itself;
//! - the [`keeper`] has the loop device open. The kernel detaches the file when the last descriptor closes.
//!
//! There is no mount point and no file on any disk: the mount has no place ([`linux::fuse::Session::mount`]). What a note in
//! `/run/hoistway` says is only for `device list`. Source: harness 12.1.
//!
//! What differs from the same model in the simulator: the host's overhead (about 20 to 60 us per request, `docs/devices.md`),
//! one hardware queue, requests of at most 1 MiB, and flushes that hold up what their own cgroup sends behind them (the
//! loop driver works one flush at a time per cgroup).
#![forbid(unsafe_code)]

pub mod keeper;
mod lateness;
mod note;
pub mod server;
mod service;
mod store;

pub use keeper::keep;
pub use lateness::Lateness;
pub use note::{Rig, find, list};
pub use server::{Leash, Settings, serve};

/// Why there is no device, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// The model cannot be had.
    #[error(transparent)]
    Model(#[from] device::ModelError),
    /// It cannot be that large or small.
    #[error("{0}")]
    Size(String),
    /// The system refuses a part of it.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The keeper could not do its part.
    #[error("{0}")]
    Keeper(String),
}

impl RigError {
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| RigError::System { what, source }
    }
}
