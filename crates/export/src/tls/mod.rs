//! NBD over TLS, by rustls: credentials, sessions, and the relay between a session and a shard.
//!
//! ```text
//! client ──socket──► Session (handshake thread) ──► Relay (a thread) ──socket pair──► shard
//! ```
//! A shard does its I/O on a plain socket. So a TLS client gets a thread of its own that encrypts and
//! decrypts, and the shard gets one end of a socket pair. Why not otherwise:
//! docs/internals/decisions/engine-and-exports.md#073-a-tls-client-has-a-relay-thread.

pub mod certificate;
pub mod credentials;
mod ec_key;
pub mod relay;
pub mod session;
