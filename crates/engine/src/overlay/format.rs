//! The file format of an overlay: the place of each field in the file, and the conversion to and from bytes.
//!
//! ```text
//! 0        header (4 KiB): the base's identity. Never changed while the overlay is served.
//! 64 KiB   the bitmap, in pages of 4 KiB: four slots for each page, one behind the other
//! data     block n of 64 KiB at data + n * 64 KiB, in a sparse file; data is a multiple of 1 MiB
//! ```
//! Numbers are little-endian. A bit says that a block is the overlay's own; it is set once and never
//! cleared, so the bitmap is the union of all slots that count. Two slots of a page are sealed: they
//! are written, in turns, after the data of their blocks was made durable. Two are open: they are
//! written, in turns, as soon as the data of their blocks is in the kernel, and name the boot of the
//! machine. As long as that boot lasts nothing that the kernel has taken is lost, however the server
//! ends; after another boot they count no more. Whatever write is torn, the other slot of its pair
//! has what was there before.

use crc::{CRC_32_ISCSI, Crc, Table};
use hoistway_block::SECTOR_BYTES;

/// The unit of copy on write, in bytes.
pub const BLOCK_BYTES: u64 = 64 << 10;
/// The size of the header and of a page of the bitmap, in bytes: a write of it is at most one block of any disk.
pub const PAGE_BYTES: usize = 4_096;
/// Bytes of a page before its bits.
const PAGE_HEAD_BYTES: usize = 64;
/// Words of 64 bits in a page.
pub(super) const WORDS_PER_PAGE: usize = (PAGE_BYTES - PAGE_HEAD_BYTES) / 8;
/// Blocks of a page, that is, of almost 2 GiB.
pub const BLOCKS_PER_PAGE: u64 = WORDS_PER_PAGE as u64 * 64;
/// Slots of a page: two sealed ones, two open ones.
pub const SLOTS: u64 = 4;
/// The first slot of the bitmap.
const BITMAP_BYTES: u64 = 64 << 10;
/// Data begins at a multiple of this, so that it is aligned for every disk.
const DATA_ALIGNMENT_BYTES: u64 = 1 << 20;
const MAGIC: [u8; 8] = *b"hoistovl";
const PAGE_MAGIC: [u8; 8] = *b"hoistbit";
const VERSION: u32 = 1;
const NAME_AT: usize = 64;
/// The longest path of a base, in bytes.
pub const MOST_PATH_BYTES: usize = PAGE_BYTES - NAME_AT;
/// The largest base: 8 EiB cannot be the size of a file.
const MOST_BASE_BYTES: u64 = 1 << 60;

/// The checksum of ext4's and of NVMe's metadata.
const CHECKSUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The bytes of a header or of a page of the bitmap.
pub type Page = [u8; PAGE_BYTES];

/// The boot of the machine, as `/proc/sys/kernel/random/boot_id` tells it. All zeroes: none.
pub type Boot = [u8; 16];

/// The identity of a base: it has changed if this has.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct BaseIdentity {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When it was last written, in seconds since 1970.
    pub modified_s: i64,
    /// The fraction of that, in nanoseconds.
    pub modified_ns: u32,
}

/// The header of an overlay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the base was when the overlay was made.
    pub base: BaseIdentity,
    /// Whether its blocks are being written into the base, which is then neither the old nor the new one.
    pub is_committing: bool,
    /// The path of the base, for messages; it may have moved.
    pub base_path: Vec<u8>,
}

/// Why bytes are no header.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoHeader {
    /// Another kind of file.
    #[error("it is no overlay")]
    Other,
    /// An overlay of a version that this program does not know.
    #[error("it is an overlay of version {0}; this program knows version {VERSION}")]
    Version(u32),
    /// The bytes are damaged.
    #[error("its header is damaged")]
    Damaged,
}

/// The contents of a slot of the bitmap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// It was never written.
    Empty,
    /// A write of it was torn, or its bytes are damaged.
    Damaged,
    /// A page.
    Written(BitmapPage),
}

