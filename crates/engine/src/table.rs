//! Tables of fixed size: entries by index, free indices as a stack. Nothing is allocated after
//! construction.

use std::ops::{Index, IndexMut};

/// "No entry" in links between tables.
pub(crate) const NIL: u32 = u32::MAX;

/// At most `capacity` values, each under an index that is valid until it is released.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<T>,
    is_used: Vec<bool>,
    free: Vec<u32>,
}

impl<T: Default> Table<T> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            entries: (0..capacity).map(|_| T::default()).collect(),
            is_used: vec![false; capacity as usize],
            free: (0..capacity).rev().collect(),
        }
    }

    /// Stores a value; `None` when the table is full.
    #[inline]
    pub(crate) fn take(&mut self, value: T) -> Option<u32> {
        let index = self.free.pop()?;
        self.entries[index as usize] = value;
        self.is_used[index as usize] = true;
        Some(index)
    }

    /// Releases an entry. Its value stays readable until the index is used again.
    #[inline]
    pub(crate) fn give(&mut self, index: u32) {
        debug_assert!(self.is_used[index as usize], "entry {index} was not in use");
        self.is_used[index as usize] = false;
        self.free.push(index);
    }

    /// The entry, if the index is in use.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        (*self.is_used.get(index as usize)?).then(|| &self.entries[index as usize])
    }

    /// The number of free entries.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// The number of entries in use.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The indices in use.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(&self.is_used).filter_map(|(index, used)| used.then_some(index))
    }
}

impl<T> Index<u32> for Table<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.entries[index as usize]
    }
}

impl<T> IndexMut<u32> for Table<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.entries[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_takes_nothing_and_a_returned_index_is_reused() {
        let mut table = Table::new(2);
        let (first, second) = (table.take('a'), table.take('b'));
        assert_eq!(table.take('c'), None);
        table.give(first.expect("room"));
        assert_eq!(table.get(first.expect("room")), None);
        assert_eq!(table.take('d'), first);
        assert_eq!(second.and_then(|index| table.get(index)), Some(&'b'));
        assert_eq!((table.used(), table.room()), (2, 0));
    }
}
