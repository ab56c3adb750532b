//! Disk I/O: inline for small requests on files in memory, on threads of the volume where the file blocks, through
//! the ring otherwise; fsync; allocation queries.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hoistway_block::{Extent, Nanos, Operation, RequestId};
use hoistway_linux::buffer::Span;
use hoistway_linux::device::{data_run_at, file_size};
use hoistway_linux::ring::Emptying;

use super::failure;
use super::shared::{Core, Locked, unlocked};
use super::volumes::OwnFile;
use super::{FIRST_SYNC_TAG, Token, Worker};
use crate::damage::Damage;
use crate::overlay::format::PAGE_BYTES;
use crate::protocol::{ClientRequest, MAX_EXTENTS, StatusExtent};
use crate::turn::{Action, Actions, Incident};

/// I/Os done inline per turn of the loop; more wait for the next turn, so that sockets are served
/// in time.
pub(super) const INLINE_PER_TURN: u32 = 64;
/// The errno of a file that is not open.
const EBADF: i32 = 9;
/// The errno of a file that ends before its volume.
const EIO: i32 = 5;
/// The largest number of spans for which inline I/O is faster.
pub(super) const INLINE_SPANS: usize = 8;

/// A transfer requested by the turn.
#[derive(Copy, Clone, Debug)]
pub(super) struct Transfer {
    pub io: RequestId,
    pub volume: u32,
    /// Whether it reads the base below the volume's file.
    pub is_of_base: bool,
    pub is_write: bool,
    pub position_bytes: u64,
    pub bytes: u32,
    pub is_durable: bool,
}

impl Transfer {
    /// The transfer of an action, if it is one.
    #[inline]
    pub fn of(action: &Action) -> Option<Self> {
        let Action::Start { io, volume, is_of_base, is_write, position_bytes, bytes, is_durable, .. } = *action else {
            return None;
        };
        Some(Self { io, volume, is_of_base, is_write, position_bytes, bytes, is_durable })
    }
}

/// The answer to an [`AllocationQuery`].
enum Allocation {
    Found(Vec<StatusExtent>),
    /// The file ends inside the range, or before it: its volume has this many bytes left.
    Ends(u64),
    Failed,
}

/// A query which parts of a range are allocated.
struct AllocationQuery {
    file: Arc<OwnedFd>,
    asked: ClientRequest,
    base_bytes: u64,
    /// Of an overlay, the base.
    base: Option<Arc<OwnedFd>>,
    /// Where the runs of the same owner end, in bytes of the volume, and whether they are those of the base.
    runs: Vec<(u64, bool)>,
}

impl Worker {
    /// Starts the commands of a list of actions in the device model, if there is one.
    pub(super) fn start_in_model(&mut self, core: &mut Core, actions: &Actions, now: Nanos) {
        let Some(gate) = &mut core.gate else { return };
        for action in &actions.list {
            match *action {
                Action::Start { io, is_write, is_durable, .. } => {
                    let operation = if is_write { Operation::Write } else { Operation::Read };
                    gate.start(io.slot(), operation, core.turn.extent_of(io), is_durable, now);
                }
                Action::Empty { io, .. } => {
                    gate.start(io.slot(), Operation::Discard, core.turn.extent_of(io), false, now);
                }
                Action::Sync { volume } => {
                    gate.start(FIRST_SYNC_TAG + volume, Operation::Flush, Extent::default(), false, now);
                }
                _ => {}
            }
        }
    }

    pub(super) fn start_transfer(&mut self, transfer: Transfer, spans: &[Span], budget: &mut u32) {
        self.counters.started_ios += 1;
        let Some(volume) = self.file_of(transfer.volume) else {
            return self.inline.done(transfer.io, -EBADF);
        };
        if volume.is_blocking {
            let before = if transfer.is_of_base { 0 } else { volume.base_bytes };
            return self.start_blocking_transfer(transfer, spans, transfer.position_bytes + before);
        }
        if transfer.is_of_base {
            let Some(base) = volume.base else { return self.inline.done(transfer.io, -EBADF) };
            return self.ring.read(Token::Io(transfer.io).pack(), base, spans, transfer.position_bytes);
        }
        let (Some(file), position_bytes) = (volume.file, transfer.position_bytes + volume.base_bytes) else {
            self.inline.done(transfer.io, i32::try_from(transfer.bytes).unwrap_or(i32::MAX));
            return;
        };
        if transfer.is_write && !self.reaches(transfer.volume, position_bytes + u64::from(transfer.bytes)) {
            return self.inline.done(transfer.io, -EIO);
        }
        let is_small = transfer.bytes <= self.shared.settings.inline_max_bytes && spans.len() <= INLINE_SPANS;
        if volume.is_inline && is_small {
            if *budget == 0 {
                return self.inline.defer(transfer, spans);
            }
            *budget -= 1;
            self.transfer_inline(transfer, spans);
            return;
        }
        let token = Token::Io(transfer.io).pack();
        if transfer.is_write {
            self.ring.write(token, file, spans, position_bytes, transfer.is_durable);
        } else {
            self.ring.read(token, file, spans, position_bytes);
        }
    }

