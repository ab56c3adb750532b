//! The NBD protocol as pure state machines over bytes: the handshake, then the transmission.
//!
//! ```
//! use hoistway_export::nbd::handshake::{Handshake, Step, View};
//! use hoistway_export::nbd::wire;
//!
//! let mut handshake = Handshake::new();
//! assert_eq!(Handshake::greeting()[..8], *b"NBDMAGIC");
//! let mut input = 3_u32.to_be_bytes().to_vec();
//! input.extend(wire::OPTION_MAGIC.to_be_bytes());
//! input.extend(wire::option::ABORT.to_be_bytes());
//! input.extend(0_u32.to_be_bytes());
//! let (mut answer, view) = (Vec::new(), View { exports: &[], listing: true, draining: false });
//! let step = handshake.advance(&mut input.as_slice(), view, &mut answer);
//! assert!(matches!(step, Step::Close(_)) && answer.len() == 20, "an acknowledgement without data");
//! ```

pub mod handshake;
pub mod transmission;
pub mod wire;
