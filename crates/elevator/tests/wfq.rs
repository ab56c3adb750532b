//! wfq: shares by weight, work conservation, no credit for idleness, and invariants under random
//! calls.

use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Operation, RequestId, random::Stream};
use hoistway_elevator::{
    Admission, Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position,
    Requests, registry,
};

/// wfq with the table of requests, called directly instead of through a request queue.
struct Driven {
    wfq: Any,
    requests: Requests,
    next_sector: u64,
}

impl Driven {
    fn new(groups: &[(u32, u32, u32)]) -> Self {
        let configuration = Configuration { slots: 4096, ..Configuration::default() };
        let mut wfq = registry::build("wfq", None, &configuration).expect("wfq");
        for &(group, parent, weight) in groups {
            let settings = GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(weight) };
            wfq.group_added(GroupId(group), &settings, 0);
        }
        Self { wfq, requests: Requests::try_new(configuration.slots).expect("memory"), next_sector: 0 }
    }

    fn insert(&mut self, group: u32, context: u32, sectors: u32) -> RequestId {
        self.next_sector += 100_000;
        let mut bio = Attributes::new(Operation::Read, Extent::new(self.next_sector, sectors));
        bio.group = GroupId(group);
        bio.context = ContextId(context);
        let id = self.requests.allocate(bio, 0).expect("a slot");
        self.wfq.allocated(&self.requests, id, 0);
        self.requests.move_to(id, Place::Queued);
        let wake = self.wfq.insert(&self.requests, id, Position::Sorted(Hint::None), 0);
        assert!(wake.is_wanted());
        id
    }

    /// Serves one request. Returns its group, context and sectors.
    fn serve(&mut self) -> Option<(u32, u32, u32)> {
        let Dispatch::Request { id, .. } = self.wfq.choose(&self.requests, HardwareQueue(0), 0) else { return None };
        let served = *self.requests.attributes(id);
        for place in [Place::Dispatched, Place::Started, Place::Complete] {
            self.requests.move_to(id, place);
        }
        let _ = self.wfq.completed(&self.requests, id, 0);
        let _ = self.wfq.released(&self.requests, id, 0);
        self.wfq.freed(&self.requests, id, 0);
        self.requests.free(id);
        Some((served.group.0, served.context.0, served.extent.sectors))
    }

    /// Serves `count` requests while every flow (group, context, sectors) stays backlogged. Returns
    /// the sectors of each flow.
    fn saturate(&mut self, flows: &[(u32, u32, u32)], count: usize) -> Vec<u64> {
        for &(group, context, sectors) in flows {
            for _ in 0..4 {
                self.insert(group, context, sectors);
            }
        }
        let mut got = vec![0_u64; flows.len()];
        for _ in 0..count {
            let (group, context, sectors) = self.serve().expect("backlogged");
            let at = flows.iter().position(|flow| (flow.0, flow.1) == (group, context)).expect("a known flow");
            got[at] += u64::from(sectors);
            self.insert(group, context, sectors);
        }
        self.wfq.check(&self.requests).expect("invariants");
        got
    }
}

fn ratio(got: &[u64]) -> f64 {
    got[1] as f64 / got[0] as f64
}

fn assert_shares(got: &[u64], expected: &[f64]) {
    let total: u64 = got.iter().sum();
    for (sectors, expected) in got.iter().zip(expected) {
        assert!((*sectors as f64 / total as f64 - expected).abs() < 0.005, "{got:?} against {expected}");
    }
}

#[test]
fn backlogged_groups_share_by_weight() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 800)]);
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 8)], 9000);
    // 9,000 requests at 1:8 are 1,000 and 8,000, to within one request of each.
    assert!((ratio(&got) - 8.0).abs() < 0.02, "{got:?}");
}

#[test]
fn shares_are_of_bytes_whatever_the_sizes() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 100)]);
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 256)], 20_000);
    assert!((ratio(&got) - 1.0).abs() < 0.02, "{got:?}");
}

#[test]
fn a_large_request_cost_shares_requests_instead() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 100)]);
    let row = driven.wfq.tunables().iter().position(|row| row.name == "request_cost").expect("the row");
    driven.wfq.set(row, 1_000_000).expect("in range");
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 256)], 20_000);
    assert!((ratio(&got) - 32.0).abs() < 0.5, "256 / 8 sectors at equal numbers: {got:?}");
}

