//! How a socket's connection ended, for the log.

use crate::counters::Sums;

/// Why a connection ended.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// The client said so, and got all its answers.
    Disconnected,
    /// The client closed its socket without saying so before, or the network failed.
    Closed,
    /// What the client sent is not valid.
    Invalid,
    /// The client stalled in the middle of a request or did not read its replies.
    Stalled,
    /// An operator closed it.
    Evicted,
    /// The device stopped.
    Stopped,
}

impl EndReason {
    /// The reason as a word of logs.
    pub const fn word(self) -> &'static str {
        match self {
            EndReason::Disconnected => "disconnected",
            EndReason::Closed => "closed",
            EndReason::Invalid => "invalid",
            EndReason::Stalled => "stalled",
            EndReason::Evicted => "evicted",
            EndReason::Stopped => "stopped",
        }
    }

    /// The same in words.
    pub const fn text(self) -> &'static str {
        match self {
            EndReason::Disconnected => "it disconnected",
            EndReason::Closed => "its connection was closed",
            EndReason::Invalid => "it sent invalid data",
            EndReason::Stalled => "it stalled",
            EndReason::Evicted => "an operator closed it",
            EndReason::Stopped => "the server ended",
        }
    }
}

/// The end of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionEnd {
    /// Why it ended.
    pub reason: EndReason,
    /// What it did, by kind of request.
    pub sums: Sums,
}

/// Called once, when nothing of a connection is left. Must not block.
pub type OnEnd = Box<dyn FnOnce(ConnectionEnd) + Send>;
