//! A virtual machine's side of vhost-user-blk: a front end and a guest's driver in one, whose memory is
//! a memory file that is read and written as a file.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hoistway_engine::{Backing, GroupHandle, ShardHandle, ShardSettings, VolumeSettings};
use hoistway_export::vhost_user_blk::{DeviceFacts, Listener, Served};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserInflight};
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

pub const READ_REQUEST: u32 = 0;
pub const WRITE_REQUEST: u32 = 1;
pub const FLUSH_REQUEST: u32 = 4;
pub const IDENTIFY_REQUEST: u32 = 8;
pub const DISCARD_REQUEST: u32 = 11;
pub const ZEROES_REQUEST: u32 = 13;

pub const EVENT_INDEX: u64 = 1 << 29;
pub const VERSION_1: u64 = 1 << 32;
pub const PROTOCOL: u64 = 1 << 30;
pub const BASIC: u64 = PROTOCOL | VERSION_1 | 1 << 28;

/// The guest's memory: rings, then headers and statuses, then data.
pub const MEMORY_BYTES: u64 = 16 << 20;
/// The address at which the front end maps the guest's memory.
pub const FRONT_END: u64 = 1 << 40;
const RING_BYTES: u64 = 0x10_000;
pub const HEADERS: u64 = 0x40_0000;
pub const DATA: u64 = 0x80_0000;
pub const SIZE: u16 = 64;

/// For what a working server does at once and a broken one never. Not less, because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds` returns true.
#[track_caller]
pub fn within(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A server of one disk.
pub struct Disk {
    pub directory: tempfile::TempDir,
    pub shard: ShardHandle,
    pub listener: Option<Listener>,
    pub said: Arc<Mutex<Vec<String>>>,
}

impl Disk {
    pub fn new(backing: &str) -> Self {
        Self::with(backing, false)
    }

    pub fn with(backing: &str, is_read_only: bool) -> Self {
        let backing = Backing::parse(backing).expect("a backing");
        let volume = VolumeSettings { is_read_only, ..VolumeSettings::new("disk", backing) };
        let settings = ShardSettings { memory_bytes: 64 << 20, max_connections: 4, ..ShardSettings::default() };
        let shard = hoistway_engine::start(settings, &[volume]).expect("a shard");
        let directory = tempfile::tempdir().expect("a directory");
        let mut disk = Self { directory, shard, listener: None, said: Arc::default() };
        disk.listen();
        disk
    }

    /// Serves on the socket; a second time after `listener` was dropped.
    pub fn listen(&mut self) {
        let socket = OwnedFd::from(UnixListener::bind(self.path()).expect("a socket"));
        let volume = self.shard.volumes()[0];
        let facts = DeviceFacts::new(&self.shard.facts(volume).expect("facts"), "disk", 512);
        let (shard, group) = (self.shard.clone(), GroupHandle::ROOT);
        let group = std::sync::Arc::new(hoistway_export::group_use::UsedGroup::new(group).begin());
        let served = Served { name: "disk".to_owned(), shard, volume, group, facts };
        let said = Arc::clone(&self.said);
        let report = Arc::new(move |text| said.lock().expect("no panic").push(text));
        self.listener = Some(Listener::start(socket, served, report).expect("a thread"));
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("disk.vhost")
    }

    pub fn said(&self) -> Vec<String> {
        self.said.lock().expect("no panic").clone()
    }
}

/// A guest's memory, which outlives its connections.
pub struct Memory(pub File);

impl Memory {
    pub fn new() -> Self {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("guest", flags).expect("a memory file"));
        file.set_len(MEMORY_BYTES).expect("its length");
        Self(file)
    }

    pub fn put(&self, address: u64, bytes: &[u8]) {
        self.0.write_all_at(bytes, address).expect("inside");
    }

    pub fn get<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, address).expect("inside");
        bytes
    }

    pub fn bytes(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, address).expect("inside");
        bytes
    }
}

/// One ring as the guest's driver knows it.
pub struct Driver {
    pub index: u16,
    pub available: u16,
    pub used: u16,
    pub kick: EventFd,
    pub call: EventFd,
}

