//! The end of a connection: what it has queued is dropped, and what is in the device is waited for.
//!
//! ```text
//! close ─► parts that wait anywhere ────────► dropped; memory and credit are free at once
//!       ├► an I/O of it that is kept back, here or because its volume does not answer ──► dropped
//!       └► a write of it in the device ─────► departing; until it ends, an I/O of another connection
//!                                             that overlaps it is kept back when it is dispatched
//! last part ended, last piece dropped ─► Finished: nothing of it can reach the device any more
//! ```
//! So whatever another client submits after the close finds either all of an unanswered write or
//! nothing more of it to come. I/Os are compared when they are dispatched, because every way to the
//! device (limits, plugs, a switch of the scheduler, blocks that are read and modified) ends there.
//! While nothing departs, this costs one comparison for each I/O.

use std::ops::Range;

use hoistway_block::{Nanos, RequestId};
use hoistway_elevator::Place;

use super::state::{PartKind, Pending, Stage, Volume, Waiting};
use super::{Action, Actions, Turn};
use crate::protocol::Failure;

/// What of a closed connection is not over.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// A write in the device.
    Io(RequestId),
    /// A part that is written to an overlay, whose bitmap does not say so yet.
    Part(u32),
}

/// A write whose connection is closed.
#[derive(Clone, Debug)]
struct Departing {
    left: Left,
    volume: u32,
    bytes: Range<u64>,
}

/// What the end of connections leaves for a while.
#[derive(Debug, Default)]
pub(super) struct Ends {
    departing: Vec<Departing>,
    /// I/Os of open connections that were dispatched and overlap a departing one, oldest first. For the
    /// queue they are in the device.
    kept_back: Vec<RequestId>,
    // Scratch space, kept to avoid allocation.
    dropped: Vec<u32>,
}

impl Ends {
    /// Whether a write of a closed connection is in the device.
    #[inline]
    pub(super) fn has_departing(&self) -> bool {
        !self.departing.is_empty()
    }
}

impl Turn {
    /// Closes a connection: what it has submitted and the device has not been given is dropped, what is
    /// in the device ends without an answer. Pieces in its output must still be reported by
    /// [`Turn::sent`]. [`Action::Finished`] follows, perhaps at once.
    pub fn close(&mut self, connection: u32, now: Nanos, actions: &mut Actions) {
        if self.end(connection, now, actions) {
            self.payload_ended(connection, now, actions);
        }
    }

    /// [`Turn::close`] for a connection whose payload is being received: its memory is used until
    /// [`Turn::payload_ended`].
    pub fn close_while_receiving(&mut self, connection: u32, now: Nanos, actions: &mut Actions) {
        self.end(connection, now, actions);
    }

    /// Nothing is received any more for a closed connection.
    pub fn payload_ended(&mut self, connection: u32, now: Nanos, actions: &mut Actions) {
        let Some(part) = self.connections[connection].filling.take() else { return };
        let request = self.parts[part].request;
        self.requests[request].parts_working -= 1;
        self.requests[request].failure.get_or_insert(Failure::Io);
        self.release_part(part);
        self.finish_if_done(request, now, actions);
    }

    /// False if nothing was left of the connection, or it was closed before.
    fn end(&mut self, connection: u32, now: Nanos, actions: &mut Actions) -> bool {
        let state = &mut self.connections[connection];
        if state.is_closed {
            return false;
        }
        state.is_closed = true;
        let (group, pending) = (state.group, std::mem::take(&mut state.pending));
        if std::mem::take(&mut state.waiting) == Waiting::Memory {
            self.buffers.forget(group, connection);
        }
        self.plugs.forget(connection);
        if self.connections[connection].requests == 0 {
            self.finish_connection(connection, now, actions);
            return false;
        }
        if let Some(request) = self.connections[connection].refused.take() {
            self.finish(request, now, actions);
        }
        if let Pending::Parts(request) = pending {
            let of = &mut self.requests[request];
            of.end_bytes = of.next_bytes;
            // Not all of it has arrived: a request that failed.
            of.failure.get_or_insert(Failure::Io);
            self.finish_if_done(request, now, actions);
        }
        self.drop_waiting(connection, now, actions);
        self.leave_in_device(connection, now, actions);
        true
    }

    /// If there are pieces in the output, the last of them ends the request.
    fn finish_if_done(&mut self, request: u32, now: Nanos, actions: &mut Actions) {
        let of = &self.requests[request];
        if of.is_done() && of.pieces_unsent == 0 {
            self.finish(request, now, actions);
        }
    }

    /// Drops the parts of a closed connection that wait, in the queue or for an older part.
    fn drop_waiting(&mut self, connection: u32, now: Nanos, actions: &mut Actions) {
        let mut dropped = std::mem::take(&mut self.ends.dropped);
        let Self { queue, parts, requests, .. } = self;
        let is_own = |part: u32| parts.get(part).is_some_and(|part| requests[part.request].connection == connection);
        dropped.extend(parts.indices().filter(|&part| parts[part].stage == Stage::Blocked && is_own(part)));
        let is_meant = |cookie| u32::try_from(cookie).is_ok_and(is_own);
        queue.withdraw(is_meant, now, |cookie| dropped.extend(u32::try_from(cookie)));
        self.take_trace();
        self.counters.withdrawn_parts += dropped.len() as u64;
        for part in dropped.drain(..) {
            self.end_part(part, Some(Failure::Shutdown), now, actions);
        }
        self.ends.dropped = dropped;
    }

