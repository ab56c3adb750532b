//! Cost of noop alone: `cargo bench -p hoistway-elevator --bench noop`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "noop");
}

criterion_group!(noop, benches);
criterion_main!(noop);
