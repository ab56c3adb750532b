//! Cost of sfq, sfq-d2 and mqfq alone: `cargo bench -p hoistway-elevator --bench sfq`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    for policy in ["sfq", "sfq-d2", "mqfq"] {
        testbed::policy_benches(criterion, policy);
    }
}

criterion_group!(sfq, benches);
criterion_main!(sfq);
