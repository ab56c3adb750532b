//! linus and read-latency2: the numbered cases of docs/specifications/classic-elevators.md,
//! sections 3.8 and 4.5, including the remaining budgets. A request's budget is the number of
//! charge points for which later bios may still pass it: 16 for an insertion in front of it, 1 for
//! a merge. No bio may pass a request that has used up its budget.

use hoistway_elevator::{Any, Requests};
use hoistway_testbed::notation::show;
use hoistway_testbed::queue::{Era, Settings};
use hoistway_testbed::{Testbed, check_tunables_table};

/// The environment of Linux 2.4, for which these elevators were written: an IDE disk, one command
/// at a time.
fn linux_2_4(spec: &str, max_sectors: u32) -> Testbed {
    let mut settings = Settings::of_era(Era::LINUX_2_4, 1);
    settings.configuration.max_sectors = max_sectors;
    settings.limits.max_sectors = max_sectors;
    Testbed::with(spec, &settings)
}

/// The remaining budget of a queued request.
fn budget(testbed: &Testbed, transfer: &str) -> i32 {
    let requests: &Requests = testbed.queue().requests();
    let id = (0..requests.capacity()).filter_map(|slot| requests.id_of(slot));
    let id = id.into_iter().find(|id| show(requests.attributes(*id)) == transfer);
    let id = id.unwrap_or_else(|| panic!("{transfer} is queued"));
    match testbed.queue().elevator() {
        Any::Linus(policy) => policy.budget_of(id),
        Any::ReadLatency2(policy) => policy.budget_of(id),
        other => panic!("{} has no budgets", other.name()),
    }
}

/// Runs a script and compares the order; each request is followed by its budget where the case
/// gives one: `R100(2047)`.
#[track_caller]
fn check(mut testbed: Testbed, script: &str, expected: &str) {
    testbed.given(script);
    let mut order = Vec::new();
    for entry in expected.split_whitespace() {
        let (transfer, left) = entry.split_once('(').unwrap_or((entry, ""));
        if let Some(left) = left.strip_suffix(')') {
            assert_eq!(budget(&testbed, transfer), left.parse::<i32>().expect("a number"), "{transfer}");
        }
        order.push(transfer);
    }
    testbed.when("rest");
    testbed.then(&order.join(" "));
}

#[track_caller]
fn linus(settings: &str, script: &str, expected: &str) {
    check(linux_2_4(&format!("linus:{settings}"), 255), script, expected);
}

#[test]
fn ln1_an_order_break_takes_what_fits_on_either_side() {
    linus("", "R1000 R3000 R2000 R500 R4000", "R1000(2048) R2000(2048) R3000(2032) R4000(2048) R500(2032)");
}

#[test]
fn ln2_reads_and_writes_are_ordered_together() {
    linus("", "W1000 W3000 W2000 R1500", "W1000(8192) R1500(2048) W2000(8176) W3000(8160)");
}

#[test]
fn ln3_a_spent_budget_is_a_wall() {
    let expected = "R5000(16) R1000(16) R1500(16) R2000(0) R1400(16)";
    linus("read_latency=16", "R5000 R1000 R2000 R1500 R1400", expected);
}

#[test]
fn ln4_behind_a_wall_nothing_even_merges() {
    let expected = "W1000(32) W2000(32) W3000(16) W5000(0) W1500(32) W1008(32)";
    linus("read_latency=32,write_latency=32", "W1000 W5000 W3000 W2000 W1500 W1008", expected);
}

#[test]
fn ln5_a_front_merge_and_then_a_request_merge_keep_the_smaller_budget() {
    linus("", "R100 R116 R108", "R100+24(2047)");
}

#[test]
fn ln6_a_back_merge_at_the_tail_charges_no_request() {
    linus("", "R100 R108 R92", "R92+24(2047)");
}

#[test]
fn ln7_a_full_request_is_passed_over() {
    check(linux_2_4("linus", 16), "R100 R108 R116", "R100+16(2048) R116(2048)");
}

#[test]
fn ln8_nothing_passes_a_special_request() {
    linus("", "R100 W200 R300 P0 R150 R108", "R100 W200 R300 P0(0) R150 R108");
}

#[test]
fn ln9_the_request_in_service_is_out_of_reach() {
    let mut testbed = linux_2_4("linus", 255);
    testbed.given("R100 R300 unplug d");
    testbed.then("R100");
    check(testbed, "R92 R108 R50 R200", "R300 R50(2048) R92(2032) R108(2032) R200(2048)");
}

#[test]
fn ln10_merges_use_the_budget_up_as_well() {
    let testbed = linux_2_4("linus:read_latency=2", 255);
    check(testbed, "R1000 R2000 R992 R2008 R984", "R984+24(0) R2000+16(0)");
    let testbed = linux_2_4("linus:read_latency=2", 255);
    check(testbed, "R1000 R2000 R992 R2008 R984 R2016", "R984+24 R2000+16 R2016");
}

#[test]
fn ln11_writes_have_four_times_the_budget() {
    linus("", "W100 W200 W300 W50 W250", "W100 W200 W250 W300(8176) W50(8176)");
}

