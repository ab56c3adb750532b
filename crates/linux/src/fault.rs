//! Shared memory whose file another process may take away: a load or store of a page that its file does
//! not supply any more would end this process by SIGBUS, with everybody that it serves. A guarded range
//! gets an empty private page there instead, and is lost from then on.
//!
//! ```text
//! truncated file, full tmpfs, no huge page left ─► SIGBUS ─► in a guarded range: new page, is_lost
//!                                                        └► elsewhere: as before (core dump)
//! ```
//! The handler uses atomics and one `mmap` only. Guarded ranges are in a list whose entries are used
//! again and never freed, so that it can be read at any moment.
#![allow(unsafe_code)]

use std::any::Any;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::mm::{MapFlags, ProtFlags};

/// A guarded range, or an entry that waits to be used again.
#[derive(Debug)]
struct Entry {
    first: AtomicUsize,
    /// Its length in bytes; 0 while the entry is not in use.
    bytes: AtomicUsize,
    /// The size of its pages.
    page_bytes: AtomicUsize,
    is_lost: AtomicBool,
    next: Option<&'static Entry>,
}

/// The newest entry of the list.
static NEWEST: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());
/// The entries that are not in use.
static FREE: Mutex<Vec<&'static Entry>> = Mutex::new(Vec::new());
/// What the process did with SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Guards a range until it is dropped.
pub struct Guard {
    entry: &'static Entry,
    /// Keeps the range mapped; dropped after the entry was given back.
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Guard {
    /// Guards the `bytes` from `base` on, whose pages have `page_bytes`, a power of two.
    ///
    /// # Safety
    /// They stay one mapping until `owner` is dropped, and no Rust reference into them exists at any time.
    ///
    /// # Errors
    /// The system's refusal to set a handler.
    pub unsafe fn new(
        base: NonNull<u8>,
        bytes: usize,
        page_bytes: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> io::Result<Self> {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let entry = free.pop().unwrap_or_else(|| {
            let newest = NEWEST.load(Ordering::Acquire);
            // SAFETY: null, or an entry that was leaked below.
            let next = unsafe { newest.as_ref() };
            let [first, bytes, page_bytes] = std::array::from_fn(|_| AtomicUsize::new(0));
            let entry = Box::leak(Box::new(Entry { first, bytes, page_bytes, is_lost: AtomicBool::new(false), next }));
            // Only one thread at a time adds an entry, because it holds the lock.
            NEWEST.store(std::ptr::from_mut(entry), Ordering::Release);
            entry
        });
        entry.is_lost.store(false, Ordering::Relaxed);
        entry.first.store(base.addr().get(), Ordering::Relaxed);
        entry.page_bytes.store(page_bytes, Ordering::Relaxed);
        entry.bytes.store(bytes, Ordering::Release);
        Ok(Self { entry, _owner: owner })
    }

    /// Whether a page could not be supplied. Then the range holds something else than its file.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.entry.is_lost.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("entry", self.entry).finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.entry.bytes.store(0, Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.entry);
    }
}

/// Sets the handler, once in the life of the process.
fn install() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all zeroes are a valid value of this plain structure.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    // The standard library gives each thread a stack of its own for signals.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: both are valid for the call, and the handler does only what a handler may.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let _ = BEFORE.set(before);
    Ok(())
}

/// The handler of SIGBUS.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid structure; its code above 0 says that a fault is described, and
    // not that a process has sent the signal.
    let fault = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    if fault.is_some_and(replace) {
        return;
    }
    let before = BEFORE.get().copied();
    let previous = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // SAFETY: plain calls that a handler may make. The fault happens again on return, and a signal
        // that was sent is sent again; the default ends the process.
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            if fault.is_none() {
                libc::raise(libc::SIGBUS);
            }
        }
        return;
    }
    // SAFETY: the address is that of the previous handler, whose kind its flags tell.
    unsafe {
        if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(previous);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(libc::c_int) = std::mem::transmute(previous);
            handler(signal);
        }
    }
}

