//! The bitmap of an overlay in memory: which blocks the overlay has itself, and which bits its file has already.

use std::io;
use std::ops::Range;

use super::format::{BLOCK_BYTES, BLOCKS_PER_PAGE, Boot, Layout, Page, SLOTS, SlotState, WORDS_PER_PAGE, encode_page};

const NO_BOOT: Boot = [0; 16];
/// No pair of slots is written more often.
const MOST_GENERATIONS: u64 = 1 << 62;
/// The first of the slots that count as long as the machine is not started again.
const FIRST_OPEN_SLOT: u64 = 2;

/// Why a bitmap cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NoMap {
    /// Neither sealed slot of a page has a page.
    #[error("both copies of page {0} of its bitmap are damaged")]
    Damaged(u32),
    /// The file cannot be read.
    #[error("its bitmap cannot be read: {0}")]
    System(#[from] io::Error),
}

/// A slot that held no page, and was left out because another one had what it needed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DamagedSlot {
    /// The page of the bitmap.
    pub page: u32,
    /// The slot, 0 to 3.
    pub slot: u64,
}

/// A write of a slot that is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotWrite {
    /// Position in the file.
    pub position_bytes: u64,
    /// What to write there.
    pub bytes: Box<Page>,
}

/// What is known of a page.
#[derive(Copy, Clone, Debug, Default)]
struct PageState {
    /// Generations of the last writes of its sealed and of its open slots.
    sealed: u64,
    open: u64,
    /// Blocks that are written and wait for their bit, and own ones without a bit in a sealed slot.
    unstored: u32,
    unsealed: u32,
}

/// Which blocks are the overlay's own.
///
/// A block is the overlay's own once a slot says so. Between that and the end of its write no client sees the write, so
/// that none has seen what a killed server would lose.
///
/// Invariants: `sealed` is a part of `own`, and so is what was shown of `written`; each page counts what it lacks.
#[derive(Clone, Debug)]
pub struct Map {
    layout: Layout,
    boot: Boot,
    /// Bits that some slot has that counts as long as the machine runs.
    own: Vec<u64>,
    /// Blocks whose data is in the file but whose bits in the bitmap are not written yet.
    written: Vec<u64>,
    /// Bits that a sealed slot has.
    sealed: Vec<u64>,
    pages: Vec<PageState>,
    unstored_pages: u32,
}

impl Map {
    /// The map of a new overlay: every block is still the base's.
    pub fn new(layout: Layout, boot: Boot) -> Self {
        let words = vec![0; layout.pages as usize * WORDS_PER_PAGE];
        let pages = vec![PageState::default(); layout.pages as usize];
        Self { layout, boot, own: words.clone(), written: words.clone(), sealed: words, pages, unstored_pages: 0 }
    }

    /// Reads the map of an overlay with `read`, which reads a page at a position of its file. Returns it with the
    /// slots that are damaged.
    ///
    /// # Errors
    /// A page without any whole sealed slot; an error of `read`.
    pub fn read(
        layout: Layout,
        boot: Boot,
        mut read: impl FnMut(u64) -> io::Result<Page>,
    ) -> Result<(Self, Vec<DamagedSlot>), NoMap> {
        let (mut map, mut damaged) = (Self::new(layout, boot), Vec::new());
        for page in 0..layout.pages {
            for slot in 0..SLOTS {
                match SlotState::decode(page, &read(layout.slot_bytes(page, slot))?) {
                    SlotState::Empty => {}
                    SlotState::Written(found) if is_of_slot(slot, found.generation, found.boot) => {
                        map.take_in(page, slot, found.generation, found.boot, &found.words);
                    }
                    SlotState::Written(_) | SlotState::Damaged => damaged.push(DamagedSlot { page, slot }),
                }
            }
            if map.pages[page as usize].sealed == 0 {
                return Err(NoMap::Damaged(page));
            }
        }
        Ok((map, damaged))
    }

