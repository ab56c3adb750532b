//! The checksums, each as fio computes and stores it.

use std::hash::Hasher;

use crc::{Algorithm, CRC_7_MMC, CRC_16_ARC, CRC_32_ISCSI, Crc};
use sha3::Digest;

use super::{Kind, sha};

/// Maximum length of a checksum after its header.
pub(super) const MAX_SUM_BYTES: usize = 128;

/// CRC-32/CKSUM, but without the length and the final inversion.
const CRC_32_PLAIN: Algorithm<u32> = Algorithm {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0x89a1_897f,
    residue: 0,
};
/// CRC-32C without the final inversion.
const CRC_32C_PLAIN: Algorithm<u32> = Algorithm { xorout: 0, check: 0x1cf9_6d7c, residue: 0, ..CRC_32_ISCSI };
/// Jones' polynomial with initial value 0.
const CRC_64_JONES: Algorithm<u64> = Algorithm {
    width: 64,
    poly: 0xad93_d235_94c9_35a9,
    init: 0,
    refin: true,
    refout: true,
    xorout: 0,
    check: 0xe9c6_d914_c4b8_d9ca,
    residue: 0,
};

static CRC7: Crc<u8> = Crc::<u8>::new(&CRC_7_MMC);
static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_ARC);
static CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_PLAIN);
static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32C_PLAIN);
static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_JONES);

/// Bytes reserved for the checksum after the header; fio reserves more than some digests need.
pub(super) const fn room_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Null | Kind::Meta | Kind::Pattern => 0,
        Kind::Crc7 => 1,
        Kind::Crc16 => 2,
        Kind::Crc32 | Kind::Crc32c | Kind::Xxhash => 4,
        Kind::Crc64 => 8,
        Kind::Md5 => 16,
        Kind::Sha1 => 20,
        Kind::Sha3_224 => 28,
        Kind::Sha3_256 => 32,
        Kind::Sha3_384 => 48,
        Kind::Sha256 | Kind::Sha3_512 => 64,
        Kind::Sha512 => 128,
    }
}

/// The checksum of `data` as it is stored, in the first [`room_bytes`] of the result.
pub(super) fn sum(kind: Kind, data: &[u8]) -> [u8; MAX_SUM_BYTES] {
    let mut stored = [0; MAX_SUM_BYTES];
    let mut put = |bytes: &[u8]| stored[..bytes.len()].copy_from_slice(bytes);
    match kind {
        Kind::Null | Kind::Meta | Kind::Pattern => {}
        Kind::Crc7 => put(&[CRC7.checksum(data)]),
        Kind::Crc16 => put(&CRC16.checksum(data).to_le_bytes()),
        Kind::Crc32 => put(&CRC32.checksum(data).to_le_bytes()),
        Kind::Crc32c => put(&CRC32C.checksum(data).to_le_bytes()),
        Kind::Crc64 => put(&CRC64.checksum(data).to_le_bytes()),
        Kind::Md5 => put(&md5::Md5::digest(data)),
        // fio stores the digest as words in the byte order of the machine.
        Kind::Sha1 => {
            for (word, to) in sha1::Sha1::digest(data).chunks_exact(4).zip((0..).step_by(4)) {
                let word: Vec<u8> = word.iter().rev().copied().collect();
                stored[to..to + 4].copy_from_slice(&word);
            }
        }
        Kind::Sha256 => put(&sha::sha256(data)),
        Kind::Sha512 => put(&sha2::Sha512::digest(data)),
        Kind::Sha3_224 => put(&sha3::Sha3_224::digest(data)),
        Kind::Sha3_256 => put(&sha3::Sha3_256::digest(data)),
        Kind::Sha3_384 => put(&sha3::Sha3_384::digest(data)),
        Kind::Sha3_512 => put(&sha3::Sha3_512::digest(data)),
        Kind::Xxhash => {
            let mut hasher = twox_hash::XxHash32::with_seed(1);
            hasher.write(data);
            put(&u32::try_from(hasher.finish()).unwrap_or(0).to_le_bytes());
        }
    }
    stored
}

/// Whether `stored` is a checksum of `data`: the real one, or the one that fio stores instead.
pub(super) fn is_sum(kind: Kind, data: &[u8], stored: &[u8]) -> bool {
    stored == &sum(kind, data)[..stored.len()] || kind == Kind::Sha512 && stored == sha::sha512(data)
}

/// The checksum of a header.
pub(super) fn crc32c(data: &[u8]) -> u32 {
    CRC32C.checksum(data)
}
