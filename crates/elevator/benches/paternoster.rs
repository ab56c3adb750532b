//! Cost of paternoster without exact shares, and with thousands of issuers and groups: `cargo bench
//! -p hoistway-elevator --bench paternoster`.

use criterion::{Criterion, criterion_group, criterion_main};

/// With the default `give` a leader waits for others, so that only full turns (a request is
/// inserted, chosen and completed) can be measured.
fn without_shares(criterion: &mut Criterion) {
    hoistway_testbed::policy_benches(criterion, "paternoster:give=0");
}

/// Turns with the default `give`. Every issuer has two reads outstanding, and one read at a time is
/// in flight, so that every group stays backlogged.
fn in_groups(criterion: &mut Criterion) {
    for (issuers, groups) in [(4_096, 64), (4_096, 4_096), (65_536, 64)] {
        hoistway_testbed::grouped_benches(criterion, &["noop", "wfq", "paternoster"], issuers, groups);
    }
}

criterion_group!(paternoster, without_shares, in_groups);
criterion_main!(paternoster);
