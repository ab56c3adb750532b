//! The arena: one mapping that all data of a device passes through.
//!
//! The kernel and the device's threads read and write this memory while requests are in flight, so no
//! Rust reference to it ever exists: data is copied in and out through raw pointers, with bounds
//! checked here. Each span is used by one request at a time; a caller's mistake can affect only
//! *which* bytes it sees, never memory safety.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::slots::{Slot, TOP_CLASS_BYTES};
use crate::window::{Window, Windows, is_outside};

/// A range of bytes inside an arena, or inside a [window](crate::window) of it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// First byte inside the arena, or inside a window, whose number is then in the highest bits.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u32,
}

impl Span {
    /// The span of `length_bytes` that starts at `skip_bytes` in the slot, cut off at the slot's
    /// end.
    #[inline]
    pub fn of(slot: Slot, skip_bytes: u32, length_bytes: u32) -> Self {
        let skip_bytes = skip_bytes.min(slot.bytes());
        Self {
            offset_bytes: slot.offset_bytes() + u64::from(skip_bytes),
            length_bytes: length_bytes.min(slot.bytes() - skip_bytes),
        }
    }

    /// The span without its first `bytes` (none left if there are fewer).
    #[inline]
    #[must_use]
    pub fn behind(self, bytes: u32) -> Self {
        let bytes = bytes.min(self.length_bytes);
        Self { offset_bytes: self.offset_bytes + u64::from(bytes), length_bytes: self.length_bytes - bytes }
    }
}

/// Anonymous memory of fixed size; the system provides each page when it is first touched.
pub struct Arena {
    base: NonNull<u8>,
    bytes: usize,
    windows: Windows,
}

// SAFETY: the mapping belongs to this value alone and is accessed through raw copies only, so it
// may move to another thread.
unsafe impl Send for Arena {}

