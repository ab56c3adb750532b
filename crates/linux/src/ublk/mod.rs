//! ublk: block devices whose requests are served by this process.
//!
//! ```text
//! Control: add ─► set_parameters ─► (queues fetch every tag) ─► start ─► /dev/ublkbN
//!          start_recovery ─► (queues fetch every tag) ─► end_recovery     after the last server died
//!          stop ─► (queues' fetches are aborted, /dev/ublkcN is closed) ─► delete
//! Queue:   descriptors that the kernel fills, one per tag; commands go through the caller's ring
//! ```
//! Layouts and commands: include/uapi/linux/ublk_cmd.h; behaviour: drivers/block/ublk_drv.c and
//! Documentation/block/ublk.rst, Linux 6.12. The crate `libublk` is not used: its build generates
//! bindings with libclang, and it runs queues on threads of its own, while a queue here belongs to
//! a ring that also serves disks and sockets.

mod control;
pub mod feature;
mod queue;
mod users;

pub use control::{Control, protect_thread_from_reclaim};
pub use queue::{Operation, Queue, Request, commit_result};

pub use users::users;

use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The largest number of a queue's tags.
pub const MAX_TAGS: u16 = 4_096;
/// How long udev may take to give rights on a new node.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
const NODE_STEP: Duration = Duration::from_millis(10);

/// What a device is to be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Hardware queues, at least 1.
    pub queues: u16,
    /// Tags per queue, the most requests in flight in it: 1 to [`MAX_TAGS`].
    pub tags: u16,
    /// The longest request, in bytes.
    pub max_io_bytes: u32,
    /// See [`feature`].
    pub features: u64,
}

/// A device's state.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// Created, or stopped.
    Dead,
    /// Served.
    Live,
    /// Its server has died; requests wait for the next one.
    Quiesced,
    /// Its server has died; requests fail until the next one comes.
    FailIo,
}

/// A device as the kernel knows it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// The number N of `/dev/ublkbN` and `/dev/ublkcN`.
    pub number: u32,
    /// Hardware queues.
    pub queues: u16,
    /// Tags per queue, the most requests in flight.
    pub tags: u16,
    /// The longest request, in bytes.
    pub max_io_bytes: u32,
    /// See [`feature`].
    pub features: u64,
    /// Its state.
    pub state: State,
    /// The process that serves or served it.
    pub server: i32,
}

/// What the block layer is told of a device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Size in bytes, a multiple of the logical block.
    pub size_bytes: u64,
    /// Logical block, in bytes: a power of two, 512 to 4096.
    pub logical_block_bytes: u32,
    /// Physical block, in bytes: a power of two, at least the logical block.
    pub physical_block_bytes: u32,
    /// Best length of a request, in bytes: a power of two.
    pub optimal_io_bytes: u32,
    /// The longest read or write, in bytes.
    pub max_io_bytes: u32,
    /// Writes are refused.
    pub is_read_only: bool,
    /// It seeks.
    pub is_rotational: bool,
    /// Answered writes are durable only after a flush, or with FUA.
    pub has_volatile_cache: bool,
    /// The longest discard, in bytes; 0: none is offered.
    pub max_discard_bytes: u32,
    /// The longest write of zeroes, in bytes; 0: the block layer writes them itself.
    pub max_zeroes_bytes: u32,
}

/// The node of a device.
pub fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

/// Repeats an attempt while the node is missing or not accessible: devtmpfs makes it at once, udev may
/// take a moment to give rights on it.
fn when_node_is_ready<T>(mut attempt: impl FnMut() -> rustix::io::Result<T>) -> std::io::Result<T> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) if begin.elapsed() < NODE_TIMEOUT => {
                std::thread::sleep(NODE_STEP);
            }
            result => return Ok(result?),
        }
    }
}

/// The node of a device for its server.
pub fn server_node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkc{number}"))
}
