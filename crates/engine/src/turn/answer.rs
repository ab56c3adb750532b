//! Completion of a request: parts end, pieces of the reply are sent, memory and credit are
//! returned.

use hoistway_block::Nanos;

use super::admit::credit_bytes;
use super::state::{Stage, Volume, Waiting};
use super::{Action, Actions, Piece, Turn};
use crate::counters::{Counted, Outcome};
use crate::damage::Damage;
use crate::protocol::{Command, Failure};
use crate::table::NIL;

impl Turn {
    /// Ends a part, with or without a failure.
    pub(super) fn end_part(&mut self, part: u32, failure: Option<Failure>, now: Nanos, actions: &mut Actions) {
        if self.is_linked_writer(part) {
            self.unlink_writer(part, now, actions);
        }
        let index = self.parts[part].request;
        let offset_bytes = self.parts[part].offset_bytes;
        let request = &mut self.requests[index];
        request.parts_working -= 1;
        request.ended_ns = now;
        request.failure = request.failure.or(failure);
        let (connection, asked, is_done) = (request.connection, request.asked, request.is_done());
        let is_read = asked.command == Command::Read;
        let is_closed = self.connections[connection].is_closed;
        if is_read && !is_closed && (failure.is_none() || asked.one_piece) {
            self.parts[part].stage = Stage::Unsent;
            self.requests[index].parts_unsent += 1;
            if !asked.one_piece {
                self.reply(index, Piece::Data { part, last: is_done }, actions);
                return;
            }
        } else if !asked.one_piece {
            self.release_part(part);
            if let (true, false, Some(failure)) = (is_read, is_closed, failure) {
                let piece = Piece::Failed { failure, offset_bytes: Some(offset_bytes), last: is_done };
                self.reply(index, piece, actions);
                return self.resume_if(connection, Waiting::Parts, now, actions);
            }
        }
        if is_done {
            self.conclude(index, now, actions);
        } else {
            self.resume_if(connection, Waiting::Parts, now, actions);
        }
    }

    /// Called when every part of a request has ended but its reply is not complete: a read in one
    /// piece, a request other than a read, or one whose connection is closed.
    fn conclude(&mut self, index: u32, now: Nanos, actions: &mut Actions) {
        let request = &self.requests[index];
        let (connection, asked, failure) = (request.connection, request.asked, request.failure);
        if self.connections[connection].is_closed {
            if request.pieces_unsent == 0 {
                self.release_parts(index);
                self.finish(index, now, actions);
            }
            return;
        }
        if asked.command == Command::Read && failure.is_none() {
            self.reply(index, Piece::Whole, actions);
            return;
        }
        self.release_parts(index);
        // A durable operation that failed meanwhile may have taken the only report of this one's loss.
        let is_write = asked.command != Command::Read;
        let is_lost = is_write && self.must_be_durable(index) && self.volume_of(connection).is_none_or(is_damaged);
        let failure = failure.or(is_lost.then_some(Failure::Io));
        // Punching holes and zeroing ranges have no durable form (FUA), so a flush follows.
        let needs_flush = asked.fua
            && (matches!(asked.command, Command::Trim | Command::WriteZeroes) || self.has_unsealed(connection, &asked));
        match failure {
            None if needs_flush => self.flush(index, now, actions),
            _ => self.answer_now(index, failure, actions),
        }
    }

    /// Takes the result of an fsync.
    pub fn synced(&mut self, volume: u32, is_ok: bool, now: Nanos, actions: &mut Actions) {
        let mut served = std::mem::take(&mut self.served);
        served.clear();
        if !is_ok {
            self.damage(volume, Damage::NotDurable);
        }
        let mut is_ok = is_ok;
        if self.seals(volume, is_ok, actions) {
            return;
        }
        if let Some(Some(state)) = self.volumes.get_mut(volume as usize) {
            // The damage of another operation, while this one ran, may be what it did not report.
            is_ok = state.damage.is_none();
            if state.flush.completed(is_ok, now, &mut served) {
                state.flush_begins();
                self.counters.syncs += 1;
                actions.push(Action::Sync { volume });
            }
        }
        let failure = (!is_ok).then_some(Failure::Io);
        for &request in &served {
            self.requests[request].ended_ns = now;
            if self.connections[self.requests[request].connection].is_closed {
                self.finish(request, now, actions);
            } else {
                self.answer_now(request, failure, actions);
            }
        }
        self.served = served;
    }

    /// Takes the result of an allocation query.
    pub fn status_found(&mut self, request: u32, is_ok: bool, now: Nanos, actions: &mut Actions) {
        let connection = self.requests[request].connection;
        if self.connections[connection].is_closed {
            return self.finish(request, now, actions);
        }
        if !is_ok {
            return self.answer_now(request, Some(Failure::Io), actions);
        }
        self.reply(request, Piece::Extents, actions);
    }