// SAFETY: no method makes a reference into the mapping, and base and length never change; bytes are
// moved by raw copies, as the kernel moves them while requests are in flight.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `bytes`, rounded up to whole slots of the largest class, with huge pages where the
    /// system provides them. The mapping is excluded from core dumps because it holds clients'
    /// data.
    pub fn new(bytes: u64) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(u64::from(TOP_CLASS_BYTES));
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that
        // exists.
        let address = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        let base = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        for advice in [Advice::LinuxHugepage, Advice::LinuxDontDump] {
            // SAFETY: the range is the mapping just made; neither advice changes its content.
            // Refusal is harmless.
            let _ = unsafe { rustix::mm::madvise(address, bytes, advice) };
        }
        Ok(Self { base, bytes, windows: Windows::default() })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The address of a span, for the kernel and for copies.
    ///
    /// # Panics
    /// If the span is not wholly inside the arena, because no address outside it may ever be handed
    /// out.
    #[inline]
    pub fn address(&self, span: Span) -> *mut u8 {
        let end = span.offset_bytes.checked_add(u64::from(span.length_bytes));
        assert!(end.is_some_and(|end| end <= self.bytes as u64), "span {span:?} outside the arena of {}", self.bytes);
        let offset = usize::try_from(span.offset_bytes).unwrap_or(usize::MAX);
        // SAFETY: offset <= bytes was checked above, and the mapping is one allocation of that
        // length.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The memory beside the arena that spans may name.
    pub(crate) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The address of a span of the arena or of a window, and the window, which keeps the address
    /// valid.
    ///
    /// # Panics
    /// As [`Arena::address`].
    #[inline]
    pub(crate) fn resolve(&self, span: Span) -> (*mut u8, Option<Arc<Window>>) {
        if !is_outside(span) {
            return (self.address(span), None);
        }
        let (address, window) = self.windows.resolve(span);
        (address, Some(window))
    }

    /// Copies `bytes` to the start of `span`; bytes that do not fit are ignored.
    #[inline]
    pub fn copy_in(&self, span: Span, bytes: &[u8]) {
        let length = bytes.len().min(span.length_bytes as usize);
        let to = self.address(span);
        // SAFETY: `to` has `length` bytes inside the mapping; `bytes` is ordinary memory and cannot
        // overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length) };
    }

    /// Copies the start of `span` to `bytes`, as much as both hold; returns the number of bytes
    /// copied.
    #[inline]
    pub fn copy_out(&self, span: Span, bytes: &mut [u8]) -> usize {
        let length = bytes.len().min(span.length_bytes as usize);
        let from = self.address(span);
        // SAFETY: `from` has `length` bytes inside the mapping; `bytes` is ordinary memory and
        // cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), length) };
        length
    }

    /// Copies inside the arena, as much as both spans hold; they may overlap.
    #[inline]
    pub fn copy_within(&self, from: Span, to: Span) {
        let length = from.length_bytes.min(to.length_bytes) as usize;
        let (from, to) = (self.address(from), self.address(to));
        // SAFETY: both have `length` bytes inside the mapping; `copy` allows overlap.
        unsafe { std::ptr::copy(from, to, length) };
    }

    /// Sets every byte of the span to `byte`.
    pub fn fill(&self, span: Span, byte: u8) {
        let to = self.address(span);
        // SAFETY: `to` has the span's length inside the mapping.
        unsafe { std::ptr::write_bytes(to, byte, span.length_bytes as usize) };
    }

    /// Reads from a file straight into the span; blocks only if the file does (a file in memory
    /// does not). Returns the bytes read, which are fewer than asked for at the file's end.
    pub fn read_at(&self, file: BorrowedFd<'_>, span: Span, position_bytes: u64) -> io::Result<u32> {
        let position = libc::off_t::try_from(position_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (to, _window) = self.resolve(span);
        // SAFETY: the kernel writes at most the span's length, which lies inside the mapping.
        let result = unsafe { libc::pread(file.as_raw_fd(), to.cast(), span.length_bytes as usize, position) };
        u32::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    /// Writes the span to a file; with `durable`, returns when the data is on stable storage
    /// (RWF_DSYNC).
    pub fn write_at(&self, file: BorrowedFd<'_>, span: Span, position_bytes: u64, durable: bool) -> io::Result<u32> {
        let position = libc::off_t::try_from(position_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = if durable { libc::RWF_DSYNC } else { 0 };
        let (from, _window) = self.resolve(span);
        let piece = libc::iovec { iov_base: from.cast(), iov_len: span.length_bytes as usize };
        // SAFETY: the kernel reads one piece of the span's length, which lies inside the mapping.
        let result = unsafe { libc::pwritev2(file.as_raw_fd(), &raw const piece, 1, position, flags) };
        u32::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

/// Spans that a call of another thread reads or writes: their memory stays mapped until this is dropped.
pub struct Gathered {
    arena: Arc<Arena>,
    pieces: Vec<(Span, Option<Arc<Window>>)>,
}

impl Gathered {
    /// The spans, one behind the other (at most [`crate::ring::MAX_SPANS`]).
    ///
    /// # Panics
    /// If a span is not wholly inside the arena or a window of it, because no other address may ever be handed out.
    pub fn new(arena: &Arc<Arena>, spans: &[Span]) -> Self {
        let pieces = spans.iter().map(|&span| (span, arena.resolve(span).1)).collect();
        Self { arena: Arc::clone(arena), pieces }
    }

    fn vectors(&self) -> Vec<libc::iovec> {
        let vector = |(span, window): &(Span, Option<Arc<Window>>)| {
            let address = match window {
                None => self.arena.address(*span),
                // It was inside when the span was resolved, and a window's size never changes.
                Some(window) => window.address(*span).unwrap_or(std::ptr::null_mut()),
            };
            libc::iovec { iov_base: address.cast(), iov_len: span.length_bytes as usize }
        };
        self.pieces.iter().map(vector).collect()
    }

    /// Reads from a file into the spans; returns the bytes read, which may be fewer. Blocks as the file does.
    ///
    /// # Errors
    /// Any error of preadv2.
    pub fn read_at(&self, file: BorrowedFd<'_>, position_bytes: u64) -> io::Result<u32> {
        let position = libc::off_t::try_from(position_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let vectors = self.vectors();
        let count = libc::c_int::try_from(vectors.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel writes to the spans only, whose memory `self` keeps mapped during the call.
        let result = unsafe { libc::preadv2(file.as_raw_fd(), vectors.as_ptr(), count, position, 0) };
        u32::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    /// Writes the spans to a file; with `durable`, returns when the data is on stable storage (RWF_DSYNC). Blocks as
    /// the file does.
    ///
    /// # Errors
    /// Any error of pwritev2.
    pub fn write_at(&self, file: BorrowedFd<'_>, position_bytes: u64, durable: bool) -> io::Result<u32> {
        let position = libc::off_t::try_from(position_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = if durable { libc::RWF_DSYNC } else { 0 };
        let vectors = self.vectors();
        let count = libc::c_int::try_from(vectors.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel reads the spans only, whose memory `self` keeps mapped during the call.
        let result = unsafe { libc::pwritev2(file.as_raw_fd(), vectors.as_ptr(), count, position, flags) };
        u32::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no reference into it can
        // exist.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn bytes_go_in_across_and_out() {
        let arena = Arena::new(1 << 20).expect("1 MiB");
        let (a, b) = (Span { offset_bytes: 0, length_bytes: 5 }, Span { offset_bytes: 70_000, length_bytes: 4_096 });
        arena.copy_in(a, b"hoist");
        arena.copy_within(a, b);
        let mut out = [0; 8];
        assert_eq!(arena.copy_out(b, &mut out), 8);
        assert_eq!(&out, b"hoist\0\0\0");
    }

    #[test]
    #[should_panic(expected = "outside the arena")]
    fn a_span_outside_is_refused() {
        let arena = Arena::new(1 << 20).expect("1 MiB");
        arena.copy_out(Span { offset_bytes: (1 << 20) - 2, length_bytes: 4 }, &mut [0; 4]);
    }

    #[test]
    fn gathered_spans_are_written_and_read_as_one_piece() {
        let arena = Arc::new(Arena::new(1 << 20).expect("1 MiB"));
        let file = tempfile::tempfile().expect("a temporary file");
        let at = |offset_bytes, length_bytes| Span { offset_bytes, length_bytes };
        arena.copy_in(at(0, 3), b"abc");
        arena.copy_in(at(70_000, 3), b"def");
        let both = Gathered::new(&arena, &[at(70_000, 3), at(0, 2)]);
        assert_eq!(both.write_at(file.as_fd(), 500, true).expect("written"), 5);
        let back = Gathered::new(&arena, &[at(9_000, 1), at(9_100, 100)]);
        assert_eq!(back.read_at(file.as_fd(), 501).expect("read"), 4);
        let mut out = [0; 3];
        arena.copy_out(at(9_100, 3), &mut out);
        assert_eq!(&out, b"fab");
    }

    #[test]
    fn a_file_is_written_and_read_at_a_position() {
        let arena = Arena::new(1 << 20).expect("1 MiB");
        let file = tempfile::tempfile().expect("a temporary file");
        let span = Span { offset_bytes: 8_192, length_bytes: 3 };
        arena.copy_in(span, b"abc");
        assert_eq!(arena.write_at(file.as_fd(), span, 1_000, true).expect("written"), 3);
        let back = Span { offset_bytes: 0, length_bytes: 100 };
        assert_eq!(arena.read_at(file.as_fd(), back, 1_001).expect("read"), 2);
        let mut out = [0; 2];
        arena.copy_out(back, &mut out);
        assert_eq!(&out, b"bc");
    }
}
