//! What the device says about itself: virtio features and the configuration space of virtio-blk.
//!
//! Source: virtio 1.2 (5.2.4); docs/specifications/engine.md, sections 7.2 and 7.3.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hoistway_engine::VolumeFacts;
use hoistway_engine::protocol::virtio_blk::{IDENTITY_BYTES, MAX_RANGE_SECTORS, SECTOR_BYTES};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_CONFIG_WCE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ,
    VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_TOPOLOGY, VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

use super::chain::MAX_DATA_SEGMENTS;

/// VHOST_USER_F_PROTOCOL_FEATURES.
pub const PROTOCOL_FEATURES: u32 = 30;
/// The most rings of a device: a front end takes one per processor of its guest.
pub const MAX_RINGS: u16 = 64;
/// Bytes of the configuration space; what a front end reads behind them is zero.
const SPACE_BYTES: usize = 60;
/// Where the guest says whether its writes wait for stable storage.
const WRITEBACK_AT: usize = 32;
/// The longest segment. A request with the most segments of this length is still shorter than the
/// longest request that the engine accepts.
const MAX_SEGMENT_BYTES: u32 = 128 << 10;

/// A device as its front end sees it.
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    /// The size in bytes, of all copies: it may grow while a front end is connected.
    size_bytes: Arc<AtomicU64>,
    block_bytes: u32,
    physical_block_bytes: u32,
    is_read_only: bool,
    can_discard: bool,
    /// Its name, cut to the length that the protocol allows.
    pub identity: [u8; IDENTITY_BYTES],
}

impl DeviceFacts {
    /// The device of a volume that is exported as `name`. `min_block_bytes` is the smallest block that
    /// its clients may be offered.
    pub fn new(volume: &VolumeFacts, name: &str, min_block_bytes: u32) -> Self {
        let sector_bytes = u32::try_from(SECTOR_BYTES).unwrap_or(u32::MAX);
        let block_bytes = volume.block_bytes.max(min_block_bytes).max(sector_bytes);
        let mut identity = [0; IDENTITY_BYTES];
        for (place, byte) in identity.iter_mut().zip(name.bytes()) {
            *place = byte;
        }
        Self {
            size_bytes: Arc::new(AtomicU64::new(volume.size_bytes)),
            block_bytes,
            physical_block_bytes: volume.physical_block_bytes.max(block_bytes),
            is_read_only: volume.is_read_only,
            can_discard: volume.can_trim && !volume.is_read_only,
            identity,
        }
    }

