//! The peak rate, and the charges for slow turns: cases 17 to 19 of docs/specifications/bfq.md,
//! section 25.

use super::super::budget::TurnEnd;
use super::{ROOT, Rig};
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{Extent, Nanos};

/// `count` dispatches of this size, with exactly one second from first to last, into a device that
/// is never empty.
fn a_second_of(rig: &mut Rig, count: u64, sectors: u32, step: u64) {
    let begin = rig.now;
    rig.bfq.device.enter();
    for n in 0..count {
        let at: Nanos = begin + n * SECOND / (count - 1);
        rig.pass(at - rig.now);
        rig.bfq.sample_dispatch(Extent::new(1_000 + n * step, sectors), true);
    }
    assert_eq!(rig.now, begin + SECOND);
}

#[test]
fn t17_the_peak_rate_follows_what_is_sequential() {
    let mut rig = Rig::on_flash();
    assert_eq!((rig.bfq.budgets.peak.rate(), rig.bfq.budgets.peak.raising_ms()), (22_000, 3_750));
    a_second_of(&mut rig, 4_000, 256, 256);
    assert_eq!((rig.bfq.budgets.peak.rate(), rig.bfq.budgets.most()), (44_554, 84_980));
    assert_eq!(rig.bfq.budgets.peak.raising_ms(), 3_000);

    let mut rig = Rig::on_flash();
    a_second_of(&mut rig, 25_000, 8, 100_000);
    assert_eq!((rig.bfq.budgets.peak.rate(), rig.bfq.budgets.most()), (22_000, 16_384));

    let mut rig = Rig::on_flash();
    a_second_of(&mut rig, 60_000, 8, 100_000);
    assert_eq!(rig.bfq.budgets.peak.rate(), 22_945);
}

#[test]
fn t17_automatic_budgets_of_the_initial_rates() {
    for (mut rig, at_125, at_124) in [(Rig::on_flash(), 41_961, 41_625), (Rig::on_disk(), 17_801, 17_658)] {
        assert_eq!(rig.bfq.automatic_max_budget(), at_125);
        rig.bfq.settings.timeout_ticks = 124;
        assert_eq!(rig.bfq.automatic_max_budget(), at_124);
    }
}

/// Sectors charged, budget and verdict for a turn that served `sectors` sectors and lasted
/// `lasted_ns`.
fn charged(rig: &mut Rig, is_seeky: bool, sectors: u32, lasted_ns: Nanos, end: TurnEnd) -> (u32, bool) {
    let queue = rig.queue(ROOT, 40, 16_384);
    rig.bfq.queues.at_mut(queue).seeks = crate::seeks::Seeks::of_history(if is_seeky { 0x0fff_ffff } else { 0 });
    rig.arrive(queue);
    assert_eq!(rig.select(), queue);
    let vtime = rig.tree().0;
    rig.serve(sectors);
    rig.pass(lasted_ns);
    rig.bfq.charge_turn(queue, end, rig.now);
    let service = rig.bfq.schedule.entity(queue).service;
    // Exact to one unit, because each part is rounded down.
    let due = (u64::from(service) << 22) / rig.tree().1;
    assert!(due - (rig.tree().0 - vtime) <= 1, "virtual time runs with what is charged");
    (service, rig.bfq.report.was_slow())
}

#[test]
fn t18_slow_turns_are_charged_their_time() {
    let short = 3 * MILLISECOND / 10;
    for end in [TurnEnd::NoMoreRequests, TurnEnd::TooIdle] {
        assert_eq!(charged(&mut Rig::on_flash(), true, 8, short, end), (262, true));
        assert_eq!(charged(&mut Rig::on_disk(), true, 8, short, end), (1_048, true));
    }
    let long = 124 * MILLISECOND;
    assert_eq!(charged(&mut Rig::on_flash(), true, 992, long, TurnEnd::NoMoreRequests), (16_252, true));
    // A queue that is not seeky is charged for its time as well, if its turn was slow.
    assert_eq!(charged(&mut Rig::on_flash(), false, 992, long, TurnEnd::NoMoreRequests), (16_252, true));
    // It is not if the turn was too short to tell.
    assert_eq!(charged(&mut Rig::on_flash(), false, 8, short, TurnEnd::NoMoreRequests), (8, false));
}

#[test]
fn t19_a_turn_that_had_most_of_its_budget_is_not() {
    let end = TurnEnd::BudgetTimeout;
    assert_eq!(charged(&mut Rig::on_flash(), false, 11_000, 125 * MILLISECOND, end), (11_000, false));
    // With a third of the budget left (5461 sectors), the turn is charged for its time.
    assert_eq!(charged(&mut Rig::on_flash(), false, 10_923, 125 * MILLISECOND, end), (16_384, false));
}
