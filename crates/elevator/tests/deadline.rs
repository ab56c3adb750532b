//! deadline: the numbered cases of docs/specifications/classic-elevators.md, section 6.7, in the
//! form of 2.6.24 and in that of 2.6.0.

use hoistway_block::random::Stream;
use hoistway_testbed::{Testbed, check_tunables_table};

const FORMS: [&str; 2] = ["deadline@2.6.24", "deadline@2.6.0"];

/// Runs a script in both forms and compares the dispatched requests: `last` is expected in the form
/// of 2.6.24, `first` in that of 2.6.0.
#[track_caller]
fn orders(settings: &str, script: &str, last: &str, first: &str) {
    for (form, expected) in FORMS.into_iter().zip([last, first]) {
        let mut testbed = Testbed::new(&format!("{form}:{settings}"));
        testbed.when(script);
        testbed.then(expected);
    }
}

/// Same as [`orders`], for the form of 2.6.24 alone.
#[track_caller]
fn order(settings: &str, script: &str, expected: &str) {
    let mut testbed = Testbed::new(&format!("deadline:{settings}"));
    testbed.when(script);
    testbed.then(expected);
}

#[test]
fn dl1_a_batch_begins_at_the_oldest_or_at_the_lowest() {
    orders("", "W500 W700 W100 W300 W600 rest", "W500 W600 W700 W100 W300", "W100 W300 W500 W600 W700");
}

#[test]
fn dl2_reads_go_before_writes() {
    orders("", "W100 W200 R5000 R4000 rest", "R5000 R4000 W100 W200", "R4000 R5000 W100 W200");
}

#[test]
fn dl3_writes_go_after_two_batches_of_one_read() {
    let expected = "R100 R200 W1 R300 R400 W2000 R500 R600 W3000 R700";
    let script = "R100 R200 R300 R400 R500 R600 R700 W1 W2000 W3000 rest";
    orders("fifo_batch=1", script, expected, expected);
}

#[test]
fn dl4_batches_of_two_requests_or_of_one_seek() {
    orders(
        "fifo_batch=2",
        "R100 R200 R300 R400 R500 R600 R700 R800 W10 W20 W30 W40 rest",
        "R100 R200 R300 R400 W10 W20 R500 R600 R700 R800 W30 W40",
        "R100 R200 W10 R300 R400 W20 R500 R600 W30 R700 R800 W40",
    );
}

#[test]
fn dl5_a_batch_runs_on_over_an_overdue_request() {
    order("", "R1000 R100 R2000 R3000 d1 t+600 rest", "R1000 R2000 R3000 R100");
}

#[test]
fn dl6_deadlines_are_looked_at_between_batches() {
    order("fifo_batch=1", "R1000 R100 R2000 R3000 d1 t+600 rest", "R1000 R100 R2000 R3000");
    order("fifo_batch=1", "R1000 R100 R2000 R3000 d1 t+400 rest", "R1000 R2000 R3000 R100");
    order("fifo_batch=1", "R1000 R100 R2000 d1 t+499 rest", "R1000 R2000 R100");
    order("fifo_batch=1", "R1000 R100 R2000 d1 t+500 rest", "R1000 R100 R2000");
}

#[test]
fn dl7_an_overdue_write_does_not_preempt_the_preference_of_reads() {
    order("fifo_batch=1", "W100 t+6000 R1 R2000 R3000 R4000 rest", "R1 R2000 W100 R3000 R4000");
}

#[test]
fn dl8_the_next_request_was_fixed_at_the_last_dispatch() {
    order("", "R100 R300 d1 R200 rest", "R100 R300 R200");
}

#[test]
fn dl9_a_write_waits_for_two_batches_of_reads() {
    let reads: Vec<String> = (0..35).map(|n| format!("R{}", n * 100)).collect();
    let script = format!("{} W5000 {} rest", reads[..10].join(" "), reads[10..].join(" "));
    let expected = format!("{} W5000 {}", reads[..32].join(" "), reads[32..].join(" "));
    order("", &script, &expected);
}

#[test]
fn dl10_directions_alternate() {
    orders(
        "fifo_batch=1,writes_starved=1",
        "R100 R900 d1 W500 W800 d1 R400 R50 rest",
        "R100 R900 W500 R400 W800 R50",
        "R100 R900 W500 R50 W800 R400",
    );
}

#[test]
fn dl11_a_merge_inherits_the_urgency() {
    // R100 arrives at 0 ms, R116 at 300, and R108 joins both into one request at 400. R5000 arrives
    // at 100 ms, so it is younger than R100.
    let script = "R100 t+100 R5000 t+200 R116 t+100 R108 t+100 rest";
    order("fifo_batch=1", script, "R100+24 R5000");
    // Here R116 arrives first. The merged request takes the place of R100, which is younger, and
    // must get the deadline of R116.
    order("fifo_batch=1", "R116 t+100 R5000 t+200 R100 t+100 R108 t+100 R20000 rest", "R100+24 R5000 R20000");
}

#[test]
fn dl12_without_patience_writes_go_first() {
    order("writes_starved=0,fifo_batch=1", "R0 R10 R20 W1000 W1010 W1020 R30 rest", "W1000 W1010 W1020 R0 R10 R20 R30");
    order("writes_starved=-1,fifo_batch=1", "R0 W1000 W1010 rest", "W1000 W1010 R0");
}

#[test]
fn dl13_a_batch_of_none_is_a_batch_of_one() {
    for settings in ["fifo_batch=0", "fifo_batch=1"] {
        order(settings, "R100 R200 R300 R400 W1 W2000 rest", "R100 R200 W1 R300 R400 W2000");
    }
}

#[test]
fn dl14_an_overdue_read_waits_for_31_dispatches_at_most() {
    let mut testbed = Testbed::new("deadline");
    let far = |letter: char, from: u32| -> String { (1..50).map(|n| format!("{letter}{} ", from + n * 100)).collect() };
    testbed.given(&format!("R100000 R5 {} {}", far('R', 100_000), far('W', 500_000)));
    // A batch of reads is dispatched and the first request of a second one, so writes have been
    // passed by as many batches as permitted. Then R5, now the oldest read, becomes overdue.
    testbed.given("d17 t+600");
    let before = testbed.started().len();
    testbed.when("rest");
    let position = testbed.started()[before..].iter().position(|started| started.text == "R5");
    assert_eq!(position, Some(15 + 16), "the rest of the batch, then one batch of writes");
}

#[test]
fn p13_reads_that_are_overdue_at_once_go_in_order_of_arrival() {
    for form in FORMS {
        let mut random = Stream::new(7);
        let script: Vec<_> = (0..100).map(|_| format!("R{}", random.below(1 << 30) * 16)).collect();
        let mut testbed = Testbed::new(&format!("{form}:fifo_batch=1,read_expire=0"));
        testbed.given(&script.join(" "));
        testbed.when("t+1 rest");
        testbed.then(&script.join(" "));
    }
}

#[test]
fn a_head_insert_goes_first() {
    let mut testbed = Testbed::new("deadline");
    testbed.when("R100 R200 d1 back:R100 rest");
    testbed.then("R100 R100 R200");
    testbed.then_reason("R100", "put in front");
}

#[test]
fn the_page_lists_the_tunables() {
    check_tunables_table("deadline");
}
