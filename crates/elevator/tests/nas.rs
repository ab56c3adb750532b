//! nas: the numbered cases of docs/specifications/classic-elevators.md, section 5.10, with both
//! values of `order`: `posted`, what the code does that was posted on the Linux kernel mailing
//! list, and `nearest`, what its author meant.

use hoistway_block::random::Stream;
use hoistway_testbed::queue::{Era, Settings};
use hoistway_testbed::{Testbed, check_tunables_table};

fn linux_2_4(order: &str, max_sectors: u32) -> Testbed {
    let mut settings = Settings::of_era(Era::LINUX_2_4, 1);
    settings.configuration.max_sectors = max_sectors;
    settings.limits.max_sectors = max_sectors;
    Testbed::with(&format!("nas:order={order}"), &settings)
}

/// Runs a script in both orders and compares the dispatched requests.
#[track_caller]
fn orders(script: &str, posted: &str, nearest: &str) {
    for (order, expected) in [("posted", posted), ("nearest", nearest)] {
        let mut testbed = linux_2_4(order, 255);
        testbed.when(script);
        testbed.when("rest");
        testbed.then(expected);
    }
}

const WM: &str = "W1000 W2000 W3000 W4000 W5000 W6000";
const WM_POSTED: &str = "W1000 W6000 W5000 W4000 W3000 W2000";

#[test]
fn ns1_behind_the_frontmost_or_the_nearest_lower_sector() {
    orders(
        "W1000 W2000 W3000 W4000 W3500 W3600",
        "W1000 W3600 W3500 W4000 W3000 W2000",
        "W1000 W2000 W3000 W3500 W3600 W4000",
    );
}

#[test]
fn ns2_a_read_overtakes_all_surplus_writes() {
    orders(&format!("{WM} R9000"), &format!("R9000 {WM_POSTED}"), &format!("R9000 {WM}"));
}

#[test]
fn ns3_a_lower_read_overtakes_what_surplus_is_left() {
    orders(
        &format!("{WM} R9000 R9500 R8000"),
        "R9000 R9500 W1000 W6000 R8000 W5000 W4000 W3000 W2000",
        "R9000 R9500 W1000 W2000 R8000 W3000 W4000 W5000 W6000",
    );
}

#[test]
fn ns4_the_age_of_writes_does_not_stop_a_read() {
    orders(&format!("{WM} t+1100 R500"), &format!("R500 {WM_POSTED}"), &format!("R500 {WM}"));
}

#[test]
fn ns5_an_old_write_is_a_wall_for_writes() {
    let expected = "W1000 W2000 W1008";
    orders("W1000 t+1100 W2000 W1008", expected, expected);
}

#[test]
fn ns6_an_old_read_is_a_wall_for_reads() {
    let expected = "R1000 R1008 R2000 R500";
    orders("R1000 t+1100 R1008 R2000 R500", expected, expected);
}

#[test]
fn ns7_nothing_passes_a_special_request() {
    orders(
        &format!("{WM} P0 W7000 W8000 R500"),
        &format!("{WM_POSTED} P0 R500 W7000 W8000"),
        &format!("{WM} P0 R500 W7000 W8000"),
    );
}

#[test]
fn ns8_reads_merge_on_both_sides() {
    orders("R100 R108 R92 W100", "R92+24 W100", "R92+24 W100");
}

#[test]
fn ns9_the_request_in_service_is_not_overtaken() {
    for (order, rest) in [("posted", "W6000 W5000 W4000 W3000 W2000"), ("nearest", "W2000 W3000 W4000 W5000 W6000")] {
        let mut testbed = linux_2_4(order, 255);
        testbed.given(&format!("{WM} unplug d"));
        testbed.then("W1000");
        testbed.when("R9000 rest");
        testbed.then(&format!("R9000 {rest}"));
    }
}

#[test]
fn ns10_a_stream_of_full_requests_is_turned_round_as_posted() {
    for (order, expected) in [("posted", "W0+16 W48+16 W32+16 W16+16"), ("nearest", "W0+16 W16+16 W32+16 W48+16")] {
        let mut testbed = linux_2_4(order, 16);
        testbed.when("W0+16 W16+16 W32+16 W48+16 rest");
        testbed.then(expected);
    }
}

#[test]
fn ns11_a_request_merge_keeps_the_older_time() {
    // At the end R100+24 is 1100 ms old, so later reads may not pass it, and R50 stays behind both.
    let script = "R100 t+500 R116 t+200 R108 t+400 R300 R50";
    orders(script, "R100+24 R300 R50", "R100+24 R300 R50");
}

#[test]
fn ns12_a_write_below_all_goes_to_the_tail() {
    orders(&format!("{WM} R500 W500"), &format!("R500 {WM_POSTED} W500"), &format!("R500 {WM} W500"));
}

#[test]
fn ns13_reads_behind_count_against_the_surplus() {
    let expected = "R1000 W1000 R500 W2000";
    orders("R1000 t+1100 W1000 W2000 R500", expected, expected);
}

#[test]
fn ns14_reads_and_writes_interleave_and_then_reads_no_longer_overtake() {
    let reads = "R9000 R8000 R7000 R6500 R6400 R6300 R6200 R6100";
    let mut testbed = linux_2_4("posted", 255);
    testbed.when(&format!("{WM} {reads} rest"));
    testbed.then("R9000 W1000 R8000 W6000 R7000 W5000 R6500 W4000 R6400 W3000 R6300 W2000 R6200 R6100");
}

#[test]
fn p13_without_patience_it_is_first_come_first_served_in_each_direction() {
    let mut testbed = Testbed::new("nas:expire_ms=0");
    testbed.when("W3000 t+1 W1000 t+1 W2000 t+1 W2008 rest");
    testbed.then("W3000 W1000 W2000 W2008");

    let mut random = Stream::new(7);
    let direction = |random: &mut Stream| if random.below(2) == 0 { 'R' } else { 'W' };
    let sent: Vec<_> = (0..100).map(|_| format!("{}{}", direction(&mut random), random.below(1 << 30) * 16)).collect();
    let mut testbed = Testbed::new("nas:expire_ms=0");
    testbed.given(&sent.join(" t+1 "));
    testbed.when("t+1 rest");
    for letter in ['R', 'W'] {
        let started = testbed.started().iter().map(|started| started.text.as_str());
        let started: Vec<_> = started.filter(|text| text.starts_with(letter)).collect();
        let of_this: Vec<_> = sent.iter().filter(|text| text.starts_with(letter)).collect();
        assert!(of_this.len() > 30);
        assert_eq!(started, of_this);
    }
}

#[test]
fn merging_past_a_wall_is_an_option() {
    let mut testbed = Testbed::new("nas:merge_past_expired=1");
    testbed.when("W1000 t+1100 W2000 W1008 rest");
    testbed.then("W1000+16 W2000");
}

#[test]
fn counted_in_sectors_one_large_write_lets_a_read_pass_many() {
    let expected = [("requests", "R5000 W1000+100 R4000 W3000"), ("sectors", "R5000 R4000 W1000+100 W3000")];
    for (count, expected) in expected {
        let mut testbed = Testbed::new(&format!("nas:count={count}"));
        // A read may overtake as many writes as the queued writes exceed the queued reads. When
        // R4000 arrives, two writes and one read are queued, so it may overtake one write; counted
        // in sectors they are 108 and 8, so it may overtake 100 sectors of writes.
        testbed.when("W1000+100 R5000 W3000 R4000 rest");
        testbed.then(expected);
    }
}

#[test]
fn the_page_lists_the_tunables() {
    check_tunables_table("nas");
}
