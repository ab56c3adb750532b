//! The time of every request in a block device, by control group, as the kernel's blktrace tells it.
//!
//! ```text
//! the kernel -> a file for each processor -> [`record`] -> in the order of time -> [`times`]
//! ```
//!
//! Promise  events of all processors are taken in the order of their times. Memory is bounded, whatever the kernel
//!          tells; what is lost is counted.
//! Cost     two records of 56 bytes for each request.
//!
//! Sources: Linux include/uapi/linux/blktrace_api.h, kernel/trace/blktrace.c.

mod record;
mod times;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

pub use record::{Event, Kind};
pub use times::{BOUNDS_NS, Direction, ServiceTimes, Times};

use crate::ioctl;

/// Where the kernel shows the records.
const DEBUGFS: &str = "/sys/kernel/debug/block";
/// BLK_TC_ISSUE and BLK_TC_COMPLETE.
const ACTIONS: u16 = 1 << 6 | 1 << 7;
/// Buffers for all processors together, and for each at least and at most: a tenth of a second of 90,000 requests a
/// second on one processor.
const ALL_BUFFERS_BYTES: u32 = 8 << 20;
const BUFFERS_BYTES: [u32; 2] = [64 << 10, 1 << 20];
/// Buffers of each processor: the kernel fills one while another is read.
const BUFFERS: u32 = 4;
/// An event is in the files this long after its time: the kernel writes it with interrupts off.
const SETTLED_NS: u64 = 1_000_000;
const READ_BYTES: usize = 64 << 10;

/// A device that is traced.
#[derive(Debug)]
pub struct BlockTrace {
    relays: Vec<Relay>,
    dropped: PathBuf,
    /// Events that are too young to be in order.
    waiting: Vec<Event>,
    buffer: Vec<u8>,
    times: ServiceTimes,
}

/// The records of a processor.
#[derive(Debug)]
struct Relay {
    file: File,
    /// The first bytes of a record that has been read only in part.
    unfinished: Vec<u8>,
}

impl BlockTrace {
    /// Starts tracing a whole disk, `name` in sysfs. The caller sees to it that it ends: 0 in the disk's
    /// `trace/enable` ends it.
    ///
    /// # Errors
    /// `EBUSY` if another program traces it; `NotFound` without debugfs or blktrace in the kernel; no rights.
    pub fn start(name: &str) -> io::Result<Self> {
        let folder = Path::new(DEBUGFS).join(name);
        if !Path::new(DEBUGFS).exists() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no debugfs at /sys/kernel/debug"));
        }
        let device = File::open(Path::new("/dev").join(name))?;
        let processors = u32::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1);
        let buffers_bytes = (ALL_BUFFERS_BYTES / processors).clamp(BUFFERS_BYTES[0], BUFFERS_BYTES[1]);
        ioctl::start_block_trace(device.as_fd(), ACTIONS, buffers_bytes / BUFFERS, BUFFERS)?;
        let mut relays = Vec::new();
        for entry in fs::read_dir(&folder)?.flatten() {
            let is_relay = entry.file_name().to_str().and_then(|name| name.strip_prefix("trace")?.parse::<u32>().ok());
            if is_relay.is_some() {
                relays.push(Relay { file: File::open(entry.path())?, unfinished: Vec::new() });
            }
        }
        Ok(Self {
            relays,
            dropped: folder.join("dropped"),
            waiting: Vec::new(),
            buffer: vec![0; READ_BYTES],
            times: ServiceTimes::default(),
        })
    }

    /// Takes what the kernel has told since the last call. Ten times a second is enough.
    ///
    /// # Errors
    /// Tracing was ended by another program.
    pub fn take(&mut self) -> io::Result<()> {
        let settled_ns = now_ns().saturating_sub(SETTLED_NS);
        for relay in &mut self.relays {
            relay.read(&mut self.buffer, &mut self.waiting)?;
        }
        self.waiting.sort_by_key(|event| event.at_ns);
        let settled = self.waiting.partition_point(|event| event.at_ns <= settled_ns);
        self.waiting.drain(..settled).for_each(|event| self.times.add(&event));
        Ok(())
    }

    /// The times since the start.
    pub fn times(&self) -> &ServiceTimes {
        &self.times
    }

    /// Events that are missing in the times: the kernel had no room, or a table was full.
    pub fn lost(&self) -> u64 {
        let dropped = fs::read_to_string(&self.dropped).ok().and_then(|text| text.trim().parse::<u64>().ok());
        dropped.unwrap_or(0) + self.times.lost()
    }
}

impl Relay {
    fn read(&mut self, buffer: &mut [u8], events: &mut Vec<Event>) -> io::Result<()> {
        loop {
            match self.file.read(buffer) {
                Ok(0) => return Ok(()),
                Ok(length) if self.unfinished.is_empty() => {
                    let read = record::read(&buffer[..length], events);
                    self.unfinished.extend_from_slice(&buffer[read..length]);
                }
                Ok(length) => {
                    self.unfinished.extend_from_slice(&buffer[..length]);
                    let read = record::read(&self.unfinished, events);
                    self.unfinished.drain(..read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The clock of the records.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
