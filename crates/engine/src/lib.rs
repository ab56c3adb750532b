//! The host that does real I/O: a request queue over io_uring, files and block devices.
//!
//! ```
//! use hoistway_engine::{Backing, ShardSettings, VolumeSettings, start};
//!
//! let volume = VolumeSettings::new("scratch", Backing::parse("memory:64MiB")?);
//! let shard = start(ShardSettings::default(), &[volume])?;
//! let group = shard.add_group("tenants/db", 300)?;
//! let client = shard.client(shard.volumes()[0], group)?;
//! client.write(4096, b"hello").expect("written");
//! assert_eq!(client.read(4096, 5).expect("read"), b"hello");
//! shard.stop()?;
//! # Ok::<(), hoistway_engine::EngineError>(())
//! ```
//! Units: offsets and lengths in bytes, positions for the elevator in sectors of 512 bytes, times in
//! nanoseconds of the monotonic clock; names say which (`_bytes`, `_sectors`, `_ns`). Weights are 1
//! to 10,000.
//!
//! ```text
//!  clients ─► protocol ─► shard ─► turn ─► queue ─► elevator        files, devices
//!             (codec)     (I/O)    (decides, pure)           ─► shard ─► io_uring ─►
//! ```
//! [`start`] opens volumes and starts a shard: the threads of one device, with everything on the
//! data path; further threads are started as clients come. Socket clients bring a
//! [`protocol::Protocol`] (NBD: crate `export`), threads of the process use a [`Client`], and load
//! generators, ublk devices and virtual machines run on a thread of the device as a [`LocalClient`].
//! Read `turn` for the decisions and `shard` for the loop.
#![forbid(unsafe_code)]

mod backing;
mod client;
pub mod counters;
mod damage;
mod depth;
mod error;
mod flush;
mod gate;
mod growth;
mod host;
mod looking;
mod memory;
pub mod overlay;
mod positioning;
pub mod protocol;
mod saturation;
mod settings;
mod shard;
mod table;
mod turn;
mod volume;

pub use backing::{Backing, BackingKind, VolumeFacts, VolumeSettings, parse_size};
pub use client::{Client, ClientError, Ticket};
pub use damage::Damage;
pub use depth::DepthState;
pub use error::{EngineError, ErrorKind};
pub use growth::Growth;
pub use host::EngineHost;
pub use positioning::Rotational;
pub use saturation::{GroupShare, Saturation, ShareMiss};
pub use settings::ShardSettings;
pub use shard::{
    ANSWER_TIMEOUT, Answer, ClientContext, ConnectionEnd, ConnectionStatus, DESCRIPTORS_OF_A_THREAD, Data, DrainReport,
    EndReason, Fill, GroupStatus, LocalClient, LocalClientId, LocalRequest, OnEnd, Payload, SchedulingStatus,
    ShardStatus, TunableStatus, UblkDevice, Unanswered, VolumeStatus, most_threads,
};
pub use turn::{ConnectionBounds, Window};
pub use volume::{ClientSocket, ConnectionId, Eviction, GroupHandle, LocalConnection, ShardHandle, VolumeId, start};