#[test]
fn issuers_of_a_group_share_it_equally_and_it_keeps_its_share() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 100)]);
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 8), (2, 3, 8), (2, 4, 8)], 12_000);
    assert_shares(&got, &[0.5, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]);
}

#[test]
fn nested_groups_share_what_their_parent_gets() {
    // Root: 1 (300) and 2 (100); below 1: 3 (100) and 4 (200). So groups 3, 4 and 2 get 1/4, 1/2
    // and 1/4.
    let mut driven = Driven::new(&[(1, 0, 300), (2, 0, 100), (3, 1, 100), (4, 1, 200)]);
    let got = driven.saturate(&[(3, 1, 8), (4, 2, 8), (2, 3, 8)], 12_000);
    assert_shares(&got, &[0.25, 0.5, 0.25]);
}

#[test]
fn weights_at_both_ends_of_the_range_hold() {
    let mut driven = Driven::new(&[(1, 0, 1), (2, 0, 10_000)]);
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 8)], 100_010);
    // 10 requests of the light group in 100,010, one more or less at the edges.
    assert!((9..=11).contains(&(got[0] / 8)), "{got:?}");
}

#[test]
fn a_group_alone_gets_everything_at_once() {
    let mut driven = Driven::new(&[(1, 0, 1), (2, 0, 10_000)]);
    for _ in 0..10 {
        driven.insert(1, 1, 8);
    }
    for _ in 0..10 {
        assert_eq!(driven.serve(), Some((1, 1, 8)));
    }
    assert_eq!(driven.serve(), None);
}

#[test]
fn idleness_earns_no_credit() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 100)]);
    driven.saturate(&[(1, 1, 8)], 5000);
    // Group 2 was idle during 5,000 requests of group 1: from now on it gets half, not the next
    // 5,000.
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 8)], 1000);
    assert!((ratio(&got) - 1.0).abs() < 0.05, "{got:?}");
}

#[test]
fn a_late_riser_waits_for_one_request_of_each_sibling_at_most() {
    let mut driven = Driven::new(&[(1, 0, 800), (2, 0, 800), (3, 0, 100)]);
    driven.saturate(&[(1, 1, 8), (2, 2, 8)], 1000);
    driven.insert(3, 3, 8);
    let position = (0..16).position(|_| driven.serve().expect("backlogged").0 == 3).expect("served");
    assert!(position <= 2, "behind {position} others");
}

#[test]
fn a_changed_weight_counts_from_the_next_request() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 300)]);
    driven.saturate(&[(1, 1, 8), (2, 2, 8)], 4000);
    let _ = driven.wfq.group_changed(GroupId(2), &GroupSettings::with_weight(100), 0);
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 8)], 4000);
    assert!((ratio(&got) - 1.0).abs() < 0.01, "{got:?}");
}

#[test]
fn a_reused_group_id_neither_starves_others_nor_is_starved() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 100)]);
    driven.saturate(&[(1, 1, 8), (2, 2, 8)], 4000);
    while driven.serve().is_some() {}
    driven.wfq.group_offline(GroupId(2), 0);
    driven.wfq.group_removed(GroupId(2), 0);
    driven.wfq.group_added(GroupId(2), &GroupSettings::with_weight(200), 0);
    let got = driven.saturate(&[(1, 1, 8), (2, 2, 8)], 3000);
    assert!((ratio(&got) - 2.0).abs() < 0.02, "{got:?}");
}

#[test]
fn a_head_insert_goes_before_the_issuers_others() {
    let mut driven = Driven::new(&[(1, 0, 100)]);
    for sectors in [8, 16, 24] {
        driven.insert(1, 1, sectors);
    }
    let mut bio = Attributes::new(Operation::Write, Extent::new(7, 32));
    (bio.group, bio.context) = (GroupId(1), ContextId(1));
    let id = driven.requests.allocate(bio, 0).expect("a slot");
    driven.wfq.allocated(&driven.requests, id, 0);
    driven.requests.move_to(id, Place::Queued);
    let _ = driven.wfq.insert(&driven.requests, id, Position::Head, 0);
    let served: Vec<u32> = (0..4).map(|_| driven.serve().expect("queued").2).collect();
    assert_eq!(served, [32, 8, 16, 24]);
}

