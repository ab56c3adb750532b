//! A front end that passes descriptors which are not what it says, or that changes behind the server's
//! back what they name: memory that is too short or becomes so, and events that block. The server must
//! not get SIGBUS, must not wait, and must go on serving.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use super::guest::*;
use super::hostile::serves;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vhost::vhost_user::VhostUserFrontend;
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserInflight};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vmm_sys_util::eventfd::EventFd;

const PAGE: u64 = 4_096;

fn memory_file(bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memory file"));
    file.set_len(bytes).expect("its length");
    file
}

fn region(guest: u64, bytes: u64, offset: u64, file: RawFd) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: guest,
        memory_size: bytes,
        userspace_addr: FRONT_END.wrapping_add(guest),
        mmap_offset: offset,
        mmap_handle: file,
    }
}

/// What the server says of a front end's memory table, which it must refuse.
fn refusal(disk: &Disk, table: &[VhostUserMemoryRegionInfo]) -> String {
    let said = disk.said().len();
    let front_end = FrontEnd::connect(&disk.path(), BASIC);
    assert!(front_end.messages.set_mem_table(table).is_err(), "it was taken");
    within("a reason", || disk.said().len() > said);
    disk.said().pop().expect("said")
}

#[test]
fn memory_that_is_not_what_the_table_says_is_refused() {
    let disk = Disk::new("memory:64MiB");
    let file = memory_file(PAGE);
    let handle = file.as_raw_fd();
    let expect = |table: &[VhostUserMemoryRegionInfo], reason: &str| {
        let said = refusal(&disk, table);
        assert!(said.contains(reason), "{reason}: {said}");
    };
    let short = "in a file of 4096 bytes";
    expect(&[region(0, 1 << 20, 0, handle)], short);
    expect(&[region(0, PAGE, PAGE, handle)], short);
    expect(&[region(0, PAGE, u64::MAX - PAGE + 1, handle)], "invalid message");
    expect(&[region(0, PAGE, (1 << 63) + PAGE, handle)], short);
    expect(&[region(0, PAGE + 1, 0, handle)], short);
    expect(&[region(0, PAGE / 2, 512, handle)], "cannot be mapped");
    expect(&[region(0, u64::MAX, 0, handle)], "invalid message");
    expect(&[region(0, 1 << 45, 0, handle)], "TiB");
    expect(&[region(0, PAGE, 0, handle), region(0, PAGE, 0, handle)], "fit together");
    expect(&[region(u64::MAX - 100, PAGE, 0, handle)], "invalid message");
    let far = VhostUserMemoryRegionInfo { userspace_addr: u64::MAX - 100, ..region(0, PAGE, 0, handle) };
    expect(&[far], "invalid message");
    // The protocol has no room for more than 32, and one message for no more than its sender has.
    let many = memory_file(64 * PAGE);
    let table: Vec<_> = (0..33).map(|at| region(at * PAGE, PAGE, at * PAGE, many.as_raw_fd())).collect();
    assert!(FrontEnd::connect(&disk.path(), BASIC).messages.set_mem_table(&table).is_err());
    // A page of a file elsewhere may have to be waited for.
    let disk_file = std::env::current_exe().and_then(File::open).expect("this program");
    let (socket, _other) = UnixStream::pair().expect("sockets");
    let event = EventFd::new(0).expect("an event");
    let directory = File::open("/").expect("a directory");
    let zero = File::options().read(true).write(true).open("/dev/zero").expect("a device");
    for other in [disk_file.as_raw_fd(), socket.as_raw_fd(), event.as_raw_fd(), directory.as_raw_fd(), zero.as_raw_fd()]
    {
        expect(&[region(0, PAGE, 0, other)], "not in a memory file");
    }
    serves(&disk);
}

#[test]
fn a_record_of_requests_in_flight_that_is_too_short_is_refused() {
    let disk = Disk::new("memory:64MiB");
    for (bytes, says, offset, rings, reason) in [
        (0, 1 << 20, 0, 1, "in a file of 0 bytes"),
        (PAGE, 1 << 20, PAGE, 1, "in a file of 4096 bytes"),
        (PAGE, 1 << 20, u64::MAX - PAGE + 1, 1, "in a file of 4096 bytes"),
        (PAGE, 100, 0, 1, "has 100 bytes"),
        (1 << 20, u64::MAX, 0, 65_535, "65535 rings"),
    ] {
        let said = disk.said().len();
        let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
        let record = VhostUserInflight::new(says, offset, rings, SIZE);
        let answer = front_end.messages.set_inflight_fd(&record, memory_file(bytes).as_raw_fd());
        assert!(answer.is_err(), "{reason}");
        within("a reason", || disk.said().len() > said);
        assert!(disk.said()[said].contains(reason), "{:?}", disk.said());
    }
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    let wanted = VhostUserInflight::new(0, 0, u16::MAX, u16::MAX);
    assert!(front_end.messages.get_inflight_fd(&wanted).is_err(), "64 GiB of records");
    serves(&disk);
}

