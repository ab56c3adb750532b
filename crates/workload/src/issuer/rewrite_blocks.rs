//! The blocks of a rewriting thread between their read and their write.

use std::collections::VecDeque;

use crate::job::Mix;

/// What a rewriting thread has read.
#[derive(Clone, Debug)]
pub(super) struct RewriteBlocks {
    /// The block that is being read, indexed by token. Empty, as are the other fields, in a thread
    /// that does not rewrite.
    pub asked: Vec<(u64, u32)>,
    /// Blocks that were read and wait to be written, in the order of their completion.
    pub ready: VecDeque<(u64, u32)>,
    /// Bytes of all blocks that are being read or were read, and are not written yet.
    pub unwritten_bytes: u64,
}

impl RewriteBlocks {
    pub(super) fn new(mix: Mix, depth: u32) -> Self {
        let blocks = if mix == Mix::Rewrite { depth as usize } else { 0 };
        Self { asked: vec![(0, 0); blocks], ready: VecDeque::with_capacity(blocks), unwritten_bytes: 0 }
    }
}
