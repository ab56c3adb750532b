//! The conversation with one front end: memory, rings and configuration, on the export's thread. What
//! concerns the data path is passed on to the devices on the shard's threads.
//!
//! Source: docs/interop/vhost-user.rst of QEMU; docs/specifications/engine.md, section 7.1.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use rustix::fs::SealFlags;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg, VhostUserSingleMemoryRegion,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures};
use virtio_bindings::virtio_blk::VIRTIO_BLK_F_FLUSH;
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;

use super::configuration_space::{DeviceFacts, MAX_RINGS, PROTOCOL_FEATURES, bits};
use super::device::{Command, Report};
use super::guest_memory::{GuestMemory, Region};
use super::in_flight::{Record, record_bytes};
use super::ring::{MAX_RING_SIZE, Ring, RingSettings};
use super::spread::Spread;

/// The most memory regions of a guest.
const MAX_MEMORY_REGIONS: usize = 32;

/// What the front end has said about a ring.
#[derive(Debug, Default)]
struct RingState {
    size: u16,
    /// Descriptor table, available ring and used ring, as addresses of the front end.
    addresses: Option<[u64; 3]>,
    base: u16,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    error: Option<OwnedFd>,
    is_enabled: bool,
    is_running: bool,
}

/// One front end's session.
pub struct Session {
    label: String,
    facts: DeviceFacts,
    devices: Spread,
    report: Report,
    features: u64,
    memory: Arc<GuestMemory>,
    rings: Vec<RingState>,
    record: Option<Arc<Record>>,
    is_write_through: bool,
}

impl Session {
    /// A session that has said nothing yet.
    pub fn new(label: String, facts: DeviceFacts, devices: Spread, report: Report) -> Self {
        let rings = (0..MAX_RINGS).map(|_| RingState::default()).collect();
        let memory = Arc::default();
        let (features, record, is_write_through) = (0, None, false);
        Self { label, facts, devices, report, features, memory, rings, record, is_write_through }
    }

    /// Ends the devices: what they have queued is dropped.
    pub fn end(&self) {
        self.devices.tell_all(|| Command::End);
    }

    /// Makes sure that there is a device for a ring, which knows what the front end has said so far.
    fn prepare(&mut self, ring: u16) -> Result<()> {
        match self.devices.prepare(ring) {
            Err(error) => Err(self.refuse(&format!("ring {ring}: {}; {}", error.message, error.help))),
            Ok(false) => Ok(()),
            Ok(true) => {
                self.devices.tell(ring, Command::Memory(Arc::clone(&self.memory)));
                self.devices.tell(ring, Command::WriteThrough(self.must_write_through()));
                Ok(())
            }
        }
    }

    /// Reports why the front end is not served; the error ends the session.
    fn refuse(&self, what: &str) -> Error {
        (self.report)(format!("{}: {what}", self.label));
        Error::InvalidParam
    }

