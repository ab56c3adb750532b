//! finds: undefined: core::fmt
#![no_std]
use core::fmt::Write;

pub struct Sink(u64);

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0 = self.0.wrapping_add(text.len() as u64);
        Ok(())
    }
}

#[unsafe(export_name = "formatting.event")]
pub extern "C" fn event(sink: &mut Sink, n: u64) {
    let _ = write!(sink, "{n}");
}
