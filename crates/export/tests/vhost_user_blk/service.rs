//! vhost-user-blk with a guest in this process. Source: virtio 1.2 (5.2);
//! docs/specifications/engine.md, section 7.

use std::time::Duration;

use super::guest::*;
use hoistway_engine::counters::Counted;
use hoistway_engine::protocol::Command;
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;

#[test]
fn data_comes_back_as_it_was_written() {
    let disk = Disk::new("memory:64MiB");
    let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let space = front_end.space(60);
    assert_eq!(space[..8], (64_u64 << 11).to_le_bytes());
    assert_eq!(space[32], 1, "a write-back cache, or guests would never flush");
    let ring = &mut rings[0];
    let text: Vec<u8> = (0_u32..2_048).flat_map(u32::to_le_bytes).collect();
    assert_eq!(ring.request(&memory, WRITE_REQUEST, 8, &text, 0), (0, 1));
    assert_eq!(ring.request(&memory, FLUSH_REQUEST, 0, &[], 0), (0, 1));
    memory.put(ring.data(0), &vec![0; text.len()]);
    assert_eq!(ring.request(&memory, READ_REQUEST, 8, &[], 8_192), (0, 8_193));
    assert_eq!(memory.bytes(ring.data(0), 8_192), text);
    assert_eq!(ring.request(&memory, DISCARD_REQUEST, 0, &range(8, 8, 0), 0), (0, 1));
    assert_eq!(ring.request(&memory, ZEROES_REQUEST, 0, &range(16, 8, 1), 0), (0, 1));
    assert_eq!(ring.request(&memory, READ_REQUEST, 16, &[], 4_096), (0, 4_097));
    assert_eq!(memory.bytes(ring.data(0), 4_096), vec![0; 4_096]);
    assert_eq!(ring.request(&memory, IDENTIFY_REQUEST, 0, &[], 20), (0, 21));
    assert_eq!(&memory.bytes(ring.data(0), 5), b"disk\0");
    assert_eq!(ring.request(&memory, READ_REQUEST, 64 << 11, &[], 512), (1, 1), "behind the end");
    assert_eq!(ring.request(&memory, 99, 0, &[], 512), (2, 1), "an unknown request");
    assert!(ring.call.read().is_ok(), "the guest was signalled");
    assert_eq!(disk.said(), Vec::<String>::new());
}

