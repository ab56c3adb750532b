//! Cost of mq-deadline alone: `cargo bench -p hoistway-elevator --bench mq_deadline`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "mq-deadline");
}

criterion_group!(mq_deadline, benches);
criterion_main!(mq_deadline);
