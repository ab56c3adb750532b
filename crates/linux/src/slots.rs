//! A four-way buddy allocator over slots of 4, 16, 64, 256 and 1,024 KiB, which tracks the used
//! parts of an arena.
//!
//! It does the bookkeeping only and has no memory behind it, so that the engine's decisions about
//! memory can be tested without an arena. Allocation and release take O(classes) in the worst case
//! and never allocate memory themselves.
//!
//! ```
//! let mut slots = hoistway_linux::Slots::new(1 << 20);
//! let slot = slots.take(5_000).expect("1 MiB is free");
//! assert_eq!((slot.bytes(), slots.free_bytes()), (16_384, (1 << 20) - 16_384));
//! assert!(slots.give(slot));
//! assert_eq!(slots.free_bytes(), slots.total_bytes());
//! ```

/// Bytes of the smallest slot.
pub const PAGE_BYTES: u32 = 4_096;
/// Bytes of a slot of each class.
pub const CLASSES: [u32; 5] = [4_096, 16_384, 65_536, 262_144, 1_048_576];
/// Bytes of the largest slot.
pub const TOP_CLASS_BYTES: u32 = CLASSES[TOP];

const TOP: usize = CLASSES.len() - 1;
const NIL: u32 = u32::MAX;

/// One slot of an arena: its class and its position. A copy is the same slot; the slot must still
/// be given back only once.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slot(u32);

impl Slot {
    const CLASS_BITS: u32 = 3;

    #[expect(clippy::cast_possible_truncation, reason = "a class is below 8, a page below 2^29")]
    const fn new(class: usize, index: u32) -> Self {
        Self((index * (CLASSES[class] / PAGE_BYTES)) << Self::CLASS_BITS | class as u32)
    }

    const fn class(self) -> usize {
        (self.0 & 7) as usize
    }

    const fn index(self) -> u32 {
        (self.0 >> Self::CLASS_BITS) / (CLASSES[self.class()] / PAGE_BYTES)
    }

    /// First byte inside the arena.
    #[inline]
    pub const fn offset_bytes(self) -> u64 {
        (self.0 >> Self::CLASS_BITS) as u64 * PAGE_BYTES as u64
    }

    /// Size in bytes: one of [`CLASSES`].
    #[inline]
    pub const fn bytes(self) -> u32 {
        CLASSES[self.class()]
    }

    /// The slot that lies `slots` slots of the largest class further on. It is needed for an arena
    /// that is divided into parts, each with [`Slots`] of its own.
    #[inline]
    #[must_use]
    pub const fn moved_up(self, slots: u32) -> Self {
        Self(self.0 + ((slots * (TOP_CLASS_BYTES / PAGE_BYTES)) << Self::CLASS_BITS))
    }

    /// The inverse of [`Slot::moved_up`]; `None` for a slot that lies before the part of the arena
    /// that begins there.
    #[inline]
    pub const fn moved_down(self, slots: u32) -> Option<Self> {
        match self.0.checked_sub((slots * (TOP_CLASS_BYTES / PAGE_BYTES)) << Self::CLASS_BITS) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }
}

/// The free slots of one class. Four neighbouring slots are the children of the slot of the next
/// class that they form (the parent); parents with free children are in a list over their indices.
struct Class {
    /// Bit n: child n is free. One entry per parent.
    free: Vec<u8>,
    next: Vec<u32>,
    previous: Vec<u32>,
    head: u32,
}

impl Class {
    fn new(parents: usize) -> Self {
        Self { free: vec![0; parents], next: vec![NIL; parents], previous: vec![NIL; parents], head: NIL }
    }

    fn link(&mut self, parent: u32) {
        let at = parent as usize;
        self.previous[at] = NIL;
        self.next[at] = self.head;
        if self.head != NIL {
            self.previous[self.head as usize] = parent;
        }
        self.head = parent;
    }

    fn unlink(&mut self, parent: u32) {
        let at = parent as usize;
        let (previous, next) = (self.previous[at], self.next[at]);
        match previous {
            NIL => self.head = next,
            _ => self.next[previous as usize] = next,
        }
        if next != NIL {
            self.previous[next as usize] = previous;
        }
    }
}

/// The free lists of an arena.
pub struct Slots {
    classes: [Class; TOP],
    top_free: Vec<u32>,
    top_slots: u32,
    free_bytes: u64,
}

