//! What bfq costs by itself, and what looking for queues to merge adds to it:
//! `cargo bench -p hoistway-elevator --bench bfq`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use testbed::GroupedLoad;

/// Whole turns only: with the requests of a chunk inside and none completed, as the other policies' benches have it, bfq
/// keeps the device for the queue in service.
fn in_groups(criterion: &mut Criterion) {
    testbed::grouped_benches(criterion, &["noop", "bfq@4.12", "bfq@5.2", "bfq@6.1", "bfq"], 1_000, 100);
}

/// The patch of March 2019 spares flash that takes many commands the search for close queues and its index. 5.2 is the form
/// in which nothing else hangs on it: from 5.13 on new queues of a group become one on flash.
fn merging(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000 issuers in 100 groups, queues merged early or not");
    group.throughput(Throughput::Elements(1));
    let mut spared = GroupedLoad::new("bfq@5.2", 1_000, 100);
    group.bench_function("flash (not)", |bencher| bencher.iter(|| spared.turn()));
    let mut merging = GroupedLoad::on_disk("bfq@5.2", 1_000, 100);
    group.bench_function("disk", |bencher| bencher.iter(|| merging.turn()));
    group.finish();
}

criterion_group!(bfq, in_groups, merging);
criterion_main!(bfq);