    fn ring(&mut self, index: u32) -> Result<&mut RingState> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index >= self.rings.len() {
            let what =
                format!("the front end asks for more than {MAX_RINGS} rings: give it num-queues={MAX_RINGS} or less");
            return Err(self.refuse(&what));
        }
        Ok(&mut self.rings[index])
    }

    fn has(&self, feature: u32) -> bool {
        self.features & bits(&[feature]) != 0
    }

    /// Starts a ring if everything about it is known.
    fn start(&mut self, index: u32) -> Result<()> {
        let has_event_index = self.has(VIRTIO_RING_F_EVENT_IDX);
        let (memory, record) = (Arc::clone(&self.memory), self.record.clone());
        let number = u16::try_from(index).map_err(|_| Error::InvalidParam)?;
        let ring = self.ring(index)?;
        let Some(addresses) = ring.addresses.filter(|_| !ring.is_running && ring.size > 0) else { return Ok(()) };
        let Some(kick) = ring.kick.take() else { return Ok(()) };
        let (size, base, is_enabled) = (ring.size, ring.base, ring.is_enabled);
        let (call, error) = (ring.call.as_ref().map(OwnedFd::try_clone), ring.error.take());
        let Some(call) = call.transpose().ok() else { return Err(self.refuse("too many open files")) };
        let [table, available, used] = addresses.map(|address| memory.guest_address(address));
        let (Some(table), Some(available), Some(used)) = (table, available, used) else {
            let what = format!(
                "ring {index} lies outside the memory that the front end shares: give the guest shared memory \
                 (memory-backend-memfd,share=on; in libvirt <access mode='shared'/>)"
            );
            return Err(self.refuse(&what));
        };
        let settings = RingSettings {
            index: number,
            descriptors: size,
            table,
            available,
            used,
            base,
            has_event_index,
            kick,
            call,
            error,
            is_enabled,
            record,
        };
        let started = Ring::new(settings, memory).map_err(|what| self.refuse(&what))?;
        self.prepare(number)?;
        self.devices.tell(number, Command::Start(Box::new(started)));
        self.ring(index)?.is_running = true;
        Ok(())
    }

    /// Stops a ring when nothing of it is in flight any more; its next available index.
    fn stop(&mut self, index: u32) -> Result<u16> {
        let ring = self.ring(index)?;
        if ring.is_running {
            ring.is_running = false;
            let (reply, is_replied) = mpsc::channel();
            let number = u16::try_from(index).unwrap_or(u16::MAX);
            self.devices.tell(number, Command::Stop(number, reply));
            // Without a reply the shard has stopped, and the connection is closed.
            self.ring(index)?.base = is_replied.recv().map_err(|_| Error::Disconnected)?;
        }
        Ok(self.ring(index)?.base)
    }

    fn stop_all(&mut self) -> Result<()> {
        for index in 0..u32::from(MAX_RINGS) {
            self.stop(index)?;
            *self.ring(index)? = RingState::default();
        }
        Ok(())
    }

    fn set_memory(&mut self, memory: GuestMemory) {
        self.memory = Arc::new(memory);
        self.devices.tell_all(|| Command::Memory(Arc::clone(&self.memory)));
    }

    /// A guest that cannot flush gets a disk whose writes are durable one by one.
    fn must_write_through(&self) -> bool {
        self.is_write_through || !self.has(VIRTIO_BLK_F_FLUSH)
    }

    fn tell_cache_mode(&self) {
        let is_write_through = self.must_write_through();
        self.devices.tell_all(|| Command::WriteThrough(is_write_through));
    }

    /// A descriptor from the front end that is signalled or polled.
    fn event(&self, file: File) -> Result<OwnedFd> {
        let file = OwnedFd::from(file);
        if is_event(&file) {
            Ok(file)
        } else {
            Err(self.refuse("the front end signals by something else than eventfds"))
        }
    }
}

/// Whether it is an eventfd. Its front end shares the flags and the counter, so it may become blocking
/// and full at any time.
fn is_event(file: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::read_link(link).is_ok_and(|target| target == Path::new("anon_inode:[eventfd]"))
}

