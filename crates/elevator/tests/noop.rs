//! noop: the numbered cases of docs/specifications/classic-elevators.md, sections 2.1 and 2.2, for
//! the form of 2.4 and for that of 2.6 and later.

use hoistway_testbed::queue::{Era, Handover, Settings};
use hoistway_testbed::{Testbed, check_tunables_table};

#[track_caller]
fn order(script: &str, expected: &str) {
    let mut testbed = Testbed::new("noop");
    testbed.given(script);
    testbed.when("rest");
    testbed.then(expected);
}

/// The form of 2.4 in its original environment: an IDE disk, one command at a time.
fn linux_2_4(max_sectors: u32) -> Testbed {
    let mut settings = Settings::of_era(Era::LINUX_2_4, 1);
    settings.configuration.max_sectors = max_sectors;
    Testbed::with("noop@2.4.20", &settings)
}

#[track_caller]
fn order_2_4(script: &str, expected: &str) {
    let mut testbed = linux_2_4(255);
    testbed.given(script);
    testbed.when("rest");
    testbed.then(expected);
}

#[test]
fn no1_requests_leave_as_they_came() {
    order_2_4("R500 W100 R300", "R500 W100 R300");
}

#[test]
fn no2_a_request_grows_on_both_sides() {
    order_2_4("R100 W100 R108 R92", "R92+24 W100");
}

#[test]
fn no3_a_full_request_is_passed_over() {
    let mut testbed = linux_2_4(16);
    testbed.given("R100 R108 R116");
    testbed.when("rest");
    testbed.then("R100+16 R116");
}

#[test]
fn no4_a_front_merge_joins_the_neighbour_before() {
    order_2_4("R100 R116 R108", "R100+24");
}

#[test]
fn no5_the_request_in_service_is_out_of_reach() {
    let mut testbed = linux_2_4(255);
    testbed.given("R100 unplug d");
    testbed.when("R108 R92 rest");
    testbed.then("R100 R108 R92");
}

#[test]
fn no6_a_bio_joins_a_request_across_a_special_one() {
    order_2_4("R100 P0 R108", "R100+16 P0");
}

#[test]
fn no7_the_newest_hit_wins() {
    order_2_4("R200 R100 R108 R192", "R192+16 R100+16");
}

#[test]
fn a_hit_whose_segments_do_not_fit_still_says_where_the_bio_goes() {
    let mut settings = Settings::of_era(Era::LINUX_2_4, 1);
    settings.limits.max_segments = 1;
    for (script, expected) in [
        ("R100 W500 R108", "R100 R108 W500"),
        ("R100 W500 R92", "R92 R100 W500"),
        ("W500 R100 W900 R92", "W500 R92 R100 W900"),
    ] {
        let mut testbed = Testbed::with("noop@2.4.20", &settings);
        testbed.given(script);
        testbed.when("rest");
        testbed.then(expected);
    }
}

#[test]
fn np8_a_forced_drain_is_sorted_from_the_boundary_on() {
    for (script, expected) in [
        ("R500 R100 R300", "R100 R300 R500"),
        // R200 was dispatched before. The drain begins at sector 208, where it ended: requests from
        // there on come first, then those below.
        ("R200 d R500 R100 R300", "R200 R300 R500 R100"),
        ("R500 R100 W300 R50", "R100 R500 W300 R50"),
    ] {
        let mut testbed = Testbed::with("noop@2.6", &Settings::of_era(Era::LINUX_3, 8));
        testbed.given(script);
        testbed.switch("noop", Handover::Drain);
        testbed.when("rest");
        testbed.then(expected);
    }
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