#[test]
fn ln12_the_first_neighbour_from_the_tail_takes_the_bio() {
    let expected = "W100+16 R150(2047) W200(8175) R250(2048) W208+100(8142)";
    linus("", "W100 W300 W200 R150 W108 R250 W208+92", expected);
}

#[test]
fn the_form_of_2_4_21_merges_at_the_back_of_a_wall() {
    for (form, expected) in [("linus@2.4.20", "R100 R500 R508"), ("linus@2.4.21", "R100 R500+16")] {
        let mut testbed = linux_2_4(form, 255);
        testbed.given("read_latency=0 R100 R500 read_latency=2048");
        testbed.when("R508 rest");
        testbed.then(expected);
    }
}

#[test]
fn the_form_of_2_4_0_charges_scans_and_lengths() {
    let testbed = linux_2_4("linus@2.4.0", 255);
    // Each new bio reduces the budget of every request that the search for its place examines by 1;
    // a merge also reduces the budgets of the requests behind the merged one by its 8 sectors.
    check(testbed, "R100 R500 R108", "R100+16(8190) R500(8183)");
    let testbed = linux_2_4("linus@2.4.0", 255);
    // R300, inserted between the others, reduces only the budgets of the examined requests, by 1.
    // R92, a front merge, also reduces the budgets of the merged request and of those behind it by
    // its 8 sectors.
    check(testbed, "R100 R500 R300 R92", "R92+16(8181) R300(8183) R500(8182)");
}

/// Twelve writes of this many sectors at 10000, 20000, ...
fn writes(sectors: u32) -> String {
    (1..=12).map(|n| format!("W{}+{sectors} ", n * 10_000)).collect()
}

/// The writes of [`writes`] in order, with `between` after the first `after` of them.
fn with(sectors: u32, after: u32, between: &str) -> String {
    let size = if sectors == 8 { String::new() } else { format!("+{sectors}") };
    let write = |n: u32| format!("W{}{size} ", n * 10_000);
    let (before, behind): (String, String) = ((1..=after).map(write).collect(), (after + 1..=12).map(write).collect());
    format!("{before}{between} {behind}")
}

#[track_caller]
fn rl2(settings: &str, script: &str, expected: &str) {
    check(linux_2_4(&format!("read-latency2:{settings}"), 255), script, expected);
}

#[test]
fn rl1_a_lone_read_waits_for_six_small_writes() {
    rl2("", &format!("{} R500000", writes(8)), &with(8, 6, "R500000"));
    let mut expected: Vec<String> = (1..=12).map(|n| format!("W{}({})", n * 10_000, 8_179 + n)).collect();
    expected.insert(6, "R500000(2048)".into());
    rl2("", &format!("{} R500000", writes(8)), &expected.join(" "));
}

#[test]
fn rl2_a_sorted_place_nearer_to_the_front_is_kept() {
    rl2("", &format!("{} R55000", writes(8)), &with(8, 5, "R55000"));
}

#[test]
fn rl3_a_read_below_all_writes_goes_there_too() {
    rl2("", &format!("{} R5000", writes(8)), &with(8, 6, "R5000"));
}

#[test]
fn rl4_and_rl5_large_writes_count_for_more() {
    rl2("", &format!("{} R500000", writes(128)), &with(128, 2, "R500000"));
    rl2("", &format!("{} R500000", writes(255)), &with(255, 2, "R500000"));
}

#[test]
fn rl6_later_reads_join_the_first() {
    rl2("", &format!("{} R500000 R600000 R700000", writes(8)), &with(8, 6, "R500000 R600000 R700000"));
}

#[test]
fn rl7_and_rl8_the_distance_is_a_setting() {
    rl2("max_bomb_segments=0", &format!("{} R500000", writes(8)), &with(8, 12, "R500000"));
    rl2("max_bomb_segments=2", &format!("{} R500000", writes(8)), &with(8, 2, "R500000"));
}

#[test]
fn rl9_one_write_is_not_passed() {
    rl2("", "W1 R500000", "W1 R500000");
}

#[test]
fn rl10_a_second_read_merges_with_the_first() {
    rl2("", &format!("{} R500000 R500008", writes(8)), &with(8, 6, "R500000+16"));
}

#[test]
fn rl11_the_write_in_service_does_not_count() {
    let mut testbed = linux_2_4("read-latency2", 255);
    testbed.given(&format!("{} unplug d", writes(8)));
    testbed.then("W10000");
    let expected = with(8, 7, "R500000");
    check(testbed, "R500000", expected.strip_prefix("W10000 ").expect("the first write"));
}

#[test]
fn rl12_merges_pass_walls_and_budgets_go_below_zero() {
    let expected = "W1000+16(-4) W2000(-4) W3000(-3) W1500(0) R900(1)";
    rl2("read_latency=1,write_latency=1", "W1000 W2000 W3000 W1008 W1500 R900", expected);
}

#[test]
fn the_pages_list_the_tunables() {
    check_tunables_table("linus");
    check_tunables_table("read-latency2");
}
