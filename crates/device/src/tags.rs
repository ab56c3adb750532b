//! Tags of a wrapper for the commands that it passes to a wrapped device, so that a completion
//! finds its command without a search.

/// The commands in a wrapped device, each with the wrapper's entry for it.
#[derive(Clone, Debug)]
pub(crate) struct Tags<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T: Copy> Tags<T> {
    /// No tags in use; up to `capacity` tags need no further allocation.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), free: Vec::with_capacity(capacity) }
    }

    /// Number of tags in use.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// A tag for a command; the one returned last, so that few different tags are used.
    #[inline]
    pub(crate) fn take(&mut self, entry: T) -> u32 {
        if let Some(tag) = self.free.pop() {
            self.entries[tag as usize] = Some(entry);
            return tag;
        }
        self.entries.push(Some(entry));
        u32::try_from(self.entries.len() - 1).expect("a device holds fewer than 2^32 commands")
    }

    /// The entry of a tag.
    #[inline]
    pub(crate) fn get_mut(&mut self, tag: u32) -> Option<&mut T> {
        self.entries.get_mut(tag as usize)?.as_mut()
    }

    /// Returns a tag and its entry; `None` if it was not in use.
    #[inline]
    pub(crate) fn give_back(&mut self, tag: u32) -> Option<T> {
        let entry = self.entries.get_mut(tag as usize)?.take()?;
        self.free.push(tag);
        Some(entry)
    }

    /// Returns all tags, in order of their numbers.
    pub(crate) fn give_back_all(&mut self, mut each: impl FnMut(T)) {
        self.entries.drain(..).flatten().for_each(&mut each);
        self.free.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_command_until_it_is_given_back() {
        let mut tags = Tags::with_capacity(2);
        let (a, b) = (tags.take('a'), tags.take('b'));
        assert_eq!((tags.len(), tags.give_back(a), tags.give_back(a)), (2, Some('a'), None));
        let c = tags.take('c');
        assert_eq!((c, tags.len()), (a, 2));
        let mut rest = Vec::new();
        tags.give_back_all(|entry| rest.push(entry));
        assert_eq!((rest, tags.len(), tags.give_back(b)), (vec!['c', 'b'], 0, None));
    }
}
