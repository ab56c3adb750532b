//! finds: allocation: __rust_dealloc
#![no_std]
extern crate alloc;
use alloc::vec::Vec;

#[unsafe(export_name = "release.event")]
pub extern "C" fn event(list: Vec<u64>) {
    drop(list);
}
