//! The incoming side of a socket: receive, parse, store payloads.
//!
//! ```text
//! Parsing ─► submit ─► Go ───────────────► Parsing
//!                ├──► Fill(span) ─ bytes ─► filled ─► Go | Fill | Wait
//!                ├──► Skip(n) ──── bytes ─► skipped ─► Go
//!                └──► Wait ─── Continue ──► as decided
//! ```
//! The socket of a waiting connection is not read: the socket's buffer fills and the client's own
//! send blocks.

use std::os::fd::OwnedFd;

use hoistway_block::{Nanos, Priority};
use hoistway_linux::Slot;
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::FileId;

use super::end::{ConnectionEnd, EndReason, OnEnd};
use super::output::Outgoing;
use super::shared::{Core, Locked, Route, unlocked};
use super::sockets::PayloadCopy;
use super::stall::Stalls;
use super::{Token, Worker};
use crate::counters::Sums;
use crate::error::EngineError;
use crate::protocol::{ClientRequest, Failure, MAX_HEADER_BYTES, Parsed, Protocol};
use crate::turn::{Action, ConnectionBounds, Verdict};

/// Requests parsed per connection and turn of the loop.
const PARSED_PER_TURN: u32 = 256;
/// A missing payload of at least this size is received straight into its slot.
const DIRECT_BYTES: u32 = 16 << 10;
/// Bytes for the headers of one gathered send.
pub(super) const HEADER_BYTES: u32 = 16 << 10;
/// Longest header that is encoded on the stack; longer ones go through a vector.
const SHORT_HEADER_BYTES: usize = 64;
/// Receive buffers have full size while they use at most an eighth of the memory; later ones are
/// smaller.
const RECEIVE_SHARE: u64 = 8;

/// A connected client, ready for transmission.
pub(crate) struct Attachment {
    pub socket: OwnedFd,
    pub protocol: Box<dyn Protocol>,
    pub volume: u32,
    pub group: u32,
    pub bounds: ConnectionBounds,
    pub received: Vec<u8>,
    pub label: String,
    pub on_closed: Option<OnEnd>,
}

/// The meaning of the next bytes of the stream.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// A header.
    Parsing,
    /// Payload to be stored in this span.
    Filling(Span),
    /// Payload of a refused request.
    Skipping(u64),
    /// Unknown until the turn returns a verdict.
    Waiting,
    /// Nothing: the client disconnected, or the stream is invalid.
    Ended,
}

/// Where a RECV in progress stores its bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Receiving {
    No,
    /// Into the receive buffer.
    Buffer,
    /// Straight into the payload's slot.
    Slot,
}

/// A request that the protocol answers itself.
#[derive(Copy, Clone, Debug)]
struct AnsweredByProtocol {
    asked: ClientRequest,
    failure: Option<Failure>,
    note: &'static str,
}

/// A client's socket.
pub(super) struct Socket {
    pub connection: u32,
    pub file: FileId,
    pub protocol: Box<dyn Protocol>,
    pub generation: u16,
    on_closed: Option<OnEnd>,
    // incoming
    buffer: Slot,
    /// The range of bytes received and not yet consumed.
    start: u32,
    end: u32,
    needed_bytes: u32,
    stream: Stream,
    receiving: Receiving,
    is_tcp: bool,
    /// Whether a poll for the peer's end is in the ring.
    is_watched: bool,
    is_ready: bool,
    /// A request that the protocol answered. Its payload has to be discarded first, or there is no
    /// credit yet.
    answered: Option<AnsweredByProtocol>,
    pub outgoing: Outgoing,
    // end
    pub is_closed: bool,
    end_reason: EndReason,
    /// What the connection did; set when the turn has finished with it.
    end_sums: Option<Sums>,
    pub stalls: Stalls,
}

impl Socket {
    /// Whether the end of what the client sends means that it has gone. One that has said that it
    /// disconnects has no more to send, and may wait for answers.
    fn ends_with_bytes(&self) -> bool {
        self.is_tcp && self.stream != Stream::Ended
    }

