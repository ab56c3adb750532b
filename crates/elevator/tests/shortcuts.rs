//! The combined calls that the kernel module makes, for every policy in every form: `insert_new`,
//! which gets a new request together with its attributes, and `completed_and_released`. Both must
//! have the effect of the separate calls.

use hoistway_block::random::Stream;
use hoistway_block::{Class, ContextId, Extent, Flags, GroupId, HardwareQueue, Operation, Priority, RequestId};
use hoistway_elevator::registry::{self, Visitor};
use hoistway_elevator::{
    Any, Attributes, Configuration, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, Version, Wake,
};
use std::fmt::Debug;

struct NewRequest<'a>(&'a Requests, RequestId, &'a Attributes, u64);

impl Visitor for NewRequest<'_> {
    type Answer = Wake;

    fn visit<E: Elevator>(self, policy: &mut E) -> Wake {
        policy.insert_new(self.0, self.1, self.2, self.3)
    }
}

struct End<'a>(&'a Requests, RequestId, u64);

impl Visitor for End<'_> {
    type Answer = Wake;

    fn visit<E: Elevator>(self, policy: &mut E) -> Wake {
        policy.completed_and_released(self.0, self.1, self.2)
    }
}

const GROUPS: u32 = 3;
const CONTEXTS: u32 = 6;

fn random_bio(random: &mut Stream, seed: u64) -> Attributes {
    let operation = if random.below(5) == 0 { Operation::Write } else { Operation::Read };
    let mut bio = Attributes::new(operation, Extent::new(random.below(1 << 22) * 8, 8));
    bio.context = ContextId(u32::try_from(random.below(1 + seed % 6)).expect("small"));
    bio.group = GroupId(bio.context.0 % GROUPS);
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

/// Two policies of the same form: the first gets the separate calls, the second the combined ones.
struct Pair {
    policies: [Any; 2],
    table: Requests,
    inside: Vec<RequestId>,
    now: u64,
    /// The case, for messages about failures.
    case: String,
}

impl Pair {
    fn new(name: &str, version: Version, seed: u64) -> Self {
        let rotational = seed.is_multiple_of(3);
        let configuration =
            Configuration { slots: 64, groups: GROUPS, contexts: CONTEXTS, rotational, ..Configuration::default() };
        let policies = [(); 2].map(|()| {
            let mut policy = registry::build(name, Some(version), &configuration).expect("a form of it");
            for group in 1..GROUPS {
                policy.group_added(GroupId(group), &GroupSettings::with_weight(100 * group), 0);
            }
            policy.trace(seed % 4 == 1);
            let lat_us = policy.tunables().iter().position(|row| row.name == "lat_us");
            if let (Some(index), 1) = (lat_us, seed % 3) {
                policy.set(index, 200).expect("in range");
            }
            policy
        });
        let table = Requests::try_new(configuration.slots).expect("memory");
        Self { policies, table, inside: Vec::new(), now: 1_000_000, case: format!("{name}@{version:?}, seed {seed}") }
    }

    /// Makes the same call on both policies, and requires the same answer. The closure's second
    /// argument is true for the policy that gets the combined calls.
    fn same<T: PartialEq + Debug>(&mut self, call: impl Fn(&mut Any, bool, &Requests, u64) -> T) -> T {
        let [long, short] = &mut self.policies;
        let answer = call(long, false, &self.table, self.now);
        assert_eq!(answer, call(short, true, &self.table, self.now), "{}, at {}", self.case, self.now);
        answer
    }

    fn insert(&mut self, bio: &Attributes) {
        let Some(id) = self.table.allocate_queued(*bio, self.now) else { return };
        self.same(|policy, _, table, now| policy.allocated(table, id, now));
        let _ = self.same(|policy, is_short, table, now| {
            if is_short {
                policy.visit(NewRequest(table, id, bio, now))
            } else {
                policy.insert(table, id, Position::Sorted(Hint::None), now)
            }
        });
    }

    /// False if there was no request.
    fn choose(&mut self) -> bool {
        let queue = HardwareQueue(0);
        let answer =
            self.same(|policy, _, table, now| policy.has_work(queue).then(|| policy.choose(table, queue, now)));
        let Some(Dispatch::Request { id, .. }) = answer else { return false };
        self.table.start(id, self.now);
        let _ = self.same(|policy, _, table, now| policy.started(table, id, now));
        self.inside.push(id);
        true
    }

    fn end(&mut self, at: usize) {
        let id = self.inside.swap_remove(at);
        self.table.take_back(id, Place::Complete);
        let _ = self.same(|policy, is_short, table, now| {
            if is_short {
                return policy.visit(End(table, id, now));
            }
            let completed = policy.completed(table, id, now);
            completed.and(policy.released(table, id, now))
        });
        self.same(|policy, _, table, now| policy.freed(table, id, now));
        self.table.free(id);
    }

    fn check(&mut self) {
        let found = self.same(|policy, _, table, _| (policy.check(table), policy.violations()));
        assert_eq!(found, (Ok(()), 0), "{}, at {}", self.case, self.now);
        for group in 0..GROUPS {
            self.same(|policy, _, _, _| policy.group_account(GroupId(group)));
        }
    }
}

fn both_agree(name: &str, version: Version, seed: u64) {
    let mut random = Stream::of(seed, "shortcuts");
    let mut pair = Pair::new(name, version, seed);
    for turn in 0..4_000 {
        pair.now += random.below(if seed.is_multiple_of(2) { 40_000 } else { 2_000_000 });
        if random.below(16) == 0 {
            let gone = ContextId(u32::try_from(random.below(u64::from(CONTEXTS))).expect("small"));
            let _ = pair.same(|policy, _, _, now| policy.context_exited(gone, now));
        }
        match random.below(5) {
            0 | 1 => pair.insert(&random_bio(&mut random, seed)),
            2 | 3 => {
                for _ in 0..4 {
                    if !pair.choose() {
                        break;
                    }
                }
            }
            _ if !pair.inside.is_empty() => {
                let at = usize::try_from(random.below(pair.inside.len() as u64)).expect("small");
                pair.end(at);
            }
            _ => {}
        }
        let timer = pair.same(|policy, _, _, _| policy.next_timer());
        if timer.is_some_and(|at| at <= pair.now) {
            let _ = pair.same(|policy, _, table, now| policy.timer(table, now));
        }
        pair.same(|policy, _, _, _| policy.take_message());
        if turn % 200 == 0 {
            pair.check();
        }
    }
}

#[test]
fn shortcuts_have_the_same_effect_as_the_general_path() {
    for entry in registry::ENTRIES {
        for version in entry.versions {
            for seed in 0..12 {
                both_agree(entry.name, *version, seed);
            }
        }
    }
}
