//! Memory outside an arena that requests on files may use all the same, such as a virtual
//! machine's: spans name it through a number that the arena gave it.
#![allow(unsafe_code)]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};

use crate::buffer::{Arena, Span};

/// Bits of a span's offset that are the offset inside a window; those above are the window's number,
/// 0 for the arena itself.
const OFFSET_BITS: u32 = 40;
/// The last number. It is no window's: it stands for the memory of ublk requests ([`crate::ring::RequestBuffer`]).
pub(crate) const LAST_NUMBER: u64 = (1 << (u64::BITS - OFFSET_BITS)) - 1;
/// The last number that a window may have.
const LAST_WINDOW: u64 = LAST_NUMBER - 1;

/// A mapped range of memory.
pub struct Window {
    base: NonNull<u8>,
    bytes: u64,
    /// Keeps the memory mapped.
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory is accessed only by the kernel and through raw copies, and `new` promises that it
// stays mapped as long as the owner lives, on whatever thread that is dropped.
unsafe impl Send for Window {}

// SAFETY: as for `Send`; no method makes a reference into the memory.
unsafe impl Sync for Window {}

impl Window {
    /// The `bytes` from `base` on.
    ///
    /// # Safety
    /// They are mapped for reading and writing until `owner` is dropped, and no Rust reference into them
    /// exists at any time.
    pub unsafe fn new(base: NonNull<u8>, bytes: u64, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { base, bytes, _owner: owner }
    }

