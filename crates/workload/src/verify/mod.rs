//! What is written so that it can be checked, and the check: fio's `verify`, in fio's layout.
//!
//! ```text
//! a block, or each `interval_bytes` of it:  header (40 bytes) | checksum of the rest | the rest
//! ```
//! A file written here can be checked by fio's `rw=read` and the other way round, but for sha512: fio stores 128 bytes of the
//! data instead of the digest, so what it wrote is checked as far as that goes, and it cannot check what we write. Hosts with data call [`Blocks`]; simulated devices keep no data.

mod block;
mod blocks;
mod pattern;
mod sha;
mod sums;

use serde::{Deserialize, Serialize};

pub use block::Damage;
pub use blocks::Blocks;
pub use pattern::Pattern;

/// The errno of a block that does not hold what was written: EILSEQ, as in fio.
pub const DAMAGED_ERRNO: u16 = 84;

/// How a remark about a damaged block begins.
pub const REMARK: &str = "verify: ";

/// How a block is checked.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is the checksum of its name")]
pub enum Kind {
    /// Not at all: the blocks are read back, nothing else.
    Null,
    /// By the header alone, and by the pattern if there is one.
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
    /// All of them, by fio's names.
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

    /// fio's name of it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("null", |(name, _)| name)
    }
}

/// What a job writes and checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Verify {
    /// How.
    pub kind: Kind,
    /// A header every so many bytes; 0 = one per block.
    pub interval_bytes: u32,
    /// Where in its part the header stands; 0 = at the begin.
    pub header_offset_bytes: u32,
    /// What the data is; empty = random.
    pub pattern: Pattern,
    /// Blocks written are read back and checked (fio `do_verify`). A job that only reads checks in any case.
    pub reads_back: bool,
    /// Nothing is written: the blocks that would be are read and checked (fio `verify_only`).
    pub only_checks: bool,
    /// Blocks are read back as soon as so many wait for it; 0 = when all are written.
    pub backlog: u32,
    /// How many then; 0 = as many as `backlog`.
    pub backlog_batch: u32,
    /// A block must be the last one that was written there, not an earlier one (fio `verify_write_sequence`).
    pub checks_order: bool,
    /// A damaged block ends the thread, whatever else is said.
    pub is_fatal: bool,
    /// A damaged block does not end the thread.
    pub goes_on: bool,
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
            goes_on: false,
        }
    }
}