    /// Nothing more is parsed. The first reason counts.
    fn end_stream(&mut self, reason: EndReason) {
        if self.stream != Stream::Ended {
            self.stream = Stream::Ended;
            self.end_reason = reason;
        }
    }

    /// Tells the owner that nothing of the connection is left.
    fn report_end(&mut self, sums: Sums) {
        if let Some(on_closed) = self.on_closed.take() {
            on_closed(ConnectionEnd { reason: self.end_reason, sums });
        }
    }
}

impl Worker {
    /// Tells the owners of all connections that they end with the device.
    pub(super) fn report_ends(&mut self, core: &Core) {
        for socket in self.sockets.iter_mut() {
            let sums = socket.end_sums.take();
            let sums = sums.or_else(|| core.turn.connection(socket.connection).map(|(sums, ..)| sums.clone()));
            socket.end_stream(EndReason::Stopped);
            socket.report_end(sums.unwrap_or_default());
        }
    }

    /// Takes over a client's socket.
    pub fn attach(&mut self, core: &mut Locked<'_>, attachment: Attachment) -> Result<u32, EngineError> {
        let now = hoistway_linux::thread::monotonic_ns();
        let Attachment { socket, protocol, volume, group, bounds, received, label, on_closed } = attachment;
        // An option that cannot be set only costs speed.
        let is_tcp = hoistway_linux::socket::tune(std::os::fd::AsFd::as_fd(&socket)).unwrap_or(false);
        let refused = |what: &str| EngineError::system(format!("client {label}: {what}"), "try again later");
        let connection = core
            .turn
            .open(volume, group, bounds, Priority::NONE)
            .ok_or_else(|| refused("no connection is free, or its volume or group is gone"))?;
        let Some((buffer, headers)) = self.buffers_for(core, received.len()) else {
            core.turn.close(connection, now, &mut self.actions);
            return Err(refused("no memory for its buffers"));
        };
        let file = match self.ring.add_file(socket) {
            Ok(file) => file,
            Err(error) => {
                core.turn.give_memory(buffer);
                core.turn.give_memory(headers);
                core.turn.close(connection, now, &mut self.actions);
                return Err(refused(&error.to_string()));
            }
        };
        self.ring.arena().copy_in(Span::of(buffer, 0, buffer.bytes()), &received);
        let received_bytes = u32::try_from(received.len()).unwrap_or(0);
        let socket = Socket {
            needed_bytes: clamp_header(protocol.header_bytes()),
            connection,
            file,
            protocol,
            generation: self.sockets.next_generation(),
            on_closed,
            buffer,
            start: 0,
            end: received_bytes,
            stream: Stream::Parsing,
            receiving: Receiving::No,
            is_tcp,
            is_watched: false,
            is_ready: false,
            answered: None,
            outgoing: Outgoing::new(headers),
            is_closed: false,
            end_reason: EndReason::Closed,
            end_sums: None,
            stalls: Stalls::default(),
        };
        let index = self.sockets.insert(socket);
        core.routes[connection as usize] = Route::Socket { worker: self.number, socket: index };
        core.labels[connection as usize] = Some(label);
        self.pump(core, index, now);
        Ok(connection)
    }

    /// Memory for receiving and for the headers of replies, if there is enough for the bytes
    /// received already.
    fn buffers_for(&mut self, core: &mut Core, received_bytes: usize) -> Option<(Slot, Slot)> {
        let buffer = self.receive_buffer(core)?;
        let headers = core.turn.take_memory(HEADER_BYTES);
        match headers {
            Some(headers) if received_bytes <= buffer.bytes() as usize => Some((buffer, headers)),
            _ => {
                for slot in std::iter::once(buffer).chain(headers) {
                    core.turn.give_memory(slot);
                }
                None
            }
        }
    }

    /// The largest receive buffer that leaves enough memory for data.
    fn receive_buffer(&mut self, core: &mut Core) -> Option<Slot> {
        let (_, total_bytes) = core.turn.memory_bytes();
        let clients = core.workers.iter().map(|worker| worker.clients as u64).sum::<u64>();
        let size = [256 << 10, 64 << 10, 16 << 10]
            .into_iter()
            .find(|&size| clients * u64::from(size) <= total_bytes / RECEIVE_SHARE)
            .unwrap_or(16 << 10);
        core.turn.take_memory(size)
    }

