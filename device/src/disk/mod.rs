//! A hard disk.

mod parameters;

pub(crate) use parameters::DISK;
pub use parameters::DiskParameters;
