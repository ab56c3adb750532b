//! What cfq costs by itself, and the layers of 2008 above its first engine:
//! `cargo bench -p hoistway-elevator --bench cfq`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    for policy in ["cfq", "uchida", "tarasov"] {
        testbed::policy_benches(criterion, policy);
    }
}

criterion_group!(cfq, benches);
criterion_main!(cfq);
