//! Admission of a request: it is refused, or given credit, cut into parts and given memory.

use hoistway_block::{Extent, GroupId, Nanos, Operation, SECTOR_BYTES};
use hoistway_elevator::{Any, Attributes, Elevator};
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::Emptying;

use super::state::{Part, PartKind, Pending, Request, Stage, Volume, Waiting, context_id};
use super::{Action, Actions, Piece, Turn, Verdict};
use crate::flush::Joined;
use crate::overlay::format::BLOCK_BYTES;
use crate::protocol::{ClientRequest, Command, Failure};
use crate::table::NIL;

/// Parts of one request that may be active at once, so that a long request needs little memory.
const PARTS_AT_ONCE: u32 = 4;
/// Longest range that one part empties, that is, zeroes or punches a hole into without writing.
const MAX_EMPTYING_BYTES: u64 = 1 << 30;
/// A scheduler's wish does not cut a request into more parts than about this: those of a read in one
/// piece must all find room in the table of parts at once.
const MOST_CUTS: u64 = 256;
/// No scheduler wants requests of this length cut.
const SHORTEST_CUT_BYTES: u64 = Any::TRAITS.quantum_sectors as u64 * SECTOR_BYTES;

/// The next range of a request.
#[derive(Default)]
struct Cut {
    kind: PartKind,
    length_bytes: u32,
    /// Memory for data, in bytes; 0 = none.
    slot_bytes: u32,
    /// Memory for the blocks that it covers only partly, in bytes; 0 = none.
    scratch_bytes: u32,
    /// Whether the slot is to be zeroed, because it gets no payload.
    is_zeroed: bool,
    /// As in [`Part`].
    is_of_base: bool,
    is_copying: bool,
}

/// The result of an attempt to make a part.
enum PartOutcome {
    /// It was submitted.
    Submitted,
    /// It was made; its payload goes into this span.
    ToFill(Span),
    /// There is no memory, or no free table entry.
    NoMemory,
}

impl Turn {
    /// Takes a request from a connection's stream. Must not be called unless the last verdict was
    /// `Go`, or was carried out.
    pub fn submit(&mut self, connection: u32, asked: ClientRequest, now: Nanos, actions: &mut Actions) -> Verdict {
        debug_assert_eq!(self.connections[connection].pending, Pending::Nothing);
        self.connections[connection].pending = Pending::New(asked);
        self.continue_pending(connection, now, actions)
    }

    /// Takes a request that the protocol has already decided, so that it only has to be answered.
    /// After `Wait`, the next [`Action::Continue`] says when to try again.
    pub fn submit_answered(
        &mut self,
        connection: u32,
        asked: ClientRequest,
        failure: Option<Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) -> Verdict {
        let Some(request) = self.take_credit(connection, asked, now) else {
            self.queue_up(connection);
            return Verdict::Wait;
        };
        self.answer_now(request, failure, actions);
        Verdict::Go
    }

    /// Tells that the span of the last verdict is filled.
    pub fn filled(&mut self, connection: u32, now: Nanos, actions: &mut Actions) -> Verdict {
        let Some(part) = self.connections[connection].filling.take() else {
            self.counters.violations += 1;
            return Verdict::Go;
        };
        self.enter(part, now, actions);
        self.continue_pending(connection, now, actions)
    }

    /// Goes on with a connection's stream before the span of the last verdict is filled. The part is returned: when it
    /// is filled, and before its connection is closed, [`Turn::enter_filled`] takes it.
    pub fn set_aside(&mut self, connection: u32, now: Nanos, actions: &mut Actions) -> (Option<u32>, Verdict) {
        let part = self.connections[connection].filling.take();
        self.counters.violations += u64::from(part.is_none());
        (part, self.continue_pending(connection, now, actions))
    }

    /// Takes a part that was [set aside](Turn::set_aside) and is filled.
    pub fn enter_filled(&mut self, part: u32, now: Nanos, actions: &mut Actions) {
        self.enter(part, now, actions);
    }

