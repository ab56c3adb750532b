//! A guest's memory, shared by its front end; copies between it and the engine's arena, and windows
//! through which the engine uses it directly.
//!
//! The guest changes this memory at any time, so no reference into it ever exists: it is read and
//! written through `vm-memory`'s volatile slices, which check every range. Its front end may take it
//! away at any time: then it is lost, and nothing is read from it or written to it any more.
#![allow(unsafe_code)]

use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;

use hoistway_engine::{Data, Payload};
use hoistway_linux::fault::Guard;
use hoistway_linux::window::Window;
pub use vm_memory::GuestAddress;
use vm_memory::{
    Address, FileOffset, GuestMemory as _, GuestMemoryMmap, GuestRegionMmap, MmapRegion, Permissions, VolatileSlice,
};

/// The most memory that a front end may share: 32 of them would use up the 128 TiB of addresses.
const MAX_BYTES: u64 = 4 << 40;
/// Why memory is not used any more.
pub const LOST: &str = "the front end has taken its shared memory away, or there is no page for it";

/// A part of a front end's file, mapped.
#[derive(Clone, Debug)]
pub struct Shared {
    mapping: Arc<MmapRegion<()>>,
    guard: Arc<Guard>,
}

impl Shared {
    /// Maps `bytes` of a file.
    ///
    /// # Errors
    /// The file is not in memory, where an access could wait for a file server; or it is too short; or the
    /// system's refusal to map it.
    pub fn map(file: File, offset_bytes: u64, bytes: u64) -> Result<Self, String> {
        let page_bytes = page_bytes(&file).ok_or(
            "the shared memory is not in a memory file: use memory-backend-memfd, or memory-backend-file in a tmpfs \
             or hugetlbfs",
        )?;
        let has_bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let end = offset_bytes.checked_add(bytes).filter(|end| *end <= has_bytes);
        if bytes == 0 || end.is_none() {
            return Err(format!(
                "{bytes} bytes of shared memory from {offset_bytes} on, in a file of {has_bytes} bytes"
            ));
        }
        // The system maps whole huge pages only, and would not unmap a part of one.
        if page_bytes > rustix::param::page_size() as u64 && !(offset_bytes | bytes).is_multiple_of(page_bytes) {
            return Err(format!(
                "{bytes} bytes of shared memory from {offset_bytes} on, in pages of {page_bytes} bytes"
            ));
        }
        let cannot =
            |error: &dyn std::fmt::Display| format!("{bytes} bytes of shared memory cannot be mapped: {error}");
        let size = usize::try_from(bytes).map_err(|error| cannot(&error))?;
        let page_size = usize::try_from(page_bytes).map_err(|error| cannot(&error))?;
        let mapped = MmapRegion::from_file(FileOffset::new(file, offset_bytes), size);
        let mapping = Arc::new(mapped.map_err(|error| cannot(&error))?);
        let base = NonNull::new(mapping.as_ptr()).ok_or_else(|| cannot(&"no address"))?;
        // SAFETY: the range is mapped as long as `mapping`, which the guard keeps, and no reference into it
        // exists.
        let guard = unsafe { Guard::new(base, size, page_size, Arc::clone(&mapping) as Arc<_>) };
        Ok(Self { mapping, guard: Arc::new(guard.map_err(|error| cannot(&error))?) })
    }

    /// The mapping.
    pub fn mapping(&self) -> &Arc<MmapRegion<()>> {
        &self.mapping
    }

    /// Whether a page of it could not be supplied, so that it holds something else than the file.
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }
}

/// The page size of a file in memory; `None` for any other. Only files in memory have seals, and asking
/// for them does not call the file's server, which may never answer.
fn page_bytes(file: &File) -> Option<u64> {
    /// The type of hugetlbfs among file systems.
    const HUGETLBFS: u64 = 0x9584_58f6;
    rustix::fs::fcntl_get_seals(file).ok()?;
    let statistics = rustix::fs::fstatfs(file).ok()?;
    let is_huge = u64::try_from(statistics.f_type).is_ok_and(|of| of & 0xffff_ffff == HUGETLBFS);
    if is_huge { u64::try_from(statistics.f_bsize).ok() } else { Some(rustix::param::page_size() as u64) }
}

/// One region of a guest's memory, as the front end names it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its first address in the guest.
    pub guest_address: u64,
    /// Its first address in the front end, whose addresses the rings are given in.
    pub user_address: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its first byte in its file.
    pub file_offset_bytes: u64,
}

/// A range of a guest's memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its first address.
    pub address: GuestAddress,
    /// Its length in bytes.
    pub bytes: u32,
}

/// A guest's memory: its regions, mapped. A change makes a new value, because requests in flight keep
/// the one that they began with.
#[derive(Clone, Default)]
pub struct GuestMemory {
    map: GuestMemoryMmap<()>,
    regions: Vec<(Region, Shared)>,
}

impl GuestMemory {
    /// This memory with one more region.
    ///
    /// # Errors
    /// What is wrong with the region, or the system's refusal to map it.
    pub fn with(&self, region: Region, file: File) -> Result<Self, String> {
        let total_bytes = self.regions.iter().map(|(region, _)| region.bytes).sum::<u64>().saturating_add(region.bytes);
        if total_bytes > MAX_BYTES {
            return Err(format!("the memory regions have more than {} TiB together", MAX_BYTES >> 40));
        }
        if region.user_address.checked_add(region.bytes).is_none() {
            return Err("a memory region goes beyond the last address".to_owned());
        }
        let shared = Shared::map(file, region.file_offset_bytes, region.bytes)?;
        let mapped = GuestRegionMmap::with_arc(Arc::clone(&shared.mapping), GuestAddress(region.guest_address));
        let mapped = mapped.ok_or("a memory region goes beyond the last address")?;
        let added = self.map.insert_region(Arc::new(mapped));
        let map = added.map_err(|error| format!("the memory regions do not fit together: {error}"))?;
        let mut regions = self.regions.clone();
        regions.push((region, shared));
        Ok(Self { map, regions })
    }

