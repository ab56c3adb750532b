//! What can be done with an overlay that is not served: make it, describe it, check it, write it into its base.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use hoistway_linux::device::{Opened, Opening, data_run_at, make_durable, open};
use hoistway_linux::ring::Emptying;

use super::file::{
    check_base, check_whole, identity, named_base, open_base, read_header, read_map, this_boot, write_all, write_header,
};
use super::format::{BLOCK_BYTES, BaseIdentity, Header, MOST_PATH_BYTES};
use super::map::{DamagedSlot, Map};
use crate::error::EngineError;

const READING: Opening = Opening { writable: false, direct: false, exclusive: false, claimed_bytes: (0, 0) };
const WRITING: Opening = Opening { writable: true, ..READING };

/// An overlay as it is in its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageInfo {
    /// Size of the volume in bytes.
    pub size_bytes: u64,
    /// Bytes that the file takes on its disk.
    pub allocated_bytes: u64,
    /// Blocks of the base that were copied or written.
    pub own_blocks: u64,
    /// Blocks of the base.
    pub base_blocks: u64,
    /// The path of the base when the overlay was made.
    pub base_path: PathBuf,
    /// What the base was then.
    pub base: BaseIdentity,
    /// Whether `commit` was interrupted.
    pub is_committing: bool,
    /// Damaged slots of the bitmap. Another slot of the same page is read instead.
    pub damaged: Vec<DamagedSlot>,
}

/// What [`commit`] has written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// Bytes that were written into the base.
    pub written_bytes: u64,
    /// Bytes that were emptied there, because the overlay had emptied them.
    pub emptied_bytes: u64,
}

fn failed(path: &Path, error: &io::Error) -> EngineError {
    EngineError::system(format!("{}: {error}", path.display()), "see the system's message")
}

/// Makes an overlay of `size_bytes` (0: as large as the base) over a base. The file must not exist.
///
/// # Errors
/// The base cannot be opened for reading, is no raw image, or is larger than the overlay; the file exists, or cannot be
/// written. Nothing is left behind.
pub fn create(base: &Path, overlay: &Path, size_bytes: u64) -> Result<ImageInfo, EngineError> {
    let below = open_base(base, |path, opening| open(path, None, opening), READING)?;
    create_over(&below, base, overlay, size_bytes)
}

fn create_over(below: &Opened, base: &Path, overlay: &Path, size_bytes: u64) -> Result<ImageInfo, EngineError> {
    let identity = identity(below, base)?;
    let size_bytes = if size_bytes == 0 { identity.size_bytes } else { size_bytes };
    if size_bytes < identity.size_bytes {
        let message = format!("an overlay of {size_bytes} bytes is smaller than {}", base.display());
        let help = format!("it has {} bytes: give at least these, or no size", identity.size_bytes);
        return Err(EngineError::usage(message, help));
    }
    let full = fs::canonicalize(base).map_err(|error| failed(base, &error))?;
    let base_path = full.as_os_str().as_bytes().to_vec();
    if base_path.len() > MOST_PATH_BYTES {
        let message = format!("the path of {} has more than {MOST_PATH_BYTES} bytes", full.display());
        return Err(EngineError::usage(message, "give the base a shorter path"));
    }
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(overlay).map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::AlreadyExists => "choose another name; an overlay is never written over",
            _ => "see the system's message",
        };
        EngineError::usage(format!("{}: {error}", overlay.display()), help)
    })?;
    let header = Header { base: identity, is_committing: false, base_path };
    let filled = this_boot().and_then(|boot| {
        let map = Map::new(header.layout(), boot);
        fill(&file, below, &header, &map, size_bytes).map_err(|error| failed(overlay, &error))
    });
    if let Err(error) = filled {
        // Without a header it is of no use.
        let _ = fs::remove_file(overlay);
        return Err(error);
    }
    info(overlay)
}

/// Writes everything into the file of a new overlay, the header last.
fn fill(file: &File, below: &Opened, header: &Header, map: &Map, size_bytes: u64) -> io::Result<()> {
    let layout = *map.layout();
    file.set_len(layout.data_bytes + size_bytes)?;
    for page in 0..layout.pages {
        let write = map.sealed_slot(page, &[]);
        write_all(file.as_fd(), &write.bytes[..], write.position_bytes)?;
    }
    // The end of the base has no whole block, so it is the overlay's own from the beginning.
    let from = layout.blocks * BLOCK_BYTES;
    let mut rest = vec![0; usize::try_from(header.base.size_bytes - from).unwrap_or(0)];
    File::from(below.file.try_clone()?).read_exact_at(&mut rest, from)?;
    write_all(file.as_fd(), &rest, layout.data_bytes + from)?;
    make_durable(file.as_fd())?;
    write_header(file.as_fd(), header)
}

/// Describes an overlay. It may be served meanwhile; the numbers are then of a moment.
///
/// # Errors
/// It cannot be read, is no overlay, or is damaged.
pub fn info(overlay: &Path) -> Result<ImageInfo, EngineError> {
    describe(&open(overlay, None, READING)?, overlay).map(|(info, ..)| info)
}