    /// Tells that a piece was accepted by the socket, or dropped with its connection.
    pub fn sent(&mut self, request: u32, piece: Piece, now: Nanos, actions: &mut Actions) {
        self.requests[request].pieces_unsent -= 1;
        match piece {
            Piece::Data { part, .. } => {
                self.requests[request].parts_unsent -= 1;
                self.release_part(part);
            }
            Piece::Whole => self.release_parts(request),
            Piece::Done | Piece::Extents | Piece::Failed { .. } => {}
        }
        let of = &self.requests[request];
        let (connection, is_closed) = (of.connection, self.connections[of.connection].is_closed);
        // Pieces are sent in order, so the last one ends the request. The request of a closed
        // connection may end with a piece that was not meant to be the last.
        if piece.is_last() || (is_closed && of.is_done() && of.pieces_unsent == 0) {
            self.finish(request, now, actions);
        } else {
            self.resume_if(connection, Waiting::Parts, now, actions);
        }
    }

    pub(super) fn reply(&mut self, request: u32, piece: Piece, actions: &mut Actions) {
        let of = &mut self.requests[request];
        of.pieces_unsent += 1;
        of.is_answered |= piece.is_last();
        actions.push(Action::Reply { connection: of.connection, request, piece });
    }

    /// Releases a request's entry and credit.
    pub(super) fn finish(&mut self, index: u32, now: Nanos, actions: &mut Actions) {
        let request = &self.requests[index];
        let (connection, asked) = (request.connection, request.asked);
        debug_assert_eq!((request.parts_working, request.parts_unsent), (0, 0));
        // What was dropped with its client was no I/O.
        let is_dropped = self.connections[connection].is_closed && request.failure == Some(Failure::Shutdown);
        if let Some(kind) = Counted::of(asked.command).filter(|_| !is_dropped) {
            let started_ns = if request.started_ns == 0 { request.ended_ns } else { request.started_ns };
            let outcome = Outcome {
                kind,
                is_ok: request.failure.is_none(),
                bytes: if asked.command == Command::Flush { 0 } else { asked.length_bytes },
                queue_ns: started_ns.saturating_sub(request.arrived_ns),
                service_ns: request.ended_ns.saturating_sub(started_ns),
                total_ns: now.saturating_sub(request.arrived_ns),
            };
            self.count(connection, &outcome);
        }
        self.requests.give(index);
        if let Some(volume) = self.volume_of_mut(connection) {
            volume.requests -= 1;
        }
        let group = self.connections[connection].group;
        if let Some(Some(group)) = self.groups.get_mut(group as usize) {
            group.usage.ended(now);
        }
        let state = &mut self.connections[connection];
        state.requests -= 1;
        state.bytes -= credit_bytes(&asked);
        if state.is_closed {
            self.finish_connection(connection, now, actions);
        } else {
            self.resume_if(connection, Waiting::Credit, now, actions);
        }
        // A free entry of the request table counts as memory for the waiting connections.
        self.buffers.entry_released();
    }

    fn count(&mut self, connection: u32, outcome: &Outcome) {
        let state = &mut self.connections[connection];
        state.sums.count(outcome);
        let (volume, group) = (state.volume, state.group);
        if let Some(Some(volume)) = self.volumes.get_mut(volume as usize) {
            volume.sums.count(outcome);
        }
        if let Some(Some(group)) = self.groups.get_mut(group as usize) {
            group.counters.count(outcome);
        }
    }

    pub(super) fn resume_if(&mut self, connection: u32, why: Waiting, now: Nanos, actions: &mut Actions) {
        if self.connections[connection].waiting == why {
            self.resume(connection, now, actions);
        }
    }

    /// Releases a part's memory and entry.
    pub(super) fn release_part(&mut self, part: u32) {
        let at = self.parts[part];
        let connection = self.requests[at.request].connection;
        let group = self.connections[connection].group;
        if let Some(volume) = self.volume_of_mut(connection) {
            volume.parts -= 1;
        }
        self.buffers.give(group, [at.slot, at.scratch]);
        self.parts.give(part);
    }

    /// Releases all parts of a read in one piece.
    fn release_parts(&mut self, request: u32) {
        let mut at = self.requests[request].first_part;
        while at != NIL {
            let next = self.parts[at].next;
            self.release_part(at);
            at = next;
        }
        let request = &mut self.requests[request];
        (request.first_part, request.last_part) = (NIL, NIL);
        request.parts_unsent = 0;
    }
}

fn is_damaged(volume: &Volume) -> bool {
    volume.damage.is_some()
}
