//! Cost of anticipatory alone: `cargo bench -p hoistway-elevator --bench anticipatory`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "anticipatory");
}

criterion_group!(anticipatory, benches);
criterion_main!(anticipatory);
