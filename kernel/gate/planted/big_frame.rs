//! finds: stack: big_frame.event: 60
#![no_std]
use core::hint::black_box;

#[unsafe(export_name = "big_frame.event")]
pub extern "C" fn event(n: u8) -> u8 {
    black_box([n; 6000]).iter().fold(0, |sum, x| sum ^ x)
}
