//! Cost of kyber alone: `cargo bench -p hoistway-elevator --bench kyber`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "kyber");
}

criterion_group!(kyber, benches);
criterion_main!(kyber);