/// Waits until the server has said that the memory of a ring is gone.
fn is_told_of_loss(disk: &Disk) {
    within("a reason", || !disk.said().is_empty());
    assert!(disk.said()[0].contains("has taken its shared memory away"), "{:?}", disk.said());
}

/// The front end shares other memory, and its rings start again.
fn goes_on(front_end: &mut FrontEnd) {
    let (memory, mut ring) = (Memory::new(), Driver::new(0));
    front_end.messages.get_vring_base(0).expect("the ring stops");
    front_end.share(&memory).expect("other memory");
    front_end.start(&ring, 0).expect("the ring starts");
    assert_eq!(ring.request(&memory, WRITE_REQUEST, 0, &[3; 512], 0).0, 0);
}

#[test]
fn memory_that_becomes_shorter_under_a_ring_breaks_the_ring_only() {
    let disk = Disk::new("memory:64MiB");
    let (mut front_end, memory, mut rings) = guest(&disk, 2, BASIC);
    assert_eq!(rings[1].request(&memory, WRITE_REQUEST, 0, &[1; 512], 0).0, 0);
    memory.0.set_len(0).expect("truncated");
    rings[0].kick.write(1).expect("a kick");
    is_told_of_loss(&disk);
    goes_on(&mut front_end);
    drop(front_end);
    serves(&disk);
}

/// The rings stay, the data of a request goes: for reads and writes, of a backing that is copied to and
/// from and of one that uses the guest's memory directly.
#[test]
fn memory_that_becomes_shorter_under_a_request_fails_it() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(64 << 20).expect("its length");
    let direct = file.path().display().to_string();
    for (backing, sector) in [("memory:64MiB", 0), ("memory:64MiB", 1), (direct.as_str(), 0), (direct.as_str(), 8)] {
        for kind in [READ_REQUEST, WRITE_REQUEST] {
            let disk = Disk::new(backing);
            let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
            let ring = &mut rings[0];
            memory.0.set_len(DATA).expect("truncated behind rings and headers");
            memory.put(ring.header(0), &kind.to_le_bytes());
            memory.put(ring.header(0) + 8, &u64::to_le_bytes(sector));
            memory.put(ring.header(0) + 16, &[0xff]);
            let flags = if kind == READ_REQUEST { NEXT | WRITE } else { NEXT };
            ring.describe(&memory, 0, ring.header(0), 16, NEXT, 1);
            // Not aligned, so that it is copied, in the odd cases.
            let odd = if sector == 1 { 3 } else { 0 };
            ring.describe(&memory, 1, ring.data(0) + odd, 32 << 10, flags, 2);
            ring.describe(&memory, 2, ring.header(0) + 16, 1, WRITE, 0);
            ring.offer(&memory, 0);
            // Either the request fails, where the system has refused the access, or the ring is broken.
            within("an answer or a message", || ring.take_back(&memory).is_some() || !disk.said().is_empty());
            assert_ne!(ring.status(&memory, 0), 0, "{backing} {kind}");
            goes_on(&mut front_end);
            drop(front_end);
            serves(&disk);
        }
    }
}

#[test]
fn a_record_that_becomes_shorter_breaks_the_ring() {
    let disk = Disk::new("memory:64MiB");
    let (memory, mut ring) = (Memory::new(), Driver::new(0));
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    front_end.share(&memory).expect("memory");
    let (record, sealed) = front_end.record(1);
    assert!(sealed.set_len(0).is_err(), "the server's own record is sealed");
    let file = memory_file(record.mmap_size);
    let record = (record, file.try_clone().expect("clone"));
    front_end.set_record(&record);
    front_end.start(&ring, 0).expect("a ring");
    assert_eq!(ring.request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
    file.set_len(0).expect("truncated");
    ring.write_request(&memory, 0, FLUSH_REQUEST, 0, &[], 0);
    ring.offer(&memory, 0);
    is_told_of_loss(&disk);
    drop(front_end);
    serves(&disk);
}

/// Memory is cut off and given back at any moment, while 100 thousand requests run over it.
#[test]
fn memory_that_comes_and_goes_under_load() {
    let disk = Disk::new("memory:64MiB");
    for round in 0..40_u64 {
        let (front_end, memory, mut rings) = guest(&disk, 4, BASIC);
        std::thread::scope(|scope| {
            let memory = &memory;
            let cut = scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(round * 50));
                for at in [DATA + 0x1000, HEADERS + 100, 0x1_0000, 0] {
                    memory.0.set_len(at).expect("shorter");
                    memory.0.set_len(MEMORY_BYTES).expect("longer");
                }
                memory.0.set_len(round % 3 * DATA).expect("shorter");
            });
            // A write through the file makes it longer again, so offers race with the cuts.
            while !cut.is_finished() {
                for ring in &mut rings {
                    ring.write_request(
                        memory,
                        0,
                        if round % 2 == 0 { READ_REQUEST } else { WRITE_REQUEST },
                        0,
                        &[7; 4_096],
                        0,
                    );
                    ring.offer(memory, 0);
                }
            }
        });
        drop(front_end);
    }
    serves(&disk);
}

