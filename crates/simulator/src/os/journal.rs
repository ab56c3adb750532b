//! An ordered journal: the metadata blocks of a transaction, and where its blocks are written.
//!
//! ```text
//! running --commit--> data written -> descriptors and blocks written -> commit block (flush + FUA) -> committed
//!                      (frozen: calls that need one of its blocks wait)                                \-> checkpoint
//! ```
//! * Guarantee: one commit at a time; changes meanwhile join the next transaction; a block counts
//!   once per transaction.
//! * Space: the journal is written sequentially and wraps. When less than a quarter is free, the
//!   oldest transactions are checkpointed (written in place), which frees their space.
//! * Source: docs/specifications/devices.md, section 8.5 (Linux fs/jbd). Metadata blocks are in a
//!   region of 128 MiB at the beginning of the files; their order in it matters to no policy.

use std::collections::VecDeque;
use std::ops::Range;

use hoistway_block::Nanos;
use hoistway_block::time::SECOND;
use hoistway_workload::Call;

use super::pages::PAGE_BYTES;
use crate::events::NEVER;

/// A block of the journal is a page.
pub(crate) const BLOCK_BYTES: u64 = PAGE_BYTES;
/// The age at which a transaction is committed.
const COMMIT_INTERVAL_NS: Nanos = 5 * SECOND;
/// Metadata blocks that one descriptor block names.
const BLOCKS_PER_DESCRIPTOR: u64 = 250;
/// Metadata blocks of the whole file system.
const METADATA_BLOCKS: u64 = 32_768;

/// A range of pages of a file.
pub(crate) type FileRange = (u32, Range<u64>);

/// The block is frozen by a commit: retry when the blocks of the commit are written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frozen;

#[derive(Clone, Debug, Default)]
struct Transaction {
    number: u64,
    /// Sorted, without duplicates.
    blocks: Vec<u64>,
    data: Vec<FileRange>,
}

impl Transaction {
    fn touches(&self, file: u32, pages: &Range<u64>) -> bool {
        self.data.iter().any(|(of, range)| *of == file && range.start < pages.end && pages.start < range.end)
    }
}

/// The journal of a file system.
#[derive(Debug)]
pub(crate) struct Journal {
    first_byte: u64,
    metadata_byte: u64,
    blocks: u64,
    /// Next block to write.
    head: u64,
    used: u64,
    running: Transaction,
    committing: Option<Transaction>,
    /// Whether the blocks of the committing transaction are still being written.
    is_frozen: bool,
    committed: u64,
    wanted: u64,
    due_ns: Nanos,
    /// Committed transactions that are not checkpointed: their metadata blocks and their number of
    /// journal blocks.
    in_journal: VecDeque<(Vec<u64>, u64)>,
}

impl Journal {
    /// An empty journal of `bytes` at `first_byte`; metadata in place from `metadata_byte` on.
    pub(crate) fn new(first_byte: u64, bytes: u64, metadata_byte: u64) -> Self {
        Self {
            first_byte,
            metadata_byte,
            blocks: (bytes / BLOCK_BYTES).max(16),
            head: 0,
            used: 0,
            running: Transaction { number: 1, ..Transaction::default() },
            committing: None,
            is_frozen: false,
            committed: 0,
            wanted: 0,
            due_ns: NEVER,
            in_journal: VecDeque::new(),
        }
    }

    /// A call changes metadata of the file at `offset` of an area; `data` pages must be on the
    /// device before the commit.
    ///
    /// # Errors
    /// [`Frozen`]: nothing has changed, and the caller waits.
    pub(crate) fn join(&mut self, call: Call, offset: u64, data: FileRange, now: Nanos) -> Result<(), Frozen> {
        let blocks = blocks_of(call, data.0, offset);
        let is_held = |block: &u64| {
            self.is_frozen && self.committing.as_ref().is_some_and(|held| held.blocks.binary_search(block).is_ok())
        };
        if blocks.clone().any(|block| is_held(&block)) {
            return Err(Frozen);
        }
        for block in blocks {
            if let Err(place) = self.running.blocks.binary_search(&block) {
                self.running.blocks.insert(place, block);
            }
        }
        match self.running.data.last_mut() {
            Some((file, range)) if *file == data.0 && range.end >= data.1.start && range.start <= data.1.start => {
                range.end = range.end.max(data.1.end);
            }
            _ => self.running.data.push(data),
        }
        self.due_ns = self.due_ns.min(now + COMMIT_INTERVAL_NS);
        Ok(())
    }

