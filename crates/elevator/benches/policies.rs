//! Cost of every policy of the registry alone: `cargo bench -p hoistway-elevator --bench policies`,
//! of one of them with `-- '^NAME/'`, of issuers in groups with `-- issuers`.

use criterion::{Criterion, criterion_group, criterion_main};
use hoistway_elevator::Version;
use hoistway_elevator::registry::ENTRIES;

fn alone(criterion: &mut Criterion) {
    for entry in ENTRIES {
        hoistway_testbed::policy_benches(criterion, entry.name);
    }
}

/// Every form of every policy in one run, so that their costs can be compared. The goal is 150 ns.
fn in_groups(criterion: &mut Criterion) {
    let forms = ENTRIES.iter().flat_map(|entry| entry.versions.iter().map(|version| (entry.name, *version)));
    let specs = forms.map(|(name, Version(major, minor, patch))| format!("{name}@{major}.{minor}.{patch}"));
    hoistway_testbed::grouped_benches(criterion, &specs.collect::<Vec<_>>(), 1_000, 100);
}

criterion_group!(policies, alone, in_groups);
criterion_main!(policies);
