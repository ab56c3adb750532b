//! A light virtual machine for measuring servers: a front end of vhost-user-blk and a guest's driver
//! in one, with one ring or several.
//!
//! ```text
//! cargo run --release -p hoistway-export --example vhost_client -- SOCKET [--rings 1] [--depth 32] [--bs 4096]
//!     [--rw read|write] [--seconds 2]
//! ```
//! Prints one line of JSON: requests per second and bytes per second. Each ring has `depth` requests in flight; one
//! thread serves all of them. It suppresses notifications by the
//! event index, as Linux's driver does, and sleeps until the server signals.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use hoistway_block::random::Stream;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag};
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use virtio_bindings::virtio_blk::{VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const PROTOCOL_FEATURES: u64 = 1 << 30;
const NEXT: u16 = 1;
const WRITABLE: u16 = 2;
/// Descriptors of a request: header, data, status.
const DESCRIPTORS: u16 = 3;
const DEPTH_MAX: u16 = 256;
const RING_SIZE: u16 = 1_024;
const RINGS_MAX: u16 = 16;
/// Places in a ring's part of the guest's memory.
const TABLE: u64 = 0;
const AVAILABLE: u64 = 0x8000;
const USED: u64 = 0x10_000;
const HEADERS: u64 = 0x20_000;
const HEADER_BYTES: u32 = 16;
/// From one header to the next; the status lies behind a header.
const HEADER_STRIDE: u64 = 32;
const DATA: u64 = 0x100_000;
/// Where the front end says that it has the guest's memory.
const FRONT_END: u64 = 1 << 40;

struct Load {
    socket: String,
    rings: u16,
    depth: u16,
    block_bytes: u32,
    is_write: bool,
    seconds: f64,
}

fn main() -> ExitCode {
    let load = match parse(std::env::args().skip(1)) {
        Ok(load) => load,
        Err(message) => {
            eprintln!(
                "vhost_client: {message}\nusage: vhost_client SOCKET [--rings N] [--depth N] [--bs BYTES] [--rw read|write] [--seconds S]"
            );
            return ExitCode::from(2);
        }
    };
    match Guest::start(&load).and_then(|mut guest| guest.run(&load)) {
        Ok((requests, seconds)) => {
            let iops = requests as f64 / seconds;
            println!("{{\"iops\": {iops:.1}, \"bw_bytes\": {:.0}}}", iops * f64::from(load.block_bytes));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("vhost_client: {}: {error}", load.socket);
            ExitCode::from(1)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> std::result::Result<Load, String> {
    let mut load =
        Load { socket: String::new(), rings: 1, depth: 32, block_bytes: 4_096, is_write: false, seconds: 2.0 };
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            load.socket = argument;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{argument} wants a value"))?;
        let bad = || format!("{argument} {value}: not understood");
        match argument.as_str() {
            "--rings" => {
                load.rings = value.parse().ok().filter(|rings| (1..=RINGS_MAX).contains(rings)).ok_or_else(bad)?;
            }
            "--depth" => {
                load.depth = value.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth)).ok_or_else(bad)?;
            }
            "--bs" => {
                load.block_bytes = value.parse().ok().filter(|bytes| *bytes > 0 && bytes % 512 == 0).ok_or_else(bad)?;
            }
            "--seconds" => load.seconds = value.parse().map_err(|_| bad())?,
            "--rw" if value == "read" || value == "write" => load.is_write = value == "write",
            _ => return Err(bad()),
        }
    }
    if load.socket.is_empty() { Err("SOCKET is wanted".to_owned()) } else { Ok(load) }
}

impl Load {
    /// The size of a ring's part of the guest's memory: whole pages.
    fn ring_bytes(&self) -> u64 {
        (DATA + u64::from(self.depth) * u64::from(self.block_bytes)).next_multiple_of(4_096)
    }
}

/// A guest whose disk is attached.
struct Guest {
    /// Kept, because its end is the connection's end.
    _front_end: Frontend,
    rings: Vec<Ring>,
    random: Stream,
}

/// A ring and the requests that are offered through it.
struct Ring {
    memory: GuestMemoryMmap,
    /// Where its part of the memory begins.
    base: u64,
    kick: EventFd,
    call: EventFd,
    /// Of the disk.
    blocks: u64,
    available: u16,
    used: u16,
}

impl Guest {
    /// Connects, negotiates, and starts the rings.
    fn start(load: &Load) -> Result<Self> {
        let bytes = load.ring_bytes() * u64::from(load.rings);
        let file = File::from(rustix::fs::memfd_create("vhost_client", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        let length = usize::try_from(bytes).map_err(Error::other)?;
        let range = (GuestAddress(0), length, Some(FileOffset::new(file.try_clone()?, 0)));
        let memory = GuestMemoryMmap::from_ranges_with_files([range]).map_err(Error::other)?;

        let mut front_end = Frontend::from_stream(UnixStream::connect(&load.socket)?, u64::from(load.rings));
        front_end.set_owner().map_err(Error::other)?;
        let offered = front_end.get_features().map_err(Error::other)?;
        let wanted = [VIRTIO_F_VERSION_1, VIRTIO_RING_F_EVENT_IDX, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ];
        let wanted = wanted.iter().fold(PROTOCOL_FEATURES, |bits, bit| bits | 1 << bit);
        front_end.set_features(offered & wanted).map_err(Error::other)?;
        if offered & wanted != wanted {
            return Err(Error::other(format!("the server offers only the features {offered:#x}")));
        }
        let protocol = front_end.get_protocol_features().map_err(Error::other)?;
        let protocol = protocol
            & (VhostUserProtocolFeatures::CONFIG
                | VhostUserProtocolFeatures::REPLY_ACK
                | VhostUserProtocolFeatures::MQ);
        front_end.set_protocol_features(protocol).map_err(Error::other)?;
        // Every message is answered, so that a refusal is an error here.
        front_end.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        let space = front_end.get_config(0, 8, VhostUserConfigFlags::empty(), &[0; 8]).map_err(Error::other)?.1;
        let sectors = u64::from_le_bytes(space.try_into().map_err(|_| Error::other("no size"))?);

        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: bytes,
            userspace_addr: FRONT_END,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        front_end.set_mem_table(&[region]).map_err(Error::other)?;
        let blocks = (sectors * 512 / u64::from(load.block_bytes)).max(1);
        let rings = (0..load.rings)
            .map(|number| {
                let base = u64::from(number) * load.ring_bytes();
                let ring = Ring {
                    memory: memory.clone(),
                    base,
                    kick: EventFd::new(0)?,
                    call: EventFd::new(EFD_NONBLOCK)?,
                    blocks,
                    available: 0,
                    used: 0,
                };
                ring.start(&mut front_end, usize::from(number)).map_err(Error::other)?;
                Ok(ring)
            })
            .collect::<Result<_>>()?;
        Ok(Self { _front_end: front_end, rings, random: Stream::of(0, "vhost_client") })
    }

    /// Keeps `depth` requests of each ring in flight until the time is up; the number answered, and the time it took.
    fn run(&mut self, load: &Load) -> Result<(u64, f64)> {
        let (rings, random) = (&mut self.rings, &mut self.random);
        let signal = Epoll::new()?;
        for ring in &*rings {
            signal.ctl(ControlOperation::Add, ring.call.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))?;
            for slot in 0..load.depth {
                ring.describe(slot, load)?;
            }
        }
        let begin = Instant::now();
        let end = begin + Duration::from_secs_f64(load.seconds);
        for ring in &mut *rings {
            for slot in 0..load.depth {
                ring.offer(slot, load, random)?;
            }
            ring.notify(0)?;
        }
        let (mut done, mut in_flight, mut elapsed) = (0, u64::from(load.depth) * u64::from(load.rings), None);
        while in_flight > 0 {
            for ring in &mut *rings {
                let before = ring.available;
                while let Some(slot) = ring.take_back(load)? {
                    if elapsed.is_some() {
                        in_flight -= 1;
                    } else {
                        done += 1;
                        ring.offer(slot, load, random)?;
                    }
                }
                ring.notify(before)?;
            }
            if elapsed.is_none() && Instant::now() >= end {
                elapsed = Some(begin.elapsed());
            }
            if in_flight > 0 && !any_back(rings)? {
                signal.wait(-1, &mut [EpollEvent::default()])?;
                for ring in &*rings {
                    // The descriptor is non-blocking: one that was not signalled says so.
                    let _ = ring.call.read();
                }
            }
        }
        Ok((done, elapsed.unwrap_or_default().as_secs_f64()))
    }
}

/// Asks each ring for a signal at the next answer; whether one has an answer already.
fn any_back(rings: &[Ring]) -> Result<bool> {
    rings.iter().try_fold(false, |any, ring| Ok(ring.asks_for_signal()? || any))
}

impl Ring {
    fn start(&self, front_end: &mut Frontend, number: usize) -> std::result::Result<(), vhost::Error> {
        let addresses = VringConfigData {
            queue_max_size: RING_SIZE,
            queue_size: RING_SIZE,
            flags: 0,
            desc_table_addr: FRONT_END + self.base + TABLE,
            used_ring_addr: FRONT_END + self.base + USED,
            avail_ring_addr: FRONT_END + self.base + AVAILABLE,
            log_addr: None,
        };
        front_end.set_vring_num(number, RING_SIZE)?;
        front_end.set_vring_addr(number, &addresses)?;
        front_end.set_vring_base(number, 0)?;
        front_end.set_vring_call(number, &self.call)?;
        front_end.set_vring_kick(number, &self.kick)?;
        front_end.set_vring_enable(number, true)
    }

    /// Writes the descriptors of a slot, which stay the same.
    fn describe(&self, slot: u16, load: &Load) -> Result<()> {
        let (first, header) = (slot * DESCRIPTORS, HEADERS + u64::from(slot) * HEADER_STRIDE);
        let data = DATA + u64::from(slot) * u64::from(load.block_bytes);
        let data_flags = if load.is_write { NEXT } else { NEXT | WRITABLE };
        let descriptors = [
            (self.base + header, HEADER_BYTES, NEXT, first + 1),
            (self.base + data, load.block_bytes, data_flags, first + 2),
            (self.base + header + u64::from(HEADER_BYTES), 1, WRITABLE, 0),
        ];
        for (index, (address, bytes, flags, next)) in (first..).zip(descriptors) {
            let at = TABLE + u64::from(index) * 16;
            self.put(at, address)?;
            self.put(at + 8, bytes)?;
            self.put(at + 12, flags)?;
            self.put(at + 14, next)?;
        }
        self.put(header, if load.is_write { VIRTIO_BLK_T_OUT } else { VIRTIO_BLK_T_IN })
    }

    /// Makes a slot's request available, at a random place.
    fn offer(&mut self, slot: u16, load: &Load, random: &mut Stream) -> Result<()> {
        let header = HEADERS + u64::from(slot) * HEADER_STRIDE;
        let sector = random.below(self.blocks) * u64::from(load.block_bytes / 512);
        self.put(header + 8, sector)?;
        self.put(header + u64::from(HEADER_BYTES), 0xff_u8)?;
        self.put(AVAILABLE + 4 + 2 * u64::from(self.available % RING_SIZE), slot * DESCRIPTORS)?;
        self.available = self.available.wrapping_add(1);
        let index = GuestAddress(self.base + AVAILABLE + 2);
        self.memory.store(self.available, index, Ordering::Release).map_err(Error::other)
    }

    /// Signals the server if it wants to know of a request offered since `before`.
    fn notify(&self, before: u16) -> Result<()> {
        fence(Ordering::SeqCst);
        let event: u16 = self.get(USED + 4 + 8 * u64::from(RING_SIZE))?;
        let new = self.available;
        if new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(before) { self.kick.write(1) } else { Ok(()) }
    }

    /// The slot of a request that was given back.
    fn take_back(&mut self, load: &Load) -> Result<Option<u16>> {
        if !self.is_back()? {
            return Ok(None);
        }
        let at = USED + 4 + 8 * u64::from(self.used % RING_SIZE);
        let (head, written): (u32, u32) = (self.get(at)?, self.get(at + 4)?);
        self.used = self.used.wrapping_add(1);
        let slot = u16::try_from(head).map_err(Error::other)? / DESCRIPTORS;
        let status: u8 = self.get(HEADERS + u64::from(slot) * HEADER_STRIDE + u64::from(HEADER_BYTES))?;
        let expected = if load.is_write { 1 } else { load.block_bytes + 1 };
        if slot >= load.depth || status != 0 || written != expected {
            return Err(Error::other(format!("descriptor {head}: status {status}, {written} bytes")));
        }
        Ok(Some(slot))
    }

    fn is_back(&self) -> Result<bool> {
        let index: u16 =
            self.memory.load(GuestAddress(self.base + USED + 2), Ordering::Acquire).map_err(Error::other)?;
        Ok(index != self.used)
    }

    /// Asks for a signal at the next answer; whether there is one already.
    fn asks_for_signal(&self) -> Result<bool> {
        self.put(AVAILABLE + 4 + 2 * u64::from(RING_SIZE), self.used)?;
        fence(Ordering::SeqCst);
        self.is_back()
    }

    fn put<T: vm_memory::ByteValued>(&self, address: u64, value: T) -> Result<()> {
        self.memory.write_obj(value, GuestAddress(self.base + address)).map_err(Error::other)
    }

    fn get<T: vm_memory::ByteValued>(&self, address: u64) -> Result<T> {
        self.memory.read_obj(GuestAddress(self.base + address)).map_err(Error::other)
    }
}