    /// Requests the commit of the newest uncommitted transaction that changed the file, and returns
    /// its number.
    pub(crate) fn ask_for(&mut self, file: u32, pages: &Range<u64>) -> Option<u64> {
        let committing = self.committing.as_ref().filter(|transaction| transaction.touches(file, pages));
        let number = if self.running.touches(file, pages) { self.running.number } else { committing?.number };
        self.wanted = self.wanted.max(number);
        Some(number)
    }

    /// Whether a transaction has been committed.
    pub(crate) fn is_committed(&self, number: u64) -> bool {
        number <= self.committed
    }

    /// When a commit is due by age; [`NEVER`] without changes.
    pub(crate) fn due_ns(&self) -> Nanos {
        self.due_ns
    }

    /// Freezes the running transaction if a commit is due and none is in progress.
    pub(crate) fn begin_commit(&mut self, now: Nanos) -> bool {
        let is_wanted = self.wanted >= self.running.number || now >= self.due_ns;
        if self.committing.is_some() || self.running.blocks.is_empty() || !is_wanted {
            return false;
        }
        let number = self.running.number + 1;
        let frozen = std::mem::replace(&mut self.running, Transaction { number, ..Transaction::default() });
        self.committing = Some(frozen);
        (self.is_frozen, self.due_ns) = (true, NEVER);
        true
    }

    /// The file data that must be on the device before the blocks are written.
    pub(crate) fn data(&self) -> &[FileRange] {
        self.committing.as_ref().map_or(&[], |transaction| &transaction.data)
    }

    /// Where descriptors and blocks of the commit are written, as (first byte, bytes).
    pub(crate) fn block_writes(&mut self) -> Vec<(u64, u64)> {
        let metadata = self.committing.as_ref().map_or(0, |transaction| transaction.blocks.len() as u64);
        let count = metadata + metadata.div_ceil(BLOCKS_PER_DESCRIPTOR);
        self.take_space(count)
    }

    /// The blocks are written and may change again. Returns where the commit block is written.
    pub(crate) fn blocks_written(&mut self) -> (u64, u64) {
        self.is_frozen = false;
        self.take_space(1)[0]
    }

    /// The commit block has been written.
    pub(crate) fn commit_written(&mut self) {
        if let Some(transaction) = self.committing.take() {
            self.committed = transaction.number;
            let metadata = transaction.blocks.len() as u64;
            let space = metadata + metadata.div_ceil(BLOCKS_PER_DESCRIPTOR) + 1;
            self.in_journal.push_back((transaction.blocks, space));
        }
    }

    /// The metadata of the oldest transaction to checkpoint, if space is short: the first bytes of
    /// its blocks, and the space to pass to [`Journal::checkpointed`] afterwards.
    pub(crate) fn checkpoint(&mut self) -> Option<(Vec<u64>, u64)> {
        if (self.blocks - self.used.min(self.blocks)) * 4 >= self.blocks {
            return None;
        }
        let (blocks, space) = self.in_journal.pop_front()?;
        let place = |block: &u64| self.metadata_byte + block % METADATA_BLOCKS * BLOCK_BYTES;
        Some((blocks.iter().map(place).collect(), space))
    }

    /// A checkpoint's blocks have been written.
    pub(crate) fn checkpointed(&mut self, space: u64) {
        self.used = self.used.saturating_sub(space);
    }

    /// The next blocks of the journal, in one piece or, if it wraps, in two.
    fn take_space(&mut self, count: u64) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        let mut left = count;
        while left > 0 {
            let here = left.min(self.blocks - self.head);
            pieces.push((self.first_byte + self.head * BLOCK_BYTES, here * BLOCK_BYTES));
            self.head = (self.head + here) % self.blocks;
            left -= here;
        }
        self.used += count;
        pieces
    }
}

