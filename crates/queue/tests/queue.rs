//! The request queue around noop, one claim per test. Source:
//! docs/specifications/classic-elevators.md, section 1.

use hoistway_block::{ContextId, Extent, Flags, GroupId, HardwareQueue, Operation, RequestId, Status};
use hoistway_elevator::{Attributes, Bio, Configuration, Depth, GroupSettings, GroupState};
use hoistway_queue::{Era, Full, Handover, Limits, Merging, Next, Plug, RequestQueue, Settings, Submitted};

const QUEUE: HardwareQueue = HardwareQueue(0);

fn bio(operation: Operation, first_sector: u64, sectors: u32) -> Bio {
    Attributes::new(operation, Extent::new(first_sector, sectors))
}

fn read(first_sector: u64) -> Bio {
    bio(Operation::Read, first_sector, 8)
}

fn write(first_sector: u64) -> Bio {
    bio(Operation::Write, first_sector, 8)
}

fn settings(requests: u32, device: u32) -> Settings {
    let depth = Depth { requests, device };
    Settings {
        configuration: Configuration { slots: requests + 4, depth, ..Configuration::default() },
        era: Era::ENGINE,
        ..Settings::default()
    }
}

fn queue(settings: &Settings) -> RequestQueue {
    RequestQueue::build("noop", None, settings).expect("noop")
}

/// Starts all requests that may start; returns them as (id, operation, first sector, sectors).
fn start_all(queue: &mut RequestQueue, now: u64) -> Vec<(RequestId, Operation, u64, u32)> {
    let mut started = Vec::new();
    while let Next::Start { id, .. } = queue.dispatch(QUEUE, now) {
        let request = queue.requests().attributes(id);
        started.push((id, request.operation, request.extent.first_sector, request.extent.sectors));
    }
    queue.check().expect("invariants");
    started
}

fn complete(queue: &mut RequestQueue, id: RequestId, status: Status, now: u64) -> Vec<(u64, Status)> {
    let mut done = Vec::new();
    queue.complete(id, status, now, |bio| done.push((bio.cookie, bio.status)));
    queue.check().expect("invariants");
    done
}

/// Runs everything to completion; returns the cookies in order of completion, and the commands of
/// the device.
fn run_dry(queue: &mut RequestQueue) -> (Vec<u64>, Vec<(Operation, u64, u32)>) {
    let (mut cookies, mut commands) = (Vec::new(), Vec::new());
    for now in 1..10_000 {
        let started = start_all(queue, now);
        if started.is_empty() {
            return (cookies, commands);
        }
        for (id, operation, first, sectors) in started {
            commands.push((operation, first, sectors));
            cookies.extend(complete(queue, id, Status::Ok, now).into_iter().map(|(cookie, _)| cookie));
        }
    }
    panic!("never ran dry");
}

#[test]
fn every_bio_of_a_merged_request_hears_of_its_end_in_sector_order() {
    let mut queue = queue(&settings(16, 1));
    for (cookie, sector) in [(1, 108), (2, 116), (3, 100)] {
        queue.submit(&read(sector), cookie, 0).unwrap();
    }
    let started = start_all(&mut queue, 1);
    assert_eq!(started[0].2..started[0].2 + u64::from(started[0].3), 100..124);
    let done = complete(&mut queue, started[0].0, Status::IoError, 2);
    assert_eq!(done, [(3, Status::IoError), (1, Status::IoError), (2, Status::IoError)]);
}

#[test]
fn nothing_merges_across_operation_device_group_priority_or_marks() {
    let base = read(100);
    let neighbours = [
        Bio { operation: Operation::Write, ..read(108) },
        Bio { device: 1, ..read(108) },
        Bio { group: GroupId(1), ..read(108) },
        Bio { priority: hoistway_block::Priority::DEFAULT, ..read(108) },
        Bio { flags: Flags::NOMERGE, ..read(108) },
        Bio { flags: Flags::WAITING, ..read(108) },
        Bio { operation: Operation::Write, flags: Flags::FUA, ..read(108) },
    ];
    for neighbour in neighbours {
        let mut queue = queue(&settings(16, 1));
        queue.add_group(GroupId(1), &GroupSettings::with_weight(100), 0);
        queue.submit(&base, 1, 0).unwrap();
        let submitted = queue.submit(&neighbour, 2, 0).unwrap();
        assert!(matches!(submitted, Submitted::Queued(_)), "{neighbour:?} merged");
        queue.check().unwrap();
    }
}

