//! The volumes of a device, and each worker's files on them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hoistway_block::SECTOR_BYTES;
use hoistway_linux::claims::Claim;
use hoistway_linux::ring::{FileId, Ring};

use super::calls::{BLOCKING_FILE, BlockingFile, Calls, OTHER_FILE};
use super::shared::{Core, Locked, Route};
use super::{Worker, failure};
use crate::backing::{OpenVolume, VolumeFacts};
use crate::damage::Damage;
use crate::error::EngineError;
use crate::overlay::format::BLOCK_BYTES;
use crate::overlay::map::SlotWrite;

/// The most volumes of a device.
pub(crate) const MAX_VOLUMES: u32 = 1_024;

/// The memory of requests is aligned to this at least, unless a driver says otherwise (`blk_validate_limits` of
/// block/blk-settings.c).
const BLOCK_LAYER_ALIGNMENT_BYTES: u32 = 512;

/// A volume's file.
pub(super) struct VolumeFile {
    /// Different for each volume that was ever added, because numbers are used again.
    id: u64,
    pub facts: VolumeFacts,
    /// `None` where the volume has no storage.
    pub file: Option<Arc<OwnedFd>>,
    /// Of an overlay: the base, and the file through the page cache, for the bitmap.
    pub base: Option<Arc<OwnedFd>>,
    pub bitmap: Option<Arc<OwnedFd>>,
    /// Its part of a block device; released after the file.
    claim: Option<Claim>,
    pub base_bytes: u64,
    pub is_inline: bool,
    is_direct: bool,
    may_grow: bool,
    /// Whether all I/O on it blocks.
    is_blocking: bool,
    /// The threads for what may block.
    pub calls: Arc<Calls>,
    /// Whether it is a file of another owner whose size can be asked for at any time.
    has_local_size: bool,
}

impl Drop for VolumeFile {
    /// Releases the file's claim for the next server at once. Every ring is dropped before, so nothing
    /// is in flight any more. A file that blocks may do so in being closed.
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let (claim, base) = (self.claim.take(), self.base.take());
        let close = move || {
            // A file that was opened read-only holds no claim; nothing else can go wrong.
            let _ = hoistway_linux::ioctl::unlock(file.as_fd());
            // Another volume may still be over the same base, with a lock of its own.
            let _ = base.as_ref().map(|base| hoistway_linux::ioctl::unlock(base.as_fd()));
            drop((file, base, claim));
        };
        if self.is_blocking {
            self.calls.run(Box::new(close));
        } else {
            close();
        }
    }
}

/// A volume that was removed, and whose file may hold data that is not on stable storage yet.
pub(crate) struct Removed {
    name: String,
    /// The file and its threads; `None` where nothing was written.
    written: Option<(Arc<OwnedFd>, Arc<Calls>)>,
    seal: Seal,
    /// Of an overlay, everything: another server must not read its bitmap before that is sealed.
    overlay: Option<VolumeFile>,
    damage: Option<Damage>,
}

impl Removed {
    /// Makes everything durable, as a drain does, and does not wait for it: the file's device may hang.
    /// A failure is in the log, because no client is left to be told.
    pub fn sync(self, device: &str) {
        let Self { name, written, seal, overlay, damage } = self;
        let Some((file, calls)) = written else { return };
        if damage.is_some() {
            return failure::log_unsynced(device, &name, None);
        }
        let device = device.to_owned();
        let sync = move || {
            if let Err(error) = seal.make_durable(&file) {
                failure::log_unsynced(&device, &name, Some(&error));
            }
            drop(overlay);
        };
        // Without a thread the kernel writes the data back in its own time, as it does for files.
        calls.run(Box::new(sync));
    }
}

/// The bitmap of an overlay as it is to be once its data is durable. Nothing is in flight on it any more.
#[derive(Default)]
pub(crate) struct Seal {
    bitmap: Option<Arc<OwnedFd>>,
    writes: Vec<SlotWrite>,
}

impl Seal {
    /// Makes the data of a file durable, and then the bitmap.
    pub fn make_durable(&self, file: &OwnedFd) -> std::io::Result<()> {
        hoistway_linux::device::make_durable(file.as_fd())?;
        let Some(bitmap) = self.bitmap.as_ref().filter(|_| !self.writes.is_empty()) else { return Ok(()) };
        for SlotWrite { position_bytes, bytes } in &self.writes {
            crate::overlay::write_all(bitmap.as_fd(), &bytes[..], *position_bytes)?;
        }
        hoistway_linux::device::make_durable(file.as_fd())
    }
}

