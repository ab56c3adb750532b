//! noop: the numbered cases of the specification for the form of 2.6 and later.

use testbed::{Testbed, check_tunables_table};

#[track_caller]
fn order(script: &str, expected: &str) {
    let mut testbed = Testbed::new("noop");
    testbed.given(script);
    testbed.when("rest");
    testbed.then(expected);
}

#[test]
fn np1_requests_leave_as_they_came() {
    order("R500 W100 R300", "R500 W100 R300");
}

#[test]
fn np2_a_gap_that_is_filled_joins_both_neighbours() {
    order("R100 R116 R108", "R100+24");
}

#[test]
fn np3_the_last_merged_request_takes_a_bio_at_its_front() {
    order("R100 R108 R92", "R92+24");
}

#[test]
fn np4_any_request_takes_a_bio_at_its_end() {
    order("R100 R200 R300 R308", "R100 R200 R300+16");
}

#[test]
fn np5_only_the_last_merged_request_takes_a_bio_at_its_front() {
    order("R100 R200 R300 R292", "R100 R200 R300 R292");
}

#[test]
fn np6_the_first_request_counts_as_last_merged() {
    order("R100 R200 R92", "R92+16 R200");
}

#[test]
fn np7_directions_do_not_merge() {
    order("R100 W108 R108", "R100+16 W108");
}

#[test]
fn the_reason_is_always_the_same() {
    let mut testbed = Testbed::new("noop");
    testbed.when("R500 rest");
    testbed.then_reason("R500", "oldest");
}

#[test]
fn the_document_has_the_rows() {
    check_tunables_table("noop");
}
