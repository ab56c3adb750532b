//! The commands that an array sends to its members, and the completion of every host command.

mod recorder;

use std::collections::BTreeMap;

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation};
use hoistway_device::{Array, ArrayLayout, ArrayParameters, Command, Completion, Device, NEVER, Submit};
use recorder::{Log, Record, Recorder};

/// Chunks of 4 KiB (8 sectors), so that few sectors make many rows.
fn small(change: impl FnOnce(&mut ArrayParameters)) -> ArrayParameters {
    let mut parameters = ArrayParameters { chunk_kib: 4, write_cache_mib: 1, max_sectors: 64, ..Default::default() };
    change(&mut parameters);
    parameters
}

fn array_of(disks: usize, rows: u64, parameters: &ArrayParameters) -> (Array<Recorder>, Log) {
    let (members, log) = Recorder::set(disks, rows * 8, 4);
    (Array::of_members("array", parameters, members), log)
}

fn submit(array: &mut Array<Recorder>, now: Nanos, tag: u32, operation: Operation, extent: Extent) {
    let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
    assert_eq!(array.submit(now, &command), Submit::Accepted);
}

/// Runs until nothing is left to do.
fn drain(array: &mut Array<Recorder>) -> Vec<Completion> {
    let mut completions = Vec::new();
    while array.next_event() != NEVER {
        array.advance(array.next_event(), &mut completions);
    }
    assert!(array.is_idle());
    completions
}

/// Disk, first sector and length of the logged commands of a kind.
fn of_kind(log: &Log, operation: Operation) -> Vec<(usize, u64, u32)> {
    let log = log.borrow();
    let kind = log.iter().filter(|record| record.operation == operation);
    kind.map(|record| (record.disk, record.first_sector, record.sectors)).collect()
}

#[test]
fn t27_left_symmetric_layout() {
    let layout = ArrayLayout::new(12, true, 2_048, 488_282_256);
    for (row, parity, first) in [(0, 11, 0), (1, 10, 11), (11, 0, 1), (12, 11, 0)] {
        assert_eq!(layout.parity_disk(row), Some(parity), "row {row}");
        assert_eq!(layout.data_disk(row, 0), first, "row {row}");
    }
    let mut parities = [0; 12];
    for row in 0..12 {
        parities[layout.parity_disk(row).unwrap()] += 1;
        let mut disks: Vec<_> = (0..11).map(|chunk| layout.locate((row * 11 + chunk) * 2_048).0).collect();
        disks.push(layout.parity_disk(row).unwrap());
        disks.sort_unstable();
        assert!(disks.iter().copied().eq(0..12), "row {row} uses every disk once: {disks:?}");
    }
    assert_eq!(parities, [1; 12]);
    for sector in (0..132 * 2_048).step_by(7) {
        let (disk, place) = layout.locate(sector);
        assert_eq!(place, sector / (11 * 2_048) * 2_048 + sector % 2_048);
        assert_eq!(layout.sector_at(disk, place), Some(sector));
    }
}

#[test]
fn t27_reads_go_where_the_layout_says() {
    let (mut array, log) = array_of(12, 40, &small(|_| {}));
    // Row 1 begins at chunk 11: disks 11, 0, 1, ...; the read ends in row 1's third chunk.
    submit(&mut array, 0, 1, Operation::Read, Extent::new(11 * 8 - 3, 3 + 20));
    drain(&mut array);
    assert_eq!(of_kind(&log, Operation::Read), [(10, 5, 3), (11, 8, 8), (0, 8, 8), (1, 8, 4)]);
}

#[test]
fn t28_a_small_write_through_takes_two_reads_and_two_writes() {
    let (mut array, log) = array_of(5, 40, &small(|p| p.write_back = 0));
    submit(&mut array, 0, 1, Operation::Write, Extent::new(34, 4));
    let completions = drain(&mut array);
    // Row 1 has its parity on disk 3 and begins on disk 4.
    let expected = [(4, 10, 4), (3, 10, 4)];
    assert_eq!(of_kind(&log, Operation::Read), expected);
    assert_eq!(of_kind(&log, Operation::Write), expected);
    let last_write = log.borrow().last().unwrap().at_ns;
    assert!(completions[0].at_ns > last_write, "it waits for the disks");
}

#[test]
fn t29_sequential_writes_fill_rows_that_are_written_without_reading() {
    let (mut array, log) = array_of(12, 40, &small(|_| {}));
    for tag in 0..22 {
        submit(&mut array, 0, tag, Operation::Write, Extent::new(u64::from(tag) * 8, 8));
    }
    drain(&mut array);
    assert_eq!(of_kind(&log, Operation::Read), []);
    let mut writes = of_kind(&log, Operation::Write);
    writes.sort_unstable_by_key(|write| (write.1, write.0));
    let expected: Vec<_> = [0, 8].into_iter().flat_map(|place| (0..12).map(move |disk| (disk, place, 8))).collect();
    assert_eq!(writes, expected);
}

