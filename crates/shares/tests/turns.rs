//! The queue by itself: order, weights, costs, limits, refusals.

use hoistway_shares::{COST_MAX, NotAdded, RateLimits, Shares, SharesSettings, TenantId, Why, cost_of_bytes};

const SECOND: u64 = 1_000_000_000;

fn shares(in_service: u32) -> Shares<u32> {
    Shares::new(&SharesSettings { tenants: 4, items: 64, in_service, ..SharesSettings::default() }).expect("memory")
}

/// Serves `count` items at this time; the cost that each of the tenants got.
fn served(shares: &mut Shares<u32>, tenants: &[TenantId], count: usize, now: u64) -> Vec<u64> {
    let mut costs = vec![0; tenants.len()];
    for _ in 0..count {
        let Some(turn) = shares.next(now) else { break };
        costs[tenants.iter().position(|tenant| *tenant == turn.tenant).expect("one of them")] += u64::from(turn.cost);
        assert!(shares.done(turn.id, now));
    }
    costs
}

#[test]
fn cost_is_shared_by_weight_and_not_the_number_of_items() {
    let mut shares = shares(1);
    let tenants = [shares.add_tenant(100, 0).expect("room"), shares.add_tenant(100, 0).expect("room")];
    // Small items against large ones, both always backlogged: what is served is submitted again.
    for number in 0..20 {
        shares.submit(tenants[0], 1, number, 0).expect("room");
        shares.submit(tenants[1], 10, number, 0).expect("room");
    }
    let mut costs = [0_u64; 2];
    for _ in 0..1_000 {
        let turn = shares.next(0).expect("items wait");
        costs[usize::from(turn.tenant == tenants[1])] += u64::from(turn.cost);
        assert!(costs[0].abs_diff(costs[1]) <= 11, "{costs:?}");
        assert!(shares.done(turn.id, 0));
        shares.submit(turn.tenant, turn.cost, turn.item, 0).expect("room");
    }
}

#[test]
fn a_weight_can_change_and_idleness_saves_nothing_up() {
    let mut shares = shares(1);
    let tenants = [shares.add_tenant(100, 0).expect("room"), shares.add_tenant(100, 0).expect("room")];
    let fill = |shares: &mut Shares<u32>, which: &[usize]| {
        for index in which.iter().copied() {
            for _ in 0..30 {
                let _ = shares.submit(tenants[index], 1, 0, 0);
            }
        }
    };
    fill(&mut shares, &[0]);
    assert_eq!(served(&mut shares, &tenants, 20, 0), [20, 0], "alone");
    fill(&mut shares, &[1]);
    assert_eq!(served(&mut shares, &tenants, 10, 0), [5, 5], "no debt is collected");
    assert!(shares.set_weight(tenants[1], 400, 0));
    fill(&mut shares, &[0, 1]);
    let costs = served(&mut shares, &tenants, 25, 0);
    assert!((19..=21).contains(&costs[1]), "{costs:?}");
}

#[test]
fn items_of_a_tenant_keep_their_order_and_no_more_are_served_than_allowed() {
    let mut shares = shares(2);
    let tenant = shares.add_tenant(100, 0).expect("room");
    (0..5).for_each(|number| shares.submit(tenant, 7, number, 0).expect("room"));
    let (first, second) = (shares.next(0).expect("waits"), shares.next(0).expect("waits"));
    assert_eq!((first.item, second.item, first.cost), (0, 1, 7));
    assert!(shares.next(0).is_none(), "two are in service");
    assert_eq!((shares.waiting(), shares.in_service()), (3, 2));
    assert!(shares.done(second.id, 0));
    assert!(!shares.done(second.id, 0), "done once");
    assert_eq!(shares.next(0).expect("room again").item, 2);
}

#[test]
fn a_limit_delays_and_says_until_when() {
    let mut shares = shares(1);
    let tenants = [shares.add_tenant(100, 0).expect("room"), shares.add_tenant(100, 0).expect("room")];
    assert!(shares.set_limits(tenants[0], &RateLimits { cost_per_s: Some(1_000), items_per_s: None }, 0));
    let (mut now, mut got) = (0, 0);
    while now < 10 * SECOND {
        while shares.waiting() < 8 {
            shares.submit(tenants[0], 100, 0, now).expect("room");
        }
        match shares.next(now) {
            Some(turn) => {
                got += u64::from(turn.cost);
                assert!(shares.done(turn.id, now));
            }
            None => now = shares.next_timer().expect("an item is held").max(now + 1),
        }
    }
    assert!((9_800..=10_300).contains(&got), "{got} in 10 s at 1,000 per second");
    shares.submit(tenants[1], 1, 9, now).expect("room");
    assert_eq!(shares.next(now).map(|turn| turn.item), Some(9), "the other tenant is not held");
}

#[test]
fn what_is_not_taken_in_comes_back() {
    let mut shares = shares(1);
    let tenant = shares.add_tenant(100, 0).expect("room");
    assert_eq!(shares.submit(tenant, 0, 5, 0).map_err(|back| (back.item, back.why)), Err((5, Why::Cost)));
    assert_eq!(shares.submit(tenant, COST_MAX + 1, 5, 0).map_err(|back| back.why), Err(Why::Cost));
    (0..64).for_each(|number| shares.submit(tenant, COST_MAX, number, 0).expect("room"));
    assert_eq!(shares.submit(tenant, 1, 77, 0).map_err(|back| (back.item, back.why)), Err((77, Why::Full)));
    assert!(shares.remove_tenant(tenant, 0));
    assert_eq!(shares.submit(tenant, 1, 1, 0).map_err(|back| back.why), Err(Why::NoSuchTenant));
    let tenants = [tenant];
    assert_eq!(served(&mut shares, &tenants, 100, 0), [64 * u64::from(COST_MAX)], "what it left is served");
    let others: Vec<_> = (0..4).filter_map(|_| shares.add_tenant(1, 0).ok()).collect();
    assert_eq!(others.len(), 4, "its place is free again");
    assert_eq!(shares.add_tenant(1, 0), Err(NotAdded::Full));
}

#[test]
fn a_weight_of_0_is_an_error_and_changes_nothing() {
    let mut shares = shares(1);
    let tenants = [shares.add_tenant(100, 0).expect("room"), shares.add_tenant(100, 0).expect("room")];
    for weight in [0, 10_001, u32::MAX] {
        assert_eq!(shares.add_tenant(weight, 0), Err(NotAdded::Weight));
        assert!(!shares.set_weight(tenants[0], weight, 0));
    }
    for (tenant, number) in tenants.iter().zip(0..).cycle().take(40) {
        shares.submit(*tenant, 1, number, 0).expect("room");
    }
    assert_eq!(served(&mut shares, &tenants, 20, 0), [10, 10], "as before");
    assert_eq!(NotAdded::Weight.to_string(), "a weight is 1 to 10000");
}

#[test]
fn the_cost_of_bytes_counts_sectors_within_the_limits_of_a_cost() {
    for (bytes, cost) in [(0, 1), (1, 1), (512, 1), (513, 2), (4096, 8), (8 << 30, COST_MAX), (u64::MAX, COST_MAX)] {
        assert_eq!(cost_of_bytes(bytes), cost, "{bytes} bytes");
    }
}
