//! Memory for unit tests.

use std::fs::File;

use super::guest_memory::{GuestMemory, Region};

/// A memory file of some bytes, all zero.
pub fn memory_file(bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd"));
    file.set_len(bytes).expect("its length");
    file
}

/// A guest's memory of one region at address 0.
pub fn memory(bytes: u64) -> GuestMemory {
    let region = Region { guest_address: 0, user_address: 1 << 40, bytes, file_offset_bytes: 0 };
    GuestMemory::default().with(region, memory_file(bytes)).expect("mapped")
}