#[test]
fn dirty_data_is_read_from_the_cache_and_the_rest_from_the_disk() {
    let (mut array, log) = array_of(5, 40, &small(|_| {}));
    submit(&mut array, 0, 0, Operation::Write, Extent::new(2, 3));
    submit(&mut array, 1, 1, Operation::Read, Extent::new(2, 3));
    submit(&mut array, 2, 2, Operation::Read, Extent::new(0, 8));
    submit(&mut array, 3, 3, Operation::Read, Extent::new(2, 6));
    let mut completions = Vec::new();
    while completions.len() < 4 {
        array.advance(array.next_event(), &mut completions);
    }
    // For the middle of a chunk the disk is read once, for the whole range around it.
    assert_eq!(of_kind(&log, Operation::Read), [(0, 0, 8), (0, 5, 3)]);
    assert_eq!(completions[1].tag, 1, "a hit needs no disk");
}

#[test]
fn a_stream_is_read_ahead_in_lines_once() {
    // Lines of 8 KiB, 16 KiB ahead, from the third read on.
    let parameters = small(|p| (p.prefetch_kib, p.prefetch_line_kib, p.read_cache_mib) = (16, 8, 1));
    let (mut array, log) = array_of(5, 400, &parameters);
    let mut completions = Vec::new();
    for number in 0..10 {
        submit(&mut array, number * 100_000_000, 0, Operation::Read, Extent::new(number * 16, 16));
        array.advance((number + 1) * 100_000_000, &mut completions);
    }
    assert_eq!(completions.len(), 10);
    let mut read = vec![0; 16 * 12];
    for (disk, place, sectors) in of_kind(&log, Operation::Read) {
        for sector in place..place + u64::from(sectors) {
            read[usize::try_from(array.layout().sector_at(disk, sector).unwrap()).unwrap()] += 1;
        }
    }
    assert!(read.iter().all(|times| *times == 1), "ten reads and two lines ahead: {read:?}");
    let hit_ns = completions[9].at_ns - 900_000_000;
    assert!(hit_ns < 1_600_000, "latency and link, no disk: {hit_ns}");
}

#[test]
fn above_the_high_mark_destaging_goes_before_reads() {
    for (high_millionths, is_first) in [(0, true), (1_000_000, false)] {
        let parameters = small(|p| {
            p.disk_depth = 1;
            (p.destage_low_millionths, p.destage_high_millionths) = (0, high_millionths);
        });
        let (mut array, log) = array_of(5, 40, &parameters);
        // All on disk 0: the first read occupies it, and the second one waits for it when the write
        // arrives.
        let [a, b, c] = [6, 11, 0].map(|row| array.layout().sector_at(0, row * 8).unwrap());
        submit(&mut array, 0, 0, Operation::Read, Extent::new(a, 8));
        submit(&mut array, 1, 1, Operation::Read, Extent::new(b, 8));
        submit(&mut array, 2, 2, Operation::Write, Extent::new(c + 2, 4));
        drain(&mut array);
        let on_disk_0: Vec<_> = log.borrow().iter().filter(|record| record.disk == 0).map(|r| r.sectors).collect();
        assert_eq!(on_disk_0, if is_first { [8, 4, 8, 4] } else { [8, 8, 4, 4] });
    }
}

#[test]
fn discarded_data_is_never_written() {
    let (mut array, log) = array_of(5, 40, &small(|_| {}));
    submit(&mut array, 0, 0, Operation::Write, Extent::new(0, 16));
    submit(&mut array, 1, 1, Operation::Discard, Extent::new(8, 24));
    drain(&mut array);
    assert_eq!(of_kind(&log, Operation::Write), [(0, 0, 8), (4, 0, 8)]);
}

#[test]
fn a_flush_is_immediate_with_a_battery_and_waits_for_earlier_writes_without() {
    for (write_back, waits) in [(1, false), (0, true)] {
        let (mut array, log) = array_of(5, 40, &small(|p| p.write_back = write_back));
        submit(&mut array, 0, 0, Operation::Write, Extent::new(0, 8));
        submit(&mut array, 1, 1, Operation::Write, Extent::new(200, 8));
        submit(&mut array, 2, 2, Operation::Flush, Extent::default());
        let completions = drain(&mut array);
        let flushed = completions.iter().find(|completion| completion.tag == 2).unwrap().at_ns;
        let last_write = log.borrow().iter().map(|record: &Record| record.at_ns).max().unwrap();
        assert_eq!(flushed > last_write, waits);
        if waits {
            assert!(completions.iter().all(|completion| completion.at_ns <= flushed));
        }
    }
}