    /// Moves the data at once; the result is handled with those of the turn.
    fn transfer_inline(&mut self, transfer: Transfer, spans: &[Span]) {
        self.counters.inline_ios += 1;
        let Some(volume) = self.file_of(transfer.volume) else { return };
        let Some(file) = volume.file.and_then(|file| self.ring.file(file)) else { return };
        let mut moved = 0;
        let mut position_bytes = transfer.position_bytes + volume.base_bytes;
        let mut result = 0;
        for &span in spans {
            let answer = if transfer.is_write {
                self.arena().write_at(file, span, position_bytes, transfer.is_durable)
            } else {
                self.arena().read_at(file, span, position_bytes)
            };
            match answer {
                Ok(bytes) => {
                    moved += bytes;
                    position_bytes += u64::from(bytes);
                    if bytes < span.length_bytes {
                        break;
                    }
                }
                Err(error) => {
                    result = -error.raw_os_error().unwrap_or(5);
                    break;
                }
            }
        }
        // If some bytes were moved, their number is the result, as in the kernel; the error is
        // returned when the rest is tried again. That of a durable write might not be returned twice.
        if result == 0 || (moved > 0 && !transfer.is_durable) {
            result = i32::try_from(moved).unwrap_or(i32::MAX);
        }
        self.inline.done(transfer.io, result);
    }

    /// The worker's file of a volume; `None` if it could not be opened.
    #[inline]
    fn file_of(&self, volume: u32) -> Option<OwnFile> {
        self.files.open(volume)
    }

    /// Whether the file of a volume still reaches to `end_bytes`, as far as that can be told without
    /// waiting. A write behind the end of a file that was truncated would extend it, and what lies
    /// between would read as zeroes. The size is asked for once in a turn of the loop.
    fn reaches(&mut self, volume: u32, end_bytes: u64) -> bool {
        let turn = self.counters.turns;
        let Some(own) = self.files.get_mut(volume) else { return true };
        if !own.has_local_size {
            return true;
        }
        if own.checked_turn != turn {
            let file = own.file.and_then(|file| self.ring.file(file));
            // A size that cannot be read refuses nothing.
            own.size_bytes = file.and_then(file_size).unwrap_or(u64::MAX);
            own.checked_turn = turn;
        }
        if end_bytes > own.size_bytes {
            self.inline.cut(volume, own.size_bytes.saturating_sub(own.base_bytes));
            return false;
        }
        true
    }

    /// The bytes of a volume that its file still has, where that can be told without waiting.
    fn bytes_left_of(&self, volume: u32) -> Option<u64> {
        let own = self.file_of(volume).filter(|own| own.has_local_size)?;
        Some(file_size(self.ring.file(own.file?)?)?.saturating_sub(own.base_bytes))
    }

    /// Does the I/Os that exceeded the last turn's inline budget.
    pub(super) fn perform_deferred(&mut self, core: &mut Locked<'_>, now: Nanos) {
        if !self.inline.has_deferred() {
            return;
        }
        let deferred = self.inline.take_deferred();
        unlocked(core, || {
            for io in &deferred {
                self.transfer_inline(io.transfer, io.spans());
            }
        });
        self.inline.reuse_deferred(deferred);
        self.take_inline_results(core, now);
    }

    /// Takes the results of what was done without the ring.
    pub(super) fn take_inline_results(&mut self, core: &mut Core, now: Nanos) {
        for (volume, intact_bytes) in self.inline.take_cut() {
            core.turn.note_end(volume, intact_bytes);
        }
        let done = self.inline.take_done();
        for &(io, result) in &done {
            self.io_done(core, io, result, now);
        }
        self.inline.reuse_done(done);
        while let Some(volume) = self.inline.next_synced() {
            self.sync_done(core, volume, 0, now);
        }
    }