fn describe(opened: &Opened, overlay: &Path) -> Result<(ImageInfo, Header, Map), EngineError> {
    let header = read_header(opened.file.as_fd(), overlay)?;
    let (map, damaged) = read_map(opened.file.as_fd(), &header, opened.facts.size_bytes, overlay)?;
    let status = fs::metadata(overlay).map_err(|error| failed(overlay, &error))?;
    let info = ImageInfo {
        size_bytes: opened.facts.size_bytes - map.layout().data_bytes,
        allocated_bytes: status.blocks() * 512,
        own_blocks: map.own_blocks(),
        base_blocks: map.layout().blocks,
        base_path: named_base(&header),
        base: header.base,
        is_committing: header.is_committing,
        damaged,
    };
    Ok((info, header, map))
}

/// Checks an overlay and its base (none: the one that it names): that no server has it, that its header and bitmap are
/// whole, that it was not cut, and that the base is as it was.
///
/// # Errors
/// The first of these that is not so.
pub fn check(overlay: &Path, base: Option<&Path>) -> Result<ImageInfo, EngineError> {
    let (info, header, _) = describe(&open(overlay, None, WRITING)?, overlay)?;
    check_whole(&header, overlay)?;
    let base = base.unwrap_or(&info.base_path);
    let below = open_base(base, |path, opening| open(path, None, opening), READING)?;
    check_base(identity(&below, base)?, &header, base, overlay)?;
    Ok(info)
}

/// Writes what is in an overlay into its base (none: the one that it names), and makes it a new overlay that is empty.
/// Other overlays on that base are lost. It may be interrupted at any time and made again.
///
/// # Errors
/// The overlay is served, or the base is in use; the base has changed; an error of the system.
pub fn commit(overlay: &Path, base: Option<&Path>) -> Result<Committed, EngineError> {
    let opened = open(overlay, None, WRITING)?;
    let (info, mut header, map) = describe(&opened, overlay)?;
    let base = base.unwrap_or(&info.base_path);
    let below = open_base(base, |path, opening| open(path, None, opening), WRITING)?;
    if !header.is_committing {
        check_base(identity(&below, base)?, &header, base, overlay)?;
        header.is_committing = true;
        write_header(opened.file.as_fd(), &header).map_err(|error| failed(overlay, &error))?;
    }
    let written = write_into(&below, &opened, &map, info.size_bytes).map_err(|error| failed(base, &error))?;
    // What is in memory of the base was written through this opening, so its identity is the new one.
    let below =
        Opened { facts: hoistway_linux::device::facts(below.file.as_fd()).map_err(|e| failed(base, &e))?, ..below };
    let mut name = overlay.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    // One of a commit that was interrupted.
    let _ = fs::remove_file(&new);
    create_over(&below, base, &new, info.size_bytes)?;
    replace(&new, overlay).map_err(|error| failed(overlay, &error))?;
    Ok(written)
}

/// Writes the blocks that are the overlay's own into its base.
fn write_into(below: &Opened, opened: &Opened, map: &Map, size_bytes: u64) -> io::Result<Committed> {
    let (from, to) = (File::from(opened.file.try_clone()?), File::from(below.file.try_clone()?));
    if below.facts.size_bytes < size_bytes {
        to.set_len(size_bytes)?;
    }
    let data_bytes = map.layout().data_bytes;
    let mut done = Committed { written_bytes: 0, emptied_bytes: 0 };
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < size_bytes {
        let (is_own, until) = map.run(at, size_bytes);
        if !is_own {
            at = until;
            continue;
        }
        let run = data_run_at(from.as_fd(), data_bytes + at, data_bytes + until)?;
        let end = run.end_bytes - data_bytes;
        if run.is_hole {
            empty(&to, at, end - at, &mut buffer)?;
            done.emptied_bytes += end - at;
            at = end;
            continue;
        }
        while at < end {
            let length = (end - at).min(1 << 20);
            let bytes = &mut buffer[..usize::try_from(length).unwrap_or(0)];
            from.read_exact_at(bytes, data_bytes + at)?;
            to.write_all_at(bytes, at)?;
            done.written_bytes += length;
            at += length;
        }
    }
    // The time of the base is part of its identity, so it must be durable as well.
    to.sync_all()?;
    Ok(done)
}

/// Empties a range of a file, with zeroes where its file system makes no holes.
fn empty(file: &File, at: u64, length_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
    if hoistway_linux::device::empty(file.as_fd(), Emptying::PunchHole, at, length_bytes).is_ok() {
        return Ok(());
    }
    buffer.fill(0);
    let mut done = 0;
    while done < length_bytes {
        let length = (length_bytes - done).min(buffer.len() as u64);
        file.write_all_at(&buffer[..usize::try_from(length).unwrap_or(0)], at + done)?;
        done += length;
    }
    Ok(())
}

/// Puts a new file in the place of another, with its owner and mode.
fn replace(new: &Path, old: &Path) -> io::Result<()> {
    let status = fs::metadata(old)?;
    fs::set_permissions(new, status.permissions())?;
    // Only root may give a file away; others had the same owner before.
    let _ = chown(new, Some(status.uid()), Some(status.gid()));
    File::open(new)?.sync_all()?;
    fs::rename(new, old)?;
    let directory = old.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
