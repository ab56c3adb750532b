//! Queues shared by several issuers, and wakers, which are issuers whose completions repeatedly
//! cause another issuer's next request: cases 35 to 38 of docs/specifications/bfq.md, section 25.

use crate::host::{FORMS, Host};

const MERGES: &str = "merging with queue";

/// Two issuers take turns in reading blocks of one file. Returns how often bfq scheduled a merge of
/// their queues.
fn by_turns(host: &mut Host, pause_ms: u64) -> usize {
    host.submit("R1000+32@1 R1032+32@2");
    assert_eq!(host.lines_with("scheduling merge").len(), 0, "no other queue was busy");
    host.dispatch_all();
    host.pass_ms(pause_ms);
    host.complete_all();
    // These requests keep both queues busy.
    host.submit("R1064+32@1");
    host.submit("R1096+32@2 R1128+32@1 R1160+32@2");
    host.lines_with("scheduling merge").len()
}

/// Two new issuers; the second request of issuer 2 is `gap` sectors before that of issuer 1.
/// Returns how often bfq scheduled a merge of their queues.
fn new_ones(host: &mut Host, gap: u64) -> usize {
    host.submit("R1000000+32@1");
    host.pass_ms(1);
    host.submit("R9000000+32@2");
    host.forget_lines();
    host.submit(&format!("R{}+32@2", 1_000_000 - gap));
    host.lines_with("scheduling merge with queue").len()
}

#[test]
fn t35_readers_of_one_stream_become_one_queue() {
    for (form, on_flash) in FORMS.into_iter().zip([1, 0, 0, 0]) {
        for (gap, merges) in [(8_192, 1), (8_193, 0)] {
            assert_eq!(new_ones(&mut Host::on_disk(form), gap), merges, "{form}, {gap} sectors away");
        }
        // On flash that queues commands their queues stay separate since the patch series of March
        // 2019.
        let mut flash = Host::on_flash(&format!("{form}:slice_idle=0"));
        flash.teach_depth(true);
        // The levels differ, because otherwise the queues would be merged permanently, as in case
        // 36.
        flash.submit("R1000000+32be4@1 R9000000+32be5@2");
        flash.forget_lines();
        flash.submit("R999900+32be5@2");
        assert_eq!(flash.lines_with("scheduling merge").len(), on_flash, "{form}");
    }
}

#[test]
fn t35_but_not_after_their_first_tenth_of_a_second() {
    for form in FORMS {
        let begun = |host: &mut Host, pause_ms: u64| {
            host.submit("R1000000+32@1 R1000064+32@1 R9000000+32@2 R9000064+32@2");
            // Both queues are served: the time in which a queue may merge begins with its first
            // service.
            while host.lines_with("2S bfqq_served").is_empty() {
                assert!(!host.dispatch().is_empty(), "both get their turn");
            }
            host.submit("R1000128+32@1");
            host.pass_ms(pause_ms);
            host.submit("R1000096+32@2");
            host.lines_with("scheduling merge").len()
        };
        assert_eq!(begun(&mut Host::on_disk(&format!("{form}:slice_idle=0")), 100), 1, "{form}");
        assert_eq!(begun(&mut Host::on_disk(&format!("{form}:slice_idle=0")), 101), 0, "{form}");
    }
}

#[test]
fn t35_a_merged_queue_is_served_as_one() {
    for form in FORMS {
        let mut host = Host::on_disk(form);
        let scheduled = by_turns(&mut host, 10);
        assert!(scheduled > 0, "{form}");
        host.finish();
        assert!(!host.lines_with("dispatch").is_empty());
        host.submit("R2000+32@1 R2032+32@2");
        // Only one of the two queues is busy.
        assert_eq!(host.lines_with("add to busy").len(), 1, "{form}");
    }
}