    /// Changes the size of the device and of all copies of it.
    pub fn set_size(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    /// The device as it is offered from now on: an ability that its backing turned out not to have is
    /// offered no more.
    pub fn with_abilities_of(self, volume: &VolumeFacts) -> Self {
        Self { can_discard: volume.can_trim && !volume.is_read_only, ..self }
    }

    /// The features offered.
    pub fn features(&self) -> u64 {
        let mut features = bits(&[
            VIRTIO_F_VERSION_1,
            VIRTIO_RING_F_INDIRECT_DESC,
            VIRTIO_RING_F_EVENT_IDX,
            PROTOCOL_FEATURES,
            VIRTIO_BLK_F_SIZE_MAX,
            VIRTIO_BLK_F_SEG_MAX,
            VIRTIO_BLK_F_BLK_SIZE,
            VIRTIO_BLK_F_FLUSH,
            VIRTIO_BLK_F_TOPOLOGY,
            VIRTIO_BLK_F_CONFIG_WCE,
            VIRTIO_BLK_F_MQ,
        ]);
        if self.is_read_only {
            features |= bits(&[VIRTIO_BLK_F_RO]);
        } else {
            features |= bits(&[VIRTIO_BLK_F_WRITE_ZEROES]);
        }
        if self.can_discard {
            features |= bits(&[VIRTIO_BLK_F_DISCARD]);
        }
        features
    }

    /// The configuration space from `offset` on, `length` bytes.
    pub fn space(&self, offset: usize, length: usize, is_write_through: bool) -> Vec<u8> {
        let mut space = [0; SPACE_BYTES];
        let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
        let blocks = self.physical_block_bytes / self.block_bytes;
        let blocks_16 = u16::try_from(blocks).unwrap_or(u16::MAX);
        let segments = u32::try_from(MAX_DATA_SEGMENTS).unwrap_or(u32::MAX);
        let alignment = u32::try_from(u64::from(self.block_bytes) / SECTOR_BYTES).unwrap_or(1);
        put(0, &(self.size_bytes.load(Ordering::Acquire) / SECTOR_BYTES).to_le_bytes());
        put(8, &MAX_SEGMENT_BYTES.to_le_bytes());
        put(12, &segments.to_le_bytes());
        put(20, &self.block_bytes.to_le_bytes());
        put(24, &[u8::try_from(blocks.max(1).ilog2()).unwrap_or(0)]);
        put(26, &blocks_16.to_le_bytes());
        put(WRITEBACK_AT, &[u8::from(!is_write_through)]);
        put(34, &MAX_RINGS.to_le_bytes());
        // The most sectors of a discard, its ranges, its alignment.
        put(36, &MAX_RANGE_SECTORS.to_le_bytes());
        put(40, &1_u32.to_le_bytes());
        put(44, &alignment.to_le_bytes());
        // The most sectors of a write of zeroes, its ranges, whether it may free space.
        put(48, &MAX_RANGE_SECTORS.to_le_bytes());
        put(52, &1_u32.to_le_bytes());
        put(56, &[1]);
        space.into_iter().chain(std::iter::repeat(0)).skip(offset).take(length).collect()
    }

    /// Whether writes wait for stable storage, after the front end has written to the space; `None` for
    /// a field that cannot be written.
    pub fn write_through(offset: usize, bytes: &[u8]) -> Option<bool> {
        match (offset, bytes) {
            (WRITEBACK_AT, [writeback]) => Some(*writeback == 0),
            _ => None,
        }
    }
}

/// A feature's bit.
pub fn bits(numbers: &[u32]) -> u64 {
    numbers.iter().fold(0, |bits, number| bits | 1 << number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(is_read_only: bool) -> DeviceFacts {
        let volume = VolumeFacts {
            name: "db".to_owned(),
            size_bytes: 1 << 30,
            is_read_only,
            is_rotational: false,
            block_bytes: 1,
            physical_block_bytes: 4_096,
            can_trim: true,
            can_zero_fast: true,
            uses_page_cache: false,
            description: String::new(),
            note: None,
        };
        DeviceFacts::new(&volume, "a name longer than twenty bytes", 1)
    }

    #[test]
    fn the_space_has_the_fields_of_the_specification() {
        let space = facts(false).space(0, 64, false);
        assert_eq!(space[..8], (1_u64 << 21).to_le_bytes());
        assert_eq!(space[12..16], 254_u32.to_le_bytes());
        assert_eq!(space[20..28], [0, 2, 0, 0, 3, 0, 8, 0], "block, exponent, offset, least I/O");
        assert_eq!((space[32], &space[34..36]), (1, &64_u16.to_le_bytes()[..]));
        assert_eq!(space[60..], [0; 4]);
        assert_eq!(facts(false).space(32, 1, true), [0]);
        assert_eq!(&facts(false).identity, b"a name longer than t");
    }

    #[test]
    fn a_read_only_device_offers_no_changes() {
        let offered = |is_read_only, feature| facts(is_read_only).features() & bits(&[feature]) != 0;
        assert!(offered(true, VIRTIO_BLK_F_RO) && !offered(false, VIRTIO_BLK_F_RO));
        assert!(!offered(true, VIRTIO_BLK_F_DISCARD) && offered(false, VIRTIO_BLK_F_DISCARD));
        assert!(!offered(true, VIRTIO_BLK_F_WRITE_ZEROES) && offered(false, VIRTIO_BLK_F_WRITE_ZEROES));
        assert!(!offered(false, 26), "no log for migration");
    }

    #[test]
    fn only_the_cache_mode_can_be_written() {
        assert_eq!(DeviceFacts::write_through(32, &[0]), Some(true));
        assert_eq!(DeviceFacts::write_through(32, &[1]), Some(false));
        assert_eq!(DeviceFacts::write_through(0, &[0]), None);
        assert_eq!(DeviceFacts::write_through(32, &[0, 0]), None);
    }
}
