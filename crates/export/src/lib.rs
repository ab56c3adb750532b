//! Block devices for clients: the NBD server, local block devices, disks for virtual machines, their
//! configuration and the control socket.
//!
//! `nbd/` is the protocol (bytes in, bytes out, no socket), `ublk` makes block devices of this machine,
//! `vhost_user_blk/` serves virtual machines, `configuration` parses and checks the file and the flags,
//! `server` has the sockets and threads around the engine, `control` the operator's interface. Unsafe
//! code lives in `vhost_user_blk/guest_memory.rs` only.

pub mod configuration;
pub mod control;
pub mod nbd;
pub mod server;
pub mod ublk;
pub mod vhost_user_blk;
