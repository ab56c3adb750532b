//! Cost of cfq alone, and of the layers of 2008 above its first engine: `cargo bench -p
//!          hoistway-elevator --bench cfq`.

use criterion::{Criterion, criterion_group, criterion_main};

/// Whole turns only: a queue dispatches a limited number of requests at a time, and waits for them.
fn benches(criterion: &mut Criterion) {
    for policy in ["cfq", "uchida", "tarasov"] {
        testbed::turn_benches(criterion, policy);
    }
}

/// The goal is 150 ns; measured in the same run as policies without queues per issuer.
fn in_groups(criterion: &mut Criterion) {
    let specs = ["noop", "mq-deadline", "cfq@2.6.26", "uchida", "tarasov", "cfq@2.6.36", "cfq@3.0", "cfq@4.20"];
    testbed::grouped_benches(criterion, &specs, 1_000, 100);
}

criterion_group!(cfq, benches, in_groups);
criterion_main!(cfq);
