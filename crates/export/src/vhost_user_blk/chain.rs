//! A chain of descriptors in a guest's memory: read once, checked whole, and never looked at again,
//! because the guest may change it at any time.

use hoistway_engine::protocol::virtio_blk::{ChainParts, HEADER_BYTES, RANGE_BYTES};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Address, Bytes, GuestAddress};

use super::guest_memory::{GuestMemory, Segment};

/// The most segments of a request's data (`seg_max`).
pub const MAX_DATA_SEGMENTS: usize = 254;
/// The most descriptors of a chain: data, header and status.
const MAX_SEGMENTS: usize = MAX_DATA_SEGMENTS + 2;
/// Bytes of a descriptor.
const DESCRIPTOR_BYTES: u32 = 16;

/// A chain of descriptors.
#[derive(Debug, Default)]
pub struct Chain {
    /// Data that the guest supplies, then room for data to the guest.
    segments: Vec<Segment>,
    out_count: usize,
    status: GuestAddress,
    header: [u8; HEADER_BYTES],
    range: Option<[u8; RANGE_BYTES]>,
}

/// Why a chain cannot be used.
pub type Malformed = &'static str;

impl Chain {
    /// Reads the chain that begins with descriptor `head` of the table.
    ///
    /// # Errors
    /// What is wrong with the chain, whose content is of no use then.
    pub fn read(
        &mut self,
        memory: &GuestMemory,
        table: GuestAddress,
        table_size: u16,
        head: u16,
    ) -> Result<(), Malformed> {
        self.walk(memory, table, table_size, head)?;
        let last = self.segments.last_mut().ok_or("a chain is empty")?;
        // Every segment holds at least one byte.
        last.bytes -= 1;
        self.status = last.address.checked_add(u64::from(last.bytes)).ok_or("an address overflows")?;
        if last.bytes == 0 {
            self.segments.pop();
        }
        self.header = self.take_out(memory).ok_or("a chain has no whole header")?;
        self.range = self.first_out(memory);
        Ok(())
    }

    /// Collects the segments, and checks that each lies in the memory and that the last one is writable.
    fn walk(&mut self, memory: &GuestMemory, table: GuestAddress, table_size: u16, head: u16) -> Result<(), Malformed> {
        self.segments.clear();
        self.out_count = 0;
        let (mut table, mut table_size, mut index) = (table, u32::from(table_size), u32::from(head));
        let mut is_indirect = false;
        let mut left = table_size;
        loop {
            if index >= table_size {
                return Err("a descriptor's number is outside its table");
            }
            left = left.checked_sub(1).ok_or("a chain is longer than its table")?;
            let address = table.checked_add(u64::from(index * DESCRIPTOR_BYTES)).ok_or("an address overflows")?;
            let descriptor: Descriptor =
                memory.map().read_obj(address).map_err(|_| "a descriptor is outside the guest's memory")?;
            if descriptor.refers_to_indirect_table() {
                let bytes = descriptor.len();
                let is_table = bytes > 0 && bytes.is_multiple_of(DESCRIPTOR_BYTES);
                if is_indirect || descriptor.has_next() || !is_table {
                    return Err("an indirect table is malformed");
                }
                // An index of a descriptor has 16 bits, so a longer table is of no use.
                table_size = (bytes / DESCRIPTOR_BYTES).min(1 << 16);
                (table, left, index, is_indirect) = (descriptor.addr(), table_size, 0, true);
                continue;
            }
            let segment = Segment { address: descriptor.addr(), bytes: descriptor.len() };
            if segment.bytes == 0 {
                return Err("a descriptor is empty");
            }
            if !memory.holds(segment) {
                return Err("a buffer is outside the guest's memory");
            }
            if self.segments.len() == MAX_SEGMENTS {
                return Err("a chain has too many descriptors");
            }
            let has_in = self.out_count < self.segments.len();
            if !descriptor.is_write_only() {
                if has_in {
                    return Err("a readable descriptor follows a writable one");
                }
                self.out_count += 1;
            }
            self.segments.push(segment);
            if !descriptor.has_next() {
                let has_in = self.out_count < self.segments.len();
                return if has_in { Ok(()) } else { Err("a chain has no room for its status") };
            }
            index = u32::from(descriptor.next());
        }
    }

    /// Takes the first bytes of the guest's data away.
    fn take_out(&mut self, memory: &GuestMemory) -> Option<[u8; HEADER_BYTES]> {
        let header = self.first_out(memory)?;
        let mut left = u32::try_from(header.len()).ok()?;
        let mut emptied = 0;
        for segment in &mut self.segments[..self.out_count] {
            let bytes = left.min(segment.bytes);
            segment.address = segment.address.unchecked_add(u64::from(bytes));
            segment.bytes -= bytes;
            left -= bytes;
            if segment.bytes > 0 {
                break;
            }
            emptied += 1;
        }
        self.segments.drain(..emptied);
        self.out_count -= emptied;
        Some(header)
    }