    pub(super) fn start_emptying(
        &mut self,
        io: RequestId,
        volume: u32,
        how: Emptying,
        position_bytes: u64,
        length_bytes: u64,
    ) {
        match self.file_of(volume) {
            None => self.inline.done(io, -EBADF),
            Some(OwnFile { is_blocking: true, base_bytes, .. }) => {
                self.start_blocking_emptying(io, volume, how, position_bytes + base_bytes, length_bytes);
            }
            Some(OwnFile { file: None, .. }) => self.inline.done(io, 0),
            Some(OwnFile { base_bytes, .. }) if !self.reaches(volume, position_bytes + base_bytes + length_bytes) => {
                self.inline.done(io, -EIO);
            }
            Some(OwnFile { file: Some(file), base_bytes, .. }) => {
                self.ring.empty(Token::Io(io).pack(), file, how, position_bytes + base_bytes, length_bytes);
            }
        }
    }

    pub(super) fn start_sync(&mut self, volume: u32) {
        self.counters.syncs += 1;
        match self.file_of(volume) {
            Some(OwnFile { is_blocking: true, .. }) => self.start_blocking_sync(volume),
            Some(OwnFile { file: Some(file), is_inline: false, .. }) => {
                self.ring.sync(Token::Sync(volume).pack(), file);
            }
            // A file in memory has no stable storage to sync to.
            _ => self.inline.synced(volume),
        }
    }

    /// Writes a page of the bitmap of an overlay to the page cache.
    pub(super) fn start_store(&mut self, volume: u32, position_bytes: u64, span: Span) {
        match self.file_of(volume) {
            Some(OwnFile { is_blocking: true, .. }) => self.start_blocking_store(volume, position_bytes, span),
            Some(OwnFile { bitmap: Some(bitmap), .. }) => {
                self.ring.write(Token::Store(volume).pack(), bitmap, &[span], position_bytes, false);
            }
            _ => self.mailbox.post_result(Box::new(move |worker, core| {
                worker.store_done(core, volume, -EBADF, hoistway_linux::thread::monotonic_ns());
            })),
        }
    }

    /// Takes the result of a write of the bitmap.
    pub(super) fn store_done(&mut self, core: &mut Core, volume: u32, result: i32, now: Nanos) {
        let is_ok = usize::try_from(result) == Ok(PAGE_BYTES);
        if !is_ok {
            failure::log_store(&self.shared.settings.name, core.volume_name(volume), -result);
        }
        core.turn.stored(volume, is_ok, now, &mut self.actions);
    }

    /// Takes the result of the real I/O.
    pub(super) fn io_done(&mut self, core: &mut Core, io: RequestId, result: i32, now: Nanos) {
        let result = match &mut core.gate {
            None => Some(result),
            Some(gate) => gate.moved(io.slot(), result),
        };
        if let Some(result) = result {
            self.complete(core, io, result, now);
        }
    }

    /// Takes the result of the real fsync.
    pub(super) fn sync_done(&mut self, core: &mut Core, volume: u32, result: i32, now: Nanos) {
        let result = match &mut core.gate {
            None => Some(result),
            Some(gate) => gate.moved(FIRST_SYNC_TAG + volume, result),
        };
        if let Some(result) = result {
            self.complete_sync(core, volume, result, now);
        }
    }

    /// Advances the device model to the present.
    pub(super) fn advance_gate(&mut self, core: &mut Core, now: Nanos) {
        let Some(gate) = &mut core.gate else { return };
        let mut delivered = std::mem::take(&mut self.delivered);
        gate.advance(now, &mut delivered);
        for (tag, result) in delivered.drain(..) {
            if tag >= FIRST_SYNC_TAG {
                self.complete_sync(core, tag - FIRST_SYNC_TAG, result, now);
            } else if let Some(io) = core.turn.io_of_slot(tag) {
                self.complete(core, io, result, now);
            }
        }
        self.delivered = delivered;
    }

    fn complete(&mut self, core: &mut Core, io: RequestId, result: i32, now: Nanos) {
        core.turn.completed(io, result, now, &mut self.actions);
    }

    fn complete_sync(&mut self, core: &mut Core, volume: u32, result: i32, now: Nanos) {
        if result < 0 {
            failure::log_sync(&self.shared.settings.name, core.volume_name(volume), -result);
        }
        if let (Some(intact_bytes), Some(facts)) = (self.bytes_left_of(volume), core.facts(volume))
            && intact_bytes < facts.size_bytes
        {
            core.turn.damage(volume, Damage::Truncated { intact_bytes });
        }
        core.turn.synced(volume, result >= 0, now, &mut self.actions);
    }

