//! B-WF2Q+ alone: cases 1 to 13 of docs/specifications/bfq.md, section 25.

use super::{ROOT, Rig};
use crate::group::GroupSettings;
use alloc::string::String;
use alloc::vec::Vec;
use hoistway_block::time::MILLISECOND;
use hoistway_block::{Class, GroupId};

/// Sectors per queue after `count` turns, and the queues of the first `shown` turns as letters.
fn turns<const N: usize>(rig: &mut Rig, queues: [u32; N], count: usize, shown: usize) -> ([u64; N], String) {
    let mut sectors = [0; N];
    let mut order = String::new();
    for turn in 0..count {
        let queue = rig.select();
        let budget = rig.bfq.schedule.entity(queue).budget;
        rig.serve(budget);
        rig.requeue();
        let index = queues.iter().position(|known| *known == queue).unwrap();
        sectors[index] += u64::from(budget);
        if turn < shown {
            order.push(char::from(b'A' + u8::try_from(index).unwrap()));
        }
    }
    (sectors, order)
}

#[test]
fn t01_weights_of_four_two_one() {
    let mut rig = Rig::on_flash();
    let queues = [80, 40, 20].map(|weight| rig.queue(ROOT, weight, 4_096));
    for queue in queues {
        rig.arrive(queue);
    }
    let finishes = queues.map(|queue| rig.stamps(queue).1);
    assert_eq!(finishes, [214_748_364, 429_496_729, 858_993_459]);
    let first = rig.turn();
    assert_eq!((first, rig.tree()), (queues[0], (122_713_351, 140)));
    assert_eq!(rig.stamps(queues[0]), (214_748_364, 429_496_728));
    let (sectors, order) = turns(&mut rig, queues, 699, 20);
    assert_eq!(order, "BACABAABACABAABACABA");
    assert_eq!(
        sectors.map(|of_queue| of_queue + if of_queue > 1_000_000 { 4_096 } else { 0 }),
        [1_638_400, 819_200, 409_600]
    );
}

#[test]
fn t02_budgets_change_the_order_not_the_shares() {
    let mut rig = Rig::on_flash();
    let queues = [rig.queue(ROOT, 10, 16_384), rig.queue(ROOT, 10, 512)];
    for queue in queues {
        rig.arrive(queue);
    }
    let (sectors, order) = turns(&mut rig, queues, 66, 35);
    // The case has one B more in a row, against its own rules: after 33 turns B would start at 33 x
    // D(512, 10) = 7086696012, while virtual time is 33 x D(512, 20) + D(16384, 20) = 6979321842
    // (exact arithmetic agrees).
    assert_eq!(order, String::from("BA") + &"B".repeat(32) + "A");
    assert_eq!(sectors, [32_768, 32_768]);
}

#[test]
fn t03_groups_share_before_queues_do() {
    let mut rig = Rig::on_flash();
    rig.group(1, 300);
    rig.group(2, 100);
    let queues = [rig.queue(1, 40, 1_024), rig.queue(1, 40, 1_024), rig.queue(2, 40, 1_024)];
    for queue in queues {
        rig.arrive(queue);
    }
    let (sectors, order) = turns(&mut rig, queues, 800, 8);
    assert_eq!(order, "ACBABCAB");
    assert_eq!(sectors, [307_200, 307_200, 204_800]);
}

#[test]
fn t04_a_queue_of_the_root_competes_with_groups() {
    let mut rig = Rig::on_flash();
    rig.group(1, 100);
    let queues = [rig.queue(1, 80, 1_024), rig.queue(1, 10, 1_024), rig.queue(ROOT, 40, 1_024)];
    for queue in queues {
        rig.arrive(queue);
    }
    assert_eq!(turns(&mut rig, queues, 1_260, 0).0, [819_200, 102_400, 368_640]);
}

/// A and B of weight 40 and budget 4096; A was served 1024 sectors and became idle; B, with another
/// budget, is in service.
fn a_has_left(budget_of_b: u32) -> (Rig, u32, u32) {
    let mut rig = Rig::on_flash();
    let (a, b) = (rig.queue(ROOT, 40, 4_096), rig.queue(ROOT, 40, budget_of_b));
    rig.arrive(a);
    rig.arrive(b);
    assert_eq!(rig.select(), a);
    rig.serve(1_024);
    rig.leave();
    assert_eq!((rig.tree(), rig.stamps(a)), ((53_687_091, 80), (0, 107_374_182)));
    assert_eq!(rig.select(), b);
    (rig, a, b)
}

#[test]
fn t05_idle_queues_count_until_virtual_time_has_passed_them() {
    let (mut rig, a, _) = a_has_left(4_096);
    assert!(rig.bfq.schedule.entity(a).is_on_tree);
    rig.serve(1_024);
    assert_eq!(rig.tree(), (107_374_182, 40));
    assert!(!rig.bfq.schedule.entity(a).is_on_tree);
}

#[test]
fn t06_back_in_time_a_queue_starts_where_it_left_off() {
    let (mut rig, a, _) = a_has_left(4_096);
    rig.serve(1_024);
    rig.serve(1_024);
    assert_eq!(rig.tree(), (214_748_364, 40));
    rig.return_in_time(a, 3_072);
    assert_eq!(rig.stamps(a), (107_374_182, 429_496_729));
}

