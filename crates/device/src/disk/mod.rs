//! A hard disk.
//!
//! * Models: zones, skews, rotation, seeks with jitter, a segmented read cache with look-ahead, a
//!   volatile write cache and NCQ by shortest positioning time, so that published tables of
//!   concurrent readers are reproduced.
//! * Source: docs/specifications/devices.md, sections 4 and 11.
//! * Cost: 0.55 us per random read with 32 in flight, issuer, queue and policy included
//!   (docs/reference/performance.md); no allocation and no floating point after construction. The
//!   seek table takes 4 bytes per cylinder; all disks of an array share one.
//! * Not modelled: defects, retries, thermal recalibration, adaptive formats; replacement of cached
//!   dirty data by an overwrite, which takes another extent of the write cache instead, as in
//!   docs/specifications/devices.md, section 4.
//!
//! Start reading with `drive`, which has the order of events; `media` and `arrive` implement the
//! events, `choose` is the queueing discipline, and `geometry`, `rotation`, `seek` are the
//! arithmetic.

mod activity;
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
pub use parameters::{DiskFirmware, DiskLayout, DiskOrder, DiskParameters, DiskReading, DiskSeeks, DiskWriting};
