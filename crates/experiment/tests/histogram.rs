//! fio's buckets: case 21 of docs/specifications/harness.md, section 13.

use hoistway_experiment::Histogram;
use hoistway_experiment::histogram::{bucket_ns, bucket_of};

/// Case 21: the check values of docs/specifications/harness.md, section 7.4: latency, bucket, the
/// latency that represents the bucket.
#[test]
fn t21_buckets_are_fios() {
    let rows = [
        (1000, 317, 1004),
        (4096, 448, 4128),
        (20_000, 590, 20_096),
        (1_000_000, 954, 1_003_520),
        (3_000_000, 1051, 2_998_272),
        (1_000_000_000, 1591, 1_002_438_656),
        (127, 127, 127),
        (128, 128, 129),
    ];
    for (latency_ns, bucket, stands_for_ns) in rows {
        assert_eq!((bucket_of(latency_ns), bucket_ns(bucket)), (bucket, stands_for_ns), "{latency_ns} ns");
    }
}

/// Case 21: of {1004: 1, 1012: 2, 1020: 2} the median is 1012 and the largest 1020.
#[test]
fn t21_percentiles_take_the_first_bucket_that_reaches_the_count() {
    let histogram = Histogram::from_bins([(1004, 1), (1012, 2), (1020, 2)]);
    assert_eq!((histogram.percentile_unclamped_ns(50.0), histogram.percentile_unclamped_ns(100.0)), (1012, 1020));
}