#[test]
fn a_request_that_was_chosen_takes_no_more_bios() {
    let mut queue = queue(&settings(16, 1));
    queue.submit(&read(100), 1, 0).unwrap();
    assert_eq!(start_all(&mut queue, 0).len(), 1);
    assert!(matches!(queue.submit(&read(108), 2, 0).unwrap(), Submitted::Queued(_)));
}

#[test]
fn limits_hold_and_failing_one_closes_the_request() {
    let limits = Limits { max_sectors: 16, ..Limits::default() };
    let mut queue = queue(&Settings { limits, ..settings(16, 1) });
    for (cookie, sector) in [(1, 100), (2, 108), (3, 116), (4, 92)] {
        queue.submit(&read(sector), cookie, 0).unwrap();
    }
    let (_, commands) = run_dry(&mut queue);
    // 92 is adjacent to 100+16, which was closed for merging when 116 did not fit.
    assert_eq!(commands, [(Operation::Read, 100, 16), (Operation::Read, 116, 8), (Operation::Read, 92, 8)]);
}

#[test]
fn a_stream_that_fills_its_requests_does_not_pass_others_in_order_of_arrival() {
    let limits = Limits { max_sectors: 8, ..Limits::default() };
    let mut queue = queue(&Settings { limits, ..settings(16, 1) });
    for (cookie, bio) in [(1, write(0)), (2, read(1_000)), (3, write(8)), (4, write(16))] {
        queue.submit(&bio, cookie, 0).unwrap();
    }
    assert_eq!(run_dry(&mut queue).0, [1, 2, 3, 4]);
}

#[test]
fn no_request_crosses_a_chunk_boundary() {
    let limits = Limits { chunk_sectors: 16, ..Limits::default() };
    let mut queue = queue(&Settings { limits, ..settings(16, 1) });
    for (cookie, sector) in [(1, 0), (2, 8), (3, 16)] {
        queue.submit(&read(sector), cookie, 0).unwrap();
    }
    let (_, commands) = run_dry(&mut queue);
    assert_eq!(commands, [(Operation::Read, 0, 16), (Operation::Read, 16, 8)]);
}

#[test]
fn nomerges_two_merges_nothing_and_one_only_the_last() {
    for (merging, expected) in [(Merging::Never, 4), (Merging::OneHit, 3), (Merging::Full, 2)] {
        let mut queue = queue(&Settings { merging, ..settings(16, 1) });
        // 108 joins the last merge candidate 100; 308 joins 300 by the hash only.
        for (cookie, sector) in [(1, 100), (2, 300), (3, 108), (4, 308)] {
            queue.submit(&read(sector), cookie, 0).unwrap();
        }
        assert_eq!(run_dry(&mut queue).1.len(), expected, "{merging:?}");
    }
}

#[test]
fn insert_time_merges_are_back_merges_only() {
    for (sectors, expected) in [([1008, 5000, 1000], 3), ([1000, 5000, 1008], 2)] {
        let mut queue = queue(&settings(16, 1));
        let mut plug = Plug::default();
        for (cookie, sector) in sectors.into_iter().enumerate() {
            queue.submit_plugged(&read(sector), cookie as u64, &mut plug, 0).unwrap();
        }
        assert!(start_all(&mut queue, 0).is_empty(), "a plug holds back");
        queue.unplug(&mut plug, 0);
        let (mut cookies, commands) = run_dry(&mut queue);
        cookies.sort_unstable();
        assert_eq!((commands.len(), cookies), (expected, vec![0, 1, 2]), "{sectors:?}");
    }
}

