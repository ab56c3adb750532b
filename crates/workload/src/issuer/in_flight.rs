//! What the tokens of a pattern's thread stand for.

use crate::job::Direction;

/// What a token stands for while in flight. It is one byte, because a thread may have thousands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum InFlight {
    Data(Direction),
    /// A read whose block is written back after its completion; the thread stores which block.
    Original,
    Sync,
}

impl InFlight {
    /// The direction of a transfer; `None` for a sync.
    pub(super) const fn direction(self) -> Option<Direction> {
        match self {
            InFlight::Data(direction) => Some(direction),
            InFlight::Original => Some(Direction::Read),
            InFlight::Sync => None,
        }
    }
}
