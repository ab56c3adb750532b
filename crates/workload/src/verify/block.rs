//! One block: filled before it is written, checked after it is read.

use std::fmt;

use hoistway_block::random::Stream;

use super::sums::{crc32c, is_sum, room_bytes, sum};
use super::{Kind, Verify};

const MAGIC: u16 = 0xacca;
const HEADER_BYTES: usize = 40;
/// Offsets of the fields of a header; all are little-endian.
const TYPE_AT: usize = 2;
const LENGTH_AT: usize = 4;
const SEED_AT: usize = 8;
const OFFSET_AT: usize = 16;
const NUMBER_AT: usize = 34;
const CRC_AT: usize = 36;

/// Description of a damaged block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Start of the damaged part on the file or device.
    pub offset_bytes: u64,
    /// Length of the damaged part.
    pub length_bytes: u32,
    /// What is wrong with it, with both values.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at offset {}: {}", self.length_bytes, self.offset_bytes, self.what)
    }
}

impl std::error::Error for Damage {}

impl Kind {
    /// The number of the kind in headers.
    const fn number(self) -> u16 {
        match self {
            Kind::Meta => 1,
            Kind::Md5 => 2,
            Kind::Crc64 => 3,
            Kind::Crc32 => 4,
            Kind::Crc32c => 5,
            Kind::Crc16 => 7,
            Kind::Crc7 => 8,
            Kind::Sha256 => 9,
            Kind::Sha512 => 10,
            Kind::Sha3_224 => 11,
            Kind::Sha3_256 => 12,
            Kind::Sha3_384 => 13,
            Kind::Sha3_512 => 14,
            Kind::Xxhash => 15,
            Kind::Sha1 => 16,
            Kind::Pattern => 18,
            Kind::Null => 19,
        }
    }

    /// Length of header and checksum in bytes.
    pub(crate) const fn head_bytes(self) -> usize {
        match self {
            Kind::Pattern | Kind::Null => 0,
            _ => HEADER_BYTES + room_bytes(self),
        }
    }
}

impl Verify {
    /// Length of the parts of a block that have their own headers. A block shorter than the
    /// interval is one part.
    fn part_bytes(&self, block_bytes: usize) -> usize {
        match self.interval_bytes as usize {
            interval if interval > 0 && interval <= block_bytes => interval,
            _ => block_bytes.max(1),
        }
    }

    /// Fills a block that is written to `offset_bytes` as write `number` of its thread.
    pub fn fill(&self, block: &mut [u8], offset_bytes: u64, number: u64, seed: u64) {
        let own_seed = seed ^ offset_bytes.rotate_left(32) ^ number;
        let pattern = self.pattern.of(offset_bytes);
        if pattern.is_empty() {
            let mut stream = Stream::new(own_seed);
            block.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&stream.next().to_le_bytes()[..chunk.len()]));
        } else {
            block.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
        }
        if self.kind.head_bytes() == 0 {
            return;
        }
        let mut at = offset_bytes;
        for part in block.chunks_mut(self.part_bytes(block.len())) {
            self.head(part, at, number, own_seed);
            at += part.len() as u64;
        }
    }

    /// Adds header and checksum to a part.
    fn head(&self, part: &mut [u8], offset_bytes: u64, number: u64, seed: u64) {
        let head_bytes = self.kind.head_bytes();
        if part.len() <= head_bytes {
            return;
        }
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        let (head, data) = part.split_at_mut(head_bytes);
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0; HEADER_BYTES]);
        put(0, &MAGIC.to_le_bytes());
        put(TYPE_AT, &self.kind.number().to_le_bytes());
        put(LENGTH_AT, &length.to_le_bytes());
        put(SEED_AT, &seed.to_le_bytes());
        put(OFFSET_AT, &offset_bytes.to_le_bytes());
        put(NUMBER_AT, &low_half(number).to_le_bytes());
        let crc = crc32c(&head[..CRC_AT]);
        head[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        let sum = sum(self.kind, data);
        head[HEADER_BYTES..].copy_from_slice(&sum[..head_bytes - HEADER_BYTES]);
        self.swap_head(part);
    }

    /// Moves the header to its offset in the part, or back to the start.
    fn swap_head(&self, part: &mut [u8]) {
        let (head, to) = (self.kind.head_bytes(), self.header_offset_bytes as usize);
        if to >= head && to + head <= part.len() {
            let (first, second) = part.split_at_mut(to);
            first[..head].swap_with_slice(&mut second[..head]);
        }
    }

    /// Checks a block that was read from `offset_bytes`. `number` is that of the write that it must
    /// come from, if known. Headers are moved to the start of their parts, so the block must not be
    /// used afterwards.
    ///
    /// # Errors
    /// The first damage.
    pub fn check(&self, block: &mut [u8], offset_bytes: u64, number: Option<u64>) -> Result<(), Damage> {
        if self.kind == Kind::Null {
            return Ok(());
        }
        let pattern = self.pattern.of(offset_bytes);
        let part_bytes = self.part_bytes(block.len());
        for (index, part) in block.chunks_mut(part_bytes).enumerate() {
            let first = index * part_bytes;
            let at = offset_bytes + first as u64;
            let checked = self.check_part(part, at, number).and_then(|()| {
                let is_asked = matches!(self.kind, Kind::Pattern | Kind::Meta) && !pattern.is_empty();
                if is_asked { check_pattern(&pattern, part, self.kind.head_bytes(), first) } else { Ok(()) }
            });
            checked.map_err(|what| Damage {
                offset_bytes: at,
                length_bytes: u32::try_from(part.len()).unwrap_or(u32::MAX),
                what,
            })?;
        }
        Ok(())
    }

    /// Checks header and checksum of one part.
    fn check_part(&self, part: &mut [u8], offset_bytes: u64, number: Option<u64>) -> Result<(), String> {
        let head_bytes = self.kind.head_bytes();
        if head_bytes == 0 || part.len() <= head_bytes {
            return Ok(());
        }
        self.swap_head(part);
        let (head, data) = part.split_at(head_bytes);
        let short = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let long = |at: usize, bytes: usize| {
            head[at..at + bytes].iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let same = |what: &str, found: u64, wanted: u64| {
            if found == wanted { Ok(()) } else { Err(format!("{what} is {found:#x}, not {wanted:#x}")) }
        };
        same("the header's mark", short(0), u64::from(MAGIC))?;
        same("the header's length", long(LENGTH_AT, 4), part.len() as u64)?;
        same("the header's offset", long(OFFSET_AT, 8), offset_bytes)?;
        if let Some(number) = number {
            same("the number of the write", short(NUMBER_AT), u64::from(low_half(number)))?;
        }
        same("the header's checksum", u64::from(crc32c(&head[..CRC_AT])), long(CRC_AT, 4))?;
        let stored = &head[HEADER_BYTES..];
        if !is_sum(self.kind, data, stored) {
            let wanted = sum(self.kind, data);
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let (stored, wanted) = (hex(stored), hex(&wanted[..stored.len()]));
            return Err(format!("{} of the data is {wanted}, and {stored} is stored", self.kind.name()));
        }
        Ok(())
    }
}

