//! The record of requests in flight that outlives the server: memory of the front end's, in which a
//! restarted server finds what it has to do again (VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD).
//!
//! ```text
//! per ring: u64 features | u16 version | u16 descriptors | u16 last head | u16 used index
//!           descriptors x { u8 is in flight | 5 bytes | u16 next | u64 counter }
//! then:     u8 whether the guest's writes wait for stable storage
//! ```
//! The last byte is our own: a front end does not repeat it to a restarted server.
//! One request is given back at a time: `begin_return`, the used ring, `end_return`. If the server ends
//! between the last two, the used ring's index differs from the recorded one, and the last head was
//! given back. Source: docs/interop/vhost-user.rst of QEMU, "Inflight I/O tracking".

use std::fs::File;
use std::sync::atomic::Ordering;

use vm_memory::{Bytes, VolatileMemory, VolatileSlice};

use super::configuration_space::MAX_RINGS;
use super::guest_memory::Shared;
use super::ring::MAX_RING_SIZE;

const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 16;
const RING_ALIGNMENT: usize = 64;
const VERSION: u16 = 1;
/// Offsets of the fields of a ring's header, in bytes.
const VERSION_AT: usize = 8;
const DESCRIPTORS_AT: usize = 10;
const LAST_HEAD_AT: usize = 12;
const USED_INDEX_AT: usize = 14;
/// Offsets of the fields of a descriptor's entry, in bytes.
const NEXT_AT: usize = 6;
const COUNTER_AT: usize = 8;

/// Bytes that one ring's record needs.
fn ring_bytes(descriptors: u16) -> usize {
    (HEADER_BYTES + usize::from(descriptors) * ENTRY_BYTES).next_multiple_of(RING_ALIGNMENT)
}

/// Bytes that the records of `rings` rings need.
pub fn record_bytes(rings: u16, descriptors: u16) -> u64 {
    (ring_bytes(descriptors) * usize::from(rings) + RING_ALIGNMENT) as u64
}

/// The records of all rings of a device. A head is the index of a request's first descriptor.
#[derive(Debug)]
pub struct Record {
    memory: Shared,
    rings: u16,
    descriptors: u16,
}

impl Record {
    /// Maps the records in the front end's file.
    ///
    /// # Errors
    /// It is for more rings or descriptors than there can be, the file is too short, or cannot be mapped.
    pub fn map(file: File, offset_bytes: u64, bytes: u64, rings: u16, descriptors: u16) -> Result<Self, String> {
        let needed = record_bytes(rings, descriptors);
        if rings > MAX_RINGS || descriptors > MAX_RING_SIZE {
            return Err(format!("the memory for requests in flight is for {rings} rings of {descriptors} descriptors"));
        }
        if bytes < needed {
            return Err(format!("the memory for requests in flight has {bytes} bytes, {needed} are needed"));
        }
        let memory = Shared::map(file, offset_bytes, needed);
        let memory = memory.map_err(|what| format!("the memory for requests in flight: {what}"))?;
        Ok(Self { memory, rings, descriptors })
    }

