//! Commands that are rejected, dropped, or move no data; configurations of other disks.

use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Operation, Status};
use hoistway_device::{AnyDevice, Command, Completion, Device, Disk, DiskParameters, NEVER, Submit};

use crate::assert_near;
use crate::driver::{closed_loop, disk, random, sata, submit};

fn drain(disk: &mut Disk) -> Vec<Completion> {
    let mut completions = Vec::new();
    while disk.next_event() != NEVER {
        disk.advance(disk.next_event(), &mut completions);
    }
    completions
}

#[test]
fn a_command_beyond_the_disk_fails_and_nothing_moves() {
    let mut disk = disk(&sata(), 1);
    submit(&mut disk, 0, 1, Operation::Read, Extent::new(488_282_255, 2), Flags::NONE);
    submit(&mut disk, 0, 2, Operation::SecureErase, Extent::new(0, 8), Flags::NONE);
    submit(&mut disk, 0, 3, Operation::Read, Extent::new(0, 0), Flags::NONE);
    let completions = drain(&mut disk);
    let expected = [(1, Status::IoError), (2, Status::NotSupported), (3, Status::Ok)];
    assert_eq!(completions.iter().map(|c| (c.tag, c.status)).collect::<Vec<_>>(), expected);
    assert!(completions.iter().all(|completion| completion.at_ns == 60_000));
    assert_eq!(disk.counters().errors, 2);
}

#[test]
fn one_command_too_many_is_refused() {
    let mut disk = disk(&sata().with(|disk| disk.firmware.depth = 2), 1);
    let command = |tag| Command {
        tag,
        operation: Operation::Read,
        flags: Flags::NONE,
        extent: Extent::new(0, 8),
        hardware_queue: HardwareQueue(0),
    };
    let answers = [0, 1, 2].map(|tag| disk.submit(0, &command(tag)));
    assert_eq!(answers, [Submit::Accepted, Submit::Accepted, Submit::Busy]);
    assert_eq!(drain(&mut disk).len(), 2);
    assert_eq!(disk.submit(1 << 30, &command(2)), Submit::Accepted);
}

#[test]
fn a_reset_forgets_commands_and_keeps_dirty_data() {
    let mut disk = disk(&sata(), 1);
    let mut writes = random(&disk, Operation::Write, 8, 1.0, 7);
    let now = *closed_loop(&mut disk, 1, 5, &mut writes).done_at.last().unwrap();
    submit(&mut disk, now, 1, Operation::Flush, Extent::default(), Flags::NONE);
    submit(&mut disk, now, 2, Operation::Write, Extent::new(1_000, 8), Flags::FUA);
    submit(&mut disk, now, 3, Operation::Read, Extent::new(9_000_000, 8), Flags::NONE);
    disk.advance(now + 1_000_000, &mut Vec::new());
    disk.reset(now + 1_000_000);
    assert!(!disk.is_idle(), "four or five extents are still to be written");
    let at = now + 1_000_001;
    submit(&mut disk, at, 1, Operation::Flush, Extent::default(), Flags::NONE);
    let completions = drain(&mut disk);
    assert_eq!(completions.iter().map(|completion| completion.tag).collect::<Vec<_>>(), [1]);
    assert!(completions[0].at_ns > at + 20_000_000, "{completions:?}");
    assert!(disk.is_idle());
}

#[test]
fn a_reset_in_a_read_frees_the_head() {
    let mut disk = disk(&sata(), 1);
    submit(&mut disk, 0, 1, Operation::Read, Extent::new(400_000_000, 8), Flags::NONE);
    disk.advance(1_000_000, &mut Vec::new());
    disk.reset(1_000_000);
    assert_eq!((disk.next_event(), disk.is_idle()), (NEVER, true));
    submit(&mut disk, 1_000_000, 1, Operation::Read, Extent::new(0, 8), Flags::NONE);
    assert_eq!(drain(&mut disk).len(), 1);
}