    /// The address of the range that a span of this window names; `None` if it is not inside.
    pub(crate) fn address(&self, span: Span) -> Option<*mut u8> {
        let offset_bytes = span.offset_bytes & ((1 << OFFSET_BITS) - 1);
        if offset_bytes + u64::from(span.length_bytes) > self.bytes {
            return None;
        }
        // SAFETY: the offset is inside the mapped range, which is one mapping.
        Some(unsafe { self.base.as_ptr().add(usize::try_from(offset_bytes).ok()?) })
    }
}

/// The windows of an arena, by ascending number.
#[derive(Default)]
pub(crate) struct Windows(RwLock<Numbered>);

#[derive(Default)]
struct Numbered {
    last: u64,
    windows: Vec<(u64, Arc<Window>)>,
}

impl Numbered {
    /// The next number that is free; after the last one the first again.
    fn next(&mut self) -> Option<u64> {
        if self.windows.len() as u64 >= LAST_WINDOW {
            return None;
        }
        loop {
            self.last = self.last % LAST_WINDOW + 1;
            if self.windows.binary_search_by_key(&self.last, |(number, _)| *number).is_err() {
                return Some(self.last);
            }
        }
    }
}

/// A window that belongs to an arena until this value is dropped. Requests in flight keep its memory
/// beyond that.
pub struct Attached {
    arena: Arc<Arena>,
    number: u64,
    bytes: u64,
}

impl Attached {
    /// The span of `length_bytes` from `offset_bytes` of the window on; `None` if it is not inside.
    #[inline]
    pub fn span(&self, offset_bytes: u64, length_bytes: u32) -> Option<Span> {
        let is_inside = offset_bytes.checked_add(u64::from(length_bytes))? <= self.bytes;
        is_inside.then_some(Span { offset_bytes: self.number << OFFSET_BITS | offset_bytes, length_bytes })
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("number", &self.number).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut numbered = self.arena.windows().0.write().unwrap_or_else(PoisonError::into_inner);
        numbered.windows.retain(|(number, _)| *number != self.number);
    }
}

/// Adds a window to an arena. `None` if it does not begin at a multiple of 4 KiB, if it is longer than
/// 1 TiB, or if there are 16 million windows. A number is used again as late as possible.
pub fn attach(arena: &Arc<Arena>, window: Window) -> Option<Attached> {
    if window.bytes > 1 << OFFSET_BITS || !window.base.addr().get().is_multiple_of(4_096) {
        return None;
    }
    let bytes = window.bytes;
    let mut numbered = arena.windows().0.write().unwrap_or_else(PoisonError::into_inner);
    let number = numbered.next()?;
    let at = numbered.windows.partition_point(|(other, _)| *other < number);
    numbered.windows.insert(at, (number, Arc::new(window)));
    drop(numbered);
    Some(Attached { arena: Arc::clone(arena), number, bytes })
}

/// Whether a span lies in a window and not in the arena itself.
#[inline]
pub(crate) const fn is_outside(span: Span) -> bool {
    span.offset_bytes >> OFFSET_BITS != 0
}

impl Windows {
    /// The address of a span, and its window, which keeps the address valid.
    ///
    /// # Panics
    /// If there is no such window, or the span is not wholly inside it, because no other address may ever
    /// be handed out.
    pub(crate) fn resolve(&self, span: Span) -> (*mut u8, Arc<Window>) {
        let number = span.offset_bytes >> OFFSET_BITS;
        let numbered = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let found = numbered.windows.binary_search_by_key(&number, |(number, _)| *number);
        let window = found.ok().map(|index| Arc::clone(&numbered.windows[index].1));
        let window = window.unwrap_or_else(|| panic!("span {span:?} in a window that is gone"));
        let address = window.address(span).unwrap_or_else(|| panic!("span {span:?} outside its window"));
        (address, window)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[repr(align(4096))]
    struct Page([u8; 4_096]);

    /// A window over a page that is never freed, and that begins with `bytes`.
    fn window(bytes: &[u8]) -> Window {
        let mut page = Box::new(Page([0; 4_096]));
        page.0[..bytes.len()].copy_from_slice(bytes);
        let base = NonNull::from(Box::leak(page)).cast();
        // SAFETY: the memory is leaked, so it stays valid, and the only reference to it ends here.
        unsafe { Window::new(base, bytes.len() as u64, Arc::new(())) }
    }

    #[test]
    fn a_file_is_written_from_a_window_and_read_into_another() {
        let arena = Arc::new(Arena::new(1 << 20).expect("1 MiB"));
        let from = attach(&arena, window(b"elevators")).expect("attached");
        let to = attach(&arena, window(&[0; 9])).expect("attached");
        let file = tempfile::tempfile().expect("a temporary file");
        assert_eq!(arena.write_at(file.as_fd(), from.span(0, 9).expect("inside"), 0, false).expect("written"), 9);
        assert_eq!(arena.read_at(file.as_fd(), to.span(3, 6).expect("inside"), 0).expect("read"), 6);
        assert_eq!(arena.write_at(file.as_fd(), to.span(0, 9).expect("inside"), 0, false).expect("written"), 9);
        let span = Span { offset_bytes: 64, length_bytes: 9 };
        assert_eq!(arena.read_at(file.as_fd(), span, 0).expect("read"), 9);
        let mut out = [0; 9];
        arena.copy_out(span, &mut out);
        assert_eq!(&out, b"\0\0\0elevat");
        assert_eq!(to.span(4, 6), None);
    }

    #[test]
    #[should_panic(expected = "in a window that is gone")]
    fn a_span_of_a_window_that_is_gone_is_refused() {
        let arena = Arc::new(Arena::new(1 << 20).expect("1 MiB"));
        let span = attach(&arena, window(&[1; 8])).expect("attached").span(0, 8).expect("inside");
        let _other = attach(&arena, window(&[2; 8])).expect("attached");
        let file = tempfile::tempfile().expect("a temporary file");
        let _ = arena.write_at(file.as_fd(), span, 0, false);
    }

    /// A guest may change its memory as often as it likes, and must not use up the numbers of all.
    #[test]
    fn numbers_are_used_again_behind_the_last() {
        let arena = Arc::new(Arena::new(1 << 20).expect("1 MiB"));
        let held = attach(&arena, window(b"held")).expect("attached");
        arena.windows().0.write().expect("no panic").last = LAST_WINDOW - 1;
        let numbers: Vec<u64> = (0..3).map(|_| attach(&arena, window(b"new")).expect("attached").number).collect();
        assert_eq!(numbers, [LAST_WINDOW, 2, 3]);
        let file = tempfile::tempfile().expect("a temporary file");
        assert_eq!(arena.write_at(file.as_fd(), held.span(0, 4).expect("inside"), 0, false).expect("written"), 4);
    }

    #[test]
    #[should_panic(expected = "outside the arena")]
    fn data_is_not_copied_into_a_window() {
        let arena = Arc::new(Arena::new(1 << 20).expect("1 MiB"));
        let attached = attach(&arena, window(&[1; 8])).expect("attached");
        arena.copy_in(attached.span(0, 8).expect("inside"), b"x");
    }
}
