//! When the device is idled for a queue, and which queues cannot preempt it: cases 20 to 22, 25 and
//! 53 of docs/specifications/bfq.md, section 25.

use super::{FIRST, MARCH_2019, NEWEST, ROOT, Rig, SEPTEMBER_2018, WITH_WAKERS};
use crate::structures::NIL;
use alloc::vec::Vec;
use hoistway_block::time::MILLISECOND;
use hoistway_block::{Class, RequestId};

/// One request each of issuers 1, 2, ... with these levels, spread over time so that no queues are
/// merged.
fn busy_with(form: usize, levels: &[u8]) -> Rig {
    let mut rig = Rig::of(form, false, MILLISECOND);
    for (context, level) in (1..).zip(levels) {
        rig.submit_in(ROOT, context, *level);
        rig.pass(200 * MILLISECOND);
    }
    rig
}

/// For each issuer, whether the device is idled for its queue.
fn kept(rig: &Rig, issuers: u32) -> Vec<bool> {
    (1..=issuers).map(|context| rig.bfq.better_to_idle(rig.queue_of(context))).collect()
}

#[test]
fn t20_equals_are_not_waited_for_but_one_that_is_alone_is() {
    for form in [FIRST, MARCH_2019, WITH_WAKERS, NEWEST] {
        let mut rig = busy_with(form, &[4, 4]);
        assert_eq!(kept(&rig, 2), [false, false], "form {form}");
        for context in [1, 2] {
            let queue = rig.queue_of(context);
            rig.bfq.queues.at_mut(queue).seeks = crate::seeks::Seeks::of_history(u32::MAX);
        }
        assert_eq!(kept(&rig, 2), [false, false], "form {form}, seeky");
        let rig = busy_with(form, &[4]);
        assert_eq!(kept(&rig, 1), [form >= WITH_WAKERS], "form {form}, alone");
    }
}

#[test]
fn t21_weights_are_kept_but_for_the_lowest() {
    // Levels 2, 4 and 6 have weights 60, 40 and 20.
    for form in [MARCH_2019, WITH_WAKERS, NEWEST] {
        assert_eq!(kept(&busy_with(form, &[2, 6]), 2), [true, false], "form {form}");
        assert_eq!(kept(&busy_with(form, &[2, 4, 6]), 3), [true, true, false], "form {form}");
    }
    assert_eq!(kept(&busy_with(FIRST, &[2, 6]), 2), [true, true]);
}

#[test]
fn t21_a_weight_counts_as_long_as_a_request_is_in_the_device() {
    let mut rig = busy_with(NEWEST, &[2, 6]);
    let sixty = rig.queue_of(1);
    let mut held: Vec<RequestId> = Vec::new();
    while let Some(id) = rig.dispatch() {
        held.push(id);
    }
    // The device is idled for the queue with the larger weight, so the other's request stays
    // queued.
    assert_eq!((held.len(), rig.bfq.in_service), (1, sixty));
    assert!(rig.bfq.is_asymmetric(sixty));
    // Without the other queue there is no asymmetry.
    let mut rig = busy_with(NEWEST, &[2]);
    let queue = rig.queue_of(1);
    assert!(!rig.bfq.is_asymmetric(queue));
    let id = rig.dispatch().unwrap();
    rig.complete(id);
    assert!(rig.bfq.better_to_idle(queue), "it is alone");
}

#[test]
fn t22_groups_make_shares_a_matter_of_waiting() {
    for (form, one_group_does) in [(SEPTEMBER_2018, true), (MARCH_2019, true), (WITH_WAKERS, true), (NEWEST, false)] {
        let mut rig = Rig::of(form, false, MILLISECOND);
        rig.group(1, 100);
        rig.group(2, 100);
        rig.submit_in(1, 1, 4);
        assert_eq!(rig.bfq.is_asymmetric(rig.queue_of(1)), one_group_does, "form {form}, one group");
        rig.submit_in(2, 2, 4);
        for context in [1, 2] {
            assert!(rig.bfq.is_asymmetric(rig.queue_of(context)), "form {form}, two groups");
        }
        // A group, and a queue in the root.
        let mut rig = Rig::of(form, false, MILLISECOND);
        rig.group(1, 100);
        rig.submit_in(1, 1, 4);
        rig.submit_in(ROOT, 2, 4);
        assert!(rig.bfq.is_asymmetric(rig.queue_of(1)), "form {form}, a group and the root");
    }
}

