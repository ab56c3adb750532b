//! Weight raising, BFQ's temporary multiplication of a queue's weight: by 30 if the issuer counts
//! as interactive (it is new or was idle for long), by 3000 if it counts as soft real-time (it is
//! slow and regular). Cases 30 to 34 of docs/specifications/bfq.md, section 25.

use crate::host::{FORMS, Host};

const RAISED: &str = "raising period";

#[test]
fn t30_a_new_issuer_is_raised() {
    for form in FORMS {
        let mut host = Host::on_flash(&format!("{form}:low_latency=1"));
        host.submit("R0@1");
        host.dispatch();
        let lines = host.lines_with("S ");
        let begun = "1S set_in_service_queue, cur-budget = 1024".to_owned();
        let raised = "1S raising period dur 0/3750 msec, old coeff 30, w 1200(40)".to_owned();
        assert!(lines.contains(&begun) && lines.contains(&raised), "{form}: {lines:?}");
        // An issuer with a non-default weight is raised in the older forms only.
        let mut host = Host::on_flash(&format!("{form}:low_latency=1"));
        host.submit("R0be2@1");
        host.dispatch();
        let raised = host.lines_with(RAISED);
        if form.starts_with('6') {
            assert!(raised.is_empty(), "{form}: {raised:?}");
        } else {
            assert_eq!(raised, ["1S raising period dur 0/3750 msec, old coeff 30, w 1800(60)"], "{form}");
        }
    }
    // The duration of raising depends on the assumed peak rate; on a disk it is 10500 ms at first.
    let mut host = Host::on_disk("6.12:low_latency=1");
    host.submit("R0@1");
    host.dispatch();
    assert_eq!(host.lines_with("0/10500 msec").len(), 1);
}

/// Issuer 1 has just received 120001 sectors in a second, without a pause: 469 requests. Also
/// returns the number of messages about raising.
fn served_a_lot(spec: &str) -> (Host, usize) {
    let mut host = Host::on_flash(spec);
    for n in 0..468_u64 {
        host.submit(&format!("R{}+256@1", n * 256));
    }
    host.submit("R119808+193@1 R200000@1 R200008@1");
    for _ in 0..469 {
        host.dispatch();
        host.pass_us(2_130);
        host.complete();
    }
    let raised = host.lines_with(RAISED).len();
    (host, raised)
}

#[test]
fn t31_raising_ends_with_service() {
    for form in FORMS {
        let (mut host, raised) = served_a_lot(&format!("{form}:low_latency=1"));
        // The message is logged before bfq decides whether raising ends, so it comes with the last
        // request too.
        assert_eq!(raised, 469, "{form}");
        host.dispatch();
        assert!(host.lines_with(RAISED).is_empty(), "{form}: it has ended");
    }
}

#[test]
fn t31_or_with_time() {
    for form in FORMS {
        let mut host = Host::on_flash(&format!("{form}:low_latency=1"));
        for n in 0..8 {
            host.submit(&format!("R{}@1", n * 8));
        }
        let mut raised = Vec::new();
        for passes_ms in [0, 3_750, 1, 1] {
            host.pass_ms(passes_ms);
            host.dispatch();
            raised.push(host.lines_with(RAISED).len());
        }
        assert_eq!(raised, [1, 1, 1, 0], "{form}: at 0, 3750 and 3751 ms, but not after");
    }
}

#[test]
fn t32_idle_for_long_an_issuer_is_raised_again() {
    for form in FORMS {
        for (idle_ms, is_raised) in [(1_999, false), (2_001, true)] {
            // Without idling, so that the issuer's queue is idle from its last completion on.
            let (mut host, _) = served_a_lot(&format!("{form}:low_latency=1,slice_idle=0"));
            host.finish();
            host.forget_lines();
            host.pass_ms(idle_ms);
            host.submit("R300000@1");
            host.dispatch();
            let lines = host.lines_with(RAISED);
            let expected: &[&str] =
                if is_raised { &["1S raising period dur 0/3750 msec, old coeff 30, w 1200(40)"] } else { &[] };
            assert_eq!(lines, expected, "{form}, {idle_ms} ms");
        }
    }
}

