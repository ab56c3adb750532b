//! Doubly linked lists of slots over a shared array of links: every operation O(1).
//!
//! One [`Links`] array per role (a purpose for which slots are linked, for example order of
//! arrival); many [`List`]s may share it, since a slot is on at most one list of a role.

use super::{Array, NIL, NoMemory};

#[derive(Copy, Clone, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// Value of `next` of a slot on no list; like [`NIL`], never an index.
const OFF: u32 = NIL - 1;

/// The links of all slots in one role.
#[derive(Debug)]
pub struct Links(Array<Link>);

impl Links {
    /// Links for `slots` slots (at most 2^32 - 2), none of them on a list.
    ///
    /// # Errors
    /// [`NoMemory`] when the allocator refuses, or for more slots than indices.
    pub fn try_new(slots: u32) -> Result<Self, NoMemory> {
        if slots > OFF {
            return Err(NoMemory);
        }
        Ok(Self(Array::try_new(slots, Link { prev: NIL, next: OFF })?))
    }

    /// Whether the slot is on a list of this role.
    #[inline]
    pub fn is_linked(&self, slot: u32) -> bool {
        self.0.at(slot).next != OFF
    }

    /// Whether the slot exists and is on no list.
    #[inline]
    pub fn is_free(&self, slot: u32) -> bool {
        self.0.get(slot).is_some_and(|link| link.next == OFF)
    }

    /// The slot behind this one on its list.
    #[inline]
    pub fn next(&self, slot: u32) -> Option<u32> {
        self.existing(self.0.at(slot).next)
    }

    /// The slot before this one on its list.
    #[inline]
    pub fn prev(&self, slot: u32) -> Option<u32> {
        self.existing(self.0.at(slot).prev)
    }

    #[inline]
    fn existing(&self, slot: u32) -> Option<u32> {
        (slot < OFF).then_some(slot)
    }
}

/// A list of slots. Every operation must get the same [`Links`] that the list was filled with.
#[derive(Clone, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List { head: NIL, tail: NIL, len: 0 };

    /// The number of slots on the list.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no slot is on the list.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first slot.
    #[inline]
    pub const fn first(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }

    /// The last slot.
    #[inline]
    pub const fn last(&self) -> Option<u32> {
        if self.tail == NIL { None } else { Some(self.tail) }
    }

    /// Appends the slot. False, without effect, if it is on a list already or does not exist.
    #[inline(always)]
    pub fn push_back(&mut self, links: &mut Links, slot: u32) -> bool {
        match links.0.get_mut(slot) {
            Some(link) if link.next == OFF => *link = Link { prev: self.tail, next: NIL },
            _ => return false,
        }
        match links.0.get_mut(self.tail) {
            Some(link) => link.next = slot,
            None => self.head = slot,
        }
        self.tail = slot;
        self.len = self.len.wrapping_add(1);
        true
    }

    /// Prepends the slot. False, without effect, if it is on a list already or does not exist.
    #[inline]
    pub fn push_front(&mut self, links: &mut Links, slot: u32) -> bool {
        self.link(links, slot, NIL, self.head)
    }

    /// Inserts the slot right behind `anchor`, which must be on this list. False, without effect,
    /// if the slot is on a list already or does not exist, or the anchor is on none.
    #[inline]
    pub fn insert_after(&mut self, links: &mut Links, anchor: u32, slot: u32) -> bool {
        let next = links.0.at(anchor).next;
        if next == OFF || (next == NIL && self.tail != anchor) {
            return false;
        }
        self.link(links, slot, anchor, next)
    }

    /// Inserts the slot right before `anchor`, which must be on this list. False, without effect,
    /// if the slot is on a list already or does not exist, or the anchor is on none.
    #[inline]
    pub fn insert_before(&mut self, links: &mut Links, anchor: u32, slot: u32) -> bool {
        let Link { prev, next } = *links.0.at(anchor);
        if next == OFF || (prev == NIL && self.head != anchor) {
            return false;
        }
        self.link(links, slot, prev, anchor)
    }

    /// Removes the slot from this list. False, without effect, if it is on no list.
    ///
    /// The caller ensures that the slot is on *this* list. A slot of another list with the same
    /// links is recognised only if it is the first or last one there; otherwise both lengths would
    /// be wrong.
    #[inline(always)]
    pub fn remove(&mut self, links: &mut Links, slot: u32) -> bool {
        let Some(link) = links.0.get_mut(slot) else { return false };
        let Link { prev, next } = *link;
        if next == OFF || (prev == NIL && self.head != slot) || (next == NIL && self.tail != slot) {
            return false;
        }
        *link = Link { prev: NIL, next: OFF };
        match links.0.get_mut(prev) {
            Some(link) => link.next = next,
            None => self.head = next,
        }
        match links.0.get_mut(next) {
            Some(link) => link.prev = prev,
            None => self.tail = prev,
        }
        self.len = self.len.wrapping_sub(1);
        true
    }

    /// Removes the first slot.
    #[inline]
    pub fn pop_front(&mut self, links: &mut Links) -> Option<u32> {
        let slot = self.first()?;
        let link = links.0.get_mut(slot)?;
        let next = core::mem::replace(link, Link { prev: NIL, next: OFF }).next;
        match links.0.get_mut(next) {
            Some(link) => link.prev = NIL,
            None => self.tail = NIL,
        }
        self.head = next;
        self.len = self.len.wrapping_sub(1);
        Some(slot)
    }

    /// As [`List::remove`], optimised for a slot that is likely to be the first.
    #[inline(always)]
    pub fn remove_early(&mut self, links: &mut Links, slot: u32) -> bool {
        if self.head == slot { self.pop_front(links).is_some() } else { self.remove(links, slot) }
    }

    /// Removes the last slot.
    #[inline]
    pub fn pop_back(&mut self, links: &mut Links) -> Option<u32> {
        let slot = self.last()?;
        self.remove(links, slot).then_some(slot)
    }

    /// The slots from first to last.
    #[inline]
    pub fn iter<'a>(&self, links: &'a Links) -> Iter<'a> {
        Iter { links, at: self.first() }
    }

    #[inline]
    fn link(&mut self, links: &mut Links, slot: u32, prev: u32, next: u32) -> bool {
        match links.0.get_mut(slot) {
            Some(link) if link.next == OFF => *link = Link { prev, next },
            _ => return false,
        }
        match links.0.get_mut(prev) {
            Some(link) => link.next = slot,
            None => self.head = slot,
        }
        match links.0.get_mut(next) {
            Some(link) => link.prev = slot,
            None => self.tail = slot,
        }
        self.len = self.len.wrapping_add(1);
        true
    }
}

