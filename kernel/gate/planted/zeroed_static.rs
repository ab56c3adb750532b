//! finds: writable: COUNT
#![no_std]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

static COUNT: AtomicU32 = AtomicU32::new(0);

#[unsafe(export_name = "zeroed_static.event")]
pub extern "C" fn event() -> u32 {
    COUNT.fetch_add(1, Relaxed)
}
