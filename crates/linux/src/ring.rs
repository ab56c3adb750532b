//! Safe io_uring: every buffer lies in the ring's [`Arena`], which rings may share, or in a window of
//! it, and every file in its own table.
//!
//! ```text
//! read / write / sync / allocate / receive / send / poll -> queued; nothing is ever dropped
//! enter(..)                                              -> one system call: submit, run task work, perhaps wait
//! reap(..)                                               -> completions: token and result
//! ```
//! Tokens are chosen by the caller and have 48 bits. The kernel may execute requests in any
//! order.
#![allow(unsafe_code)]

mod transfer;
mod ublk;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

pub use ublk::{RequestBuffer, UblkData, UblkTag, is_request_memory};

use crate::buffer::{Arena, Span};
use crate::window::{Window, is_outside};

/// The bits of a token that are returned with its completion.
pub const TOKEN_BITS: u32 = 48;
/// The most spans of one gathered send or vectored transfer (the kernel's UIO_MAXIOV is 1,024).
pub const MAX_SPANS: usize = 512;

const TOKEN_MASK: u64 = (1 << TOKEN_BITS) - 1;
/// The ring's own token, for cancellations, whose completions are not reported.
const INTERNAL: u64 = TOKEN_MASK;
/// Pieces of the arena that are pinned at a time: a huge page each, or more where the table would be too long.
const SMALLEST_PIECE_BITS: u32 = 21;
/// The most registered buffers of a ring (IORING_MAX_REG_BUFFERS of the kernel), one half for pieces of the arena, the
/// other for the memory of ublk requests: those of 64 devices, the most that there may be, with 128 tags each.
const MAX_BUFFERS: u64 = 1 << 14;
const MAX_PIECES: u64 = MAX_BUFFERS / 2;
/// Gathers allocated at the start; more are allocated when more are in flight at once.
const GATHERS: u16 = 128;
/// Worker threads that the kernel may start for requests that block. The default is four for each processor, all of
/// which one file's requests could take; they are started only while others are blocked.
const BLOCKED_WORKERS: u32 = 512;
/// BLOCK_URING_CMD_DISCARD of include/uapi/linux/blkdev.h: _IO(0x12, 0).
const BLOCK_DISCARD: u32 = 0x1200;
const SUBMISSION_ENTRIES: u32 = 1_024;
const COMPLETION_ENTRIES: u32 = 8_192;

/// The table of registered buffers: first the arena's pieces, of which each is pinned and registered when it is first
/// used, then places for the memory of requests.
struct Table {
    /// A piece has `1 << bits` bytes.
    bits: u32,
    are_pinned: Vec<bool>,
    /// The kernel has refused to pin a piece; the others are used without.
    is_at_limit: bool,
    free_requests: Vec<u16>,
}

/// A file in the ring's table.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct FileId(u32);

/// How a range of a file is emptied.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Emptying {
    /// FALLOC_FL_PUNCH_HOLE: reads as zero afterwards, the space is given back.
    PunchHole,
    /// FALLOC_FL_ZERO_RANGE: reads as zero afterwards, the space stays allocated.
    ZeroRange,
    /// The discard of a block device, as by BLKDISCARD: what it reads as afterwards is not defined. From
    /// Linux 6.12 on; before, the result is `EOPNOTSUPP` or `EINVAL`.
    Discard,
}

impl Emptying {
    /// The mode of fallocate(2), which never changes the file's size; `None` for a discard.
    pub const fn mode(self) -> Option<libc::c_int> {
        match self {
            Emptying::PunchHole => Some(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            Emptying::ZeroRange => Some(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE),
            Emptying::Discard => None,
        }
    }
}

/// One finished request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The token given at submission.
    pub token: u64,
    /// Bytes moved (0 where there are none), or a negative errno.
    pub result: i32,
}

