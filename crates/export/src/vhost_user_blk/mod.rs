//! Disks for virtual machines: virtio-blk over vhost-user, one unix socket per export.
//!
//! ```text
//! listener's thread: accept ─► Session (memory, rings, configuration) ─► commands
//! shard's thread:    Device ─► Ring (virtqueue) ─► Chain ─► engine ─► GuestMemory
//! ```
//! One front end at a time: the next one is served when nothing of the last is in flight any more. The
//! messages are `vhost`'s, the rings `virtio-queue`'s, the memory `vm-memory`'s; the translation of
//! requests is `hoistway_engine::protocol::virtio_blk`.

mod attached;
pub mod chain;
mod configuration_space;
mod device;
pub mod guest_memory;
mod in_flight;
mod listener;
mod notices;
mod ring;
mod session;
mod spread;
#[cfg(test)]
mod testing;

pub use configuration_space::DeviceFacts;
pub use device::Report;
pub use listener::{Listener, Served};