impl Driver {
    pub fn new(index: u16) -> Self {
        let event = || EventFd::new(EFD_NONBLOCK).expect("an event");
        Self { index, available: 0, used: 0, kick: event(), call: event() }
    }

    pub fn table(&self) -> u64 {
        u64::from(self.index) * RING_BYTES
    }

    pub fn available_ring(&self) -> u64 {
        self.table() + 0x4_000
    }

    pub fn used_ring(&self) -> u64 {
        self.table() + 0x8_000
    }

    /// Writes a descriptor.
    pub fn describe(&self, memory: &Memory, at: u16, address: u64, bytes: u32, flags: u16, next: u16) {
        memory.put(self.table() + 16 * u64::from(at), &descriptor(address, bytes, flags, next));
    }

    /// Makes a chain available and kicks.
    pub fn offer(&mut self, memory: &Memory, head: u16) {
        self.offer_silently(memory, head);
        self.kick.write(1).expect("a kick");
    }

    /// Makes a chain available.
    pub fn offer_silently(&mut self, memory: &Memory, head: u16) {
        memory.put(self.available_ring() + 4 + 2 * u64::from(self.available % SIZE), &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        memory.put(self.available_ring() + 2, &self.available.to_le_bytes());
    }

    /// The next chain that was given back: its head and the bytes written.
    pub fn take_back(&mut self, memory: &Memory) -> Option<(u32, u32)> {
        if u16::from_le_bytes(memory.get(self.used_ring() + 2)) == self.used {
            return None;
        }
        let at = self.used_ring() + 4 + 8 * u64::from(self.used % SIZE);
        self.used = self.used.wrapping_add(1);
        Some((u32::from_le_bytes(memory.get(at)), u32::from_le_bytes(memory.get(at + 4))))
    }

    /// Waits for a chain to be given back.
    pub fn wait(&mut self, memory: &Memory) -> (u32, u32) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(back) = self.take_back(memory) {
                return back;
            }
            assert!(Instant::now() < end, "no answer on ring {}", self.index);
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Writes a request with one buffer at descriptors `head` and the two behind it; its data is at
    /// [`Driver::data`] of the head.
    pub fn write_request(&self, memory: &Memory, head: u16, kind: u32, sector: u64, data: &[u8], in_bytes: u32) {
        let header = self.header(head);
        memory.put(header, &kind.to_le_bytes());
        memory.put(header + 8, &sector.to_le_bytes());
        memory.put(header + 16, &[0xff]);
        self.describe(memory, head, header, 16, NEXT, head + 1);
        let mut status = head + 1;
        if !data.is_empty() || in_bytes > 0 {
            memory.put(self.data(head), data);
            let bytes = u32::try_from(data.len()).expect("short").max(in_bytes);
            let flags = if in_bytes > 0 { NEXT | WRITE } else { NEXT };
            self.describe(memory, head + 1, self.data(head), bytes, flags, head + 2);
            status = head + 2;
        }
        self.describe(memory, status, header + 16, 1, WRITE, 0);
    }

    pub fn header(&self, head: u16) -> u64 {
        HEADERS + u64::from(self.index) * 0x1_0000 + u64::from(head) * 0x100
    }

    pub fn data(&self, head: u16) -> u64 {
        DATA + u64::from(self.index) * 0x20_0000 + u64::from(head) * 0x8_000
    }

    pub fn status(&self, memory: &Memory, head: u16) -> u8 {
        memory.get::<1>(self.header(head) + 16)[0]
    }

    /// Does one request with descriptors 0 to 2; its status and the bytes written.
    pub fn request(&mut self, memory: &Memory, kind: u32, sector: u64, data: &[u8], in_bytes: u32) -> (u8, u32) {
        self.write_request(memory, 0, kind, sector, data, in_bytes);
        self.offer(memory, 0);
        let (head, written) = self.wait(memory);
        assert_eq!(head, 0);
        (self.status(memory, 0), written)
    }
}

pub fn descriptor(address: u64, bytes: u32, flags: u16, next: u16) -> [u8; 16] {
    let mut descriptor = [0; 16];
    descriptor[..8].copy_from_slice(&address.to_le_bytes());
    descriptor[8..12].copy_from_slice(&bytes.to_le_bytes());
    descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
    descriptor[14..].copy_from_slice(&next.to_le_bytes());
    descriptor
}

/// A range of a discard or a write of zeroes.
pub fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

/// A connected front end.
pub struct FrontEnd {
    pub messages: Frontend,
    pub offered: u64,
}

impl FrontEnd {
    /// Connects and negotiates features; memory and rings are not announced yet.
    pub fn connect(path: &Path, features: u64) -> Self {
        let stream = UnixStream::connect(path).expect("the server listens");
        let mut messages = Frontend::from_stream(stream, 64);
        messages.set_owner().expect("owner");
        let offered = messages.get_features().expect("features");
        messages.set_features(features).expect("features");
        let protocol = messages.get_protocol_features().expect("protocol features");
        assert!(!protocol.contains(VhostUserProtocolFeatures::LOG_SHMFD), "no log for migration");
        messages.set_protocol_features(protocol).expect("protocol features");
        messages.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        Self { messages, offered }
    }

