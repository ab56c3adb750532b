//! When the bitmap of an overlay is written, and which requests wait for that write.
//!
//! ```text
//! write of a new block ─► its data ─► an open slot of its page ─► the block is seen, the write answered
//! flush ─► fsync of the data ─► sealed slots of the pages ─► fsync ─► answered
//! ```
//! One slot is written at a time. Writes that end meanwhile wait together for the next one.

use std::ops::Range;

use super::map::{Map, SlotWrite};

/// The bits of a page as they were at a certain time.
type PageBits = (u32, Vec<u64>);

/// A part of a request: its data is written, and its answer waits until the bitmap is.
#[derive(Clone, Debug)]
struct Waiting {
    part: u32,
    bytes: Range<u64>,
}

/// How far a flush has come.
#[derive(Debug, Default)]
enum Flush {
    #[default]
    None,
    /// The data is being made durable; these bits may be sealed then.
    Data(Vec<PageBits>),
    /// Sealed slots are being written: these are to be, and these are.
    Slots(Vec<PageBits>, Vec<PageBits>),
    /// The slots that were written are being made durable.
    Sealing(Vec<PageBits>),
}

/// What follows the end of a write of a slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterWrite {
    /// These parts end well.
    Ended(Vec<u32>),
    /// These parts fail: nothing says that their blocks are the overlay's own.
    Failed(Vec<u32>),
    /// The flush goes on with another fsync, and these parts end well.
    MustSync(Vec<u32>),
    /// The flush has failed.
    FlushFailed,
}

/// The bitmap of an overlay, and what waits for it.
#[derive(Debug)]
pub(crate) struct Saving {
    pub map: Map,
    /// The slot that is being written, and whether it is a sealed one.
    writing: Option<(PageBits, bool)>,
    waiting: Vec<Waiting>,
    flush: Flush,
    /// The page behind the one that was last written.
    next_page: u32,
}

impl Saving {
    pub fn new(map: Map) -> Self {
        Self { map, writing: None, waiting: Vec::new(), flush: Flush::None, next_page: 0 }
    }

    /// Whether a slot is being written or is to be.
    pub fn is_busy(&self) -> bool {
        self.writing.is_some() || !self.waiting.is_empty()
    }

    /// The data of a part is written. Whether it must wait until the bitmap says that its blocks are the overlay's own.
    pub fn wrote(&mut self, part: u32, bytes: Range<u64>) -> bool {
        self.map.take_over(&bytes);
        if self.map.is_stored(&bytes) {
            return false;
        }
        self.waiting.push(Waiting { part, bytes });
        true
    }

    /// The client of a part is gone: its write takes effect now, or not later.
    pub fn abandoned(&mut self, part: u32) {
        for waiting in self.waiting.iter().filter(|waiting| waiting.part == part) {
            self.map.show(&waiting.bytes);
        }
    }

    /// An fsync of the data begins.
    pub fn flush_begins(&mut self) {
        let bits = |page| (page, self.map.words(page));
        self.flush = Flush::Data(self.map.unsealed().map(bits).collect());
    }

    /// An fsync has ended. True if the flush is not at its end: slots are to be written.
    pub fn synced(&mut self, is_ok: bool) -> bool {
        match std::mem::take(&mut self.flush) {
            Flush::Data(pages) if is_ok && !pages.is_empty() => {
                self.flush = Flush::Slots(pages, Vec::new());
                true
            }
            Flush::Sealing(pages) if is_ok => {
                pages.iter().for_each(|(page, words)| self.map.sealed(*page, words));
                false
            }
            _ => false,
        }
    }

    /// The next write of a slot, if one is to be done and none is being done: those of a flush first, because they
    /// serve those who wait for their pages as well.
    pub fn next_write(&mut self) -> Option<SlotWrite> {
        if self.writing.is_some() {
            return None;
        }
        if let Flush::Slots(left, _) = &mut self.flush
            && let Some((page, words)) = left.pop()
        {
            let write = self.map.sealed_slot(page, &words);
            self.writing = Some(((page, words), true));
            return Some(write);
        }
        if self.waiting.is_empty() {
            return None;
        }
        let page = self.map.next_unstored(self.next_page)?;
        self.next_page = page + 1;
        let words = self.map.words_to_store(page);
        let write = self.map.open_slot(page, &words);
        self.writing = Some(((page, words), false));
        Some(write)
    }

