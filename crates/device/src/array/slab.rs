//! Numbered places that are reused, so that an array in steady state does not allocate.

use std::ops::{Index, IndexMut};

/// Values by number. A freed place keeps its value, and with it the capacity of its lists, for the
/// next user.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { places: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    /// Stores a value; returns its place.
    #[inline]
    pub(super) fn put(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self[place] = value;
                place
            }
            None => self.append(value),
        }
    }

    pub(super) fn give_back(&mut self, place: u32) {
        self.free.push(place);
    }

    fn append(&mut self, value: T) -> u32 {
        self.places.push(value);
        u32::try_from(self.places.len() - 1).expect("fewer places than 2^32")
    }

    /// Places in use.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// All places, used or free.
    pub(super) fn places_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.places)
    }
}

impl<T: Default> Slab<T> {
    /// Takes a place into use; its value is what the last user left there, or the default.
    #[inline]
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.append(T::default()))
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: u32) -> &T {
        &self.places[place as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }
}
