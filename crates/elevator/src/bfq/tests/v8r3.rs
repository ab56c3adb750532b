//! The series outside of the kernel (v8r3) and the first forms of the kernel, where their effects
//! differ from those of later forms: docs/specifications/bfq.md, section 19.

use super::super::budget::TurnEnd;
use super::super::state::Marks;
use super::{AUGUST_2018, FIRST, MARCH_2019, NEWEST, ROOT, Rig, SEPTEMBER_2018, V8R3};
use crate::interface::{Admission, Elevator, Wake};
use crate::request::Bio;
use crate::structures::NIL;
use hoistway_block::time::MILLISECOND;
use hoistway_block::{ContextId, Extent, Flags, Nanos, Operation};

fn flash(form: usize) -> Rig {
    Rig::of(form, false, MILLISECOND)
}

fn write(context: u32, flags: Flags) -> Bio {
    let mut bio = Bio::new(Operation::Write, Extent::new(1_000, 8));
    (bio.context, bio.flags) = (ContextId(context), flags);
    bio
}

#[test]
fn async_requests_cost_ten_times_their_size_and_twenty_beside_raised_queues() {
    for (form, charges) in [(V8R3, [80, 160]), (FIRST, [80, 160]), (AUGUST_2018, [24, 24])] {
        let mut rig = flash(form);
        let id = rig.submit_bio(write(1, Flags::NONE));
        let queue = rig.bfq.slots.at(id.slot()).queue;
        let charged = [0, 1].map(|raised| {
            if raised > 0 {
                rig.bfq.busy.change_raised(true);
            }
            rig.bfq.charge(id.slot(), queue)
        });
        assert_eq!(charged, charges, "form {form}");
    }
}

#[test]
fn no_kind_of_request_is_limited() {
    for (form, depth) in [(V8R3, Admission::Full), (FIRST, Admission::Full), (AUGUST_2018, Admission::Shallow(64))] {
        let rig = flash(form);
        assert_eq!(rig.bfq.depth_for(&write(1, Flags::NONE)), depth, "form {form}");
    }
}

/// After B has been served it is ahead of virtual time; A leaves before virtual time has reached B.
#[test]
fn virtual_time_jumps_to_the_queue_that_is_next() {
    for (form, vtime) in [(V8R3, 4_236_670), (FIRST, 4_236_247)] {
        let mut rig = flash(form);
        let (a, b) = (rig.queue(ROOT, 10, 1_000), rig.queue(ROOT, 990, 1_000));
        rig.arrive(a);
        rig.arrive(b);
        assert_eq!(rig.turn(), b);
        assert_eq!((rig.stamps(b).0, rig.tree().0), (4_236_670, 4_194_304));
        assert_eq!(rig.select(), a);
        rig.serve(10);
        rig.leave();
        assert_eq!(rig.select(), b);
        assert_eq!(rig.tree().0, vtime, "form {form}");
    }
}

/// The idle class gets a turn every 200 ms in this form as well, however often the trees are searched
/// in between.
#[test]
fn the_idle_class_has_its_turn() {
    let mut rig = flash(V8R3);
    let idle = rig.queue_of_class(hoistway_block::Class::Idle, 10, 64);
    let busy = [rig.queue(ROOT, 40, 64), rig.queue(ROOT, 40, 64)];
    for queue in busy.into_iter().chain([idle]) {
        rig.arrive(queue);
    }
    let mut turns = [0; 2];
    for _ in 0..50 {
        rig.pass(10 * MILLISECOND);
        turns[usize::from(rig.turn() == idle)] += 1;
    }
    assert_eq!(turns, [47, 3]);
}

/// A group in service does not count, so that of two groups no weight differs.
#[test]
fn groups_are_waited_for_if_weights_of_others_differ() {
    let asymmetric = |form: usize, weights: [u32; 3]| {
        let mut rig = flash(form);
        for (group, weight) in (1..).zip(weights) {
            rig.group(group, weight);
            rig.submit_in(group, group, 4);
        }
        let before = rig.bfq.is_asymmetric(rig.queue_of(1));
        let id = rig.dispatch().unwrap();
        let served = rig.bfq.is_asymmetric(rig.bfq.in_service);
        rig.complete(id);
        [before, served]
    };
    assert_eq!(asymmetric(V8R3, [100; 3]), [false, false]);
    assert_eq!(asymmetric(V8R3, [300, 100, 100]), [true, false]);
    assert_eq!(asymmetric(V8R3, [300, 200, 100]), [true, true]);
    assert_eq!(asymmetric(FIRST, [100; 3]), [false, false]);
    assert_eq!(asymmetric(FIRST, [300, 200, 100]), [true, true]);
    assert_eq!(asymmetric(SEPTEMBER_2018, [100; 3]), [true, true]);
}

