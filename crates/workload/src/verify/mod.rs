//! Data that can be verified, and the verification: fio's `verify` in fio's layout.
//!
//! ```text
//! a block, or each `interval_bytes` of it:  header (40 bytes) | checksum of the rest | the rest
//! ```
//! fio's `rw=read` can verify a file written here and vice versa, except with sha512: fio stores
//! 128 bytes of the data instead of the digest, so its files are verified only as far as that
//! permits, and fio cannot verify files written here. Hosts that transfer data use [`Blocks`];
//! simulated devices store no data.

mod block;
mod blocks;
mod pattern;
mod sha;
mod sums;

use serde::{Deserialize, Serialize};

pub use block::Damage;
pub use blocks::Blocks;
pub use pattern::Pattern;

/// The errno for a damaged block: EILSEQ, as in fio.
pub const DAMAGED_ERRNO: u16 = 84;

/// Prefix of messages about a damaged block.
pub const REMARK: &str = "verify: ";

/// How a block is checked.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is the checksum of its name")]
pub enum Kind {
    /// Not at all: the blocks are only read back.
    Null,
    /// By the header, and by the pattern if there is one.
    #[default]
    Meta,
    /// Byte by byte against the pattern, without a header.
    Pattern,
    Md5,
    Crc64,
    Crc32,
    Crc32c,
    Crc16,
    Crc7,
    Sha256,
    Sha512,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Xxhash,
    Sha1,
}

impl Kind {
    /// All kinds by fio's names.
    pub const NAMES: [(&'static str, Kind); 17] = [
        ("null", Kind::Null),
        ("meta", Kind::Meta),
        ("pattern", Kind::Pattern),
        ("md5", Kind::Md5),
        ("crc64", Kind::Crc64),
        ("crc32", Kind::Crc32),
        ("crc32c", Kind::Crc32c),
        ("crc16", Kind::Crc16),
        ("crc7", Kind::Crc7),
        ("sha256", Kind::Sha256),
        ("sha512", Kind::Sha512),
        ("sha3-224", Kind::Sha3_224),
        ("sha3-256", Kind::Sha3_256),
        ("sha3-384", Kind::Sha3_384),
        ("sha3-512", Kind::Sha3_512),
        ("xxhash", Kind::Xxhash),
        ("sha1", Kind::Sha1),
    ];

    /// Its name in fio.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("null", |(name, _)| name)
    }
}

/// What a job writes and verifies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Verify {
    /// How a block is checked.
    pub kind: Kind,
    /// Distance between headers in bytes; 0 means one per block.
    pub interval_bytes: u32,
    /// Offset of the header in its part; 0 means at the start.
    pub header_offset_bytes: u32,
    /// The data; empty means random.
    pub pattern: Pattern,
    /// Whether written blocks are read back and checked (fio `do_verify`). A job that only reads
    /// checks in any case.
    pub reads_back: bool,
    /// Whether nothing is written and existing blocks are checked instead (fio `verify_only`).
    pub only_checks: bool,
    /// Number of written blocks after which reading back starts; 0 means when all are written.
    pub backlog: u32,
    /// Number of blocks that are then read back; 0 means as many as `backlog`.
    pub backlog_batch: u32,
    /// Whether a block must come from the last write to its position (fio `verify_write_sequence`).
    pub checks_order: bool,
    /// Whether a damaged block ends the thread regardless of other options.
    pub is_fatal: bool,
    /// Whether the thread continues after a damaged block.
    #[serde(rename = "goes_on")]
    pub continues: bool,
}

impl Default for Verify {
    fn default() -> Self {
        Self {
            kind: Kind::default(),
            interval_bytes: 0,
            header_offset_bytes: 0,
            pattern: Pattern::default(),
            reads_back: true,
            only_checks: false,
            backlog: 0,
            backlog_batch: 0,
            checks_order: true,
            is_fatal: false,
            continues: false,
        }
    }
}
