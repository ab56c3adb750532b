//! A client of the storm.

use std::collections::{BTreeMap, VecDeque};

use hoistway_linux::buffer::Span;

use crate::protocol::Command;
use crate::turn::{Piece, Verdict};

/// The state of a simulated connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    pub volume: u32,
    pub is_closed: bool,
    /// Whether its stream waits for the turn.
    pub waits: bool,
    /// The memory for the bytes that its stream waits for.
    pub fills: Option<Span>,
    /// Whether its stream waits for bytes of a refused request.
    pub skips: bool,
    /// Parts whose bytes come later than the next requests.
    pub aside: Vec<u32>,
    /// Requests without their last piece, by cookie.
    pub open: BTreeMap<u64, Command>,
    pub output: VecDeque<(u32, Piece)>,
}

impl Client {
    /// Notes what its stream does next.
    pub fn apply(&mut self, verdict: Verdict) {
        self.waits = verdict == Verdict::Wait;
        self.skips = matches!(verdict, Verdict::Skip(_));
        self.fills = if let Verdict::Fill(span) = verdict { Some(span) } else { None };
    }
}