/// A list that stores only its first slot: four bytes, for tables of many (the buckets of a hash
/// table). It shares [`Links`] with the other lists that its slots may be on instead.
#[derive(Copy, Clone, Debug)]
pub struct Stack {
    head: u32,
}

impl Stack {
    /// An empty stack.
    pub const EMPTY: Stack = Stack { head: NIL };

    /// The slot pushed last.
    #[inline]
    pub const fn first(&self) -> Option<u32> {
        if self.head == NIL { None } else { Some(self.head) }
    }

    /// Pushes the slot. False, without effect, if it is on a list already or does not exist.
    #[inline]
    pub fn push(&mut self, links: &mut Links, slot: u32) -> bool {
        match links.0.get_mut(slot) {
            Some(link) if link.next == OFF => *link = Link { prev: NIL, next: self.head },
            _ => return false,
        }
        if let Some(link) = links.0.get_mut(self.head) {
            link.prev = slot;
        }
        self.head = slot;
        true
    }

    /// Removes the slot, wherever it is in this stack. False, without effect, if it is on no list.
    ///
    /// The caller ensures that the slot is on *this* stack. A slot of another stack is recognised
    /// only if it is the first one there.
    #[inline]
    pub fn remove(&mut self, links: &mut Links, slot: u32) -> bool {
        let Some(link) = links.0.get_mut(slot) else { return false };
        let Link { prev, next } = *link;
        if next == OFF || (prev == NIL && self.head != slot) {
            return false;
        }
        *link = Link { prev: NIL, next: OFF };
        match links.0.get_mut(prev) {
            Some(link) => link.next = next,
            None => self.head = next,
        }
        if let Some(link) = links.0.get_mut(next) {
            link.prev = prev;
        }
        true
    }
}

