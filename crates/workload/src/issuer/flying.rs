//! What a thread's tokens stand for.

use crate::job::Direction;

/// What a token stands for while in flight: a byte, as a thread may have thousands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Flying {
    Data(Direction),
    /// A read whose block is written back when it has come; the thread knows which.
    Original,
    Sync,
}

impl Flying {
    /// Of a transfer.
    pub(super) const fn direction(self) -> Option<Direction> {
        match self {
            Flying::Data(direction) => Some(direction),
            Flying::Original => Some(Direction::Read),
            Flying::Sync => None,
        }
    }
}
