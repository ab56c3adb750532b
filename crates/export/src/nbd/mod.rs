//! The NBD protocol as pure machines of bytes: the handshake, then the transmission.

pub mod handshake;
pub mod transmission;
pub mod wire;