#[test]
fn a_plug_is_flushed_by_its_33rd_request_and_by_128_kib() {
    let mut queue = queue(&settings(64, 64));
    let mut plug = Plug::default();
    for cookie in 0..32 {
        queue.submit_plugged(&read(cookie * 1000), cookie, &mut plug, 0).unwrap();
    }
    assert_eq!(start_all(&mut queue, 0).len(), 0);
    queue.submit_plugged(&read(99_000), 32, &mut plug, 0).unwrap();
    assert_eq!((start_all(&mut queue, 0).len(), plug.len()), (32, 1));
    queue.submit_plugged(&bio(Operation::Read, 200_000, 256), 33, &mut plug, 0).unwrap();
    queue.submit_plugged(&read(300_000), 34, &mut plug, 0).unwrap();
    assert_eq!((start_all(&mut queue, 0).len(), plug.len()), (2, 1));
}

#[test]
fn bios_beyond_the_tags_wait_and_enter_in_order() {
    let mut queue = queue(&settings(2, 2));
    let submitted: Vec<_> = (0..5).map(|at| queue.submit(&read(at * 1000), at, 0).unwrap()).collect();
    assert_eq!(submitted[2..], [Submitted::Waiting; 3]);
    let (cookies, _) = run_dry(&mut queue);
    assert_eq!(cookies, [0, 1, 2, 3, 4]);
}

/// The anticipatory elevator admits the process that it waits for even if no tag is free. The last
/// slot of the table is reserved for the flush command.
#[test]
fn a_request_beyond_the_tags_leaves_the_slot_of_the_flush_command() {
    let by = |context: u32, bio: Bio| Bio { context: ContextId(context), ..bio };
    for (slots, expected) in [(2, Submitted::Waiting), (3, Submitted::Queued(RequestId::new(1, 0)))] {
        let depth = Depth { requests: 1, device: 1 };
        let configuration = Configuration { slots, contexts: 4, depth, ..Configuration::default() };
        let limits = Limits { volatile_cache: true, ..Limits::default() };
        let settings = Settings { configuration, limits, era: Era::ENGINE, ..Settings::default() };
        let mut queue = RequestQueue::build("anticipatory", None, &settings).expect("anticipatory");
        queue.submit(&by(1, read(0)), 1, 1).expect("room");
        let [(first, ..)] = start_all(&mut queue, 2)[..] else { panic!("one is started") };
        complete(&mut queue, first, Status::Ok, 3);
        // The device idles for process 1 while process 2's distant request waits.
        queue.submit(&by(2, read(4_000_000)), 2, 4).expect("room");
        assert_eq!(start_all(&mut queue, 5), []);
        let flagged = Bio { flags: Flags::PREFLUSH, ..write(8) };
        assert_eq!(queue.submit(&by(1, flagged), 3, 6), Ok(expected), "{slots} slots");
        let (mut done, mut commands) = (0, Vec::new());
        for now in (1..6).map(|step| step * 20_000_000) {
            queue.timer(now);
            for (id, operation, ..) in start_all(&mut queue, now) {
                commands.push(operation);
                done += complete(&mut queue, id, Status::Ok, now).len();
            }
        }
        commands.sort_unstable_by_key(|operation| *operation as u32);
        assert_eq!((done, commands), (2, vec![Operation::Read, Operation::Write, Operation::Flush]));
    }
}

#[test]
fn a_waiting_bio_merges_when_it_gets_its_turn() {
    let mut queue = queue(&settings(2, 1));
    for (cookie, sector) in [(1, 1000), (2, 5000), (3, 9000), (4, 9008)] {
        queue.submit(&read(sector), cookie, 0).unwrap();
    }
    let (cookies, commands) = run_dry(&mut queue);
    assert_eq!((cookies, commands.last()), (vec![1, 2, 3, 4], Some(&(Operation::Read, 9000, 16))));
}

