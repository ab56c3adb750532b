//! The events of a simulated host, and what they concern.

use hoistway_device::Calendar;
pub use hoistway_device::NEVER;

/// The set of pending events.
pub type EventWheel = Calendar<Payload>;

/// The subject of an event: 4 bits of kind, 28 bits of index (a process, a timer).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Payload(u32);

impl Payload {
    const INDEX_BITS: u32 = 28;

    /// The payload of a kind (0 to 15) and an index (below 2^28); surplus bits of either are cut
    /// off.
    #[inline]
    pub const fn new(kind: u8, index: u32) -> Self {
        Self(((kind as u32) << Self::INDEX_BITS) | (index & ((1 << Self::INDEX_BITS) - 1)))
    }

    /// The kind, 0 to 15.
    #[inline]
    pub const fn kind(self) -> u8 {
        self.0.to_be_bytes()[0] >> 4
    }

    /// The index, below 2^28.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0 & ((1 << Self::INDEX_BITS) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_keeps_kind_and_index() {
        let payload = Payload::new(15, 0x0fff_fffe);
        assert_eq!((payload.kind(), payload.index()), (15, 0x0fff_fffe));
    }
}
