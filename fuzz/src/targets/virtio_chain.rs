//! Fuzzes the descriptor chains of a guest: the input is the guest's memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::target::{Seen, Target};
use hoistway_engine::protocol::virtio_blk::{Request, translate};
use hoistway_export::vhost_user_blk::chain::Chain;
use hoistway_export::vhost_user_blk::guest_memory::{GuestAddress, GuestMemory, Region, Segment};

pub const TARGET: Target = Target {
    name: "virtio-chain",
    promise: "no panic, no loop, no segment outside the guest's memory, no request longer than is offered",
    run,
    corpus,
    tokens: &[
        &[1, 0, 1, 0],
        &[3, 0, 2, 0],
        &[2, 0, 0, 0],
        &[4, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 16, 0, 0, 0, 0, 0, 0],
        &[0, 2, 0, 0],
        &[16, 0, 0, 0],
        &[1, 0, 0, 0],
        &[255, 255, 255, 255],
    ],
    longest_bytes: MEMORY_BYTES,
};

const MEMORY_BYTES: usize = 8_192;
const DESCRIPTORS: u16 = 16;

fn run(bytes: &[u8]) -> Seen {
    let file = File::from(rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC).expect("a memory file"));
    file.set_len(MEMORY_BYTES as u64).expect("its length");
    file.write_all_at(&bytes[..bytes.len().min(MEMORY_BYTES)], 0).expect("its content");
    let region = Region { guest_address: 0, user_address: 0, bytes: MEMORY_BYTES as u64, file_offset_bytes: 0 };
    let memory = GuestMemory::default().with(region, file).expect("mapped");
    let mut chain = Chain::default();
    let mut seen = Seen::NOTHING;
    for head in 0..=DESCRIPTORS {
        match chain.read(&memory, GuestAddress(0), DESCRIPTORS, head) {
            Err(malformed) => seen = seen.and_message(malformed, ""),
            Ok(()) => {
                let segments = [chain.out_segments(), chain.in_segments(), &[chain.status()]].concat();
                for Segment { address, bytes } in segments {
                    let end = address.0 + u64::from(bytes);
                    assert!(bytes > 0 && end <= MEMORY_BYTES as u64, "a segment from {address:?}, {bytes} bytes");
                }
                let parts = chain.parts();
                let request = translate(u64::from(head), &parts, true);
                if let Ok(Request::Io(request)) = request {
                    assert!(request.length_bytes <= 1 << 30, "{} bytes", request.length_bytes);
                    assert_eq!(request.offset_bytes % 512, 0);
                }
                seen = seen.and_message(&format!("{request:?}"), "").and_count(chain.in_segments().len());
            }
        }
    }
    seen
}

fn corpus() -> Vec<Vec<u8>> {
    let mut memory = vec![0; MEMORY_BYTES];
    let mut put = |at: usize, address: u64, bytes: u32, flags: u16, next: u16| {
        memory[at..at + 8].copy_from_slice(&address.to_le_bytes());
        memory[at + 8..at + 12].copy_from_slice(&bytes.to_le_bytes());
        memory[at + 12..at + 14].copy_from_slice(&flags.to_le_bytes());
        memory[at + 14..at + 16].copy_from_slice(&next.to_le_bytes());
    };
    put(0, 0x400, 16, 1, 1);
    put(16, 0x600, 512, 3, 2);
    put(32, 0x500, 1, 2, 0);
    put(48, 0x300, 48, 4, 0);
    put(0x300, 0x400, 16, 1, 1);
    put(0x310, 0x600, 16, 1, 2);
    put(0x320, 0x500, 1, 2, 0);
    let mut discard = memory.clone();
    discard[0x400] = 11;
    vec![memory, discard]
}
