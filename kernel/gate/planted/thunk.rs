//! finds: indirect: __x86_indirect_thunk
//! flags: -Z retpoline-external-thunk -C unsafe-allow-abi-mismatch=retpoline,retpoline-external-thunk
#![no_std]

#[unsafe(export_name = "thunk.event")]
pub extern "C" fn event(call: extern "C" fn(u64) -> u64, n: u64) -> u64 {
    call(n) + 1
}
