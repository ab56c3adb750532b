//! The outgoing side of a socket: pieces queue up and are sent once per turn of the loop as one
//! gathered send.

use std::collections::VecDeque;

use hoistway_block::Nanos;
use hoistway_linux::Slot;
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::MAX_SPANS;

use super::end::EndReason;
use super::shared::{Core, Locked};
use super::stream::{HEADER_BYTES, Socket};
use super::{Token, Worker};
use crate::protocol::{Body, ClientRequest, Command, Failure, MAX_EXTENTS, Protocol, StatusExtent};
use crate::turn::Piece;

/// Data of one send; more waits for the next, so that one connection cannot delay the others.
const SEND_BYTES: u64 = 2 << 20;
/// Spans that one piece may need: a header and every part of the longest read in one piece.
const SPANS_PER_PIECE: usize = 2 + 40;

/// A piece of a reply in the output.
#[derive(Copy, Clone, Debug)]
pub(super) struct Out {
    pub request: u32,
    pub piece: Piece,
}

/// A piece that is to be encoded, with all that this needs, so that it needs no lock.
#[derive(Copy, Clone, Debug)]
struct Queued {
    out: Out,
    asked: ClientRequest,
    /// Where on the volume its data begins.
    offset_bytes: u64,
    length_bytes: u32,
    /// How many of `Outgoing::data` are its own.
    spans: u32,
}

/// The output of a socket. One send is in progress at most; its bytes are in `unsent` and its pieces
/// in `in_transit` until it has ended.
pub(super) struct Outgoing {
    headers: Slot,
    queued: VecDeque<Queued>,
    /// The memory of the pieces in `queued`, and what was found for those that are extents.
    data: VecDeque<Span>,
    extents: VecDeque<Vec<StatusExtent>>,
    in_transit: Vec<Out>,
    unsent: Vec<Span>,
    is_sending: bool,
    is_dirty: bool,
    /// Reasons that the protocol gave for its own answers, by request.
    notes: Vec<(u32, &'static str)>,
}

impl Outgoing {
    /// No output; headers are encoded into this memory.
    pub(super) fn new(headers: Slot) -> Self {
        Self {
            headers,
            queued: VecDeque::with_capacity(64),
            data: VecDeque::with_capacity(64),
            extents: VecDeque::new(),
            in_transit: Vec::with_capacity(64),
            unsent: Vec::with_capacity(MAX_SPANS),
            is_sending: false,
            is_dirty: false,
            notes: Vec::new(),
        }
    }

    /// Its memory, to be given back.
    pub(super) fn headers(&self) -> Slot {
        self.headers
    }

    pub(super) fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Whether nothing is being sent or left to send.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_sending && self.queued.is_empty()
    }

    /// The reason of the protocol's own answer to a request.
    pub(super) fn note(&mut self, request: u32, note: &'static str) {
        self.notes.push((request, note));
    }

    /// Takes what is not being sent yet, because the socket is closed.
    pub(super) fn drop_queued(&mut self) -> impl Iterator<Item = Out> + use<> {
        self.data.clear();
        self.extents.clear();
        std::mem::take(&mut self.queued).into_iter().map(|queued| queued.out)
    }

    /// Returns whether it was clean.
    #[inline]
    pub(super) fn becomes_dirty(&mut self) -> bool {
        !std::mem::replace(&mut self.is_dirty, true)
    }

    #[inline]
    pub(super) fn becomes_clean(&mut self) {
        self.is_dirty = false;
    }

    /// Encodes the next piece, up to its data.
    fn encode(&mut self, protocol: &mut dyn Protocol, next: &Queued, out: &mut Vec<u8>) {
        let &Queued { out: Out { request, piece }, asked, offset_bytes, length_bytes, .. } = next;
        let note = self.notes.iter().position(|(of, _)| *of == request).map(|index| self.notes.swap_remove(index).1);
        match piece {
            Piece::Done => protocol.encode(&asked, Body::Done, out),
            Piece::Data { last, .. } => protocol.encode(&asked, Body::Data { offset_bytes, length_bytes, last }, out),
            Piece::Whole => protocol.encode(&asked, Body::Data { offset_bytes, length_bytes, last: true }, out),
            Piece::Extents => {
                let found = self.extents.pop_front().unwrap_or_default();
                protocol.encode(&asked, Body::Extents(&found), out);
            }
            Piece::Failed { failure, offset_bytes, last } => {
                let message = note.unwrap_or_else(|| message_of(failure, asked.command));
                protocol.encode(&asked, Body::Failed { failure, offset_bytes, message, last }, out);
            }
        }
    }
}