/// Compares the part after its head with the pattern. The pattern starts with the block, `first`
/// bytes before the part.
fn check_pattern(pattern: &[u8], part: &[u8], head_bytes: usize, first: usize) -> Result<(), String> {
    let wanted = pattern.iter().cycle().skip((first + head_bytes) % pattern.len());
    let differing = part[head_bytes..].iter().zip(wanted).position(|(found, wanted)| found != wanted);
    differing.map_or(Ok(()), |at| {
        let at = head_bytes + at;
        let wanted = pattern[(first + at) % pattern.len()];
        Err(format!("byte {at} is {:#04x}, not {wanted:#04x} of the pattern", part[at]))
    })
}

/// The low 16 bits of a write's number, which is all that a header holds.
fn low_half(number: u64) -> u16 {
    u16::try_from(number & 0xffff).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Pattern;

    fn all() -> impl Iterator<Item = Verify> {
        let pattern = Pattern::parse("0xaa555aa5%o").unwrap();
        let bare = move |kind| {
            let pattern = if kind == Kind::Pattern { pattern.clone() } else { Pattern::default() };
            [(0, 0), (512, 0), (1024, 200)].map(|(interval_bytes, header_offset_bytes)| Verify {
                kind,
                interval_bytes,
                header_offset_bytes,
                pattern: pattern.clone(),
                ..Verify::default()
            })
        };
        Kind::NAMES.into_iter().flat_map(move |(_, kind)| bare(kind))
    }

    #[test]
    fn what_was_filled_is_found_whole_and_any_changed_bit_is_found() {
        for verify in all().filter(|verify| verify.kind != Kind::Null) {
            let mut block = vec![0; 4096];
            verify.fill(&mut block, 1 << 20, 7, 1);
            assert_eq!(verify.check(&mut block.clone(), 1 << 20, Some(7)), Ok(()), "{verify:?}");
            // The header's seed, time and thread are covered by its checksum; with `meta` the data
            // after the header is not checked.
            let last = if verify.kind == Kind::Meta { HEADER_BYTES } else { block.len() };
            for at in (0..last).step_by(13) {
                let mut damaged = block.clone();
                damaged[at] ^= 0x10;
                let whole = verify.kind == Kind::Meta && verify.header_offset_bytes > 0;
                assert!(whole || verify.check(&mut damaged, 1 << 20, Some(7)).is_err(), "{at} of {verify:?}");
            }
        }
    }

    #[test]
    fn a_block_at_another_place_or_of_another_write_is_damaged() {
        let verify = Verify { kind: Kind::Crc32c, ..Verify::default() };
        let mut block = vec![0; 4096];
        verify.fill(&mut block, 8192, 7, 1);
        let said = |offset, number| verify.check(&mut block.clone(), offset, number).unwrap_err().to_string();
        assert_eq!(said(4096, None), "4096 bytes at offset 4096: the header's offset is 0x2000, not 0x1000");
        assert_eq!(said(8192, Some(8)), "4096 bytes at offset 8192: the number of the write is 0x7, not 0x8");
        assert_eq!(verify.check(&mut block.clone(), 8192, None), Ok(()));
        assert!(verify.check(&mut vec![0; 4096], 0, None).is_err());
    }
}
