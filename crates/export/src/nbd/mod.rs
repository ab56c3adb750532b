//! The NBD protocol as pure state machines over bytes: the handshake, then the transmission.

pub mod handshake;
pub mod transmission;
pub mod wire;