    /// Tells that the bytes of the last verdict are discarded.
    pub fn skipped(&mut self, connection: u32, now: Nanos, actions: &mut Actions) -> Verdict {
        if let Some(request) = self.connections[connection].refused.take() {
            let failure = self.requests[request].failure;
            self.answer_now(request, failure, actions);
        }
        self.continue_pending(connection, now, actions)
    }

    /// Tells that the span of the last verdict could not be filled. It is not written, and no later part of its
    /// request; the request fails when what was written of it has ended.
    pub fn unfilled(&mut self, connection: u32, failure: Failure, now: Nanos, actions: &mut Actions) -> Verdict {
        let Some(part) = self.connections[connection].filling.take() else {
            self.counters.violations += 1;
            return Verdict::Go;
        };
        let request = &mut self.requests[self.parts[part].request];
        request.end_bytes = request.next_bytes;
        self.end_part(part, Some(failure), now, actions);
        self.continue_pending(connection, now, actions)
    }

    /// Continues the pending request of a connection; if it needs memory, the connection joins its
    /// group's queue.
    fn continue_pending(&mut self, connection: u32, now: Nanos, actions: &mut Actions) -> Verdict {
        let verdict = self.advance(connection, now, actions);
        if verdict == Verdict::Wait {
            self.queue_up(connection);
        }
        verdict
    }

    fn queue_up(&mut self, connection: u32) {
        let state = &self.connections[connection];
        match state.waiting {
            Waiting::Memory => {
                self.counters.pauses_for_memory += 1;
                self.buffers.wait(state.group, connection);
            }
            _ => self.counters.pauses_for_credit += 1,
        }
    }

    /// Continues a connection that waited for its own requests.
    pub(super) fn resume(&mut self, connection: u32, now: Nanos, actions: &mut Actions) {
        let verdict = self.continue_pending(connection, now, actions);
        if verdict != Verdict::Wait {
            actions.push(Action::Continue { connection, verdict });
        }
    }

    /// Memory was freed: retries the waiting groups in rotation, until every group was tried without success.
    pub(super) fn retry_waiting(&mut self, now: Nanos, actions: &mut Actions) {
        let mut failures = 0;
        while failures < self.buffers.waiting_groups() {
            let Some((group, connection)) = self.buffers.next_waiting() else { return };
            let verdict = self.advance(connection, now, actions);
            if verdict != Verdict::Wait {
                failures = 0;
                actions.push(Action::Continue { connection, verdict });
            } else if self.connections[connection].waiting == Waiting::Memory {
                failures += 1;
                self.buffers.wait_on(group, connection);
            }
        }
    }

    fn advance(&mut self, connection: u32, now: Nanos, actions: &mut Actions) -> Verdict {
        self.connections[connection].waiting = Waiting::No;
        loop {
            match self.connections[connection].pending {
                Pending::Nothing => return Verdict::Go,
                Pending::New(asked) => {
                    let Some(request) = self.take_credit(connection, asked, now) else { return Verdict::Wait };
                    self.connections[connection].pending = Pending::Nothing;
                    if let Some(failure) = self.refusal(connection, &asked) {
                        if asked.payload_bytes > 0 {
                            // A client takes an answer to a request that it is still sending for a
                            // fault of the server.
                            self.requests[request].failure = Some(failure);
                            self.connections[connection].refused = Some(request);
                            return Verdict::Skip(asked.payload_bytes);
                        }
                        self.answer_now(request, Some(failure), actions);
                        return Verdict::Go;
                    }
                    self.begin(request, now, actions);
                    if self.requests[request].next_bytes < self.requests[request].end_bytes {
                        self.connections[connection].pending = Pending::Parts(request);
                    }
                }
                Pending::Parts(request) => {
                    let of = &self.requests[request];
                    if of.next_bytes >= of.end_bytes {
                        self.connections[connection].pending = Pending::Nothing;
                        continue;
                    }
                    if of.parts_working + of.parts_unsent >= PARTS_AT_ONCE && !of.asked.one_piece {
                        self.connections[connection].waiting = Waiting::Parts;
                        return Verdict::Wait;
                    }
                    match self.make_parts(request, now, actions) {
                        PartOutcome::Submitted => {}
                        PartOutcome::ToFill(span) => return Verdict::Fill(span),
                        PartOutcome::NoMemory => {
                            self.connections[connection].waiting = Waiting::Memory;
                            return Verdict::Wait;
                        }
                    }
                }
            }
        }
    }

