//! Calls on a volume's file that may block, in the worst case for ever: on threads of the volume's
//! own, so that a hung backing costs its own clients and no others.
//!
//! All I/O goes this way on files that io_uring would block on (FUSE, NFS), and on every volume
//! what has no asynchronous form: allocation queries, a look at the size, the last fsync, closing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use hoistway_block::RequestId;
use hoistway_linux::buffer::{Gathered, Span};
use hoistway_linux::device::file_size;
use hoistway_linux::ring::Emptying;

use super::Worker;
use super::disk::Transfer;

/// Calls at once on a file that all I/O blocks on: as many as a disk's queue depth. More wait.
pub(super) const BLOCKING_FILE: usize = 32;
/// Calls at once on any other file: one for a client, and one beside it.
pub(super) const OTHER_FILE: usize = 2;
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);
/// The threads' stacks: they only make system calls.
const STACK_BYTES: usize = 128 << 10;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;

type Call = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<Call>,
    threads: usize,
    idle: usize,
}

/// The threads of one volume. They start when needed, and end when idle.
pub(crate) struct Calls {
    name: String,
    most: usize,
    state: Mutex<State>,
    has_work: Condvar,
}

impl Calls {
    /// No thread yet, and `most` at most.
    pub fn new(device: &str, most: usize) -> Arc<Self> {
        let name = format!("{device}-calls");
        Arc::new(Self { name, most, state: Mutex::default(), has_work: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call on one of the threads, behind those that wait. False if there can be no thread.
    pub fn run(self: &Arc<Self>, call: Call) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(call);
        if state.waiting.len() <= state.idle {
            self.has_work.notify_one();
            return true;
        }
        if state.threads == self.most {
            return true;
        }
        let own = Arc::clone(self);
        let thread = std::thread::Builder::new().name(self.name.clone()).stack_size(STACK_BYTES);
        match thread.spawn(move || own.serve()) {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads == 0 => {
                state.waiting.pop_back();
                return false;
            }
            // One of the others will come to it.
            Err(_) => {}
        }
        true
    }

    /// Makes a call and waits for its result until `deadline`. `None` if it has none by then.
    pub fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        deadline: Instant,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, is_answered) = mpsc::channel();
        self.run(Box::new(move || _ = answer.send(call())));
        is_answered.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(call) = state.waiting.pop_front() {
                drop(state);
                call();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (after, waited) = self.has_work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = after;
            state.idle -= 1;
            if waited.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// A file that all I/O blocks on.
#[derive(Clone)]
pub(super) struct BlockingFile {
    pub file: Arc<OwnedFd>,
    pub calls: Arc<Calls>,
    /// First byte of the volume in it.
    pub base_bytes: u64,
    /// Of an overlay: the base, and the file for its bitmap.
    pub base: Option<Arc<OwnedFd>>,
    pub bitmap: Option<Arc<OwnedFd>>,
}

impl Worker {
    /// Starts a transfer on a file that blocks.
    pub(super) fn start_blocking_transfer(&mut self, transfer: Transfer, spans: &[Span], position_bytes: u64) {
        let memory = Gathered::new(self.ring.shared_arena(), spans);
        let end_bytes = if transfer.is_write { position_bytes + u64::from(transfer.bytes) } else { 0 };
        let base = self.blocking_file(transfer.volume).and_then(|file| file.base).filter(|_| transfer.is_of_base);
        self.start_blocking(transfer.volume, transfer.io, end_bytes, move |file| {
            let file = base.as_deref().unwrap_or(file);
            let moved = match transfer.is_write {
                true => memory.write_at(file.as_fd(), position_bytes, transfer.is_durable),
                false => memory.read_at(file.as_fd(), position_bytes),
            };
            moved.map(|bytes| i32::try_from(bytes).unwrap_or(i32::MAX))
        });
    }

    /// Starts to empty a range of a file that blocks.
    pub(super) fn start_blocking_emptying(
        &mut self,
        io: RequestId,
        volume: u32,
        how: Emptying,
        position_bytes: u64,
        length_bytes: u64,
    ) {
        self.start_blocking(volume, io, position_bytes + length_bytes, move |file| {
            hoistway_linux::device::empty(file.as_fd(), how, position_bytes, length_bytes).map(|()| 0)
        });
    }

    /// `end_bytes` is the end of what it writes to the file: it must not extend one that was
    /// truncated ([`Worker::start_transfer`]).
    fn start_blocking(
        &mut self,
        volume: u32,
        io: RequestId,
        end_bytes: u64,
        call: impl FnOnce(&OwnedFd) -> std::io::Result<i32> + Send + 'static,
    ) {
        let Some(BlockingFile { file, calls, base_bytes, .. }) = self.blocking_file(volume) else {
            return self.inline.done(io, -EIO);
        };
        let mailbox = Arc::clone(&self.mailbox);
        let is_started = calls.run(Box::new(move || {
            let size_bytes = if end_bytes > 0 { file_size(file.as_fd()).unwrap_or(u64::MAX) } else { u64::MAX };
            let result = if size_bytes < end_bytes { -EIO } else { errno_of(call(&file)) };
            mailbox.post_result(Box::new(move |worker, core| {
                if size_bytes < end_bytes {
                    core.turn.note_end(volume, size_bytes.saturating_sub(base_bytes));
                }
                worker.io_done(core, io, result, hoistway_linux::thread::monotonic_ns());
            }));
        }));
        if !is_started {
            self.inline.done(io, -EAGAIN);
        }
    }

    /// Starts the fsync of a file that blocks.
    pub(super) fn start_blocking_sync(&mut self, volume: u32) {
        let Some(BlockingFile { file, calls, base_bytes, .. }) = self.blocking_file(volume) else { return };
        let mailbox = Arc::clone(&self.mailbox);
        let sync = move || {
            let result = errno_of(hoistway_linux::device::make_durable(file.as_fd()).map(|()| 0));
            let size_bytes = file_size(file.as_fd());
            mailbox.post_result(Box::new(move |worker, core| {
                if let Some(size_bytes) = size_bytes {
                    core.turn.note_end(volume, size_bytes.saturating_sub(base_bytes));
                }
                worker.sync_done(core, volume, result, hoistway_linux::thread::monotonic_ns());
            }));
        };
        if !calls.run(Box::new(sync)) {
            // As an fsync that failed: nothing is promised that was not done.
            self.mailbox.post_result(Box::new(move |worker, core| {
                worker.sync_done(core, volume, -EAGAIN, hoistway_linux::thread::monotonic_ns());
            }));
        }
    }

    /// Writes a page of an overlay's bitmap on a separate thread, because calls on this file block.
    pub(super) fn start_blocking_store(&mut self, volume: u32, position_bytes: u64, span: Span) {
        let memory = Gathered::new(self.ring.shared_arena(), &[span]);
        let mailbox = Arc::clone(&self.mailbox);
        let ended = move |result| {
            mailbox.post_result(Box::new(move |worker, core| {
                worker.store_done(core, volume, result, hoistway_linux::thread::monotonic_ns());
            }));
        };
        let file = self.blocking_file(volume);
        let Some((bitmap, calls)) = file.and_then(|file| Some((file.bitmap?, file.calls))) else { return ended(-EIO) };
        let otherwise = ended.clone();
        let write = move || {
            let moved = memory.write_at(bitmap.as_fd(), position_bytes, false);
            ended(errno_of(moved.map(|bytes| i32::try_from(bytes).unwrap_or(i32::MAX))));
        };
        if !calls.run(Box::new(write)) {
            otherwise(-EAGAIN);
        }
    }

    fn blocking_file(&self, volume: u32) -> Option<BlockingFile> {
        self.files.blocking(volume)
    }
}

/// A result in the form of io_uring's completions.
fn errno_of(result: std::io::Result<i32>) -> i32 {
    result.unwrap_or_else(|error| -error.raw_os_error().unwrap_or(EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    #[test]
    fn calls_that_hang_take_their_own_threads_and_more_wait() {
        let calls = Calls::new("d", 2);
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for _ in 0..2 {
            let held = Arc::clone(&held);
            assert!(calls.run(Box::new(move || _ = held.lock().map(|held| held.recv()))));
        }
        assert_eq!(calls.ask(Instant::now() + Duration::from_millis(50), || 1), None, "both are taken");
        assert_eq!(Calls::new("e", 2).ask(Instant::now() + SOON, || 2), Some(2), "those of another are free");
        drop(release);
        assert_eq!(calls.ask(Instant::now() + SOON, || 3), Some(3));
        assert!(calls.lock().threads <= 2);
    }
}
