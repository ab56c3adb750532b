//! What the queue keeps per request, beside the request table: twelve bytes.

use crate::bios::Chain;
use crate::flush::Stage;

/// Yes-or-no facts about a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Marks(u8);

impl Marks {
    pub(crate) const NONE: Marks = Marks(0);
    /// It holds a tag of those that limited requests may hold.
    pub(crate) const LIMITED: Marks = Marks(1);
    /// Nothing may join it.
    pub(crate) const NO_MERGE: Marks = Marks(1 << 1);
    /// The policy knows it: inserted and not yet released.
    pub(crate) const INSERTED: Marks = Marks(1 << 2);
    /// It can be found by its end: it is in the merge hash, or the next to be put there.
    pub(crate) const HASHED: Marks = Marks(1 << 3);

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
    pub chain: Chain,
    sequence_low: u32,
    sequence_high: u8,
    pub marks: Marks,
    pub stage: Stage,
}

const _: () = assert!(size_of::<Slot>() == 12, "no padding");

impl Slot {
    pub(crate) const EMPTY: Slot = Slot::new(Chain::EMPTY, Marks::NONE);
    /// A flush command of the queue's own.
    pub(crate) const COMMAND: Slot = Slot { stage: Stage::Command, ..Slot::EMPTY };

    /// A request of these bios that has only just got its tag.
    #[inline]
    pub(crate) const fn new(chain: Chain, marks: Marks) -> Self {
        Self { chain, sequence_low: 0, sequence_high: 0, marks, stage: Stage::Plain }
    }

    /// Remembers that it was the so-manieth to be inserted.
    #[inline]
    pub(crate) const fn set_sequence(&mut self, sequence: u64) {
        let [a, b, c, d, e, ..] = sequence.to_le_bytes();
        self.sequence_low = u32::from_le_bytes([a, b, c, d]);
        self.sequence_high = e;
    }

    /// How many were inserted after it, of which there have been `newest` by now. 40 bits: right unless 10^12 were
    /// inserted while it waited, two days at five millions a second.
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
    fn marks_are_independent() {
        let mut marks = Marks::LIMITED;
        marks.set(Marks::HASHED);
        marks.clear(Marks::LIMITED);
        assert!(marks.has(Marks::HASHED) && !marks.has(Marks::LIMITED) && !marks.has(Marks::NO_MERGE));
    }
}