    /// The first bytes of the guest's data, if it has enough.
    fn first_out<const N: usize>(&self, memory: &GuestMemory) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let mut done = 0;
        for segment in &self.segments[..self.out_count] {
            if done == N {
                break;
            }
            let here = (N - done).min(segment.bytes as usize);
            memory.map().read_slice(&mut bytes[done..done + here], segment.address).ok()?;
            done += here;
        }
        (done == N).then_some(bytes)
    }

    /// What the chain asks for.
    pub fn parts(&self) -> ChainParts {
        let total = |segments: &[Segment]| segments.iter().map(|segment| u64::from(segment.bytes)).sum();
        ChainParts {
            header: self.header,
            out_bytes: total(self.out_segments()),
            in_bytes: total(self.in_segments()),
            range: self.range,
        }
    }

    /// The data that the guest supplies.
    pub fn out_segments(&self) -> &[Segment] {
        &self.segments[..self.out_count]
    }

    /// The room for data to the guest.
    pub fn in_segments(&self) -> &[Segment] {
        &self.segments[self.out_count..]
    }

    /// Where the status belongs.
    pub fn status(&self) -> Segment {
        Segment { address: self.status, bytes: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::memory;
    use super::*;

    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;
    const TABLE: u64 = 0x1_000;

    fn read(descriptors: &[(u64, u32, u16, u16)]) -> Result<Chain, Malformed> {
        let memory = memory(1 << 20);
        put(&memory, TABLE, descriptors);
        let mut chain = Chain::default();
        chain.read(&memory, GuestAddress(TABLE), 16, 0).map(|()| chain)
    }

    fn put(memory: &GuestMemory, table: u64, descriptors: &[(u64, u32, u16, u16)]) {
        for (index, (address, bytes, flags, next)) in (0_u64..).zip(descriptors) {
            let descriptor = Descriptor::new(*address, *bytes, *flags, *next);
            memory.map().write_obj(descriptor, GuestAddress(table + 16 * index)).expect("inside");
        }
    }

    #[test]
    fn header_data_and_status_may_be_cut_anywhere() {
        let chain = read(&[
            (0x2_000, 10, NEXT, 1),
            (0x3_000, 6 + 512, NEXT, 2),
            (0x4_000, 512, NEXT | WRITE, 3),
            (0x5_000, 513, WRITE, 0),
        ])
        .expect("well formed");
        assert_eq!(chain.out_segments(), [Segment { address: GuestAddress(0x3_006), bytes: 512 }]);
        let parts = chain.parts();
        assert_eq!((parts.out_bytes, parts.in_bytes), (512, 1_024));
        assert_eq!(chain.status().address, GuestAddress(0x5_200));
    }

    #[test]
    fn a_status_of_its_own_takes_no_data() {
        let chain = read(&[(0x2_000, 16, NEXT, 2), (0, 0, 0, 0), (0x3_000, 1, WRITE, 0)]).expect("a flush");
        assert_eq!((chain.parts().out_bytes, chain.parts().in_bytes), (0, 0));
        assert_eq!(chain.status().address, GuestAddress(0x3_000));
    }

    #[test]
    fn an_indirect_table_replaces_the_ring_table() {
        let memory = memory(1 << 20);
        put(&memory, TABLE, &[(0x8_000, 48, INDIRECT, 0)]);
        put(&memory, 0x8_000, &[(0x2_000, 16, NEXT, 1), (0x3_000, 4_096, NEXT | WRITE, 2), (0x4_000, 1, WRITE, 0)]);
        let mut chain = Chain::default();
        chain.read(&memory, GuestAddress(TABLE), 16, 0).expect("well formed");
        assert_eq!(chain.parts().in_bytes, 4_096);
    }

    #[test]
    fn malformed_chains_are_refused() {
        let refusal = |descriptors: &[_]| read(descriptors).expect_err("malformed");
        assert!(refusal(&[(0x2_000, 16, NEXT, 0)]).contains("longer than its table"));
        assert!(refusal(&[(0x2_000, 16, NEXT, 16)]).contains("outside its table"));
        assert!(refusal(&[(1 << 20, 16, NEXT, 1)]).contains("outside the guest's memory"));
        assert!(refusal(&[(u64::MAX - 3, 16, NEXT, 1)]).contains("outside the guest's memory"));
        assert!(refusal(&[(0xf_fff8, 16, NEXT, 1)]).contains("outside the guest's memory"));
        assert!(refusal(&[(0x2_000, 0, NEXT, 1)]).contains("empty"));
        assert!(refusal(&[(0x2_000, 16, 0, 0)]).contains("no room for its status"));
        assert!(refusal(&[(0x2_000, 16, WRITE, 0)]).contains("no whole header"));
        assert!(refusal(&[(0x2_000, 15, NEXT, 1), (0x3_000, 1, WRITE, 0)]).contains("no whole header"));
        assert!(refusal(&[(0x2_000, 16, NEXT | WRITE, 1), (0x3_000, 16, 0, 0)]).contains("follows a writable"));
        assert!(refusal(&[(0x2_000, 40, INDIRECT, 0)]).contains("indirect"));
        assert!(refusal(&[(0x2_000, 32, INDIRECT | NEXT, 1)]).contains("indirect"));
        assert!(refusal(&[(TABLE, 16, INDIRECT, 0)]).contains("indirect"));
    }
}
