//! Tests of policies: the notation of the specifications, a tiny host, invariants checked after
//! each call, standard benchmarks.
//!
//! ```
//! use hoistway_testbed::Testbed;
//!
//! let mut testbed = Testbed::new("mq-deadline@6.1:fifo_batch=1");
//! testbed.given("R1000 R100 R2000 R3000");
//! testbed.when("d1 t+600 rest");
//! testbed.then("R1000 R100 R2000 R3000");
//! testbed.then_reason("R100", "overdue");
//! ```
//!
//! Units: sectors of 512 bytes in the notation of requests, milliseconds after `t+` unless another
//! unit is given, nanoseconds in the functions.
//!
//! [`Testbed`] runs scripts; [`drive_policy`] makes the host calls that bytes describe, for fuzzing;
//! [`SteadyHost`] makes random ones without an allocation. The feature `benches` has the benchmarks.
#![forbid(unsafe_code)]

#[cfg(feature = "benches")]
mod benches;
mod calls;
mod document;
mod load;
pub mod notation;
mod random_calls;
mod spec;
mod steady;
mod testbed;

#[cfg(feature = "benches")]
pub use benches::{grouped_benches, policy_benches};
pub use calls::{Call, Calls};
pub use document::{check_table, check_tunables_table};
pub use hoistway_queue as queue;
pub use load::{GroupedLoad, LoadShape};
pub use random_calls::drive_policy;
pub use steady::SteadyHost;
pub use testbed::{Started, Testbed};
