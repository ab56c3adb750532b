//! Budgets, think times, the device's depth and the injection limit: cases 15, 28, 29 and 39 of
//! docs/specifications/bfq.md, section 25.

use super::super::budget::TurnEnd;
use super::super::state::{Marks, ThinkTime};
use super::{ROOT, Rig};
use crate::structures::NIL;
use hoistway_block::time::{MICROSECOND, MILLISECOND};
use hoistway_block::{Nanos, RequestId};

/// The budget learned from a turn with these results, starting from 10922.
fn learned(end: TurnEnd, service: u32, in_device: u32, factor: u32) -> u32 {
    let mut rig = Rig::on_flash();
    let queue = rig.queue(ROOT, 40, 10_922);
    let state = rig.bfq.queues.at_mut(queue);
    (state.dispatched, state.raising.factor) = (in_device, factor);
    rig.bfq.schedule.entity_mut(queue).service = service;
    rig.bfq.learn_budget(queue, end);
    rig.bfq.queues.at(queue).max_budget
}

#[test]
fn t15_how_turns_end_makes_budgets() {
    assert_eq!(learned(TurnEnd::BudgetExhausted, 10_922, 0, 1), 16_384);
    assert_eq!(learned(TurnEnd::BudgetTimeout, 5_000, 0, 1), 16_384);
    assert_eq!(learned(TurnEnd::TooIdle, 8, 0, 1), 8_874);
    assert_eq!(learned(TurnEnd::TooIdle, 8, 1, 1), 16_384);
    assert_eq!(learned(TurnEnd::NoMoreRequests, 8, 0, 1), 512);
    assert_eq!(learned(TurnEnd::NoMoreRequests, 3_000, 0, 1), 3_000);
    assert_eq!(learned(TurnEnd::Preempted, 8, 0, 1), 10_922);
    let ends = [TurnEnd::BudgetExhausted, TurnEnd::BudgetTimeout, TurnEnd::TooIdle, TurnEnd::NoMoreRequests];
    for end in ends.into_iter().chain([TurnEnd::Preempted]) {
        assert_eq!(learned(end, 8, 0, 30), 1_024, "{end:?}");
    }
}

#[test]
fn t15_too_idle_down_to_the_least() {
    let mut rig = Rig::on_flash();
    let queue = rig.queue(ROOT, 40, 16_384);
    for expected in [14_336, 12_288, 10_240, 8_192, 6_144, 4_096, 2_048, 512, 512] {
        rig.bfq.learn_budget(queue, TurnEnd::TooIdle);
        assert_eq!(rig.bfq.queues.at(queue).max_budget, expected);
    }
}

#[test]
fn t28_think_times_decide_on_idling() {
    let most = 16 * MILLISECOND;
    let mut think = ThinkTime::since(1);
    // The queue is as old as its first request: the think time wraps and is capped at the maximum.
    think.add(0, most);
    let mut means = alloc::vec![think.mean_ns()];
    let mut is_short = alloc::vec![!think.is_above(4 * MILLISECOND)];
    for n in 1..5 {
        think.last_end_ns = n * 100 * MILLISECOND;
        think.add(n * 100 * MILLISECOND + MILLISECOND, most);
        means.push(think.mean_ns());
        is_short.push(!think.is_above(4 * MILLISECOND));
    }
    let hundredths: alloc::vec::Vec<Nanos> = means.iter().map(|mean| (mean + 5_000) / 10_000).collect();
    assert_eq!(hundredths, [1_600, 800, 538, 407, 330]);
    assert_eq!(is_short, [true, true, false, false, true]);
}

#[test]
fn t28_the_flag_of_a_queue_follows() {
    let mut rig = Rig::on_flash();
    // A second issuer prevents idling for the first, so that each request of the first finds its
    // queue not busy.
    let mut shown = alloc::vec::Vec::new();
    for n in 0..5 {
        let id = rig.submit(1, n * 8, 8);
        shown.push(rig.bfq.queues.at(rig.queue_of(1)).has(Marks::SHORT_THINK_TIME));
        while rig.dispatch().is_none() {
            rig.pass(MILLISECOND);
        }
        rig.complete(id);
        // Idling for the only queue would keep it busy, so its turn is ended.
        let queue = rig.bfq.in_service;
        if queue != NIL {
            rig.bfq.end_turn(queue, TurnEnd::TooIdle, rig.now);
        }
        rig.pass(MILLISECOND);
    }
    assert_eq!(shown, [true, true, false, false, true]);
}

