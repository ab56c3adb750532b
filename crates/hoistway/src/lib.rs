//! Block I/O scheduling as a library: experiments on simulated and real devices, the schedulers
//! themselves, and a fair queue for the work of your own program.
//!
//! ```
//! # #[cfg(feature = "simulate")]
//! # fn run() -> Result<(), hoistway::Error> {
//! use hoistway::Experiment;
//!
//! let outcome = Experiment::on("model:ssd")
//!     .group("db", 800)
//!     .group("ci", 100)
//!     .workload("randread:iodepth=32")
//!     .scheduler("none")
//!     .scheduler("paternoster")
//!     .runtime(std::time::Duration::from_millis(200))
//!     .run()?;
//! println!("{}", outcome.table());
//! let db = outcome.rows().into_iter().find(|row| row.scheduler == "paternoster" && row.group == "db").unwrap();
//! assert!(db.share.unwrap() > 0.85);
//! # Ok(())
//! # }
//! # #[cfg(feature = "simulate")]
//! # run().unwrap();
//! ```
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `policy` | `policy`, `queue`: the schedulers and the request queue around them; `no_std` |
//! | `tokio` | `queue::AsyncShares`: a fair queue for the tasks of a tokio program |
//! | `simulate` | `Experiment`, `lists`, `plan`, `simulate`, `trace`, `report`; needs the standard library only |
//! | `engine` | experiments with real I/O, and `engine`; Linux |
//! | `conformance` | `conformance`: tests for a policy of your own |
//! | `lab` | `lab`: runs that change while they go on, for a page |
//!
//! The default is `simulate`. The program `hoistway` is the crate `hoistway-cli`.
//!
//! Units: times in nanoseconds (`_ns`), sizes in bytes (`_bytes`), extents in sectors of 512 bytes,
//! rates per second (`_per_s`), shares as fractions of 1.
#![cfg_attr(not(any(feature = "simulate", feature = "tokio")), no_std)]
#![forbid(unsafe_code)]

/// The schedulers and limiters, and the words of block I/O that they use.
///
/// A policy implements [`Elevator`](policy::Elevator) and [`Policy`](policy::Policy);
/// [`registry`](policy::registry) has all of them by name.
#[cfg(feature = "policy")]
pub mod policy {
    #[doc(inline)]
    pub use hoistway_block as block;
    #[doc(inline)]
    pub use hoistway_block::*;
    #[doc(inline)]
    pub use hoistway_elevator::*;
}

/// The request queue around a policy, and [`Shares`](queue::Shares): a fair queue for the work of a
/// program.
#[cfg(feature = "policy")]
pub mod queue {
    #[doc(inline)]
    pub use hoistway_queue::*;
    #[doc(inline)]
    pub use hoistway_shares::*;
}

/// The simulator and what it is made of: devices, jobs, single experiments.
///
/// [`Experiment`] is enough for most purposes. Here are the parts: a device model that takes
/// commands, the jobs of a group, one run, its measurement, a storm over a policy.
#[cfg(feature = "simulate")]
pub mod simulate {
    #[doc(inline)]
    pub use hoistway_device as device;
    #[doc(inline)]
    pub use hoistway_experiment as experiment;
    #[doc(inline)]
    pub use hoistway_simulator::*;
    #[doc(inline)]
    pub use hoistway_workload as workload;
}

/// The engine: a policy over files and block devices, with io_uring.
#[cfg(feature = "engine")]
pub mod engine {
    #[doc(inline)]
    pub use hoistway_engine::*;
}

/// Tests for a policy of your own: [`check`](conformance::check).
#[cfg(feature = "conformance")]
pub mod conformance {
    #[doc(inline)]
    pub use hoistway_conformance::*;
}

/// Readers and writers of traces in every format.
#[cfg(feature = "simulate")]
pub mod trace {
    pub use hoistway_workload::trace::*;
}

/// Views of results: tables, JSON, CSV, pages.
#[cfg(feature = "simulate")]
pub mod report {
    #[doc(inline)]
    pub use hoistway_report::*;
}

#[cfg(all(doctest, feature = "engine", feature = "tokio"))]
mod documents {
    //! The Rust blocks of the documents, which run as tests of this crate.
    #[doc = include_str!("../../../docs/howto/embed.md")]
    struct Embed;
    #[doc = include_str!("../../../docs/howto/own-policy.md")]
    struct OwnPolicy;
    #[doc = include_str!("../../../docs/start/researcher.md")]
    struct Researcher;
}

#[cfg(feature = "simulate")]
mod error;
#[cfg(feature = "simulate")]
mod experiment;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "simulate")]
pub mod lists;
#[cfg(feature = "simulate")]
mod outcome;
#[cfg(feature = "simulate")]
pub mod plan;
#[cfg(feature = "simulate")]
mod runs;
#[cfg(feature = "simulate")]
pub mod settling;

#[cfg(feature = "simulate")]
pub use crate::{
    error::{Error, Message, Severity},
    experiment::{Experiment, duration},
    outcome::{GroupRow, Outcome},
    runs::{Unwatched, Watch},
};
#[cfg(feature = "simulate")]
pub use hoistway_experiment::{Exit, ShareUnit};
