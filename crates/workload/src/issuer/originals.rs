//! The blocks of a rewriting thread between their read and their write.

use std::collections::VecDeque;

use crate::job::Mix;

/// What a rewriting thread has read.
#[derive(Clone, Debug)]
pub(super) struct Originals {
    /// By token: the block that is asked for. Empty in all other threads, as is what follows.
    pub asked: Vec<(u64, u32)>,
    /// Blocks that have come and wait to be written, in the order in which they came.
    pub ready: VecDeque<(u64, u32)>,
    /// Bytes of all blocks that are asked for or have come, and are not yet written.
    pub unwritten_bytes: u64,
}

impl Originals {
    pub(super) fn new(mix: Mix, depth: u32) -> Self {
        let blocks = if mix == Mix::Rewrite { depth as usize } else { 0 };
        Self { asked: vec![(0, 0); blocks], ready: VecDeque::with_capacity(blocks), unwritten_bytes: 0 }
    }
}