    /// Takes a table entry and the connection's credit, or stores the reason to wait in `waiting`.
    fn take_credit(&mut self, connection: u32, asked: ClientRequest, now: Nanos) -> Option<u32> {
        // Only reads have data to send in one piece. The flag is removed from other requests,
        // because a write with it would be submitted before its payload is received.
        let asked = ClientRequest { one_piece: asked.one_piece && asked.command == Command::Read, ..asked };
        let cost = credit_bytes(&asked);
        let state = &mut self.connections[connection];
        let is_over = state.bytes + cost > state.bounds.bytes && state.requests > 0;
        if state.requests >= state.bounds.requests || is_over {
            state.waiting = Waiting::Credit;
            return None;
        }
        let volume = self.volumes.get_mut(state.volume as usize).and_then(Option::as_mut);
        // A volume may hold as many entries as are free, so that one that does not answer leaves some to the others.
        let may_take = volume.as_ref().is_none_or(|volume| (volume.requests as usize) < self.requests.room());
        let taken = if may_take { self.requests.take(Request::new(asked, connection, now)) } else { None };
        let Some(request) = taken else {
            state.waiting = Waiting::Memory;
            return None;
        };
        if let Some(volume) = volume {
            volume.requests += 1;
        }
        state.requests += 1;
        state.bytes += cost;
        let group = state.group;
        if let Some(Some(group)) = self.groups.get_mut(group as usize) {
            group.usage.began(now);
        }
        if asked.is_direct {
            self.keep_client_memory(request);
        }
        Some(request)
    }

    /// The reason to refuse a request, if there is one.
    fn refusal(&self, connection: u32, asked: &ClientRequest) -> Option<Failure> {
        let volume = self.volume_of(connection)?;
        let is_write = matches!(asked.command, Command::Write | Command::Trim | Command::WriteZeroes);
        if self.is_draining {
            return Some(Failure::Shutdown);
        }
        if is_write && volume.abilities.is_read_only {
            return Some(Failure::NotPermitted);
        }
        let end = asked.offset_bytes.checked_add(asked.length_bytes);
        let visible_bytes = self.connections[connection].visible_bytes;
        if end.is_none_or(|end| end > visible_bytes) && asked.command != Command::Flush {
            return Some(match asked.command {
                Command::Write | Command::WriteZeroes => Failure::NoSpace,
                _ => Failure::Invalid,
            });
        }
        if let Some(damage) = volume.damage {
            let is_durable = is_write && asked.fua && !volume.abilities.has_unsafe_flush;
            if is_durable || damage.has_lost(asked) {
                return Some(Failure::Io);
            }
        }
        if asked.one_piece && asked.length_bytes > self.buffers.bytes().1 / 2 {
            return Some(Failure::Overflow);
        }
        if asked.command == Command::WriteZeroes && asked.fast_zero && self.emptying_for(connection, asked).is_none() {
            return Some(Failure::NotSupported);
        }
        None
    }

    /// How zeroes can be made without writing them, if the volume can.
    pub(super) fn emptying_for(&self, connection: u32, asked: &ClientRequest) -> Option<Emptying> {
        let abilities = &self.volume_of(connection)?.abilities;
        if !asked.no_hole && abilities.can_punch {
            return Some(Emptying::PunchHole);
        }
        abilities.can_zero.then_some(Emptying::ZeroRange)
    }

