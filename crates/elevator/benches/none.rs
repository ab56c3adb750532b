//! Cost of none alone: `cargo bench -p hoistway-elevator --bench none`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "none");
}

criterion_group!(none, benches);
criterion_main!(none);