#[test]
fn t36_issuers_that_come_together_share_a_queue_for_good() {
    for (form, shares) in FORMS.into_iter().zip([0, 0, 1, 1]) {
        for (pause_ms, second, merges) in
            [(100, "R9000000@2", shares), (190, "R9000000@2", 0), (100, "R9000000be5@2", 0)]
        {
            let mut host = Host::on_flash(form);
            host.submit("R0@1");
            host.pass_ms(pause_ms);
            host.submit(second);
            assert_eq!(host.lines_with(MERGES).len(), merges, "{form}, {second} after {pause_ms} ms");
        }
        // Issuers of different groups never share a queue.
        let mut host = Host::on_flash(form);
        host.group(1, 100);
        host.submit("R0@1 R9000000g1@2");
        assert_eq!(host.lines_with(MERGES).len(), 0, "{form}");
    }
}

/// The queue that issuers 1 and 2 share gets scattered requests, so that it counts as seeky, and
/// serves them until it expires.
fn become_seeky(host: &mut Host) {
    for n in 1..30_u64 {
        host.submit(&format!("R{}@{}", n * 5_000_000, 1 + n % 2));
    }
    host.finish();
    host.forget_lines();
}

#[test]
fn t37_a_shared_queue_that_seeks_is_split() {
    for form in FORMS {
        let mut host = Host::on_disk(form);
        assert!(by_turns(&mut host, 10) > 0, "{form}");
        host.finish();
        become_seeky(&mut host);
        host.submit("R700000000@1");
        assert_eq!(host.lines_with("splitting queue").len(), 1, "{form}");
        host.submit("R800000000@2");
        assert_eq!(host.lines_with("splitting queue").len(), 1, "{form}: the other has it for itself again");
        host.submit("R700000008@1 R800000008@2");
        assert_eq!(host.lines_with("splitting queue").len(), 0, "{form}");
        host.finish();
    }
}

#[test]
fn t37_but_not_one_that_was_merged_for_good() {
    for form in ["6.1", "6.12"] {
        let mut host = Host::on_flash(form);
        host.submit("R0@1");
        host.pass_ms(100);
        host.submit("R9000000@2");
        assert_eq!(host.lines_with(MERGES).len(), 1, "{form}");
        host.finish();
        become_seeky(&mut host);
        host.submit("R700000000@1 R800000000@2");
        assert_eq!(host.lines_with("splitting queue").len(), 0, "{form}");
        host.finish();
    }
}

/// Issuer 2 has a long think time; it sends a request `pause_us` after each of three completions of
/// issuer 1, which are `period_ms` apart. Returns how often bfq detected issuer 1 as the waker of
/// issuer 2.
fn woken_after(form: &str, pause_us: u64, period_ms: u64) -> usize {
    let mut host = Host::on_flash(form);
    host.introduce("R0@1 R900000000@2");
    // The think time of issuer 2 is known from its third request on, and is long.
    for n in 1..5 {
        host.submit(&format!("R{}@2", 900_000_000 + n * 8));
        host.finish();
        host.pass_ms(40);
    }
    host.forget_lines();
    for n in 1..=3_u64 {
        host.submit(&format!("R{}@1", n * 8));
        host.dispatch_all();
        host.pass_us(100);
        host.complete();
        host.pass_us(pause_us);
        host.submit(&format!("R{}@2", 910_000_000 + n * 8));
        host.finish();
        if n < 3 {
            assert!(host.lines_with("S set waker").is_empty(), "{form}: not before the third");
        }
        host.pass_ms(period_ms);
    }
    host.lines_with("S set waker").len()
}

#[test]
fn t38_a_waker_is_detected() {
    for (form, has_wakers) in FORMS.into_iter().zip([0, 0, 1, 1]) {
        assert_eq!(woken_after(form, 1_000, 300), has_wakers, "{form}");
        assert_eq!(woken_after(form, 4_100, 300), 0, "{form}: too late after the completion");
        // bfq needs three such requests within 128 times `slice_idle` to detect a waker.
        assert_eq!(woken_after(form, 1_000, 600), 0, "{form}: too seldom");
    }
}
