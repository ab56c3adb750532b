//! Lines of requests whose links lie in what is kept of each: first come, first served, and out of the middle.
//!
//! A request is in at most two: one that says where it is, and the one of all by age. Every operation is O(1). Whether a
//! request is in a line is not asked: what is kept of it says so ([`super::state::Held`]). Links lie apart from the rest, close together:
//! neighbours are anywhere, and all that is wanted of them is their links.

use crate::structures::{Array, NIL};

/// A request's neighbours in a line. Who is first is known to the line: in its link `prev` means nothing, so that nobody has to write to
/// the next one when the first leaves.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    pub const NONE: Link = Link { prev: NIL, next: NIL };
}

/// A request's neighbours in its leaf, or in the line of its class, or of those that go before everything; and by age.
#[derive(Copy, Clone, Debug)]
#[repr(align(16))]
pub struct Links {
    pub place: Link,
    pub age: Link,
}

const _: () = assert!(size_of::<Links>() == 16, "four to a cache line");

impl Links {
    pub const NONE: Links = Links { place: Link::NONE, age: Link::NONE };
}

/// Which of its two links a line goes by.
pub trait Role {
    fn of(links: &Links) -> Link;
    fn of_mut(links: &mut Links) -> &mut Link;
}

/// Leaves, classes, and what goes before everything.
pub enum ByPlace {}

/// All of the best-effort class.
pub enum ByAge {}

impl Role for ByPlace {
    #[inline]
    fn of(links: &Links) -> Link {
        links.place
    }

    #[inline]
    fn of_mut(links: &mut Links) -> &mut Link {
        &mut links.place
    }
}

impl Role for ByAge {
    #[inline]
    fn of(links: &Links) -> Link {
        links.age
    }

    #[inline]
    fn of_mut(links: &mut Links) -> &mut Link {
        &mut links.age
    }
}

/// A line: its two ends, NIL if nobody is in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Line {
    pub first: u32,
    last: u32,
}

impl Line {
    pub const EMPTY: Line = Line { first: NIL, last: NIL };

    /// In what is free: who is free next.
    pub const fn next_free(next: u32) -> Self {
        Self { first: next, last: NIL }
    }

    #[inline]
    pub const fn first(&self) -> Option<u32> {
        if self.first == NIL { None } else { Some(self.first) }
    }

    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// `link` is that of `slot` itself, which the caller writes.
    #[inline(always)]
    #[must_use]
    pub fn push_back<R: Role>(&mut self, links: &mut Array<Links>, slot: u32) -> Link {
        let prev = core::mem::replace(&mut self.last, slot);
        match links.get_mut(prev) {
            Some(before) => R::of_mut(before).next = slot,
            None => self.first = slot,
        }
        Link { prev, next: NIL }
    }

    /// Where another line is the same, its links are as well: `link` is both of `slot`'s.
    #[inline(always)]
    #[must_use]
    pub fn push_back_twice(&mut self, links: &mut Array<Links>, slot: u32) -> Link {
        let prev = core::mem::replace(&mut self.last, slot);
        match links.get_mut(prev) {
            Some(before) => (before.place.next, before.age.next) = (slot, slot),
            None => self.first = slot,
        }
        Link { prev, next: NIL }
    }

    pub fn push_front(&mut self, links: &mut Array<Links>, slot: u32) {
        let next = core::mem::replace(&mut self.first, slot);
        match links.get_mut(next) {
            Some(behind) => behind.place.prev = slot,
            None => self.last = slot,
        }
        links.at_mut(slot).place = Link { prev: NIL, next };
    }

    /// Out of the line, given the request's own link, which is left as it is.
    #[inline(always)]
    pub fn unlink<R: Role>(&mut self, links: &mut Array<Links>, slot: u32, link: Link) {
        if self.first == slot {
            self.unlink_first(link);
            return;
        }
        let Link { prev, next } = link;
        match links.get_mut(next) {
            Some(behind) => R::of_mut(behind).prev = prev,
            None => self.last = prev,
        }
        if let Some(before) = links.get_mut(prev) {
            R::of_mut(before).next = next;
        }
    }

    /// The first leaves: given its link.
    #[inline(always)]
    pub const fn unlink_first(&mut self, link: Link) {
        self.first = link.next;
        if link.next == NIL {
            self.last = NIL;
        }
    }

    /// How many there are, by walking along; for checks.
    pub fn count<R: Role>(&self, links: &Array<Links>) -> u32 {
        let (mut at, mut count) = (self.first, 0_u32);
        while let Some(own) = links.get(at) {
            count = count.wrapping_add(1);
            if count > links.len() {
                break;
            }
            at = R::of(own).next;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;
    use block::random::Stream;

    fn put<R: Role>(line: &mut Line, slots: &mut Array<Links>, slot: u32) {
        let link = line.push_back::<R>(slots, slot);
        *R::of_mut(slots.at_mut(slot)) = link;
    }

    fn walk<R: Role>(line: &Line, slots: &Array<Links>) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = line.first;
        while let Some(slot) = slots.get(at) {
            found.push(at);
            at = R::of(slot).next;
        }
        found
    }

    /// Two lines by place and one by age, against queues that need no links.
    #[test]
    fn lines_behave_as_queues() {
        const SLOTS: u32 = 20;
        let mut random = Stream::of(3, "paternoster/lines");
        let mut slots = Array::try_new(SLOTS, Links::NONE).unwrap();
        let (mut lines, mut by_age) = ([Line::EMPTY; 2], Line::EMPTY);
        let (mut models, mut ages) = ([VecDeque::new(), VecDeque::new()], Vec::new());
        for _ in 0..20_000 {
            let slot = u32::try_from(random.below(u64::from(SLOTS))).unwrap();
            let of = (slot % 2) as usize;
            if !models[of].contains(&slot) {
                if random.below(4) == 0 {
                    lines[of].push_front(&mut slots, slot);
                    models[of].push_front(slot);
                } else {
                    put::<ByPlace>(&mut lines[of], &mut slots, slot);
                    models[of].push_back(slot);
                }
                put::<ByAge>(&mut by_age, &mut slots, slot);
                ages.push(slot);
            } else {
                let gone = if random.below(2) == 0 { models[of][0] } else { slot };
                let (link, age) = (slots.at(gone).place, slots.at(gone).age);
                if gone == models[of][0] && random.below(2) == 0 {
                    lines[of].unlink_first(link);
                } else {
                    lines[of].unlink::<ByPlace>(&mut slots, gone, link);
                }
                by_age.unlink::<ByAge>(&mut slots, gone, age);
                models[of].retain(|other| *other != gone);
                ages.retain(|other| *other != gone);
            }
            for (line, model) in lines.iter().zip(&models) {
                assert_eq!(walk::<ByPlace>(line, &slots), model.iter().copied().collect::<Vec<_>>());
                assert_eq!((line.first(), line.is_empty()), (model.front().copied(), model.is_empty()));
                assert_eq!(line.count::<ByPlace>(&slots) as usize, model.len());
            }
            assert_eq!(walk::<ByAge>(&by_age, &slots), ages);
        }
    }
}