    /// Puts what went wrong into the log, and takes abilities back from the facts for later clients.
    pub(super) fn report_incidents(&mut self, core: &mut Core) {
        core.turn.take_incidents(&mut self.incidents);
        let device = &self.shared.settings.name;
        if let Some(error) = self.ring.take_refusal() {
            failure::log_refusal(device, &error);
        }
        for incident in std::mem::take(&mut self.incidents) {
            match incident {
                // A read tells only that the file ends before it.
                Incident::Damaged { volume, damage: Damage::Truncated { intact_bytes } }
                    if self.bytes_left_of(volume).is_some_and(|left_bytes| left_bytes < intact_bytes) =>
                {
                    let intact_bytes = self.bytes_left_of(volume).unwrap_or(intact_bytes);
                    core.turn.damage(volume, Damage::Truncated { intact_bytes });
                }
                Incident::Failed(failed) => failure::log_io(device, core.volume_name(failed.volume), &failed),
                Incident::Damaged { volume, damage } => {
                    failure::log_damage(device, core.volume_name(volume), damage);
                }
                Incident::Withdrawn { volume, how } => {
                    core.take_abilities(volume);
                    failure::log_withdrawal(device, core.volume_name(volume), how);
                }
            }
        }
    }

    /// Asks which parts of a range are allocated, on a thread of the volume.
    pub(super) fn query_allocation(&mut self, core: &mut Core, request: u32, volume: u32, now: Nanos) {
        let asked = *core.turn.asked(request);
        let open = core.volumes.get(volume as usize).and_then(Option::as_ref);
        if open.is_some_and(|open| open.file.is_none()) {
            // Where nothing is stored, nothing is allocated.
            let all = StatusExtent { length_bytes: asked.length_bytes, hole: true, zero: true };
            return self.status_answered(core, request, volume, Allocation::Found(vec![all]));
        }
        let query = open.and_then(|open| {
            let (file, base) = (Arc::clone(open.file.as_ref()?), open.base.clone());
            let runs = core.turn.runs(volume, &asked);
            let query = AllocationQuery { file, asked, base_bytes: open.base_bytes, base, runs };
            Some((query, Arc::clone(&open.calls)))
        });
        let mailbox = Arc::clone(&self.mailbox);
        let is_started = query.is_some_and(|(query, calls)| {
            calls.run(Box::new(move || {
                let found = allocation(&query);
                mailbox.post_result(Box::new(move |worker, core| worker.status_answered(core, request, volume, found)));
            }))
        });
        if !is_started {
            core.turn.status_found(request, false, now, &mut self.actions);
        }
    }

    fn status_answered(&mut self, core: &mut Core, request: u32, volume: u32, allocation: Allocation) {
        let now = hoistway_linux::thread::monotonic_ns();
        let is_ok = matches!(allocation, Allocation::Found(_));
        match allocation {
            Allocation::Found(found) => _ = core.extents.insert(request, found),
            Allocation::Ends(left_bytes) => core.turn.note_end(volume, left_bytes),
            Allocation::Failed => {}
        }
        core.turn.status_found(request, is_ok, now, &mut self.actions);
    }
}

/// Asks the file system.
fn allocation(query: &AllocationQuery) -> Allocation {
    let start = query.base_bytes + query.asked.offset_bytes;
    let end = start + query.asked.length_bytes;
    // Behind the end of a file there is a hole, which a client would take for zeroes.
    if let Some(size_bytes) = file_size(query.file.as_fd())
        && size_bytes < end
    {
        return Allocation::Ends(size_bytes.saturating_sub(query.base_bytes));
    }
    let limit = if query.asked.one_extent { 1 } else { MAX_EXTENTS };
    let mut found: Vec<StatusExtent> = Vec::new();
    let mut from = query.asked.offset_bytes;
    for &(until, is_of_base) in &query.runs {
        let (file, before) = match &query.base {
            Some(base) if is_of_base => (base, 0),
            _ => (&query.file, query.base_bytes),
        };
        while from < until && found.len() < limit {
            let Ok(run) = data_run_at(file.as_fd(), before + from, before + until) else { return Allocation::Failed };
            let run_end = run.end_bytes - before;
            let extent = StatusExtent { length_bytes: run_end - from, hole: run.is_hole, zero: run.is_hole };
            match found.last_mut().filter(|last| last.hole == extent.hole) {
                Some(last) => last.length_bytes += extent.length_bytes,
                None => found.push(extent),
            }
            from = run_end;
        }
    }
    Allocation::Found(found)
}
