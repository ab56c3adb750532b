//! A hostile guest in this process: malformed chains by the hundred thousand, in memory that changes
//! while the server reads it, and messages in the wrong order. The server must not panic, must not touch
//! memory that was not shared, and must go on serving.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::guest::*;
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::VhostUserHeaderFlag;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const CHAINS: u64 = 100_000;
const RINGS: u16 = 64;
/// Only this much of the memory file is shared.
const SHARED_BYTES: u64 = 12 << 20;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("short")]
    }

    /// A descriptor whose range never includes the rings themselves: if requests' data overwrote
    /// the rings, the test would not find more faults.
    fn descriptor(&mut self, at: u16) -> [u8; 16] {
        let inside = HEADERS + self.below(SHARED_BYTES - HEADERS);
        let address = self.one(&[inside, inside, inside, inside & !511, SHARED_BYTES - 8, SHARED_BYTES, u64::MAX - 7]);
        let bytes = self.one(&[1, 16, 16, 17, 512, 512, 513, 4_096, 0, 32, 48, 1 << 20, u32::MAX, 20]);
        let flags = self.one(&[
            NEXT,
            NEXT,
            NEXT,
            NEXT | WRITE,
            NEXT | WRITE,
            WRITE,
            WRITE,
            0,
            INDIRECT,
            INDIRECT | NEXT,
            0xffff,
        ]);
        let next = self.one(&[at + 1, at + 1, at + 1, at + 1, at, 0, SIZE - 1, SIZE, 0xffff]);
        descriptor(address, bytes, flags, next)
    }

    /// A chain that is well formed but for one thing, or random throughout. Returns its head.
    fn chain(&mut self, ring: &Driver, memory: &Memory) -> u16 {
        let start = u16::try_from(self.below(u64::from(SIZE) - 8)).expect("small");
        let kind = self.one(&[
            READ_REQUEST,
            WRITE_REQUEST,
            FLUSH_REQUEST,
            DISCARD_REQUEST,
            ZEROES_REQUEST,
            IDENTIFY_REQUEST,
            77,
        ]);
        let sector = self.one(&[0, 8, (64 << 11) - 1, 64 << 11, u64::MAX, 1 << 55]);
        let header = HEADERS + self.below(1 << 20);
        memory.put(header, &kind.to_le_bytes());
        memory.put(header + 8, &sector.to_le_bytes());
        if self.below(3) > 0 {
            let data = HEADERS + self.below(SHARED_BYTES - HEADERS - 8_192);
            let flags = self.one(&[NEXT, NEXT | WRITE]);
            let bytes = self.one(&[16, 20, 512, 4_096, 513]);
            ring.describe(memory, start, header, 16, NEXT, start + 1);
            ring.describe(memory, start + 1, data, bytes, flags, start + 2);
            ring.describe(memory, start + 2, header + 16, 1, WRITE, 0);
            let broken = start + u16::try_from(self.below(4)).expect("small");
            memory.put(ring.table() + 16 * u64::from(broken), &self.descriptor(broken));
        } else {
            for at in start..start + 8 {
                memory.put(ring.table() + 16 * u64::from(at), &self.descriptor(at));
                memory.put(HEADERS + self.below((1 << 20) - 1) * 8, &self.descriptor(at));
            }
        }
        self.one(&[start, start, start, start, start, start, start, SIZE, 0xffff])
    }
}

/// A ring and the event that the server signals when it is broken.
struct HostileRing {
    driver: Driver,
    error: EventFd,
}

impl HostileRing {
    fn restart(&mut self, front_end: &mut FrontEnd, memory: &Memory) {
        let driver = &mut self.driver;
        let index = usize::from(driver.index);
        front_end.messages.get_vring_base(index).expect("the ring stops");
        memory.put(driver.available_ring(), &[0; 4]);
        memory.put(driver.used_ring(), &[0; 4]);
        (driver.available, driver.used) = (0, 0);
        let _ = self.error.read();
        front_end.messages.set_vring_err(index, &self.error).expect("an event");
        front_end.start(driver, 0).expect("the ring starts");
    }
}