/// The metadata blocks that a call changes: the inode's own and shared ones. Sixteen inodes share a
/// block, for adjacent files of 512 KiB.
fn blocks_of(call: Call, file: u32, offset: u64) -> impl Iterator<Item = u64> + Clone {
    let area = u64::from(file) * 1_031;
    let inode = 64 + area + (offset >> 23);
    let count = match call {
        Call::Create | Call::Unlink => 4,
        Call::Rename => 6,
        Call::Append => 3,
        Call::Data => 0,
    };
    // Bitmaps and group descriptor; directory; the other blocks of a rename.
    let shared = [0, 1, 2, 3, 4].map(|kind| area + kind);
    std::iter::once(inode).chain(shared).take(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(blocks: u64) -> Journal {
        Journal::new(1 << 30, blocks * BLOCK_BYTES, 0)
    }

    fn commit(journal: &mut Journal) -> Vec<(u64, u64)> {
        assert!(journal.begin_commit(NEVER - 1));
        let mut writes = journal.block_writes();
        writes.push(journal.blocks_written());
        journal.commit_written();
        writes
    }

    #[test]
    fn blocks_count_once_per_transaction() {
        let mut journal = journal(1_000);
        journal.join(Call::Create, 0, (0, 0..0), 0).unwrap();
        journal.join(Call::Append, 0, (0, 0..1), 0).unwrap();
        journal.join(Call::Append, 4_096, (0, 1..2), 0).unwrap();
        assert_eq!(journal.running.blocks.len(), 4);
        journal.join(Call::Rename, 9 << 20, (0, 0..0), 0).unwrap();
        assert_eq!(journal.running.blocks.len(), 4 + 3);
        // A descriptor and seven blocks in one piece, followed by the commit block.
        let first = 1 << 30;
        assert_eq!(commit(&mut journal), [(first, 8 * BLOCK_BYTES), (first + 8 * BLOCK_BYTES, BLOCK_BYTES)]);
    }

    #[test]
    fn a_user_of_a_frozen_block_waits_until_it_is_written() {
        let mut journal = journal(1_000);
        journal.join(Call::Append, 0, (0, 0..1), 0).unwrap();
        assert_eq!(journal.ask_for(0, &(0..1)), Some(1));
        assert_eq!(journal.ask_for(0, &(5..9)), None);
        assert!(journal.begin_commit(0));
        assert_eq!(journal.join(Call::Append, 0, (0, 1..2), 0), Err(Frozen));
        journal.join(Call::Append, 0, (1, 0..1), 0).unwrap();
        assert!(!journal.begin_commit(NEVER - 1), "one at a time");
        journal.block_writes();
        journal.blocks_written();
        journal.join(Call::Append, 0, (0, 1..2), 0).unwrap();
        assert!(!journal.is_committed(1));
        journal.commit_written();
        assert!(journal.is_committed(1) && !journal.is_committed(2));
    }

    #[test]
    fn a_transaction_is_committed_by_age() {
        let mut journal = journal(1_000);
        assert_eq!(journal.due_ns(), NEVER);
        journal.join(Call::Unlink, 0, (0, 0..0), SECOND).unwrap();
        assert_eq!(journal.due_ns(), 6 * SECOND);
        assert!(!journal.begin_commit(6 * SECOND - 1) && journal.begin_commit(6 * SECOND));
    }

    #[test]
    fn space_wraps_and_comes_back_by_checkpoints() {
        let mut journal = journal(16);
        for round in 0..3 {
            journal.join(Call::Append, 0, (0, 0..1), 0).unwrap();
            assert_eq!(journal.checkpoint(), None, "{round}");
            commit(&mut journal);
        }
        // Three transactions of five blocks use 15 of 16.
        let (blocks, space) = journal.checkpoint().expect("less than a quarter is free");
        assert_eq!((blocks.len(), space), (3, 5));
        journal.checkpointed(space);
        journal.join(Call::Append, 0, (0, 0..1), 0).unwrap();
        let writes = commit(&mut journal);
        assert_eq!(writes[0], ((1 << 30) + 15 * BLOCK_BYTES, BLOCK_BYTES));
        assert_eq!(writes[1], (1 << 30, 3 * BLOCK_BYTES));
    }
}
