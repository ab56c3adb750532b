//! The stages of a part: wait for its blocks, read blocks that it covers partly, transfer, end.

use hoistway_block::{Extent, Flags, GroupId, Nanos, Operation, RequestId, SECTOR_BYTES, Status};
use hoistway_elevator::Attributes;
use hoistway_linux::buffer::Span;
use hoistway_linux::ring::{Emptying, is_request_memory};

use super::ends::Left;
use super::state::{Part, PartKind, Stage, Volume, base_attribute, context_id, device_attribute};
use super::{Action, Actions, Turn};
use crate::overlay::format::BLOCK_BYTES;
use crate::protocol::{Command, Failure};
use crate::table::NIL;

/// Errors of the system that mean "try again".
const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const MAX_RETRIES: u8 = 3;
/// The block that is copied on write.
#[expect(clippy::cast_possible_truncation, reason = "64 KiB")]
const COPIED_BYTES: u32 = BLOCK_BYTES as u32;

impl Turn {
    /// Submits a part that has its payload to the queue, unless an older part still uses one of its
    /// blocks.
    pub(super) fn enter(&mut self, part: u32, now: Nanos, actions: &mut Actions) {
        if self.is_writer(part) && self.link_writer(part) {
            return;
        }
        self.begin_part(part, now, actions);
    }

    fn begin_part(&mut self, part: u32, now: Nanos, actions: &mut Actions) {
        let at = &self.parts[part];
        let stage = match at.is_modifying {
            false => Stage::Transfer,
            true if self.skip_of(at) > 0 => Stage::ReadingHead,
            true => Stage::ReadingTail,
        };
        self.parts[part].stage = stage;
        self.submit_bio(part, now, actions);
    }

    /// The range of the file that the part's present stage reads or writes, and its memory.
    pub(super) fn transfer_of(&self, part: &Part) -> (u64, Span) {
        let alignment = u64::from(self.alignment_of(part));
        let first = part.offset_bytes - part.offset_bytes % alignment;
        let end = part.offset_bytes + u64::from(self.piece_of(part));
        let behind = end.next_multiple_of(alignment);
        let block = u32::try_from(alignment).unwrap_or(u32::MAX);
        let length_bytes = u32::try_from(behind - first).unwrap_or(u32::MAX);
        match (part.stage, part.scratch) {
            (Stage::ReadingHead, Some(scratch)) => (first, Span::of(scratch, 0, block)),
            (Stage::ReadingTail, Some(scratch)) => (behind - alignment, Span::of(scratch, block, block)),
            _ => (first, Span::of(part.slot.unwrap_or(self.buffers.zeroes()), 0, length_bytes)),
        }
    }

    /// Bytes that the part's next transfer moves. Zeroes are written in pieces, because a part that could
    /// not be emptied is longer than the memory that holds them.
    fn piece_of(&self, part: &Part) -> u32 {
        if part.kind == PartKind::Zeroes { part.length_bytes.min(self.buffers.most_bytes()) } else { part.length_bytes }
    }

    /// Bytes between the start of the part's memory and its data.
    #[inline]
    pub(super) fn skip_of(&self, part: &Part) -> u32 {
        let skip = part.offset_bytes & u64::from(self.alignment_of(part) - 1);
        u32::try_from(skip).unwrap_or(0)
    }

    /// Alignment of the part's transfer: that of its volume, or the block that is copied on write.
    #[inline]
    fn alignment_of(&self, part: &Part) -> u32 {
        if part.is_copying { COPIED_BYTES } else { self.file_alignment_of(part) }
    }

    /// Alignment that the part's volume needs.
    #[inline]
    fn file_alignment_of(&self, part: &Part) -> u32 {
        self.volume_of(self.requests[part.request].connection).map_or(1, |volume| volume.abilities.alignment_bytes)
    }