/// The slots of a list from first to last.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    links: &'a Links,
    at: Option<u32>,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let slot = self.at?;
        self.at = self.links.next(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const SLOTS: u32 = 24;

    #[derive(Clone, Debug)]
    enum Operation {
        PushBack(usize, u32),
        PushFront(usize, u32),
        InsertAfter(usize, u32, u32),
        InsertBefore(usize, u32, u32),
        Remove(usize, u32),
        PopFront(usize),
        PopBack(usize),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        // Two more slots than exist, so that invalid ones are tried as well.
        let (list, slot) = (0usize..2, 0..SLOTS + 2);
        prop_oneof![
            (list.clone(), slot.clone()).prop_map(|(l, s)| Operation::PushBack(l, s)),
            (list.clone(), slot.clone()).prop_map(|(l, s)| Operation::PushFront(l, s)),
            (list.clone(), slot.clone(), slot.clone()).prop_map(|(l, a, s)| Operation::InsertAfter(l, a, s)),
            (list.clone(), slot.clone(), slot.clone()).prop_map(|(l, a, s)| Operation::InsertBefore(l, a, s)),
            (list.clone(), slot).prop_map(|(l, s)| Operation::Remove(l, s)),
            list.clone().prop_map(Operation::PopFront),
            list.prop_map(Operation::PopBack),
        ]
    }

    /// Two lists over one array of links, and their expected contents.
    struct Pair {
        links: Links,
        lists: [List; 2],
        models: [VecDeque<u32>; 2],
    }

    impl Pair {
        fn apply(&mut self, operation: &Operation) {
            let Self { links, lists, models } = self;
            let is_free = |models: &[VecDeque<u32>; 2], s: u32| s < SLOTS && !models.iter().any(|m| m.contains(&s));
            match *operation {
                Operation::PushBack(l, s) => {
                    let expected = is_free(models, s);
                    assert_eq!(lists[l].push_back(links, s), expected);
                    models[l].extend(expected.then_some(s));
                }
                Operation::PushFront(l, s) => {
                    let expected = is_free(models, s);
                    assert_eq!(lists[l].push_front(links, s), expected);
                    if expected {
                        models[l].push_front(s);
                    }
                }
                Operation::InsertAfter(l, a, s) | Operation::InsertBefore(l, a, s) => {
                    if models[1 - l].contains(&a) {
                        return; // an anchor on another list is the caller's error
                    }
                    let is_after = matches!(operation, Operation::InsertAfter(..));
                    let at = models[l].iter().position(|&m| m == a).filter(|_| is_free(models, s));
                    let done =
                        if is_after { lists[l].insert_after(links, a, s) } else { lists[l].insert_before(links, a, s) };
                    assert_eq!(done, at.is_some());
                    if let Some(at) = at {
                        models[l].insert(at + usize::from(is_after), s);
                    }
                }
                Operation::Remove(l, s) => {
                    if models[1 - l].contains(&s) {
                        return;
                    }
                    let at = models[l].iter().position(|&m| m == s);
                    assert_eq!(lists[l].remove(links, s), at.is_some());
                    at.map(|at| models[l].remove(at));
                }
                Operation::PopFront(l) => assert_eq!(lists[l].pop_front(links), models[l].pop_front()),
                Operation::PopBack(l) => assert_eq!(lists[l].pop_back(links), models[l].pop_back()),
            }
        }

        fn check(&self) {
            for (list, model) in self.lists.iter().zip(&self.models) {
                assert!(list.iter(&self.links).eq(model.iter().copied()));
                assert_eq!(list.len() as usize, model.len());
                assert_eq!((list.first(), list.last()), (model.front().copied(), model.back().copied()));
                let backwards: Vec<u32> = core::iter::successors(list.last(), |&s| self.links.prev(s)).collect();
                assert!(backwards.iter().rev().eq(model.iter()));
            }
            for slot in 0..SLOTS {
                let is_listed = self.models.iter().any(|model| model.contains(&slot));
                assert_eq!((self.links.is_linked(slot), self.links.is_free(slot)), (is_listed, !is_listed));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

        /// 100 cases of 1,000 operations.
        #[test]
        fn two_lists_over_shared_links_behave_as_two_deques(operations in prop::collection::vec(operation(), 1000)) {
            let links = Links::try_new(SLOTS).unwrap();
            let mut pair = Pair { links, lists: [List::EMPTY; 2], models: Default::default() };
            for operation in &operations {
                pair.apply(operation);
                pair.check();
            }
        }
    }

    #[test]
    fn a_stack_removes_slots_from_anywhere_and_recognises_a_foreign_first() {
        let mut links = Links::try_new(4).unwrap();
        let (mut ours, mut theirs) = (Stack::EMPTY, Stack::EMPTY);
        assert!((0..3).all(|slot| ours.push(&mut links, slot)) && theirs.push(&mut links, 3));
        assert!(!ours.push(&mut links, 1) && !ours.push(&mut links, 4) && !ours.remove(&mut links, 3));
        assert!(ours.remove(&mut links, 1) && !ours.remove(&mut links, 1) && links.is_free(1));
        assert_eq!((ours.first(), links.next(2), links.prev(0), links.next(0)), (Some(2), Some(0), Some(2), None));
        assert!(ours.remove(&mut links, 2) && ours.remove(&mut links, 0));
        assert_eq!((ours.first(), theirs.first()), (None, Some(3)));
    }

    #[test]
    fn the_ends_of_another_list_are_recognised_as_foreign() {
        let mut links = Links::try_new(4).unwrap();
        let [mut ours, mut theirs] = [List::EMPTY; 2];
        assert!(theirs.push_back(&mut links, 0) && theirs.push_back(&mut links, 1));
        assert!(!ours.remove(&mut links, 0) && !ours.remove(&mut links, 1));
        assert!(!ours.insert_after(&mut links, 1, 2) && !ours.insert_before(&mut links, 0, 2));
        assert!(theirs.iter(&links).eq([0, 1]) && ours.is_empty() && links.is_free(2));
    }
}