/// A page of the bitmap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BitmapPage {
    /// Counts the writes of its pair of slots.
    pub generation: u64,
    /// The slot is valid only in this boot of the machine (`boot_id`); all zeroes: in every boot.
    pub boot: Boot,
    /// The bits, [`BLOCKS_PER_PAGE`] of them.
    pub words: Vec<u64>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    if let Some(from) = bytes.get(at..at + N) {
        found.copy_from_slice(from);
    }
    found
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + value.len()) {
        to.copy_from_slice(value);
    }
}

/// The checksum of a page, as if the four bytes that hold it (at 12) were zeroes.
fn checksum(page: &Page) -> u32 {
    let mut digest = CHECKSUM.digest();
    digest.update(&page[..12]);
    digest.update(&[0; 4]);
    digest.update(&page[16..]);
    digest.finalize()
}

/// A page with its checksum.
pub fn with_checksum(mut page: Page) -> Page {
    let sum = checksum(&page);
    put(&mut page, 12, &sum.to_le_bytes());
    page
}

impl Header {
    /// The header as bytes. A path longer than [`MOST_PATH_BYTES`] is cut.
    pub fn encode(&self) -> Page {
        let mut page = [0; PAGE_BYTES];
        put(&mut page, 0, &MAGIC);
        put(&mut page, 8, &VERSION.to_le_bytes());
        put(&mut page, 16, &self.base.size_bytes.to_le_bytes());
        put(&mut page, 24, &self.base.modified_s.to_le_bytes());
        put(&mut page, 32, &self.base.modified_ns.to_le_bytes());
        put(&mut page, 36, &u32::from(self.is_committing).to_le_bytes());
        let path = &self.base_path[..self.base_path.len().min(MOST_PATH_BYTES)];
        put(&mut page, 40, &u32::try_from(path.len()).unwrap_or(0).to_le_bytes());
        put(&mut page, NAME_AT, path);
        with_checksum(page)
    }

    /// Reads a header.
    ///
    /// # Errors
    /// The bytes are of another kind or version, or damaged.
    pub fn decode(page: &Page) -> Result<Self, NoHeader> {
        if page[..8] != MAGIC {
            return Err(NoHeader::Other);
        }
        let is_whole = u32::from_le_bytes(number(page, 12)) == checksum(page);
        let version = u32::from_le_bytes(number(page, 8));
        if version != VERSION {
            return Err(if is_whole { NoHeader::Version(version) } else { NoHeader::Damaged });
        }
        let length = u32::from_le_bytes(number(page, 40)) as usize;
        let header = Self {
            base: BaseIdentity {
                size_bytes: u64::from_le_bytes(number(page, 16)),
                modified_s: i64::from_le_bytes(number(page, 24)),
                modified_ns: u32::from_le_bytes(number(page, 32)),
            },
            is_committing: u32::from_le_bytes(number(page, 36)) != 0,
            base_path: page.get(NAME_AT..NAME_AT.saturating_add(length)).map(<[u8]>::to_vec).unwrap_or_default(),
        };
        let is_possible = length <= MOST_PATH_BYTES
            && (SECTOR_BYTES..=MOST_BASE_BYTES).contains(&header.base.size_bytes)
            && header.base.modified_ns < 1_000_000_000
            && header.encode() == *page;
        if is_whole && is_possible { Ok(header) } else { Err(NoHeader::Damaged) }
    }

    /// Where everything is in the file.
    pub fn layout(&self) -> Layout {
        Layout::of(self.base.size_bytes)
    }
}

/// Where everything is in the file of an overlay.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Blocks that lie in the base as a whole, and so have a bit. All others are the overlay's own.
    pub blocks: u64,
    /// Pages of the bitmap.
    pub pages: u32,
    /// First byte of the data.
    pub data_bytes: u64,
}

impl Layout {
    /// The layout of an overlay on a base of this size.
    pub fn of(base_bytes: u64) -> Self {
        let blocks = base_bytes / BLOCK_BYTES;
        let pages = u32::try_from(blocks.div_ceil(BLOCKS_PER_PAGE)).unwrap_or(u32::MAX);
        let behind = BITMAP_BYTES + u64::from(pages) * SLOTS * PAGE_BYTES as u64;
        Self { blocks, pages, data_bytes: behind.next_multiple_of(DATA_ALIGNMENT_BYTES) }
    }

    /// The position of a slot of a page in the file, in bytes. The first two slots are the sealed ones.
    pub fn slot_bytes(&self, page: u32, slot: u64) -> u64 {
        BITMAP_BYTES + (u64::from(page) * SLOTS + slot) * PAGE_BYTES as u64
    }
}

