//! The blocks of a rewriting thread between their read and their write.

use std::collections::VecDeque;

use super::directions::Block;
use crate::job::Mix;

/// What a rewriting thread has read.
#[derive(Clone, Debug)]
pub(super) struct RewriteBlocks {
    /// The block that is being read, indexed by token. Empty, as are the other fields, in a thread
    /// that does not rewrite.
    asked: Vec<Block>,
    /// Blocks that were read and wait to be written, in the order of their completion.
    ready: VecDeque<Block>,
    /// Bytes of all blocks that are being read or were read, and are not written yet.
    unwritten_bytes: u64,
}

impl RewriteBlocks {
    pub(super) fn new(mix: Mix, depth: u32) -> Self {
        let blocks = if mix == Mix::Rewrite { depth as usize } else { 0 };
        Self { asked: vec![(0, 0); blocks], ready: VecDeque::with_capacity(blocks), unwritten_bytes: 0 }
    }

    /// A block of this length is about to be read.
    pub(super) fn begins(&mut self, bytes: u64) {
        self.unwritten_bytes += bytes;
    }

    /// A block of this length is written.
    pub(super) fn ends(&mut self, bytes: u64) {
        self.unwritten_bytes -= bytes;
    }

    /// The block that is read with this token.
    pub(super) fn asked(&mut self, token: u32, block: Block) {
        self.asked[token as usize] = block;
    }

    /// The read of a block ended. Returns the bytes that will not be written, because it failed.
    pub(super) fn was_read(&mut self, token: u32, ok: bool) -> u64 {
        let block = self.asked[token as usize];
        if ok {
            self.ready.push_back(block);
            return 0;
        }
        let bytes = u64::from(block.1);
        self.ends(bytes);
        bytes
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The block that is written next.
    pub(super) fn next_ready(&mut self) -> Option<Block> {
        self.ready.pop_front()
    }

    pub(super) fn unwritten_bytes(&self) -> u64 {
        self.unwritten_bytes
    }
}