    pub fn share(&self, memory: &Memory) -> vhost::Result<()> {
        self.share_some(memory, MEMORY_BYTES)
    }

    /// Shares the first bytes of a memory file.
    pub fn share_some(&self, memory: &Memory, bytes: u64) -> vhost::Result<()> {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: bytes,
            userspace_addr: FRONT_END,
            mmap_offset: 0,
            mmap_handle: memory.0.as_raw_fd(),
        };
        self.messages.set_mem_table(&[region]).map(drop)
    }

    /// Starts a ring at `base`.
    pub fn start(&mut self, ring: &Driver, base: u16) -> vhost::Result<()> {
        let index = usize::from(ring.index);
        self.messages.set_vring_num(index, SIZE)?;
        let addresses = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: FRONT_END + ring.table(),
            used_ring_addr: FRONT_END + ring.used_ring(),
            avail_ring_addr: FRONT_END + ring.available_ring(),
            log_addr: None,
        };
        self.messages.set_vring_addr(index, &addresses)?;
        self.messages.set_vring_base(index, base)?;
        self.messages.set_vring_call(index, &ring.call)?;
        self.messages.set_vring_kick(index, &ring.kick)?;
        self.messages.set_vring_enable(index, true)
    }

    /// Asks for a record of requests in flight; a file that outlives the connection.
    pub fn record(&mut self, rings: u16) -> (VhostUserInflight, File) {
        let (record, file) =
            self.messages.get_inflight_fd(&VhostUserInflight::new(0, 0, rings, SIZE)).expect("a record");
        self.set_record(&(record, file.try_clone().expect("clone")));
        (record, file)
    }

    pub fn set_record(&mut self, (record, file): &(VhostUserInflight, File)) {
        self.messages.set_inflight_fd(record, file.as_raw_fd()).expect("the record is taken");
    }

    pub fn space(&mut self, length: u32) -> Vec<u8> {
        let buffer = vec![0; length as usize];
        self.messages.get_config(0, length, VhostUserConfigFlags::empty(), &buffer).expect("the space").1
    }

    pub fn set_writeback(&mut self, is_writeback: bool) {
        let flags = VhostUserConfigFlags::WRITABLE;
        self.messages.set_config(32, flags, &[u8::from(is_writeback)]).expect("the cache mode");
    }
}

/// A connected guest with rings that run.
pub fn guest(disk: &Disk, rings: u16, features: u64) -> (FrontEnd, Memory, Vec<Driver>) {
    let memory = Memory::new();
    let mut front_end = FrontEnd::connect(&disk.path(), features);
    front_end.share(&memory).expect("memory");
    let rings: Vec<Driver> = (0..rings).map(Driver::new).collect();
    for ring in &rings {
        front_end.start(ring, 0).expect("a ring");
    }
    (front_end, memory, rings)
}