    fn submit_bio(&mut self, part: u32, now: Nanos, actions: &mut Actions) {
        let bio = self.bio_of(&self.parts[part]);
        // The queue has room for a bio of every part; a refusal is a defect, but must not lose the
        // request.
        let submitted = match self.plugs.taking() {
            Some(plug) => self.queue.submit_plugged(&bio, u64::from(part), plug, now),
            None => self.queue.submit(&bio, u64::from(part), now),
        };
        if submitted.is_err() {
            self.counters.violations += 1;
            self.end_part(part, Some(Failure::Io), now, actions);
        }
        self.take_trace();
    }

    fn bio_of(&self, part: &Part) -> Attributes {
        let request = &self.requests[part.request];
        let connection = &self.connections[request.connection];
        let (from_bytes, length_bytes) = match part.kind {
            PartKind::Empty(_) => (part.offset_bytes, part.length_bytes),
            _ => {
                let (from, span) = self.transfer_of(part);
                (from, span.length_bytes)
            }
        };
        let mut priority = connection.priority;
        let mut place = super::state::Place { device_bytes: from_bytes, until_bytes: u64::MAX, extent: 0 };
        let is_of_base = self.reads_base(part, from_bytes);
        if let Some(volume) = self.volume_of(request.connection) {
            place = volume.positions(is_of_base).locate(from_bytes);
            if priority == hoistway_block::Priority::NONE {
                priority = volume.abilities.priority;
            }
        }
        let end_bytes = place.device_bytes.saturating_add(u64::from(length_bytes));
        let first_sector = place.device_bytes / SECTOR_BYTES;
        let sectors = u32::try_from(end_bytes.div_ceil(SECTOR_BYTES) - first_sector).unwrap_or(u32::MAX);
        let is_reading = matches!(part.stage, Stage::ReadingHead | Stage::ReadingTail) || part.kind == PartKind::Read;
        let operation = match part.kind {
            _ if is_reading => Operation::Read,
            PartKind::Read | PartKind::Write => Operation::Write,
            PartKind::Zeroes => Operation::WriteZeroes,
            PartKind::Empty(_) if request.asked.command == Command::Trim => Operation::Discard,
            PartKind::Empty(_) => Operation::WriteZeroes,
        };
        let is_whole = (place.device_bytes | end_bytes).is_multiple_of(SECTOR_BYTES);
        let is_plain = matches!(part.kind, PartKind::Read | PartKind::Write);
        let mut flags = Flags::SYNC;
        if !is_whole || !is_plain || request.asked.fua {
            flags = flags.with(Flags::NOMERGE);
        }
        // To the limiters, a client's request is one I/O and its own bytes, however it is done.
        let is_for_edge = matches!(part.stage, Stage::ReadingHead | Stage::ReadingTail);
        if is_for_edge || part.offset_bytes != request.first_bytes {
            flags = flags.with(Flags::IO_CHARGED);
        }
        if is_for_edge {
            flags = flags.with(Flags::BYTES_CHARGED);
        }
        let pieces = if self.is_direct(part) { self.client_memory_of(part, 0).count() } else { 1 };
        if self.is_direct(part) && self.client_memory_of(part, 0).any(is_request_memory) {
            // It cannot be in one transfer with other memory.
            flags = flags.with(Flags::NOMERGE);
        }
        Attributes {
            flags,
            priority,
            segments: u16::try_from(pieces).unwrap_or(u16::MAX),
            device: match is_of_base {
                false => device_attribute(connection.volume, place.extent),
                true => base_attribute(connection.volume, place.extent),
            },
            context: context_id(connection),
            group: GroupId(connection.group),
            ..Attributes::new(operation, Extent::new(first_sector, sectors))
        }
    }

    // ---- in the device ----