#[test]
fn the_table_of_bios_bounds_the_bios_in_flight() {
    let mut queue = queue(&Settings { bios: 3, ..settings(2, 1) });
    for at in 0..3 {
        queue.submit(&read(at * 1000), at, 0).unwrap();
    }
    assert_eq!(queue.submit(&read(9000), 9, 0), Err(Full));
}

#[test]
fn with_look_ahead_one_request_beyond_the_device_is_chosen_and_closed() {
    for (look_ahead, expected) in [(true, 3), (false, 2)] {
        let era = Era { look_ahead, ..Era::BLK_MQ };
        let mut queue = queue(&Settings { era, ..settings(16, 1) });
        queue.submit(&read(90_000), 1, 0).unwrap();
        start_all(&mut queue, 0);
        queue.submit(&read(91_000), 2, 0).unwrap();
        start_all(&mut queue, 0);
        queue.submit(&read(91_008), 3, 0).unwrap();
        let busy: Vec<_> = (0..queue.requests().capacity()).filter_map(|slot| queue.requests().id_of(slot)).collect();
        assert_eq!(busy.len(), expected, "look_ahead {look_ahead}");
    }
}

#[test]
fn a_preflush_write_with_fua_becomes_flush_data_flush() {
    let mut queue = queue(&settings(16, 8));
    let durable = Bio { flags: Flags::PREFLUSH.with(Flags::FUA), ..write(1000) };
    queue.submit(&durable, 7, 0).unwrap();
    let (cookies, commands) = run_dry(&mut queue);
    let flush = (Operation::Flush, 0, 0);
    assert_eq!((cookies, commands), (vec![7], vec![flush, (Operation::Write, 1000, 8), flush]));
}

#[test]
fn without_a_volatile_cache_a_flush_is_nothing_and_fua_a_plain_write() {
    let limits = Limits { volatile_cache: false, ..Limits::default() };
    let mut queue = queue(&Settings { limits, ..settings(16, 8) });
    let flush = bio(Operation::Flush, 0, 0);
    assert_eq!(queue.submit(&flush, 1, 0), Ok(Submitted::Nothing));
    queue.submit(&Bio { flags: Flags::FUA, ..write(1000) }, 2, 0).unwrap();
    assert_eq!(run_dry(&mut queue), (vec![2], vec![(Operation::Write, 1000, 8)]));
}

#[test]
fn flushes_that_arrive_while_one_runs_share_the_next() {
    let mut queue = queue(&settings(64, 8));
    queue.submit(&bio(Operation::Flush, 0, 0), 0, 0).unwrap();
    let first = start_all(&mut queue, 0);
    assert_eq!(first.len(), 1);
    for cookie in 1..=10 {
        queue.submit(&bio(Operation::Flush, 0, 0), cookie, 0).unwrap();
        assert!(start_all(&mut queue, 0).is_empty(), "one flush at a time");
    }
    assert_eq!(complete(&mut queue, first[0].0, Status::Ok, 1), [(0, Status::Ok)]);
    let second = start_all(&mut queue, 1);
    assert_eq!(second.len(), 1);
    assert_eq!(complete(&mut queue, second[0].0, Status::Ok, 2).len(), 10);
}

#[test]
fn a_flush_waits_for_running_data_of_a_sequence_but_not_longer_than_five_seconds() {
    let mut queue = queue(&settings(16, 8));
    queue.submit(&Bio { flags: Flags::FUA, ..write(1000) }, 1, 0).unwrap();
    let data = start_all(&mut queue, 0);
    queue.submit(&bio(Operation::Flush, 0, 0), 2, 10).unwrap();
    assert!(start_all(&mut queue, 10).is_empty());
    assert_eq!(queue.next_timer(), Some(5_000_000_010));
    queue.timer(5_000_000_010);
    let flush = start_all(&mut queue, 5_000_000_010);
    assert_eq!(flush[0].1, Operation::Flush);
    complete(&mut queue, flush[0].0, Status::Ok, 5_000_000_011);
    complete(&mut queue, data[0].0, Status::Ok, 5_000_000_012);
    assert_eq!(run_dry(&mut queue).0, [1]);
}

