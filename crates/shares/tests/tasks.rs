//! Turns of tokio tasks: by weight, within limits, and never lost when a task gives up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hoistway_shares::{AsyncShares, NotServed, RateLimits, SharesSettings, TenantId, Why};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

/// Tasks of a tenant that take turns of 1 ms for ever; counts them.
fn work(shares: &AsyncShares, tenant: TenantId, tasks: u32) -> Arc<AtomicU64> {
    let turns = Arc::new(AtomicU64::new(0));
    for _ in 0..tasks {
        let (shares, turns) = (shares.clone(), Arc::clone(&turns));
        tokio::spawn(async move {
            loop {
                let permit = shares.acquire(tenant, 1).await.expect("room");
                sleep(Duration::from_millis(1)).await;
                turns.fetch_add(1, Ordering::Relaxed);
                drop(permit);
            }
        });
    }
    turns
}

#[tokio::test(start_paused = true)]
async fn tasks_have_turns_by_weight() {
    let shares = AsyncShares::new(&SharesSettings { in_service: 2, ..SharesSettings::default() }).expect("memory");
    let (db, ci) = (shares.add_tenant(300).expect("room"), shares.add_tenant(100).expect("room"));
    let (of_db, of_ci) = (work(&shares, db, 8), work(&shares, ci, 32));
    sleep(Duration::from_secs(2)).await;
    let (of_db, of_ci) = (of_db.load(Ordering::Relaxed), of_ci.load(Ordering::Relaxed));
    assert!((3_900..=4_000).contains(&(of_db + of_ci)), "two at a time: {of_db} + {of_ci}");
    assert!(of_db.abs_diff(3 * of_ci) < 20, "{of_db} and {of_ci} turns at weights 300 and 100");
}

#[tokio::test(start_paused = true)]
async fn a_limit_holds_one_tenant_only() {
    let shares = AsyncShares::new(&SharesSettings::default()).expect("memory");
    let (slow, free) = (shares.add_tenant(100).expect("room"), shares.add_tenant(100).expect("room"));
    assert!(shares.set_limits(slow, &RateLimits { items_per_s: Some(50), ..RateLimits::default() }));
    let (of_slow, of_free) = (work(&shares, slow, 4), work(&shares, free, 4));
    sleep(Duration::from_secs(4)).await;
    let (of_slow, of_free) = (of_slow.load(Ordering::Relaxed), of_free.load(Ordering::Relaxed));
    assert!((190..=215).contains(&of_slow), "{of_slow} turns in 4 s at 50 per second");
    assert!(of_free > 3_500, "the other has the rest: {of_free}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_gives_up_leaves_no_hole() {
    let shares = AsyncShares::new(&SharesSettings { items: 4, ..SharesSettings::default() }).expect("memory");
    let tenant = shares.add_tenant(100).expect("room");
    let first = shares.acquire(tenant, 1).await.expect("room");
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(1), shares.acquire(tenant, 1)).await.is_err(), "it is taken");
    }
    assert_eq!(shares.acquire(tenant, 1).await.expect_err("four places"), NotServed(Why::Full));
    drop(first);
    // Those that gave up had their turns, and all places are free again.
    for _ in 0..10 {
        drop(timeout(Duration::from_secs(1), shares.acquire(tenant, 1)).await.expect("its turn").expect("room"));
    }
    assert!(shares.remove_tenant(tenant));
    assert_eq!(shares.acquire(tenant, 1).await.expect_err("removed"), NotServed(Why::NoSuchTenant));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_turn_is_lost_between_threads() {
    let shares = AsyncShares::new(&SharesSettings { in_service: 3, ..SharesSettings::default() }).expect("memory");
    let tenants: Vec<_> = (1..=8).map(|weight| shares.add_tenant(weight * 100).expect("room")).collect();
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let (shares, tenant) = (shares.clone(), tenants[number % tenants.len()]);
            tokio::spawn(async move {
                for turn in 0..200 {
                    let permit = shares.acquire(tenant, 1 + turn % 7).await.expect("room");
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            })
        })
        .collect();
    for task in tasks {
        timeout(Duration::from_secs(60), task).await.expect("no task waits for ever").expect("no panic");
    }
}