/// A volume as a worker uses it.
#[derive(Copy, Clone, Debug)]
pub(super) struct OwnFile {
    id: u64,
    /// `None` where the volume has no storage.
    pub file: Option<FileId>,
    /// Of an overlay: the base, and the file for its bitmap.
    pub base: Option<FileId>,
    pub bitmap: Option<FileId>,
    /// The claim of its device: a ring holds it until its requests have ended, even if the server is killed.
    claim: Option<FileId>,
    /// Whether it has storage that could not be opened again.
    pub is_closed: bool,
    pub base_bytes: u64,
    pub is_inline: bool,
    /// Whether all I/O on it blocks: `file` is none then.
    pub is_blocking: bool,
    /// Whether the file's size is checked before each write.
    pub has_local_size: bool,
    /// The file's size when it was last asked for, and the turn of the loop in which that was.
    pub size_bytes: u64,
    pub checked_turn: u64,
}

impl Core {
    /// A volume's name, for the log.
    pub(super) fn volume_name(&self, volume: u32) -> &str {
        let volume = self.volumes.get(volume as usize).and_then(Option::as_ref);
        volume.map_or("", |volume| volume.facts.name.as_str())
    }

    /// Adds an open volume; returns its number.
    fn add_volume(&mut self, mut volume: OpenVolume, device: &str) -> Result<u32, EngineError> {
        let number = self.volumes.iter().position(Option::is_none).unwrap_or(self.volumes.len());
        let number = u32::try_from(number).unwrap_or(MAX_VOLUMES);
        if number >= MAX_VOLUMES {
            let message = format!("volume '{}': a device has at most {MAX_VOLUMES} volumes", volume.facts.name);
            return Err(EngineError::usage(message, "put it on another device"));
        }
        if volume.model.is_some() != self.gate.is_some() {
            let message =
                format!("volume '{}': either all volumes of a device have the same model, or none", volume.facts.name);
            return Err(EngineError::usage(message, "put it on a device of its own"));
        }
        if volume.overlay.is_some() && u64::from(self.turn.most_part_bytes()) < BLOCK_BYTES {
            let message = format!("volume '{}': an overlay is copied in blocks of 64KiB", volume.facts.name);
            return Err(EngineError::usage(message, "give its device max_request = \"64KiB\" or more"));
        }
        volume.place(number, self.model_used_bytes);
        if volume.model.is_some() {
            // Volumes begin at whole sectors of the model.
            let used_bytes = volume.facts.size_bytes.next_multiple_of(SECTOR_BYTES);
            self.model_used_bytes += used_bytes;
            if self.model_capacity_bytes.is_some_and(|capacity| self.model_used_bytes > capacity) {
                self.model_used_bytes -= used_bytes;
                let message = format!("volume '{}' does not fit on the device model any more", volume.facts.name);
                return Err(EngineError::usage(message, "name all volumes at the start, or use another device"));
            }
        }
        let OpenVolume { facts, abilities, opened, claim, base_bytes, may_grow, is_inline, .. } = volume;
        let OpenVolume { is_blocking, has_local_size, overlay, .. } = volume;
        let is_direct = opened.as_ref().is_some_and(|opened| opened.is_direct);
        let file = opened.map(|opened| Arc::new(opened.file));
        let calls = Calls::new(&facts.name, if is_blocking { BLOCKING_FILE } else { OTHER_FILE });
        let added = self.turn.add_volume(abilities);
        debug_assert_eq!(added, number);
        let (mut base, mut bitmap) = (None, None);
        if let Some(overlay) = overlay {
            if !self.turn.add_overlay(number, overlay.map, overlay.base_positions) {
                self.turn.remove_volume(number);
                let message = format!("volume '{}': there is no memory for its bitmap", facts.name);
                return Err(EngineError::system(message, "give the device more memory"));
            }
            (base, bitmap) = (Some(Arc::new(overlay.base)), Some(Arc::new(overlay.bitmap)));
        }
        if number as usize == self.volumes.len() {
            self.volumes.push(None);
        }
        self.volumes_version += 1;
        let id = self.volumes_version;
        if let Some(note) = &facts.note {
            failure::log_note(device, &facts.name, note);
        }
        self.volumes[number as usize] = Some(VolumeFile {
            id,
            facts,
            file,
            base,
            bitmap,
            claim,
            base_bytes,
            is_inline,
            is_direct,
            may_grow,
            is_blocking,
            calls,
            has_local_size,
        });
        Ok(number)
    }

