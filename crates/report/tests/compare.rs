//! Comparisons of results that differ in one property.

mod example;

use example::Example;
use hoistway_experiment::metric::Metric;
use hoistway_report::compare::{changes, table};

/// Doubling a small share error is a small change, because the difference is in percentage points.
#[test]
fn share_errors_differ_by_points() {
    let old = Example::new(5, &[4], 3);
    let mut new = Example::new(5, &[4], 3);
    new.favour_the_first(2);
    let (old, new) = (old.results(), new.results());
    let changes = changes(&old.cells(), &new.cells());
    let errors: Vec<_> = changes.iter().filter(|change| change.metric == Metric::ShareErrorMax).collect();
    assert_eq!(errors.len(), 3, "those that know weights");
    for change in errors {
        let (delta, (low, high)) = (change.delta.unwrap(), change.interval.unwrap());
        assert!((delta - (change.new - change.old)).abs() < 1e-12 && low < delta && delta < high, "{change:?}");
        assert!(delta < 1.0 && change.sign() == '+', "{change:?}");
        assert!((change.new - change.old) / change.old > 1.0, "relative to itself it would be more: {change:?}");
        let row = table(std::slice::from_ref(change));
        assert!(row.contains(&format!("{:+.1} pts", delta * 100.0)), "{row}");
    }
}
