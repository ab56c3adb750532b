//! SHA-256 and SHA-512 as fio 3.33 stores them, which is not the digest. Determined from files
//! written by fio.

/// SHA-256's state before the first block (FIPS 180-4, section 5.3.3).
const BEGIN: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
const BLOCK_BYTES: usize = 64;
/// Offset of the data length in the last block.
const LENGTH_AT: usize = 56;

/// The bytes that fio stores for `verify=sha256`: the last block that is hashed, with the low bytes
/// of the eight words of the state at its start. The length in that block is little-endian, so the
/// state is not that of FIPS 180-4. Only 64 bits of it are stored.
pub(super) fn sha256(data: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut state = BEGIN;
    let mut add = |block: &[u8]| {
        // Every block has this length: those below are cut so.
        if let Ok(block) = <[u8; BLOCK_BYTES]>::try_from(block) {
            sha2::block_api::compress256(&mut state, &[block]);
        }
    };
    let blocks = data.chunks_exact(BLOCK_BYTES);
    let rest = blocks.remainder();
    blocks.for_each(&mut add);
    let mut last = [0; BLOCK_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    if rest.len() >= LENGTH_AT {
        add(&last);
        last = [0; BLOCK_BYTES];
    }
    last[LENGTH_AT..].copy_from_slice(&(data.len() as u64 * 8).to_le_bytes());
    add(&last);
    for (byte, word) in last.iter_mut().zip(state) {
        [*byte, ..] = word.to_le_bytes();
    }
    last
}

/// The bytes that fio stores for `verify=sha512`: the first 128 bytes of the data, overwritten at
/// the start by the remainder of the data modulo 128 bytes. No other data is covered, so this is
/// used only to check files written by fio; files written here contain the digest.
pub(super) fn sha512(data: &[u8]) -> [u8; 128] {
    let mut stored = [0; 128];
    let first = data.len().min(128);
    stored[..first].copy_from_slice(&data[..first]);
    let rest = data.chunks_exact(128).remainder();
    stored[..rest.len()].copy_from_slice(rest);
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_keeps_the_low_bytes_of_its_state_over_the_last_block() {
        // Computed independently of this code by a program that also computes fio's values; lengths
        // before and after the position of the length field.
        let hex = |data: &[u8]| sha256(data)[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let data: Vec<u8> = (0..200).collect();
        assert_eq!(hex(&data[..100]), "8ac730b629db98c3");
        assert_eq!(hex(&data[..188]), "bbb45a04e9c8a895");
        assert_eq!(hex(&data[..128]), "fa795c634727d010");
        assert_eq!(sha256(&data[..100])[8..LENGTH_AT], [&data[72..100], &[0x80], &[0; 19]].concat());
        assert_eq!(sha256(&data[..188])[8..LENGTH_AT], [0; 48]);
    }
}
