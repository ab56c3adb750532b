//! Drives with several actuators (docs/specifications/bfq.md, section 16): an issuer has a queue
//! for the range of each actuator, and BFQ dispatches requests of a queue that is not in service if
//! that queue's actuator has fewer requests in flight than the others. Tests use the newest form
//! unless they state another, and actuators of 1,000,000 sectors.

use crate::host::Host;

/// The numbers of requests in the ranges of the first and the second actuator. `went` lists
/// dispatched requests: `R8@1` is a read at sector 8 by issuer 1.
fn by_half(went: &str) -> [usize; 2] {
    let in_second = |word: &&str| {
        let digits: String = word.chars().skip(1).take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().is_ok_and(|first_sector| first_sector >= 1_000_000)
    };
    let second = went.split_whitespace().filter(in_second).count();
    [went.split_whitespace().count() - second, second]
}

/// One issuer has ten requests in the range of each actuator; it submits those of the first range
/// first.
fn ten_in_each(host: &mut Host) {
    for half in [0, 1_000_000] {
        for n in 0..10 {
            host.submit(&format!("R{}@1", half + n * 8));
        }
    }
    host.forget_lines();
}

#[test]
fn s16_6_an_arm_without_work_gets_some_out_of_turn() {
    let mut host = Host::on_arms("6.12", 2);
    ten_in_each(&mut host);
    let second: Vec<_> = (0..10).map(|_| by_half(&host.dispatch())[1]).collect();
    // The queue of the first actuator is in service. The actuator with fewer requests in flight
    // gets the next one, until both have four; from then on BFQ dispatches only from the queue in
    // service.
    assert_eq!(second, [1, 0, 1, 0, 1, 0, 1, 0, 0, 0]);
    host.finish();
}

#[test]
fn s16_6_older_forms_serve_one_after_the_other() {
    for form in ["6.2", "6.1", "4.12", "v8r3"] {
        let mut host = Host::on_arms(form, 2);
        ten_in_each(&mut host);
        let went: Vec<_> = (0..10).map(|_| host.dispatch()).collect();
        assert_eq!(by_half(&went.join(" ")), [10, 0], "{form}");
    }
}

#[test]
fn s16_6_an_issuer_has_a_queue_for_each_range() {
    let mut host = Host::on_arms("6.12", 3);
    host.submit("R0@1 R1000000@1 R2000000@1 W0@1 W1000000@1 W2000000@1");
    assert_eq!(host.lines_with("allocated").len(), 6, "a sync and an async one each");
    // A request belongs to the actuator of its last sector.
    host.submit("R999996+8@2 R1500000@2 R999992+8@2");
    assert_eq!(host.lines_with("allocated").len(), 2);
    host.finish();
    host.exit(1);
    host.forget_lines();
    host.submit("R0@1 R1000000@1 R2000000@1");
    assert_eq!(host.lines_with("allocated").len(), 3, "none of them outlives its issuer");
}

#[test]
fn s16_6_async_queues_are_a_ranges_own_and_shared_by_issuers() {
    let mut host = Host::on_arms("6.12", 2);
    host.submit("W0@1 W1000000@1 W1000@2 W1001000@2");
    assert_eq!(host.lines_with("allocated").len(), 2);
}

#[test]
fn s16_6_queues_of_different_arms_never_merge() {
    // Two new issuers read close to one another: at the border of two ranges, and inside one.
    for (border, merges) in [(0, 0), (500_000, 1)] {
        let mut host = Host::on_arms("6.12", 2);
        host.submit(&format!("R{}+32@1", 1_000_000 - border));
        host.pass_ms(1);
        // Issuer 2 gets its queue with a request elsewhere; its next request is close to that of
        // issuer 1.
        host.submit(&format!("R{}+32@2", 10_000));
        host.forget_lines();
        host.submit(&format!("R{}+32@2", 1_000_000 - border - 32));
        assert_eq!(host.lines_with("scheduling merge with queue").len(), merges, "{border} before the border");
    }
}

#[test]
fn s16_6_an_issuer_takes_all_its_queues_to_another_group() {
    let mut host = Host::on_arms("6.12", 2);
    host.group(1, 100);
    host.submit("R0@1 R1000000@1");
    host.forget_lines();
    // Issuer 1 is in another group now. Its first request moves both of its queues there, so none
    // is allocated for the second request either.
    host.submit("R8g1@1 R1000008g1@1");
    assert_eq!(host.lines_with("allocated").len(), 0, "it keeps its queues");
    host.finish();
}

#[test]
fn s16_6_more_than_eight_are_one() {
    let mut host = Host::on_arms("6.12", 9);
    assert_eq!(host.lines_with("9 actuators").len(), 1);
    ten_in_each(&mut host);
    let went: Vec<_> = (0..10).map(|_| host.dispatch()).collect();
    assert_eq!(by_half(&went.join(" ")), [10, 0]);
    assert_eq!(Host::on_arms("6.12", 8).lines_with("actuators").len(), 0);
    assert_eq!(Host::on_arms("6.2", 9).lines_with("actuators").len(), 0);
}
