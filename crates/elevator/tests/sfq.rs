//! sfq, sfq-d2, mqfq: what each adds to start-time fair queueing. The properties that they share
//! with wfq are tested as in `tests/wfq.rs`: shares by weight and level, and random calls.

use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId, random::Stream};
use hoistway_elevator::{
    Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, registry,
};

const FAMILY: [&str; 3] = ["sfq", "sfq-d2", "mqfq"];

/// A policy, called directly instead of through a request queue. Requests stay in flight until
/// `end` completes them.
struct Driven {
    policy: Any,
    requests: Requests,
    inside: Vec<RequestId>,
    now: Nanos,
    sector: u64,
}

impl Driven {
    fn new(policy: &str, settings: &[(&str, i64)], groups: &[(u32, u32, u32)]) -> Self {
        let depth = Depth { requests: 4096, device: 32 };
        let configuration = Configuration { slots: 4096, depth, ..Configuration::default() };
        let mut policy = registry::build(policy, None, &configuration).expect("registered");
        for (name, value) in settings {
            let row = policy.tunables().iter().position(|row| row.name == *name).expect("a tunable");
            policy.set(row, *value).expect("in range");
        }
        for &(group, parent, weight) in groups {
            let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(weight) };
            policy.group_added(GroupId(group), &settings, 0);
        }
        let requests = Requests::try_new(configuration.slots).expect("memory");
        Self { policy, requests, inside: Vec::new(), now: 1_000_000, sector: 0 }
    }

    fn insert(&mut self, group: u32, sectors: u32) {
        self.insert_of(group, group, sectors);
    }

    fn insert_of(&mut self, context: u32, group: u32, sectors: u32) {
        self.sector += 100_000;
        let mut bio = Attributes::new(Operation::Read, Extent::new(self.sector, sectors));
        (bio.group, bio.context) = (GroupId(group), ContextId(context));
        let id = self.requests.allocate(bio, self.now).expect("a slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
    }

    /// Dispatches what may go. Returns the group of each request.
    fn send(&mut self) -> Vec<u32> {
        let mut sent = Vec::new();
        while self.policy.has_work(HardwareQueue(0)) {
            let answer = self.policy.choose(&self.requests, HardwareQueue(0), self.now);
            let Dispatch::Request { id, .. } = answer else { break };
            self.requests.move_to(id, Place::Dispatched);
            self.requests.move_to(id, Place::Started);
            self.inside.push(id);
            sent.push(self.requests.attributes(id).group.0);
        }
        sent
    }

    /// Completes the oldest request in flight. Returns its group.
    fn end(&mut self) -> u32 {
        let id = self.inside.remove(0);
        self.requests.move_to(id, Place::Complete);
        let group = self.requests.attributes(id).group.0;
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.free(id);
        group
    }

    /// Closed loop: each group keeps a number of requests outstanding for `completions`
    /// completions. Returns the service of each.
    fn loops(&mut self, groups: &[(u32, u32)], completions: u32) -> Vec<u32> {
        for &(group, depth) in groups {
            (0..depth).for_each(|_| self.insert(group, 8));
        }
        let mut got = vec![0; groups.len()];
        for _ in 0..completions {
            let _ = self.send();
            self.now += 10_000;
            let group = self.end();
            got[groups.iter().position(|known| known.0 == group).expect("a group")] += 1;
            self.insert(group, 8);
        }
        self.policy.check(&self.requests).expect("invariants");
        assert_eq!(self.policy.violations() + self.requests.violations(), 0);
        got
    }
}

fn ratio(got: &[u32]) -> f64 {
    f64::from(got[1]) / f64::from(got[0])
}

#[test]
fn backlogged_groups_share_by_weight_under_each_rule() {
    for policy in FAMILY {
        let mut driven = Driven::new(policy, &[], &[(1, 0, 100), (2, 0, 800)]);
        let got = driven.loops(&[(1, 64), (2, 64)], 9_000);
        assert!((ratio(&got) - 8.0).abs() < 0.2, "{policy}: {got:?}");
    }
}

#[test]
fn no_more_than_the_depth_are_inside() {
    for (depth, inside) in [(5, 5), (0, 32), (100, 32)] {
        let mut driven = Driven::new("sfq", &[("depth", depth)], &[(1, 0, 100)]);
        (0..40).for_each(|_| driven.insert(1, 8));
        assert_eq!(driven.send().len(), inside);
        driven.end();
        assert_eq!(driven.send().len(), 1, "one for one");
    }
}

#[test]
fn a_smaller_depth_gives_shallower_tenants_their_shares() {
    // Each tenant has 8 requests outstanding. With depth 32 all are in flight, and the policy has
    // no choice. With depth 8, shares of 3 : 1 need 6 requests of the heavy tenant in flight, which
    // it has.
    for (depth, expected, within) in [(32, 1.0, 0.05), (8, 3.0, 0.1)] {
        let mut driven = Driven::new("sfq", &[("depth", depth)], &[(1, 0, 20), (2, 0, 60)]);
        let got = driven.loops(&[(1, 8), (2, 8)], 4_000);
        assert!((ratio(&got) - expected).abs() < within, "depth {depth}: {got:?}");
    }
}