#[test]
fn a_failed_flush_fails_those_that_waited_for_it() {
    let mut queue = queue(&settings(16, 8));
    queue.submit(&Bio { flags: Flags::PREFLUSH, ..write(1000) }, 1, 0).unwrap();
    let flush = start_all(&mut queue, 0);
    assert_eq!(complete(&mut queue, flush[0].0, Status::IoError, 1), [(1, Status::IoError)]);
    assert!(run_dry(&mut queue).1.is_empty(), "the data was never written");
}

#[test]
fn a_requeued_request_goes_first_and_ends_once() {
    let mut queue = queue(&settings(16, 1));
    for at in 0..3 {
        queue.submit(&read(at * 1000), at, 0).unwrap();
    }
    let started = start_all(&mut queue, 0);
    queue.requeue(started[0].0, 1);
    queue.check().unwrap();
    let (cookies, _) = run_dry(&mut queue);
    assert_eq!((cookies, queue.counters().requeues), (vec![0, 1, 2], 1));
}

#[test]
fn a_refused_request_blocks_the_policy_until_it_goes() {
    let mut queue = queue(&settings(16, 8));
    for at in 0..3 {
        queue.submit(&read(at * 1000), at, 0).unwrap();
    }
    let Next::Start { id, .. } = queue.dispatch(QUEUE, 0) else { panic!("nothing to start") };
    queue.refuse(id, 0);
    queue.check().unwrap();
    assert_eq!(queue.dispatch(QUEUE, 1), Next::Start { id, reason: None });
}

#[test]
fn a_switch_loses_nothing_whichever_way_and_keeps_the_order_when_carried() {
    for handover in [Handover::Drain, Handover::Carry] {
        let settings = settings(64, 1);
        let mut queue = queue(&settings);
        queue.add_group(GroupId(3), &GroupSettings::with_weight(300), 0);
        for at in 0..64 {
            queue.submit(&read(at * 1000), at, 0).unwrap();
        }
        let started = start_all(&mut queue, 0);
        let next = hoistway_elevator::registry::build("noop", None, &settings.configuration).unwrap();
        queue.switch(next, handover, 1).unwrap();
        assert_eq!(queue.submit(&Bio { group: GroupId(3), ..read(99_000) }, 64, 2), Ok(Submitted::Waiting));
        queue.check().unwrap();
        complete(&mut queue, started[0].0, Status::Ok, 3);
        let (cookies, _) = run_dry(&mut queue);
        assert_eq!(cookies, (1..=64).collect::<Vec<u64>>(), "{handover:?}");
        assert!(!queue.is_switching() && queue.retired().is_some());
    }
}

#[test]
fn a_second_switch_is_refused_while_one_runs() {
    let settings = settings(16, 1);
    let mut queue = queue(&settings);
    queue.submit(&read(0), 0, 0).unwrap();
    start_all(&mut queue, 0);
    let another = || hoistway_elevator::registry::build("noop", None, &settings.configuration).unwrap();
    queue.switch(another(), Handover::Drain, 1).unwrap();
    assert!(queue.switch(another(), Handover::Drain, 1).is_err());
}

#[test]
fn a_group_id_is_free_again_only_after_its_last_request() {
    let mut queue = queue(&settings(16, 1));
    let group = GroupId(5);
    assert!(queue.add_group(group, &GroupSettings::with_weight(100), 0));
    queue.submit(&Bio { group, ..read(0) }, 1, 0).unwrap();
    assert!(queue.remove_group(group, 1));
    assert_eq!(queue.groups().state(group), GroupState::Offline);
    assert!(!queue.add_group(group, &GroupSettings::with_weight(100), 1), "taken while a request is left");
    // A bio of the removed group is accounted to the root.
    queue.submit(&Bio { group, ..read(8) }, 2, 1).unwrap();
    run_dry(&mut queue);
    assert_eq!(queue.groups().state(group), GroupState::Absent);
    assert!(queue.add_group(group, &GroupSettings::with_weight(100), 2));
}