#[test]
fn a_group_over_its_share_of_tags_waits_for_its_own() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 300)]);
    driven.wfq.depth_changed(Depth { requests: 40, device: 8 });
    let mut bio = Attributes::new(Operation::Read, Extent::new(0, 8));
    bio.group = GroupId(1);
    for held in 0..12 {
        assert_eq!(driven.wfq.admit(&bio, 0), Admission::Full, "alone, {held} held");
        driven.insert(1, 1, 8);
    }
    driven.insert(2, 2, 8);
    // Both hold tags now: Group 1 is due 100/400 of 40 tags, which are 10, and holds 12.
    assert_eq!(driven.wfq.admit(&bio, 0), Admission::Shallow(1));
    bio.group = GroupId(2);
    assert_eq!(driven.wfq.admit(&bio, 0), Admission::Full);
}

#[test]
fn children_share_the_tags_of_their_parent() {
    // Root: 1 (100) and 2 (100); below 1: 3 (300) and 4 (100). Of 40 tags, 3 may hold 15 and 4 may
    // hold 5.
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 100), (3, 1, 300), (4, 1, 100)]);
    driven.wfq.depth_changed(Depth { requests: 40, device: 8 });
    driven.insert(2, 9, 8);
    driven.insert(4, 8, 8);
    let mut bio = Attributes::new(Operation::Read, Extent::new(0, 8));
    bio.group = GroupId(3);
    let held = (0..40).take_while(|_| {
        let admitted = driven.wfq.admit(&bio, 0) == Admission::Full;
        if admitted {
            driven.insert(3, 7, 8);
        }
        admitted
    });
    assert_eq!(held.count(), 15);
    driven.wfq.check(&driven.requests).expect("invariants");
}

#[test]
fn a_context_that_changes_group_while_busy_is_charged_to_each_for_its_own() {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 300)]);
    let got = driven.saturate(&[(1, 7, 8), (2, 7, 8)], 4000);
    assert!((ratio(&got) - 3.0).abs() < 0.02, "{got:?}");
}

#[test]
fn random_churn_keeps_every_invariant() {
    for seed in 0..20 {
        let mut random = Stream::of(seed, "wfq/churn");
        let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 700), (3, 2, 50), (4, 2, 50)]);
        let mut inside = 0_u32;
        for step in 0..20_000 {
            if inside < 300 && random.chance(1, 2) {
                let [group, context, shift] =
                    [5, 12, 6].map(|bound| u32::try_from(random.below(bound)).expect("small"));
                driven.insert(group, context, 8 << shift);
                inside += 1;
            } else if driven.serve().is_some() {
                inside -= 1;
            } else {
                assert_eq!(inside, 0, "seed {seed} step {step}: work is left");
            }
            if step % 50 == 0 {
                let checked = driven.wfq.check(&driven.requests);
                checked.unwrap_or_else(|broken| panic!("seed {seed} step {step}: {broken:?}"));
            }
        }
        assert_eq!(driven.wfq.violations() + driven.requests.violations(), 0, "seed {seed}");
    }
}

/// Issuer 1 of group 1 has been served once and has another request queued. Returns how many
/// requests of issuer 2, which `ask` sends one at a time, are served before that request.
fn passed_by_one_that_comes_and_goes(mut ask: impl FnMut(&mut Driven, u32)) -> u32 {
    let mut driven = Driven::new(&[(1, 0, 100), (2, 0, 100)]);
    driven.insert(1, 1, 8);
    driven.insert(1, 1, 8);
    assert_eq!(driven.serve(), Some((1, 1, 8)));
    for passed in 0..100 {
        ask(&mut driven, passed);
        if driven.serve().is_some_and(|(_, context, _)| context == 1) {
            return passed;
        }
    }
    100
}

#[test]
fn an_issuer_that_turns_to_another_group_and_comes_back_has_to_pay_first() {
    let passed = passed_by_one_that_comes_and_goes(|driven, turn| {
        driven.insert(1 + turn % 2, 2, 8);
    });
    // Issuer 2 is served once in each group. When it comes back to group 1, its next request has a
    // larger start tag than issuer 1's.
    assert_eq!(passed, 2);
}

#[test]
fn an_issuer_that_exits_behind_each_request_leaves_its_tag_to_the_next() {
    let passed = passed_by_one_that_comes_and_goes(|driven, _| {
        let _ = driven.wfq.context_exited(ContextId(2), 0);
        driven.insert(1, 2, 8);
    });
    assert_eq!(passed, 1);
}
