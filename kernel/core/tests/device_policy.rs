//! For every elevator of the module: whatever blk-mq does to requests, no state of them may be left
//! at the end.

use kernel::{Ask, Config, DevicePolicy, NONE, elevator_types};

fn config(policy: u32) -> Config {
    Config {
        policy,
        slots: 64,
        groups: 8,
        contexts: 8,
        requests: 64,
        device: 8,
        max_sectors: 1024,
        hardware_queues: 1,
        software_queues: 1,
        capacity_sectors: 1 << 20,
        seed: 1,
        rotational: 0,
        queueing: 1,
        version: 0,
    }
}

/// Runs a test under each elevator, with its number and name.
fn under_each(test: impl Fn(&mut DevicePolicy, &str)) {
    for (policy, elevator_type) in elevator_types().enumerate() {
        let mut device_policy = DevicePolicy::try_new(&config(u32::try_from(policy).unwrap())).unwrap();
        test(&mut device_policy, elevator_type.entry.name);
        let stats = device_policy.stats();
        assert_eq!(stats.faults, 0, "{}: {stats:?}", elevator_type.entry.name);
        device_policy.check().unwrap_or_else(|broken| panic!("{}: {broken:?}", elevator_type.entry.name));
    }
}

fn read(sector: u64) -> Ask {
    Ask { sector, sectors: 8, flags: 1, ..Ask::default() }
}

/// The next request; the timer is called if the elevator waits for it.
fn next(device_policy: &mut DevicePolicy, now: &mut u64) -> u32 {
    for _ in 0..100 {
        let action = device_policy.dispatch(0, *now);
        if action.kind == 1 {
            return action.id;
        }
        let timer_at = device_policy.state.shared.timer_at_ns.load(std::sync::atomic::Ordering::Relaxed);
        *now = if timer_at == u64::MAX { *now + 1_000_000 } else { timer_at.max(*now + 1) };
        device_policy.timer(*now);
    }
    panic!("nothing comes");
}

fn left(device_policy: &DevicePolicy) -> (u32, u64) {
    use std::sync::atomic::Ordering::Relaxed;
    (device_policy.state.shared.queued.load(Relaxed), device_policy.stats().in_driver)
}

#[test]
fn a_request_goes_through() {
    under_each(|device_policy, name| {
        let mut now = 1_000_000;
        for sector in [800, 80, 8000] {
            assert_ne!(device_policy.insert(NONE, &read(sector), 0, now), NONE, "{name}");
        }
        for _ in 0..3 {
            let id = next(device_policy, &mut now);
            device_policy.finish(id, now + 100_000);
            now += 100_000;
        }
        assert_eq!((left(device_policy), device_policy.stats().finished), ((0, 0), 3), "{name}");
    });
}

#[test]
fn what_was_allocated_and_never_inserted_is_forgotten() {
    under_each(|device_policy, name| {
        let id = device_policy.allocate(&read(0), 5);
        device_policy.finish(id, 6);
        assert_eq!((left(device_policy), device_policy.stats().finished), ((0, 0), 0), "{name}");
    });
}

#[test]
fn t20_a_requeued_request_is_sent_directly_or_through_the_elevator() {
    under_each(|device_policy, name| {
        let mut now = 1_000_000;
        device_policy.insert(NONE, &read(80), 0, now);
        let id = next(device_policy, &mut now);
        device_policy.requeue(id, now);
        assert_eq!(left(device_policy), (0, 0), "{name}");
        assert_eq!(device_policy.insert(id, &read(80), 1, now), id, "{name}: through it");
        assert_eq!(next(device_policy, &mut now), id, "{name}");
        device_policy.requeue(id, now);
        device_policy.finish(id, now + 10);
        assert_eq!((left(device_policy), device_policy.stats().finished), ((0, 0), 1), "{name}: round it");
    });
}

#[test]
fn an_absorbed_request_ends_without_service() {
    under_each(|device_policy, name| {
        let mut now = 1_000_000;
        let keep = device_policy.insert(NONE, &read(80), 0, now);
        let gone = device_policy.insert(NONE, &read(88), 0, now);
        device_policy.absorbed(keep, 16, gone, now);
        device_policy.finish(gone, now);
        assert_eq!(next(device_policy, &mut now), keep, "{name}");
        device_policy.finish(keep, now + 10);
        assert_eq!((left(device_policy), device_policy.stats().finished), ((0, 0), 1), "{name}");
    });
}

