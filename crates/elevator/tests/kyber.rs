//! kyber: the numbered cases of docs/specifications/classic-elevators.md, section 8.9 (1 to 4 and 9
//! are tested in `src/kyber/feedback.rs`). kyber keeps reads, writes, discards and other requests
//! apart as kinds; a token of a kind is the permission to have one of its requests in the device.

use hoistway_block::Status;
use hoistway_testbed::queue::Next;
use hoistway_testbed::{Testbed, check_tunables_table};

/// `count` requests of a kind, from `from` on, so far apart that none merge.
fn requests(letter: char, count: u32, from: u32) -> String {
    (0..count).map(|n| format!("{letter}{} ", from + n * 100)).collect()
}

/// The kinds of the dispatched requests in order: `R16 W8` means 16 reads and then 8 writes.
fn runs(testbed: &Testbed, since: usize) -> String {
    let mut runs: Vec<(char, u32)> = Vec::new();
    for started in &testbed.started()[since..] {
        let kind = started.text.chars().next().expect("a transfer begins with its letter");
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    runs.iter().map(|(kind, count)| format!("{kind}{count}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn ky5_kinds_take_turns_by_batches_that_go_on_over_idle_times() {
    let mut testbed = Testbed::new("kyber");
    for (count, expected) in [(16, "R16 W16"), (4, "R4 W4"), (16, "W4 R16 W12"), (4, "W4 R4")] {
        let before = testbed.started().len();
        testbed.when(&format!("{} {} rest", requests('R', count, 100_000), requests('W', count, 500_000)));
        assert_eq!(runs(&testbed, before), expected);
    }
}

#[test]
fn ky6_arrival_order_inside_a_kind() {
    let mut testbed = Testbed::new("kyber");
    testbed.when("W10000 W20000 R5000 R4000 R3000 rest");
    testbed.then("R5000 R4000 R3000 W10000 W20000");
    testbed.when("W10000 W20000 R5000 R4000 R3000 rest");
    testbed.then("W10000 W20000 R5000 R4000 R3000");
}

#[test]
fn ky7_a_bio_joins_what_is_staged() {
    let mut testbed = Testbed::new("kyber");
    testbed.when("R2000 R1000 R1008 R992 rest");
    testbed.then("R2000 R992+24");
    testbed.when("{R1000 R5000 R1008} rest");
    testbed.then("R1000 R5000 R1008");
}

#[test]
fn ky7_what_is_flushed_merges_no_more() {
    let mut testbed = Testbed::new("kyber");
    testbed.given("R1000 R2000 d1");
    testbed.when("R2008 rest");
    testbed.then("R1000 R2000 R2008");
}

/// A queue and a device with room for more than a thousand requests, so that only kyber's tokens
/// limit the requests in the device.
fn roomy(spec: &str) -> Testbed {
    let mut settings = Testbed::settings();
    settings.configuration.slots = 2048;
    settings.configuration.depth.requests = 1500;
    settings.configuration.depth.device = 1500;
    Testbed::with(spec, &settings)
}

#[test]
fn ky8_a_kind_without_tokens_waits_and_others_do_not() {
    let mut testbed = roomy("kyber");
    testbed.given(&format!("{} d300", requests('R', 257, 100_000)));
    assert_eq!(testbed.started().len(), 256);
    assert_eq!(testbed.dispatch(), Next::Throttled);
    testbed.when("W5000 d1");
    assert!(testbed.started().last().is_some_and(|started| started.text == "W5000"));
    assert_eq!(testbed.dispatch(), Next::Throttled);
    testbed.complete(0, Status::Ok);
    assert!(matches!(testbed.dispatch(), Next::Start { .. }), "a token came back, no insert was needed");
    assert_eq!(testbed.started().len(), 258);
}

#[test]
fn ky8_a_requeued_request_gives_its_token_back() {
    let mut testbed = roomy("kyber");
    testbed.given(&format!("{} d300", requests('R', 256, 100_000)));
    testbed.when("R1000 d1");
    assert_eq!(testbed.started().len(), 256, "no token is left");
    testbed.when("back:R100000 d2");
    // The requeued request and the waiting one compete for one token. The requeued one was put in
    // front, so it is dispatched first.
    assert_eq!(testbed.started().len(), 257);
    assert!(testbed.started().last().is_some_and(|started| started.text == "R100000"));
}

#[test]
fn ky9_reads_give_up_depth_while_writes_make_the_device_slow() {
    // Every write takes longer in the device than its target of 4 ns, and every read is far below
    // its target of 4 s.
    let mut testbed = roomy("kyber:read_lat_nsec=4000000000,write_lat_nsec=4");
    for _ in 0..4 {
        testbed.given(&format!("{} {} t+1us d400", requests('R', 128, 100_000), requests('W', 128, 900_000)));
        testbed.given("t+1us");
        for _ in 0..256 {
            testbed.complete(0, Status::Ok);
        }
    }
    testbed.when("t+101");
    let before = testbed.started().len();
    testbed.when(&format!("{} d300", requests('R', 100, 100_000)));
    assert_eq!(testbed.started().len() - before, 64, "a quarter of 256: their 99th percentile lies in bucket 0");
    let before = testbed.started().len();
    testbed.when(&format!("{} d300", requests('W', 130, 900_000)));
    assert_eq!(testbed.started().len() - before, 128, "writes keep the most there is");
}

#[test]
fn ky10_the_histograms_are_not_evaluated_without_completions() {
    let mut testbed = Testbed::new("kyber");
    testbed.given("R1000 d1");
    assert_eq!(testbed.queue().next_timer(), None);
    testbed.complete(0, Status::Ok);
    let at = testbed.now() + 100_000_000;
    assert_eq!(testbed.queue().next_timer(), Some(at));
    testbed.when("t+50 R2000 d1");
    testbed.complete(0, Status::Ok);
    assert_eq!(testbed.queue().next_timer(), Some(at), "an armed look only ever moves forward");
    testbed.when("t+51");
    assert_eq!(testbed.queue().next_timer(), None);
}

#[test]
fn depth_limit_before_and_since_7_0() {
    use hoistway_testbed::notation::bio;
    for (form, waits) in [("kyber@4.20", false), ("kyber@7.0", true)] {
        let mut settings = Testbed::settings();
        settings.configuration.depth.requests = 8;
        let mut testbed = Testbed::with(form, &settings);
        // Six of eight tags are 75 %.
        for n in 0..6 {
            testbed.submit(&bio(&format!("W{}", n * 1000)));
        }
        testbed.submit(&bio("W7000sync"));
        assert_eq!(testbed.waiting(), usize::from(waits), "{form}");
        testbed.submit(&bio("R9000"));
        assert_eq!(testbed.waiting(), usize::from(waits), "{form}: sync reads are never limited");
    }
}

#[test]
fn the_page_lists_the_tunables() {
    check_tunables_table("kyber");
}
