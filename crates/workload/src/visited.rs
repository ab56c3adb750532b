//! Blocks that a pass of random I/Os has visited: fio's map, for I/Os of different sizes.
//!
//! An I/O takes its first block and the free ones after it, and is trimmed to them. Every block is
//! therefore visited once per pass, and longer sizes become shorter towards its end. The map has
//! one bit per block, and on each further level one bit per 64 of the level below.

const WORD: u64 = 64;

/// The blocks of one pass.
#[derive(Clone, Debug)]
pub struct Visited {
    /// Bits of blocks first; a bit of a higher level is set if its whole word below is.
    levels: Vec<Vec<u64>>,
    blocks: u64,
}

impl Visited {
    /// Maximum number of blocks; more would need over 32 MiB, and such jobs have no map.
    pub const MOST_BLOCKS: u64 = 1 << 28;

    /// A map of `blocks` free blocks: at least one, and at most [`Visited::MOST_BLOCKS`].
    pub fn new(blocks: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = blocks;
        loop {
            let words = bits.div_ceil(WORD);
            levels.push(vec![0; usize::try_from(words).unwrap_or(usize::MAX)]);
            if words == 1 {
                let mut visited = Self { levels, blocks };
                visited.clear();
                return visited;
            }
            bits = words;
        }
    }

    /// Marks all blocks as free.
    pub fn clear(&mut self) {
        let mut bits = self.blocks;
        for level in &mut self.levels {
            level.fill(0);
            // Bits beyond the last block are never free.
            if let (Some(last), rest @ 1..) = (level.last_mut(), bits % WORD) {
                *last = u64::MAX << rest;
            }
            bits = bits.div_ceil(WORD);
        }
    }

    /// The first free block from `block` on, or else from 0 on; `None` if the pass has ended.
    pub fn next_free(&self, block: u64) -> Option<u64> {
        self.free_from(block).or_else(|| self.free_from(0))
    }

    fn free_from(&self, block: u64) -> Option<u64> {
        let (mut at, mut level) = (block, 0);
        loop {
            let word = *self.levels.get(level)?.get(index(at / WORD))?;
            let free = !word & (u64::MAX << (at % WORD));
            if free != 0 {
                at = at / WORD * WORD + u64::from(free.trailing_zeros());
                break;
            }
            // The position after this word, in units of the level above.
            (at, level) = (at / WORD + 1, level + 1);
        }
        while level > 0 {
            level -= 1;
            let word = self.levels[level][index(at)];
            at = at * WORD + u64::from((!word).trailing_zeros());
        }
        Some(at)
    }

    /// Marks a free block and the free ones after it as visited, at most `wanted`; returns their
    /// number.
    pub fn take(&mut self, block: u64, wanted: u64) -> u64 {
        let end = block.saturating_add(wanted).min(self.blocks);
        let taken =
            (block..end).take_while(|at| self.levels[0][index(at / WORD)] >> (at % WORD) & 1 == 0).count() as u64;
        (block..block + taken).for_each(|at| self.visit(at));
        taken
    }

    fn visit(&mut self, mut at: u64) {
        for level in &mut self.levels {
            let word = &mut level[index(at / WORD)];
            *word |= 1 << (at % WORD);
            if *word != u64::MAX {
                return;
            }
            at /= WORD;
        }
    }
}

fn index(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_visited_once_for_any_request_size() {
        for blocks in [1, 63, 64, 65, 4_096, 4_097, 300_000] {
            let mut visited = Visited::new(blocks);
            for _ in 0..2 {
                let (mut seen, mut at) = (0, 12_345);
                while let Some(block) = visited.next_free(at % blocks) {
                    assert!(block < blocks);
                    let taken = visited.take(block, 1 + at % 16);
                    assert!(taken >= 1, "{block} of {blocks} was not free");
                    seen += taken;
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 1;
                }
                assert_eq!(seen, blocks);
                visited.clear();
            }
        }
    }

    #[test]
    fn what_is_wanted_ends_at_the_next_visited_block_and_at_the_end() {
        let mut visited = Visited::new(100);
        assert_eq!(visited.take(70, 1), 1);
        assert_eq!(visited.take(60, 64), 10);
        assert_eq!(visited.take(90, 64), 10);
        assert_eq!((visited.next_free(60), visited.next_free(95)), (Some(71), Some(0)));
    }
}