    /// Handles received bytes, the stream's end, or an error.
    pub(super) fn received(&mut self, core: &mut Locked<'_>, index: u32, generation: u16, result: i32, now: Nanos) {
        let Some(socket) = self.sockets.of(index, generation) else { return };
        let into = std::mem::replace(&mut socket.receiving, Receiving::No);
        socket.stalls.received();
        if socket.is_closed {
            if into == Receiving::Slot {
                let connection = socket.connection;
                core.turn.payload_ended(connection, now, &mut self.actions);
            }
            return self.free_if_unused(core, index);
        }
        let Ok(bytes @ 1..) = u32::try_from(result) else {
            const EINTR: i32 = 4;
            const EAGAIN: i32 = 11;
            if matches!(-result, EINTR | EAGAIN) {
                return self.sockets.receive_later(index);
            }
            // The peer is gone, so the answers to its requests are not needed.
            return self.close_connection(core, index, EndReason::Closed, now);
        };
        match (into, socket.stream) {
            (Receiving::Slot, Stream::Filling(span)) => socket.stream = Stream::Filling(span.behind(bytes)),
            _ => socket.end += bytes,
        }
        self.pump(core, index, now);
    }

    /// Processes received bytes until more are needed or the turn's budget is used up.
    pub(super) fn pump(&mut self, core: &mut Locked<'_>, index: u32, now: Nanos) {
        let Some(mut socket) = self.sockets.take(index) else { return };
        socket.is_ready = false;
        let mut budget = PARSED_PER_TURN;
        while !socket.is_closed && self.step(core, &mut socket, now) {
            budget -= 1;
            if budget == 0 {
                socket.is_ready = true;
                self.sockets.serve_later(index);
                break;
            }
        }
        let (is_ready, is_closed) = (socket.is_ready, socket.is_closed);
        self.sockets.put_back(index, socket);
        if !is_ready && !is_closed {
            self.sockets.receive_later(index);
        }
    }

    /// Copies the payloads that were parsed, while the other workers decide; then their parts go on, and the sockets
    /// receive more.
    pub(super) fn take_payloads(&mut self, core: &mut Locked<'_>, now: Nanos) {
        if !self.sockets.payloads().is_empty() {
            unlocked(core, || self.copy_payloads());
            self.enter_payloads(core, now);
        }
        while let Some(index) = self.sockets.next_to_receive() {
            self.end_if_done(core, index, now);
            self.arm(index, now);
        }
    }

    fn copy_payloads(&self) {
        self.sockets.payloads().iter().for_each(|payload| self.ring.arena().copy_within(payload.from, payload.to));
    }

    fn enter_payloads(&mut self, core: &mut Core, now: Nanos) {
        for part in self.sockets.take_copied() {
            core.turn.enter_filled(part, now, &mut self.actions);
        }
    }

    /// One step of the stream; false when it has to wait for bytes or for the turn.
    fn step(&mut self, core: &mut Locked<'_>, socket: &mut Socket, now: Nanos) -> bool {
        let available = socket.end - socket.start;
        match socket.stream {
            Stream::Waiting | Stream::Ended => false,
            Stream::Filling(to) => {
                let from = Span::of(socket.buffer, socket.start, available.min(to.length_bytes));
                socket.start += from.length_bytes;
                let left = to.behind(from.length_bytes);
                socket.stream = Stream::Filling(left);
                let mut part = None;
                if left.length_bytes == 0 {
                    let (aside, verdict) = core.turn.set_aside(socket.connection, now, &mut self.actions);
                    apply_verdict(socket, verdict);
                    part = aside;
                }
                self.sockets.copy_later(PayloadCopy { from, to, part });
                left.length_bytes == 0
            }
            Stream::Skipping(left) => {
                let skipped = u64::from(available).min(left);
                socket.start += u32::try_from(skipped).unwrap_or(available);
                let left = left - skipped;
                socket.stream = Stream::Skipping(left);
                if left > 0 {
                    return false;
                }
                if socket.answered.is_some() {
                    socket.stream = Stream::Parsing;
                } else {
                    let verdict = core.turn.skipped(socket.connection, now, &mut self.actions);
                    apply_verdict(socket, verdict);
                }
                true
            }
            Stream::Parsing => self.parse_one(core, socket, available, now),
        }
    }