#[test]
fn a_request_may_be_larger_than_any_slot_of_the_arena() {
    let disk = Disk::new("memory:64MiB");
    let (_front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let ring = &mut rings[0];
    let text: Vec<u8> = (0_u32..1 << 20).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    // 4 MiB in unequal segments, through an indirect table.
    memory.put(DATA, &text);
    let table = HEADERS + 0x8_000;
    let lengths = [512_u32, 1 << 20, 3_584, (2 << 20) + 4_096, (1 << 20) - 8_192];
    for (kind, flags) in [(WRITE_REQUEST, NEXT), (READ_REQUEST, NEXT | WRITE)] {
        let header = ring.header(0);
        memory.put(header, &kind.to_le_bytes());
        memory.put(header + 8, &100_u64.to_le_bytes());
        memory.put(table, &descriptor(header, 16, NEXT, 1));
        let mut address = DATA;
        for (at, bytes) in (1_u16..).zip(lengths) {
            memory.put(table + 16 * u64::from(at), &descriptor(address, bytes, flags, at + 1));
            address += u64::from(bytes);
        }
        memory.put(table + 16 * 6, &descriptor(header + 16, 1, WRITE, 0));
        ring.describe(&memory, 0, table, 16 * 7, INDIRECT, 0);
        ring.offer(&memory, 0);
        let written = if kind == READ_REQUEST { 4 << 20 } else { 0 };
        assert_eq!(ring.wait(&memory), (0, written + 1));
        assert_eq!(ring.status(&memory, 0), 0);
        if kind == WRITE_REQUEST {
            memory.put(DATA, &vec![0; text.len()]);
        }
    }
    assert!(memory.bytes(DATA, text.len()) == text, "the data differs");
}

#[test]
fn data_is_right_whether_the_guests_memory_is_aligned_or_not() {
    // In the build directory, where the file system usually supports O_DIRECT, so that only aligned
    // memory is used directly.
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    file.as_file().set_len(16 << 20).expect("its length");
    let disk = Disk::new(&file.path().display().to_string());
    let (_front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let ring = &mut rings[0];
    let text: Vec<u8> = (0_u32..8_192).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for (sector, misalignment) in [(0, 0), (64, 100), (128, 512), (192, 4_095)] {
        let from = DATA + misalignment;
        memory.put(from, &text);
        for (kind, flags) in [(WRITE_REQUEST, NEXT), (READ_REQUEST, NEXT | WRITE)] {
            let header = ring.header(0);
            memory.put(header, &kind.to_le_bytes());
            memory.put(header + 8, &u64::to_le_bytes(sector));
            ring.describe(&memory, 0, header, 16, NEXT, 1);
            ring.describe(&memory, 1, from, 8_192, flags, 2);
            ring.describe(&memory, 2, from + 8_192, 24_576, flags, 3);
            ring.describe(&memory, 3, header + 16, 1, WRITE, 0);
            ring.offer(&memory, 0);
            ring.wait(&memory);
            assert_eq!(ring.status(&memory, 0), 0);
            if kind == WRITE_REQUEST {
                memory.put(from, &vec![0; text.len()]);
            }
        }
        assert!(memory.bytes(from, text.len()) == text, "the data differs at {misalignment}");
    }
    let stored = std::fs::read(file.path()).expect("the file");
    for sector in [0, 64, 128, 192] {
        assert!(stored[sector * 512..][..text.len()] == text, "the file differs at {sector}");
    }
}

#[test]
fn several_rings_work_at_once() {
    let disk = Disk::new("memory:64MiB");
    let (_front_end, memory, mut rings) = guest(&disk, 4, BASIC);
    for round in 0_u64..20 {
        for ring in &mut rings {
            for at in 0..16 {
                let sector = (u64::from(ring.index) * 16 + u64::from(at)) * 8;
                let text = vec![u8::try_from((sector + round) % 251).expect("small"); 4_096];
                ring.write_request(&memory, at * 4, WRITE_REQUEST, sector, &text, 0);
                ring.offer(&memory, at * 4);
            }
        }
        for ring in &mut rings {
            for _ in 0..16 {
                let (head, _) = ring.wait(&memory);
                assert_eq!(ring.status(&memory, u16::try_from(head).expect("a head")), 0);
            }
        }
    }
    let ring = &mut rings[0];
    assert_eq!(ring.request(&memory, READ_REQUEST, 63 * 8, &[], 4_096).0, 0);
    assert_eq!(memory.bytes(ring.data(0), 4_096), vec![u8::try_from((63 * 8 + 19) % 251).expect("small"); 4_096]);
}

/// The threads share the rings, and what one ring was answered every other ring sees.
#[test]
fn rings_of_one_disk_are_served_by_several_threads() {
    let disk = Disk::new("memory:64MiB");
    let (front_end, memory, mut rings) = guest(&disk, 4, BASIC);
    let parallel = disk.shard.parallel_queues();
    let status = disk.shard.status().expect("a status");
    assert_eq!((status.threads, status.connections.len()), (parallel.min(4), parallel.min(4)));
    for round in 0..64_u8 {
        let (writer, reader) = (usize::from(round) % 4, usize::from(round / 4) % 4);
        let sector = u64::from(round % 7) * 8;
        assert_eq!(rings[writer].request(&memory, WRITE_REQUEST, sector, &[round; 4_096], 0).0, 0);
        assert_eq!(rings[reader].request(&memory, READ_REQUEST, sector, &[], 4_096).0, 0);
        assert_eq!(memory.bytes(rings[reader].data(0), 4_096), [round; 4_096], "round {round}");
    }
    let status = disk.shard.status().expect("a status");
    let writes = status.connections.iter().map(|it| it.sums.of(Counted::Write).requests).collect::<Vec<_>>();
    assert_eq!(writes.iter().sum::<u64>(), 64);
    assert!(writes.iter().all(|writes| *writes > 0), "a thread got nothing: {writes:?}");
    drop(front_end);
    // Another front end is served only when every device of the last one has gone.
    let (_front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    assert_eq!(rings[0].request(&memory, READ_REQUEST, 0, &[], 4_096).0, 0);
    assert_eq!(disk.shard.status().expect("a status").connections.len(), 1);
}

#[test]
fn the_guest_is_signalled_at_the_index_that_it_names() {
    let disk = Disk::new("memory:64MiB");
    let (_front_end, memory, mut rings) = guest(&disk, 1, BASIC | EVENT_INDEX);
    let ring = &mut rings[0];
    // used_event, behind the available ring: signal after the third.
    memory.put(ring.available_ring() + 4 + 2 * u64::from(SIZE), &2_u16.to_le_bytes());
    for count in 1..=3 {
        assert_eq!(ring.request(&memory, FLUSH_REQUEST, 0, &[], 0), (0, 1));
        if count == 3 {
            within("the signal", || ring.call.read().is_ok());
        } else {
            std::thread::sleep(Duration::from_millis(20));
            assert!(ring.call.read().is_err(), "after {count}");
        }
    }
}

#[test]
fn a_read_only_disk_refuses_writes() {
    let disk = Disk::with("memory:64MiB", true);
    let (front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    assert_eq!(front_end.offered >> 5 & 1, 1, "VIRTIO_BLK_F_RO");
    assert_eq!(rings[0].request(&memory, WRITE_REQUEST, 0, &[1; 512], 0).0, 1);
    assert_eq!(rings[0].request(&memory, READ_REQUEST, 0, &[], 512).0, 0);
}

#[test]
fn a_stopped_ring_goes_on_where_it_stopped() {
    let disk = Disk::new("memory:64MiB");
    let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let mut base = 0;
    for _ in 0..5 {
        for _ in 0..10 {
            assert_eq!(rings[0].request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
        }
        base = front_end.messages.get_vring_base(0).expect("a base");
        // The kick is lost, because the server does not poll it now.
        rings[0].write_request(&memory, 0, FLUSH_REQUEST, 0, &[], 0);
        rings[0].offer(&memory, 0);
        assert!(rings[0].take_back(&memory).is_none());
        front_end.start(&rings[0], u16::try_from(base).expect("an index")).expect("a ring");
        assert_eq!(rings[0].wait(&memory).0, 0);
    }
    assert_eq!(base, 54);
}

#[test]
fn the_guest_turns_its_cache_off_and_on() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(16 << 20).expect("its length");
    let disk = Disk::new(&file.path().display().to_string());
    let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    front_end.set_writeback(false);
    assert_eq!(front_end.space(60)[32], 0);
    assert_eq!(rings[0].request(&memory, WRITE_REQUEST, 0, &[7; 4_096], 0).0, 0);
    drop(front_end);
    let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let record = front_end.record(1);
    front_end.set_writeback(false);
    drop(front_end);
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    assert_eq!(front_end.space(60)[32], 1);
    front_end.set_record(&record);
    assert_eq!(front_end.space(60)[32], 0, "the mode outlives the connection");
    front_end.set_writeback(true);
    front_end.share(&memory).expect("memory");
    (rings[0].available, rings[0].used) = (0, 0);
    front_end.start(&rings[0], 0).expect("a ring");
    assert_eq!(rings[0].request(&memory, WRITE_REQUEST, 8, &[8; 4_096], 0).0, 0);
    assert_eq!(std::fs::read(file.path()).expect("the file")[4_095..4_097], [7, 8]);
}

#[test]
fn a_new_front_end_repeats_what_was_in_flight_when_the_server_ended() {
    let disk = Disk::new("memory:64MiB");
    let memory = Memory::new();
    let mut ring = Driver::new(0);
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    let record = front_end.record(1);
    front_end.share(&memory).expect("memory");
    front_end.start(&ring, 0).expect("a ring");
    for _ in 0..3 {
        assert_eq!(ring.request(&memory, WRITE_REQUEST, 0, &[1; 512], 0).0, 0);
    }
    // The record that a killed server leaves: two requests taken (head 8 before head 4),
    // none given back.
    for (head, counter, text) in [(8_u16, 4_u64, 2_u8), (4, 5, 3)] {
        ring.write_request(&memory, head, WRITE_REQUEST, u64::from(head), &[text; 512], 0);
        ring.offer_silently(&memory, head);
        let entry = 16 + 16 * u64::from(head);
        use std::os::unix::fs::FileExt;
        record.1.write_all_at(&counter.to_le_bytes(), entry + 8).expect("inside");
        record.1.write_all_at(&[1], entry).expect("inside");
    }
    drop(front_end);
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    front_end.set_record(&record);
    front_end.share(&memory).expect("memory");
    // The front end knows only the used ring's index.
    front_end.start(&ring, 3).expect("a ring");
    let mut back = [ring.wait(&memory).0, ring.wait(&memory).0];
    back.sort_unstable();
    assert_eq!(back, [4, 8]);
    assert_eq!((ring.status(&memory, 4), ring.status(&memory, 8)), (0, 0));
    assert_eq!(ring.request(&memory, READ_REQUEST, 8, &[], 512).0, 0);
    assert_eq!(memory.bytes(ring.data(0), 512), [2; 512]);
    std::thread::sleep(Duration::from_millis(20));
    assert!(ring.take_back(&memory).is_none(), "nothing twice");
}

#[test]
fn a_front_end_may_go_and_come_back_with_requests_in_flight() {
    let disk = Disk::new("model:ssd,memory:64MiB");
    let memory = Memory::new();
    let mut ring = Driver::new(0);
    let mut record = None;
    for round in 0..30_u16 {
        let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
        match &record {
            None => record = Some(front_end.record(1)),
            Some(record) => front_end.set_record(record),
        }
        front_end.share(&memory).expect("memory");
        front_end.start(&ring, ring.used).expect("a ring");
        // Chains that were in flight when the last connection ended are served first.
        while ring.used != ring.available {
            let head = u16::try_from(ring.wait(&memory).0).expect("a head");
            assert_eq!(ring.status(&memory, head), 0, "round {round}");
        }
        for at in 0..16 {
            let text = [u8::try_from(round).expect("small"); 4_096];
            ring.write_request(&memory, at * 4, WRITE_REQUEST, u64::from(at) * 8, &text, 0);
            ring.offer(&memory, at * 4);
        }
    }
    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    front_end.set_record(&record.expect("a record"));
    front_end.share(&memory).expect("memory");
    front_end.start(&ring, ring.used).expect("a ring");
    while ring.used != ring.available {
        ring.wait(&memory);
    }
    for at in 0..16 {
        assert_eq!(ring.request(&memory, READ_REQUEST, at * 8, &[], 4_096).0, 0);
        assert_eq!(memory.bytes(ring.data(0), 4_096), [29; 4_096], "block {at}");
    }
}

#[test]
fn guests_come_and_go_while_shares_and_schedulers_change() {
    let disk = Disk::new("model:ssd,memory:64MiB");
    let group = disk.shard.add_group("other", 100).expect("a group");
    let other = disk.shard.client(disk.shard.volumes()[0], group).expect("a client");
    let used_before = disk.shard.status().expect("a status").memory_bytes.0;
    let memory = Memory::new();
    for (round, scheduler) in (1..).zip(["wfq", "paternoster", "cfq", "bfq", "noop", "paternoster", "kyber", "mqfq"]) {
        let mut front_end = FrontEnd::connect(&disk.path(), BASIC | EVENT_INDEX);
        front_end.share(&memory).expect("memory");
        let mut rings: Vec<Driver> = (0..3).map(Driver::new).collect();
        for ring in &rings {
            memory.put(ring.available_ring(), &[0; 4]);
            memory.put(ring.used_ring(), &[0; 4]);
            front_end.start(ring, 0).expect("a ring");
        }
        let mut tickets = Vec::new();
        for turn in 0..4_u8 {
            for ring in &mut rings {
                for at in 0..16 {
                    // Every ring has a range of its own, behind the other client's.
                    let sector = (u64::from(ring.index + 1) * 16 + u64::from(at)) * 8;
                    ring.write_request(&memory, at * 4, WRITE_REQUEST, sector, &[round + turn; 4_096], 0);
                    ring.offer(&memory, at * 4);
                }
            }
            let (offset_bytes, text) = (u64::from(turn) * 4_096, vec![round; 4_096]);
            tickets.push(other.submit(Command::Write, offset_bytes, 4_096, true, text));
            if turn == 1 {
                disk.shard.switch_scheduler(&scheduler.parse().expect("a name")).expect("switched");
                disk.shard.set_weight(group, u32::from(round) * 10).expect("a weight");
            }
            // After the last turn the guest goes away with requests in flight.
            if turn < 3 {
                for ring in &mut rings {
                    for _ in 0..16 {
                        let head = u16::try_from(ring.wait(&memory).0).expect("a head");
                        assert_eq!(ring.status(&memory, head), 0, "round {round}, {scheduler}");
                    }
                }
            }
        }
        drop(front_end);
        tickets.into_iter().for_each(|ticket| drop(ticket.wait().expect("the other client is served")));
    }
    let status = disk.shard.status().expect("a status");
    assert_eq!(status.violations, 0);
    let (_front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    let status = disk.shard.status().expect("a status");
    assert_eq!((status.requests_in_flight, status.memory_bytes.0), (0, used_before), "everything was given back");
    assert_eq!(rings[0].request(&memory, READ_REQUEST, 16 * 8, &[], 4_096).0, 0);
    let text = memory.bytes(rings[0].data(0), 4_096);
    assert!(text == vec![text[0]; 4_096] && (10..=11).contains(&text[0]), "{}", text[0]);
    assert_eq!(disk.said(), Vec::<String>::new());
}

#[test]
fn what_a_front_end_lacks_is_said_once_with_the_remedy() {
    let disk = Disk::new("memory:64MiB");
    let last = |disk: &Disk| disk.said().pop().unwrap_or_default();

    let front_end = FrontEnd::connect(&disk.path(), BASIC);
    assert!(front_end.messages.set_features(PROTOCOL).is_err());
    assert!(
        last(&disk).contains("older than virtio 1.0") && last(&disk).contains("disable-legacy=on"),
        "{}",
        last(&disk)
    );

    let mut front_end = FrontEnd::connect(&disk.path(), BASIC);
    assert!(front_end.start(&Driver::new(0), 0).is_err());
    assert!(last(&disk).contains("memory-backend-memfd,share=on"), "{}", last(&disk));

    let front_end = FrontEnd::connect(&disk.path(), BASIC);
    assert!(front_end.messages.set_features(BASIC | 1 << 26).is_err());
    assert!(last(&disk).contains("not offered"), "{}", last(&disk));

    let front_end = FrontEnd::connect(&disk.path(), BASIC);
    assert!(front_end.messages.set_vring_num(0, 2_048).is_err());
    assert!(last(&disk).contains("queue-size=1024"), "{}", last(&disk));
    assert_eq!(disk.said().len(), 4, "{:?}", disk.said());

    let (mut front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    assert_eq!(rings[0].request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0, "the next one is served");
    front_end.messages.set_vring_enable(0, false).expect("disabled");
}

#[test]
fn the_end_of_the_service_ends_its_threads_and_leaves_the_volume_free() {
    let mut disk = Disk::new("memory:64MiB");
    let (front_end, memory, mut rings) = guest(&disk, 1, BASIC);
    assert_eq!(rings[0].request(&memory, FLUSH_REQUEST, 0, &[], 0).0, 0);
    let volume = disk.shard.volumes()[0];
    assert_eq!(disk.shard.close_volume(volume), Ok(false), "it is in use");
    disk.listener = None;
    assert_eq!(disk.shard.close_volume(volume), Ok(true));
    assert!(front_end.messages.get_features().is_err(), "the connection was closed");
}
