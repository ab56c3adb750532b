//! finds: float: fld
//! finds: float: no f32/f64
#![no_std]

#[unsafe(export_name = "x87.event")]
pub extern "C" fn event(a: &mut f64) {
    *a *= 1.5;
}
