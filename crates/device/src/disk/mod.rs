//! A hard disk.
//!
//! Promise  zones, skews, rotation, seeks with jitter, a segmented read cache with look-ahead, a volatile write cache and
//!          NCQ by shortest positioning time, such that published tables of concurrent readers come out (specification
//!          of the devices, 4 and 11).
//! Cost     0.5 us per random read with 32 in flight, most of it the choice; nothing is allocated and no float is
//!          touched after it was made. The seek table takes 4 bytes per cylinder, once for all siblings.
//! Not      defects, retries, thermal recalibration, adaptive formats; an overwrite of a dirty sector takes an extent of
//!          its own, as in the specification.
//!
//! Begin with `drive`, which holds the order of events; `media` and `arrive` are what happens in them, `choose` is what
//! the drive is known for, and `geometry`, `rotation`, `seek` are the arithmetic below.

mod arms;
mod arrive;
mod cache;
mod check;
mod choose;
mod drive;
mod geometry;
mod mechanics;
mod media;
mod parameters;
mod read_queue;
mod rotation;
mod seek;
mod write_cache;

pub use arms::Arms;
pub use drive::Disk;
pub(crate) use parameters::DISK;
pub use parameters::DiskParameters;
