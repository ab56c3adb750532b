//! Block I/O schedulers as pure policies: calls in, values out.
//!
//! A host (simulator, engine, kernel) inserts requests, asks which one is dispatched next, and
//! reports how it ended:
//!
//! ```
//! use hoistway_block::{Extent, HardwareQueue, Operation};
//! use hoistway_elevator::{Attributes, Configuration, Dispatch, Elevator, Hint, Place, Position, Requests, registry};
//!
//! let configuration = Configuration::default();
//! let mut requests = Requests::try_new(configuration.slots).unwrap();
//! let mut noop = registry::build("noop", None, &configuration).unwrap();
//!
//! let read = Attributes::new(Operation::Read, Extent::new(1000, 8));
//! let id = requests.allocate(read, 0).unwrap();
//! requests.move_to(id, Place::Queued);
//! let wake = noop.insert(&requests, id, Position::Sorted(Hint::None), 0);
//! assert!(wake.is_wanted());
//!
//! let Dispatch::Request { id: chosen, reason } = noop.choose(&requests, HardwareQueue(0), 0) else { unreachable!() };
//! assert_eq!((chosen, noop.reasons()[reason.0 as usize]), (id, "oldest"));
//! ```
//!
//! Units: extents are in sectors of 512 bytes, times in nanoseconds ([`hoistway_block::Nanos`]) on the clock
//! of the host. Tunables are read and written in the unit of their row ([`tunable::Unit`]).
//!
//! The crate is `no_std`. After construction it allocates nothing, and it has no panic, float,
//! recursion or indirect call, because the same code runs under a spinlock in the kernel;
//! `kernel/gate/run` checks the object code for all of these. Begin with [`Elevator`], then read
//! `noop.rs`, the smallest policy.
//!
//! `#[inline(never)]` and `#[inline(always)]` stand only where the kernel's object needs them: a frame
//! that is kept apart leaves a path below the gate's 512 bytes of stack, and without the others a
//! request costs more instructions (`bench/policies/run`). Anything else is the compiler's choice.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

pub mod account;
mod actuators;
pub mod group;
mod interface;
pub mod limiter;
pub mod limiters;
pub mod message;
#[cfg(feature = "register")]
mod registered;
pub mod registry;
mod request;
pub mod structures;
pub mod tunable;

mod anticipatory;
mod bfq;
mod cfq;
mod deadline;
pub mod io_cost;
pub mod io_latency;
mod kyber;
mod linus;
mod mq_deadline;
mod nas;
mod none;
mod noop;
mod order;
mod paternoster;
mod pending;
pub mod rate;
mod seeks;
mod sfq;
mod tag_shares;
pub mod throttle;
mod traits;
pub mod wbt;
mod wfq;

pub use account::{ByKind, GroupAccount, Kind};
pub use actuators::Actuators;
pub use group::{Ceiling, Ceilings, GroupPriority, GroupSettings, GroupState, GroupTree, IoLimits, Rates};
pub use interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Reason,
    Side, Version, Violation, Wake,
};
pub use limiter::{BioId, Limiter, LimiterConfiguration, LimiterPolicy, RequestEnd, Verdict};
pub use message::Message;
pub use registry::Any;
pub use request::{Attributes, Bio, Place, Request, Requests};
pub use traits::{Limits, Passing, Traits};
