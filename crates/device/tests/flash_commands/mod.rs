//! Single commands of the flash model: durability, unmapping, submission queues, reset, no loss.

use crate::flash_host::presets::{nvme, ssd, ssd_plextor};
use crate::flash_host::{flash, submit, wait_for};
use hoistway_block::random::Stream;
use hoistway_block::{Extent, Flags, HardwareQueue, Nanos, Operation, Status};
use hoistway_device::{Command, Completion, Device, Flash, FlashParameters, NEVER, Submit};

const UNIT: u32 = 8;

fn at(unit: u64, units: u32) -> Extent {
    Extent::new(unit * u64::from(UNIT), units * UNIT)
}

fn plextor_empty() -> Flash {
    flash(&ssd_plextor().with(|flash| flash.history.precondition = 0))
}

/// Everything that completes up to `until`.
fn drain(device: &mut Flash, until: Nanos) -> Vec<Completion> {
    let mut completions = Vec::new();
    device.advance(until, &mut completions);
    completions
}

/// Transfer of a whole program of 4 units over a channel at 200 MB/s, and the program.
const PROGRAM_NS: Nanos = 81_920 + 1_100_000;

#[test]
fn a_write_is_acknowledged_from_the_buffer_and_read_from_there() {
    let mut device = plextor_empty();
    submit(&mut device, 0, 0, Operation::Write, Flags::NONE, at(5, 1));
    assert_eq!(wait_for(&mut device, 0), 13_500 + 7_728 + 20_000);
    submit(&mut device, 100_000, 1, Operation::Read, Flags::NONE, at(5, 1));
    assert_eq!(wait_for(&mut device, 1), 100_000 + 13_500 + 45_000 + 7_728, "no cell, no channel");
}

#[test]
fn a_flush_programs_what_is_buffered_and_does_not_wait_for_what_comes_later() {
    let flush_with_later_writes = |later: u32| {
        let mut device = plextor_empty();
        submit(&mut device, 0, 0, Operation::Write, Flags::NONE, at(0, 5));
        let now = wait_for(&mut device, 0);
        // One program is in progress; the fifth unit would wait for more data.
        submit(&mut device, now, 1, Operation::Flush, Flags::NONE, Extent::new(0, 0));
        for tag in 2..2 + later {
            submit(&mut device, now, tag, Operation::Write, Flags::NONE, at(u64::from(tag) * 100, 4));
        }
        wait_for(&mut device, 1) - now
    };
    assert_eq!(flush_with_later_writes(0), 13_500 + 45_000 + PROGRAM_NS);
    // The first later write arrives before the flush has begun. Its units fill the program of the
    // fifth unit.
    assert_eq!(flush_with_later_writes(28), 2 * 13_500 + 4 * 7_728 + 1 + PROGRAM_NS);
}

#[test]
fn a_flush_of_an_empty_buffer_costs_the_command_alone() {
    let mut device = plextor_empty();
    submit(&mut device, 0, 0, Operation::Flush, Flags::NONE, Extent::new(0, 0));
    assert_eq!(wait_for(&mut device, 0), 13_500 + 45_000);
}

#[test]
fn power_loss_protection_makes_flush_and_fua_free() {
    let mut device = flash(&nvme());
    assert!(!device.info().volatile_cache);
    submit(&mut device, 0, 0, Operation::Write, Flags::FUA, at(0, 1));
    let written = wait_for(&mut device, 0);
    assert_eq!(written, 1_200 + 1_241 + 8_000);
    submit(&mut device, written, 1, Operation::Flush, Flags::NONE, Extent::new(0, 0));
    assert_eq!(wait_for(&mut device, 1), written + 1_200 + 8_000);
}

#[test]
fn fua_waits_for_its_own_program() {
    let mut device = plextor_empty();
    submit(&mut device, 0, 0, Operation::Write, Flags::FUA, at(9, 1));
    assert_eq!(wait_for(&mut device, 0), 13_500 + 7_728 + PROGRAM_NS);
    assert_eq!(device.flash_counters().padded_units, 3);
}

#[test]
fn a_write_larger_than_the_buffer_passes_through_it() {
    // 64 units of buffer, 256 units to write, durable at the end.
    let mut device = flash(&ssd().with(|flash| flash.history.precondition = 0));
    submit(&mut device, 0, 0, Operation::Write, Flags::FUA, at(0, 256));
    submit(&mut device, 0, 1, Operation::Write, Flags::NONE, at(0, 1));
    let done = wait_for(&mut device, 0);
    // The 256 units need 8 rounds of programs: 32 dies program a unit each in 0.9 ms.
    assert!(done > 8 * 900_000, "{done}");
    assert!(device.flash_counters().host_units >= 256);
}