    /// Starts a request that the queue dispatched.
    pub(super) fn start(&mut self, io: RequestId, now: Nanos, actions: &mut Actions) {
        let mut parts = std::mem::take(&mut self.gathered);
        parts.clear();
        parts.extend(self.queue.bios_of(io).filter_map(|(cookie, _)| u32::try_from(cookie).ok()));
        self.counters.started_ios += 1;
        self.counters.merged_ios += u64::from(parts.len() > 1);
        for &part in &parts {
            let request = &mut self.requests[self.parts[part].request];
            if request.started_ns == 0 {
                request.started_ns = now;
            }
        }
        let turn = self.enter_device(io, now);
        let connection = parts.first().map_or(0, |&part| self.requests[self.parts[part].request].connection);
        let volume = self.connections[connection].volume;
        self.in_flight.begin(io, (connection, volume), turn, now);
        if !self.ends.has_departing() || !self.keep_back(io) {
            self.push_transfer(io, &parts, actions);
        }
        self.gathered = parts;
    }

    /// Makes the action that transfers a request, or the rest of it.
    fn push_transfer(&mut self, io: RequestId, parts: &[u32], actions: &mut Actions) {
        let Some(&first) = parts.first() else {
            self.counters.violations += 1;
            return;
        };
        let part = &self.parts[first];
        let volume = self.connections[self.requests[part.request].connection].volume;
        if let PartKind::Empty(how) = part.kind {
            let (position_bytes, length_bytes) = (part.offset_bytes, u64::from(part.length_bytes));
            actions.push(Action::Empty { io, volume, how, position_bytes, length_bytes });
            return;
        }
        let done = self.in_flight.at(io).done_bytes;
        let (from_bytes, _) = self.transfer_of(part);
        let is_write = part.kind != PartKind::Read && part.stage == Stage::Transfer;
        let is_durable = is_write && self.must_be_durable(part.request);
        let is_of_base = self.reads_base(part, from_bytes);
        let first_span = u32::try_from(actions.spans.len()).unwrap_or(u32::MAX);
        let (mut skip, mut bytes) = (done, 0);
        for &part in parts {
            let (_, span) = self.transfer_of(&self.parts[part]);
            let left = span.behind(skip);
            let skipped = span.length_bytes - left.length_bytes;
            skip -= skipped;
            bytes += left.length_bytes;
            if self.is_direct(&self.parts[part]) {
                actions.spans.extend(self.client_memory_of(&self.parts[part], skipped));
            } else if left.length_bytes > 0 {
                actions.spans.push(left);
            }
        }
        self.in_flight.at_mut(io).total_bytes = done + bytes;
        let spans = u32::try_from(actions.spans.len()).unwrap_or(u32::MAX) - first_span;
        let position_bytes = from_bytes + u64::from(done);
        actions.push(Action::Start {
            io,
            volume,
            is_of_base,
            is_write,
            position_bytes,
            first_span,
            spans,
            bytes,
            is_durable,
        });
    }

    pub(super) fn must_be_durable(&self, request: u32) -> bool {
        let request = &self.requests[request];
        request.asked.fua && self.volume_of(request.connection).is_some_and(|volume| !volume.abilities.has_unsafe_flush)
    }

    /// Ends an I/O: `result` is the bytes moved (any value that is not negative for emptying) or a
    /// negative errno.
    pub fn completed(&mut self, io: RequestId, result: i32, now: Nanos, actions: &mut Actions) {
        let operation = self.queue.requests().attributes(io).operation;
        let is_emptying = self
            .queue
            .bios_of(io)
            .next()
            .and_then(|(cookie, _)| self.parts.get(u32::try_from(cookie).ok()?))
            .is_some_and(|part| matches!(part.kind, PartKind::Empty(_)));
        let is_torn = operation == Operation::Read && self.is_torn(io, result);
        let is_abandoned = self.is_abandoned(io);
        let state = self.in_flight.at_mut(io);
        let failure = match u32::try_from(result) {
            // What a client that is gone did not get in the first attempt is not tried again.
            Err(_) if is_abandoned && matches!(-result, EAGAIN | EINTR) => Some(Failure::Shutdown),
            Err(_) if matches!(-result, EAGAIN | EINTR) && state.retries < MAX_RETRIES => {
                state.retries += 1;
                return self.transfer(io, actions);
            }
            Err(_) if is_emptying && is_unsupported(-result) => Some(Failure::NotSupported),
            Err(_) => Some(failure_of(-result)),
            Ok(_) if is_emptying => None,
            Ok(moved) => {
                state.done_bytes = state.done_bytes.saturating_add(moved);
                if state.done_bytes < state.total_bytes && is_abandoned {
                    Some(Failure::Shutdown)
                } else if state.done_bytes < state.total_bytes {
                    state.empty_answers += u8::from(moved == 0);
                    if state.empty_answers < 2 && !is_torn {
                        return self.transfer(io, actions);
                    }
                    // A read ended although the range lies inside the volume: another program has
                    // truncated the file.
                    Some(Failure::Io)
                } else {
                    None
                }
            }
        };
        if let Some(failure) = failure
            && !matches!(failure, Failure::NotSupported | Failure::Shutdown)
        {
            // What was moved before is no errno: the backing ends there.
            self.note_failure(io, operation, result.min(0), failure);
        }
        self.end_io(io, failure, now, actions);
    }