/// How long [`Ring::enter`] may take.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until a request completes.
    Forever,
    /// Until a request completes or this many nanoseconds have passed.
    AtMost(u64),
    /// Until one of these is true: `completions` requests have completed; at least one has
    /// completed and `batch_us` microseconds have passed; `timeout_ns` nanoseconds have passed.
    Batch {
        /// How many completions to wait for.
        completions: u32,
        /// How long to wait for all of them, in microseconds.
        batch_us: u32,
        /// How long to wait in total, in nanoseconds.
        timeout_ns: u64,
    },
}

/// Spans in the kernel's form; must live until the request has completed.
struct Gather {
    pieces: Vec<libc::iovec>,
    message: libc::msghdr,
    /// The windows that the pieces lie in, which therefore stay mapped.
    windows: Vec<Arc<Window>>,
}

impl Gather {
    fn new() -> Self {
        // SAFETY: msghdr is a plain C structure for which all zeroes is valid.
        let message = unsafe { std::mem::zeroed() };
        Self { pieces: Vec::with_capacity(MAX_SPANS), message, windows: Vec::new() }
    }
}

/// A submission and completion queue, the arena they work on and the files they work with.
pub struct Ring {
    ring: IoUring,
    arena: ManuallyDrop<Arc<Arena>>,
    table: Option<Table>,
    /// Whether pieces of the arena are to be registered.
    pins_arena: bool,
    /// Why a piece could not be registered, until it is reported.
    refusal: Option<io::Error>,
    /// Whether a transfer of several spans can use registered memory (Linux 6.15).
    gathers_registered: bool,
    files: Vec<Option<OwnedFd>>,
    free_files: Vec<u32>,
    files_are_registered: bool,
    #[expect(clippy::vec_box, reason = "the kernel keeps the address of a gather while the vector grows")]
    gathers: Vec<Box<Gather>>,
    free_gathers: Vec<u16>,
    /// Entries that did not fit into the submission queue and that the kernel would not take; they
    /// are submitted first next time.
    overflow: VecDeque<squeue::Entry>,
    in_flight: u32,
    full_submits: u64,
}

