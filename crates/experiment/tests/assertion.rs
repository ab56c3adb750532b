//! Assertions: case 10 of docs/specifications/harness.md, section 13, and the examples of section
//! 5.9.

mod example;

use example::measured;
use hoistway_experiment::assertion::{Assertion, Verdict};
use hoistway_experiment::cell::cells;
use hoistway_experiment::{Diagnostic, Measurement};

/// cfq shares 1:2:3:4 within 4.3 %, bfq exactly; `none` has 20 % more throughput and equal shares.
/// All at 4 ms.
fn results() -> Vec<Measurement> {
    vec![
        measured("cfq", 1, 1, &[1000, 2100, 2900, 4100], 4_000_000),
        measured("bfq@6.12:low_latency=0,slice_idle=4", 1, 1, &[1000, 2000, 3000, 4000], 4_000_000),
        measured("none", 1, 1, &[3000, 3000, 3000, 3000], 4_000_000),
        measured("bfq@6.12:low_latency=0,slice_idle=4", 8, 1, &[1000, 2000, 3000, 4000], 4_000_000),
    ]
}

fn judge(text: &str) -> Result<Verdict, Diagnostic> {
    let (results, baseline) = (results(), results());
    Assertion::parse(text)?.evaluate(&cells(&results, &[]), &cells(&baseline, &[]))
}

/// Case 10: a true assertion holds.
#[test]
fn t10_a_true_assertion_holds() {
    let verdict = judge("share_error_max<=5%@sched=cfq").unwrap();
    assert!(verdict.ok);
    // 4100/10100 over 4/10 = 1.0149, 2100/10100 over 2/10 = 1.0396, 2900/10100 over 3/10 = 0.9571:
    // 4.3 %
    assert_eq!(format!("{:.3} {}", verdict.value, verdict.cell), "0.043 drr cfq nr=1");
}

/// Case 10: an impossible bound fails.
#[test]
fn t10_an_impossible_bound_fails() {
    assert!(!judge("share_error_max <= 4% @ sched=cfq").unwrap().ok);
    assert!(!judge("share_error_max <= 5%").unwrap().ok, "none is far off");
}

/// Case 10: a selector that chooses nothing is an error.
#[test]
fn t10_a_selector_without_a_match_is_an_error() {
    let error = judge("total_bw >= 1 @ sched=typo").unwrap_err();
    assert_eq!(error.message, "assertion 'total_bw >= 1 @ sched=typo': no run matches sched=typo");
    assert!(error.help.starts_with("there are: drr cfq nr=1; "), "{}", error.help);
    assert!(judge("total_bw >= 1 @ sched=cqf").unwrap_err().help.starts_with("did you mean sched=cfq?"));
}

/// Case 10: a missing value has its caret at the end.
#[test]
fn t10_a_missing_value_has_a_caret_at_the_end() {
    let error = judge("total_bw>=").unwrap_err();
    assert_eq!(error.message, "assertion: a value is missing\n  total_bw>=\n            ^");
}

/// The examples of docs/specifications/harness.md, section 5.9, parse and are evaluated as
/// described.
#[test]
fn the_examples_of_the_specification_are_judged() {
    assert!(judge("share_error_max <= 10% @ sched=bfq,nr=8").unwrap().ok);
    // cfq 10100, bfq 10000 of 12000
    assert!(!judge("total_bw >= 0.95*total_bw@sched=none @ nr=1").unwrap().ok);
    assert!(judge("total_bw >= 0.8*total_bw@sched=none @ nr=1").unwrap().ok);
    assert!(judge("lat_p99(cgrp1).hi <= 50ms").unwrap().ok);
    assert!(!judge("lat_p99(cgrp1).hi < 4ms").unwrap().ok);
    assert!(judge("total_bw >= 0.97*baseline").unwrap().ok);
    assert!(!judge("total_bw >= 1.01*baseline").unwrap().ok);
}

