//! Groups in a tree: the weight of a group's own queues, accounts of removed groups, accounts of
//! discards, and the mark in messages of 4.20 about queues that CFQ does not idle for.

use crate::host::{Host, MS};
use crate::model::{Model, assert_shares, reader, servers};
use hoistway_block::GroupId;
use hoistway_elevator::{ByKind, Elevator, GroupSettings};

fn below(parent: u32, weight: u32) -> GroupSettings {
    GroupSettings { parent: GroupId(parent), ..GroupSettings::with_weight(weight) }
}

/// Shares of readers in a group and in its child.
fn shares_with(leaf_weight: Option<u32>, later: Option<u32>) -> Vec<f64> {
    let mut host = Host::new("cfq@4.20");
    let above = GroupSettings { leaf_weight, ..GroupSettings::with_weight(500) };
    host.policy.group_added(GroupId(1), &above, host.now);
    host.policy.group_added(GroupId(2), &below(1, 300), host.now);
    if later.is_some() {
        let changed = GroupSettings { leaf_weight: later, ..above };
        let _ = host.policy.group_changed(GroupId(1), &changed, host.now);
    }
    let mut host = host.unchecked();
    let readers = [reader(0, 1), reader(1, 2)];
    let mut model = Model::new(&mut host, &readers, servers(1, MS));
    model.run(5_000 * MS);
    model.run(40_000 * MS).shares()
}

#[test]
fn a_groups_own_queues_have_the_leaf_weight_among_its_children() {
    assert_shares(&shares_with(None, None), &[62.5, 37.5]);
    assert_shares(&shares_with(Some(100), None), &[25.0, 75.0]);
    assert_shares(&shares_with(Some(900), Some(100)), &[25.0, 75.0]);
}

fn read_and_remove(host: &mut Host, group: u32, first: u32) {
    for sector in 0..4_u32 {
        host.submit(&format!("R{}@{first}g{group}", 8 * sector));
        host.pass_ms(1);
        host.dispatch();
        host.pass_ms(2);
        host.complete_nth(0);
    }
    host.exit(first);
    host.rest();
    host.policy.group_offline(GroupId(group), host.now);
    host.policy.group_removed(GroupId(group), host.now);
    host.check();
}

/// Quirk Q18 of docs/specifications/cfq.md: a removed group's time is also added to the parent's
/// figures; the kernel loses it.
#[test]
fn a_removed_groups_figures_are_its_parents_to_show_but_not_its_own() {
    let mut host = Host::new("cfq@4.20");
    host.group(1, 500);
    host.policy.group_added(GroupId(2), &below(1, 500), host.now);
    host.policy.group_added(GroupId(3), &below(2, 500), host.now);
    read_and_remove(&mut host, 3, 7);
    let own = host.account(3);
    assert_eq!((own.serviced.reads, own.sectors), (4, 32));
    assert!(own.time_ns > 0 && own.service_time_ns.sync == 8 * MS);
    let left = |host: &Host, group| host.policy.removed_account(GroupId(group)).expect("groups are a tree");
    assert_eq!(left(&host, 2), own);
    assert_eq!(host.account(2).serviced, ByKind::ZERO);
    // Group 1 inherits the account of group 2 and what group 2 inherited from group 3.
    read_and_remove(&mut host, 2, 8);
    let both = left(&host, 1);
    assert_eq!((both.serviced.reads, both.sectors, both.time_ns), (8, 64, own.time_ns + host.account(2).time_ns));
    assert_eq!(left(&host, 2).serviced, ByKind::ZERO, "handed on");
    // A reused id starts with an empty account, and so does an account that is reset.
    host.policy.group_added(GroupId(2), &below(1, 500), host.now);
    assert_eq!((left(&host, 2).sectors, host.account(2).sectors), (0, 0));
    let now = host.now;
    assert!(host.policy.reset_group_account(GroupId(1), now));
    assert_eq!(left(&host, 1).sectors, 0);
    assert_eq!(Host::new("cfq@2.6.36").policy.removed_account(GroupId(0)), None, "groups of one level leave nothing");
}

#[test]
fn discards_are_counted_apart() {
    for (spec, group) in [("cfq@4.20", 1), ("cfq@2.6.36", 0)] {
        let mut host = Host::new(spec);
        host.group(1, 500);
        host.given("D0@1g1 W800@1g1");
        let queued = host.account(group).queued;
        assert_eq!((queued.discards, queued.writes, queued.asynchronous, queued.total()), (1, 1, 2, 2), "{spec}");
        host.pass_ms(300);
        host.rest();
        let account = host.account(group);
        assert_eq!((account.serviced.discards, account.serviced.writes, account.serviced.total()), (1, 1, 2), "{spec}");
        assert_eq!(account.queued, ByKind::ZERO);
        assert_eq!(account.service_bytes.total(), 512 * account.sectors);
    }
}

/// From 4.20 on, messages about queues that CFQ does not idle for carry a mark.
#[test]
fn messages_of_4_20_tell_queues_that_are_not_idled_for() {
    let marks = |spec: &str| {
        let mut host = Host::new(spec);
        host.policy.trace(true);
        host.given("R0@1 W9000@2");
        host.set("slice_idle", 0);
        // R8 lets CFQ notice that it no longer idles for the queue; so R16 is the first request
        // whose message has the mark.
        host.submit("R8@1");
        host.submit("R16@1");
        let messages =
            std::iter::from_fn(|| host.policy.take_message()).filter(|message| message.text == "insert_request");
        messages.map(|message| (message.queue.is_some_and(|queue| queue.1), message.is_no_idle)).collect::<Vec<_>>()
    };
    let late = [(true, Some(false)), (false, Some(false)), (true, Some(false)), (true, Some(true))];
    assert_eq!(marks("cfq@4.20"), late);
    assert!(marks("cfq@2.6.36").iter().all(|(_, mark)| mark.is_none()));
}
