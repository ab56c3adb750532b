//! The control protocol: one line of JSON per request and answer, on a unix socket of mode 0600.

pub mod request;
pub mod socket;

pub use request::{Refusal, Request, Share};