fn region(guest_address: u64, user_address: u64, bytes: u64, file_offset_bytes: u64) -> Region {
    Region { guest_address, user_address, bytes, file_offset_bytes }
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop_all()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop_all()?;
        self.features = 0;
        self.record = None;
        self.is_write_through = false;
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.facts.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.facts.features() != 0 {
            let what = format!("the front end wants features {features:#x} that were not offered");
            return Err(self.refuse(&what));
        }
        self.features = features;
        if !self.has(VIRTIO_F_VERSION_1) {
            let what = "the guest's driver is older than virtio 1.0: use a newer one, or attach the disk with \
                        disable-legacy=on";
            return Err(self.refuse(what));
        }
        self.tell_cache_mode();
        // A front end that did not negotiate VHOST_USER_F_PROTOCOL_FEATURES has no message to
        // enable a ring, so its rings are enabled from the start.
        let is_enabled = !self.has(PROTOCOL_FEATURES);
        self.rings.iter_mut().for_each(|ring| ring.is_enabled |= is_enabled);
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        if regions.len() > MAX_MEMORY_REGIONS {
            return Err(self.refuse("the guest has too many memory regions"));
        }
        let mut memory = GuestMemory::default();
        for (it, file) in regions.iter().zip(files) {
            let region = region(it.guest_phys_addr, it.user_addr, it.memory_size, it.mmap_offset);
            memory = memory.with(region, file).map_err(|what| self.refuse(&what))?;
        }
        self.set_memory(memory);
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        let size = u16::try_from(size).ok().filter(|size| size.is_power_of_two() && *size <= MAX_RING_SIZE);
        let Some(size) = size else {
            let what =
                format!("a ring's size is not a power of two up to {MAX_RING_SIZE}: give queue-size={MAX_RING_SIZE}");
            return Err(self.refuse(&what));
        };
        self.ring(index)?.size = size;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        table: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.ring(index)?.addresses = Some([table, available, used]);
        self.start(index)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.stop(index)?;
        let ring = self.ring(index)?;
        // A ring that is started again gets a new kick descriptor.
        (ring.kick, ring.is_enabled) = (None, false);
        if !self.has(PROTOCOL_FEATURES) {
            self.ring(index)?.is_enabled = true;
        }
        Ok(VhostUserVringState::new(index, u32::from(base)))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let Some(file) = file else {
            return Err(self.refuse("the front end wants its rings to be polled, which is not offered"));
        };
        let kick = self.event(file)?;
        self.stop(u32::from(index))?;
        self.ring(u32::from(index))?.kick = Some(kick);
        self.start(u32::from(index))
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = file.map(|file| self.event(file)).transpose()?;
        let copy = call.as_ref().map(OwnedFd::try_clone).transpose().map_err(Error::ReqHandlerError)?;
        let ring = self.ring(u32::from(index))?;
        ring.call = call;
        if ring.is_running {
            self.devices.tell(u16::from(index), Command::Call(u16::from(index), copy));
        }
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = file.map(|file| self.event(file)).transpose()?;
        self.ring(u32::from(index))?.error = error;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        // No log of changed memory: a guest on this disk cannot be migrated while it runs.
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(u64::from(MAX_RINGS))
    }

    fn set_vring_enable(&mut self, index: u32, is_enabled: bool) -> Result<()> {
        let ring = self.ring(index)?;
        ring.is_enabled = is_enabled;
        if ring.is_running {
            let number = u16::try_from(index).unwrap_or(u16::MAX);
            self.devices.tell(number, Command::Enable(number, is_enabled));
        }
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let (offset, size) = (offset as usize, size as usize);
        Ok(self.facts.space(offset, size, self.is_write_through))
    }

    fn set_config(&mut self, offset: u32, bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        let is_write_through = DeviceFacts::write_through(offset as usize, bytes).ok_or(Error::InvalidParam)?;
        self.is_write_through = is_write_through;
        if let Some(record) = &self.record {
            record.set_write_through(is_write_through);
        }
        self.tell_cache_mode();
        Ok(())
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        Err(Error::InvalidOperation("no GPU"))
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        Err(Error::InvalidOperation("no shared objects"))
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (rings, descriptors) = (wanted.num_queues, wanted.queue_size);
        if rings > MAX_RINGS || descriptors > MAX_RING_SIZE {
            let what = format!(
                "the front end wants {rings} rings of {descriptors} descriptors: at most {MAX_RINGS} of {MAX_RING_SIZE}"
            );
            return Err(self.refuse(&what));
        }
        let bytes = record_bytes(rings, descriptors);
        let file = || -> std::io::Result<File> {
            let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
            let file = File::from(rustix::fs::memfd_create("hoistway-in-flight", flags)?);
            file.set_len(bytes)?;
            rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
            Ok(file)
        };
        let file = file().map_err(Error::ReqHandlerError)?;
        Ok((VhostUserInflight::new(bytes, 0, rings, descriptors), file))
    }

    fn set_inflight_fd(&mut self, given: &VhostUserInflight, file: File) -> Result<()> {
        let (rings, descriptors) = (given.num_queues, given.queue_size);
        let record = Record::map(file, given.mmap_offset, given.mmap_size, rings, descriptors);
        let record = record.map_err(|what| self.refuse(&what))?;
        // A restarted server finds the mode here; else the guest may have chosen it before this message.
        self.is_write_through |= record.is_write_through();
        record.set_write_through(self.is_write_through);
        self.record = Some(Arc::new(record));
        self.tell_cache_mode();
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MAX_MEMORY_REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        it: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<u64>> {
        if self.memory.regions() >= MAX_MEMORY_REGIONS {
            return Err(self.refuse("the guest has too many memory regions"));
        }
        let region = region(it.guest_phys_addr, it.user_addr, it.memory_size, it.mmap_offset);
        let memory = self.memory.with(region, file).map_err(|what| self.refuse(&what))?;
        self.set_memory(memory);
        Ok(None)
    }

    fn remove_mem_region(&mut self, it: &VhostUserSingleMemoryRegion) -> Result<()> {
        let region = region(it.guest_phys_addr, it.user_addr, it.memory_size, it.mmap_offset);
        let memory = self.memory.without(&region).ok_or(Error::InvalidParam)?;
        self.set_memory(memory);
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(Error::InvalidOperation("the state cannot be transferred"))
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(Error::InvalidOperation("the state cannot be transferred"))
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(Error::InvalidOperation("no shared memory"))
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(Error::InvalidOperation("no log of changed memory"))
    }
}