impl Ring {
    /// A ring over `arena` with room for `files` open files. It must be created on the thread that
    /// uses it, because newer kernels bind a ring to its creator.
    ///
    /// # Errors
    /// The kernel's error; `EPERM` where io_uring is disabled (sysctl kernel.io_uring_disabled,
    /// seccomp), `Unsupported` on kernels before 5.11 (no timeout argument).
    pub fn new(arena: Arc<Arena>, files: u32) -> io::Result<Self> {
        let ring = build()?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring of this kernel is too old (before 5.11)"));
        }
        // Saves a file lookup per call; kernels before 5.18 refuse, which is harmless.
        let _ = ring.submitter().register_ring_fd();
        // Kernels before 5.15 refuse.
        let _ = ring.submitter().register_iowq_max_workers(&mut [BLOCKED_WORKERS, 0]);
        let mut probe = Probe::new();
        let is_probed = ring.submitter().register_probe(&mut probe).is_ok();
        let gathers_registered = is_probed && probe.is_supported(opcode::WritevFixed::CODE);
        let files_are_registered = ring.submitter().register_files_sparse(files).is_ok();
        let table = (0..files).map(|_| None).collect();
        Ok(Self {
            ring,
            arena: ManuallyDrop::new(arena),
            table: None,
            pins_arena: false,
            refusal: None,
            gathers_registered,
            files: table,
            free_files: (0..files).rev().collect(),
            files_are_registered,
            gathers: (0..GATHERS).map(|_| Box::new(Gather::new())).collect(),
            free_gathers: (0..GATHERS).collect(),
            overflow: VecDeque::new(),
            in_flight: 0,
            full_submits: 0,
        })
    }

    /// The memory that requests use. Only a shared reference: it must not be replaced while the
    /// kernel holds addresses in it.
    #[inline]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The memory that requests use, to attach windows to it.
    pub fn shared_arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// From now on, reads and writes register the part of the arena that they use, so that they cost less.
    /// A part is pinned when it is first used: a ring whose requests use little of the arena keeps little of it
    /// resident. Where the kernel (before Linux 5.13) or the limit on locked memory forbids it, the ring works without,
    /// and [`Ring::take_refusal`] says so.
    pub fn register_arena(&mut self) {
        self.pins_arena = true;
    }

    /// Why the kernel has refused to register memory; once.
    pub fn take_refusal(&mut self) -> Option<io::Error> {
        self.refusal.take()
    }

    /// The table of registered buffers, which is made at the first use.
    fn table(&mut self) -> io::Result<&mut Table> {
        let table = match self.table.take() {
            Some(table) => table,
            None => self.new_table()?,
        };
        Ok(self.table.insert(table))
    }

    fn new_table(&self) -> io::Result<Table> {
        let mut bits = SMALLEST_PIECE_BITS;
        while self.arena.bytes().div_ceil(1 << bits) > MAX_PIECES {
            bits += 1;
        }
        let count = usize::try_from(self.arena.bytes().div_ceil(1 << bits)).map_err(io::Error::other)?;
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let places = count + usize::try_from(MAX_BUFFERS - MAX_PIECES).unwrap_or(0);
        // SAFETY: the entries name no memory.
        unsafe { self.ring.submitter().register_buffers(&vec![none; places]) }?;
        let free_requests = (count..places).filter_map(|place| u16::try_from(place).ok()).collect();
        let are_pinned = vec![false; count];
        Ok(Table { bits, are_pinned, is_at_limit: false, free_requests })
    }

    /// The registered piece of the arena that a span lies in; `None` if it is not registered. A span lies in one slot,
    /// which is at most 1 MiB and aligned to its size, so it never lies in two pieces.
    fn piece_of(&mut self, span: Span) -> Option<u16> {
        if is_outside(span) || !self.pins_arena {
            return None;
        }
        if self.table.is_none()
            && let Err(error) = self.table()
        {
            (self.pins_arena, self.refusal) = (false, Some(error));
        }
        let pieces = self.table.as_mut()?;
        let at = usize::try_from(span.offset_bytes >> pieces.bits).ok()?;
        let index = u16::try_from(at).ok()?;
        if *pieces.are_pinned.get(at)? {
            return Some(index);
        }
        if pieces.is_at_limit {
            return None;
        }
        let offset_bytes = (at as u64) << pieces.bits;
        let length_bytes = u32::try_from((self.arena.bytes() - offset_bytes).min(1 << pieces.bits)).ok()?;
        let address = self.arena.address(Span { offset_bytes, length_bytes });
        let piece = libc::iovec { iov_base: address.cast(), iov_len: length_bytes as usize };
        // SAFETY: the piece lies inside the arena, of which the ring gives up its share only when it is gone (`drop`).
        let pinned = unsafe { self.ring.submitter().register_buffers_update(u32::from(index), &[piece], None) };
        pieces.are_pinned[at] = pinned.is_ok();
        pieces.is_at_limit = pinned.is_err();
        self.refusal = pinned.err();
        pieces.are_pinned[at].then_some(index)
    }

    /// Takes over an open file or socket.
    ///
    /// # Errors
    /// `EMFILE` when the table is full, or the registration's error; the file is then closed.
    pub fn add_file(&mut self, file: OwnedFd) -> io::Result<FileId> {
        let index = self.free_files.pop().ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
        if self.files_are_registered
            && let Err(error) = self.ring.submitter().register_files_update(index, &[file.as_raw_fd()])
        {
            self.free_files.push(index);
            return Err(error);
        }
        self.files[index as usize] = Some(file);
        Ok(FileId(index))
    }

    /// The open file behind an id; `None` once it was removed.
    #[inline]
    pub fn file(&self, id: FileId) -> Option<BorrowedFd<'_>> {
        self.files.get(id.0 as usize)?.as_ref().map(AsFd::as_fd)
    }

    /// Closes a file. Requests in flight on it keep it alive, and should be awaited first, because
    /// the next file gets the same id.
    pub fn remove_file(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(id.0 as usize).and_then(Option::take) else { return };
        if self.files_are_registered {
            // The next `add_file` overwrites the slot anyway; a failure only leaves a reference
            // behind.
            let _ = self.ring.submitter().register_files_update(id.0, &[-1]);
        }
        drop(file);
        self.free_files.push(id.0);
    }

    /// Requests that have not completed, including queued ones.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How often the submission queue was submitted early because it was full.
    pub fn full_submits(&self) -> u64 {
        self.full_submits
    }

    /// Completions that the kernel held back because the completion queue was full.
    pub fn completion_overflows(&mut self) -> u32 {
        self.ring.completion().overflow()
    }

    /// Whether waiting for several completions at once is supported (kernel 6.12).
    pub fn can_wait_for_batches(&self) -> bool {
        self.ring.params().is_feature_min_timeout()
    }

    /// Makes the file's data durable (fdatasync).
    pub fn sync(&mut self, token: u64, file: FileId) {
        let entry = self.on_file(
            file,
            |fd| opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            |fd| opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        );
        self.push(with_token(entry, token));
    }

    /// Empties a range of the file.
    pub fn empty(&mut self, token: u64, file: FileId, how: Emptying, position_bytes: u64, length_bytes: u64) {
        let entry = match how.mode() {
            Some(mode) => self.on_file(
                file,
                |fd| opcode::Fallocate::new(fd, length_bytes).offset(position_bytes).mode(mode).build(),
                |fd| opcode::Fallocate::new(fd, length_bytes).offset(position_bytes).mode(mode).build(),
            ),
            None => {
                // The start is in sqe->addr, the length in sqe->addr3, where the command's bytes begin.
                let mut length = [0; 16];
                length[..8].copy_from_slice(&length_bytes.to_ne_bytes());
                let start = Some(position_bytes);
                let entry = self.on_file(
                    file,
                    |fd| opcode::UringCmd16::new(fd, BLOCK_DISCARD).addr(start).cmd(length).build(),
                    |fd| opcode::UringCmd16::new(fd, BLOCK_DISCARD).addr(start).cmd(length).build(),
                );
                // By a worker, as fallocate is: without waiting, drivers that cannot refuse to wait (zram,
                // many of dm) answer EOPNOTSUPP.
                entry.flags(squeue::Flags::ASYNC)
            }
        };
        self.push(with_token(entry, token));
    }

    /// Receives at most the span's length from a socket. The result 0 is its end.
    pub fn receive(&mut self, token: u64, socket: FileId, span: Span) {
        let (at, length) = (self.arena.address(span), span.length_bytes);
        let entry = self.on_file(
            socket,
            |fd| opcode::Recv::new(fd, at, length).build(),
            |fd| opcode::Recv::new(fd, at, length).build(),
        );
        self.push(with_token(entry, token));
    }

    /// Sends the spans (at most [`MAX_SPANS`]), one behind the other. Completes when all bytes were
    /// accepted or the connection failed; after a cancellation the result may be short.
    pub fn send(&mut self, token: u64, socket: FileId, spans: &[Span]) {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        if let [span] = *spans {
            let (at, length) = (self.arena.address(span).cast_const(), span.length_bytes);
            let entry = self.on_file(
                socket,
                |fd| opcode::Send::new(fd, at, length).flags(flags).build(),
                |fd| opcode::Send::new(fd, at, length).flags(flags).build(),
            );
            return self.push(with_token(entry, token));
        }
        let (gather, pieces, count) = self.gather(spans);
        let message = &mut self.gathers[usize::from(gather)].message;
        message.msg_iov = pieces.cast_mut();
        // An int with musl, a usize with glibc.
        message.msg_iovlen = count as _;
        let message: *const libc::msghdr = message;
        let entry = self.on_file(
            socket,
            |fd| opcode::SendMsg::new(fd, message).flags(flags.unsigned_abs()).build(),
            |fd| opcode::SendMsg::new(fd, message).flags(flags.unsigned_abs()).build(),
        );
        self.push(with_gather(entry, token, gather));
    }

    /// Completes once when the file is readable.
    pub fn poll(&mut self, token: u64, file: FileId) {
        let events = libc::POLLIN.unsigned_abs().into();
        let entry = self.on_file(
            file,
            |fd| opcode::PollAdd::new(fd, events).build(),
            |fd| opcode::PollAdd::new(fd, events).build(),
        );
        self.push(with_token(entry, token));
    }

    /// Completes once when a socket's peer has gone: both directions are closed, or the connection has
    /// failed; with `or_no_more_bytes` also when the peer sends nothing more, because TCP tells of a
    /// closed peer only in this way.
    pub fn poll_hang_up(&mut self, token: u64, socket: FileId, or_no_more_bytes: bool) {
        // POLLHUP and POLLERR are always reported.
        let events = if or_no_more_bytes { libc::POLLRDHUP.unsigned_abs().into() } else { 0 };
        let entry = self.on_file(
            socket,
            |fd| opcode::PollAdd::new(fd, events).build(),
            |fd| opcode::PollAdd::new(fd, events).build(),
        );
        self.push(with_token(entry, token));
    }

    /// Asks the kernel to cancel every request on this file. Each completes with `ECANCELED` or
    /// with its ordinary result.
    pub fn cancel(&mut self, file: FileId) {
        let entry = if self.files_are_registered {
            opcode::AsyncCancel2::new(types::CancelBuilder::fd(types::Fixed(file.0)).all()).build()
        } else {
            opcode::AsyncCancel2::new(types::CancelBuilder::fd(types::Fd(self.raw(file))).all()).build()
        };
        self.push(with_token(entry, INTERNAL));
    }

    /// Submits all queued entries, lets the kernel finish what it can, and waits as given by
    /// `wait`.
    ///
    /// # Errors
    /// Only errors that make the ring unusable; a timeout, a signal or a full completion queue is
    /// not an error.
    pub fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.refill();
        let result = match wait {
            Wait::No => self.enter_without_waiting(),
            Wait::Forever => self.ring.submit_and_wait(1),
            Wait::AtMost(timeout_ns) => {
                let time = timespec(timeout_ns);
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
            Wait::Batch { completions, batch_us, timeout_ns } => {
                let time = timespec(timeout_ns);
                let arguments = types::SubmitArgs::new().timespec(&time).min_wait_usec(batch_us);
                self.ring.submitter().submit_with_args(completions as usize, &arguments)
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn enter_without_waiting(&mut self) -> io::Result<usize> {
        const GETEVENTS: u32 = 1;
        let queued = self.ring.submission().len();
        let queued = u32::try_from(queued).unwrap_or(u32::MAX);
        // SAFETY: without an argument the call only submits entries that `push` vouched for.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GETEVENTS, None) }
    }

    /// Whether there are completions to reap or task work to run; needs no system call.
    #[inline]
    pub fn has_news(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().taskrun()
    }

    /// Takes at most `limit` completions.
    pub fn reap(&mut self, limit: usize, completions: &mut Vec<Completion>) {
        let mut queue = self.ring.completion();
        for entry in queue.by_ref().take(limit) {
            if !cqueue::more(entry.flags()) {
                self.in_flight = self.in_flight.saturating_sub(1);
            }
            let user_data = entry.user_data();
            if let Some(gather) = u16::try_from(user_data >> TOKEN_BITS).ok().and_then(|above| above.checked_sub(1)) {
                self.gathers[usize::from(gather)].windows.clear();
                self.free_gathers.push(gather);
            }
            if user_data & TOKEN_MASK != INTERNAL {
                completions.push(Completion { token: user_data & TOKEN_MASK, result: entry.result() });
            }
        }
    }

    fn raw(&self, file: FileId) -> RawFd {
        self.file(file).map_or(-1, |file| file.as_raw_fd())
    }

    /// Builds an entry for the registered or the plain form of a file.
    #[inline]
    fn on_file(
        &self,
        file: FileId,
        fixed: impl FnOnce(types::Fixed) -> squeue::Entry,
        plain: impl FnOnce(types::Fd) -> squeue::Entry,
    ) -> squeue::Entry {
        if self.files_are_registered { fixed(types::Fixed(file.0)) } else { plain(types::Fd(self.raw(file))) }
    }

    /// Spans as iovecs at an address that stays valid until the completion returns the gather.
    fn gather(&mut self, spans: &[Span]) -> (u16, *const libc::iovec, u32) {
        assert!(spans.len() <= MAX_SPANS, "{} spans, {MAX_SPANS} are possible", spans.len());
        let index = self.free_gathers.pop().unwrap_or_else(|| {
            self.gathers.push(Box::new(Gather::new()));
            u16::try_from(self.gathers.len() - 1).expect("fewer gathers than completion entries")
        });
        let arena = &self.arena;
        let gather = &mut self.gathers[usize::from(index)];
        gather.pieces.clear();
        for &span in spans {
            let (address, window) = arena.resolve(span);
            gather.pieces.push(libc::iovec { iov_base: address.cast(), iov_len: span.length_bytes as usize });
            if let Some(window) = window
                && !gather.windows.last().is_some_and(|last| Arc::ptr_eq(last, &window))
            {
                gather.windows.push(window);
            }
        }
        let count = u32::try_from(spans.len()).unwrap_or(u32::MAX);
        (index, gather.pieces.as_ptr(), count)
    }

    fn push(&mut self, entry: squeue::Entry) {
        self.in_flight += 1;
        if !self.overflow.is_empty() {
            self.overflow.push_back(entry);
            return;
        }
        // SAFETY: all addresses in the entry point into the arena, a gather or a window that the gather
        // holds. The arena and the gathers outlive the ring (`drop` waits for requests in flight, or leaks
        // the gathers and its share of the arena), and a gather is reused only after its completion was
        // reaped.
        if unsafe { self.ring.submission().push(&entry) }.is_ok() {
            return;
        }
        self.full_submits += 1;
        self.overflow.push_back(entry);
        let _ = self.ring.submit();
        self.refill();
    }

    fn refill(&mut self) {
        while let Some(entry) = self.overflow.pop_front() {
            // SAFETY: as in `push`.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                self.overflow.push_front(entry);
                return;
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write to the arena, so everything is cancelled and awaited. If a
        // request does not end, the mapping is leaked: its addresses must not be reused while the
        // kernel may write to them.
        let entry = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
        self.push(with_token(entry, INTERNAL));
        let mut completions = Vec::new();
        for _ in 0..50 {
            let _ = self.enter(Wait::AtMost(100_000_000));
            self.reap(usize::MAX, &mut completions);
            if self.in_flight == 0 {
                // SAFETY: nothing of this ring is in flight, so the kernel holds no address for it; the
                // share is not used after this.
                unsafe { ManuallyDrop::drop(&mut self.arena) };
                return;
            }
        }
        std::mem::forget(std::mem::take(&mut self.gathers));
    }
}

fn build() -> io::Result<IoUring> {
    let mut single = IoUring::builder();
    single.setup_cqsize(COMPLETION_ENTRIES).setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    let mut cooperative = IoUring::builder();
    cooperative.setup_cqsize(COMPLETION_ENTRIES).setup_coop_taskrun().setup_taskrun_flag();
    let mut plain = IoUring::builder();
    plain.setup_cqsize(COMPLETION_ENTRIES);
    // Kernels before 6.1 lack DEFER_TASKRUN, those before 5.19 COOP_TASKRUN; both return EINVAL.
    let is_unknown = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    match single.build(SUBMISSION_ENTRIES) {
        Err(error) if is_unknown(&error) => match cooperative.build(SUBMISSION_ENTRIES) {
            Err(error) if is_unknown(&error) => plain.build(SUBMISSION_ENTRIES),
            other => other,
        },
        other => other,
    }
}

fn with_token(entry: squeue::Entry, token: u64) -> squeue::Entry {
    entry.user_data(token & TOKEN_MASK)
}

fn with_gather(entry: squeue::Entry, token: u64, gather: u16) -> squeue::Entry {
    entry.user_data((token & TOKEN_MASK) | ((u64::from(gather) + 1) << TOKEN_BITS))
}

fn timespec(time_ns: u64) -> types::Timespec {
    let below_second = u32::try_from(time_ns % 1_000_000_000).unwrap_or(0);
    types::Timespec::new().sec(time_ns / 1_000_000_000).nsec(below_second)
}

#[cfg(test)]
mod tests;
