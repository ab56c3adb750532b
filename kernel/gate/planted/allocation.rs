//! finds: allocation: an event method reaches
//! finds: allocation: allocation.event
#![no_std]
extern crate alloc;
use alloc::vec::Vec;

/// `try_reserve` panics nowhere and is still an allocation.
#[unsafe(export_name = "allocation.event")]
pub extern "C" fn event(list: &mut Vec<u64>) -> bool {
    list.try_reserve_exact(100).is_ok()
}
