//! A small HTTP server for a few readers, such as a scraper or a browser on this machine: one request
//! for each connection, one thread, and a ceiling for everything that a peer may hold.
//!
//! ```text
//! accept -> [`request::parse`] -> handler -> [`Response`], or a [`Taken`] connection for another thread
//! ```
//!
//! | what a peer may hold | ceiling |
//! | --- | --- |
//! | head, headers of a request | 8 KiB, 64 |
//! | body of a request | as its door says |
//! | time from the connection to the end of the request | 5 s |
//! | time to read the response | 30 s |
//! | connections of all peers | 64; then the peer that has most loses one |
//! | responses that are not read yet, of all peers | 64 MiB; then the oldest is ended |

pub mod door;
pub mod request;
pub mod response;

pub use door::{Answer, Door, Taken};
pub use request::{Method, Request};
pub use response::Response;
