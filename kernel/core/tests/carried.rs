//! Whatever blk-mq does to requests, nothing of them may be left at the end. For every elevator of
//! the module.

use kernel::{Ask, Carried, Config, NONE, offers};

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
fn under_each(test: impl Fn(&mut Carried, &str)) {
    for (policy, offer) in offers().enumerate() {
        let mut carried = Carried::try_new(&config(u32::try_from(policy).unwrap())).unwrap();
        test(&mut carried, offer.entry.name);
        let stats = carried.stats();
        assert_eq!(stats.faults, 0, "{}: {stats:?}", offer.entry.name);
        carried.check().unwrap_or_else(|broken| panic!("{}: {broken:?}", offer.entry.name));
    }
}

fn read(sector: u64) -> Ask {
    Ask { sector, sectors: 8, flags: 1, ..Ask::default() }
}

/// The next request; the timer is called if the elevator waits for it.
fn next(carried: &mut Carried, now: &mut u64) -> u32 {
    for _ in 0..100 {
        let action = carried.dispatch(0, *now);
        if action.kind == 1 {
            return action.id;
        }
        let timer_at = carried.books.shared.timer_at_ns.load(std::sync::atomic::Ordering::Relaxed);
        *now = if timer_at == u64::MAX { *now + 1_000_000 } else { timer_at.max(*now + 1) };
        carried.timer(*now);
    }
    panic!("nothing comes");
}

fn left(carried: &Carried) -> (u32, u64) {
    use std::sync::atomic::Ordering::Relaxed;
    (carried.books.shared.queued.load(Relaxed), carried.stats().in_driver)
}

#[test]
fn a_request_goes_through() {
    under_each(|carried, name| {
        let mut now = 1_000_000;
        for sector in [800, 80, 8000] {
            assert_ne!(carried.insert(NONE, &read(sector), 0, now), NONE, "{name}");
        }
        for _ in 0..3 {
            let id = next(carried, &mut now);
            carried.finish(id, now + 100_000);
            now += 100_000;
        }
        assert_eq!((left(carried), carried.stats().finished), ((0, 0), 3), "{name}");
    });
}

#[test]
fn what_was_allocated_and_never_inserted_is_forgotten() {
    under_each(|carried, name| {
        let id = carried.allocate(&read(0), 5);
        carried.finish(id, 6);
        assert_eq!((left(carried), carried.stats().finished), ((0, 0), 0), "{name}");
    });
}

#[test]
fn t20_a_driver_gives_back_and_blk_mq_goes_round_the_elevator_or_through_it() {
    under_each(|carried, name| {
        let mut now = 1_000_000;
        carried.insert(NONE, &read(80), 0, now);
        let id = next(carried, &mut now);
        carried.requeue(id, now);
        assert_eq!(left(carried), (0, 0), "{name}");
        assert_eq!(carried.insert(id, &read(80), 1, now), id, "{name}: through it");
        assert_eq!(next(carried, &mut now), id, "{name}");
        carried.requeue(id, now);
        carried.finish(id, now + 10);
        assert_eq!((left(carried), carried.stats().finished), ((0, 0), 1), "{name}: round it");
    });
}

#[test]
fn an_absorbed_request_ends_without_service() {
    under_each(|carried, name| {
        let mut now = 1_000_000;
        let keep = carried.insert(NONE, &read(80), 0, now);
        let gone = carried.insert(NONE, &read(88), 0, now);
        carried.absorbed(keep, 16, gone, now);
        carried.finish(gone, now);
        assert_eq!(next(carried, &mut now), keep, "{name}");
        carried.finish(keep, now + 10);
        assert_eq!((left(carried), carried.stats().finished), ((0, 0), 1), "{name}");
    });
}

#[test]
fn t11_an_id_comes_back_after_its_last_request_and_its_last_child() {
    under_each(|carried, name| {
        let mut now = 1_000_000;
        let parent = carried.group_added(0, 100, now);
        let child = carried.group_added(parent, 300, now);
        let issuer = carried.context_added();
        assert!(parent != 0 && child != 0 && issuer != 0, "{name}");
        let ask = Ask { group: child, context: issuer, ..read(80) };
        let id = carried.allocate(&ask, now);
        assert_eq!(carried.insert(id, &ask, 0, now), id, "{name}");
        carried.context_exited(issuer, now);
        carried.group_offline(child, now);
        carried.group_offline(parent, now);
        assert_eq!(carried.stats().groups, 3, "{name}: its request is still about");
        assert_eq!(next(carried, &mut now), id, "{name}");
        carried.finish(id, now + 10);
        carried.bury_group(now + 10);
        let stats = carried.stats();
        assert_eq!((stats.groups, stats.contexts), (1, 1), "{name}");
    });
}

#[test]
fn t12_whoever_finds_no_id_shares_the_first_and_is_counted() {
    under_each(|carried, name| {
        let ids: Vec<u32> = (0..9).map(|_| carried.group_added(0, 100, 1)).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 0, 0], "{name}");
        assert_eq!(carried.stats().groups_refused, 2, "{name}");
    });
}

#[test]
fn t17_without_a_free_slot_the_glue_is_told_so() {
    under_each(|carried, name| {
        for sector in 0..64 {
            assert_ne!(carried.insert(NONE, &read(sector * 100), 0, 1), NONE, "{name}");
        }
        assert_eq!(carried.insert(NONE, &read(0), 0, 1), NONE, "{name}");
        let mut now = 2;
        while left(carried).0 != 0 {
            let id = next(carried, &mut now);
            now += 1000;
            carried.finish(id, now);
        }
        assert_eq!(left(carried), (0, 0), "{name}");
    });
}

/// Regression test: the crash in the nas thread was an invalid merge code: `elevator_merge`
/// returned the content of a register, and the queue stopped with "elevator returned crap". A
/// shifted table is refused at insmod by its number, and at build time by `kernel/layout_check`,
/// whose self-test plants one.
#[test]
fn ns15_a_code_that_nobody_gave_is_counted_and_the_queue_keeps_running() {
    const CRAP: u32 = (-1_069_467_520_i32).cast_unsigned();
    for (policy, offer) in offers().enumerate() {
        let mut carried = Carried::try_new(&config(u32::try_from(policy).unwrap())).unwrap();
        let (name, mut now) = (offer.entry.name, 1_000_000);
        let first = carried.insert(NONE, &read(800), 0, now);
        let odd = carried.insert(NONE, &read(8_000), CRAP, now);
        assert_eq!(carried.stats().faults, 1, "{name}");
        carried.bio_merged(first, CRAP, 800, 16, now);
        assert_eq!(carried.stats().faults, 2, "{name}");
        let last = carried.insert(NONE, &read(80_000), 0, now);
        let mut served = Vec::new();
        for _ in 0..3 {
            let id = next(&mut carried, &mut now);
            served.push(id);
            now += 100_000;
            carried.finish(id, now);
        }
        // In order of arrival and of sectors: the odd request is behind the first.
        if name == "nas" || name == "noop" {
            assert_eq!(served, [first, odd, last], "{name}");
        }
        served.sort_unstable();
        let mut all = [first, odd, last];
        all.sort_unstable();
        assert_eq!((served.as_slice(), left(&carried)), (&all[..], (0, 0)), "{name}");
        carried.check().unwrap_or_else(|broken| panic!("{name}: {broken:?}"));
    }
}
