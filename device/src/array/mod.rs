//! A RAID array behind a controller.

mod parameters;

pub(crate) use parameters::ARRAY;
pub use parameters::ArrayParameters;