#[test]
fn a_lone_unit_is_programmed_five_milliseconds_after_the_last_write() {
    let mut device = plextor_empty();
    submit(&mut device, 0, 0, Operation::Write, Flags::NONE, at(0, 1));
    submit(&mut device, 3_000_000, 1, Operation::Write, Flags::NONE, at(1, 1));
    let arrived = 3_000_000 + 13_500 + 7_728;
    assert_eq!(drain(&mut device, arrived + 5_000_000 - 1).len(), 2);
    assert_eq!(device.flash_counters().host_units, 0);
    assert!(!device.is_idle());
    assert_eq!(device.next_event(), arrived + 5_000_000);
    drain(&mut device, arrived + 5_000_000);
    assert_eq!((device.flash_counters().host_units, device.flash_counters().padded_units), (2, 2));
    assert_eq!(device.next_event(), arrived + 5_000_000 + PROGRAM_NS);
    drain(&mut device, NEVER);
    assert!(device.is_idle() && device.next_event() == NEVER);
}

#[test]
fn discarding_forgets_whole_units_on_flash_and_in_the_buffer() {
    let mut device = flash(&ssd_plextor());
    let read = |device: &mut Flash, now: Nanos, unit: u64| {
        submit(device, now, 7, Operation::Read, Flags::NONE, at(unit, 1));
        wait_for(device, 7) - now
    };
    let from_flash = 13_500 + 45_000 + 50_000;
    // From the middle of unit 40 to the middle of unit 44.
    submit(&mut device, 0, 0, Operation::Discard, Flags::NONE, Extent::new(40 * 8 + 3, 4 * UNIT));
    assert_eq!(wait_for(&mut device, 0), 13_500 + 45_000);
    let latencies: Vec<Nanos> = (40..45).map(|unit| read(&mut device, unit * 1_000_000, unit)).collect();
    let is_mapped: Vec<bool> = latencies.iter().map(|latency| *latency > from_flash).collect();
    assert_eq!(is_mapped, [true, false, false, false, true]);

    let now = 100_000_000;
    submit(&mut device, now, 0, Operation::Write, Flags::NONE, at(1_000, 2));
    let now = wait_for(&mut device, 0);
    submit(&mut device, now, 1, Operation::WriteZeroes, Flags::NONE, at(1_000, 1));
    let now = wait_for(&mut device, 1);
    submit(&mut device, now, 2, Operation::Flush, Flags::NONE, Extent::new(0, 0));
    wait_for(&mut device, 2);
    assert_eq!(device.flash_counters().host_units, 1, "the other unit alone is programmed");
    assert!(read(&mut device, 200_000_000, 1_000) < from_flash);
    assert!(read(&mut device, 300_000_000, 1_001) > from_flash);
}

#[test]
fn zeroes_that_must_stay_mapped_are_written() {
    let mut device = plextor_empty();
    submit(&mut device, 0, 0, Operation::WriteZeroes, Flags::NO_UNMAP, at(0, 1));
    assert_eq!(wait_for(&mut device, 0), 13_500 + 20_000, "nothing passes the link");
    drain(&mut device, NEVER);
    assert_eq!(device.flash_counters().host_units, 1);
}

#[test]
fn submission_queues_are_fetched_in_turn() {
    let mut device = flash(&nvme().with(|flash| flash.history.precondition = 0));
    let mut send = |tag: u32, queue: u16| {
        let (operation, hardware_queue) = (Operation::Read, HardwareQueue(queue));
        let command = Command { tag, operation, flags: Flags::NONE, extent: at(0, 1), hardware_queue };
        assert_eq!(device.submit(0, &command), Submit::Accepted);
    };
    (0..64).for_each(|tag| send(tag, 3));
    send(64, 9);
    // One command of queue 3 is taken at once; after at most one more it is queue 9's turn.
    let completions = drain(&mut device, 1_000_000);
    let place = completions.iter().position(|completion| completion.tag == 64).unwrap();
    assert!(place <= 2, "fetched as number {place}");
    assert_eq!(completions.len(), 65);
    assert_eq!(completions[64].at_ns, 1_200 + 8_000 + 65 * 1_241, "the link is a little slower than the firmware");
}

#[test]
fn addresses_wrap_at_the_simulated_capacity() {
    let mut device = flash(&ssd_plextor().with(|flash| {
        flash.layout.simulated_mib = 1_024;
        flash.history.precondition = 0;
    }));
    submit(&mut device, 0, 0, Operation::Write, Flags::NONE, at(262_143, 2));
    wait_for(&mut device, 0);
    drain(&mut device, 50_000_000);
    for (time, unit, is_mapped) in [(1, 262_143, true), (2, 0, true), (3, 262_144, true), (4, 1, false)] {
        let now = 100_000_000 * time;
        submit(&mut device, now, 0, Operation::Read, Flags::NONE, at(unit, 1));
        let latency = wait_for(&mut device, 0) - now;
        assert_eq!(latency > 100_000, is_mapped, "unit {unit}: {latency}");
    }
}