/// Groups share by weight when all have requests, and the trees stay consistent.
#[test]
fn groups_share_by_weight() {
    let mut rig = flash(V8R3);
    rig.group(1, 300);
    rig.group(2, 100);
    let queues = [rig.queue(1, 40, 1_024), rig.queue(1, 40, 1_024), rig.queue(2, 40, 1_024)];
    for queue in queues {
        rig.arrive(queue);
    }
    let mut sectors = [0_u32; 3];
    for _ in 0..800 {
        let queue = rig.turn();
        sectors[queues.iter().position(|known| *known == queue).unwrap()] += 1_024;
    }
    assert_eq!(sectors, [307_200, 307_200, 204_800]);
}

/// Sectors charged for a turn that served `sectors`, whether it was slow, and the peak rate after it.
fn turn(rig: &mut Rig, history: u32, sectors: u32, lasted_ns: Nanos) -> (u32, bool, u64) {
    let queue = rig.queue(ROOT, 40, 16_384);
    rig.bfq.queues.at_mut(queue).seeks = crate::seeks::Seeks::of_history(history);
    rig.arrive(queue);
    assert_eq!(rig.select(), queue);
    rig.serve(sectors);
    rig.pass(lasted_ns);
    rig.bfq.charge_turn(queue, TurnEnd::BudgetTimeout, rig.now);
    let told = (rig.bfq.schedule.entity(queue).service, rig.bfq.report.was_slow(), rig.bfq.budgets.peak.rate());
    rig.leave();
    told
}

#[test]
fn turns_measure_the_peak_rate() {
    let long = 100 * MILLISECOND;
    // A turn of a sequential queue counts a tenth, whatever its rate; one of another only if it is
    // faster than all before. It is slow below half of the rate.
    let mut rig = flash(V8R3);
    assert_eq!(turn(&mut rig, 0, 10_000, long), (13_107, true, 20_455));
    assert_eq!(turn(&mut rig, 1, 10_000, long), (13_107, true, 20_455));
    assert_eq!(turn(&mut rig, 1, 16_000, long), (16_000, false, 20_455));
    // A turn of 20 ms or less does not count.
    assert_eq!(turn(&mut rig, 0, 16_000, 20 * MILLISECOND), (16_000, false, 20_455));
    // From the 32nd long turn on the rate determines the budget.
    for long_turns in 4..=32 {
        assert_eq!(rig.bfq.budgets.most(), 16_384, "{long_turns}");
        turn(&mut rig, 1, 16_000, long);
    }
    assert_eq!(rig.bfq.budgets.most(), 39_014);
    // Raising lasts longer than in the kernel: 3 s at 33,000, 8 s at 14,000.
    let at_first =
        |form| [false, true].map(|is_disk| Rig::of(form, is_disk, MILLISECOND).bfq.budgets.peak.raising_ms());
    assert_eq!([V8R3, FIRST].map(at_first), [[4_500, 12_000], [3_750, 10_500]]);
    let longest = [V8R3, FIRST, AUGUST_2018].map(|form| {
        let mut rig = flash(form);
        rig.bfq.budgets.peak.rate = 1;
        rig.bfq.budgets.peak.raising_ms()
    });
    assert_eq!(longest, [13_000, 13_000, 25_000]);
}

/// A slow device is told by its rate, and its queues are raised for 1.5 or 3.5 s at its own rate.
#[test]
fn slow_devices_raise_for_a_shorter_time() {
    let mut rig = flash(V8R3);
    for _ in 0..60 {
        turn(&mut rig, 0, 8_000, 120 * MILLISECOND);
    }
    // 8,000 sectors in 120 ms are a rate of 4369, below 4/3 of 10,700.
    assert!((4_369..4_450).contains(&rig.bfq.budgets.peak.rate()), "{}", rig.bfq.budgets.peak.rate());
    assert_eq!(rig.bfq.budgets.peak.raising_ms(), 10_700 * 1_500 / rig.bfq.budgets.peak.rate());
}

