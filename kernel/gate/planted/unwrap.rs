//! finds: undefined: unwrap_failed
#![no_std]

#[unsafe(export_name = "unwrap.event")]
pub extern "C" fn event(a: &[u64; 16], i: usize) -> u64 {
    *a.get(i).unwrap()
}
