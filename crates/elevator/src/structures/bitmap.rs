//! A fixed-size set of small numbers: finds members by counting zeros, in nearly constant time.
//!
//! Two summary levels tell which words below are not zero. A search reads one word per level up to
//! 262,144 bits, and at most four words of the top level at 2^20.

use super::{Array, NoMemory};

/// Level 0 holds the bits; a bit of level n + 1 tells that a word of level n is not zero.
const LEVELS: usize = 3;
const WORD_BITS: u32 = u64::BITS;

/// A set of numbers below a bound fixed at construction.
#[derive(Debug)]
pub struct Bitmap {
    levels: [Array<u64>; LEVELS],
    bits: u32,
    count: u32,
}

impl Bitmap {
    /// An empty set of numbers below `bits`.
    ///
    /// # Errors
    /// [`NoMemory`] when the allocator refuses.
    pub fn try_new(bits: u32) -> Result<Self, NoMemory> {
        let words = bits.div_ceil(WORD_BITS);
        let summary = words.div_ceil(WORD_BITS);
        let levels =
            [Array::try_new(words, 0)?, Array::try_new(summary, 0)?, Array::try_new(summary.div_ceil(WORD_BITS), 0)?];
        Ok(Self { levels, bits, count: 0 })
    }

    /// The bound: members are below it.
    #[inline]
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// The number of members.
    #[inline]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The number of members, counted bit by bit.
    pub fn members(&self) -> u32 {
        let [words, ..] = &self.levels;
        words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether `bit` is a member.
    #[inline]
    pub fn test(&self, bit: u32) -> bool {
        let [words, ..] = &self.levels;
        words.at(bit / WORD_BITS) >> (bit % WORD_BITS) & 1 != 0
    }

    /// Adds `bit`. False, without effect, if it is a member already or not below the bound.
    #[inline]
    pub fn set(&mut self, bit: u32) -> bool {
        if bit >= self.bits || self.test(bit) {
            return false;
        }
        let mut index = bit;
        for level in &mut self.levels {
            let word = level.at_mut(index / WORD_BITS);
            let was_empty = *word == 0;
            *word |= 1 << (index % WORD_BITS);
            if !was_empty {
                break;
            }
            index /= WORD_BITS;
        }
        self.count = self.count.wrapping_add(1);
        true
    }

    /// Removes `bit`. False, without effect, if it is not a member.
    #[inline]
    pub fn clear(&mut self, bit: u32) -> bool {
        if !self.test(bit) {
            return false;
        }
        let mut index = bit;
        for level in &mut self.levels {
            let word = level.at_mut(index / WORD_BITS);
            *word &= !(1 << (index % WORD_BITS));
            if *word != 0 {
                break;
            }
            index /= WORD_BITS;
        }
        self.count = self.count.wrapping_sub(1);
        true
    }

    /// The smallest member.
    #[inline]
    pub fn first_set(&self) -> Option<u32> {
        let [words, summary, top] = &self.levels;
        let top_index = first_word(top, 0)?;
        let summary_index = lowest(*top.at(top_index), top_index)?;
        let word_index = lowest(*summary.at(summary_index), summary_index)?;
        lowest(*words.at(word_index), word_index)
    }

    /// The smallest member that is not below `from`.
    #[inline]
    pub fn next_set_from(&self, from: u32) -> Option<u32> {
        let [words, summary, top] = &self.levels;
        if let Some(bit) = lowest_from(words, from) {
            return Some(bit);
        }
        // The rest of from's own word is empty: continue with the next word, one level up.
        let word = from / WORD_BITS + 1;
        if let Some(word) = lowest_from(summary, word) {
            return lowest(*words.at(word), word);
        }
        let summary_word = word / WORD_BITS + 1;
        let summary_word = match lowest_from(top, summary_word) {
            Some(summary_word) => summary_word,
            None => {
                let top_index = first_word(top, summary_word / WORD_BITS + 1)?;
                lowest(*top.at(top_index), top_index)?
            }
        };
        let word = lowest(*summary.at(summary_word), summary_word)?;
        lowest(*words.at(word), word)
    }
}

/// The first non-zero word from `start` on; reads one word per 262,144 bits of the set.
#[inline]
fn first_word(top: &Array<u64>, start: u32) -> Option<u32> {
    (start..top.len()).find(|&index| *top.at(index) != 0)
}

/// The number of the lowest bit in the word at `index`.
#[inline]
fn lowest(word: u64, index: u32) -> Option<u32> {
    (word != 0).then(|| index * WORD_BITS + word.trailing_zeros())
}

/// The lowest bit not below `from` inside the word that contains `from`.
#[inline]
fn lowest_from(level: &Array<u64>, from: u32) -> Option<u32> {
    let index = from / WORD_BITS;
    lowest(level.at(index) & (u64::MAX << (from % WORD_BITS)), index)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Sizes at and around the boundaries of the levels; the largest has four words at the top.
    const SIZES: [u32; 10] = [0, 1, 63, 64, 65, 4095, 4096, 4097, 262_145, 1 << 20];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

        /// 100 cases of 1,000 operations; few distinct numbers, so that members recur and words
        /// become empty.
        #[test]
        fn a_bitmap_behaves_as_an_ordered_set(
            bits in prop::sample::select(&SIZES[..]),
            numbers in prop::collection::vec(any::<u32>(), 30),
            operations in prop::collection::vec((any::<bool>(), 0usize..30), 1000),
        ) {
            let mut bitmap = Bitmap::try_new(bits).unwrap();
            let mut model = BTreeSet::new();
            for (is_set, which) in operations {
                let bit = numbers[which] % (bits + 2);
                if is_set {
                    let expected = bit < bits && model.insert(bit);
                    prop_assert_eq!(bitmap.set(bit), expected);
                } else {
                    prop_assert_eq!(bitmap.clear(bit), model.remove(&bit));
                }
                prop_assert_eq!(bitmap.test(bit), model.contains(&bit));
                prop_assert_eq!(bitmap.count() as usize, model.len());
                prop_assert_eq!(bitmap.first_set(), model.first().copied());
                for from in [bit, bit.wrapping_add(1), bit ^ 64, bit / 2, u32::MAX] {
                    prop_assert_eq!(bitmap.next_set_from(from), model.range(from..).next().copied());
                }
            }
        }
    }

    #[test]
    fn the_lone_last_bit_is_found_from_everywhere() {
        for bits in SIZES.into_iter().skip(1) {
            let mut bitmap = Bitmap::try_new(bits).unwrap();
            assert!(bitmap.set(bits - 1) && !bitmap.set(bits));
            assert_eq!(bitmap.first_set(), Some(bits - 1));
            assert!((0..bits).step_by(61).all(|from| bitmap.next_set_from(from) == Some(bits - 1)));
            assert_eq!(bitmap.next_set_from(bits), None);
        }
    }
}
