//! Overlays: which file a part reads, what it copies, and when its write may be answered.
//!
//! ```text
//! read ─► cut where the owner of the blocks changes ─► base or overlay
//! write of a block of the base ─► the rest of the block is read from the base, as for a block of direct
//!         I/O ─► all of it is written to the overlay ─► Store: its page of the bitmap
//!         ─► the block is the overlay's own, the write is answered
//! ```
//! A block that has become the overlay's own stays so, also when it is trimmed. Until then reads get the
//! block of the base. No other write of a part of the block begins meanwhile, because parts that modify a
//! block and others of the same block go one after the other.

use std::ops::Range;

use hoistway_block::Nanos;
use hoistway_linux::Slot;
use hoistway_linux::buffer::Span;

use super::ends::Left;
use super::state::{Part, PartKind, Positions, Stage, Volume};
use super::{Action, Actions, Turn};
use crate::overlay::format::{BLOCK_BYTES, PAGE_BYTES};
use crate::overlay::map::{Map, SlotWrite};
use crate::overlay::saving::{AfterWrite, Saving};
use crate::protocol::{ClientRequest, Failure, MAX_EXTENTS};

/// The length of a page of the bitmap.
#[expect(clippy::cast_possible_truncation, reason = "4 KiB")]
const STORED_BYTES: u32 = PAGE_BYTES as u32;

/// What a volume has in addition if it is an overlay.
#[derive(Debug)]
pub(crate) struct Overlay {
    saving: Saving,
    /// The positions of the base's bytes.
    base: Positions,
    /// Memory for the page of the bitmap that is being written.
    pub memory: Slot,
}

impl Overlay {
    /// The client of a part that waits for the bitmap is gone.
    pub fn abandoned(&mut self, part: u32) {
        self.saving.abandoned(part);
    }
}

impl Volume {
    /// Whether it may be removed as far as its files are concerned.
    pub fn is_idle(&self) -> bool {
        !self.flush.is_running() && self.overlay.as_ref().is_none_or(|overlay| !overlay.saving.is_busy())
    }

    /// The blocks of which a part's write should begin and end at one: others are read first.
    pub fn block_bytes(&self) -> u64 {
        if self.overlay.is_some() { BLOCK_BYTES } else { u64::from(self.abilities.alignment_bytes) }
    }

    /// Whether the bytes from `from` on are those of the base, and where that ends, at most at `end`.
    #[inline]
    pub fn source(&self, from: u64, end: u64) -> (bool, u64) {
        let Some(overlay) = &self.overlay else { return (false, end) };
        if from >= end {
            return (false, end);
        }
        let (is_own, until) = overlay.saving.map.run(from, end);
        (!is_own, until)
    }

    /// The positions of its bytes, or of those of its base.
    #[inline]
    pub fn positions(&self, of_base: bool) -> &Positions {
        match &self.overlay {
            Some(overlay) if of_base => &overlay.base,
            _ => &self.abilities.positions,
        }
    }

    /// An fsync begins.
    pub fn flush_begins(&mut self) {
        if let Some(overlay) = &mut self.overlay {
            overlay.saving.flush_begins();
        }
    }
}

impl Turn {
    /// Makes a volume an overlay. False if there is no memory for its bitmap.
    pub fn add_overlay(&mut self, volume: u32, map: Map, base: Positions) -> bool {
        let Some(memory) = self.buffers.take_unowned(STORED_BYTES) else { return false };
        if let Some(Some(state)) = self.volumes.get_mut(volume as usize) {
            state.overlay = Some(Box::new(Overlay { saving: Saving::new(map), base, memory }));
        }
        true
    }

    /// The longest part; an overlay needs parts of at least a block.
    pub fn most_part_bytes(&self) -> u32 {
        self.buffers.most_bytes()
    }

    /// The bitmap of a volume, if it is an overlay.
    #[cfg(test)]
    pub fn map(&self, volume: u32) -> Option<&Map> {
        Some(&self.volumes.get(volume as usize)?.as_ref()?.overlay.as_ref()?.saving.map)
    }

    /// What is to be written to a volume's bitmap when all its data is durable, and nothing is in flight any more.
    pub fn seal_all(&self, volume: u32) -> Vec<SlotWrite> {
        match self.volumes.get(volume as usize) {
            Some(Some(Volume { overlay: Some(overlay), .. })) => overlay.saving.map.seal_all(),
            _ => Vec::new(),
        }
    }

    /// Whether a part's transfer reads the base, in which it begins at `from_bytes`.
    pub(super) fn reads_base(&self, part: &Part, from_bytes: u64) -> bool {
        match part.stage {
            // The block may have become the overlay's own since the part was cut.
            Stage::ReadingHead | Stage::ReadingTail => {
                let volume = self.volume_of(self.requests[part.request].connection);
                part.is_copying && volume.is_some_and(|volume| volume.source(from_bytes, from_bytes + 1).0)
            }
            _ => part.kind == PartKind::Read && part.is_of_base,
        }
    }

