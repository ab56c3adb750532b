//! Cost of wfq alone: `cargo bench -p hoistway-elevator --bench wfq`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "wfq");
}

criterion_group!(wfq, benches);
criterion_main!(wfq);
