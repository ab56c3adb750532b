//! An overlay as the backing of a volume.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hoistway_linux::device::{Kind, Opened, Opening};

use super::file::{check_base, check_whole, identity, lock_shared, open_base, read_header, read_map, reopened};
use super::map::Map;
use crate::backing::{OpenVolume, VolumeSettings, file_places, open_fitting};
use crate::error::EngineError;
use crate::turn::Positions;

/// What a volume on an overlay has in addition to the overlay's file.
pub(crate) struct OpenOverlay {
    /// The base, open for reading.
    pub base: OwnedFd,
    /// The overlay through the page cache, for its bitmap.
    pub bitmap: OwnedFd,
    pub map: Map,
    /// The places of the base's bytes on the device.
    pub base_positions: Positions,
}

/// Opens an overlay and its base.
pub(crate) fn open(settings: &VolumeSettings, base: &Path, overlay: &Path) -> Result<OpenVolume, EngineError> {
    let is_writable = !settings.is_read_only;
    let opening = Opening {
        writable: is_writable,
        direct: !settings.uses_page_cache,
        exclusive: is_writable,
        claimed_bytes: (0, 0),
    };
    let root = settings.root.as_deref();
    let opened = open_fitting(overlay, root, opening, false)?;
    if opened.facts.kind == Kind::BlockDevice {
        let message = format!("{} is a block device; an overlay is a file", overlay.display());
        return Err(EngineError::usage(message, "make one with `hoistway image create --base BASE OVERLAY`"));
    }
    if !is_writable {
        // A writer would change the bitmap below it.
        lock_shared(&opened, overlay)?;
    }
    let bitmap = reopened(opened.file.as_fd(), is_writable, overlay)?;
    let header = read_header(bitmap.as_fd(), overlay)?;
    check_whole(&header, overlay)?;
    let whole_bytes = opened.facts.size_bytes;
    let (map, damaged) = read_map(bitmap.as_fd(), &header, whole_bytes, overlay)?;
    let data_bytes = map.layout().data_bytes;
    let size_bytes = whole_bytes - data_bytes;

    let reading = Opening { writable: false, exclusive: false, direct: opened.is_direct, ..opening };
    let open = |path: &Path, opening| open_fitting(path, root, opening, false);
    let mut below = open_base(base, open, reading)?;
    if below.is_direct && !size_bytes.is_multiple_of(u64::from(alignment(&below))) {
        below = open_base(base, open, Opening { direct: false, ..reading })?;
    }
    check_base(identity(&below, base)?, &header, base, overlay)?;

    let place = format!("{} over {}", overlay.display(), base.display());
    let has_local_size = opened.facts.has_local_size;
    let mut volume = OpenVolume::on_file(settings, opened, Some((data_bytes, size_bytes)), place)?;
    let least = alignment(&below);
    let (facts, abilities) = (&mut volume.facts, &mut volume.abilities);
    abilities.alignment_bytes = abilities.alignment_bytes.max(least);
    abilities.emptying_alignment_bytes = abilities.emptying_alignment_bytes.max(least);
    facts.block_bytes = abilities.alignment_bytes;
    facts.physical_block_bytes = facts.physical_block_bytes.max(below.facts.physical_block_bytes).max(least);
    facts.is_rotational |= below.facts.is_rotational;
    facts.uses_page_cache |= !below.is_direct;
    if let Some(first) = damaged.first() {
        let note = format!(
            "a copy of {} pages of its bitmap was damaged (the first: page {}), and the other one is used",
            damaged.len(),
            first.page
        );
        facts.note = Some(facts.note.take().map_or(note.clone(), |before| format!("{before}; {note}")));
    }
    let is_memory = below.facts.kind == Kind::MemoryFile;
    volume.is_blocking |=
        !is_memory && !hoistway_linux::device::is_asynchronous(below.file.as_fd(), below.facts.size_bytes);
    volume.is_inline &= !volume.is_blocking;
    volume.may_grow = true;
    volume.has_local_size = has_local_size;
    let base_positions = Positions { extents: file_places(&below, below.facts.kind, 0), base_bytes: 0 };
    volume.overlay = Some(OpenOverlay { base: below.file, bitmap, map, base_positions });
    Ok(volume)
}

/// Alignment that I/O on a file needs, in bytes; 1 = none.
fn alignment(opened: &Opened) -> u32 {
    if opened.is_direct { opened.facts.direct_alignment_bytes.unwrap_or(1) } else { 1 }
}