    /// This memory without a region; `None` if there is no such region.
    pub fn without(&self, region: &Region) -> Option<Self> {
        let index = self.regions.iter().position(|(other, _)| {
            (other.guest_address, other.user_address, other.bytes)
                == (region.guest_address, region.user_address, region.bytes)
        })?;
        let mut regions = self.regions.clone();
        let (region, _) = regions.remove(index);
        if regions.is_empty() {
            return Some(Self::default());
        }
        let (map, _) = self.map.remove_region(GuestAddress(region.guest_address), region.bytes).ok()?;
        Some(Self { map, regions })
    }

    /// Its regions as windows for an arena; `None` if one has no address.
    pub fn windows(self: &Arc<Self>) -> Option<Vec<(Region, Window)>> {
        let window = |(region, shared): &(Region, Shared)| {
            let base = NonNull::new(shared.mapping.as_ptr())?;
            // SAFETY: the region is mapped as long as this value, which the window keeps, and no reference
            // into it exists (see above).
            let window = unsafe { Window::new(base, shared.mapping.size() as u64, Arc::clone(self) as Arc<_>) };
            Some((*region, window))
        };
        self.regions.iter().map(window).collect()
    }

    /// The number of its regions.
    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    /// Whether a part of it is gone. What was read from it since the last time that this was false is of
    /// no use.
    pub fn is_lost(&self) -> bool {
        self.regions.iter().any(|(_, shared)| shared.is_lost())
    }

    /// The mapped regions.
    pub fn map(&self) -> &GuestMemoryMmap<()> {
        &self.map
    }

    /// The guest's address for an address of the front end.
    pub fn guest_address(&self, user_address: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|(region, _)| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.bytes).then(|| GuestAddress(region.guest_address + offset))
        })
    }

    /// Whether a segment lies in the memory as a whole.
    pub fn holds(&self, segment: Segment) -> bool {
        self.map.check_range(segment.address, segment.bytes as usize, Permissions::ReadWrite)
    }

    /// Fills `to` from the segments' bytes from `offset_bytes` on. False if the segments end before, or the
    /// memory is lost.
    #[must_use]
    pub fn copy_to(&self, segments: &[Segment], offset_bytes: u64, to: &Payload<'_>) -> bool {
        let bytes = to.bytes() as usize;
        // SAFETY: the payload's address is valid for its length until the payload is dropped, which is
        // after this call, and nothing else uses that memory meanwhile.
        let arena = unsafe { VolatileSlice::new(to.address(), bytes) };
        self.each_piece(segments, offset_bytes, bytes, |guest, done| {
            arena.subslice(done, guest.len()).is_ok_and(|arena| {
                guest.copy_to_volatile_slice(arena);
                true
            })
        })
    }

    /// Writes `from` to the segments' bytes from `offset_bytes` on. False if the segments end before, or
    /// the memory is lost.
    #[must_use]
    pub fn copy_from(&self, segments: &[Segment], offset_bytes: u64, from: &Data<'_>) -> bool {
        let bytes = from.bytes() as usize;
        // SAFETY: the data's address is valid for its length until the data is dropped, which is after
        // this call. The slice is only read from.
        let arena = unsafe { VolatileSlice::new(from.address().cast_mut(), bytes) };
        self.each_piece(segments, offset_bytes, bytes, |guest, done| {
            arena.subslice(done, guest.len()).is_ok_and(|arena| {
                arena.copy_to_volatile_slice(guest);
                true
            })
        })
    }

    /// Writes bytes to the start of the segments. False if they do not fit, or the memory is lost.
    #[must_use]
    pub fn put(&self, segments: &[Segment], bytes: &[u8]) -> bool {
        self.each_piece(segments, 0, bytes.len(), |guest, done| {
            guest.copy_from(&bytes[done..done + guest.len()]);
            true
        })
    }

    /// Calls `each` with every contiguous piece of the bytes from `offset_bytes` on, and with the number
    /// of bytes before it. True if there were `bytes` of them, and they are those of the guest.
    fn each_piece(
        &self,
        segments: &[Segment],
        offset_bytes: u64,
        bytes: usize,
        mut each: impl FnMut(VolatileSlice<'_>, usize) -> bool,
    ) -> bool {
        let (mut skip_bytes, mut done) = (offset_bytes, 0);
        for segment in segments {
            if done == bytes {
                break;
            }
            let segment_bytes = u64::from(segment.bytes);
            if skip_bytes >= segment_bytes {
                skip_bytes -= segment_bytes;
                continue;
            }
            let Some(address) = segment.address.checked_add(skip_bytes) else { return false };
            let here = usize::try_from(segment_bytes - skip_bytes).unwrap_or(usize::MAX).min(bytes - done);
            skip_bytes = 0;
            let Ok(pieces) = self.map.get_slices(address, here, Permissions::ReadWrite) else { return false };
            for piece in pieces {
                let Ok(piece) = piece else { return false };
                let length = piece.len();
                // A page is lost at the first access that finds none, so few are made in vain.
                if self.is_lost() || !each(piece, done) {
                    return false;
                }
                done += length;
            }
        }
        done == bytes && !self.is_lost()
    }
}

impl std::fmt::Debug for GuestMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestMemory").field("regions", &self.regions).finish_non_exhaustive()
    }
}
