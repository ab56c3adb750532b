//! An indexed min-heap: finds the id with the smallest key; keys can be changed.
//!
//! Four children per node, side by side in one cache line together with their keys: a level costs
//! at most one cache miss and three compares without a branch. Keys are compared as plain unsigned
//! numbers, not as wrapping differences.

use core::hint::select_unpredictable;

use super::{Array, NIL, NoMemory};

const WIDTH: u32 = 4;

/// Key (64 bits), sequence number (32), id (32), from the top: the numerical order is the heap's
/// order.
type Entry = u128;

/// Greater than every entry, since no id is [`NIL`]. Fills unused places, so that siblings are
/// compared without counting them.
const VACANT: Entry = Entry::MAX;

#[inline]
const fn entry(key: u64, sequence: u32, id: u32) -> Entry {
    ((key as u128) << 64) | ((sequence as u128) << 32) | id as u128
}

#[inline]
const fn key_of(entry: Entry) -> u64 {
    (entry >> 64) as u64
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest 32 bits are meant")]
const fn id_of(entry: Entry) -> u32 {
    entry as u32
}

/// Four siblings.
#[derive(Copy, Clone, Debug)]
#[repr(align(64))]
struct Family([Entry; WIDTH as usize]);

impl Family {
    /// Position among the siblings, and value, of the smallest.
    #[inline]
    fn least(&self) -> (u32, Entry) {
        let [a, b, c, d] = self.0;
        let left = select_unpredictable(b < a, (1, b), (0, a));
        let right = select_unpredictable(d < c, (3, d), (2, c));
        select_unpredictable(right.1 < left.1, right, left)
    }
}

/// A heap of ids below a bound, each at most once, with `u64` keys.
///
/// Among equal keys the one pushed or updated earliest comes first. Once per 2^32 operations, when
/// the sequence number wraps, newer entries overtake older ones of equal key.
#[derive(Debug)]
pub struct Heap {
    // A position is 4 x family + place. The root is the last place of family 0; its children fill
    // family 1, and those of position p fill family p - 2.
    families: Array<Family>,
    positions: Array<u32>,
    len: u32,
    sequence: u32,
}

const ROOT: u32 = WIDTH - 1;

#[inline]
const fn parent(position: u32) -> u32 {
    position / WIDTH + 2
}

impl Heap {
    /// An empty heap for ids below `ids` (at most 2^32 - 4).
    ///
    /// # Errors
    /// [`NoMemory`] when the allocator refuses, or for more ids than positions.
    pub fn try_new(ids: u32) -> Result<Self, NoMemory> {
        let positions = ids.checked_add(ROOT).ok_or(NoMemory)?;
        let families = Array::try_new(positions.div_ceil(WIDTH), Family([VACANT; WIDTH as usize]))?;
        Ok(Self { families, positions: Array::try_new(ids, NIL)?, len: 0, sequence: 0 })
    }

    /// The number of ids in the heap.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no id is in the heap.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the id is in the heap.
    #[inline]
    pub fn contains(&self, id: u32) -> bool {
        *self.positions.at(id) != NIL
    }

    /// The key of an id; `None` if it is not in the heap.
    #[inline]
    pub fn key(&self, id: u32) -> Option<u64> {
        let position = *self.positions.at(id);
        (position != NIL).then(|| key_of(self.entry_at(position)))
    }

    /// The id with the smallest key, and that key.
    #[inline]
    pub fn peek(&self) -> Option<(u32, u64)> {
        let least = self.entry_at(ROOT);
        (least != VACANT).then(|| (id_of(least), key_of(least)))
    }

    /// Inserts an id. False, without effect, if it is in the heap already or not below the bound.
    #[inline]
    pub fn push(&mut self, id: u32, key: u64) -> bool {
        if self.positions.get(id) != Some(&NIL) {
            return false;
        }
        let position = ROOT + self.len;
        self.len = self.len.wrapping_add(1);
        let entry = self.stamped(id, key);
        self.rise(position, entry);
        true
    }

    /// Removes the id with the smallest key.
    #[inline]
    pub fn pop_min(&mut self) -> Option<(u32, u64)> {
        let least = self.peek()?;
        self.remove(least.0);
        Some(least)
    }

    /// Removes the id with the smallest key and inserts another, in one pass. `None`, without
    /// effect, if the heap is empty, or if the new id is in it already (other than as the smallest)
    /// or not below the bound.
    #[inline]
    pub fn replace_min(&mut self, id: u32, key: u64) -> Option<(u32, u64)> {
        let least = self.peek()?;
        if id != least.0 && self.positions.get(id) != Some(&NIL) {
            return None;
        }
        *self.positions.at_mut(least.0) = NIL;
        let entry = self.stamped(id, key);
        self.sink(ROOT, entry);
        Some(least)
    }

    /// Changes the key of an id; among equal keys it goes last. False, without effect, if it is not
    /// in the heap.
    #[inline]
    pub fn update(&mut self, id: u32, key: u64) -> bool {
        let position = *self.positions.at(id);
        if position == NIL {
            return false;
        }
        let before = self.entry_at(position);
        let entry = self.stamped(id, key);
        self.settle(position, before, entry);
        true
    }

    /// Removes an id. False, without effect, if it is not in the heap.
    #[inline]
    pub fn remove(&mut self, id: u32) -> bool {
        let position = *self.positions.at(id);
        if position == NIL {
            return false;
        }
        let before = self.entry_at(position);
        self.len = self.len.wrapping_sub(1);
        let end = ROOT.wrapping_add(self.len);
        let last = self.entry_at(end);
        self.write(end, VACANT);
        *self.positions.at_mut(id) = NIL;
        if position != end {
            self.settle(position, before, last);
        }
        true
    }

    /// Moves `entry` up or down from `position`, which held `before`.
    #[inline]
    fn settle(&mut self, position: u32, before: Entry, entry: Entry) {
        if entry < before {
            self.rise(position, entry);
        } else {
            self.sink(position, entry);
        }
    }

    /// Finds the place for `entry` at `position` or above.
    #[inline]
    fn rise(&mut self, position: u32, entry: Entry) {
        let mut position = position;
        while position > ROOT {
            let above = self.entry_at(parent(position));
            if above < entry {
                break;
            }
            self.put(position, above);
            position = parent(position);
        }
        self.put(position, entry);
    }

    /// Finds the place for `entry` at `position` or below.
    #[inline]
    fn sink(&mut self, position: u32, entry: Entry) {
        let mut position = position;
        while let Some(children) = self.families.get(position.wrapping_sub(2)) {
            let (place, least) = children.least();
            if entry < least {
                break;
            }
            self.put(position, least);
            position = position.wrapping_sub(2) * WIDTH + place;
        }
        self.put(position, entry);
    }

    #[inline]
    fn stamped(&mut self, id: u32, key: u64) -> Entry {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        entry(key, sequence, id)
    }

    #[inline]
    fn entry_at(&self, position: u32) -> Entry {
        let Family([a, b, c, d]) = self.families.at(position / WIDTH);
        match position % WIDTH {
            0 => *a,
            1 => *b,
            2 => *c,
            _ => *d,
        }
    }

    #[inline]
    fn write(&mut self, position: u32, entry: Entry) {
        if let Some(place) = self.families.at_mut(position / WIDTH).0.get_mut((position % WIDTH) as usize) {
            *place = entry;
        }
    }

    /// Writes an entry, and records the position of its id.
    #[inline]
    fn put(&mut self, position: u32, entry: Entry) {
        self.write(position, entry);
        *self.positions.at_mut(id_of(entry)) = position;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const IDS: u32 = 40;

    #[derive(Clone, Debug)]
    enum Operation {
        Push(u32, u64),
        PopMin,
        ReplaceMin(u32, u64),
        Update(u32, u64),
        UpdateMin(u64),
        Remove(u32),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        // Few distinct keys, so that many are equal; and the largest key, which must not be
        // mistaken for a vacancy.
        let key = prop_oneof![9 => 0..20u64, 1 => Just(u64::MAX)];
        let id = 0..IDS + 2;
        prop_oneof![
            6 => (id.clone(), key.clone()).prop_map(|(i, k)| Operation::Push(i, k)),
            1 => Just(Operation::PopMin),
            2 => (id.clone(), key.clone()).prop_map(|(i, k)| Operation::ReplaceMin(i, k)),
            4 => (id.clone(), key.clone()).prop_map(|(i, k)| Operation::Update(i, k)),
            2 => key.prop_map(Operation::UpdateMin),
            2 => id.prop_map(Operation::Remove),
        ]
    }

    /// (key, time of the last change, id): the expected order of the heap.
    #[derive(Default)]
    struct Model {
        sorted: BTreeSet<(u64, usize, u32)>,
    }

    impl Model {
        fn take(&mut self, id: u32) -> bool {
            let found = self.sorted.iter().copied().find(|entry| entry.2 == id);
            found.is_some_and(|entry| self.sorted.remove(&entry))
        }

        fn contains(&self, id: u32) -> bool {
            self.sorted.iter().any(|entry| entry.2 == id)
        }

        fn least(&self) -> Option<(u32, u64)> {
            self.sorted.first().map(|&(key, _, id)| (id, key))
        }
    }

    fn apply(heap: &mut Heap, model: &mut Model, operation: &Operation, time: usize) {
        match *operation {
            Operation::Push(id, key) => {
                let expected = id < IDS && !model.contains(id);
                assert_eq!(heap.push(id, key), expected);
                model.sorted.extend(expected.then_some((key, time, id)));
            }
            Operation::PopMin => {
                let expected = model.least();
                assert_eq!(heap.pop_min(), expected);
                model.sorted.pop_first();
            }
            Operation::ReplaceMin(id, key) => {
                let least = model.least();
                let may = id < IDS && (!model.contains(id) || least.is_some_and(|least| least.0 == id));
                let expected = least.filter(|_| may);
                assert_eq!(heap.replace_min(id, key), expected);
                if expected.is_some() {
                    model.sorted.pop_first();
                    model.sorted.insert((key, time, id));
                }
            }
            Operation::Update(id, key) => {
                let expected = model.take(id);
                assert_eq!(heap.update(id, key), expected);
                model.sorted.extend(expected.then_some((key, time, id)));
            }
            Operation::UpdateMin(key) => {
                if let Some((id, _)) = heap.peek() {
                    apply(heap, model, &Operation::Update(id, key), time);
                }
            }
            Operation::Remove(id) => assert_eq!(heap.remove(id), model.take(id)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

        /// 100 cases of 1,000 operations.
        #[test]
        fn a_heap_behaves_as_a_sorted_set(operations in prop::collection::vec(operation(), 1000)) {
            let mut heap = Heap::try_new(IDS).unwrap();
            let mut model = Model::default();
            for (time, operation) in operations.iter().enumerate() {
                apply(&mut heap, &mut model, operation, time);
                prop_assert_eq!(heap.peek(), model.least());
                prop_assert_eq!(heap.len() as usize, model.sorted.len());
                for id in 0..IDS + 1 {
                    prop_assert_eq!(heap.contains(id), model.contains(id));
                }
                for &(key, _, id) in &model.sorted {
                    prop_assert_eq!(heap.key(id), Some(key));
                }
            }
            while let Some(least) = model.least() {
                prop_assert_eq!(heap.pop_min(), Some(least));
                model.sorted.pop_first();
            }
            prop_assert_eq!(heap.pop_min(), None);
        }
    }

    #[test]
    fn equal_keys_leave_in_the_order_they_came() {
        let mut heap = Heap::try_new(100).unwrap();
        for id in (0..100).rev() {
            assert!(heap.push(id, 5));
        }
        assert!(heap.update(60, 5));
        let order = core::iter::from_fn(|| heap.pop_min().map(|least| least.0));
        assert!(order.eq((0..100).rev().filter(|&id| id != 60).chain([60])));
    }
}
