//! Block devices for clients: the NBD server, ublk devices, the configuration and the control socket.
//!
//! `nbd/` is the protocol (bytes in, bytes out, no socket), `ublk/` makes local block devices, `configuration` parses and checks the
//! file and the flags, `server` has the sockets and threads around the engine, `control` the
//! operator's interface.
#![forbid(unsafe_code)]

pub mod configuration;
pub mod control;
pub mod nbd;
pub mod server;
pub mod ublk;
