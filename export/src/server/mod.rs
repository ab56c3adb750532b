//! The server: sockets, clients and signals round the engine.

pub mod announce;
pub mod peer;
pub mod reception;
pub mod socket;