#[test]
fn a_discard_moves_nothing_and_zeroes_take_media_time_only() {
    let mut disk = disk(&sata(), 1);
    submit(&mut disk, 0, 1, Operation::Discard, Extent::new(0, 1 << 20), Flags::NONE);
    submit(&mut disk, 0, 2, Operation::WriteZeroes, Extent::new(1 << 21, 1 << 20), Flags::NONE);
    submit(&mut disk, 0, 3, Operation::Flush, Extent::default(), Flags::NONE);
    let completions = drain(&mut disk);
    assert_eq!(completions.iter().map(|c| c.tag).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((completions[0].at_ns, completions[1].at_ns), (60_000, 60_000), "no data crosses the link");
    let media_ms = 512.0 * f64::from(1 << 20) / 63.3e3;
    assert_near("ms of the flush", completions[2].at_ns as f64 / 1e6, media_ms, 0.01);
}

#[test]
fn a_discard_or_write_ends_what_the_read_cache_knew() {
    for operation in [Operation::Discard, Operation::Write] {
        let mut disk = disk(&sata().with(|disk| disk.reading.readahead_kib = 64), 1);
        submit(&mut disk, 0, 1, Operation::Read, Extent::new(0, 64), Flags::NONE);
        disk.advance(20_000_000, &mut Vec::new());
        submit(&mut disk, 20_000_000, 1, operation, Extent::new(32, 8), Flags::NONE);
        drain(&mut disk);
        submit(&mut disk, 1 << 30, 1, Operation::Read, Extent::new(32, 8), Flags::NONE);
        assert!(drain(&mut disk)[0].at_ns > (1 << 30) + 200_000);
        submit(&mut disk, 1 << 31, 1, Operation::Read, Extent::new(0, 32), Flags::NONE);
        assert_eq!(drain(&mut disk)[0].at_ns, (1 << 31) + 60_000 + 65_536, "what lies before is still there");
    }
}

#[test]
fn the_facts_that_the_disk_reports() {
    let info = |parameters: &DiskParameters| AnyDevice::Disk(Box::new(disk(parameters, 1))).info().clone();
    let sata = info(&sata());
    assert!(sata.rotational && sata.volatile_cache && sata.fua);
    assert_eq!((sata.capacity_sectors, sata.depth, sata.name.as_str()), (488_282_256, 32, "disk"));
    let plain = info(&crate::driver::sata().with(|disk| {
        disk.firmware.depth = 1;
        disk.writing.write_cache = 0;
    }));
    assert!(!plain.volatile_cache && !plain.fua);
}

#[test]
fn a_sibling_has_its_own_stream() {
    let first = disk(&sata(), 1);
    let log = |mut disk: Disk| {
        let next = random(&disk, Operation::Read, 8, 1.0, 5);
        closed_loop(&mut disk, 1, 500, next).done_at
    };
    let sibling = |seed| first.sibling("b", Stream::of(seed, "dev0"));
    assert_eq!(sibling(2).info().name, "b");
    assert!(log(sibling(1)) == log(first.clone()) && log(sibling(2)) != log(first.clone()));
}

/// Commands of every kind on a small disk, so that they overlap in every way.
fn mixture(capacity_sectors: u64, seed: u64) -> impl FnMut(u32) -> (Operation, Extent, Flags) {
    let mut stream = Stream::new(seed);
    let mut last_end = 0;
    move |_| {
        let operation = match stream.below(16) {
            0..=6 => Operation::Read,
            7..=12 => Operation::Write,
            13 => Operation::Flush,
            14 => Operation::Discard,
            _ => Operation::WriteZeroes,
        };
        if operation == Operation::Flush {
            return (operation, Extent::default(), Flags::NONE);
        }
        let longest = if stream.chance(1, 8) { 2_000 } else { 64 };
        let sectors = 1 + stream.below(longest);
        let continues = stream.chance(1, 2) && last_end + sectors <= capacity_sectors;
        let first = if continues { last_end } else { stream.below(capacity_sectors - sectors + 1) };
        last_end = first + sectors;
        let flags = if stream.chance(1, 10) { Flags::FUA } else { Flags::NONE };
        (operation, Extent::new(first, sectors as u32), flags)
    }
}

#[test]
fn every_command_is_answered_and_the_drive_comes_to_rest() {
    let small = sata().with(|disk| {
        disk.layout.capacity_sectors = 50_001;
        disk.layout.zones = 3;
        disk.layout.spt_outer = 90;
        disk.layout.spt_inner = 60;
    });
    let variants = [
        small.clone(),
        small.clone().with(|disk| {
            disk.order.reorder = 0;
            disk.order.coalesce = 0;
        }),
        small.clone().with(|disk| {
            disk.writing.write_cache = 0;
            disk.order.commit = 1;
            disk.order.max_age_ns = 50_000_000;
        }),
        small.clone().with(|disk| {
            disk.writing.wc_entries = 1;
            disk.writing.wc_kib = 4;
            disk.writing.wc_extent_kib = 4;
            disk.reading.segments = 1;
            disk.reading.segment_kib = 4;
        }),
        small.clone().with(|disk| {
            disk.layout.heads = 1;
            disk.layout.zones = 1;
            disk.layout.spt_inner = 90;
            disk.reading.readahead_kib = 1_048_576;
            disk.firmware.cmd_overhead_ns = 0;
        }),
        small.clone().with(|disk| {
            disk.reading.readahead_kib = 0;
            disk.firmware.hit_overhead_ns = 0;
            disk.firmware.cmd_overhead_ns = 0;
            disk.order.age_weight_millionths = 500_000;
        }),
        small.with(|disk| {
            disk.firmware.depth = 3;
            disk.seeks.seek_table = vec![(1, 400_000), (50, 2_000_000)];
        }),
    ];
    for (seed, parameters) in variants.iter().enumerate() {
        let mut disk = disk(parameters, 1);
        let depth = disk.info().depth;
        let done = closed_loop(&mut disk, depth, 4_000, mixture(50_001, seed as u64)).done_at.len() as u64;
        let mut left = drain(&mut disk);
        assert!(disk.is_idle() && left.iter().all(|completion| completion.status.is_ok()));
        left.sort_by_key(|completion| completion.tag);
        left.dedup_by_key(|completion| completion.tag);
        assert!(left.len() < depth as usize, "at most one answer for each that was in flight");
        let counters = disk.counters();
        let accepted = counters.reads + counters.writes + counters.flushes;
        assert_eq!(accepted, done + left.len() as u64, "one answer for each");
    }
}

/// The two historical disks of docs/specifications/devices.md, section 10, must reach the rates
/// that the formula of section 4.2 gives for their first and last zone.
#[test]
fn other_disks_stream_at_their_rates() {
    let wd2500js = sata().with(|disk| {
        disk.layout.spt_inner = 640;
        disk.seeks.seek_avg_ns = 8_900_000;
        disk.seeks.seek_full_ns = 18_000_000;
        disk.firmware.cmd_overhead_ns = 500_000;
        disk.firmware.depth = 1;
        disk.writing.wc_entries = 10;
        disk.writing.wc_kib = 4_096;
    });
    let ide2003 = sata().with(|disk| {
        disk.layout.capacity_sectors = 78_165_360;
        disk.layout.heads = 2;
        disk.layout.spt_outer = 690;
        disk.layout.spt_inner = 380;
        disk.seeks.seek_track_ns = 1_800_000;
        disk.seeks.seek_avg_ns = 8_900_000;
        disk.seeks.seek_full_ns = 18_000_000;
        disk.layout.head_switch_ns = 1_200_000;
        disk.layout.cyl_switch_ns = 1_800_000;
        disk.firmware.cmd_overhead_ns = 500_000;
        disk.firmware.link_kb_per_s = 90_000;
        disk.firmware.depth = 1;
        disk.order.reorder = 0;
        disk.reading.segments = 8;
        disk.reading.segment_kib = 256;
        disk.reading.readahead_kib = 256;
        disk.writing.wc_entries = 8;
        disk.writing.wc_kib = 1_024;
    });
    for (parameters, outer, inner) in [(wd2500js, 63.3, 35.0), (ide2003, 35.8, 19.7)] {
        let last = parameters.layout.capacity_sectors - 2_050 * 256;
        assert_near("outer", crate::dd::run(&parameters, 1, &[0], 2_048).sum(), outer, 0.02);
        assert_near("inner", crate::dd::run(&parameters, 1, &[last], 2_048).sum(), inner, 0.02);
    }
}