#[test]
fn a_turn_as_long_as_the_timeout_costs_what_it_had() {
    for (form, charged) in [(V8R3, 992), (FIRST, 992), (AUGUST_2018, 16_384)] {
        let mut rig = flash(form);
        assert_eq!(turn(&mut rig, u32::MAX, 992, 124 * MILLISECOND).0, 16_252, "form {form}");
        assert_eq!(turn(&mut rig, u32::MAX, 992, 125 * MILLISECOND).0, charged, "form {form}");
    }
}

/// Issuer 2 returns in time with nothing left of its budget, while a request of issuer 1 is in the
/// device.
#[test]
fn a_queue_without_budget_costs_a_dispatch() {
    for (form, at_once) in [(V8R3, false), (FIRST, true), (AUGUST_2018, true)] {
        let mut rig = flash(form);
        rig.submit(2, 50_000_000, 8);
        let id = rig.dispatch().unwrap();
        rig.submit(1, 10_000_000, 8);
        let held = rig.dispatch().unwrap();
        rig.complete(id);
        let queue = rig.queue_of(2);
        assert!(rig.bfq.queues.at(queue).has(Marks::WAITS_UNBLOCKED), "form {form}");
        let entity = rig.bfq.schedule.entity_mut(queue);
        entity.budget = entity.service;
        rig.submit(2, 90_000_000, 8);
        assert_eq!(rig.dispatch().is_some(), at_once, "form {form}");
        // The host is told to ask again when the other request completes.
        assert!(!rig.bfq.has_work(hoistway_block::HardwareQueue(0)), "form {form}");
        let wake = rig.bfq.completed(&rig.requests, held, rig.now);
        assert_eq!(wake, if at_once { Wake::No } else { Wake::All }, "form {form}");
        assert_eq!(rig.dispatch().is_some(), !at_once, "form {form}");
        assert_eq!(rig.bfq.next_timer(), None, "form {form}: no polling");
    }
}

#[test]
fn only_a_queue_that_is_raised_more_ends_a_turn() {
    for form in [V8R3, FIRST, SEPTEMBER_2018, MARCH_2019] {
        let mut rig = flash(form);
        let [served, comes] = [0; 2].map(|_| rig.queue(ROOT, 40, 1_024));
        rig.arrive(served);
        assert_eq!(rig.select(), served);
        rig.arrive(comes);
        for (factors, ends) in [([1, 1], false), ([1, 30], true), ([30, 30], false), ([30, 3_000], true)] {
            for (queue, factor) in [served, comes].into_iter().zip(factors) {
                rig.bfq.queues.at_mut(queue).raising.factor = factor;
            }
            // Whether it returns in time does not matter.
            for in_time in [false, true] {
                assert_eq!(rig.bfq.ends_turn_in_service(comes, in_time), ends, "form {form}, {factors:?}");
            }
        }
        for queue in [served, comes] {
            rig.bfq.queues.at_mut(queue).raising.factor = 1;
        }
    }
}

/// How long the device is idled for a raised queue, in ms.
fn idled_ms(form: usize) -> Nanos {
    let mut rig = flash(form);
    let queue = rig.queue(ROOT, 40, 1_024);
    rig.arrive(queue);
    assert_eq!(rig.select(), queue);
    rig.bfq.queues.at_mut(queue).raising.factor = 30;
    rig.bfq.begin_wait();
    (rig.bfq.idling.until() - rig.now) / MILLISECOND
}

#[test]
fn raised_queues_are_not_idled_for_longer() {
    assert_eq!([V8R3, FIRST, SEPTEMBER_2018, MARCH_2019, NEWEST].map(idled_ms), [8, 8, 8, 20, 20]);
}

#[test]
fn without_command_queueing_every_sync_queue_is_idled_for() {
    for (form, is_idled_for) in [(V8R3, true), (FIRST, true), (AUGUST_2018, false)] {
        let mut rig = flash(form);
        rig.bfq.device.decide(Some(false), rig.bfq.device.flash_queues());
        let queue = rig.queue(ROOT, 40, 1_024);
        rig.bfq.queues.at_mut(queue).seeks = crate::seeks::Seeks::of_history(u32::MAX);
        assert_eq!(rig.bfq.better_to_idle(queue), is_idled_for, "form {form}");
    }
}

#[test]
fn a_device_with_four_requests_does_not_queue() {
    for (form, queues) in [(V8R3, false), (FIRST, false), (SEPTEMBER_2018, false), (MARCH_2019, true)] {
        let mut rig = flash(form);
        rig.bfq.device.decide(None, rig.bfq.device.flash_queues());
        for n in 0..60 {
            rig.submit(1, n * 8, 8);
        }
        let mut held: alloc::collections::VecDeque<_> = (0..4).map(|_| rig.dispatch().unwrap()).collect();
        for _ in 0..33 {
            rig.complete(held.pop_front().unwrap());
            held.push_back(rig.dispatch().unwrap());
        }
        assert_eq!(rig.bfq.device.decided().0, Some(queues), "form {form}");
    }
}