impl Slots {
    /// The slots of an arena of `bytes`, rounded down to whole slots of the largest class (at most
    /// 512 GiB).
    pub fn new(bytes: u64) -> Self {
        let top_slots = u32::try_from(bytes / u64::from(TOP_CLASS_BYTES)).unwrap_or(u32::MAX).min(1 << 19);
        let parents = |class: usize| top_slots as usize * (TOP_CLASS_BYTES / CLASSES[class + 1]) as usize;
        Self {
            classes: [Class::new(parents(0)), Class::new(parents(1)), Class::new(parents(2)), Class::new(parents(3))],
            top_free: (0..top_slots).rev().collect(),
            top_slots,
            free_bytes: u64::from(top_slots) * u64::from(TOP_CLASS_BYTES),
        }
    }

    /// Bytes of all slots.
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.top_slots) * u64::from(TOP_CLASS_BYTES)
    }

    /// Bytes of all free slots, however fragmented.
    #[inline]
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// A slot of at least `bytes` (1 to 1 MiB), or `None` if no piece of that size is free (or
    /// `bytes` is too large).
    pub fn take(&mut self, bytes: u32) -> Option<Slot> {
        let class = CLASSES.iter().position(|&size| size >= bytes)?;
        let index = self.take_class(class)?;
        self.free_bytes -= u64::from(CLASSES[class]);
        Some(Slot::new(class, index))
    }

    fn take_class(&mut self, class: usize) -> Option<u32> {
        if class == TOP {
            return self.top_free.pop();
        }
        let head = self.classes[class].head;
        if head != NIL {
            let mask = &mut self.classes[class].free[head as usize];
            let child = mask.trailing_zeros();
            *mask &= *mask - 1;
            if *mask == 0 {
                self.classes[class].unlink(head);
            }
            return Some(head * 4 + child);
        }
        // The class has no free slot: one slot of the next class is split, and its first quarter is
        // returned.
        let parent = self.take_class(class + 1)?;
        self.classes[class].free[parent as usize] = 0b1110;
        self.classes[class].link(parent);
        Some(parent * 4)
    }

    /// Frees a slot. Returns `false` for a slot that is free already, which is an error of the
    /// caller. The error is not noticed once the slot has been joined with its neighbours.
    pub fn give(&mut self, slot: Slot) -> bool {
        let (mut class, mut index) = (slot.class(), slot.index());
        self.free_bytes += u64::from(slot.bytes());
        while class < TOP {
            let (parent, child) = (index / 4, index % 4);
            let list = &mut self.classes[class];
            let mask = &mut list.free[parent as usize];
            if *mask & (1 << child) != 0 {
                self.free_bytes -= u64::from(slot.bytes());
                return false;
            }
            let before = *mask;
            *mask |= 1 << child;
            if *mask != 0b1111 {
                if before == 0 {
                    list.link(parent);
                }
                return true;
            }
            // All four quarters are free: they form one slot of the next class again.
            *mask = 0;
            list.unlink(parent);
            (class, index) = (class + 1, parent);
        }
        self.top_free.push(index);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_as_large_as_asked_and_slots_never_overlap() {
        let mut slots = Slots::new(4 << 20);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for bytes in [1, 4_096, 4_097, 65_536, 300_000, 1 << 20, 512, 16_384] {
            let slot = slots.take(bytes).expect("4 MiB hold all of these");
            assert!(slot.bytes() >= bytes);
            let range = (slot.offset_bytes(), slot.offset_bytes() + u64::from(slot.bytes()));
            assert!(taken.iter().all(|other| range.1 <= other.0 || other.1 <= range.0), "{range:?} in {taken:?}");
            taken.push(range);
        }
    }

    #[test]
    fn quarters_join_again_when_all_are_free() {
        let mut slots = Slots::new(1 << 20);
        let small: Vec<Slot> = (0..256).map(|_| slots.take(4_096).expect("256 pages are there")).collect();
        assert_eq!(slots.free_bytes(), 0);
        assert!(slots.take(1).is_none());
        // Every second page is free, so nothing larger than a page can be allocated.
        for slot in small.iter().step_by(2) {
            assert!(slots.give(*slot));
        }
        assert!(slots.take(4_097).is_none());
        for slot in small.iter().skip(1).step_by(2) {
            assert!(slots.give(*slot));
        }
        assert_eq!(slots.take(1 << 20).map(Slot::bytes), Some(1 << 20));
    }

    #[test]
    fn more_than_the_largest_class_is_refused() {
        assert!(Slots::new(8 << 20).take(TOP_CLASS_BYTES + 1).is_none());
    }

    #[test]
    fn giving_back_twice_is_noticed_while_siblings_are_taken() {
        let mut slots = Slots::new(1 << 20);
        let (first, _second) = (slots.take(4_096).expect("a page"), slots.take(4_096).expect("a page"));
        assert!(slots.give(first));
        let free = slots.free_bytes();
        assert!(!slots.give(first));
        assert_eq!(slots.free_bytes(), free);
    }
}
