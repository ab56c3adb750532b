//! Asynchronous requests through Linux AIO (`io_submit`), used to measure the kernel's schedulers, and
//! signals on eventfds of other processes.
//!
//! io_uring is unsuitable for the first: it first tries each request without waiting, and a try that finds
//! no free tag has already been charged to its cgroup. Under blk-throttle each such request counts
//! twice (measured on 6.18, queue of 8 tags, depth 16: a limit of 10 MiB/s gives 5.4). `io_submit`
//! sleeps for the tag, as other programs do and as the simulator's processes do.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::buffer::{Arena, Span};

/// One finished request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The token given at submission.
    pub token: u32,
    /// Bytes moved (0 for a sync), or a negative errno.
    pub result: i64,
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const FDSYNC: u16 = 3;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Copy, Clone, Default)]
struct Control {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Copy, Clone, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

const _: () = assert!(size_of::<Control>() == 64 && size_of::<Event>() == 32, "as in linux/aio_abi.h");

/// A file, the memory its requests work on, and the requests in flight.
pub struct Requests {
    context: libc::c_ulong,
    arena: ManuallyDrop<Arena>,
    file: OwnedFd,
    queued: Vec<Control>,
    events: Vec<Event>,
    in_flight: usize,
}

impl Requests {
    /// Room for `depth` requests on `file`.
    ///
    /// # Errors
    /// `WouldBlock` where `fs.aio-max-nr` is reached, `Unsupported` on kernels without it.
    pub fn new(arena: Arena, file: OwnedFd, depth: usize) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        let depth = depth.max(1);
        // SAFETY: the kernel writes one context number, which outlives the call.
        if unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let (queued, events) = (Vec::with_capacity(depth), vec![Event::default(); depth]);
        Ok(Self { context, arena: ManuallyDrop::new(arena), file, queued, events, in_flight: 0 })
    }

    /// The memory that requests use. Only a shared reference: it must not be replaced while the
    /// kernel holds addresses in it.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.file.as_fd()
    }

    /// Requests queued or with the kernel.
    pub fn in_flight(&self) -> usize {
        self.queued.len() + self.in_flight
    }

    /// Queues a read from `position_bytes` on into the span.
    pub fn read(&mut self, token: u32, span: Span, position_bytes: u64) {
        self.transfer(READ, token, span, position_bytes, 0);
    }

    /// Queues a write of the span; with `durable` it completes when the data is on stable storage
    /// (RWF_DSYNC).
    pub fn write(&mut self, token: u32, span: Span, position_bytes: u64, durable: bool) {
        self.transfer(WRITE, token, span, position_bytes, if durable { libc::RWF_DSYNC } else { 0 });
    }

    fn transfer(&mut self, opcode: u16, token: u32, span: Span, position_bytes: u64, rw_flags: i32) {
        let buffer = self.arena.address(span) as u64;
        let offset = i64::try_from(position_bytes).unwrap_or(i64::MAX);
        self.queue(Control {
            rw_flags,
            buffer,
            bytes: span.length_bytes.into(),
            offset,
            ..self.control(opcode, token)
        });
    }

    /// Queues an fdatasync.
    pub fn sync(&mut self, token: u32) {
        self.queue(self.control(FDSYNC, token));
    }

    fn control(&self, opcode: u16, token: u32) -> Control {
        let file = self.file.as_raw_fd().unsigned_abs();
        Control { data: token.into(), opcode, file, ..Control::default() }
    }

    fn queue(&mut self, control: Control) {
        debug_assert!(self.in_flight() < self.events.len(), "more requests than were made room for");
        self.queued.push(control);
    }

    /// Hands everything queued to the kernel; sleeps while the device's queue is full.
    ///
    /// # Errors
    /// The kernel's error; a request that it refuses leaves the queue and is reported in `done`.
    pub fn submit(&mut self, done: &mut Vec<Done>) -> io::Result<()> {
        let mut first = 0;
        let mut outcome = Ok(());
        while first < self.queued.len() {
            match self.submit_from(first) {
                Ok(count) => {
                    first += count;
                    self.in_flight += count;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // No room now: the rest is submitted with the next call, after a completion.
                    Some(libc::EAGAIN) => break,
                    Some(errno) => {
                        // The first request of the submission is the one that was refused.
                        let token = u32::try_from(self.queued[first].data).unwrap_or(u32::MAX);
                        done.push(Done { token, result: -i64::from(errno) });
                        first += 1;
                    }
                    None => {
                        outcome = Err(error);
                        break;
                    }
                },
            }
        }
        self.queued.drain(..first);
        outcome
    }

    fn submit_from(&mut self, first: usize) -> io::Result<usize> {
        const AT_ONCE: usize = 64;
        let mut pointers = [std::ptr::null_mut::<Control>(); AT_ONCE];
        let rest = &mut self.queued[first..];
        let count = rest.len().min(AT_ONCE);
        for (pointer, control) in pointers.iter_mut().zip(rest.iter_mut()) {
            *pointer = control;
        }
        // SAFETY: the kernel copies `count` control blocks during the call; the buffers they name
        // lie in the arena, which is unmapped only after the context is destroyed (`drop`), and the
        // file stays open until then.
        let result = unsafe { libc::syscall(libc::SYS_io_submit, self.context, count, pointers.as_mut_ptr()) };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    /// Collects completions, waiting for the first one at most `timeout_ns` nanoseconds.
    ///
    /// # Errors
    /// Only errors that make the context unusable; a timeout or a signal is not an error.
    pub fn reap(&mut self, timeout_ns: u64, done: &mut Vec<Done>) -> io::Result<()> {
        let time = libc::timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(timeout_ns % 1_000_000_000).unwrap_or(0),
        };
        let least = libc::c_long::from(timeout_ns > 0);
        let room = self.events.len();
        // SAFETY: the kernel writes at most `room` events, for which there is room, and reads one
        // timespec.
        let result = unsafe {
            let events = self.events.as_mut_ptr();
            libc::syscall(libc::SYS_io_getevents, self.context, least, room, events, &raw const time)
        };
        let Ok(count) = usize::try_from(result) else {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        };
        self.in_flight = self.in_flight.saturating_sub(count);
        let token = |event: &Event| u32::try_from(event.data).unwrap_or(u32::MAX);
        done.extend(self.events[..count].iter().map(|event| Done { token: token(event), result: event.result }));
        Ok(())
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // SAFETY: no other code has the context; the call returns when nothing is in flight any
        // more.
        let destroyed = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) } == 0;
        if destroyed {
            // SAFETY: the arena is dropped once, here; the kernel no longer holds addresses in it.
            unsafe { ManuallyDrop::drop(&mut self.arena) };
        }
    }
}