    /// An I/O leaves the device, or was kept back from it.
    pub(super) fn end_io(&mut self, io: RequestId, failure: Option<Failure>, now: Nanos, actions: &mut Actions) {
        self.leave_device(io, now);
        self.end_parts(io, failure, now, actions);
        if self.ends.has_departing() {
            self.departed(Left::Io(io), actions);
        }
    }

    /// A request of the queue has ended: its parts end or go on.
    pub(super) fn end_parts(&mut self, io: RequestId, failure: Option<Failure>, now: Nanos, actions: &mut Actions) {
        let mut done = std::mem::take(&mut self.done);
        self.queue.complete(io, status_of(failure), now, |bio| done.push(bio));
        self.take_trace();
        for bio in done.drain(..) {
            if let Ok(part) = u32::try_from(bio.cookie) {
                self.part_completed(part, failure, now, actions);
            }
        }
        self.done = done;
    }

    /// Starts the transfer of an I/O, or of the rest of it.
    pub(super) fn transfer(&mut self, io: RequestId, actions: &mut Actions) {
        let mut parts = std::mem::take(&mut self.gathered);
        parts.clear();
        parts.extend(self.queue.bios_of(io).filter_map(|(cookie, _)| u32::try_from(cookie).ok()));
        self.push_transfer(io, &parts, actions);
        self.gathered = parts;
    }

    /// Whether a read ended inside a block of direct I/O, as it does only at the end of the file. The
    /// rest of the block cannot be asked for.
    fn is_torn(&self, io: RequestId, moved: i32) -> bool {
        let part = self.queue.bios_of(io).next().and_then(|(cookie, _)| u32::try_from(cookie).ok());
        let alignment = part.and_then(|part| self.parts.get(part)).map_or(1, |part| self.file_alignment_of(part));
        u32::try_from(moved).is_ok_and(|moved| !moved.is_multiple_of(alignment))
    }

    fn part_completed(&mut self, part: u32, failure: Option<Failure>, now: Nanos, actions: &mut Actions) {
        let at = self.parts[part];
        let is_abandoned = self.connections[self.requests[at.request].connection].is_closed;
        if is_abandoned {
            let is_done = at.stage == Stage::Transfer && self.piece_of(&at) == at.length_bytes;
            return self.end_part(part, failure.or((!is_done).then_some(Failure::Shutdown)), now, actions);
        }
        if let (Some(Failure::NotSupported), PartKind::Empty(how)) = (failure, at.kind) {
            return self.empty_otherwise(part, how, now, actions);
        }
        match (failure, at.stage) {
            (None, Stage::Transfer) if self.piece_of(&at) < at.length_bytes => {
                let piece_bytes = self.piece_of(&at);
                self.parts[part].offset_bytes += u64::from(piece_bytes);
                self.parts[part].length_bytes -= piece_bytes;
                self.submit_bio(part, now, actions);
            }
            (None, Stage::ReadingHead) => {
                self.patch_head(&at);
                let next = if self.has_separate_tail(&at) { Stage::ReadingTail } else { Stage::Transfer };
                self.parts[part].stage = next;
                self.submit_bio(part, now, actions);
            }
            (None, Stage::ReadingTail) => {
                self.patch_tail(&at, false);
                self.parts[part].stage = Stage::Transfer;
                self.submit_bio(part, now, actions);
            }
            (None, Stage::Transfer) if self.stores(part, actions) => {}
            _ => self.end_part(part, failure, now, actions),
        }
    }