    /// Answers a request that needs no parts; otherwise prepares its parts.
    fn begin(&mut self, request: u32, now: Nanos, actions: &mut Actions) {
        let Request { asked, connection, .. } = self.requests[request];
        let index = self.connections[connection].volume;
        let Some(volume) = self.volume_of(connection) else {
            self.counters.violations += 1;
            return self.answer_now(request, Some(Failure::Io), actions);
        };
        let is_null = volume.abilities.is_null;
        let emptying_alignment = u64::from(volume.abilities.emptying_alignment_bytes);
        let end = asked.offset_bytes + asked.length_bytes;
        match asked.command {
            Command::Flush => self.flush(request, now, actions),
            Command::BlockStatus => actions.push(Action::Status { request, volume: index }),
            Command::Cache => self.answer_now(request, None, actions),
            _ if asked.length_bytes == 0 => self.answer_now(request, None, actions),
            Command::Read | Command::Write => self.requests[request].end_bytes = end,
            Command::Trim | Command::WriteZeroes if is_null => self.answer_now(request, None, actions),
            Command::WriteZeroes => self.requests[request].end_bytes = end,
            Command::Trim => {
                // Trimming less than asked is allowed: the edges that the device cannot empty stay
                // as they are.
                let first = asked.offset_bytes.next_multiple_of(emptying_alignment);
                let behind = end - end % emptying_alignment;
                let (first, behind) = self.without_parts_of_base_blocks(connection, first, behind);
                let can_trim = self.volume_of(connection).is_some_and(|volume| volume.abilities.trimming.is_some());
                if first >= behind || !can_trim {
                    return self.answer_now(request, None, actions);
                }
                self.requests[request].first_bytes = first;
                self.requests[request].next_bytes = first;
                self.requests[request].end_bytes = behind;
            }
        }
    }

    /// Makes everything durable that completed before the request.
    pub(super) fn flush(&mut self, request: u32, now: Nanos, actions: &mut Actions) {
        let index = self.connections[self.requests[request].connection].volume;
        let Some(volume) = self.volumes.get_mut(index as usize).and_then(Option::as_mut) else {
            self.counters.violations += 1;
            return self.answer_now(request, Some(Failure::Io), actions);
        };
        if volume.abilities.is_null || volume.abilities.has_unsafe_flush || volume.abilities.is_read_only {
            return self.answer_now(request, None, actions);
        }
        if volume.damage.is_some() {
            return self.answer_now(request, Some(Failure::Io), actions);
        }
        match volume.flush.join(request, now) {
            Joined::Start => {
                volume.flush_begins();
                self.counters.syncs += 1;
                actions.push(Action::Sync { volume: index });
            }
            Joined::Wait => {}
        }
    }

    /// Makes the next part of a request; for a read in one piece, all parts or none.
    fn make_parts(&mut self, request: u32, now: Nanos, actions: &mut Actions) -> PartOutcome {
        // As with requests: as many as are free. Not checked for each part, because a read in one piece needs all.
        let room = self.parts.room();
        if self.volume_of(self.requests[request].connection).is_some_and(|volume| volume.parts as usize > room) {
            return PartOutcome::NoMemory;
        }
        if !self.requests[request].asked.one_piece {
            let group = self.connections[self.requests[request].connection].group;
            let has_nothing = self.buffers.used_bytes(group) == 0;
            return match self.make_part(request, has_nothing, now) {
                None => PartOutcome::NoMemory,
                Some(part) if self.parts[part].stage == Stage::Filling => {
                    let connection = self.requests[request].connection;
                    let asked = &self.requests[request].asked;
                    if asked.command == Command::Write && !asked.is_direct {
                        self.connections[connection].filling = Some(part);
                        return PartOutcome::ToFill(self.data_of(part));
                    }
                    self.enter(part, now, actions);
                    PartOutcome::Submitted
                }
                Some(_) => PartOutcome::Submitted,
            };
        }
        let start = self.requests[request].next_bytes;
        let group = self.connections[self.requests[request].connection].group;
        // A group that holds no memory may exceed its bound for one request: otherwise a long one
        // could never run.
        let may_pass_bound = self.buffers.used_bytes(group) == 0;
        while self.requests[request].next_bytes < self.requests[request].end_bytes {
            if self.make_part(request, may_pass_bound, now).is_none() {
                self.unmake_parts(request, start);
                return PartOutcome::NoMemory;
            }
        }
        let mut at = self.requests[request].first_part;
        while at != NIL {
            self.enter(at, now, actions);
            at = self.parts[at].next;
        }
        PartOutcome::Submitted
    }