impl Worker {
    /// Adds a piece to a socket's output.
    pub(super) fn queue_piece(&mut self, core: &mut Core, index: u32, request: u32, piece: Piece, now: Nanos) {
        let found = if piece == Piece::Extents { core.extents.remove(&request) } else { None };
        let Some(socket) = self.sockets.get_mut(index).filter(|socket| !socket.is_closed) else {
            return core.turn.sent(request, piece, now, &mut self.actions);
        };
        let (outgoing, asked) = (&mut socket.outgoing, *core.turn.asked(request));
        let (mut offset_bytes, mut length_bytes) = (asked.offset_bytes, 0);
        let before = outgoing.data.len();
        match piece {
            Piece::Data { part, .. } => {
                let data = core.turn.data_of(part);
                (offset_bytes, length_bytes) = (core.turn.offset_of(part), data.length_bytes);
                outgoing.data.push_back(data);
            }
            Piece::Whole => {
                length_bytes = u32::try_from(asked.length_bytes).unwrap_or(u32::MAX);
                outgoing.data.extend(core.turn.parts_of(request).map(|part| core.turn.data_of(part)));
            }
            Piece::Extents => outgoing.extents.push_back(found.unwrap_or_default()),
            Piece::Done | Piece::Failed { .. } => {}
        }
        let spans = u32::try_from(outgoing.data.len() - before).unwrap_or(u32::MAX);
        outgoing.queued.push_back(Queued { out: Out { request, piece }, asked, offset_bytes, length_bytes, spans });
        self.sockets.mark_dirty(index);
    }

    /// Sends the output queued during this turn. Others decide meanwhile.
    pub(super) fn send_dirty(&mut self, now: Nanos) {
        while let Some(index) = self.sockets.next_dirty() {
            self.send(index, now);
        }
    }

    /// Encodes and sends as much of a socket's output as one send may hold, unless a send is in
    /// progress.
    fn send(&mut self, index: u32, now: Nanos) {
        let Some(mut socket) = self.sockets.take(index) else { return };
        if !socket.outgoing.is_sending && !socket.is_closed && !socket.outgoing.queued.is_empty() {
            self.encode_batch(&mut socket);
            if socket.outgoing.unsent.is_empty() {
                // Reached only with a protocol that encodes nothing; its pieces count as sent.
                self.sent_without_bytes.append(&mut socket.outgoing.in_transit);
            } else {
                socket.outgoing.is_sending = true;
                socket.stalls.sends(now);
                let token = Token::Send { socket: index, generation: socket.generation }.pack();
                self.ring.send(token, socket.file, &socket.outgoing.unsent);
                self.expect_stalls(now);
            }
        }
        self.sockets.put_back(index, socket);
    }

    /// Tells of the pieces that had no bytes.
    pub(super) fn settle_sent_without_bytes(&mut self, core: &mut Core, now: Nanos) {
        for out in self.sent_without_bytes.drain(..) {
            core.turn.sent(out.request, out.piece, now, &mut self.actions);
        }
    }

    fn encode_batch(&mut self, socket: &mut Socket) {
        self.scratch.clear();
        let Socket { outgoing, protocol, .. } = socket;
        outgoing.unsent.clear();
        let mut bytes = 0;
        while let Some(&next) = outgoing.queued.front() {
            if outgoing.unsent.len() + SPANS_PER_PIECE > MAX_SPANS || bytes >= SEND_BYTES {
                break;
            }
            let before = self.scratch.len();
            if before > 0 && before + longest_encoding(next.out.piece) > HEADER_BYTES as usize {
                break;
            }
            outgoing.encode(&mut **protocol, &next, &mut self.scratch);
            let header = Span::of(
                outgoing.headers,
                u32::try_from(before).unwrap_or(HEADER_BYTES),
                u32::try_from(self.scratch.len() - before).unwrap_or(0),
            );
            push_joined(&mut outgoing.unsent, header);
            outgoing.unsent.extend(outgoing.data.drain(..next.spans as usize));
            bytes += u64::from(next.length_bytes);
            outgoing.queued.pop_front();
            outgoing.in_transit.push(next.out);
        }
        self.ring.arena().copy_in(Span::of(outgoing.headers, 0, HEADER_BYTES), &self.scratch);
    }

