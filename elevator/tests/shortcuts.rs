//! What the kernel module calls for less, of every policy in every form: a newcomer with its attributes, an end in one call. Both do what
//! the long way does.

use block::random::Stream;
use block::{Class, ContextId, Extent, Flags, GroupId, HardwareQueue, Operation, Priority, RequestId};
use hoistway_elevator::registry::{self, Visitor};
use hoistway_elevator::{
    Any, Attributes, Configuration, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, Version, Wake,
};

struct Newcomer<'a>(&'a Requests, RequestId, &'a Attributes, u64);

impl Visitor for Newcomer<'_> {
    type Answer = Wake;

    fn visit<E: Elevator>(self, policy: &mut E) -> Wake {
        policy.insert_newcomer(self.0, self.1, self.2, self.3)
    }
}

struct End<'a>(&'a Requests, RequestId, u64);

impl Visitor for End<'_> {
    type Answer = Wake;

    fn visit<E: Elevator>(self, policy: &mut E) -> Wake {
        policy.completed_and_released(self.0, self.1, self.2)
    }
}

fn inserted(policy: &mut Any, is_short: bool, table: &Requests, id: RequestId, bio: &Attributes, now: u64) -> Wake {
    if is_short {
        policy.visited_by(Newcomer(table, id, bio, now))
    } else {
        policy.insert(table, id, Position::Sorted(Hint::None), now)
    }
}

fn ended(policy: &mut Any, is_short: bool, table: &Requests, id: RequestId, now: u64) -> Wake {
    if is_short {
        return policy.visited_by(End(table, id, now));
    }
    let completed = policy.completed(table, id, now);
    completed.and(policy.released(table, id, now))
}

fn random_bio(random: &mut Stream, seed: u64, groups: u32) -> Attributes {
    let operation = if random.below(5) == 0 { Operation::Write } else { Operation::Read };
    let mut bio = Attributes::new(operation, Extent::new(random.below(1 << 22) * 8, 8));
    bio.context = ContextId(u32::try_from(random.below(1 + seed % 6)).expect("small"));
    bio.group = GroupId(bio.context.0 % groups);
    bio.flags = if random.below(9) == 0 { Flags::META } else { Flags::NONE };
    if seed % 4 >= 2 {
        match random.below(12) {
            0 => bio.priority = Priority::new(Class::RealTime, 3),
            1 => bio.priority = Priority::new(Class::BestEffort, 6),
            2 => bio.priority = Priority::new(Class::Idle, 7),
            _ => {}
        }
    }
    bio
}

/// A random load under two of the same form, one by the shortcuts and one by the long way.
fn both_agree(name: &str, version: Version, seed: u64) {
    let case = |turn: u64| format!("{name}@{version:?}, seed {seed}, turn {turn}");
    let mut random = Stream::of(seed, "shortcuts");
    let groups = 3;
    let configuration = Configuration {
        slots: 64,
        groups,
        contexts: 6,
        rotational: seed.is_multiple_of(3),
        ..Configuration::default()
    };
    let mut pair = [(); 2].map(|()| registry::build(name, Some(version), &configuration).expect("a form of it"));
    for policy in &mut pair {
        for group in 1..groups {
            policy.group_added(GroupId(group), &GroupSettings::with_weight(100 * group), 0);
        }
        policy.trace(seed % 4 == 1);
        let lat_us = policy.tunables().iter().position(|row| row.name == "lat_us");
        if let (Some(index), 1) = (lat_us, seed % 3) {
            policy.set(index, 200).expect("in range");
        }
    }
    let mut table = Requests::try_new(configuration.slots).expect("memory");
    let (mut inside, mut now) = (Vec::new(), 1_000_000);
    for turn in 0..4_000 {
        now += random.below(if seed.is_multiple_of(2) { 40_000 } else { 2_000_000 });
        if random.below(16) == 0 {
            let gone = ContextId(u32::try_from(random.below(6)).expect("small"));
            let wakes = pair.each_mut().map(|policy| policy.context_exited(gone, now));
            assert_eq!(wakes[0], wakes[1], "{}", case(turn));
        }
        match random.below(5) {
            0 | 1 => {
                let bio = random_bio(&mut random, seed, groups);
                let Some(id) = table.allocate_queued(bio, now) else { continue };
                for policy in &mut pair {
                    policy.allocated(&table, id, now);
                }
                let wakes = [false, true]
                    .map(|is_short| inserted(&mut pair[usize::from(is_short)], is_short, &table, id, &bio, now));
                assert_eq!(wakes[0], wakes[1], "{}", case(turn));
            }
            2 | 3 => {
                for _ in 0..4 {
                    let answers = pair.each_mut().map(|policy| {
                        policy.has_work(HardwareQueue(0)).then(|| policy.choose(&table, HardwareQueue(0), now))
                    });
                    assert_eq!(answers[0], answers[1], "{}", case(turn));
                    let Some(Dispatch::Request { id, .. }) = answers[0] else { break };
                    table.start(id, now);
                    for policy in &mut pair {
                        let _ = policy.started(&table, id, now);
                    }
                    inside.push(id);
                }
            }
            _ if !inside.is_empty() => {
                let at = usize::try_from(random.below(inside.len() as u64)).expect("small");
                let id = inside.swap_remove(at);
                table.take_back(id, Place::Complete);
                let wakes =
                    [false, true].map(|is_short| ended(&mut pair[usize::from(is_short)], is_short, &table, id, now));
                assert_eq!(wakes[0], wakes[1], "{}", case(turn));
                for policy in &mut pair {
                    policy.freed(&table, id, now);
                }
                table.free(id);
            }
            _ => {}
        }
        let timers = pair.each_ref().map(Elevator::next_timer);
        assert_eq!(timers[0], timers[1], "{}", case(turn));
        if timers[0].is_some_and(|at| at <= now) {
            let wakes = pair.each_mut().map(|policy| policy.timer(&table, now));
            assert_eq!(wakes[0], wakes[1], "{}", case(turn));
        }
        let said = pair.each_mut().map(Elevator::take_message);
        assert_eq!(said[0], said[1], "{}", case(turn));
        if turn % 200 == 0 {
            for policy in &pair {
                assert_eq!((policy.check(&table), policy.violations()), (Ok(()), 0), "{}", case(turn));
            }
            for group in 0..groups {
                let accounts = pair.each_ref().map(|policy| policy.group_account(GroupId(group)));
                assert_eq!(accounts[0], accounts[1], "{}", case(turn));
            }
        }
    }
}

#[test]
fn shortcuts_do_what_the_long_way_does() {
    for entry in registry::ENTRIES {
        for version in entry.versions {
            for seed in 0..12 {
                both_agree(entry.name, *version, seed);
            }
        }
    }
}