    fn unmake_parts(&mut self, request: u32, start_bytes: u64) {
        let mut at = self.requests[request].first_part;
        while at != NIL {
            let next = self.parts[at].next;
            self.release_part(at);
            at = next;
        }
        let request = &mut self.requests[request];
        (request.first_part, request.last_part) = (NIL, NIL);
        request.next_bytes = start_bytes;
        request.parts_working = 0;
    }

    /// Cuts the next part off a request and gives it memory.
    fn make_part(&mut self, request: u32, may_pass_bound: bool, now: Nanos) -> Option<u32> {
        if self.parts.room() == 0 {
            return None;
        }
        let cut = self.cut(request, now)?;
        let connection = self.requests[request].connection;
        let group = self.connections[connection].group;
        let [slot, scratch] = self.buffers.take(group, [cut.slot_bytes, cut.scratch_bytes], may_pass_bound)?;
        let of = &mut self.requests[request];
        let part = Part {
            request,
            offset_bytes: of.next_bytes,
            begun_bytes: of.next_bytes,
            length_bytes: cut.length_bytes,
            kind: cut.kind,
            stage: Stage::Filling,
            slot,
            scratch,
            next: NIL,
            older_writer: NIL,
            newer_writer: NIL,
            is_modifying: cut.scratch_bytes > 0,
            is_of_base: cut.is_of_base,
            is_copying: cut.is_copying,
        };
        of.next_bytes += u64::from(cut.length_bytes);
        of.parts_working += 1;
        let (is_one_piece, last) = (of.asked.one_piece, of.last_part);
        let index = self.parts.take(part)?;
        if let Some(volume) = self.volume_of_mut(connection) {
            volume.parts += 1;
        }
        if is_one_piece {
            match last {
                NIL => self.requests[request].first_part = index,
                last => self.parts[last].next = index,
            }
            self.requests[request].last_part = index;
        }
        if cut.is_zeroed {
            self.buffers.fill(self.data_of(index), 0);
        }
        Some(index)
    }

    /// Length of the windows that a request is cut at: what a transfer of the device may have, or less
    /// if the scheduler wants transfers of this issuer to be shorter now.
    fn longest_part(&self, request: u32, now: Nanos) -> u64 {
        let Request { asked, connection, .. } = self.requests[request];
        let most = u64::from(self.buffers.most_bytes());
        if asked.length_bytes <= SHORTEST_CUT_BYTES {
            return most;
        }
        // A write of part of a block would have to read it first.
        let block_bytes = self.volume_of(connection).map_or(1, Volume::block_bytes);
        let least = block_bytes.max((asked.length_bytes / MOST_CUTS).next_power_of_two());
        let connection = &self.connections[connection];
        let bio = Attributes {
            context: context_id(connection),
            group: GroupId(connection.group),
            ..Attributes::new(Operation::Read, Extent::new(0, 0))
        };
        let sectors = self.queue.elevator().longest_sectors(&bio, now);
        let wanted = (u64::from(sectors) * SECTOR_BYTES).max(least);
        most.min(wanted - wanted % block_bytes)
    }

