//! Block devices for clients: the NBD server, its configuration and its control socket.
//!
//! `nbd/` is the protocol (bytes in, bytes out, no socket), `configuration` the file and the flags checked as a whole,
//! `server` the sockets and threads round the engine, `control` the conversation with the operator.
#![forbid(unsafe_code)]

pub mod configuration;
pub mod control;
pub mod nbd;
pub mod server;
