//! The data written to the device, in memory and in chunks. Everything else reads as zeroes.

use std::collections::HashMap;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;

static ZEROES: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// The memory limit is reached.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Full;

/// The content of a device.
#[derive(Debug)]
pub struct Store {
    chunks: HashMap<u64, Box<[u8]>>,
    chunks_at_most: usize,
}

impl Store {
    /// An empty device that stores at most `memory_bytes` of data.
    pub fn new(memory_bytes: u64) -> Self {
        let chunks_at_most = usize::try_from(memory_bytes / CHUNK_BYTES as u64).unwrap_or(usize::MAX);
        Self { chunks: HashMap::new(), chunks_at_most }
    }

    /// Stores data. Zeroes where nothing was stored before need no memory.
    ///
    /// # Errors
    /// [`Full`]; the first part of the data may have been stored.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) -> Result<(), Full> {
        let mut rest = data;
        for (number, within) in pieces(offset_bytes, data.len() as u64) {
            let (piece, behind) = rest.split_at(within.len());
            rest = behind;
            if let Some(chunk) = self.chunks.get_mut(&number) {
                chunk[within].copy_from_slice(piece);
            } else if piece != &ZEROES[..piece.len()] {
                if self.chunks.len() >= self.chunks_at_most {
                    return Err(Full);
                }
                let mut chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
                chunk[within].copy_from_slice(piece);
                self.chunks.insert(number, chunk);
            }
        }
        Ok(())
    }

    /// Makes a range read as zeroes.
    pub fn zero(&mut self, offset_bytes: u64, length_bytes: u64) {
        if self.chunks.is_empty() {
            return;
        }
        // A range may be far longer than the stored data.
        let (first, last) = (offset_bytes, offset_bytes.saturating_add(length_bytes));
        let size = CHUNK_BYTES as u64;
        self.chunks.retain(|number, _| number * size < first || (number + 1) * size > last);
        for (number, within) in
            pieces(first, length_bytes.min(size)).chain(pieces(last - length_bytes.min(size), length_bytes.min(size)))
        {
            if let Some(chunk) = self.chunks.get_mut(&number) {
                chunk[within].fill(0);
            }
        }
    }

    /// The content of a range, in pieces.
    pub fn read(&self, offset_bytes: u64, length_bytes: u32) -> impl Iterator<Item = &[u8]> {
        pieces(offset_bytes, u64::from(length_bytes)).map(|(number, within)| {
            self.chunks.get(&number).map_or(&ZEROES[..], |chunk| &chunk[..]).get(within).unwrap_or(&[])
        })
    }

    /// Bytes of memory in use for data.
    pub fn memory_bytes(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK_BYTES as u64
    }
}

/// A range divided at the borders of chunks: number of the chunk, range inside it.
fn pieces(offset_bytes: u64, length_bytes: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let size = CHUNK_BYTES as u64;
    let end = offset_bytes + length_bytes;
    let chunks = if length_bytes == 0 { 0..0 } else { offset_bytes / size..(end - 1) / size + 1 };
    chunks.map(move |number| {
        let start = number * size;
        let within = |at: u64| usize::try_from(at.clamp(start, start + size) - start).unwrap_or(CHUNK_BYTES);
        (number, within(offset_bytes)..within(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = CHUNK_BYTES as u64;

    fn read(store: &Store, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
        store.read(offset_bytes, length_bytes).flatten().copied().collect()
    }

    #[test]
    fn written_data_is_read_across_chunks_and_the_rest_is_zero() {
        let mut store = Store::new(1 << 20);
        store.write(CHUNK - 2, &[1, 2, 3, 4]).unwrap();
        assert_eq!(read(&store, CHUNK - 3, 6), [0, 1, 2, 3, 4, 0]);
        assert_eq!(read(&store, 9 * CHUNK, 3), [0, 0, 0]);
        assert_eq!(store.memory_bytes(), 2 * CHUNK);
    }

    #[test]
    fn zeroing_gives_whole_chunks_back_and_clears_the_ends() {
        let mut store = Store::new(1 << 20);
        store.write(0, &vec![7; 4 * CHUNK_BYTES]).unwrap();
        store.zero(CHUNK - 1, 2 * CHUNK + 2);
        assert_eq!(store.memory_bytes(), 2 * CHUNK);
        assert_eq!((read(&store, CHUNK - 2, 3), read(&store, 3 * CHUNK, 3)), (vec![7, 0, 0], vec![0, 7, 7]));
        store.zero(1, 2);
        assert_eq!(read(&store, 0, 4), [7, 0, 0, 7]);
        store.zero(0, u64::MAX / 2);
        assert_eq!(store.memory_bytes(), 0);
    }

    #[test]
    fn memory_is_bounded_and_zeroes_cost_none() {
        let mut store = Store::new(2 * CHUNK);
        store.write(0, &vec![0; 8 * CHUNK_BYTES]).unwrap();
        assert_eq!(store.memory_bytes(), 0);
        assert_eq!(store.write(0, &vec![1; 3 * CHUNK_BYTES]), Err(Full));
        assert_eq!(store.write(CHUNK, &[2]), Ok(()), "what is there already may change");
    }
}