    /// The length and memory of the next part.
    fn cut(&self, request: u32, now: Nanos) -> Option<Cut> {
        let Request { asked, connection, next_bytes: from, end_bytes: end, .. } = self.requests[request];
        let volume = self.volume_of(connection)?;
        let abilities = &volume.abilities;
        let window = self.longest_part(request, now);
        let window_end = (from - from % window).saturating_add(window).min(end);
        let is_transfer = matches!(asked.command, Command::Read | Command::Write);
        // All of a part is in the same file.
        let (is_of_base, end) = volume.source(from, if is_transfer { window_end } else { end });
        let window_end = window_end.min(end);
        match asked.command {
            Command::Read | Command::Write if asked.is_direct => {
                let kind = if asked.command == Command::Read { PartKind::Read } else { PartKind::Write };
                let length_bytes = u32::try_from(window_end - from).unwrap_or(self.buffers.most_bytes());
                Some(Cut { kind, length_bytes, is_of_base: is_of_base && kind == PartKind::Read, ..Cut::default() })
            }
            Command::Write if is_of_base => Some(cut_copy(from, window_end)),
            Command::Read | Command::Write => {
                let positions = volume.positions(is_of_base);
                let until = window_end.min(positions.locate(from).until_bytes.max(from + 1));
                let kind = if asked.command == Command::Read { PartKind::Read } else { PartKind::Write };
                let is_sourceless = abilities.is_null && kind == PartKind::Read;
                let cut = cut_transfer(kind, from, until, abilities.alignment_bytes, is_sourceless);
                Some(Cut { is_of_base, ..cut })
            }
            Command::Trim => {
                // If the ability was withdrawn since the request began, the part ends without effect.
                let how = abilities.trimming.unwrap_or(Emptying::PunchHole);
                Some(cut_emptying(how, (end - from).min(MAX_EMPTYING_BYTES)))
            }
            _ => {
                let emptying = self.emptying_for(connection, &asked);
                // Ranges that cannot be emptied because of their alignment are written, block by
                // block at the edges.
                let alignment = match emptying {
                    _ if is_of_base => BLOCK_BYTES,
                    Some(_) => u64::from(abilities.emptying_alignment_bytes),
                    None => u64::from(abilities.alignment_bytes),
                };
                let edge = from.next_multiple_of(alignment).min(end);
                if from < edge || end - from < alignment {
                    let until = if from < edge { edge } else { end };
                    let cut = match is_of_base {
                        true => cut_copy(from, until),
                        false => cut_transfer(PartKind::Write, from, until, abilities.alignment_bytes, false),
                    };
                    return Some(Cut { is_zeroed: true, ..cut });
                }
                let whole = end - end % alignment;
                if let Some(how) = emptying {
                    return Some(cut_emptying(how, (whole - from).min(MAX_EMPTYING_BYTES)));
                }
                let length_bytes = u32::try_from(window_end.min(whole) - from).unwrap_or(self.buffers.most_bytes());
                Some(Cut { kind: PartKind::Zeroes, length_bytes, ..Cut::default() })
            }
        }
    }

    /// Answers a request without parts; it is finished when the answer is sent.
    pub(super) fn answer_now(&mut self, request: u32, failure: Option<Failure>, actions: &mut Actions) {
        self.requests[request].failure = failure;
        let piece = match failure {
            None => Piece::Done,
            Some(failure) => Piece::Failed { failure, offset_bytes: None, last: true },
        };
        self.reply(request, piece, actions);
    }
}

/// Bytes of its connection's bound that a request uses.
pub(super) fn credit_bytes(asked: &ClientRequest) -> u64 {
    match asked.command {
        Command::Read | Command::Write => asked.length_bytes,
        _ => 0,
    }
}

fn cut_transfer(kind: PartKind, from: u64, until: u64, alignment_bytes: u32, is_sourceless: bool) -> Cut {
    let alignment = u64::from(alignment_bytes);
    let first = from - from % alignment;
    let behind = until.next_multiple_of(alignment);
    let bytes = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
    let covers_all = first == from && behind == until;
    Cut {
        kind,
        length_bytes: bytes(until - from),
        slot_bytes: if is_sourceless { 0 } else { bytes(behind - first) },
        scratch_bytes: if kind == PartKind::Write && !covers_all { 2 * alignment_bytes } else { 0 },
        ..Cut::default()
    }
}

/// A write of blocks of an overlay that are those of its base so far: what it has of them, and what it copies.
fn cut_copy(from: u64, until: u64) -> Cut {
    let block_bytes = u32::try_from(BLOCK_BYTES).unwrap_or(u32::MAX);
    let cut = cut_transfer(PartKind::Write, from, until, block_bytes, false);
    Cut { is_copying: cut.scratch_bytes > 0, ..cut }
}

fn cut_emptying(how: Emptying, length_bytes: u64) -> Cut {
    let length_bytes = u32::try_from(length_bytes).unwrap_or(u32::MAX);
    Cut { kind: PartKind::Empty(how), length_bytes, ..Cut::default() }
}