#[test]
fn a_reset_forgets_commands_and_keeps_data() {
    for die_hold in [0, 1] {
        let mut device = flash(&ssd_plextor().with(|flash| flash.dies.die_hold = die_hold));
        for tag in 0..16 {
            let operation = if tag % 2 == 0 { Operation::Read } else { Operation::Write };
            submit(&mut device, 0, tag, operation, Flags::NONE, at(u64::from(tag) * 128, 4));
        }
        drain(&mut device, 150_000);
        let written = device.flash_counters().host_units;
        device.reset(200_000);
        submit(&mut device, 200_000, 3, Operation::Read, Flags::NONE, at(128, 1));
        submit(&mut device, 200_000, 4, Operation::Flush, Flags::NONE, Extent::new(0, 0));
        let completions = drain(&mut device, NEVER);
        let mut tags: Vec<u32> = completions.iter().map(|completion| completion.tag).collect();
        tags.sort_unstable();
        assert_eq!(tags, [3, 4], "die_hold {die_hold}");
        assert!(written > 0 && device.flash_counters().host_units >= written);
        assert!(device.is_idle());
    }
}

#[test]
fn a_full_device_says_busy_and_bad_commands_fail() {
    let mut device = flash(&ssd().with(|flash| flash.controller.depth = 2));
    let end = device.info().capacity_sectors;
    submit(&mut device, 0, 0, Operation::Read, Flags::NONE, Extent::new(end - 4, 8));
    submit(&mut device, 0, 1, Operation::Passthrough, Flags::NONE, at(0, 1));
    let (flags, hardware_queue) = (Flags::NONE, HardwareQueue(0));
    let third = Command { tag: 2, operation: Operation::Read, flags, extent: at(0, 1), hardware_queue };
    assert_eq!(device.submit(0, &third), Submit::Busy);
    let statuses: Vec<Status> = drain(&mut device, NEVER).iter().map(|completion| completion.status).collect();
    assert_eq!(statuses, [Status::IoError, Status::NotSupported]);
    assert_eq!((device.counters().reads, device.counters().errors), (1, 2));
}

/// Small drives with almost no spare, every kind of command, every read priority: each command
/// completes once, and then the drive becomes idle.
#[test]
fn no_command_is_lost_on_drives_that_collect_all_the_time() {
    for seed in 0..12 {
        let parameters = FlashParameters::default().with(|flash| {
            flash.layout.capacity_sectors = 40_000;
            flash.layout.channels = 2;
            flash.layout.dies_per_channel = 2;
            flash.layout.planes = 1 + seed % 2;
            flash.layout.page_kib = 8;
            flash.layout.pages_per_block = 8;
            flash.buffer.write_buffer_kib = 64;
            flash.buffer.max_programs = 1 + 7 * (seed % 3 / 2);
            flash.layout.overprovision_millionths = 70_000 * (seed % 2);
            flash.layout.gc_low = 2 + seed % 2;
            flash.layout.gc_reserve = 1;
            flash.dies.read_priority = seed % 3;
            flash.dies.die_hold = seed / 6;
            flash.controller.duplex = seed % 2;
            flash.controller.hardware_queues = 1 + seed % 3;
            flash.layout.simulated_mib = 16;
            flash.controller.depth = 32;
        });
        storm(&mut flash(&parameters), seed);
    }
}

fn storm(device: &mut Flash, seed: u64) {
    let mut stream = Stream::new(seed);
    let mut free: Vec<u32> = (0..32).collect();
    let (mut now, mut completions) = (0, Vec::new());
    let (mut sent, mut answered) = (0, 0);
    while answered < 6_000 {
        while sent < 6_000 && !free.is_empty() && stream.chance(3, 4) {
            let tag = free.swap_remove(usize::try_from(stream.below(free.len() as u64)).unwrap());
            let (operation, longest) = match stream.below(20) {
                0 => (Operation::Flush, 1),
                1 => (Operation::Discard, 400),
                2 => (Operation::WriteZeroes, 100),
                3..8 => (Operation::Read, 300),
                8 => (Operation::Write, 1_000),
                _ => (Operation::Write, 40),
            };
            let flags = [Flags::NONE, Flags::FUA, Flags::NO_UNMAP][usize::try_from(stream.below(3)).unwrap()];
            let sectors = if operation == Operation::Flush { 0 } else { 1 + stream.below(longest) };
            let extent = Extent::new(stream.below(40_000 - sectors), u32::try_from(sectors).unwrap());
            let hardware_queue = HardwareQueue(u16::try_from(stream.below(3)).unwrap());
            let command = Command { tag, operation, flags, extent, hardware_queue };
            assert_eq!(device.submit(now, &command), Submit::Accepted);
            sent += 1;
        }
        let next = device.next_event();
        assert!(next >= now, "seed {seed}: an event in the past");
        assert!(next != NEVER || answered == sent, "seed {seed}: {} commands are stuck", sent - answered);
        now = if next == NEVER { now + 1_000 } else { next };
        device.advance(now, &mut completions);
        for completion in completions.drain(..) {
            assert!(completion.status.is_ok() && completion.at_ns <= now);
            assert!(!free.contains(&completion.tag), "seed {seed}: {} answered twice", completion.tag);
            free.push(completion.tag);
            answered += 1;
        }
    }
    drain(device, NEVER);
    assert!(device.is_idle() && device.next_event() == NEVER);
    let counters = device.flash_counters();
    assert!(counters.erased_superblocks > 50, "seed {seed}: it has collected: {counters:?}");
}
