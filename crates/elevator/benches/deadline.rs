//! Cost of deadline alone: `cargo bench -p hoistway-elevator --bench deadline`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "deadline");
}

criterion_group!(deadline, benches);
criterion_main!(deadline);