    /// Removes a volume that has no users.
    fn remove_volume(&mut self, volume: u32) -> Option<Removed> {
        let damage = self.turn.volume(volume).and_then(|(_, damage, _)| damage);
        let seal = self.seal(volume);
        if !self.turn.remove_volume(volume) {
            return None;
        }
        let name = self.volume_name(volume).to_owned();
        let removed = self.volumes[volume as usize].take().filter(|volume| !volume.facts.is_read_only);
        let file_of = |volume: &VolumeFile| Some((Arc::clone(volume.file.as_ref()?), Arc::clone(&volume.calls)));
        let written = removed.as_ref().and_then(file_of);
        let overlay = removed.filter(|volume| volume.bitmap.is_some());
        self.volumes_version += 1;
        // The other workers close their descriptors at once, so that the file can be used elsewhere.
        (0..self.workers.len()).for_each(|worker| self.wake_if_asleep(worker));
        Some(Removed { name, written, seal, overlay, damage })
    }

    /// What makes the bitmap of a volume durable together with its data, if it is an overlay.
    pub(super) fn seal(&self, volume: u32) -> Seal {
        // Of a damaged volume it is not known whether the data is durable.
        let is_damaged = self.turn.volume(volume).is_some_and(|(_, damage, _)| damage.is_some());
        let open = self.volumes.get(volume as usize).and_then(Option::as_ref).filter(|_| !is_damaged);
        let bitmap = open.filter(|open| !open.facts.is_read_only).and_then(|open| open.bitmap.clone());
        let writes = if bitmap.is_some() { self.turn.seal_all(volume) } else { Vec::new() };
        Seal { bitmap, writes }
    }

    /// Takes abilities that a volume turned out not to have out of what later clients are told.
    pub(super) fn take_abilities(&mut self, volume: u32) {
        let Some((abilities, ..)) = self.turn.volume(volume) else { return };
        let (can_trim, can_zero_fast) = (abilities.trimming.is_some(), abilities.can_punch || abilities.can_zero);
        if let Some(Some(file)) = self.volumes.get_mut(volume as usize) {
            (file.facts.can_trim, file.facts.can_zero_fast) = (can_trim, can_zero_fast);
        }
    }

    /// The file of a volume that becomes larger with it, the threads to ask it on, and the volume's first byte in it.
    pub fn file_that_may_grow(&self, volume: u32) -> Option<(Arc<OwnedFd>, Arc<Calls>, u64)> {
        let volume = self.volumes.get(volume as usize)?.as_ref()?;
        let file = volume.file.clone().filter(|_| volume.may_grow)?;
        Some((file, Arc::clone(&volume.calls), volume.base_bytes))
    }

    /// Makes a volume larger: for new connections, and for those of local clients.
    pub fn grow_volume(&mut self, volume: u32, size_bytes: u64) {
        let Some(Some(file)) = self.volumes.get_mut(volume as usize) else { return };
        file.facts.size_bytes = size_bytes;
        let routes = &self.routes;
        let is_local = |connection: u32| matches!(routes.get(connection as usize), Some(Route::Local { .. }));
        self.turn.grow_volume(volume, size_bytes, is_local);
    }

    /// Gives a volume another name.
    pub fn rename_volume(&mut self, volume: u32, name: String) {
        if let Some(Some(file)) = self.volumes.get_mut(volume as usize) {
            file.facts.name = name;
        }
    }

    /// Whether I/O on a volume may use the memory of a ublk request, which only a ring can address: it has a file, all
    /// I/O on which goes through rings, and which takes memory as aligned as the block layer's is.
    pub fn takes_request_memory(&self, volume: u32) -> bool {
        let Some(Some(volume)) = self.volumes.get(volume as usize) else { return false };
        let is_aligned = |file: &OwnedFd| {
            let needed = hoistway_linux::device::memory_alignment_bytes(file.as_fd());
            !volume.is_direct || needed.is_some_and(|bytes| bytes <= BLOCK_LAYER_ALIGNMENT_BYTES)
        };
        // What an overlay copies goes through the engine's memory.
        let is_by_rings = !volume.is_inline && !volume.is_blocking && volume.base.is_none();
        is_by_rings && volume.file.as_deref().is_some_and(is_aligned)
    }

    /// The facts of a volume.
    pub fn facts(&self, volume: u32) -> Option<VolumeFacts> {
        Some(self.volumes.get(volume as usize)?.as_ref()?.facts.clone())
    }
}

impl Worker {
    /// Adds an open volume; returns its number.
    pub fn add_volume(&mut self, core: &mut Locked<'_>, volume: OpenVolume) -> Result<u32, EngineError> {
        let name = volume.facts.name.clone();
        let number = core.add_volume(volume, &self.shared.settings.name)?;
        self.refresh_files(core);
        if self.files.is_closed(number) {
            self.remove_volume(core, number);
            return Err(EngineError::system(
                format!("volume '{name}': its file cannot be opened again"),
                "raise the limit of open files",
            ));
        }
        Ok(number)
    }