    fn parse_one(&mut self, core: &mut Core, socket: &mut Socket, available: u32, now: Nanos) -> bool {
        if let Some(answered) = socket.answered.take() {
            return self.answer_parsed(core, socket, answered, now);
        }
        if available < socket.needed_bytes {
            return false;
        }
        let wanted = (socket.needed_bytes as usize).max(SHORT_HEADER_BYTES).min(available as usize);
        let from = Span::of(socket.buffer, socket.start, available);
        let parsed = if wanted <= SHORT_HEADER_BYTES {
            let mut bytes = [0; SHORT_HEADER_BYTES];
            let length = self.ring.arena().copy_out(from, &mut bytes[..wanted]);
            socket.protocol.parse(&bytes[..length])
        } else {
            let mut bytes = vec![0; wanted];
            self.ring.arena().copy_out(from, &mut bytes);
            socket.protocol.parse(&bytes)
        };
        let consume = |socket: &mut Socket, bytes: usize| {
            socket.start += u32::try_from(bytes).unwrap_or(u32::MAX).min(available);
            socket.needed_bytes = clamp_header(socket.protocol.header_bytes());
        };
        match parsed {
            Parsed::Incomplete { needed_bytes } => {
                let needed_bytes = clamp_header(needed_bytes);
                // A protocol that asks for no more bytes than it got would be called for ever, so
                // its stream ends.
                if needed_bytes > socket.needed_bytes {
                    socket.stream = Stream::Parsing;
                } else {
                    socket.end_stream(EndReason::Invalid);
                }
                socket.needed_bytes = needed_bytes;
                needed_bytes <= available
            }
            Parsed::Request { consumed_bytes, asked } => {
                consume(socket, consumed_bytes);
                let verdict = core.turn.submit(socket.connection, asked, now, &mut self.actions);
                apply_verdict(socket, verdict);
                true
            }
            Parsed::Answered { consumed_bytes, skip_bytes, asked, failure, message } => {
                consume(socket, consumed_bytes);
                socket.answered = Some(AnsweredByProtocol { asked, failure, note: message });
                socket.stream = if skip_bytes == 0 { Stream::Parsing } else { Stream::Skipping(skip_bytes) };
                true
            }
            Parsed::Disconnect { consumed_bytes } => {
                consume(socket, consumed_bytes);
                socket.end_stream(EndReason::Disconnected);
                false
            }
            Parsed::Close => {
                socket.end_stream(EndReason::Invalid);
                false
            }
        }
    }

    /// Passes the protocol's own answer on.
    fn answer_parsed(
        &mut self,
        core: &mut Core,
        socket: &mut Socket,
        answered: AnsweredByProtocol,
        now: Nanos,
    ) -> bool {
        let AnsweredByProtocol { asked, failure, note } = answered;
        if !core.turn.submit_answered(socket.connection, asked, failure, now, &mut self.actions).is_go() {
            socket.answered = Some(answered);
            socket.stream = Stream::Waiting;
            return false;
        }
        if let (Some(Action::Reply { request, .. }), false) = (self.actions.list.last(), note.is_empty()) {
            socket.outgoing.note(*request, note);
        }
        true
    }

    /// Continues a waiting connection as the turn decided.
    pub(super) fn continue_stream(&mut self, core: &mut Locked<'_>, index: u32, verdict: Verdict, now: Nanos) {
        let Some(socket) = self.sockets.get_mut(index) else { return };
        if socket.stream == Stream::Waiting {
            apply_verdict(socket, verdict);
            self.pump(core, index, now);
        }
    }

