//! A guest's memory, shared by its front end; copies between it and the engine's arena, and windows
//! through which the engine uses it directly.
//!
//! The guest changes this memory at any time, so no reference into it ever exists: it is read and
//! written through `vm-memory`'s volatile slices, which check every range.
#![allow(unsafe_code)]

use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;

use engine::{Data, Payload};
use linux::window::Window;
pub use vm_memory::GuestAddress;
use vm_memory::{Address, FileOffset, GuestMemory as _, GuestMemoryMmap, GuestRegionMmap, Permissions, VolatileSlice};

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
    regions: Vec<Region>,
}

impl GuestMemory {
    /// This memory with one more region.
    ///
    /// # Errors
    /// What is wrong with the region, or the system's refusal to map it.
    pub fn with(&self, region: Region, file: File) -> Result<Self, String> {
        let bytes = usize::try_from(region.bytes).map_err(|_| "a memory region is too long".to_owned())?;
        let offset = FileOffset::new(file, region.file_offset_bytes);
        let mapped = GuestRegionMmap::from_range(GuestAddress(region.guest_address), bytes, Some(offset));
        let mapped = mapped.map_err(|error| format!("a memory region of {bytes} bytes cannot be mapped: {error}"))?;
        let added = self.map.insert_region(Arc::new(mapped));
        let map = added.map_err(|error| format!("the memory regions do not fit together: {error}"))?;
        let mut regions = self.regions.clone();
        regions.push(region);
        Ok(Self { map, regions })
    }

    /// This memory without a region; `None` if there is no such region.
    pub fn without(&self, region: &Region) -> Option<Self> {
        let index = self.regions.iter().position(|other| {
            (other.guest_address, other.user_address, other.bytes)
                == (region.guest_address, region.user_address, region.bytes)
        })?;
        let mut regions = self.regions.clone();
        let region = regions.remove(index);
        if regions.is_empty() {
            return Some(Self::default());
        }
        let (map, _) = self.map.remove_region(GuestAddress(region.guest_address), region.bytes).ok()?;
        Some(Self { map, regions })
    }

    /// Its regions as windows for an arena; `None` if one cannot be found in the map.
    pub fn windows(self: &Arc<Self>) -> Option<Vec<(Region, Window)>> {
        let window = |region: &Region| {
            let mapped = vm_memory::GuestMemoryBackend::find_region(&self.map, GuestAddress(region.guest_address))?;
            let base = NonNull::new(mapped.as_ptr())?;
            // SAFETY: the region is mapped as long as this value, which the window keeps, and no reference
            // into it exists (see above).
            let window = unsafe { Window::new(base, mapped.size() as u64, Arc::clone(self) as Arc<_>) };
            Some((*region, window))
        };
        self.regions.iter().map(window).collect()
    }

    /// The number of its regions.
    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    /// The mapped regions.
    pub fn map(&self) -> &GuestMemoryMmap<()> {
        &self.map
    }

    /// The guest's address for an address of the front end.
    pub fn guest_address(&self, user_address: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let offset = user_address.checked_sub(region.user_address)?;
            (offset < region.bytes).then(|| GuestAddress(region.guest_address + offset))
        })
    }

    /// Whether a segment lies in the memory as a whole.
    pub fn holds(&self, segment: Segment) -> bool {
        self.map.check_range(segment.address, segment.bytes as usize, Permissions::ReadWrite)
    }

    /// Fills `to` from the segments' bytes from `offset_bytes` on. False if the segments end before.
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

    /// Writes `from` to the segments' bytes from `offset_bytes` on. False if the segments end before.
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

    /// Writes bytes to the start of the segments. False if they do not fit.
    #[must_use]
    pub fn put(&self, segments: &[Segment], bytes: &[u8]) -> bool {
        self.each_piece(segments, 0, bytes.len(), |guest, done| {
            guest.copy_from(&bytes[done..done + guest.len()]);
            true
        })
    }

    /// Calls `each` with every contiguous piece of the bytes from `offset_bytes` on, and with the number
    /// of bytes before it. True if there were `bytes` of them.
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
                if !each(piece, done) {
                    return false;
                }
                done += length;
            }
        }
        done == bytes
    }
}

impl std::fmt::Debug for GuestMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestMemory").field("regions", &self.regions).finish_non_exhaustive()
    }
}
