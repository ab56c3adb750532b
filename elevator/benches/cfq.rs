//! What cfq costs by itself: `cargo bench -p hoistway-elevator --bench cfq`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "cfq");
}

criterion_group!(cfq, benches);
criterion_main!(cfq);
