//! The direction of a thread's next I/O, and the blocks that it uses twice: those that it trims or
//! reads before it writes them.

use hoistway_block::random::Stream;

use super::in_flight::InFlight;
use super::rewrite_blocks::RewriteBlocks;
use crate::job::{Direction, Mix};

/// A block: its offset and length in bytes.
pub(super) type Block = (u64, u32);

/// A thread's mix. Every block that is trimmed or read first is written once, unless reading it
/// failed.
#[derive(Clone, Debug)]
pub(super) struct Directions {
    mix: Mix,
    /// The direction that was drawn for the next I/O, while a rate or flow delays it.
    held: Option<Direction>,
    /// TrimWrite: the discarded block that is to be written next.
    trimmed: Option<Block>,
    rewriting: RewriteBlocks,
}

impl Directions {
    pub(super) fn new(mix: Mix, depth: u32) -> Self {
        Self { mix, held: None, trimmed: None, rewriting: RewriteBlocks::new(mix, depth) }
    }

    /// The direction of the next I/O, drawn from `choices` where the mix leaves a choice.
    pub(super) fn choose(&mut self, choices: &mut Stream) -> Direction {
        if let Some(held) = self.held.take() {
            return held;
        }
        match self.mix {
            Mix::Read => Direction::Read,
            Mix::Write => Direction::Write,
            Mix::Trim => Direction::Trim,
            Mix::ReadWrite { read_percent } if choices.chance(u64::from(read_percent), 100) => Direction::Read,
            Mix::ReadWrite { .. } => Direction::Write,
            Mix::TrimWrite if self.trimmed.is_some() => Direction::Write,
            Mix::TrimWrite => Direction::Trim,
            Mix::Rewrite if self.rewriting.has_ready() => Direction::Write,
            Mix::Rewrite => Direction::Read,
        }
    }

    /// The next I/O will have this direction.
    pub(super) fn hold(&mut self, direction: Direction) {
        self.held = Some(direction);
    }

    /// The direction that may go first instead of `chosen` if it is due earlier.
    pub(super) fn instead_of(&self, chosen: Direction) -> Option<Direction> {
        match (self.mix, chosen) {
            (Mix::ReadWrite { read_percent: 1..=99 }, Direction::Read) => Some(Direction::Write),
            (Mix::ReadWrite { read_percent: 1..=99 }, _) => Some(Direction::Read),
            _ => None,
        }
    }

    /// The block that an I/O of this direction has to use; `None` if it is free to choose one.
    pub(super) fn block_again(&mut self, direction: Direction) -> Option<Block> {
        match self.mix {
            Mix::TrimWrite => self.trimmed.take(),
            Mix::Rewrite if direction == Direction::Write => self.rewriting.next_ready(),
            _ => None,
        }
    }

    /// Counts an I/O. Returns what its token stands for, and the bytes of the pass that it uses: a
    /// job that reads or trims each block before it writes it counts only the write.
    pub(super) fn issued(&mut self, direction: Direction, block: Block) -> (InFlight, u64) {
        let bytes = u64::from(block.1);
        match (self.mix, direction) {
            (Mix::TrimWrite, Direction::Trim) => self.trimmed = Some(block),
            (Mix::Rewrite, Direction::Read) => {
                self.rewriting.begins(bytes);
                return (InFlight::Original, 0);
            }
            (Mix::Rewrite, _) => {
                self.rewriting.ends(bytes);
                return (InFlight::Data(direction), bytes);
            }
            _ => return (InFlight::Data(direction), bytes),
        }
        (InFlight::Data(direction), 0)
    }

    /// The token of a block that is read before it is written.
    pub(super) fn asked(&mut self, token: u32, block: Block) {
        self.rewriting.asked(token, block);
    }

    /// A block was read that is to be written. Returns the bytes that will not be written, because
    /// it could not be read; they count as done.
    pub(super) fn was_read(&mut self, token: u32, ok: bool) -> u64 {
        self.rewriting.was_read(token, ok)
    }

    /// Whether every block that is left of the pass is being read, and none can be written yet.
    pub(super) fn waits_for_blocks(&self, bytes_left: u64) -> bool {
        self.mix == Mix::Rewrite && !self.rewriting.has_ready() && self.rewriting.unwritten_bytes() >= bytes_left
    }

    /// Bytes that were read, or are being read, and are still to be written.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        self.rewriting.unwritten_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trimmed_block_is_written_next() {
        let (mut directions, mut choices) = (Directions::new(Mix::TrimWrite, 1), Stream::new(1));
        for block in [(0, 4096), (8192, 4096)] {
            assert_eq!(directions.choose(&mut choices), Direction::Trim);
            assert_eq!(directions.block_again(Direction::Trim), None);
            assert_eq!(directions.issued(Direction::Trim, block), (InFlight::Data(Direction::Trim), 0));
            assert_eq!(directions.choose(&mut choices), Direction::Write);
            assert_eq!(directions.block_again(Direction::Write), Some(block));
            assert_eq!(directions.issued(Direction::Write, block), (InFlight::Data(Direction::Write), 4096));
        }
    }

    #[test]
    fn a_block_that_cannot_be_read_is_not_written() {
        let (mut directions, mut choices) = (Directions::new(Mix::Rewrite, 2), Stream::new(1));
        for token in 0..2 {
            let block = (u64::from(token) * 4096, 4096);
            assert_eq!(directions.choose(&mut choices), Direction::Read);
            assert_eq!(directions.issued(Direction::Read, block), (InFlight::Original, 0));
            directions.asked(token, block);
        }
        assert!(directions.waits_for_blocks(8192) && !directions.waits_for_blocks(8193));
        assert_eq!((directions.was_read(0, false), directions.unwritten_bytes()), (4096, 4096));
        assert_eq!(directions.was_read(1, true), 0);
        assert_eq!(directions.choose(&mut choices), Direction::Write);
        assert_eq!(directions.block_again(Direction::Write), Some((4096, 4096)));
    }
}