impl BitmapPage {
    /// The page with this number as bytes.
    pub fn encode(&self, page: u32) -> Page {
        encode_page(page, self.generation, self.boot, &self.words)
    }
}

/// A page of the bitmap as bytes.
pub(super) fn encode_page(page: u32, generation: u64, boot: Boot, words: &[u64]) -> Page {
    let mut bytes = [0; PAGE_BYTES];
    put(&mut bytes, 0, &PAGE_MAGIC);
    put(&mut bytes, 8, &page.to_le_bytes());
    put(&mut bytes, 16, &generation.to_le_bytes());
    put(&mut bytes, 24, &boot);
    for (to, word) in bytes[PAGE_HEAD_BYTES..].chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    with_checksum(bytes)
}

impl SlotState {
    /// Reads a slot of the page with this number.
    pub fn decode(page: u32, bytes: &Page) -> Self {
        if bytes.iter().all(|&byte| byte == 0) {
            return SlotState::Empty;
        }
        let is_page = bytes[..8] == PAGE_MAGIC && u32::from_le_bytes(number(bytes, 8)) == page;
        if !is_page || u32::from_le_bytes(number(bytes, 12)) != checksum(bytes) {
            return SlotState::Damaged;
        }
        let words = bytes[PAGE_HEAD_BYTES..].chunks_exact(8).map(|word| u64::from_le_bytes(number(word, 0)));
        SlotState::Written(BitmapPage {
            generation: u64::from_le_bytes(number(bytes, 16)),
            boot: number(bytes, 24),
            words: words.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(size_bytes: u64) -> Header {
        let base = BaseIdentity { size_bytes, modified_s: 1_700_000_000, modified_ns: 5 };
        Header { base, is_committing: false, base_path: b"/images/debian.img".to_vec() }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_any_other_byte_is_noticed() {
        let page = header(3 << 30).encode();
        assert_eq!(Header::decode(&page), Ok(header(3 << 30)));
        for at in 0..PAGE_BYTES {
            let mut other = page;
            other[at] ^= 1;
            assert!(Header::decode(&other).is_err(), "byte {at}");
        }
        assert_eq!(Header::decode(&[0; PAGE_BYTES]), Err(NoHeader::Other));
        let mut later = page;
        put(&mut later, 8, &2_u32.to_le_bytes());
        assert_eq!(Header::decode(&with_checksum(later)), Err(NoHeader::Version(2)));
    }

    #[test]
    fn the_data_lies_behind_the_bitmap_and_the_last_partial_block_of_the_base_has_no_bit() {
        let small = Layout::of(100);
        assert_eq!((small.blocks, small.pages, small.data_bytes), (0, 0, 1 << 20));
        let one = Layout::of((1 << 30) + BLOCK_BYTES - 1);
        assert_eq!((one.blocks, one.pages, one.data_bytes), (1 << 14, 1, 1 << 20));
        let large = Layout::of(1 << 40);
        assert_eq!((large.blocks, large.pages), (1 << 24, 521));
        assert!(large.slot_bytes(520, 3) + PAGE_BYTES as u64 <= large.data_bytes);
    }

    proptest! {
        #[test]
        fn a_page_is_read_as_it_was_written_and_a_torn_one_is_noticed(
            page in 0_u32..600,
            generation in 1_u64..,
            boot: Boot,
            words in proptest::collection::vec(any::<u64>(), WORDS_PER_PAGE),
            torn_at in 1..PAGE_BYTES,
        ) {
            let written = BitmapPage { generation, boot, words };
            let bytes = written.encode(page);
            prop_assert_eq!(SlotState::decode(page, &bytes), SlotState::Written(written.clone()));
            prop_assert_eq!(SlotState::decode(page + 1, &bytes), SlotState::Damaged);
            let before = BitmapPage { generation: generation.wrapping_sub(2), ..written }.encode(page);
            let mut torn = before;
            torn[..torn_at].copy_from_slice(&bytes[..torn_at]);
            let is_either = torn == bytes || torn == before;
            prop_assert_eq!(SlotState::decode(page, &torn) == SlotState::Damaged, !is_either);
        }
    }
}
