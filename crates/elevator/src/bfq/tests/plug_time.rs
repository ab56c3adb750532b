//! Quirk Q18 of docs/specifications/bfq.md: since 6.9 the time of a batch of requests is that at
//! which its issuer began it, so that it may lie before the last completion. Spans that end before
//! they begin are then very long ones.

use super::super::budget::TurnEnd;
use super::super::state::Marks;
use super::{NEWEST, ROOT, Rig};
use hoistway_block::Nanos;
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};

/// Index of the form of 6.3, which does not use the times of batches.
const BEFORE: usize = NEWEST - 1;
const EARLIER_NS: Nanos = 43 * MICROSECOND;

#[test]
fn q18_a_turn_that_ends_before_it_began_is_charged_the_whole_timeout() {
    for (form, charged) in [(BEFORE, 262), (NEWEST, 16_384)] {
        let mut rig = Rig::of(form, false, MILLISECOND);
        let queue = rig.queue(ROOT, 20, 16_384);
        rig.bfq.queues.at_mut(queue).seeks = crate::seeks::Seeks::of_history(u32::MAX);
        rig.arrive(queue);
        assert_eq!(rig.select(), queue);
        rig.serve(40);
        rig.go_back(EARLIER_NS);
        rig.bfq.charge_turn(queue, TurnEnd::NoMoreRequests, rig.now);
        assert_eq!(rig.bfq.schedule.entity(queue).service, charged, "form {form}");
    }
}

#[test]
fn q18_a_completion_after_the_batch_began_does_not_wake() {
    for (form, detections) in [(BEFORE, 1), (NEWEST, 0)] {
        let mut rig = Rig::of(form, false, MILLISECOND);
        let (queue, other) = (rig.queue(ROOT, 40, 16_384), rig.queue(ROOT, 40, 16_384));
        rig.bfq.queues.at_mut(queue).marks.clear(Marks::SHORT_THINK_TIME);
        rig.bfq.queues.completed(other);
        rig.bfq.sample_completion();
        rig.go_back(EARLIER_NS);
        rig.bfq.detect_waker(queue);
        assert_eq!(rig.bfq.queues.at(queue).waking.detections(), detections, "form {form}");
    }
}

#[test]
fn q18_an_issuer_whose_batch_began_before_its_last_completion_is_not_io_bound() {
    for (form, is_bound) in [(BEFORE, true), (NEWEST, false)] {
        let mut rig = Rig::of(form, false, MILLISECOND);
        for n in 0..2 {
            let id = rig.submit(1, n * 8, 8);
            assert_eq!(rig.dispatch(), Some(id));
            rig.pass(MILLISECOND);
            rig.complete(id);
            rig.pass(MICROSECOND);
        }
        assert!(rig.bfq.queues.at(rig.queue_of(1)).has(Marks::IO_BOUND));
        rig.go_back(EARLIER_NS);
        rig.submit(1, 16, 8);
        assert_eq!(rig.bfq.queues.at(rig.queue_of(1)).has(Marks::IO_BOUND), is_bound, "form {form}");
    }
}

#[test]
fn q18_a_dispatch_before_the_last_one_ends_a_measurement() {
    for (form, samples) in [(BEFORE, 2), (NEWEST, 1)] {
        let mut rig = Rig::of(form, false, MILLISECOND);
        for n in 0..2 {
            rig.bfq.sample_dispatch(hoistway_block::Extent::new(1_000 + n * 8, 8), true);
            rig.go_back(EARLIER_NS);
        }
        assert_eq!(rig.bfq.budgets.peak.samples(), samples, "form {form}");
    }
}

#[test]
fn q18_ticks_never_run_backward() {
    let mut rig = Rig::of(NEWEST, false, 4 * MILLISECOND);
    rig.pass(SECOND);
    let ticks = rig.bfq.clock.ticks;
    rig.go_back(8 * MILLISECOND);
    assert_eq!(rig.bfq.clock.ticks, ticks);
}