    /// The write of a slot has ended.
    pub fn written(&mut self, is_ok: bool) -> AfterWrite {
        let Some(((page, words), is_sealed)) = self.writing.take() else { return AfterWrite::Ended(Vec::new()) };
        if !is_ok {
            if is_sealed {
                self.flush = Flush::None;
                return AfterWrite::FlushFailed;
            }
            self.map.give_up();
            return AfterWrite::Failed(std::mem::take(&mut self.waiting).into_iter().map(|it| it.part).collect());
        }
        self.map.stored(page, &words, is_sealed);
        let mut must_sync = false;
        if is_sealed && let Flush::Slots(left, done) = &mut self.flush {
            done.push((page, words));
            if left.is_empty() {
                self.flush = Flush::Sealing(std::mem::take(done));
                must_sync = true;
            }
        }
        let map = &self.map;
        let ended = self.waiting.extract_if(.., |it| map.is_stored(&it.bytes)).map(|it| it.part).collect();
        if must_sync { AfterWrite::MustSync(ended) } else { AfterWrite::Ended(ended) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::format::{BLOCK_BYTES, Layout};

    fn saving() -> Saving {
        Saving::new(Map::new(Layout::of(1 << 30), [1; 16]))
    }

    fn block(number: u64) -> Range<u64> {
        number * BLOCK_BYTES..(number + 1) * BLOCK_BYTES
    }

    fn wrote(saving: &mut Saving, part: u32, number: u64) -> bool {
        saving.wrote(part, block(number))
    }

    #[test]
    fn writes_that_end_during_a_write_of_the_bitmap_share_the_next_one() {
        let mut saving = saving();
        assert!(wrote(&mut saving, 0, 5));
        assert!(saving.next_write().is_some());
        assert!(wrote(&mut saving, 1, 6) && wrote(&mut saving, 2, 7));
        assert!(wrote(&mut saving, 3, 5), "the bit of block 5 is not in the file yet");
        assert_eq!(saving.next_write(), None);
        assert_eq!(saving.written(true), AfterWrite::Ended(vec![0, 3]));
        assert!(saving.next_write().is_some());
        assert_eq!(saving.written(true), AfterWrite::Ended(vec![1, 2]));
        assert!(!wrote(&mut saving, 4, 6), "it is in the file");
        assert_eq!(saving.next_write(), None);
    }

    #[test]
    fn a_flush_seals_what_was_answered_before_it_and_nothing_later() {
        let mut saving = saving();
        assert!(wrote(&mut saving, 0, 1) && saving.next_write().is_some());
        assert!(!saving.map.is_own(1), "no client sees what a killed server would lose");
        assert_eq!(saving.written(true), AfterWrite::Ended(vec![0]));
        assert!(saving.map.is_own(1));
        saving.flush_begins();
        assert!(wrote(&mut saving, 1, 2));
        assert!(saving.synced(true));
        assert!(saving.next_write().is_some());
        assert_eq!(saving.written(true), AfterWrite::MustSync(vec![]));
        assert!(!saving.map.is_sealed(&block(1)), "the slot is not durable yet");
        assert!(!saving.synced(true));
        assert!(saving.map.is_sealed(&block(1)) && !saving.map.is_own(2));
        assert!(saving.next_write().is_some());
        assert_eq!(saving.written(true), AfterWrite::Ended(vec![1]));
        assert!(!saving.map.is_sealed(&block(2)));
        saving.flush_begins();
        assert!(saving.synced(true));
        assert!(saving.next_write().is_some());
        assert_eq!(saving.written(true), AfterWrite::MustSync(vec![]));
        assert!(!saving.synced(true) && saving.map.is_sealed(&block(2)));
        saving.flush_begins();
        assert!(!saving.synced(true), "there is nothing to seal");
    }

    #[test]
    fn what_fails_with_its_bit_stays_the_block_of_the_base() {
        let mut saving = saving();
        assert!(wrote(&mut saving, 0, 1) && saving.next_write().is_some());
        assert_eq!(saving.written(false), AfterWrite::Failed(vec![0]));
        assert!(saving.next_write().is_none() && !saving.map.is_own(1) && !saving.is_busy());
        assert!(wrote(&mut saving, 1, 1) && saving.next_write().is_some());
        assert_eq!(saving.written(true), AfterWrite::Ended(vec![1]));
        saving.flush_begins();
        assert!(saving.synced(true) && saving.next_write().is_some());
        assert_eq!(saving.written(false), AfterWrite::FlushFailed);
        assert!(!saving.map.is_sealed(&block(1)) && !saving.is_busy());
    }

    #[test]
    fn the_write_of_a_client_that_is_gone_is_seen_at_once_and_later_ones_wait_for_its_bit() {
        let mut saving = saving();
        assert!(wrote(&mut saving, 0, 1) && saving.next_write().is_some());
        saving.abandoned(0);
        assert!(saving.map.is_own(1) && !saving.map.is_stored(&block(1)));
        assert_eq!(saving.written(false), AfterWrite::Failed(vec![0]));
        assert!(saving.map.is_own(1), "others have seen it");
        assert!(wrote(&mut saving, 1, 1), "its bit is in no slot yet");
        assert!(saving.next_write().is_some());
        assert_eq!(saving.written(true), AfterWrite::Ended(vec![1]));
        assert!(!wrote(&mut saving, 2, 1));
    }
}