#[test]
fn only_mqfq_remembers_a_tenant_whose_requests_are_all_in_flight() {
    for (policy, expected) in [("sfq", 1.0), ("mqfq", 3.0)] {
        let mut driven = Driven::new(policy, &[], &[(1, 0, 20), (2, 0, 60)]);
        let got = driven.loops(&[(1, 4), (2, 4)], 4_000);
        assert!((ratio(&got) - expected).abs() < 0.05, "{policy}: {got:?}");
    }
}

#[test]
fn a_tenant_that_completed_its_requests_is_waited_for_wait_us() {
    let mut driven = Driven::new("mqfq", &[("wait_us", 50)], &[(1, 0, 100), (2, 0, 100)]);
    driven.insert(1, 8);
    driven.insert(2, 8);
    assert_eq!(driven.send(), [1, 2]);
    driven.insert(2, 8);
    assert_eq!(driven.send(), [2], "level with the one inside");
    driven.insert(2, 8);
    assert!(driven.send().is_empty(), "ahead of it");
    assert_eq!(driven.end(), 1);
    assert!(driven.send().is_empty());
    let until = driven.policy.next_timer().expect("a timer");
    assert_eq!(until, driven.now + 50_000);
    driven.now = until;
    let _ = driven.policy.timer(&driven.requests, until);
    assert_eq!(driven.send(), [2]);
}

/// mqfq waits for the next request of an issuer that has just completed its requests. Such an
/// issuer keeps its start tag only in its group: in another group the tag could be smaller than the
/// virtual time there.
#[test]
fn an_issuer_that_moves_to_another_group_while_it_is_waited_for_is_a_newcomer_there() {
    // With a large lead the group that is waited for holds no other group back, and tags alone decide.
    let mut driven = Driven::new("mqfq", &[("lead", 1_048_576)], &[(1, 0, 100)]);
    for _ in 0..100 {
        driven.insert_of(1, 0, 8);
        driven.send();
        driven.end();
    }
    driven.insert_of(2, 1, 8);
    driven.send();
    driven.end();
    for _ in 0..20 {
        driven.insert_of(1, 0, 8);
        driven.insert_of(2, 0, 8);
    }
    driven.send();
    let contexts = driven.inside.iter().map(|id| driven.requests.attributes(*id).context.0);
    let of_first = contexts.take(20).filter(|context| *context == 1).count();
    assert!((9..=11).contains(&of_first), "{of_first} of 20");
}

#[test]
fn a_permitted_lead_is_used_up() {
    let mut driven = Driven::new("mqfq", &[("lead", 80)], &[(1, 0, 100), (2, 0, 100)]);
    driven.insert(1, 8);
    assert_eq!(driven.send(), [1]);
    (0..40).for_each(|_| driven.insert(2, 8));
    // Group 2 begins one request behind group 1. So it may send one request to be level with group
    // 1, one more to be in front, and ten more for the lead of 80 sectors: 12 in all.
    assert_eq!(driven.send().len(), 12);
}

#[test]
fn shares_multiply_over_levels() {
    for policy in FAMILY {
        let mut driven = Driven::new(policy, &[], &[(1, 0, 300), (2, 0, 100), (3, 1, 100), (4, 1, 200)]);
        let got = driven.loops(&[(3, 64), (4, 64), (2, 64)], 8_000);
        for (got, expected) in got.iter().zip([0.25, 0.5, 0.25]) {
            assert!((f64::from(*got) / 8_000.0 - expected).abs() < 0.01, "{policy}: {got}");
        }
    }
}

#[test]
fn random_churn_keeps_every_invariant() {
    for policy in FAMILY {
        for seed in 0..6 {
            let mut random = Stream::of(seed, "sfq/churn");
            let mut driven = Driven::new(policy, &[], &[(1, 0, 100), (2, 0, 700), (3, 2, 50), (4, 0, 50)]);
            for step in 0..5_000 {
                driven.now += random.below(40_000);
                match random.below(9) {
                    0..4 => driven.insert(u32::try_from(random.below(5)).expect("small"), 8 << random.below(6)),
                    4 if !driven.inside.is_empty() => {
                        let id = driven.inside.remove(0);
                        driven.requests.move_to(id, Place::Queued);
                        let _ = driven.policy.requeued(&driven.requests, id, driven.now);
                        let _ = driven.policy.insert(&driven.requests, id, Position::Requeue, driven.now);
                    }
                    5 => {
                        let _ = driven.policy.context_exited(ContextId(1), driven.now);
                    }
                    _ if driven.inside.is_empty() => drop(driven.send()),
                    _ => drop(driven.end()),
                }
                if step % 50 == 0 {
                    let checked = driven.policy.check(&driven.requests);
                    checked.unwrap_or_else(|broken| panic!("{policy} seed {seed} step {step}: {broken:?}"));
                }
            }
            assert_eq!(driven.policy.violations() + driven.requests.violations(), 0, "{policy} seed {seed}");
        }
    }
}