    /// The backing cannot empty ranges in this way after all. A trim has then done what it can; zeroes
    /// are made in another way, and written if there is none.
    fn empty_otherwise(&mut self, part: u32, how: Emptying, now: Nanos, actions: &mut Actions) {
        let index = self.parts[part].request;
        let (connection, asked) = (self.requests[index].connection, self.requests[index].asked);
        self.withdraw(self.connections[connection].volume, how);
        if asked.command == Command::Trim {
            return self.end_part(part, None, now, actions);
        }
        self.parts[part].kind = match self.emptying_for(connection, &asked) {
            Some(other) => PartKind::Empty(other),
            None if asked.fast_zero => {
                self.requests[index].end_bytes = self.requests[index].next_bytes;
                return self.end_part(part, Some(Failure::NotSupported), now, actions);
            }
            None => PartKind::Zeroes,
        };
        self.submit_bio(part, now, actions);
    }

    /// Whether the last block is covered partly and is not the first.
    fn has_separate_tail(&self, part: &Part) -> bool {
        let alignment = u64::from(self.alignment_of(part));
        !part.end_bytes().is_multiple_of(alignment) && part.offset_bytes / alignment != part.end_bytes() / alignment
    }

    fn patch_head(&self, part: &Part) {
        let (Some(slot), Some(scratch)) = (part.slot, part.scratch) else { return };
        let skip = self.skip_of(part);
        self.buffers.copy(Span::of(scratch, 0, skip), Span::of(slot, 0, skip));
        if !self.has_separate_tail(part) {
            self.patch_tail(part, true);
        }
    }

    /// Copies the old bytes behind the data; from the head block if first and last block are the
    /// same.
    fn patch_tail(&self, part: &Part, from_head: bool) {
        let (Some(slot), Some(scratch)) = (part.slot, part.scratch) else { return };
        let alignment = self.alignment_of(part);
        let behind = self.skip_of(part) + part.length_bytes;
        let into = behind % alignment;
        if into == 0 {
            return;
        }
        let from = into + if from_head { 0 } else { alignment };
        let bytes = alignment - into;
        self.buffers.copy(Span::of(scratch, from, bytes), Span::of(slot, behind, bytes));
    }

    // ---- blocks that are read, modified and written back ----

    fn is_writer(&self, part: u32) -> bool {
        let part = &self.parts[part];
        let is_ordered = |volume: &Volume| volume.abilities.alignment_bytes > 1 || volume.overlay.is_some();
        part.kind != PartKind::Read && self.volume_of(self.requests[part.request].connection).is_some_and(is_ordered)
    }

    /// Adds a part to its volume's writers; returns whether it must wait for an older one.
    ///
    /// Two writes of which one reads a block, changes it and writes it back may not overlap in
    /// their blocks: the later one would restore old bytes. Plain reads and whole-block writes need
    /// no order among themselves.
    fn link_writer(&mut self, part: u32) -> bool {
        let connection = self.requests[self.parts[part].request].connection;
        let is_modifying = self.parts[part].is_modifying;
        let Some(volume) = self.volume_of_mut(connection) else { return false };
        let older = volume.writers_tail;
        volume.writers_tail = part;
        if older == NIL {
            volume.writers_head = part;
        }
        volume.modifying += u32::from(is_modifying);
        let has_modifying = volume.modifying > 0;
        self.parts[part].older_writer = older;
        self.parts[part].newer_writer = NIL;
        if older != NIL {
            self.parts[older].newer_writer = part;
        }
        if !has_modifying || !self.conflicts_with_older(part) {
            return false;
        }
        self.parts[part].stage = Stage::Blocked;
        if let Some(volume) = self.volume_of_mut(connection) {
            volume.blocked += 1;
        }
        true
    }

