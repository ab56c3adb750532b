//! A pool of small numbers that are reused only when there are no references to them any more.

use hoistway_elevator::structures::{Array, NoMemory};

#[derive(Copy, Clone, Debug)]
struct Id {
    held: u32,
    is_taken: bool,
    is_gone: bool,
}

/// A pool of the ids below a limit; every operation is O(1). Id 0 always exists and is shared by
/// all that find the pool empty.
#[derive(Debug)]
pub struct Ids {
    ids: Array<Id>,
    free: Array<u32>,
    free_count: u32,
    /// The number of times that the pool was empty.
    pub refused: u64,
}

impl Ids {
    /// A pool in which all ids but 0 are free.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn try_new(limit: u32) -> Result<Self, NoMemory> {
        let limit = limit.max(1);
        let mut free = Array::try_new(limit, 0)?;
        for place in 0..limit - 1 {
            // The smallest id is taken first.
            *free.at_mut(place) = limit - 1 - place;
        }
        let mut ids = Array::try_new(limit, Id { held: 0, is_taken: false, is_gone: false })?;
        ids.at_mut(0).is_taken = true;
        Ok(Self { ids, free, free_count: limit - 1, refused: 0 })
    }

    /// Takes a free id; 0 if there is none.
    pub fn take(&mut self) -> u32 {
        let Some(top) = self.free_count.checked_sub(1) else {
            self.refused = self.refused.saturating_add(1);
            return 0;
        };
        self.free_count = top;
        let id = *self.free.at(top);
        *self.ids.at_mut(id) = Id { held: 0, is_taken: true, is_gone: false };
        id
    }

    /// Whether the id is in use and its owner still exists.
    #[inline]
    pub fn exists(&self, id: u32) -> bool {
        self.ids.get(id).is_some_and(|entry| entry.is_taken && !entry.is_gone)
    }

    /// Adds a reference.
    #[inline]
    pub fn get_ref(&mut self, id: u32) {
        let held = &mut self.ids.at_mut(id).held;
        *held = held.wrapping_add(1);
    }

    /// Drops a reference; returns whether the id can be released now.
    #[inline(always)]
    pub fn put_ref(&mut self, id: u32) -> bool {
        let entry = self.ids.at_mut(id);
        // The caller holds a reference.
        entry.held = entry.held.wrapping_sub(1);
        entry.held == 0 && entry.is_gone
    }

    /// Records that the owner is gone; returns whether the id can be released now.
    pub fn retire(&mut self, id: u32) -> bool {
        if id == 0 || !self.exists(id) {
            return false;
        }
        let entry = self.ids.at_mut(id);
        entry.is_gone = true;
        entry.held == 0
    }

    /// Makes the id available again.
    pub fn release(&mut self, id: u32) {
        let entry = self.ids.at_mut(id);
        entry.is_taken = false;
        entry.is_gone = false;
        *self.free.at_mut(self.free_count) = id;
        self.free_count = self.free_count.saturating_add(1);
    }

    /// The number of ids in use, including 0.
    pub fn in_use(&self) -> u32 {
        self.ids.len().saturating_sub(self.free_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_reused_after_its_last_reference() {
        let mut ids = Ids::try_new(3).unwrap();
        assert_eq!((ids.take(), ids.take(), ids.take(), ids.refused), (1, 2, 0, 1));
        ids.get_ref(1);
        assert!(!ids.retire(1) && !ids.exists(1));
        assert_eq!(ids.take(), 0, "a request holds it");
        assert!(ids.put_ref(1));
        ids.release(1);
        assert_eq!((ids.take(), ids.in_use()), (1, 3));
        assert!(!ids.retire(0) && !ids.retire(7));
    }
}
