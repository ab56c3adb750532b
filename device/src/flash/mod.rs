//! A flash SSD.

mod parameters;

pub(crate) use parameters::FLASH;
pub use parameters::FlashParameters;
