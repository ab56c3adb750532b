//! Detects data on a device that its owner may want to keep: partition tables, file systems,
//! members of other devices.
//!
//! Only the first and the last MiB are read, and only the known positions of such signatures are
//! compared.

use std::io;
use std::os::fd::BorrowedFd;

const MIB: usize = 1 << 20;

/// The name of a signature, its position from the start of the device, its bytes.
const AT_BEGIN: &[(&str, usize, &[u8])] = &[
    ("an ext file system", 0x438, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("a LUKS container", 0, b"LUKS\xba\xbe"),
    ("an LVM physical volume", 0, b"LABELONE"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("an LVM physical volume", 1_024, b"LABELONE"),
    ("an LVM physical volume", 1_536, b"LABELONE"),
    ("a part of an md array", 4_096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a part of an md array", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a swap area", 4_086, b"SWAPSPACE2"),
    ("an f2fs file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    ("an ISO 9660 or UDF file system", 0x8001, b"CD001"),
    ("an ISO 9660 or UDF file system", 0x8001, b"BEA01"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4_096, b"EFI PART"),
    ("a partition table", 510, &[0x55, 0xaa]),
];
/// md's older superblocks are in the last 128 KiB, at whole 64 KiB (0.90) or 8 KiB from the end
/// (1.0).
const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
/// The magic of ZFS's uberblocks, as little-endian and big-endian machines write it: 0x00bab10c.
const ZFS_MAGIC: [[u8; 8]; 2] = [[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]];

/// The kind of data found on a device of `size_bytes`, if any.
///
/// # Errors
/// Any error of the reads.
pub fn find(device: BorrowedFd<'_>, size_bytes: u64) -> io::Result<Option<&'static str>> {
    let length = usize::try_from(size_bytes).map_or(MIB, |size| size.min(MIB));
    let read = |position_bytes: u64| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match rustix::io::pread(device, &mut bytes[filled..], position_bytes + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(bytes)
    };
    let begin = read(0)?;
    Ok(in_begin(&begin).or(in_end(&read(size_bytes - length as u64)?)))
}

fn in_begin(bytes: &[u8]) -> Option<&'static str> {
    let known = AT_BEGIN.iter().find(|(_, at, magic)| bytes.get(*at..*at + magic.len()) == Some(magic));
    known.map(|(name, _, _)| *name).or_else(|| has_uberblock(bytes).then_some("a part of a ZFS pool"))
}

fn in_end(bytes: &[u8]) -> Option<&'static str> {
    let tail = &bytes[bytes.len().saturating_sub(128 << 10)..];
    if tail.chunks(4_096).any(|block| block.starts_with(&MD_MAGIC)) {
        return Some("a part of an md array");
    }
    if bytes.len() >= 512 && bytes[bytes.len() - 512..].starts_with(b"EFI PART") {
        return Some("a GPT partition table");
    }
    has_uberblock(bytes).then_some("a part of a ZFS pool")
}

/// Whether a ZFS label of 256 KiB has an uberblock: they begin in the middle, every 1 KiB.
fn has_uberblock(bytes: &[u8]) -> bool {
    let labels = bytes.chunks(256 << 10).filter_map(|label| label.get(128 << 10..));
    labels.flat_map(|ring| ring.chunks(1 << 10)).any(|block| ZFS_MAGIC.iter().any(|magic| block.starts_with(magic)))
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsFd;

    use super::*;

    fn found(size_bytes: u64, at: u64, bytes: &[u8]) -> Option<&'static str> {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(size_bytes).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
        find(file.as_fd(), size_bytes).unwrap()
    }

    #[test]
    fn each_is_found_where_it_announces_itself() {
        for (name, at, magic) in AT_BEGIN {
            assert_eq!(found(8 << 20, *at as u64, magic), Some(*name));
        }
        assert_eq!(found(8 << 20, (8 << 20) - 512, b"EFI PART"), Some("a GPT partition table"));
        assert_eq!(found(8 << 20, (8 << 20) - (64 << 10), &MD_MAGIC), Some("a part of an md array"));
        assert_eq!(found(8 << 20, (128 << 10) + 2_048, &ZFS_MAGIC[0]), Some("a part of a ZFS pool"));
        assert_eq!(found(8 << 20, (7 << 20) + (384 << 10), &ZFS_MAGIC[1]), Some("a part of a ZFS pool"));
    }

    #[test]
    fn an_empty_device_and_one_smaller_than_a_mebibyte_hold_nothing() {
        assert_eq!(found(8 << 20, 0, &[0]), None);
        assert_eq!(found(4_096, 0, &[0]), None);
        assert_eq!(found(8 << 20, 0x439, &[0x53, 0xef]), None, "one byte off is something else");
    }
}