    /// A trim's range without the blocks at its ends that it covers partly and that are those of the base: trimming
    /// them would mean copying them first.
    pub(super) fn without_parts_of_base_blocks(&self, connection: u32, first: u64, behind: u64) -> (u64, u64) {
        let Some(volume) = self.volume_of(connection).filter(|volume| volume.overlay.is_some()) else {
            return (first, behind);
        };
        let is_cut = |at: u64| !at.is_multiple_of(BLOCK_BYTES) && volume.source(at - at % BLOCK_BYTES, at).0;
        let first = if is_cut(first) { first.next_multiple_of(BLOCK_BYTES) } else { first };
        (first, if is_cut(behind) { behind - behind % BLOCK_BYTES } else { behind })
    }

    /// Whether a write would cover a block of the base partly, so that the rest must be copied. It cannot be direct then.
    pub fn copies(&self, connection: u32, offset_bytes: u64, length_bytes: u64) -> bool {
        let Some(volume) = self.volume_of(connection).filter(|volume| volume.overlay.is_some()) else { return false };
        let end = offset_bytes.saturating_add(length_bytes);
        let is_cut = |at: u64| !at.is_multiple_of(BLOCK_BYTES) && volume.source(at - at % BLOCK_BYTES, at).0;
        is_cut(offset_bytes) || is_cut(end)
    }

    /// Where the runs of blocks of the same owner end in a range of a volume, at most as many as a client is told of,
    /// and whether they are those of the base.
    pub fn runs(&self, volume: u32, asked: &ClientRequest) -> Vec<(u64, bool)> {
        let Some(Some(volume)) = self.volumes.get(volume as usize) else { return Vec::new() };
        let end = asked.offset_bytes + asked.length_bytes;
        let (mut runs, mut from) = (Vec::new(), asked.offset_bytes);
        while from < end && runs.len() < MAX_EXTENTS {
            let (is_of_base, until) = volume.source(from, end);
            runs.push((until, is_of_base));
            from = until;
        }
        runs
    }

    // ---- the bitmap ----

    /// A part's transfer has ended. Whether it is answered later, because the bitmap must say first that its blocks
    /// are the overlay's own.
    pub(super) fn stores(&mut self, part: u32, actions: &mut Actions) -> bool {
        let at = self.parts[part];
        if at.kind == PartKind::Read {
            return false;
        }
        let index = self.connections[self.requests[at.request].connection].volume;
        let Some(Some(Volume { overlay: Some(overlay), .. })) = self.volumes.get_mut(index as usize) else {
            return false;
        };
        // A part that was written in pieces has moved on from where it began.
        if !overlay.saving.wrote(part, at.begun_bytes..at.end_bytes()) {
            return false;
        }
        self.parts[part].stage = Stage::Storing;
        self.store(index, actions);
        true
    }

    /// Starts the next write of a page of the bitmap.
    fn store(&mut self, volume: u32, actions: &mut Actions) {
        let Some(Some(Volume { overlay: Some(overlay), .. })) = self.volumes.get_mut(volume as usize) else { return };
        let Some(SlotWrite { position_bytes, bytes }) = overlay.saving.next_write() else { return };
        let span = Span::of(overlay.memory, 0, STORED_BYTES);
        self.buffers.copy_in(span, &bytes[..]);
        actions.push(Action::Store { volume, position_bytes, span });
    }

    /// Takes the result of [`Action::Store`].
    pub fn stored(&mut self, volume: u32, is_ok: bool, now: Nanos, actions: &mut Actions) {
        let Some(Some(Volume { overlay: Some(overlay), .. })) = self.volumes.get_mut(volume as usize) else { return };
        let after = overlay.saving.written(is_ok);
        self.store(volume, actions);
        match after {
            AfterWrite::Ended(parts) => self.end_all(&parts, None, now, actions),
            AfterWrite::Failed(parts) => self.end_all(&parts, Some(Failure::Io), now, actions),
            AfterWrite::MustSync(parts) => {
                self.counters.syncs += 1;
                actions.push(Action::Sync { volume });
                self.end_all(&parts, None, now, actions);
            }
            AfterWrite::FlushFailed => self.synced(volume, false, now, actions),
        }
    }

    fn end_all(&mut self, parts: &[u32], failure: Option<Failure>, now: Nanos, actions: &mut Actions) {
        for &part in parts {
            if self.ends.has_departing() {
                self.departed(Left::Part(part), actions);
            }
            self.end_part(part, failure, now, actions);
        }
    }

    /// An fsync has ended. Whether the flush goes on with the bitmap.
    pub(super) fn seals(&mut self, volume: u32, is_ok: bool, actions: &mut Actions) -> bool {
        let Some(Some(Volume { overlay: Some(overlay), damage, .. })) = self.volumes.get_mut(volume as usize) else {
            return false;
        };
        // Of a damaged volume it is not known whether the data is durable.
        if !overlay.saving.synced(is_ok && damage.is_none()) {
            return false;
        }
        self.store(volume, actions);
        true
    }

    /// Whether a write made blocks the overlay's own of which the bitmap does not say so durably.
    pub(super) fn has_unsealed(&self, connection: u32, asked: &ClientRequest) -> bool {
        let range = || -> Range<u64> { asked.offset_bytes..asked.offset_bytes.saturating_add(asked.length_bytes) };
        let map = self.volume_of(connection).and_then(|volume| volume.overlay.as_ref()).map(|it| &it.saving.map);
        map.is_some_and(|map| !map.is_sealed(&range()))
    }
}
