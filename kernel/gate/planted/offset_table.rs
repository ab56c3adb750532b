//! finds: relocation: GOTPCREL
//! flags: -Z plt=no -C relocation-model=pic -C code-model=small
#![no_std]

#[unsafe(export_name = "offset_table.event")]
pub extern "C" fn event(a: &mut [u64; 64], b: &[u64; 64]) {
    *a = *b;
}
