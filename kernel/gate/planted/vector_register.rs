//! finds: float: xmm
//! flags: -C target-feature=+sse,+sse2
#![no_std]

#[unsafe(export_name = "vector_register.event")]
pub extern "C" fn event(a: &mut [u64; 4], b: &[u64; 4]) {
    *a = *b;
}