/// Ends the other thread, also when an assertion fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_hundred_thousand_malformed_chains() {
    let disk = Disk::new("memory:64MiB");
    let memory = Memory::new();
    let canary: Vec<u8> = (0..MEMORY_BYTES - SHARED_BYTES).map(|at| u8::try_from(at % 249).expect("small")).collect();
    memory.put(SHARED_BYTES, &canary);
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    front_end.share_some(&memory, SHARED_BYTES).expect("memory");
    // Rings are started anew ten thousands of times, so their messages are not acknowledged.
    front_end.messages.set_hdr_flags(VhostUserHeaderFlag::empty());
    let event = || EventFd::new(EFD_NONBLOCK).expect("an event");
    let mut rings: Vec<HostileRing> =
        (0..RINGS).map(|index| HostileRing { driver: Driver::new(index), error: event() }).collect();
    rings.iter_mut().for_each(|ring| ring.restart(&mut front_end, &memory));
    let mut random = Random(0x6c62_272e_07bb_0142);
    let (mut answered, mut broken) = (0_u64, 0_u64);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Another processor of the guest changes tables, rings and headers while the server reads them.
        let (memory, stop) = (&memory, &stop);
        let _stopping = StopOnDrop(stop);
        scope.spawn(move || {
            let mut random = Random(77);
            while !stop.load(Ordering::Relaxed) {
                let ring = random.below(u64::from(RINGS)) * 0x1_0000;
                let at = random.below(u64::from(SIZE));
                memory.put(ring + 16 * at, &random.descriptor(u16::try_from(at).expect("small")));
                memory.put(HEADERS + random.below(1 << 20), &random.next().to_le_bytes());
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        while answered + broken < CHAINS {
            for ring in &mut rings {
                let head = random.chain(&ring.driver, memory);
                ring.driver.offer(memory, head);
            }
            for ring in &mut rings {
                let end = Instant::now() + PATIENCE;
                loop {
                    if ring.driver.take_back(memory).is_some() {
                        answered += 1;
                        break;
                    }
                    if ring.error.read().is_ok() {
                        broken += 1;
                        ring.restart(&mut front_end, memory);
                        break;
                    }
                    assert!(Instant::now() < end, "neither an answer nor a refusal, after {answered} and {broken}");
                    std::thread::yield_now();
                }
            }
        }
    });
    assert!(answered > CHAINS / 20 && broken > CHAINS / 20, "{answered} answered, {broken} refused");
    assert!(memory.bytes(SHARED_BYTES, canary.len()) == canary, "memory was changed that was not shared");
    drop(front_end);
    serves(&disk);
}

/// The disk is still there for a guest that behaves.
pub fn serves(disk: &Disk) {
    let (_front_end, memory, mut rings) = guest(disk, 1, BASIC);
    assert_eq!(rings[0].request(&memory, WRITE_REQUEST, 0, &[9; 512], 0).0, 0);
    assert_eq!(rings[0].request(&memory, READ_REQUEST, 0, &[], 512).0, 0);
    assert_eq!(memory.bytes(rings[0].data(0), 512), [9; 512]);
}

#[test]
fn an_available_index_that_jumps_breaks_the_ring_once() {
    let disk = Disk::new("memory:64MiB");
    let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    memory.put(rings[0].available_ring() + 2, &1_000_u16.to_le_bytes());
    rings[0].kick.write(1).expect("a kick");
    within("a reason", || !disk.said().is_empty());
    rings[0].kick.write(1).expect("a kick");
    assert_eq!(front_end.messages.get_vring_base(0).expect("the ring stops"), 0);
    assert_eq!(disk.said().len(), 1, "{:?}", disk.said());
    assert!(disk.said()[0].contains("ring 0 is not served until the guest resets it"), "{:?}", disk.said());
    memory.put(rings[0].available_ring(), &[0; 4]);
    front_end.start(&rings[0], 0).expect("the ring starts");
    assert_eq!(rings[0].request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
}

#[test]
fn a_chain_offered_twice_breaks_the_ring() {
    // A device that takes 50 ms per command, so that the first is in flight when the second comes.
    let disk = Disk::new("model:null,latency_us=50000,memory:64MiB");
    let (front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let ring = &mut rings[0];
    ring.write_request(&memory, 0, WRITE_REQUEST, 0, &[1; 512], 0);
    ring.offer_silently(&memory, 0);
    ring.offer(&memory, 0);
    assert_eq!(ring.wait(&memory).0, 0);
    assert_eq!(front_end.messages.get_vring_base(0).expect("the ring stops"), 2);
    assert!(ring.take_back(&memory).is_none());
    assert!(disk.said()[0].contains("before it was given back"), "{:?}", disk.said());
}

#[test]
fn bytes_that_are_no_messages_end_the_connection_only() {
    let disk = Disk::new("memory:64MiB");
    let mut random = Random(3);
    for length in [1, 12, 13, 20, 100, 4_096, 70_000] {
        let mut stream = UnixStream::connect(disk.path()).expect("the server listens");
        let bytes: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect();
        // The server may close before all of it is written.
        let _ = stream.write_all(&bytes);
    }
    for request in 0..50_u32 {
        let mut stream = UnixStream::connect(disk.path()).expect("the server listens");
        let message = [request.to_le_bytes(), 9_u32.to_le_bytes(), 8_u32.to_le_bytes(), [255; 4], [255; 4]].concat();
        let _ = stream.write_all(&message);
    }
    serves(&disk);
}

#[test]
fn messages_in_the_wrong_order_are_refused() {
    let disk = Disk::new("memory:64MiB");
    let memory = Memory::new();
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    front_end.share(&memory).expect("memory");
    let mut ring = Driver::new(0);
    front_end.messages.set_vring_kick(0, &ring.kick).expect("a kick before the ring is known");
    front_end.messages.set_vring_enable(0, true).expect("enabled before it is known");
    front_end.start(&ring, 0).expect("a ring");
    assert_eq!(ring.request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
    // The kick is replaced while the ring runs.
    ring.kick = EventFd::new(EFD_NONBLOCK).expect("an event");
    front_end.messages.set_vring_kick(0, &ring.kick).expect("another kick");
    assert_eq!(ring.request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
    // The memory goes away while the ring runs.
    let other = Memory::new();
    front_end.share_some(&other, 0x1_000).expect("a page");
    ring.offer(&memory, 0);
    front_end.messages.get_vring_base(0).expect("the ring stops");
    drop(front_end);
    serves(&disk);
}