    /// Whether a part of it is gone, so that it does not outlive the server.
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    fn ring(&self, ring: u16) -> Option<VolatileSlice<'_>> {
        let bytes = ring_bytes(self.descriptors);
        let is_there = ring < self.rings;
        self.memory.mapping().get_slice(usize::from(ring) * bytes, bytes).ok().filter(|_| is_there)
    }

    fn own(&self) -> Option<VolatileSlice<'_>> {
        self.memory.mapping().get_slice(ring_bytes(self.descriptors) * usize::from(self.rings), RING_ALIGNMENT).ok()
    }

    /// Whether the guest's writes wait for stable storage.
    pub fn is_write_through(&self) -> bool {
        self.own().is_some_and(|own| own.load::<u8>(0, Ordering::Acquire).is_ok_and(|byte| byte == 1))
    }

    /// Records whether the guest's writes wait for stable storage.
    pub fn set_write_through(&self, is_write_through: bool) {
        if let Some(own) = self.own() {
            store(&own, 0, u8::from(is_write_through));
        }
    }

    fn entry(&self, ring: u16, head: u16) -> Option<VolatileSlice<'_>> {
        let at = HEADER_BYTES + usize::from(head) * ENTRY_BYTES;
        self.ring(ring).filter(|_| head < self.descriptors)?.subslice(at, ENTRY_BYTES).ok()
    }

    /// Begins a ring of `size` descriptors whose used ring is at `used_index`. Returns the heads in
    /// flight, oldest first, and the counter of the next.
    ///
    /// # Errors
    /// The record is of another version or for fewer descriptors.
    pub fn begin(&self, ring: u16, size: u16, used_index: u16) -> Result<(Vec<u16>, u64), String> {
        let header = self.ring(ring).ok_or_else(|| format!("no memory for requests in flight of ring {ring}"))?;
        if size > self.descriptors {
            let room = self.descriptors;
            return Err(format!("ring {ring} has {size} descriptors, its record of requests in flight {room}"));
        }
        let load = |at| header.load::<u16>(at, Ordering::Acquire).unwrap_or(0);
        match load(VERSION_AT) {
            0 => {
                store(&header, DESCRIPTORS_AT, self.descriptors);
                store(&header, LAST_HEAD_AT, 0_u16);
                store(&header, USED_INDEX_AT, used_index);
                store(&header, VERSION_AT, VERSION);
            }
            VERSION if load(DESCRIPTORS_AT) == self.descriptors => {}
            version => return Err(format!("the record of requests in flight is of the unknown version {version}")),
        }
        if load(USED_INDEX_AT) != used_index {
            if let Some(last) = self.entry(ring, load(LAST_HEAD_AT)) {
                store(&last, 0, 0_u8);
            }
            store(&header, USED_INDEX_AT, used_index);
        }
        let mut heads = Vec::new();
        for head in 0..size {
            let Some(entry) = self.entry(ring, head) else { continue };
            if entry.load::<u8>(0, Ordering::Acquire).unwrap_or(0) == 1 {
                heads.push((entry.load::<u64>(COUNTER_AT, Ordering::Acquire).unwrap_or(0), head));
            }
        }
        heads.sort_unstable();
        let next_counter = heads.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok((heads.into_iter().map(|(_, head)| head).collect(), next_counter))
    }

    /// A request was taken from the ring.
    pub fn take(&self, ring: u16, head: u16, counter: u64) {
        if let Some(entry) = self.entry(ring, head) {
            store(&entry, COUNTER_AT, counter);
            store(&entry, 0, 1_u8);
        }
    }

    /// A request will be given back next.
    pub fn begin_return(&self, ring: u16, head: u16) {
        let (Some(header), Some(entry)) = (self.ring(ring), self.entry(ring, head)) else { return };
        let last_head: u16 = header.load(LAST_HEAD_AT, Ordering::Relaxed).unwrap_or(0);
        store(&entry, NEXT_AT, last_head);
        store(&header, LAST_HEAD_AT, head);
    }

    /// The request was given back: the used ring's index is `used_index` now.
    pub fn end_return(&self, ring: u16, head: u16, used_index: u16) {
        let (Some(header), Some(entry)) = (self.ring(ring), self.entry(ring, head)) else { return };
        store(&entry, 0, 0_u8);
        store(&header, USED_INDEX_AT, used_index);
    }
}

/// Stores a field. Its place was checked when the slice was cut, so this cannot fail.
fn store<T: vm_memory::AtomicAccess>(slice: &VolatileSlice<'_>, at: usize, value: T) {
    let _ = slice.store(value, at, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::super::testing::memory_file;
    use super::*;

    fn record(file: &File) -> Record {
        let bytes = record_bytes(2, 8);
        Record::map(file.try_clone().expect("clone"), 0, bytes, 2, 8).expect("mapped")
    }

    #[test]
    fn a_restarted_server_finds_what_was_in_flight_in_order() {
        let file = memory_file(record_bytes(2, 8));
        let before = record(&file);
        assert_eq!(before.begin(1, 8, 40), Ok((Vec::new(), 0)));
        for (counter, head) in [5, 2, 7].into_iter().enumerate() {
            before.take(1, head, counter as u64);
        }
        before.begin_return(1, 2);
        before.end_return(1, 2, 41);
        assert_eq!(record(&file).begin(1, 8, 41), Ok((vec![5, 7], 3)));
        assert_eq!(record(&file).begin(0, 8, 0), Ok((Vec::new(), 0)), "the other ring");
    }

    #[test]
    fn a_request_whose_return_was_not_recorded_is_not_repeated() {
        let file = memory_file(record_bytes(2, 8));
        let before = record(&file);
        before.begin(0, 8, 0).expect("fresh");
        before.take(0, 3, 0);
        before.begin_return(0, 3);
        // The used ring's index has advanced, then the server was killed.
        assert_eq!(record(&file).begin(0, 8, 1), Ok((Vec::new(), 0)));
    }

    #[test]
    fn a_request_that_was_not_given_back_is_repeated() {
        let file = memory_file(record_bytes(2, 8));
        let before = record(&file);
        before.begin(0, 8, 0).expect("fresh");
        before.take(0, 3, 0);
        before.begin_return(0, 3);
        assert_eq!(record(&file).begin(0, 8, 0), Ok((vec![3], 1)));
    }

    #[test]
    fn the_cache_mode_outlives_the_server() {
        let file = memory_file(record_bytes(2, 8));
        assert!(!record(&file).is_write_through());
        record(&file).set_write_through(true);
        assert!(record(&file).is_write_through());
        assert_eq!(record(&file).begin(1, 8, 0), Ok((Vec::new(), 0)), "the rings' records are not touched");
    }

    #[test]
    fn records_that_do_not_fit_are_refused() {
        let file = memory_file(record_bytes(2, 8));
        let short = Record::map(file.try_clone().expect("clone"), 0, 100, 2, 8).expect_err("too short");
        assert!(short.contains("has 100 bytes"), "{short}");
        assert!(record(&file).begin(0, 16, 0).expect_err("too many").contains("16 descriptors"));
        assert!(record(&file).begin(2, 8, 0).expect_err("no such ring").contains("ring 2"));
    }
}
