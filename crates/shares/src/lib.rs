//! A fair queue inside a program: tenants submit items, a server takes them by weight.
//!
//! The order is that of the scheduler `wfq` (start-time fair queueing), or of `paternoster`, which also
//! finds out how many items to serve at a time; the limits are those of the limiter `rate`. All are the
//! code that divides a disk.
//!
//! ```
//! use hoistway_shares::{Shares, SharesSettings};
//!
//! let mut shares = Shares::new(&SharesSettings::default()).unwrap();
//! let (db, ci) = (shares.add_tenant(300, 0).unwrap(), shares.add_tenant(100, 0).unwrap());
//! for number in 0..40 {
//!     shares.submit(db, 1, ("db", number), 0).unwrap();
//!     shares.submit(ci, 1, ("ci", number), 0).unwrap();
//! }
//! let mut served = [0, 0];
//! for _ in 0..20 {
//!     let turn = shares.next(0).expect("items wait");
//!     served[usize::from(turn.item.0 == "ci")] += 1;
//!     assert!(shares.done(turn.id, 0));
//! }
//! assert_eq!(served, [15, 5]);
//! ```
//!
//! Units: costs are in a unit of your choice (bytes, rows, microseconds), times in nanoseconds on any
//! clock that does not go back. The crate is `no_std`. With the feature `tokio`, `AsyncShares`
//! gives tasks their turns.
#![cfg_attr(not(feature = "tokio"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod shares;
#[cfg(feature = "tokio")]
mod tasks;

pub use shares::{
    COST_MAX, NotAdded, RateLimits, Rejected, Shares, SharesSettings, TenantId, Turn, TurnId, Why, cost_of_bytes,
};
#[cfg(feature = "tokio")]
pub use tasks::{AsyncShares, NotServed, Permit};