    fn conflicts_with_older(&self, part: u32) -> bool {
        let at = &self.parts[part];
        // Each has its own blocks: of an overlay, those that are copied are larger.
        let blocks = |part: &Part| {
            let alignment = u64::from(self.alignment_of(part));
            (part.offset_bytes - part.offset_bytes % alignment, part.end_bytes().next_multiple_of(alignment))
        };
        let (first, behind) = blocks(at);
        let mut older = at.older_writer;
        while older != NIL {
            let other = &self.parts[older];
            let (other_first, other_behind) = blocks(other);
            if (at.is_modifying || other.is_modifying) && first < other_behind && other_first < behind {
                return true;
            }
            older = other.older_writer;
        }
        false
    }

    /// Removes a part from its volume's writers and starts the parts that waited only for this one.
    pub(super) fn unlink_writer(&mut self, part: u32, now: Nanos, actions: &mut Actions) {
        let Part { older_writer: older, newer_writer: newer, is_modifying, stage, request, .. } = self.parts[part];
        let connection = self.requests[request].connection;
        if older != NIL {
            self.parts[older].newer_writer = newer;
        }
        if newer != NIL {
            self.parts[newer].older_writer = older;
        }
        let Some(volume) = self.volume_of_mut(connection) else { return };
        if older == NIL {
            volume.writers_head = newer;
        }
        if newer == NIL {
            volume.writers_tail = older;
        }
        volume.modifying -= u32::from(is_modifying);
        volume.blocked -= u32::from(stage == Stage::Blocked);
        if volume.blocked == 0 {
            return;
        }
        let mut at = newer;
        while at != NIL {
            let next = self.parts[at].newer_writer;
            // Those of a closed connection are about to be dropped.
            let is_open = !self.connections[self.requests[self.parts[at].request].connection].is_closed;
            if self.parts[at].stage == Stage::Blocked && is_open && !self.conflicts_with_older(at) {
                if let Some(volume) = self.volume_of_mut(connection) {
                    volume.blocked -= 1;
                }
                self.begin_part(at, now, actions);
            }
            at = next;
        }
    }

    /// Whether a part is on its volume's list of writers.
    pub(super) fn is_linked_writer(&self, part: u32) -> bool {
        self.is_writer(part) && self.parts[part].stage != Stage::Filling
    }
}

/// Whether an errno means that a range cannot be emptied in this way, as opposed to a failure.
fn is_unsupported(errno: i32) -> bool {
    const EINVAL: i32 = 22;
    const ENOTTY: i32 = 25;
    const ENOSYS: i32 = 38;
    const EOPNOTSUPP: i32 = 95;
    matches!(errno, EINVAL | ENOTTY | ENOSYS | EOPNOTSUPP)
}

/// The failure that the client gets for an errno.
fn failure_of(errno: i32) -> Failure {
    const EPERM: i32 = 1;
    const EACCES: i32 = 13;
    const EINVAL: i32 = 22;
    const EFBIG: i32 = 27;
    const ENOSPC: i32 = 28;
    const EROFS: i32 = 30;
    const EDQUOT: i32 = 122;
    match errno {
        EPERM | EACCES | EROFS => Failure::NotPermitted,
        ENOSPC | EDQUOT | EFBIG => Failure::NoSpace,
        EINVAL => Failure::Invalid,
        _ => Failure::Io,
    }
}

fn status_of(failure: Option<Failure>) -> Status {
    match failure {
        None => Status::Ok,
        Some(Failure::NotPermitted) => Status::NotPermitted,
        Some(Failure::Invalid | Failure::Overflow) => Status::Invalid,
        Some(Failure::NoSpace) => Status::NoSpace,
        Some(Failure::NotSupported) => Status::NotSupported,
        Some(Failure::Io | Failure::Shutdown) => Status::IoError,
    }
}