#[test]
fn t25_without_slice_idle_the_device_is_idled_only_with_strict_guarantees() {
    let mut rig = busy_with(NEWEST, &[2, 6]);
    rig.bfq.settings.strict_guarantees = false;
    rig.bfq.change_setting(4, 0).unwrap();
    assert_eq!(rig.bfq.settings.slice_idle_ns(), 0);
    assert_eq!(kept(&rig, 2), [false, false]);
    // The switch (strict_guarantees) raises slice_idle; it is set to 0 again, so that only the
    // switch itself has an effect.
    rig.bfq.change_setting(8, 1).unwrap();
    rig.bfq.change_setting(4, 0).unwrap();
    assert_eq!(kept(&rig, 2), [true, true]);
    let idle = rig.queue_of_class(Class::Idle, 10, 16_384);
    assert!(rig.bfq.better_to_idle(idle));
    let issuer = rig.bfq.contexts.at_mut(7);
    (issuer.is_alive, issuer.group) = (true, ROOT);
    let asynchronous = rig.bfq.get_queue(7, false);
    assert!(rig.bfq.better_to_idle(asynchronous));
    // A queue without users is not idled for, although its group still references it.
    rig.bfq.leave_async_queue(7);
    rig.bfq.queues.at_mut(asynchronous).marks.clear(super::Marks::PINNED);
    assert!(!rig.bfq.better_to_idle(asynchronous));
    rig.bfq.queues.at_mut(asynchronous).marks.set(super::Marks::PINNED);
    rig.bfq.change_setting(8, 0).unwrap();
    assert!(!rig.bfq.better_to_idle(idle));
}

/// Two issuers with one request at a time each, on a device with 1 ms per request: A of weight 60,
/// B of 20.
struct Pair {
    rig: Rig,
    /// For A and B: when the request in flight completes.
    ends: [Option<(RequestId, u64)>; 2],
    places: u64,
}

impl Pair {
    fn submit(&mut self, who: usize) -> RequestId {
        self.places += 7_777_777;
        let (context, level) = [(1, 2), (2, 6)][who];
        let mut bio = crate::request::Bio::new(
            hoistway_block::Operation::Read,
            hoistway_block::Extent::new(self.places % 900_000_000, 8),
        );
        bio.context = hoistway_block::ContextId(context);
        bio.priority = hoistway_block::Priority::new(Class::BestEffort, level);
        self.rig.submit_bio(bio)
    }

    fn dispatch(&mut self) {
        while let Some(id) = self.rig.dispatch() {
            let who = usize::from(self.rig.requests.attributes(id).context.0 == 2);
            self.ends[who] = Some((id, self.rig.now + MILLISECOND));
        }
    }

    /// Processes the next completion and returns its issuer, which then sends another request at
    /// once.
    fn next(&mut self) -> usize {
        for _ in 0..100 {
            let first = (0..2).filter_map(|who| self.ends[who].map(|(id, at)| (at, who, id))).min();
            if let Some((at, who, id)) = first {
                self.rig.pass(at - self.rig.now);
                self.ends[who] = None;
                self.rig.complete(id);
                return who;
            }
            self.rig.pass(MILLISECOND);
            let _ = crate::interface::Elevator::timer(&mut self.rig.bfq, &self.rig.requests, self.rig.now);
            self.dispatch();
        }
        panic!("nothing moves");
    }
}

#[test]
fn t53_the_first_choice_of_the_trees_cannot_end_a_turn_that_goes_on() {
    let rig = Rig::of(NEWEST, false, 4 * MILLISECOND);
    let mut pair = Pair { rig, ends: [None; 2], places: 0 };
    pair.submit(0);
    pair.submit(1);
    pair.dispatch();
    let (a, b) = (pair.rig.queue_of(1), pair.rig.queue_of(2));
    // For each arrival of B in the steady state: whether A's turn went on although the trees would
    // have chosen B first.
    let mut held_off = Vec::new();
    for n in 0..1_500 {
        let who = pair.next();
        let was_a = pair.rig.bfq.in_service == a;
        pair.submit(who);
        if who == 1 && n > 500 {
            let bfq = &pair.rig.bfq;
            let tree = bfq.schedule.tree(super::super::schedule::tree_of(ROOT, Class::BestEffort));
            let is_first = bfq.schedule.first_eligible_beside(b).0 == b;
            let is_ahead = super::super::timestamps::is_later(bfq.schedule.stamps(a).starts, tree.vtime);
            held_off.push(was_a && bfq.in_service == a && is_first && is_ahead);
            assert!(was_a, "B arrives while A is served");
            assert!(bfq.in_service == a || bfq.in_service == NIL);
        }
        pair.dispatch();
    }
    // One of two arrivals ends A's turn; the other has to wait for its end.
    assert!(held_off.len() >= 12, "{} arrivals", held_off.len());
    let pairs: Vec<&[bool]> = held_off.chunks_exact(2).collect();
    assert!(pairs.iter().all(|pair| pair[0] != pair[1]), "{held_off:?}");

    // With bounded_hold, which fixes this, no turn goes on while an eligible queue would finish
    // first.
    pair.rig.bfq.settings.bounded_hold = true;
    for _ in 0..500 {
        let who = pair.next();
        pair.submit(who);
        if who == 1 {
            let bfq = &pair.rig.bfq;
            let tree = bfq.schedule.tree(super::super::schedule::tree_of(ROOT, Class::BestEffort));
            let is_first = bfq.schedule.first_eligible_beside(b).0 == b;
            let is_ahead = super::super::timestamps::is_later(bfq.schedule.stamps(a).starts, tree.vtime);
            assert!(!(bfq.in_service == a && is_first && is_ahead));
        }
        pair.dispatch();
    }
}
