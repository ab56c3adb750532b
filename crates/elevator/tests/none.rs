//! none: the numbered cases of docs/specifications/classic-elevators.md, section 2.3, and the
//! effect of the software queues on merging and on the order of dispatch. blk-mq gives each CPU a
//! software queue.

use hoistway_block::Status;
use hoistway_testbed::queue::Era;
use hoistway_testbed::{Testbed, check_tunables_table};

#[test]
fn nn1_an_idle_device_gets_a_batch_in_order_of_submission() {
    let mut testbed = Testbed::new("none");
    testbed.when("{W10000 W20000 R5000 R4000 R3000} rest");
    testbed.then("W10000 W20000 R5000 R4000 R3000");
}

#[test]
fn nn2_a_plug_merges_with_its_newest_request() {
    let mut testbed = Testbed::new("none");
    testbed.when("{R1000 R1008 R1016} rest");
    testbed.then("R1000+24");
}

#[test]
fn nn2_a_plug_does_not_merge_past_another_request() {
    let mut testbed = Testbed::new("none");
    testbed.when("{R1000 R5000 R1008} rest");
    testbed.then("R1000 R5000 R1008");
}

/// Four software queues on a device that accepts one request.
fn narrow() -> Testbed {
    let mut settings = Testbed::settings();
    settings.configuration.software_queues = 4;
    settings.configuration.depth.device = 1;
    settings.era = Era::BLK_MQ;
    Testbed::with("none", &settings)
}

#[test]
fn a_waiting_bio_joins_one_of_the_eight_newest_of_its_software_queue() {
    let mut testbed = Testbed::new("none");
    testbed.given("R100 R1000 R2000 R3000 R4000 R5000 R6000 R7000");
    testbed.when("R108 rest");
    testbed.then("R100+16 R1000 R2000 R3000 R4000 R5000 R6000 R7000");
}

#[test]
fn the_ninth_newest_is_not_looked_at() {
    let mut testbed = Testbed::new("none");
    testbed.given("R100 R1000 R2000 R3000 R4000 R5000 R6000 R7000 R8000");
    testbed.when("R108 rest");
    testbed.then("R100 R1000 R2000 R3000 R4000 R5000 R6000 R7000 R8000 R108");
}

#[test]
fn the_newest_neighbour_takes_the_bio() {
    let mut testbed = Testbed::new("none");
    testbed.when("R100 R116 R108 rest");
    testbed.then("R100 R108+16");
}

#[test]
fn a_bio_of_another_software_queue_does_not_join() {
    let mut settings = Testbed::settings();
    settings.configuration.software_queues = 2;
    let mut testbed = Testbed::with("none", &settings);
    testbed.when("R100 R108q1 rest");
    testbed.then("R100 R108q1");
}

#[test]
fn while_the_device_keeps_up_software_queues_are_emptied_in_turn() {
    let mut settings = Testbed::settings();
    settings.configuration.software_queues = 4;
    let mut testbed = Testbed::with("none", &settings);
    testbed.when("R100q2 R200q0 R300q2 R400q3 R500q0 rest");
    testbed.then("R200 R500 R100q2 R300q2 R400q3");
    testbed.then_reason("R100q2", "flushed with all waiting requests");
}

#[test]
fn what_was_flushed_goes_before_what_came_later() {
    let mut settings = Testbed::settings();
    settings.configuration.software_queues = 4;
    let mut testbed = Testbed::with("none", &settings);
    testbed.when("R100q2 R200q3 d R300q0 rest");
    testbed.then("R100q2 R200q3 R300");
}

#[test]
fn a_busy_device_is_fed_by_the_software_queues_in_turn() {
    let mut testbed = narrow();
    // The second dispatch finds the device full, so the device counts as busy from here on. R20 has
    // been taken from its software queue all the same, and is dispatched when there is room.
    testbed.given("R10 R20 d d");
    testbed.given("R100q1 R200q1 R300q2 R400q2 R500q3");
    testbed.complete(0, Status::Ok);
    testbed.when("d d");
    testbed.then("R10 R20");
    testbed.complete(0, Status::Ok);
    testbed.when("d d");
    testbed.complete(0, Status::Ok);
    testbed.when("d d");
    testbed.then("R100q1 R300q2");
    testbed.then_reason("R300q2", "");
}

#[test]
fn the_document_has_the_rows() {
    check_tunables_table("none");
}