    /// The I/Os of a closed connection that were dispatched: those kept back are dropped, and the writes
    /// among the others keep overlapping I/Os back.
    fn leave_in_device(&mut self, connection: u32, now: Nanos, actions: &mut Actions) {
        for slot in 0..self.queue.requests().capacity() {
            let io = match self.queue.requests().in_slot(slot) {
                Some((io, request)) if request.place == Place::Started => io,
                _ => continue,
            };
            let is_own = self.first_part_of(io).is_some_and(|part| self.connection_of_part(part) == connection);
            if !is_own || self.drop_held_back(io, now, actions) {
                continue;
            }
            if let Some(at) = self.ends.kept_back.iter().position(|other| *other == io) {
                self.ends.kept_back.remove(at);
                self.end_io(io, Some(Failure::Shutdown), now, actions);
            } else if let Some((volume, bytes)) = self.range_of(io)
                && self.writes(io)
            {
                self.ends.departing.push(Departing { left: Left::Io(io), volume, bytes });
            }
        }
        self.leave_storing(connection);
    }

    /// Whether an I/O must wait for a write of a closed connection.
    fn meets_departing(&self, io: RequestId) -> bool {
        let Some((volume, bytes)) = self.range_of(io) else { return false };
        let overlaps = |other: &Departing| bytes.start < other.bytes.end && other.bytes.start < bytes.end;
        self.ends.departing.iter().any(|other| other.volume == volume && overlaps(other))
    }

    /// Keeps an I/O that was dispatched back if it overlaps a write of a closed connection.
    #[cold]
    pub(super) fn keep_back(&mut self, io: RequestId) -> bool {
        let is_kept_back = self.meets_departing(io);
        if is_kept_back {
            self.counters.kept_back_ios += 1;
            self.ends.kept_back.push(io);
        }
        is_kept_back
    }

    /// The parts of a closed connection that wait for the bitmap of an overlay take effect now, and keep overlapping
    /// I/Os back until the bitmap says so.
    fn leave_storing(&mut self, connection: u32) {
        let index = self.connections[connection].volume;
        let Some(Some(Volume { overlay: Some(overlay), .. })) = self.volumes.get_mut(index as usize) else { return };
        let Self { parts, requests, ends, .. } = self;
        let is_own = |part: &u32| requests[parts[*part].request].connection == connection;
        for part in parts.indices().filter(|part| parts[*part].stage == Stage::Storing).filter(is_own) {
            overlay.abandoned(part);
            let bytes = parts[part].begun_bytes..parts[part].end_bytes();
            ends.departing.push(Departing { left: Left::Part(part), volume: index, bytes });
        }
    }

    /// Something of a closed connection has ended: I/Os that waited only for it start.
    #[cold]
    pub(super) fn departed(&mut self, left: Left, actions: &mut Actions) {
        let Some(at) = self.ends.departing.iter().position(|departing| departing.left == left) else { return };
        self.ends.departing.swap_remove(at);
        for io in std::mem::take(&mut self.ends.kept_back) {
            if self.meets_departing(io) {
                self.ends.kept_back.push(io);
            } else {
                self.transfer(io, actions);
            }
        }
    }

    /// Whether no client waits for an I/O any more.
    #[inline]
    pub(super) fn is_abandoned(&self, io: RequestId) -> bool {
        self.connections[self.connection_of(io)].is_closed
    }

    fn connection_of_part(&self, part: u32) -> u32 {
        self.requests[self.parts[part].request].connection
    }

    fn first_part_of(&self, io: RequestId) -> Option<u32> {
        self.queue.bios_of(io).next().and_then(|(cookie, _)| u32::try_from(cookie).ok())
    }

    /// Whether it changes the volume.
    fn writes(&self, io: RequestId) -> bool {
        let part = self.first_part_of(io).map(|part| &self.parts[part]);
        part.is_some_and(|part| part.kind != PartKind::Read && part.stage == Stage::Transfer)
    }

    /// The volume of an I/O, and the bytes of it that the I/O reads or writes.
    fn range_of(&self, io: RequestId) -> Option<(u32, Range<u64>)> {
        let first = &self.parts[self.first_part_of(io)?];
        let volume = self.connections[self.requests[first.request].connection].volume;
        if let PartKind::Empty(_) = first.kind {
            return Some((volume, first.offset_bytes..first.end_bytes()));
        }
        let (from, _) = self.transfer_of(first);
        let parts = self.queue.bios_of(io).filter_map(|(cookie, _)| self.parts.get(u32::try_from(cookie).ok()?));
        let bytes: u64 = parts.map(|part| u64::from(self.transfer_of(part).1.length_bytes)).sum();
        Some((volume, from..from.saturating_add(bytes)))
    }

    /// [`Action::Finished`] was handled: the connection's number may be reused from here on.
    pub fn retire(&mut self, connection: u32) {
        self.connections.give(connection);
    }

    pub(super) fn finish_connection(&mut self, connection: u32, now: Nanos, actions: &mut Actions) {
        let state = &self.connections[connection];
        if state.requests > 0 {
            return;
        }
        debug_assert_eq!(state.bytes, 0);
        let (context, group) = (super::state::context_id(state), state.group);
        self.queue.context_exited(context, now);
        if let Some(Some(group)) = self.groups.get_mut(group as usize) {
            group.connections -= 1;
        }
        actions.push(Action::Finished { connection });
    }
}
