//! What a turn costs: through the fair queue, through a plain channel, through limiters that know no
//! shares.
//!
//! One item is submitted, taken and finished per turn, with 64 tenants that each have items waiting
//! where the peer has a queue. `governor` and `tower` limit rates and divide nothing: their limits are set so high that
//! nothing waits, so their figures are the cost of asking.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use governor::{Quota, RateLimiter};
use hoistway_shares::{AsyncShares, Shares, SharesSettings};
use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

const TENANTS: u32 = 64;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn turns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turn");
    group.throughput(Throughput::Elements(1));

    let mut shares = Shares::new(&SharesSettings::default()).expect("memory");
    let tenants: Vec<_> = (1..=TENANTS).map(|weight| shares.add_tenant(weight, 0).expect("room")).collect();
    tenants.iter().for_each(|tenant| (0..16).for_each(|item| shares.submit(*tenant, 8, item, 0).expect("room")));
    group.bench_function("shares, 64 tenants backlogged", |bencher| {
        bencher.iter(|| {
            let turn = shares.next(0).expect("items wait");
            assert!(shares.done(turn.id, 0));
            shares.submit(turn.tenant, 8, black_box(turn.item), 0).expect("room");
        });
    });

    let mut queue: VecDeque<u32> = (0..1024).collect();
    group.bench_function("VecDeque", |bencher| {
        bencher.iter(|| {
            let item = queue.pop_front().expect("items wait");
            queue.push_back(black_box(item));
        });
    });

    let (sender, receiver) = std::sync::mpsc::sync_channel(1024);
    (0..1000).for_each(|item: u32| sender.send(item).expect("open"));
    group.bench_function("std channel", |bencher| {
        bencher.iter(|| sender.send(black_box(receiver.recv().expect("items wait"))).expect("open"));
    });

    let limiter = RateLimiter::direct(Quota::per_second(NonZeroU32::MAX).allow_burst(NonZeroU32::MAX));
    group.bench_function("governor, nothing waits", |bencher| bencher.iter(|| black_box(limiter.check().is_ok())));
    group.finish();
}

fn tasks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("task");
    group.throughput(Throughput::Elements(1));
    let runtime = runtime();

    let shares = AsyncShares::new(&SharesSettings::default()).expect("memory");
    let tenant = shares.add_tenant(100).expect("room");
    group.bench_function("AsyncShares, nothing waits", |bencher| {
        bencher.iter(|| runtime.block_on(async { drop(shares.acquire(tenant, 1).await.expect("room")) }));
    });

    let semaphore = tokio::sync::Semaphore::new(1);
    group.bench_function("tokio semaphore, nothing waits", |bencher| {
        bencher.iter(|| runtime.block_on(async { drop(semaphore.acquire().await.expect("open")) }));
    });

    let idle = || service_fn(|item: u32| async move { Ok::<_, Infallible>(item) });
    let mut rate = runtime.block_on(async {
        ServiceBuilder::new().layer(RateLimitLayer::new(u64::MAX, Duration::from_secs(1))).service(idle())
    });
    group.bench_function("tower rate limit, nothing waits", |bencher| {
        bencher.iter(|| runtime.block_on(async { rate.ready().await.expect("ready").call(1).await }));
    });
    let mut concurrency = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).service(idle());
    group.bench_function("tower concurrency limit, nothing waits", |bencher| {
        bencher.iter(|| runtime.block_on(async { concurrency.ready().await.expect("ready").call(1).await }));
    });
    group.finish();
}

criterion_group!(benches, turns, tasks);
criterion_main!(benches);
