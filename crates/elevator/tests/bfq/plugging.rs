//! When the device is idled, for how long, and what ends the idling: cases 23, 24, 26 and 27 of
//! docs/specifications/bfq.md, section 25. A queue's turn is the time from its selection as the
//! queue in service until it expires.

use crate::host::{FORMS, Host};
use hoistway_elevator::Elevator;

/// Issuer 1 of level 2 (weight 60) and issuer 2 of level 6 (weight 20). Both have been served
/// before, because BFQ treats new issuers differently; issuer 1 is seeky if `is_seeky`.
fn sixty_and_twenty(form: &str, is_seeky: bool) -> Host {
    let mut host = Host::on_flash(form);
    host.introduce("R0be2@1 R900000000be6@2");
    if is_seeky {
        for n in 1..30 {
            host.submit(&format!("R{}be2@1", n * 1_000_000));
        }
        host.finish();
        host.pass_ms(3_000);
        host.forget_lines();
    }
    host
}

#[test]
fn t23_the_device_is_idled_for_a_heavier_queue() {
    for form in FORMS {
        for is_seeky in [false, true] {
            let mut host = sixty_and_twenty(form, is_seeky);
            host.submit("R50000000be2@1 R50001000be2@1");
            assert_eq!(host.dispatch(), "R50000000be2@1", "{form}");
            host.submit("R900001000be6@2");
            assert_eq!(host.dispatch_all(), "R50001000be2@1", "{form}");
            host.pass_ms(1);
            host.complete();
            // Long enough for the poll of an idled device, which Linux does every 3 ms.
            host.pass_ms(4);
            assert_eq!(host.policy.next_timer(), None, "{form}: one is still in flight");
            host.complete();
            assert_eq!(host.policy.next_timer(), Some(host.now + 8_000_000), "{form}, seeky {is_seeky}");
            assert_eq!(host.ends(), Vec::<String>::new(), "{form}");
        }
    }
}

/// From 4.20 to 5.1 others' requests are injected into the turns of seeky queues on flash.
#[test]
fn t23_others_are_injected_into_a_seeky_turn() {
    for (form, injected) in [("4.19", ""), ("4.20", " R900001000be6@2"), ("5.1", " R900001000be6@2"), ("5.2", "")] {
        let mut host = sixty_and_twenty(form, true);
        host.submit("R50000000be2@1 R50001000be2@1");
        assert_eq!(host.dispatch(), "R50000000be2@1", "{form}");
        host.submit("R900001000be6@2");
        assert_eq!(host.dispatch_all(), format!("R50001000be2@1{injected}"), "{form}");
        assert_eq!(host.ends(), Vec::<String>::new(), "{form}");
    }
}

#[test]
fn t23_an_equal_one_is_not() {
    for form in FORMS {
        let mut host = Host::on_flash(form);
        host.introduce("R0@1 R900000000@2");
        host.submit("R50000000@1 R900001000@2");
        assert_eq!(host.dispatch(), "R50000000@1", "{form}");
        assert_eq!(host.ends(), Vec::<String>::new(), "{form}");
        // The next dispatch attempt ends the turn.
        assert_eq!(host.dispatch(), "R900001000@2", "{form}");
        assert_eq!(host.ends(), ["1S 3"], "{form}");
    }
}

/// Issuer 1 (weight 60) has used part of its budget, and the device is idled for it from now on;
/// issuer 2 (weight 20) has requests.
fn waiting(form: &str) -> Host {
    let mut host = sixty_and_twenty(form, false);
    // The older forms ended the first turn of a lone queue at once, and reduced its budget to 512
    // sectors.
    let (budget, sectors) = if form.starts_with('6') { (8_874, "+2560") } else { (512, "") };
    host.submit(&format!("R50000000{sectors}be2@1"));
    assert_eq!(host.dispatch(), format!("R50000000be2@1{sectors}"));
    assert_eq!(host.lines_with("cur-budget"), [format!("1S set_in_service_queue, cur-budget = {budget}")]);
    host.submit("R900001000be6@2 R900002000be6@2");
    assert_eq!(host.dispatch_all(), "");
    host.pass_ms(1);
    host.complete();
    assert_eq!(host.kept_us(), Some(8_000));
    host.forget_lines();
    host
}

#[test]
fn t24_in_time_the_turn_goes_on() {
    for form in FORMS {
        let mut host = waiting(form);
        host.pass_us(7_900);
        host.submit("R50002560be2@1");
        assert_eq!(host.dispatch(), "R50002560be2@1", "{form}");
        assert_eq!(host.ends(), Vec::<String>::new(), "{form}");
        // The timer is cancelled: nothing happens at 8 ms.
        host.pass_us(5_000);
        assert_eq!(host.ends(), Vec::<String>::new(), "{form}");
    }
}