/// The messages about raising issuer 1 at its next request, `at_ms` after a first batch of 700
/// sectors that was finished after 50 ms.
fn after_a_batch(form: &str, at_ms: u64, is_seeky: bool) -> Vec<String> {
    // The older forms do not idle for a lone queue, so the queue would expire before its requests
    // complete; if it is raised as interactive at that time, bfq does not compute from when on the
    // issuer may count as soft real-time. `strict_guarantees` makes the older forms idle.
    let strict = u32::from(!form.starts_with('6'));
    let mut host = Host::on_flash(&format!("{form}:low_latency=1,strict_guarantees={strict}"));
    let place = |n: u64| if is_seeky { n * 1_000_000 } else { n * 20 };
    for n in 0..35 {
        host.submit(&format!("R{}+20@1", place(n)));
    }
    for _ in 0..35 {
        assert!(!host.dispatch().is_empty());
        host.pass_us(1_428);
        host.complete();
    }
    host.pass_us(20);
    host.pass_ms(at_ms - 50);
    host.forget_lines();
    host.submit(&format!("R{}+20@1", place(35)));
    host.dispatch();
    host.lines_with(RAISED)
}

#[test]
fn t33_slow_and_in_time_an_issuer_is_soft_real_time() {
    for form in FORMS {
        let soft = ["1S raising period dur 0/300 msec, old coeff 3000, w 120000(40)"];
        assert_eq!(after_a_batch(form, 101, false), soft, "{form}");
        let interactive = ["1S raising period dur 99/3750 msec, old coeff 30, w 1200(40)"];
        assert_eq!(after_a_batch(form, 99, false), interactive, "{form}");
        let seeky = after_a_batch(form, 101, true);
        if form == "4.19" {
            assert_eq!(seeky, soft, "{form} does not look at seeks");
        } else {
            assert_eq!(seeky, ["1S raising period dur 101/3750 msec, old coeff 30, w 1200(40)"], "{form}");
        }
    }
}

/// Issuers that were raised according to the messages since the last call.
fn raised(host: &mut Host) -> Vec<String> {
    let mut names: Vec<String> =
        host.lines_with(RAISED).iter().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}

/// Case 34: eight issuers arrive within 180 ms, then a ninth and a tenth.
fn burst(mut host: Host, request: impl Fn(u32, u64) -> String) {
    for issuer in 1..=7 {
        host.submit(&format!("{} {} {}", request(issuer, 0), request(issuer, 8), request(issuer, 16)));
        host.pass_ms(20);
    }
    host.submit(&format!("{} {}", request(8, 0), request(8, 8)));
    let came = host.now;
    host.finish();
    // The first seven issuers were raised before bfq recognised the burst. At the dispatch of a
    // request bfq logs that its issuer is raised, and only then ends the raising because of the
    // burst: so there is one message for each of the seven, at its first request.
    let lines = host.lines_with(RAISED);
    assert_eq!(lines.len(), 7, "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("8S")), "{lines:?}");
    host.pass(170_000_000 - (host.now - came));
    host.submit(&request(9, 0));
    host.dispatch_all();
    assert_eq!(raised(&mut host), Vec::<String>::new(), "the ninth belongs to the burst");
    host.finish();
    host.forget_lines();
    host.pass_ms(200);
    host.submit(&request(10, 0));
    host.dispatch_all();
    assert_eq!(raised(&mut host), ["10S"], "a new burst begins with it");
}

#[test]
fn t34_many_new_issuers_at_once_are_not_raised() {
    // Before 5.13 there is no stable merge (the permanent merge of queues created together), and
    // issuers of any level are raised.
    for form in ["v8r3", "4.12", "4.19", "5.2"] {
        let request =
            |issuer: u32, at: u64| format!("R{}be{}@{issuer}", u64::from(issuer) * 9_000_000 + at, issuer % 8);
        burst(Host::on_flash(&format!("{form}:low_latency=1")), request);
    }
    // Since 5.13 only issuers of level 4 are raised. On flash their queues would be merged
    // permanently at once; on a disk they are not.
    for form in ["6.1", "6.12"] {
        let request = |issuer: u32, at: u64| format!("R{}@{issuer}", u64::from(issuer) * 9_000_000 + at);
        burst(Host::on_disk(&format!("{form}:low_latency=1")), request);
    }
}