/// Puts an empty page where `address` lies in a guarded range; false elsewhere.
fn replace(address: usize) -> bool {
    // SAFETY: null, or an entry that was leaked.
    let mut next: Option<&'static Entry> = unsafe { NEWEST.load(Ordering::Acquire).as_ref() };
    while let Some(entry) = next {
        next = entry.next;
        let bytes = entry.bytes.load(Ordering::Acquire);
        let offset = address.wrapping_sub(entry.first.load(Ordering::Relaxed));
        // The thread that faults uses the range, so its entry does not change meanwhile. An entry that
        // does change, for another range, is not the one.
        if offset >= bytes || entry.bytes.load(Ordering::Acquire) != bytes {
            continue;
        }
        let page_bytes = entry.page_bytes.load(Ordering::Relaxed);
        entry.is_lost.store(true, Ordering::Relaxed);
        let page = (address & !(page_bytes - 1)) as *mut libc::c_void;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        // SAFETY: the page lies in a mapping that the guard keeps, into which no reference exists; its
        // content was gone.
        let mapped = unsafe { rustix::mm::mmap_anonymous(page, page_bytes, protection, flags | MapFlags::NORESERVE) };
        return mapped.is_ok();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    const PAGE_BYTES: usize = 4_096;

    struct Mapping(NonNull<u8>, usize);

    // SAFETY: the mapping is used through volatile accesses only.
    unsafe impl Send for Mapping {}
    // SAFETY: as above.
    unsafe impl Sync for Mapping {}

    impl Mapping {
        fn new(file: &File, pages: usize) -> Self {
            let (protection, bytes) = (ProtFlags::READ | ProtFlags::WRITE, pages * PAGE_BYTES);
            // SAFETY: a new mapping at an address of the kernel's choice.
            let address =
                unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file.as_fd(), 0) };
            Self(NonNull::new(address.expect("mapped").cast()).expect("an address"), bytes)
        }

        fn guard(self: &Arc<Self>) -> Guard {
            // SAFETY: the mapping lives as long as this value, and no reference into it exists.
            unsafe { Guard::new(self.0, self.1, PAGE_BYTES, Arc::clone(self) as Arc<_>) }.expect("a handler")
        }

        fn get(&self, at: usize) -> u8 {
            // SAFETY: inside the mapping.
            unsafe { self.0.as_ptr().add(at).read_volatile() }
        }

        fn put(&self, at: usize, byte: u8) {
            // SAFETY: inside the mapping.
            unsafe { self.0.as_ptr().add(at).write_volatile(byte) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped in `new`, and used no more.
            let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), self.1) };
        }
    }

    fn memory_file(pages: u64) -> File {
        let file = File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd"));
        file.set_len(pages * PAGE_BYTES as u64).expect("its length");
        file
    }

    #[test]
    fn a_file_that_is_truncated_costs_its_own_range_only() {
        let (file, other_file) = (memory_file(4), memory_file(4));
        let (range, other) = (Arc::new(Mapping::new(&file, 4)), Arc::new(Mapping::new(&other_file, 4)));
        let (guard, other_guard) = (range.guard(), other.guard());
        range.put(3 * PAGE_BYTES, 7);
        assert_eq!((range.get(3 * PAGE_BYTES), guard.is_lost()), (7, false));
        file.set_len(PAGE_BYTES as u64).expect("truncated");
        range.put(0, 5);
        assert!(!guard.is_lost(), "the first page is still there");
        // By several threads at once, for reading and for writing.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let range = &range;
                scope.spawn(move || (1..4).for_each(|page| range.put(page * PAGE_BYTES + thread, 9)));
            }
        });
        assert_eq!((range.get(0), range.get(PAGE_BYTES + 100), guard.is_lost()), (5, 0, true));
        other.put(0, 1);
        assert!(!other_guard.is_lost() && other.get(0) == 1);
        drop(guard);
        assert!(!range.guard().is_lost(), "an entry is used again without its past");
    }
}