#[test]
fn t07_but_no_farther_back_than_to_be_the_next_to_finish() {
    for (factor, stamps) in [(1, (1_395_864_365, 1_717_986_912)), (30, (150_323_854, 472_446_401))] {
        let (mut rig, a, _) = a_has_left(65_536);
        for _ in 0..16 {
            rig.serve(1_024);
        }
        assert_eq!(rig.tree().0, 1_717_986_912);
        // Only the factor is set: the case uses the weight of a queue that is not raised.
        rig.bfq.queues.at_mut(a).raising.factor = factor;
        let entity = rig.bfq.schedule.entity_mut(a);
        (entity.budget, entity.service) = (3_072, 0);
        rig.bfq.queues.at_mut(a).marks.set(super::Marks::WAITS_UNBLOCKED);
        rig.bfq.activate_by_mark(a);
        assert_eq!(rig.stamps(a), stamps, "factor {factor}");
    }
}

#[test]
fn t08_without_back_shift_a_queue_starts_where_it_would_have_finished_or_now() {
    let (mut rig, a, _) = a_has_left(4_096);
    rig.serve(512);
    assert_eq!(rig.tree().0, 80_530_636);
    rig.return_late(a, 4_096);
    assert_eq!(rig.stamps(a).0, 107_374_182);

    let (mut rig, a, _) = a_has_left(65_536);
    for _ in 0..16 {
        rig.serve(1_024);
    }
    rig.return_late(a, 4_096);
    assert_eq!(rig.stamps(a), (1_717_986_912, 2_147_483_641));
}

#[test]
fn t09_a_queue_ahead_of_virtual_time_waits_for_it() {
    let mut rig = Rig::on_flash();
    let (a, b) = (rig.queue(ROOT, 10, 1_000), rig.queue(ROOT, 990, 1_000));
    rig.arrive(a);
    rig.arrive(b);
    assert_eq!(rig.turn(), b);
    assert_eq!((rig.stamps(b).0, rig.tree().0), (4_236_670, 4_194_304));
    assert_eq!(rig.select(), a);
    rig.serve(1_000);
    rig.leave();
    assert_eq!(rig.tree().0, 8_388_608);
    assert_eq!(rig.select(), b);
}

#[test]
fn t10_a_raised_newcomer_is_next() {
    let mut rig = Rig::on_flash();
    let b = rig.queue(ROOT, 40, 16_384);
    rig.arrive(b);
    assert_eq!(rig.select(), b);
    rig.serve(256);
    assert_eq!(rig.tree(), (26_843_545, 40));
    let a = rig.queue(ROOT, 40, 1_024);
    rig.bfq.queues.at_mut(a).raising.factor = 30;
    rig.bfq.schedule.entity_mut(a).is_prio_changed = true;
    rig.arrive(a);
    assert_eq!((rig.bfq.schedule.entity(a).weight, rig.stamps(a)), (1_200, (26_843_545, 30_422_684)));
    rig.requeue();
    assert_eq!(rig.select(), a);
}

#[test]
fn t11_of_equals_the_first_to_come_is_first() {
    let mut rig = Rig::on_flash();
    let queues: Vec<u32> = (0..9).map(|_| rig.queue(ROOT, 40, 1_024)).collect();
    // They arrive in reverse order of their indices, which shows that the order of arrival decides.
    for queue in queues.iter().rev() {
        rig.arrive(*queue);
    }
    let served: Vec<u32> = (0..9).map(|_| rig.turn()).collect();
    assert_eq!(served, queues.iter().rev().copied().collect::<Vec<_>>());
}

#[test]
fn t12_classes_are_strict_but_for_a_pick_of_the_idle_one() {
    let mut rig = Rig::on_flash();
    let best = rig.queue_of_class(Class::BestEffort, 80, 1_024);
    let real = rig.queue_of_class(Class::RealTime, 10, 1_024);
    rig.arrive(best);
    rig.arrive(real);
    for _ in 0..50 {
        assert_eq!(rig.turn(), real);
    }

    let mut rig = Rig::on_flash();
    let best = rig.queue_of_class(Class::BestEffort, 10, 1_024);
    let idle = rig.queue_of_class(Class::Idle, 10, 1_024);
    rig.arrive(best);
    rig.arrive(idle);
    // The idle class was never served before, so its turn is due at once.
    assert_eq!(rig.turn(), idle);
    for lasts_ms in [100, 100, 1] {
        assert_eq!(turn_of(&mut rig, lasts_ms), best);
    }
    assert_eq!(turn_of(&mut rig, 0), idle, "201 ms after the last one");
    for lasts_ms in [100, 100, 0, 0] {
        assert_eq!(turn_of(&mut rig, lasts_ms), best);
    }
}

/// A turn that lasts `lasts_ms`.
fn turn_of(rig: &mut Rig, lasts_ms: u64) -> u32 {
    let queue = rig.select();
    rig.serve(1_024);
    rig.pass(lasts_ms * MILLISECOND);
    rig.requeue();
    queue
}

#[test]
fn t13_a_groups_weight_changes_with_its_next_place_in_the_order() {
    let mut rig = Rig::on_flash();
    rig.group(1, 100);
    rig.group(2, 100);
    let (a, c) = (rig.queue(1, 40, 1_024), rig.queue(2, 40, 1_024));
    rig.arrive(a);
    rig.arrive(c);
    let group = rig.bfq.group_entity(1);
    let before = rig.stamps(group);
    rig.bfq.change_group_weight(GroupId(1).0, &GroupSettings::with_weight(200));
    assert_eq!((rig.bfq.schedule.entity(group).weight, rig.stamps(group), rig.tree().1), (100, before, 200));
    assert_eq!(rig.select(), a);
    rig.serve(512);
    assert_eq!((rig.bfq.schedule.entity(group).weight, rig.tree().1), (100, 200));
    rig.requeue();
    assert_eq!((rig.bfq.schedule.entity(group).weight, rig.tree().1), (200, 300));
    // Service so far counts at the old weight, later service at the new one.
    let start = (512_u64 << 22) / 100;
    assert_eq!(rig.stamps(group), (start, start + (1_024_u64 << 22) / 200));
    assert_eq!(rig.select(), c);
}