#[test]
fn t24_a_late_queue_ends_its_turn_and_keeps_the_rest_of_its_budget() {
    for form in FORMS {
        let mut host = waiting(form);
        host.pass_us(8_100);
        assert_eq!(host.ends(), ["1S 0"], "{form}");
        assert_eq!(host.dispatch(), "R900001000be6@2", "{form}");
        host.forget_lines();
        host.pass_us(5_000);
        host.submit("R50002560be2@1");
        // In the newer forms the returning queue preempts the other one; in the older forms it
        // would have to be raised by a larger factor (raising is BFQ's temporary multiplication of
        // a queue's weight).
        let is_preempted = form.starts_with('6');
        assert_eq!(host.ends(), if is_preempted { vec!["2S 4"] } else { vec![] }, "{form}");
        if is_preempted {
            assert_eq!(host.dispatch(), "R50002560be2@1", "{form}");
            // The queue keeps what it has left of the old budget, 8874 - 2560. That is less than
            // its new budget of 6826, to which bfq reduced the old one because the queue was idle
            // for too long.
            assert_eq!(host.lines_with("cur-budget"), ["1S set_in_service_queue, cur-budget = 6314"], "{form}");
        }
    }
}

#[test]
fn t24_later_than_three_idles_it_begins_anew() {
    for form in ["6.1", "6.12"] {
        let mut host = waiting(form);
        host.pass_us(24_001);
        assert_eq!(host.dispatch(), "R900001000be6@2", "{form}");
        host.forget_lines();
        host.submit("R50002560be2@1");
        // The queue preempts nevertheless, because its weight is larger. It keeps nothing of the
        // old budget and begins with its new one of 6826.
        assert_eq!(host.ends(), ["2S 4"], "{form}");
        assert_eq!(host.dispatch(), "R50002560be2@1", "{form}");
        let begun = host.lines_with("cur-budget");
        assert_eq!(begun, ["1S set_in_service_queue, cur-budget = 6826"], "{form}");
    }
}

/// Two equal issuers, far apart; issuer 1 has sent sequential or scattered requests, and they have
/// completed.
fn after_requests_of_one(mut host: Host, is_deep: bool, is_seeky: bool) -> Host {
    host.teach_depth(is_deep);
    // Only issuer 2 is served in advance. Issuer 1 must still count as I/O bound, which it would
    // not in the older forms after an idle timer has fired for it.
    host.introduce("R900000000@2");
    for n in 0..40_u64 {
        let place = if is_seeky { n * 7_777_777 % 800_000_000 } else { 50_000_000 + n * 8 };
        host.submit(&format!("R{place}@1"));
    }
    host.submit("R900001000@2");
    for _ in 0..40 {
        assert!(host.dispatch().ends_with("@1"), "the turn of 1 goes on");
        host.pass_us(50);
        host.complete();
    }
    host
}

#[test]
fn t26_for_throughput_a_disk_is_idled_for_a_sequential_reader() {
    for form in FORMS {
        let kept = |host: Host, is_deep, is_seeky| after_requests_of_one(host, is_deep, is_seeky).kept_us();
        assert_eq!(kept(Host::on_disk(form), false, true), Some(2_000), "{form}: seeky on one command at a time");
        assert_eq!(kept(Host::on_disk(form), false, false), Some(8_000), "{form}");
        assert_eq!(kept(Host::on_disk(form), true, false), Some(8_000), "{form}: sequential");
        assert_eq!(kept(Host::on_disk(form), true, true), None, "{form}: seeky on many commands");
        assert_eq!(kept(Host::on_flash(form), true, false), None, "{form}: flash");
    }
}

#[test]
fn t27_a_small_request_does_not_end_a_wait_for_throughput() {
    for form in FORMS {
        let host = || {
            let mut host = after_requests_of_one(Host::on_disk(form), true, false);
            assert_eq!(host.kept_us(), Some(8_000), "{form}");
            // This pause is so short that the queue still counts as I/O bound.
            host.pass_us(100);
            host
        };
        // The idle timer, when the 3 ms are over after which the device is asked again in any case.
        let idle_timer = |host: &mut Host| {
            host.pass_ms(4);
            host.policy.next_timer()
        };
        let mut small = host();
        let ends_at = small.now + 7_900_000;
        small.submit("R50000320@1");
        assert_eq!(idle_timer(&mut small), Some(ends_at), "{form}: others may yet join it");
        assert_eq!(small.dispatch(), "R50000320@1", "{form}: with another dispatch call it goes");
        assert_eq!(small.policy.next_timer(), None, "{form}");
        let mut large = host();
        large.submit("R50000320+32@1");
        assert_eq!(idle_timer(&mut large), None, "{form}");
        // Two queued requests end the idling even if both are small.
        let mut two = host();
        two.submit("R50000320@1 R50000400@1");
        assert_eq!(idle_timer(&mut two), None, "{form}");
        let mut weighted = waiting(form);
        weighted.submit("R50002560be2@1");
        assert_eq!(idle_timer(&mut weighted), None, "{form}: kept for its share, not for throughput");
    }
}
