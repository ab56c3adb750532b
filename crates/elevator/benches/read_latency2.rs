//! Cost of read-latency2 alone: `cargo bench -p hoistway-elevator --bench read_latency2`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "read-latency2");
}

criterion_group!(read_latency2, benches);
criterion_main!(read_latency2);
