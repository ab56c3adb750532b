//! Cost of linus alone: `cargo bench -p hoistway-elevator --bench linus`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "linus");
}

criterion_group!(linus, benches);
criterion_main!(linus);