#[test]
fn a_waiting_bio_holds_its_group_and_enters_the_nearest_online_one() {
    let mut queue = queue(&settings(1, 1));
    let group = GroupId(5);
    queue.add_group(group, &GroupSettings::with_weight(100), 0);
    queue.submit(&read(0), 1, 0).unwrap();
    assert_eq!(queue.submit(&Bio { group, ..read(9000) }, 2, 0), Ok(Submitted::Waiting));
    assert!(queue.remove_group(group, 1));
    assert!(!queue.add_group(group, &GroupSettings::with_weight(100), 1), "taken while a bio of it waits");
    assert_eq!(run_dry(&mut queue).0, [1, 2]);
    assert_eq!(queue.groups().state(group), GroupState::Absent);
}

#[test]
fn a_plug_and_a_flush_that_end_during_a_switch_break_no_rule() {
    let settings = settings(16, 8);
    let mut queue = queue(&settings);
    let mut plug = Plug::default();
    queue.submit(&bio(Operation::Flush, 0, 0), 1, 0).unwrap();
    let flush = start_all(&mut queue, 0);
    queue.submit_plugged(&read(1000), 2, &mut plug, 0).unwrap();
    queue.submit(&Bio { flags: Flags::PREFLUSH, ..write(5000) }, 3, 0).unwrap();
    let next = hoistway_elevator::registry::build("noop", None, &settings.configuration).unwrap();
    queue.switch(next, Handover::Carry, 1).unwrap();
    queue.unplug(&mut plug, 2);
    complete(&mut queue, flush[0].0, Status::Ok, 3);
    let (mut cookies, _) = run_dry(&mut queue);
    cookies.sort_unstable();
    assert_eq!(cookies, [2, 3]);
}

#[test]
fn a_flush_that_waits_through_a_switch_is_known_to_the_new_policy() {
    let settings = settings(16, 8);
    let mut queue = queue(&settings);
    queue.add_group(GroupId(1), &GroupSettings::with_weight(300), 0);
    queue.submit(&bio(Operation::Flush, 0, 0), 1, 0).unwrap();
    let flush = start_all(&mut queue, 0);
    queue.submit(&Bio { group: GroupId(1), ..bio(Operation::Flush, 0, 0) }, 2, 0).unwrap();
    let next = hoistway_elevator::registry::build("wfq", None, &settings.configuration).unwrap();
    queue.switch(next, Handover::Carry, 1).unwrap();
    complete(&mut queue, flush[0].0, Status::Ok, 2);
    // wfq counts tags by group: its own check fails if a tag is returned that was never taken.
    assert_eq!(run_dry(&mut queue).0, [2]);
}

#[test]
fn a_request_merge_counts_as_a_merge_and_leaves_one_in_flight() {
    let mut queue = queue(&settings(16, 1));
    for (cookie, sector) in [(1, 100), (2, 116), (3, 108)] {
        queue.submit(&write(sector), cookie, 0).unwrap();
    }
    let sums = *queue.counters().of(hoistway_block::Operation::Write);
    // 108 merges into 100 at its end, then 100+16 and 116 become one.
    assert_eq!((sums.merges, sums.in_flight), (2, 1));
    let (_, commands) = run_dry(&mut queue);
    let sums = *queue.counters().of(hoistway_block::Operation::Write);
    assert_eq!((commands.len(), sums.ios, sums.sectors, sums.in_flight), (1, 1, 24, 0));
}

#[test]
fn multi_range_discards_join_without_being_adjacent() {
    let limits = Limits { max_discard_segments: 4, ..Limits::default() };
    let mut queue = queue(&Settings { limits, ..settings(16, 1) });
    for (cookie, sector) in [(1, 100), (2, 9000), (3, 5000)] {
        queue.submit(&bio(Operation::Discard, sector, 8), cookie, 0).unwrap();
    }
    queue.check().unwrap();
    assert_eq!(run_dry(&mut queue).0, [1, 2, 3]);
}