    /// Removes a volume that has no users; `None` while it has.
    pub fn remove_volume(&mut self, core: &mut Locked<'_>, volume: u32) -> Option<Removed> {
        let removed = core.remove_volume(volume);
        self.refresh_files(core);
        removed
    }

    /// Opens and closes this worker's files as volumes were added and removed.
    #[inline]
    pub(super) fn refresh_files(&mut self, core: &Core) {
        self.files.refresh(core, &mut self.ring);
    }
}

/// The files through which a worker reaches the volumes. It opens a file when a volume comes, and closes
/// it when the volume goes. A file whose I/O blocks is in `blocking` alone.
#[derive(Default)]
pub(super) struct OwnFiles {
    files: Vec<Option<OwnFile>>,
    blocking: Vec<Option<BlockingFile>>,
    /// The version of the volumes that they belong to.
    version: u64,
}

impl OwnFiles {
    /// The file of a volume; `None` if it could not be opened.
    #[inline]
    pub(super) fn open(&self, volume: u32) -> Option<OwnFile> {
        self.files.get(volume as usize).copied().flatten().filter(|own| !own.is_closed)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, volume: u32) -> Option<&mut OwnFile> {
        self.files.get_mut(volume as usize)?.as_mut()
    }

    /// Whether a volume has storage that could not be opened again.
    pub(super) fn is_closed(&self, volume: u32) -> bool {
        self.files.get(volume as usize).copied().flatten().is_some_and(|own| own.is_closed)
    }

    /// The file of a volume on which all I/O blocks.
    pub(super) fn blocking(&self, volume: u32) -> Option<BlockingFile> {
        self.blocking.get(volume as usize).cloned().flatten()
    }

    /// Opens and closes files as volumes were added and removed.
    #[inline]
    fn refresh(&mut self, core: &Core, ring: &mut Ring) {
        if self.version != core.volumes_version {
            self.reopen(core, ring);
        }
    }

    fn reopen(&mut self, core: &Core, ring: &mut Ring) {
        self.version = core.volumes_version;
        self.files.resize(core.volumes.len(), None);
        self.blocking.resize(core.volumes.len(), None);
        let own_files = self.files.iter_mut().zip(&mut self.blocking);
        for ((own, blocking), volume) in own_files.zip(&core.volumes) {
            if own.map(|own| own.id) == volume.as_ref().map(|volume| volume.id) {
                continue;
            }
            *blocking = None;
            if let Some(before) = own.take() {
                let all = [before.file, before.base, before.bitmap, before.claim];
                all.into_iter().flatten().for_each(|file| ring.remove_file(file));
            }
            let Some(volume) = volume else { continue };
            let &VolumeFile { id, ref file, ref claim, base_bytes, is_inline, is_direct, is_blocking, .. } = volume;
            *blocking = file.as_ref().filter(|_| is_blocking).map(|file| {
                let (file, calls) = (Arc::clone(file), Arc::clone(&volume.calls));
                BlockingFile { file, calls, base_bytes, base: volume.base.clone(), bitmap: volume.bitmap.clone() }
            });
            let mut add = |file: &Option<Arc<OwnedFd>>| {
                file.as_ref().filter(|_| !is_blocking).map(|file| ring.add_file(file.try_clone()?))
            };
            let (file, base, bitmap) = (add(file), add(&volume.base), add(&volume.bitmap));
            if is_direct {
                // Direct I/O costs a tenth less on registered memory; without the right to pin it
                // everything works as well.
                ring.register_arena();
            }
            // I/O on a file that cannot be opened again fails with EBADF.
            let is_closed = [&file, &base, &bitmap].into_iter().flatten().any(std::io::Result::is_err);
            let [file, base, bitmap] = [file, base, bitmap].map(|file| file.and_then(std::io::Result::ok));
            // Without it the device is still claimed for as long as the server lives.
            let claim = claim.as_ref().and_then(|claim| claim.as_fd().try_clone_to_owned().ok());
            let claim = claim.and_then(|claim| ring.add_file(claim).ok());
            *own = Some(OwnFile {
                id,
                file,
                base,
                bitmap,
                claim,
                is_closed,
                base_bytes,
                is_inline,
                is_blocking,
                has_local_size: volume.has_local_size,
                size_bytes: 0,
                checked_turn: 0,
            });
        }
    }
}
