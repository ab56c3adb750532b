//! The memory of parts and of received bytes.

use std::sync::Arc;

use hoistway_linux::Slot;
use hoistway_linux::buffer::{Arena, Span};

use crate::memory::Memory;

/// Who has which memory, and the bytes behind it.
///
/// Invariant: the connections that wait are told once after something was released: [`Buffers::take_release`].
pub(super) struct Buffers {
    memory: Memory,
    /// The bytes behind `memory`.
    arena: Arc<Arena>,
    /// Zeroes that all parts may write from.
    zeroes: Slot,
    most_bytes: u32,
    was_released: bool,
}

impl Buffers {
    /// `zeroes` is of `memory` and is never written; `most_bytes` is the most that one part has.
    pub(super) fn new(memory: Memory, arena: Arc<Arena>, zeroes: Slot, most_bytes: u32) -> Self {
        Self { memory, arena, zeroes, most_bytes, was_released: false }
    }

    /// The most bytes of one part.
    #[inline]
    pub(super) fn most_bytes(&self) -> u32 {
        self.most_bytes
    }

    /// Zeroes, at most [`Buffers::most_bytes`] of them.
    #[inline]
    pub(super) fn zeroes(&self) -> Slot {
        self.zeroes
    }

    // ---- groups ----

    /// Whether memory of a group can be counted.
    pub(super) fn add_group(&mut self, group: u32) -> bool {
        self.memory.add_group(group)
    }

    pub(super) fn remove_group(&mut self, group: u32) {
        self.memory.remove_group(group);
    }

    pub(super) fn is_idle(&self, group: u32) -> bool {
        self.memory.is_idle(group)
    }

    pub(super) fn used_bytes(&self, group: u32) -> u64 {
        self.memory.used_bytes(group)
    }

    // ---- taking and releasing ----

    /// Takes the memory of a part and of the blocks that it completes; either may be 0 bytes. `None`, and nothing is
    /// taken, if one is short.
    pub(super) fn take(
        &mut self,
        group: u32,
        [bytes, scratch_bytes]: [u32; 2],
        may_pass_bound: bool,
    ) -> Option<[Option<Slot>; 2]> {
        let mut slots = [None; 2];
        if bytes > 0 {
            slots[0] = Some(self.memory.take(group, bytes, may_pass_bound)?);
        }
        if scratch_bytes > 0 {
            slots[1] = self.memory.take(group, scratch_bytes, may_pass_bound);
            if slots[1].is_none() {
                // It is as it was, so no connection is told of a release.
                slots[0].into_iter().for_each(|slot| self.memory.give(group, slot));
                return None;
            }
        }
        Some(slots)
    }

    /// Releases the memory of a part.
    pub(super) fn give(&mut self, group: u32, slots: [Option<Slot>; 2]) {
        slots.into_iter().flatten().for_each(|slot| self.memory.give(group, slot));
        self.was_released = true;
    }

    /// Takes memory that counts for no group; `None` when it is short.
    pub(super) fn take_unowned(&mut self, bytes: u32) -> Option<Slot> {
        self.memory.take_unowned(bytes)
    }

    pub(super) fn give_unowned(&mut self, slot: Slot) {
        self.memory.give_unowned(slot);
        self.was_released = true;
    }

    /// An entry of the request table was released, for which connections wait as for memory.
    pub(super) fn entry_released(&mut self) {
        self.was_released = true;
    }

    // ---- waiting ----

    /// Whether something was released since the last call with this answer, and a connection waits.
    #[inline]
    pub(super) fn take_release(&mut self) -> bool {
        let is_wanted = self.was_released && self.memory.has_waiting();
        self.was_released &= !is_wanted;
        is_wanted
    }

    /// A connection waits for memory.
    pub(super) fn wait(&mut self, group: u32, connection: u32) {
        self.memory.wait(group, connection);
    }

    /// A connection that was next waits on, before the others of its group.
    pub(super) fn wait_on(&mut self, group: u32, connection: u32) {
        self.memory.wait_on(group, connection);
    }

    /// The group and connection that are next.
    pub(super) fn next_waiting(&mut self) -> Option<(u32, u32)> {
        self.memory.next_waiting()
    }

    pub(super) fn waiting_groups(&self) -> usize {
        self.memory.waiting_groups()
    }

    /// A connection waits no more.
    pub(super) fn forget(&mut self, group: u32, connection: u32) {
        self.memory.forget(group, connection);
    }

    // ---- bytes ----

    pub(super) fn fill(&self, span: Span, byte: u8) {
        self.arena.fill(span, byte);
    }

    pub(super) fn copy_in(&self, span: Span, bytes: &[u8]) {
        self.arena.copy_in(span, bytes);
    }

    pub(super) fn copy(&self, from: Span, to: Span) {
        self.arena.copy_within(from, to);
    }

    /// Free bytes, and all.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.memory.free_bytes(), self.memory.total_bytes())
    }

    /// How often memory was refused because of a group's bound.
    pub(super) fn refusals(&self) -> u64 {
        self.memory.refusals()
    }
}