#[test]
fn strict_guarantees_do_not_limit_the_device() {
    for (form, at_once) in [(V8R3, 3), (FIRST, 1)] {
        let mut rig = flash(form);
        rig.bfq.settings.strict_guarantees = true;
        for n in 0..3 {
            rig.submit(1, n * 8, 8);
        }
        let sent = (0..3).filter(|_| rig.dispatch().is_some()).count();
        assert_eq!(sent, at_once, "form {form}");
    }
}

/// Requests of 32 KiB, far from one another, on flash.
#[test]
fn a_few_far_requests_make_a_queue_seeky() {
    for (form, sectors, far, is_seeky) in [
        (V8R3, 64, 5, true),
        (FIRST, 64, 20, false),
        (FIRST, 8, 5, true),
        (AUGUST_2018, 8, 18, false),
        (AUGUST_2018, 8, 20, true),
    ] {
        let mut rig = flash(form);
        for n in 0..=far {
            rig.submit(1, 1_000 + n * 100_000, sectors);
        }
        let state = rig.bfq.queues.at(rig.queue_of(1));
        assert_eq!(state.is_seeky(rig.bfq.profile.behaviour.seeky_above), is_seeky, "form {form}, {sectors} sectors");
    }
}

/// A queue is raised; then it has 60 MiB, or it is soft real-time and its period ends.
#[test]
fn raising_ends_with_its_time_only() {
    for (form, large, after_soft) in [(V8R3, 30, 1), (FIRST, 30, 30), (AUGUST_2018, 1, 30)] {
        let mut rig = flash(form);
        rig.bfq.settings.low_latency = true;
        let queue = rig.queue(ROOT, 40, 1_024);
        rig.bfq.queues.at_mut(queue).raising = rig.bfq.interactive_from_now();
        rig.bfq.schedule.entity_mut(queue).is_prio_changed = true;
        rig.arrive(queue);
        assert_eq!(rig.select(), queue);
        rig.bfq.queues.at_mut(queue).raising.service_sectors = 122_880;
        rig.bfq.update_raising(queue);
        assert_eq!(rig.bfq.queues.at(queue).raising.factor, large, "form {form}");
        let now = rig.bfq.clock.ticks;
        let raising = &mut rig.bfq.queues.at_mut(queue).raising;
        (raising.factor, raising.service_sectors) = (3_000, 0);
        (raising.since_ticks, raising.longest_ticks) = (now, rig.bfq.clock.spans.soft_real_time_ticks);
        raising.before_soft_real_time_ticks = now;
        rig.pass(301 * MILLISECOND);
        rig.bfq.update_raising(queue);
        assert_eq!(rig.bfq.queues.at(queue).raising.factor, after_soft, "form {form}");
    }
}

/// Two readers of one stream, long after their first requests.
#[test]
fn queues_become_one_at_any_time_unless_they_are_raised_for_long() {
    for (form, raised, merges) in
        [(V8R3, false, true), (V8R3, true, false), (FIRST, false, true), (AUGUST_2018, false, false)]
    {
        let mut rig = flash(form);
        let ids = [1, 2].map(|context| rig.submit(context, u64::from(context) * 100_000_000, 8));
        for _ in ids {
            let id = rig.dispatch().unwrap();
            rig.complete(id);
        }
        rig.pass(500 * MILLISECOND);
        rig.submit(1, 500_000_000, 8);
        rig.submit(2, 700_000_000, 8);
        let (one, two) = (rig.queue_of(1), rig.queue_of(2));
        assert_ne!(one, two);
        let since = rig.bfq.clock.ticks - 200;
        if raised {
            let raising = &mut rig.bfq.queues.at_mut(two).raising;
            (raising.factor, raising.since_ticks) = (30, since);
        }
        for queue in [one, two] {
            let state = rig.bfq.queues.at_mut(queue);
            state.pace.set_service(64, since);
        }
        let target = rig.bfq.merge_target(two, 2, 500_000_008);
        assert_eq!(target != NIL, merges, "form {form}, raised {raised}");
        if raised {
            rig.bfq.queues.at_mut(two).raising.factor = 1;
        }
    }
}
