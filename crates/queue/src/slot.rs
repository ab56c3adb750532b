//! The queue's per-request state, beside the request table: sixteen bytes.

use crate::bios::{Chain, Members};
use crate::flush::Stage;

/// Flags of a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Marks(u8);

impl Marks {
    pub(crate) const NONE: Marks = Marks(0);
    /// It is a limited request: the policy allows such requests only a part of the tags.
    pub(crate) const LIMITED: Marks = Marks(1);
    /// Nothing may merge into it.
    pub(crate) const NO_MERGE: Marks = Marks(1 << 1);
    /// It is in the policy: inserted and not yet released.
    pub(crate) const INSERTED: Marks = Marks(1 << 2);
    /// It can be found by its end: it is in the merge hash, or the next to be put there.
    pub(crate) const HASHED: Marks = Marks(1 << 3);
    /// Its bios have records; otherwise it consists of one bio without a record.
    const CHAINED: Marks = Marks(1 << 4);
    /// The device does not answer it, and it does not count as in the device.
    pub(crate) const DETACHED: Marks = Marks(1 << 5);

    #[inline]
    pub(crate) const fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, mark: Marks) {
        self.0 |= mark.0;
    }

    #[inline]
    pub(crate) const fn clear(&mut self, mark: Marks) {
        self.0 &= !mark.0;
    }
}

#[derive(Copy, Clone, Debug)]
pub(crate) struct Slot {
    /// The halves of its only bio's cookie; for a chain, the first holds the chain.
    bios: [u32; 2],
    sequence_low: u32,
    sequence_high: u8,
    pub marks: Marks,
    pub stage: Stage,
}

const _: () = assert!(size_of::<Slot>() == 16, "four in a cache line");

impl Slot {
    pub(crate) const EMPTY: Slot = Slot::new(Members::Chain(Chain::EMPTY), Marks::NONE);
    /// The queue's own flush command.
    pub(crate) const COMMAND: Slot = Slot { stage: Stage::Command, ..Slot::EMPTY };

    /// A request of these bios that has just got its tag.
    #[inline]
    pub(crate) const fn new(members: Members, marks: Marks) -> Self {
        let (bios, marks) = match members {
            Members::Alone(cookie) => {
                let [a, b, c, d, high @ ..] = cookie.to_le_bytes();
                ([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes(high)], marks)
            }
            Members::Chain(chain) => ([chain.raw(), 0], Marks(marks.0 | Marks::CHAINED.0)),
        };
        Self { bios, sequence_low: 0, sequence_high: 0, marks, stage: Stage::Plain }
    }

    /// Its bios.
    #[inline]
    pub(crate) const fn members(&self) -> Members {
        let [low, high] = self.bios;
        if self.marks.has(Marks::CHAINED) {
            Members::Chain(Chain::from_raw(low))
        } else {
            Members::Alone((high as u64) << 32 | low as u64)
        }
    }

    /// Replaces its bios by this chain.
    #[inline]
    pub(crate) const fn set_chain(&mut self, chain: Chain) {
        self.bios = [chain.raw(), 0];
        self.marks.set(Marks::CHAINED);
    }

    /// Stores its number in the order of insertion.
    #[inline]
    pub(crate) const fn set_sequence(&mut self, sequence: u64) {
        let [a, b, c, d, e, ..] = sequence.to_le_bytes();
        self.sequence_low = u32::from_le_bytes([a, b, c, d]);
        self.sequence_high = e;
    }

    /// How many requests were inserted after it, if `newest` have been inserted by now. 40 bits:
    /// correct unless 10^12 were inserted while it waited, which takes two days at five million per
    /// second.
    #[inline]
    pub(crate) const fn age(&self, newest: u64) -> u64 {
        let sequence = (self.sequence_high as u64) << 32 | self.sequence_low as u64;
        newest.wrapping_sub(sequence) & ((1 << 40) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_outlives_the_wrap_of_the_number() {
        let mut slot = Slot::EMPTY;
        slot.set_sequence((1 << 40) - 3);
        assert_eq!((slot.age((1 << 40) - 3), slot.age((1 << 40) + 5)), (0, 8));
    }

    #[test]
    fn a_slot_keeps_a_cookie_or_a_chain() {
        let mut slot = Slot::new(Members::Alone(0xfedc_ba98_7654_3210), Marks::LIMITED);
        assert!(matches!(slot.members(), Members::Alone(0xfedc_ba98_7654_3210)));
        slot.set_chain(Chain::from_raw(7));
        assert!(matches!(slot.members(), Members::Chain(chain) if chain.raw() == 7) && slot.marks.has(Marks::LIMITED));
        assert!(matches!(Slot::EMPTY.members(), Members::Chain(chain) if chain.is_empty()));
    }

    #[test]
    fn marks_are_independent() {
        let mut marks = Marks::LIMITED;
        marks.set(Marks::HASHED);
        marks.clear(Marks::LIMITED);
        assert!(marks.has(Marks::HASHED) && !marks.has(Marks::LIMITED) && !marks.has(Marks::NO_MERGE));
    }
}
