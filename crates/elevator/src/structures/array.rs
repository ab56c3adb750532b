//! Fixed-size storage that is indexed by `u32` and never panics.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// The memory requested at construction was not available.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NoMemory;

impl core::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("not enough memory for the tables")
    }
}

impl core::error::Error for NoMemory {}

/// A fixed number of elements. An index out of range accesses a sentinel instead of panicking.
///
/// The sentinel always reads as the value given at construction, and writes to it are dropped. An
/// invalid index can neither reach another element nor be observed by the next invalid index.
#[derive(Debug)]
pub struct Array<T> {
    /// A box, which is one word smaller than a vector; a policy has dozens, and is built on a
    /// stack.
    items: Box<[T]>,
    // The sentinel, and the target of writes out of range: separate, because `at` cannot undo
    // changes made through `at_mut`. On the heap, so that a policy with many arrays of large
    // elements can be built on a kernel stack.
    spare: Box<[T; 2]>,
}

impl<T: Clone> Array<T> {
    /// `len` elements, each a clone of `value`.
    ///
    /// # Errors
    /// [`NoMemory`] when the allocator refuses; nothing stays allocated then.
    pub fn try_new(len: u32, value: T) -> Result<Self, NoMemory> {
        let mut items = Vec::new();
        items.try_reserve_exact(len as usize).map_err(|_| NoMemory)?;
        let mut spare = Vec::new();
        spare.try_reserve_exact(2).map_err(|_| NoMemory)?;
        spare.resize_with(2, || value.clone());
        items.resize_with(len as usize, || value.clone());
        let spare = spare.into_boxed_slice().try_into().map_err(|_| NoMemory)?;
        Ok(Self { items: items.into_boxed_slice(), spare })
    }

    /// The element at `index`, mutable; out of range, a fresh sentinel whose changes are dropped.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        match self.items.get_mut(index as usize) {
            Some(item) => item,
            None => Self::out_of_range(&mut self.spare),
        }
    }

    #[cold]
    #[inline(never)]
    fn out_of_range(spare: &mut [T; 2]) -> &mut T {
        let [sentinel, scratch] = spare;
        scratch.clone_from(sentinel);
        scratch
    }
}

impl<T> Array<T> {
    /// The element at `index`; out of range, the sentinel.
    #[inline]
    pub fn at(&self, index: u32) -> &T {
        match self.items.get(index as usize) {
            Some(item) => item,
            None => &self.spare[0],
        }
    }

    /// The element at `index`; `None` out of range, where [`crate::structures::NIL`] always is.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.items.get(index as usize)
    }

    /// The element at `index`, mutable; `None` out of range.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.items.get_mut(index as usize)
    }

    /// Prefetches the element at `index`, if there is one, because it will be changed soon.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        if let Some(item) = self.items.get(index as usize) {
            hoistway_prefetch::for_write(item);
        }
    }

    /// All elements, mutable, for callers that change several at once.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> u32 {
        u32::try_from(self.items.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All elements in the order of their indices.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// All elements in the order of their indices, mutable.
    #[inline]
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_what_is_written() {
        let mut array = Array::try_new(3, 7u32).unwrap();
        *array.at_mut(2) = 9;
        assert_eq!(array.iter().copied().collect::<Vec<_>>(), [7, 7, 9]);
        assert_eq!((array.len(), array.is_empty(), array.get(3), array.get(u32::MAX)), (3, false, None, None));
    }

    #[test]
    fn an_index_out_of_range_reads_the_sentinel_and_forgets_what_is_written() {
        let mut array = Array::try_new(2, 7u32).unwrap();
        *array.at_mut(2) = 1;
        assert_eq!((*array.at(2), *array.at(u32::MAX), *array.at_mut(2)), (7, 7, 7));
        assert_eq!(array.iter().copied().collect::<Vec<_>>(), [7, 7]);
    }

    #[test]
    fn refused_memory_is_an_error() {
        // 2^48 bytes: twice the address space of a process.
        assert_eq!(Array::try_new(u32::MAX, [0u8; 1 << 16]).err(), Some(NoMemory));
    }
}
