//! finds: indirect: jmp
#![no_std]

#[unsafe(export_name = "function_pointer.event")]
pub extern "C" fn event(call: extern "C" fn(u64) -> u64, n: u64) -> u64 {
    call(n)
}