#[test]
fn a_full_cache_takes_writes_in_order_as_room_comes() {
    let (mut array, _) = array_of(5, 400, &small(|p| (p.lun_depth, p.link_kb_per_s) = (64, 100_000_000)));
    let mut completions = Vec::new();
    // The cache has 2,048 sectors. The controller answers after 1.5 ms, and the disks need at least
    // 1 ms more. There is room for the last write, but not for the one before it, and writes are
    // taken in order.
    let lengths = (0..31).map(|_| 64).chain([40, 64, 8]);
    for (tag, sectors) in (0..).zip(lengths) {
        submit(&mut array, 0, tag, Operation::Write, Extent::new(u64::from(tag) * 64, sectors));
    }
    array.advance(2_300_000, &mut completions);
    assert_eq!(completions.len(), 32, "the last two wait");
    completions.extend(drain(&mut array));
    assert!(completions.iter().map(|completion| completion.tag).eq(0..34));
}

#[test]
fn a_reset_forgets_commands_but_not_dirty_data() {
    let (mut array, log) = array_of(5, 40, &small(|_| {}));
    submit(&mut array, 0, 0, Operation::Write, Extent::new(0, 8));
    submit(&mut array, 0, 1, Operation::Read, Extent::new(64, 8));
    let mut completions = Vec::new();
    array.advance(1_000_000, &mut completions);
    submit(&mut array, 1_000_000, 2, Operation::Read, Extent::new(128, 8));
    array.reset(1_000_000);
    submit(&mut array, 1_000_000, 3, Operation::Read, Extent::new(96, 8));
    completions.extend(drain(&mut array));
    assert_eq!(completions.iter().map(|completion| completion.tag).collect::<Vec<_>>(), [3]);
    assert_eq!(of_kind(&log, Operation::Write), [(0, 0, 8), (4, 0, 8)]);
}

/// Every command completes once and in order of time, and at the end the disks have every sector,
/// with its parity, written later than the host's last write to it.
#[test]
fn a_storm_leaves_every_written_sector_on_its_disk_and_in_the_parity() {
    for (seed, write_back, level, prefetch_kib) in [(1, 1, 0, 0), (2, 0, 0, 0), (3, 1, 1, 16), (4, 1, 0, 16)] {
        let parameters = small(|p| {
            (p.write_back, p.level, p.prefetch_kib) = (write_back, level, prefetch_kib);
            (p.prefetch_line_kib, p.read_cache_mib, p.destage_parallel) = (8, 1, 3);
        });
        let (mut array, log) = array_of(5, 160, &parameters);
        let capacity = array.info().capacity_sectors;
        let (mut stream, mut now, mut tag) = (Stream::new(seed), 0, 0);
        let mut written: BTreeMap<u64, Nanos> = BTreeMap::new();
        let mut open = BTreeMap::new();
        let (mut completions, mut last_ns) = (Vec::new(), 0);
        while tag < 20_000 {
            let sectors = u32::try_from(1 + stream.below(64)).unwrap();
            // Half of the traffic goes to a tenth of the array, so that commands overlap.
            let span = if stream.chance(1, 2) { capacity / 10 } else { capacity };
            let extent = Extent::new(stream.below(span - u64::from(sectors)), sectors);
            let operation = [Operation::Read, Operation::Write, Operation::Write, Operation::Flush]
                [usize::try_from(stream.below(4)).unwrap()];
            let extent = if operation == Operation::Flush { Extent::default() } else { extent };
            let command = Command { tag, operation, flags: Flags::NONE, extent, hardware_queue: HardwareQueue(0) };
            if open.len() < 32 && array.submit(now, &command) == Submit::Accepted {
                open.insert(tag, now);
                tag += 1;
                if operation == Operation::Write {
                    written.extend((extent.first_sector..extent.end()).map(|sector| (sector, now)));
                }
            }
            now = if stream.chance(1, 3) { now } else { array.next_event().max(now) };
            array.advance(now, &mut completions);
            for completion in completions.drain(..) {
                let submitted = open.remove(&completion.tag).expect("answered once");
                assert!(completion.at_ns >= submitted.max(last_ns) && completion.status.is_ok());
                last_ns = completion.at_ns;
            }
        }
        assert_eq!(drain(&mut array).len(), open.len());
        let mut on_disk: BTreeMap<(usize, u64), Nanos> = BTreeMap::new();
        for record in log.borrow().iter().filter(|record| record.operation == Operation::Write) {
            let sectors = record.first_sector..record.first_sector + u64::from(record.sectors);
            on_disk.extend(sectors.map(|sector| ((record.disk, sector), record.at_ns)));
        }
        for (sector, at) in written {
            let (disk, place) = array.layout().locate(sector);
            assert!(on_disk.get(&(disk, place)).is_some_and(|wrote| *wrote > at), "sector {sector}");
            let parity = array.layout().parity_disk(place / 8);
            assert!(parity.is_none_or(|parity| on_disk[&(parity, place)] > at), "parity of sector {sector}");
        }
    }
}