#[test]
fn events_that_are_none_are_refused() {
    let disk = Disk::new("memory:64MiB");
    let file: OwnedFd = memory_file(PAGE).into();
    let (socket, closed) = UnixStream::pair().expect("sockets");
    drop(closed);
    let directory: OwnedFd = File::open("/").expect("a directory").into();
    let device: OwnedFd = File::options().write(true).open("/dev/null").expect("a device").into();
    for other in [file, socket.into(), directory, device] {
        // SET_VRING_KICK, _CALL and _ERR.
        for request in 12_u32..15 {
            let said = disk.said().len();
            let mut stream = UnixStream::connect(disk.path()).expect("the server listens");
            // Version 1, 8 bytes follow: the number of the ring.
            let message = [request.to_le_bytes(), 1_u32.to_le_bytes(), 8_u32.to_le_bytes(), [0; 4], [0; 4]].concat();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [other.as_fd()];
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
            sendmsg(&stream, &[IoSlice::new(&message)], &mut control, SendFlags::empty()).expect("sent");
            stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
            assert_eq!(stream.read(&mut [0; 64]).expect("the connection ends"), 0, "message {request}");
            within("a reason", || disk.said().len() > said);
            assert!(disk.said()[said].contains("something else than eventfds"), "{:?}", disk.said());
        }
    }
    serves(&disk);
}

/// A descriptor of this process, made from its number without unsafe code.
fn duplicate(raw: RawFd) -> OwnedFd {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let own = pidfd_open(getpid(), PidfdFlags::empty()).expect("this process");
    pidfd_getfd(own, raw, PidfdGetfdFlags::empty()).expect("a descriptor")
}

/// The front end makes its events blocking again and fills their counters, so that a write would wait.
#[test]
fn events_that_block_do_not_stop_the_devices_thread() {
    let disk = Disk::new("memory:64MiB");
    let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let ring = &mut rings[0];
    let error = EventFd::new(0).expect("an event");
    front_end.messages.set_vring_err(0, &error).expect("an event");
    front_end.messages.get_vring_base(0).expect("the ring stops");
    front_end.start(ring, 0).expect("the ring starts");
    let _ = ring.call.read();
    for event in [&ring.call, &error, &ring.kick] {
        let event = duplicate(event.as_raw_fd());
        let flags = rustix::fs::fcntl_getfl(&event).expect("flags");
        rustix::fs::fcntl_setfl(&event, flags - OFlags::NONBLOCK).expect("blocking");
    }
    ring.call.write(u64::MAX - 1).expect("full");
    error.write(u64::MAX - 1).expect("full");
    for _ in 0..100 {
        assert_eq!(ring.request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
    }
    // The ring is broken, which its error event would tell.
    memory.put(ring.available_ring() + 2, &(ring.available + 1_000).to_le_bytes());
    ring.kick.write(1).expect("a kick");
    within("a reason", || !disk.said().is_empty());
    let (answer, answered) = mpsc::channel();
    let shard = disk.shard.clone();
    std::thread::spawn(move || answer.send(shard.status().is_ok()));
    assert_eq!(answered.recv_timeout(PATIENCE), Ok(true), "the device's thread waits");
    drop(front_end);
    serves(&disk);
}

/// Messages that hold descriptors come faster than the device takes them.
#[test]
fn a_flood_of_messages_does_not_use_up_the_descriptors() {
    let disk = Disk::new("memory:64MiB");
    let (front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    front_end.messages.set_hdr_flags(VhostUserHeaderFlag::empty());
    let open = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let (before, mut most) = (open(), 0);
    for round in 0..20_000 {
        front_end.messages.set_vring_call(0, &rings[0].call).expect("a call");
        if round % 50 == 0 {
            most = most.max(open());
        }
    }
    assert!(most < before + 700, "{before} descriptors, then {most}");
    assert_eq!(rings[0].request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
}