/// A scheduler is selected by name, by name and version, or by the complete specification.
#[test]
fn a_scheduler_is_chosen_by_as_much_as_is_written() {
    for selector in ["bfq", "bfq@6.12", "bfq@6.12:low_latency=0,slice_idle=4"] {
        let verdict = judge(&format!("rel(cgrp2) == 100% @ sched={selector},nr=8")).unwrap();
        assert!(verdict.ok && verdict.cell.ends_with("nr=8"), "{selector}: {verdict:?}");
    }
    judge("jain > 0 @ sched=bfq@6.1").unwrap_err();
}

/// Rates accept decimal and binary units; a number without a unit is in bytes per second.
#[test]
fn units_scale_the_value() {
    for value in ["12288000", "12000KiB/s", "11.71875MiB/s", "12288 kB/s", "12.288MB/s"] {
        assert!(judge(&format!("total_bw == {value} @ sched=none")).unwrap().ok, "{value}");
    }
}

/// Each mistake is named, with a caret under its position.
#[test]
fn every_mistake_is_pointed_at() {
    let rows = [
        ("", "a metric is missing", 0),
        ("total_bv > 1", "no metric 'total_bv'", 0),
        ("total_bw(a) > 1", "total_bw is of all groups together", 8),
        ("bw > 1", "a group is missing", 3),
        ("bw() > 1", "a group's name and ')' were expected", 3),
        ("jain.med > 1", "no statistic 'med'", 5),
        ("jain 1", "a comparison is missing", 5),
        ("jain > 1.2.3", "'1.2.3' is not a number", 7),
        ("jain > 1ms", "'ms' is not a unit of this metric", 8),
        ("lat_p50 < 5", "a time needs a unit", 11),
        ("jain > 2*lat_p50", "lat_p50 is not of the same kind as the left side", 9),
        ("jain > 1 @ foo=1", "there is no such key", 11),
        ("jain > 1 @ nr=x", "nr is a whole number", 14),
        ("jain > 1 @ dir=up", "dir is read, write or trim", 15),
        ("jain > 1 @ nr", "key=value was expected", 13),
        ("jain > 1 and", "'and' is not a unit of this metric", 9),
        ("jain > 1 2", "nothing was expected here", 9),
    ];
    for (text, what, column) in rows {
        let error = Assertion::parse(text).unwrap_err();
        assert_eq!(error.message, format!("assertion: {what}\n  {text}\n  {:column$}^", ""), "{text}");
    }
}

/// An unknown group is an error with the list of known ones.
#[test]
fn an_unknown_group_is_an_error() {
    let error = judge("bw(db) > 1").unwrap_err();
    assert_eq!(error.help, "groups are: cgrp1, cgrp2, cgrp3, cgrp4");
}

/// A direction without any request has no latency, so the assertion never applied.
#[test]
fn a_figure_without_a_value_is_an_error() {
    judge("lat_p99 < 1s @ dir=write").unwrap_err();
    assert!(judge("total_bw == 0 @ dir=write").unwrap().ok);
}

/// Case 10: an interval that contains the limit is inconclusive if it is wider than the requested
/// precision.
#[test]
fn t10_noise_over_the_limit_is_inconclusive() {
    // 90, 100, 110 KiB/s: mean 100, half width 24.84.
    let runs: Vec<_> =
        [90, 100, 110].iter().zip(1..).map(|(kib, set)| measured("cfq", 1, set, &[*kib], 1000)).collect();
    let cells = cells(&runs, &[]);
    let judged = |text: &str, precision: f64| {
        let verdict = Assertion::parse(text).unwrap().evaluate_within(&cells, &[], precision).unwrap();
        (verdict.ok, verdict.is_inconclusive)
    };
    assert_eq!(judged("total_bw >= 90KiB/s", 0.05), (true, true));
    assert_eq!(judged("total_bw >= 110KiB/s", 0.05), (false, true));
    assert_eq!(judged("total_bw >= 70KiB/s", 0.05), (true, false));
    assert_eq!(judged("total_bw >= 130KiB/s", 0.05), (false, false));
    assert_eq!(judged("total_bw >= 90KiB/s", 0.5), (true, false), "wide, but as wide as was allowed");
    assert_eq!(judged("total_bw.lo >= 70KiB/s", 0.05), (true, false), "who names an end has thought of it");
    assert_eq!(judged("total_bw >= 0.99*total_bw", 0.05), (true, true), "against itself, as if it were another");
}
