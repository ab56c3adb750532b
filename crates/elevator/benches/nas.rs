//! Cost of nas alone: `cargo bench -p hoistway-elevator --bench nas`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "nas");
}

criterion_group!(nas, benches);
criterion_main!(nas);