/// Tasks that read 4 KiB from a device which does `servers` reads of 1 ms at a time, first come, first served.
fn read(shares: &AsyncShares, device: &Arc<Semaphore>, tenant: TenantId, tasks: u32) -> Arc<AtomicU64> {
    let reads = Arc::new(AtomicU64::new(0));
    for _ in 0..tasks {
        let (shares, device, reads) = (shares.clone(), Arc::clone(device), Arc::clone(&reads));
        tokio::spawn(async move {
            loop {
                let permit = shares.acquire_bytes(tenant, 4_096).await.expect("room");
                let server = device.acquire().await.expect("it stays open");
                sleep(Duration::from_millis(1)).await;
                drop((server, permit));
                reads.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    reads
}

/// Reads of two tenants with weights of 800 and 100 in 20 s after 20 s, with 16 tasks each and 32 permits.
async fn reads_of_two(learns: bool) -> (u64, u64) {
    let shares = AsyncShares::new(&SharesSettings { in_service: 32, learns, ..SharesSettings::default() });
    let shares = shares.expect("memory");
    let device = Arc::new(Semaphore::new(8));
    let [a, b] = [800, 100].map(|weight| {
        let tenant = shares.add_tenant(weight).expect("room");
        read(&shares, &device, tenant, 16)
    });
    sleep(Duration::from_secs(20)).await;
    let before = [&a, &b].map(|reads| reads.load(Ordering::Relaxed));
    sleep(Duration::from_secs(20)).await;
    (a.load(Ordering::Relaxed) - before[0], b.load(Ordering::Relaxed) - before[1])
}

/// With a permit for each task nothing waits where weights act, whatever the weights are.
#[tokio::test(start_paused = true)]
async fn learned_concurrency_makes_weights_act_at_full_throughput() {
    let (fixed_a, fixed_b) = reads_of_two(false).await;
    assert!(fixed_a.abs_diff(fixed_b) * 50 < fixed_a, "32 permits for 32 tasks: {fixed_a} and {fixed_b}");
    let (a, b) = reads_of_two(true).await;
    assert!((a + b) * 100 >= (fixed_a + fixed_b) * 96, "{a} + {b} of {fixed_a} + {fixed_b}");
    assert!(a * 10 >= 72 * b && a * 10 <= 88 * b, "8 : 1 within 10 %: {a} and {b}");
}

/// The scheduler holds a tenant that is ahead while it expects another to return. If that one has gone, only time ends
/// the hold, and no task of the other asks for a turn: all wait.
#[tokio::test(start_paused = true)]
async fn a_hold_ends_although_no_task_asks() {
    let settings = SharesSettings { in_service: 32, learns: true, ..SharesSettings::default() };
    let shares = AsyncShares::new(&settings).expect("memory");
    let device = Arc::new(Semaphore::new(8));
    let [light, heavy] = [100, 800].map(|weight| shares.add_tenant(weight).expect("room"));
    let of_light = read(&shares, &device, light, 16);
    for round in 0..100_u64 {
        let end = Instant::now() + Duration::from_millis(500 + 7 * round);
        for _ in 0..16 {
            let (shares, device) = (shares.clone(), Arc::clone(&device));
            tokio::spawn(async move {
                while Instant::now() < end {
                    let permit = shares.acquire_bytes(heavy, 4_096).await.expect("room");
                    let server = device.acquire().await.expect("it stays open");
                    sleep(Duration::from_millis(1)).await;
                    drop((server, permit));
                }
            });
        }
        sleep(Duration::from_millis(500 + 7 * round)).await;
        let before = of_light.load(Ordering::Relaxed);
        sleep(Duration::from_secs(1)).await;
        let after = of_light.load(Ordering::Relaxed);
        assert!(after > before + 100, "round {round}: {} reads in the second after the other had gone", after - before);
    }
}
