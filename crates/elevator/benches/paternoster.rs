//! Cost of paternoster alone, with one and with two levels of groups: `cargo bench -p
//!          hoistway-elevator --bench paternoster`.

use criterion::{Criterion, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    testbed::policy_benches(criterion, "paternoster:give=0");
}

/// Every issuer has two requests in flight: no tenant leads, or leaders are let in.
fn in_groups(criterion: &mut Criterion) {
    for (issuers, groups) in [(4_096, 64), (4_096, 4_096), (65_536, 64)] {
        testbed::grouped_benches(criterion, &["noop", "wfq", "paternoster"], issuers, groups);
    }
}

criterion_group!(paternoster, benches, in_groups);
criterion_main!(paternoster);
