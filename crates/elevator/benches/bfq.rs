//! Cost of bfq alone, and of its search for queues to merge: `cargo bench -p hoistway-elevator
//!          --bench bfq`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use testbed::GroupedLoad;

/// Whole turns only: with the requests of a chunk in flight and none completed, as in the other
/// policies' benches, bfq idles the device for the queue in service.
fn in_groups(criterion: &mut Criterion) {
    testbed::grouped_benches(criterion, &["noop", "bfq@4.12", "bfq@5.2", "bfq@6.1", "bfq"], 1_000, 100);
}

/// The patch of March 2019 skips the search for close queues, and their index, on flash that queues
/// commands. 5.2 is the form in which nothing else depends on this: from 5.13 on, new queues of a
/// group are merged on flash.
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