    /// Takes in a slot of the file.
    fn take_in(&mut self, page: u32, slot: u64, generation: u64, boot: Boot, words: &[u64]) {
        let first = page as usize * WORDS_PER_PAGE;
        let left = self.layout.blocks - (u64::from(page) * BLOCKS_PER_PAGE).min(self.layout.blocks);
        let is_open = slot >= FIRST_OPEN_SLOT;
        let state = &mut self.pages[page as usize];
        let last = if is_open { &mut state.open } else { &mut state.sealed };
        *last = (*last).max(generation);
        if is_open && boot != self.boot {
            return;
        }
        for (at, &word) in words.iter().enumerate().take(WORDS_PER_PAGE) {
            let known = left.saturating_sub(at as u64 * 64);
            let word = if known >= 64 { word } else { word & ((1 << known) - 1) };
            self.own[first + at] |= word;
            if !is_open {
                self.sealed[first + at] |= word;
            }
        }
        let unsealed = (first..first + WORDS_PER_PAGE).map(|at| (self.own[at] & !self.sealed[at]).count_ones()).sum();
        self.pages[page as usize].unsealed = unsealed;
    }

    /// Where everything is in the file.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of blocks with a bit that are the overlay's own.
    pub fn own_blocks(&self) -> u64 {
        self.own.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether a block is the overlay's own; those without a bit are.
    #[inline]
    pub fn is_own(&self, block: u64) -> bool {
        block >= self.layout.blocks || bit(&self.own, block)
    }

    /// Whether the bytes from `from` on are the overlay's own, and where that ends, at most at `end`.
    #[inline]
    pub fn run(&self, from: u64, end: u64) -> (bool, u64) {
        let block = from / BLOCK_BYTES;
        let is_own = self.is_own(block);
        if end <= (block + 1) * BLOCK_BYTES { (is_own, end) } else { (is_own, self.end_of_run(block, is_own, end)) }
    }

    fn end_of_run(&self, first: u64, is_own: bool, end: u64) -> u64 {
        let mut block = first + 1;
        while block * BLOCK_BYTES < end && self.is_own(block) == is_own {
            if block >= self.layout.blocks {
                return end;
            }
            // A word of equal blocks is passed over at once.
            let equal = if is_own { u64::MAX } else { 0 };
            let is_passed = block.is_multiple_of(64) && self.own[index(block)] == equal;
            block += if is_passed { 64.min(self.layout.blocks - block) } else { 1 };
        }
        (block * BLOCK_BYTES).min(end)
    }

    /// The blocks with a bit that a range of bytes touches.
    fn blocks(&self, bytes: &Range<u64>) -> Range<u64> {
        let behind = bytes.end.div_ceil(BLOCK_BYTES).min(self.layout.blocks);
        (bytes.start / BLOCK_BYTES).min(behind)..behind
    }

    /// The data of all blocks that a range of bytes touches is written, so they become the overlay's own with the next
    /// write of their page.
    pub fn take_over(&mut self, bytes: &Range<u64>) {
        for block in self.blocks(bytes) {
            if !bit(&self.own, block) && !bit(&self.written, block) {
                self.written[index(block)] |= mask(block);
                let page = &mut self.pages[page_of(block)];
                self.unstored_pages += u32::from(page.unstored == 0);
                page.unstored += 1;
            }
        }
    }

    /// Whether no block of a range waits for its bit.
    #[inline]
    pub fn is_stored(&self, bytes: &Range<u64>) -> bool {
        self.unstored_pages == 0 || self.blocks(bytes).all(|block| !bit(&self.written, block))
    }

    /// Whether the file says durably of all own blocks of a range that they are.
    pub fn is_sealed(&self, bytes: &Range<u64>) -> bool {
        self.blocks(bytes).all(|block| !bit(&self.own, block) || bit(&self.sealed, block))
    }

    /// The blocks of a range that wait for their bits are the overlay's own at once.
    pub(super) fn show(&mut self, bytes: &Range<u64>) {
        for block in self.blocks(bytes) {
            if bit(&self.written, block) && !bit(&self.own, block) {
                self.own[index(block)] |= mask(block);
                self.pages[page_of(block)].unsealed += 1;
            }
        }
    }

    /// The blocks that wait for their bits stay those of the base, but for those that were shown: they wait on.
    pub(super) fn give_up(&mut self) {
        self.unstored_pages = 0;
        for page in 0..self.layout.pages {
            let mut left = 0;
            for at in of_page(page) {
                self.written[at] &= self.own[at];
                left += self.written[at].count_ones();
            }
            self.pages[page as usize].unstored = left;
            self.unstored_pages += u32::from(left > 0);
        }
    }

    // ---- writing ----

    /// The first page from this one on, in a circle, with blocks that wait for their bits.
    pub(super) fn next_unstored(&self, from: u32) -> Option<u32> {
        let pages = self.layout.pages;
        let next = |step| (from + step) % pages.max(1);
        let is_unstored = |page: &u32| self.pages[*page as usize].unstored > 0;
        if self.unstored_pages == 0 { None } else { (0..pages).map(next).find(is_unstored) }
    }

    /// The pages with bits that are in no sealed slot.
    pub(super) fn unsealed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.layout.pages).filter(|page| self.pages[*page as usize].unsealed > 0)
    }

    /// The bits of a page now.
    pub(super) fn words(&self, page: u32) -> Vec<u64> {
        self.own[of_page(page)].to_vec()
    }

    /// The bits of a page, with those of the blocks that wait for them.
    pub(super) fn words_to_store(&self, page: u32) -> Vec<u64> {
        let (own, written) = (&self.own[of_page(page)], &self.written[of_page(page)]);
        own.iter().zip(written).map(|(own, written)| own | written).collect()
    }

    /// The next write of an open slot with these bits of a page. It is the same one until it has succeeded: the other
    /// slot of the pair may be the only whole one.
    pub(super) fn open_slot(&self, page: u32, words: &[u64]) -> SlotWrite {
        let generation = self.pages[page as usize].open + 1;
        self.slot_write(page, FIRST_OPEN_SLOT + generation % 2, generation, self.boot, words)
    }

    /// The next write of a page's sealed slot. The data of the blocks in `words` must be durable. Until the write has
    /// succeeded, each call gives the same slot, so that the other one of the pair stays whole.
    pub fn sealed_slot(&self, page: u32, words: &[u64]) -> SlotWrite {
        let generation = self.pages[page as usize].sealed + 1;
        self.slot_write(page, generation % 2, generation, NO_BOOT, words)
    }

    fn slot_write(&self, page: u32, slot: u64, generation: u64, boot: Boot, words: &[u64]) -> SlotWrite {
        let bytes = Box::new(encode_page(page, generation, boot, words));
        SlotWrite { position_bytes: self.layout.slot_bytes(page, slot), bytes }
    }

    /// An open or a sealed slot with these bits was written.
    pub(super) fn stored(&mut self, page: u32, words: &[u64], is_sealed: bool) {
        let (mut unstored, mut unsealed) = (0, 0);
        for (at, word) in of_page(page).zip(words) {
            self.own[at] |= self.written[at] & word;
            self.written[at] &= !word;
            unstored += self.written[at].count_ones();
            unsealed += (self.own[at] & !self.sealed[at]).count_ones();
        }
        let state = &mut self.pages[page as usize];
        self.unstored_pages -= u32::from(state.unstored > 0 && unstored == 0);
        (state.unstored, state.unsealed) = (unstored, unsealed);
        state.sealed += u64::from(is_sealed);
        state.open += u64::from(!is_sealed);
    }

    /// A sealed slot with these bits is durable.
    pub(super) fn sealed(&mut self, page: u32, words: &[u64]) {
        let mut left = 0;
        for (at, word) in of_page(page).zip(words) {
            self.sealed[at] |= word;
            left += (self.own[at] & !self.sealed[at]).count_ones();
        }
        self.pages[page as usize].unsealed = left;
    }

    /// The writes that seal everything; their data must be durable.
    pub(crate) fn seal_all(&self) -> Vec<SlotWrite> {
        self.unsealed().map(|page| self.sealed_slot(page, &self.words(page))).collect()
    }
}

/// Whether a page may be in this slot: the pairs are written in turns, and only open slots name a boot.
fn is_of_slot(slot: u64, generation: u64, boot: Boot) -> bool {
    let is_open = slot >= FIRST_OPEN_SLOT;
    generation % 2 == slot % 2 && (1..MOST_GENERATIONS).contains(&generation) && is_open == (boot != NO_BOOT)
}

fn index(block: u64) -> usize {
    usize::try_from(block / 64).unwrap_or(usize::MAX)
}

const fn mask(block: u64) -> u64 {
    1 << (block % 64)
}

#[inline]
fn bit(words: &[u64], block: u64) -> bool {
    words[index(block)] & mask(block) != 0
}

/// The words of a page.
fn of_page(page: u32) -> Range<usize> {
    let first = page as usize * WORDS_PER_PAGE;
    first..first + WORDS_PER_PAGE
}

fn page_of(block: u64) -> usize {
    usize::try_from(block / BLOCKS_PER_PAGE).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod cases;