#[test]
fn t29_a_device_with_one_request_in_flight_does_not_queue() {
    let mut rig = Rig::on_flash();
    rig.bfq.device.decide(None, rig.bfq.device.flash_queues());
    assert!(rig.bfq.device.flash_queues());
    for n in 0..60 {
        rig.submit(1, n * 8, 8);
    }
    for n in 1..=33 {
        assert_eq!(rig.bfq.device.decided(), (None, true), "before completion {n}");
        let id = rig.dispatch().unwrap();
        rig.pass(100 * MICROSECOND);
        rig.complete(id);
    }
    assert_eq!(rig.bfq.device.decided(), (Some(false), false));
}

#[test]
fn t29_a_device_with_four_requests_in_flight_queues() {
    let mut rig = Rig::on_flash();
    rig.bfq.device.decide(Some(false), false);
    for n in 0..60 {
        rig.submit(1, n * 8, 8);
    }
    let mut held: alloc::collections::VecDeque<RequestId> = (0..4).map(|_| rig.dispatch().unwrap()).collect();
    for _ in 0..33 {
        assert_eq!(rig.bfq.device.decided().0, Some(false));
        rig.pass(100 * MICROSECOND);
        rig.complete(held.pop_front().unwrap());
        held.push_back(rig.dispatch().unwrap());
    }
    assert_eq!(rig.bfq.device.decided(), (Some(true), true));
}

/// A measured request completes after `took_ns`, as the only one in flight, or with injected ones.
fn measured(rig: &mut Rig, queue: u32, took_ns: Nanos, is_injected: bool) -> u32 {
    let id = RequestId::from_raw(7);
    rig.bfq.injection.measure(id, rig.now, is_injected);
    rig.bfq.device.enter();
    rig.pass(took_ns);
    rig.bfq.learn_injection(queue);
    assert!(rig.bfq.injection.is_over());
    rig.bfq.device.leave();
    rig.bfq.queues.at(queue).inject.limit
}

#[test]
fn t39_the_limit_follows_the_service_time() {
    let mut rig = Rig::on_flash();
    let queue = rig.queue(ROOT, 40, 16_384);
    (0..4).for_each(|_| rig.bfq.device.enter());
    rig.bfq.device.sees(0);
    (0..4).for_each(|_| rig.bfq.device.leave());
    assert_eq!(measured(&mut rig, queue, MILLISECOND, false), 1);
    assert_eq!(measured(&mut rig, queue, 1_400 * MICROSECOND, true), 2);
    assert_eq!(measured(&mut rig, queue, 1_600 * MICROSECOND, true), 1);
    assert_eq!(rig.bfq.queues.at(queue).inject.last_service_ns, MILLISECOND);
    // A shorter service time becomes the new baseline.
    assert_eq!(measured(&mut rig, queue, 900 * MICROSECOND, true), 2);
    assert_eq!(rig.bfq.queues.at(queue).inject.last_service_ns, 900 * MICROSECOND);
    // The limit is at most one more than the largest number seen in flight.
    for _ in 0..9 {
        measured(&mut rig, queue, 950 * MICROSECOND, true);
    }
    assert_eq!(rig.bfq.queues.at(queue).inject.limit, 5);
}

#[test]
fn t39_long_requests_are_not_injected_on_flash() {
    for (sectors, is_let_in) in [(56, true), (64, false)] {
        let mut rig = Rig::on_flash();
        // The new queue must not preempt the queue in service.
        rig.bfq.settings.strict_guarantees = true;
        let own = rig.submit(1, 0, 8);
        assert_eq!(rig.dispatch(), Some(own));
        // The second issuer arrives so much later that there is no stable merge of the two.
        rig.pass(181 * MILLISECOND);
        rig.submit(2, 1_000_000, sectors);
        let served = rig.queue_of(1);
        assert_eq!(rig.bfq.in_service, served);
        rig.bfq.queues.at_mut(served).inject.limit = 2;
        let other = rig.queue_of(2);
        let found = rig.bfq.choose_for_injection();
        assert_eq!(found, if is_let_in { other } else { NIL }, "{sectors} sectors");
        rig.bfq.device.leave();
        assert_eq!(rig.bfq.choose_for_injection(), other, "{sectors} sectors, into an empty device");
    }
}
