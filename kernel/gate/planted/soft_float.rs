//! finds: undefined: __muldf3
//! finds: undefined: no f32/f64
//! flags: -C target-feature=+soft-float
#![no_std]

#[unsafe(export_name = "soft_float.event")]
pub extern "C" fn event(a: &mut f64) {
    *a *= 1.5;
}