/// The completion of a request signals its `event_file` (IOCB_FLAG_RESFD).
const SIGNALS_EVENT: u32 = 1;
/// Completions of signals that may wait to be collected.
const MAX_UNCOLLECTED: usize = 32;

/// Signals eventfds that other processes share. A write to one blocks as soon as its owner has filled
/// the counter and made it blocking, at any moment; the kernel's own signal, which the completion of a
/// request sends, never does.
#[derive(Debug)]
pub struct Signals {
    context: libc::c_ulong,
    /// An empty file, of which nothing is read.
    file: OwnedFd,
    uncollected: usize,
}

impl Signals {
    /// # Errors
    /// `WouldBlock` where `fs.aio-max-nr` is reached, `Unsupported` on kernels without it, `EMFILE`.
    pub fn new() -> io::Result<Self> {
        let file = rustix::fs::memfd_create("hoistway-signals", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one context number, which outlives the call.
        if unsafe { libc::syscall(libc::SYS_io_setup, MAX_UNCOLLECTED, &raw mut context) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { context, file, uncollected: 0 })
    }

    /// Adds 1 to an eventfd's counter, unless it is at its maximum.
    ///
    /// # Errors
    /// `InvalidInput` if it is no eventfd.
    pub fn signal(&mut self, event: BorrowedFd<'_>) -> io::Result<()> {
        if self.uncollected == MAX_UNCOLLECTED {
            self.collect();
        }
        let mut control = Control {
            opcode: READ,
            file: self.file.as_raw_fd().unsigned_abs(),
            flags: SIGNALS_EVENT,
            event_file: event.as_raw_fd().unsigned_abs(),
            ..Control::default()
        };
        let mut pointer = &raw mut control;
        // SAFETY: the kernel copies one control block during the call; a read of 0 bytes uses no memory.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, &raw mut pointer) };
        if submitted < 0 {
            return Err(io::Error::last_os_error());
        }
        self.uncollected += 1;
        Ok(())
    }

    fn collect(&mut self) {
        let mut events = [Event::default(); MAX_UNCOLLECTED];
        let time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes at most as many events as there is room for, and reads one timespec.
        let collected = unsafe {
            let events = events.as_mut_ptr();
            libc::syscall(libc::SYS_io_getevents, self.context, 0, MAX_UNCOLLECTED, events, &raw const time)
        };
        self.uncollected -= usize::try_from(collected).unwrap_or(0).min(self.uncollected);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: no other code has the context.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_never_blocks() {
        use std::os::fd::AsFd;

        use rustix::event::{EventfdFlags, eventfd};
        let mut signals = Signals::new().unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let count = || {
            let mut count = [0; 8];
            rustix::io::read(&event, &mut count).map(|_| u64::from_ne_bytes(count))
        };
        (0..3 * MAX_UNCOLLECTED).for_each(|_| signals.signal(event.as_fd()).unwrap());
        assert_eq!(count(), Ok(3 * MAX_UNCOLLECTED as u64));
        // A write would now wait for a reader.
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        (0..3 * MAX_UNCOLLECTED).for_each(|_| signals.signal(event.as_fd()).unwrap());
        assert!(count().unwrap() >= u64::MAX - 1);
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(signals.signal(socket.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn written_data_is_read_and_an_invalid_request_gets_an_error() {
        let file = tempfile::tempfile().unwrap();
        let arena = Arena::new(1 << 20).unwrap();
        let span = |offset_bytes| Span { offset_bytes, length_bytes: 4_096 };
        arena.fill(span(0), 7);
        let mut requests = Requests::new(arena, file.into(), 4).unwrap();
        let mut done = Vec::new();
        let mut finish = |requests: &mut Requests, count: usize| {
            done.clear();
            requests.submit(&mut done).unwrap();
            while done.len() < count {
                requests.reap(1_000_000_000, &mut done).unwrap();
            }
            done.sort_by_key(|done| done.token);
            done.clone()
        };
        requests.write(1, span(0), 8_192, false);
        assert_eq!(finish(&mut requests, 1), [Done { token: 1, result: 4_096 }]);
        requests.sync(2);
        requests.read(3, span(4_096), 8_192);
        requests.read(4, span(8_192), u64::MAX);
        let all = finish(&mut requests, 3);
        assert_eq!((all[0].result, all[1].result), (0, 4_096));
        assert!(all[2].token == 4 && all[2].result < 0, "{all:?}");
        let mut bytes = [0; 4_096];
        requests.arena().copy_out(span(4_096), &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 7) && requests.in_flight() == 0);
    }
}