    /// Handles the end of a send: all of it, some of it, or none because the peer is gone.
    pub(super) fn send_completed(
        &mut self,
        core: &mut Locked<'_>,
        index: u32,
        generation: u16,
        result: i32,
        now: Nanos,
    ) {
        let Some(socket) = self.sockets.of(index, generation) else { return };
        let accepted = u64::try_from(result).unwrap_or(0);
        drop_front(&mut socket.outgoing.unsent, accepted);
        socket.stalls.sent();
        if !socket.outgoing.unsent.is_empty() && accepted > 0 && !socket.is_closed {
            socket.stalls.sends(now);
            let (token, file) = (Token::Send { socket: index, generation }.pack(), socket.file);
            let spans = std::mem::take(&mut socket.outgoing.unsent);
            self.ring.send(token, file, &spans);
            if let Some(socket) = self.sockets.of(index, generation) {
                socket.outgoing.unsent = spans;
            }
            return;
        }
        let is_failed = !socket.outgoing.unsent.is_empty();
        socket.outgoing.is_sending = false;
        let mut sent = std::mem::take(&mut socket.outgoing.in_transit);
        for out in sent.drain(..) {
            core.turn.sent(out.request, out.piece, now, &mut self.actions);
        }
        let Some(socket) = self.sockets.of(index, generation) else { return };
        socket.outgoing.in_transit = sent;
        if socket.is_closed {
            self.free_if_unused(core, index);
        } else if is_failed {
            self.close_connection(core, index, EndReason::Closed, now);
        } else if socket.outgoing.queued.is_empty() {
            self.end_if_done(core, index, now);
        } else {
            self.sockets.mark_dirty(index);
        }
    }
}

/// The most bytes that a protocol may need to encode a piece.
const fn longest_encoding(piece: Piece) -> usize {
    match piece {
        Piece::Extents => 16 * MAX_EXTENTS + 128,
        Piece::Failed { .. } => 512,
        Piece::Data { .. } | Piece::Whole | Piece::Done => 64,
    }
}

fn push_joined(spans: &mut Vec<Span>, span: Span) {
    if span.length_bytes == 0 {
        return;
    }
    match spans.last_mut() {
        Some(last) if last.offset_bytes + u64::from(last.length_bytes) == span.offset_bytes => {
            last.length_bytes += span.length_bytes;
        }
        _ => spans.push(span),
    }
}

/// Removes the first `bytes` from a list of spans.
fn drop_front(spans: &mut Vec<Span>, mut bytes: u64) {
    let whole = spans
        .iter()
        .take_while(|span| {
            let fits = u64::from(span.length_bytes) <= bytes;
            bytes -= if fits { u64::from(span.length_bytes) } else { 0 };
            fits
        })
        .count();
    spans.drain(..whole);
    if let Some(first) = spans.first_mut() {
        *first = first.behind(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

fn message_of(failure: Failure, command: Command) -> &'static str {
    match (failure, command) {
        (Failure::NotPermitted, _) => "the export is read-only",
        (Failure::Invalid, _) => "the range is not inside the export",
        (Failure::NoSpace, Command::Write | Command::WriteZeroes) => "no space left, or past the end of the export",
        (Failure::NoSpace, _) => "no space left",
        (Failure::Io, Command::Flush) => "writing to stable storage failed",
        (Failure::Io, _) => "the backing failed",
        (Failure::Overflow, _) => "too long",
        (Failure::NotSupported, _) => "not possible here without writing zeroes",
        (Failure::Shutdown, _) => "the server is shutting down",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset_bytes: u64, length_bytes: u32) -> Span {
        Span { offset_bytes, length_bytes }
    }

    #[test]
    fn accepted_bytes_are_removed_from_the_front() {
        let mut spans = vec![span(0, 16), span(4_096, 4_096), span(16, 16)];
        drop_front(&mut spans, 16 + 100);
        assert_eq!(spans, [span(4_196, 3_996), span(16, 16)]);
        drop_front(&mut spans, 3_996 + 16);
        assert_eq!(spans, []);
    }

    #[test]
    fn headers_that_lie_side_by_side_are_one_span() {
        let mut spans = Vec::new();
        for header in [span(0, 16), span(16, 16), span(40, 16)] {
            push_joined(&mut spans, header);
        }
        assert_eq!(spans, [span(0, 32), span(40, 16)]);
    }
}
