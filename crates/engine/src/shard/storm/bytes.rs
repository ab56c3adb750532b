//! Whose bytes lie in the arena. Every volume of the storm belongs to another tenant, whose data is one
//! byte repeated: in the payloads of its writes, and on its disk. What is written to a volume, or sent to
//! a client of it, may hold that byte and zeroes only, never what a slot held before.

use std::sync::Arc;

use hoistway_linux::TOP_CLASS_BYTES;
use hoistway_linux::buffer::{Arena, Span};

use crate::turn::Turn;

/// In the arena at the start.
const POISON: u8 = 0xee;
/// Spans are looked at as far from both ends, where parts of blocks lie, as this.
const CHECKED_BYTES: u32 = 4_096;
/// The clients' own memory begins here.
pub(super) const CLIENT_MEMORY: u64 = 1 << 40;

fn byte_of(volume: u32) -> u8 {
    0xa0 + u8::try_from(volume).unwrap_or(0)
}

pub(super) struct Bytes {
    arena: Arc<Arena>,
    room: Vec<u8>,
}

impl Bytes {
    pub fn new(arena: Arc<Arena>, turn: &mut Turn) -> Self {
        let slots: Vec<_> = std::iter::from_fn(|| turn.take_memory(TOP_CLASS_BYTES)).collect();
        for slot in slots {
            arena.fill(Span::of(slot, 0, slot.bytes()), POISON);
            turn.give_memory(slot);
        }
        Self { arena, room: vec![0; CHECKED_BYTES as usize] }
    }

    /// The tenant's data comes, from its client or its disk, as far as `bytes` go.
    pub fn supply(&self, volume: u32, spans: &[Span], mut bytes: u32) {
        for span in spans {
            let here = span.length_bytes.min(bytes);
            if span.offset_bytes < CLIENT_MEMORY {
                self.arena.fill(Span { length_bytes: here, ..*span }, byte_of(volume));
            }
            bytes -= here;
        }
    }

    /// Whether a span that leaves the arena for a tenant holds nothing of others.
    pub fn is_own(&mut self, volume: u32, span: Span) -> bool {
        if span.offset_bytes >= CLIENT_MEMORY {
            return true;
        }
        let tail = span.behind(span.length_bytes.saturating_sub(CHECKED_BYTES));
        [span, tail].into_iter().all(|span| {
            let length = self.arena.copy_out(span, &mut self.room);
            self.room[..length].iter().all(|byte| *byte == byte_of(volume) || *byte == 0)
        })
    }
}