    /// Starts the next RECV, if bytes are wanted and none is in progress.
    fn arm(&mut self, index: u32, now: Nanos) {
        let Some(socket) = self.sockets.get_mut(index) else { return };
        let wants = matches!(socket.stream, Stream::Parsing | Stream::Filling(_) | Stream::Skipping(_));
        let is_silent = matches!(socket.stream, Stream::Waiting | Stream::Ended);
        if is_silent && !socket.is_watched && !socket.is_closed {
            // No receive tells of the peer's end while the stream waits, or has ended and answers are
            // still to come.
            socket.is_watched = true;
            let token = Token::HangUp { socket: index, generation: socket.generation }.pack();
            self.ring.poll_hang_up(token, socket.file, socket.ends_with_bytes());
            return;
        }
        if socket.receiving != Receiving::No || socket.is_closed || !wants {
            return;
        }
        let token = Token::Receive { socket: index, generation: socket.generation }.pack();
        let available = socket.end - socket.start;
        let stops_inside = socket.stream != Stream::Parsing || available > 0;
        socket.stalls.receives(stops_inside, now);
        if let (Stream::Filling(span), 0) = (socket.stream, available)
            && span.length_bytes >= DIRECT_BYTES
        {
            socket.receiving = Receiving::Slot;
            self.ring.receive(token, socket.file, span);
        } else {
            if socket.start == socket.end {
                (socket.start, socket.end) = (0, 0);
            } else if socket.buffer.bytes() - socket.end < socket.buffer.bytes() / 4 {
                let from = Span::of(socket.buffer, socket.start, available);
                self.ring.arena().copy_within(from, Span::of(socket.buffer, 0, available));
                (socket.start, socket.end) = (0, available);
            }
            let room = Span::of(socket.buffer, socket.end, socket.buffer.bytes());
            socket.receiving = Receiving::Buffer;
            self.ring.receive(token, socket.file, room);
        }
        if stops_inside {
            self.expect_stalls(now);
        }
    }

    /// Closes a disconnected client when all its requests were answered and sent.
    pub(super) fn end_if_done(&mut self, core: &mut Core, index: u32, now: Nanos) {
        let Some(socket) = self.sockets.get_mut(index) else { return };
        let is_disconnected = socket.stream == Stream::Ended && !socket.is_closed;
        if is_disconnected && socket.outgoing.is_idle() && core.turn.connection_requests(socket.connection) == 0 {
            let reason = socket.end_reason;
            self.close_connection(core, index, reason, now);
        }
    }

    /// The peer has gone, or the poll was cancelled. While the stream does not wait, the next receive
    /// tells what the peer has sent before.
    pub(super) fn peer_hung_up(&mut self, core: &mut Core, index: u32, generation: u16, now: Nanos) {
        let Some(socket) = self.sockets.of(index, generation) else { return };
        socket.is_watched = false;
        if socket.is_closed {
            self.free_if_unused(core, index);
        } else if self.has_hung_up(index) {
            self.close_connection(core, index, EndReason::Closed, now);
        } else {
            self.sockets.receive_later(index);
        }
    }

    /// Whether the peer of a stream that is not being read has gone.
    fn has_hung_up(&self, index: u32) -> bool {
        let Some(socket) = self.sockets.get(index) else { return false };
        let fd = self.ring.file(socket.file).filter(|_| !socket.is_closed);
        fd.is_some_and(|fd| hoistway_linux::socket::has_hung_up(fd, socket.ends_with_bytes()))
    }

    /// Ends the connections to a volume whose clients have gone, whatever they have sent before and was
    /// not read yet: a new client is about to come, and may be the same one.
    pub fn end_gone(&mut self, core: &mut Core, volume: u32) {
        let now = hoistway_linux::thread::monotonic_ns();
        for index in self.sockets.indexes() {
            let Some(socket) = self.sockets.get(index) else { continue };
            let is_of_volume = core.turn.connection(socket.connection).is_some_and(|(_, of, _)| of == volume);
            if is_of_volume && self.has_hung_up(index) {
                self.close_connection(core, index, EndReason::Closed, now);
            }
        }
    }

