//! fifo-by-class: one test for each claim of its description.

use hoistway_testbed::{Testbed, check_tunables_table};

#[track_caller]
fn order(given: &str, when: &str, expected: &str) {
    let mut testbed = Testbed::new("fifo-by-class");
    testbed.given(given);
    testbed.when(when);
    testbed.then(expected);
}

#[test]
fn a_class_goes_in_the_order_of_arrival() {
    order("R500 W100 R300", "rest", "R500 W100 R300");
}

#[test]
fn higher_classes_go_first() {
    order("R100idle R200 R300rt R400", "rest", "R300rt R200 R400 R100idle");
}

#[test]
fn from_half_a_second_on_the_oldest_goes_first() {
    order("R100idle t+499 R300rt", "rest", "R300rt R100idle");
    order("R100idle t+500 R300rt", "rest", "R100idle R300rt");
    // Of two that arrived at the same time, the first.
    order("R100idle R300rt t+500", "rest", "R100idle R300rt");
}

#[test]
fn reasons_say_which_rule_it_was() {
    let mut testbed = Testbed::new("fifo-by-class");
    testbed.given("R100 R200");
    testbed.when("d1 t+500 rest");
    testbed.then_reason("R100", "oldest");
    testbed.then_reason("R200", "overdue");
}

#[test]
fn tunables_are_as_documented() {
    check_tunables_table("fifo-by-class");
}