#[test]
fn t11_an_id_comes_back_after_its_last_request_and_its_last_child() {
    under_each(|device_policy, name| {
        let mut now = 1_000_000;
        let parent = device_policy.group_added(0, 100, now);
        let child = device_policy.group_added(parent, 300, now);
        let issuer = device_policy.context_added();
        assert!(parent != 0 && child != 0 && issuer != 0, "{name}");
        let ask = Ask { group: child, context: issuer, ..read(80) };
        let id = device_policy.allocate(&ask, now);
        assert_eq!(device_policy.insert(id, &ask, 0, now), id, "{name}");
        device_policy.context_exited(issuer, now);
        device_policy.group_offline(child, now);
        device_policy.group_offline(parent, now);
        assert_eq!(device_policy.stats().groups, 3, "{name}: its request is still about");
        assert_eq!(next(device_policy, &mut now), id, "{name}");
        device_policy.finish(id, now + 10);
        device_policy.release_group(now + 10);
        let stats = device_policy.stats();
        assert_eq!((stats.groups, stats.contexts), (1, 1), "{name}");
    });
}

#[test]
fn t12_without_a_free_id_the_shared_one_is_used_and_counted() {
    under_each(|device_policy, name| {
        let ids: Vec<u32> = (0..9).map(|_| device_policy.group_added(0, 100, 1)).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 0, 0], "{name}");
        assert_eq!(device_policy.stats().groups_refused, 2, "{name}");
    });
}

#[test]
fn t17_without_a_free_slot_insertion_returns_none() {
    under_each(|device_policy, name| {
        for sector in 0..64 {
            assert_ne!(device_policy.insert(NONE, &read(sector * 100), 0, 1), NONE, "{name}");
        }
        assert_eq!(device_policy.insert(NONE, &read(0), 0, 1), NONE, "{name}");
        let mut now = 2;
        while left(device_policy).0 != 0 {
            let id = next(device_policy, &mut now);
            now += 1000;
            device_policy.finish(id, now);
        }
        assert_eq!(left(device_policy), (0, 0), "{name}");
    });
}

/// Regression test for the crash that was reported in the mailing list's thread about nas
/// (docs/specifications/classic-elevators.md, section 5.6). The functions in nas's record were
/// shifted by one place, so that the content of a register was taken for the answer of the merge
/// function, and the queue stopped with "elevator returned crap". Here only the invalid code is
/// tested. A module whose C and Rust parts have different interface numbers is refused at insmod,
/// and a structure that is shifted against the kernel's is found at build time by
/// `kernel/layout_check`, whose self-test contains such a structure.
#[test]
fn ns15_an_invalid_code_is_counted_and_the_queue_keeps_running() {
    const INVALID: u32 = (-1_069_467_520_i32).cast_unsigned();
    for (policy, elevator_type) in elevator_types().enumerate() {
        let mut device_policy = DevicePolicy::try_new(&config(u32::try_from(policy).unwrap())).unwrap();
        let (name, mut now) = (elevator_type.entry.name, 1_000_000);
        let first = device_policy.insert(NONE, &read(800), 0, now);
        let odd = device_policy.insert(NONE, &read(8_000), INVALID, now);
        assert_eq!(device_policy.stats().faults, 1, "{name}");
        device_policy.bio_merged(first, INVALID, 800, 16, now);
        assert_eq!(device_policy.stats().faults, 2, "{name}");
        let last = device_policy.insert(NONE, &read(80_000), 0, now);
        let mut served = Vec::new();
        for _ in 0..3 {
            let id = next(&mut device_policy, &mut now);
            served.push(id);
            now += 100_000;
            device_policy.finish(id, now);
        }
        // In order of arrival and of sectors: the odd request is behind the first.
        if name == "nas" || name == "noop" {
            assert_eq!(served, [first, odd, last], "{name}");
        }
        served.sort_unstable();
        let mut all = [first, odd, last];
        all.sort_unstable();
        assert_eq!((served.as_slice(), left(&device_policy)), (&all[..], (0, 0)), "{name}");
        device_policy.check().unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
    }
}