    /// Ends a connection: shuts down both directions at once, then waits for everything that refers
    /// to it.
    pub(super) fn close_connection(&mut self, core: &mut Core, index: u32, reason: EndReason, now: Nanos) {
        let Some(socket) = self.sockets.get_mut(index) else { return };
        if socket.is_closed {
            return;
        }
        socket.is_closed = true;
        socket.end_stream(reason);
        // Its parts may not be left aside when it is closed in the turn.
        self.copy_payloads();
        self.enter_payloads(core, now);
        let Some(socket) = self.sockets.get_mut(index) else { return };
        let (file, connection, receiving) = (socket.file, socket.connection, socket.receiving);
        let is_busy = socket.outgoing.is_sending() || socket.is_watched || socket.receiving != Receiving::No;
        let dropped = socket.outgoing.drop_queued();
        if let Some(fd) = self.ring.file(file) {
            hoistway_linux::socket::shut_down(fd);
        }
        if is_busy {
            self.ring.cancel(file);
        }
        // The payload's memory must not be used again while the kernel may still write to it.
        match receiving {
            Receiving::Slot => core.turn.close_while_receiving(connection, now, &mut self.actions),
            _ => core.turn.close(connection, now, &mut self.actions),
        }
        for out in dropped {
            core.turn.sent(out.request, out.piece, now, &mut self.actions);
        }
        self.free_if_unused(core, index);
    }

    /// Notes that nothing of the connection is left in the turn, and what it did.
    pub(super) fn turn_finished(&mut self, core: &mut Core, index: u32, sums: Sums) {
        if let Some(socket) = self.sockets.get_mut(index) {
            socket.end_sums = Some(sums);
        }
        self.free_if_unused(core, index);
    }

    /// Frees a dead socket's entry once neither turn nor ring refer to it.
    pub(super) fn free_if_unused(&mut self, core: &mut Core, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else { return };
        let is_in_ring = socket.outgoing.is_sending() || socket.is_watched || socket.receiving != Receiving::No;
        let Some(sums) = socket.end_sums.take_if(|_| socket.is_closed && !is_in_ring) else { return };
        if let Some(mut socket) = self.sockets.remove(index) {
            self.ring.remove_file(socket.file);
            core.turn.give_memory(socket.buffer);
            core.turn.give_memory(socket.outgoing.headers());
            core.workers[self.number].clients -= 1;
            socket.report_end(sums);
        }
    }

    /// Closes clients that stalled in the middle of a request or reply.
    pub(super) fn check_stalls(&mut self, core: &mut Core, now: Nanos) {
        if !self.sockets.take_stall_check(now) {
            return;
        }
        let timeout_ns = self.shared.settings.stall_timeout_ns;
        for index in self.sockets.indexes() {
            let Some(socket) = self.sockets.get(index) else { continue };
            let Some(since) = socket.stalls.since_ns() else { continue };
            let at = since.saturating_add(timeout_ns);
            if hoistway_block::time::is_due(now, at) {
                self.close_connection(core, index, EndReason::Stalled, now);
            } else {
                self.sockets.expect_stall(at);
            }
        }
    }

    /// Schedules a stall check, because a client could stall from now on.
    pub(super) fn expect_stalls(&mut self, now: Nanos) {
        self.sockets.expect_stall(now.saturating_add(self.shared.settings.stall_timeout_ns));
    }
}

/// Applies the turn's verdict.
fn apply_verdict(socket: &mut Socket, verdict: Verdict) {
    socket.stream = match verdict {
        Verdict::Go => Stream::Parsing,
        Verdict::Fill(span) => Stream::Filling(span),
        Verdict::Skip(bytes) => Stream::Skipping(u64::from(bytes)),
        Verdict::Wait => Stream::Waiting,
    };
}

fn clamp_header(bytes: usize) -> u32 {
    u32::try_from(bytes.clamp(1, MAX_HEADER_BYTES)).unwrap_or(1)
}
