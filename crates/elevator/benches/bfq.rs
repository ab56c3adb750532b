//! Cost of bfq's search for queues to merge: `cargo bench -p hoistway-elevator --bench bfq`. The
//! policy's cost in each form is measured by `policies`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hoistway_testbed::GroupedLoad;

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

criterion_group!(bfq, merging);
criterion_main!(bfq);
