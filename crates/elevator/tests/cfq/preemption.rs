//! Case 22 of docs/specifications/cfq.md, section 19: which arrivals preempt the active queue.

use crate::host::Host;

/// Whether `newcomer`, which is submitted now, preempts the active queue.
fn preempts(host: &mut Host, newcomer: &str) -> bool {
    host.trace();
    host.lines();
    host.submit(newcomer);
    let preempted = host.lines_with(" preempt").len() == 1;
    host.rest();
    preempted
}

fn versions() -> impl Iterator<Item = &'static str> {
    ["2.6.35", "2.6.36", "2.6.37", "2.7.0", "3.0", "4.20"].into_iter()
}

/// A host with groups 1 and 2 that has dispatched the given requests.
fn serving(version: &str, given: &str) -> Host {
    let mut host = Host::new(&format!("cfq@{version}"));
    if host.setting("low_latency").is_some() {
        host.set("low_latency", 0);
    }
    host.group(1, 500);
    host.group(2, 500);
    host.given(given);
    assert!(host.dispatched() > 0);
    host
}

/// As [`serving`], but the first request has completed, which begins the slice. Others stay in
/// flight, so that the device is not idled.
fn in_slice(version: &str, given: &str) -> Host {
    let mut host = serving(version, given);
    host.pass_ms(1);
    host.complete_nth(0);
    host
}

#[test]
fn t22a_sync_before_async_whatever_the_groups() {
    for version in versions() {
        let given = if version == "4.20" { "W0@1g1 W100@1g1 W200@1g1" } else { "W0@1 W100@1 W200@1" };
        assert!(preempts(&mut serving(version, given), "R9000000@2g2"), "{version}");
    }
}

#[test]
fn t22b_sync_of_another_group_waits_even_behind_a_slice_that_is_over() {
    for version in versions() {
        // R24 keeps the queue busy when its slice is used up.
        for (newcomer, expected) in [("R9000000@2g2", false), ("R9000000@2g1", true)] {
            let mut host = in_slice(version, "R0@1g1 R8@1g1 R16@1g1");
            host.given("R24@1g1");
            assert!(!preempts(&mut in_slice(version, "R0@1g1 R8@1g1 R16@1g1"), newcomer), "{version}: in the slice");
            host.pass_ms(100);
            assert_eq!(preempts(&mut host, newcomer), expected, "{version}: {newcomer}");
        }
    }
}

#[test]
fn t22c_real_time_only_within_its_group() {
    for version in versions() {
        let with = |newcomer| preempts(&mut in_slice(version, "R0@1g1 R8@1g1 R16@1g1"), newcomer);
        assert_eq!((with("R9000000@2rtg1"), with("R9000000@2rtg2")), (true, false), "{version}");
    }
}

#[test]
fn t22d_only_real_time_goes_before_real_time() {
    for version in versions() {
        let mut host = in_slice(version, "R0@1rt R8@1rt R16@1rt");
        assert!(!preempts(&mut host, "R9000000@2"), "{version}");
        let mut host = in_slice(version, "R0@1rt R8@1rt R16@1rt");
        host.pass_ms(200);
        assert!(!preempts(&mut host, "R9000000@2"), "{version}: even if its slice is over");
    }
}

#[test]
fn t22e_every_other_class_goes_before_the_idle_class() {
    for version in versions() {
        for newcomer in ["R9000000@2", "R9000000@2g2", "W9000000@2", "R9000000@2rt"] {
            assert!(preempts(&mut serving(version, "R0@1idle R8@1idle"), newcomer), "{version}: {newcomer}");
        }
        assert!(!preempts(&mut serving(version, "R0@1idle R8@1idle"), "R9000000@2idle"), "{version}");
    }
}

#[test]
fn t22f_a_close_queue_preempts_while_the_device_is_idled() {
    for version in versions() {
        let waiting = || {
            let mut host = serving(version, "R100000@1");
            host.pass_ms(1);
            host.complete_nth(0);
            host
        };
        // The last request ended at sector 100,008.
        assert!(preempts(&mut waiting(), "R108200@2"), "{version}: 8192 sectors");
        assert!(!preempts(&mut waiting(), "R108201@2"), "{version}: 8193 sectors");
        assert!(preempts(&mut waiting(), "R91816@2"), "{version}: 8192 sectors back");
        assert!(!preempts(&mut waiting(), "R91815@2"), "{version}: 8193 sectors back");
    }
}

#[test]
fn t22g_metadata_first_within_a_group() {
    for version in versions() {
        let with = |newcomer| preempts(&mut in_slice(version, "R0@1g1 R8@1g1 R16@1g1 R9000000@1g1"), newcomer);
        assert_eq!((with("R5000000@2metag1"), with("R5000000@2metag2")), (true, false), "{version}");
        // Metadata does not preempt a queue that has metadata queued itself.
        let mut host = in_slice(version, "R0@1 R8@1 R16@1");
        for n in 0..8 {
            host.given(&format!("R{}@1", 9_000_000 + n * 8));
        }
        host.given("R9000100@1meta");
        assert!(!preempts(&mut host, "R5000000@2meta"), "{version}");
    }
}

#[test]
fn rule_8_needs_exactly_two_queues_before_4_20() {
    // The issuers think for longer than `slice_idle`, so CFQ does not idle for their queues one by
    // one; a group keeps such queues together in one service tree.
    let thinkers = |version: &str, others: u32| {
        let mut host = Host::new(&format!("cfq@{version}:low_latency=0"));
        for round in 0..4 {
            for context in 1..=2 + others {
                host.submit(&format!("R{}@{context}", u64::from(context) * 10_000_000 + round * 8));
                host.rest();
                host.pass_ms(12);
            }
        }
        for context in (2..2 + others).chain([1]) {
            host.submit(&format!("R{}@{context}", u64::from(context) * 10_000_000 + 80));
        }
        host.dispatch();
        host
    };
    for version in versions() {
        let preempted = preempts(&mut thinkers(version, 0), "R20000080@2");
        assert!(preempted, "{version}: the second of the tree, and the active one is empty");
        // With three queues in the tree, the newcomer preempts only in 4.20.
        let preempted = preempts(&mut thinkers(version, 1), "R30000080@3");
        assert_eq!(preempted, version == "4.20", "{version}");
    }
}

#[test]
fn the_first_engine_asks_for_the_slice_before_the_class() {
    let mut host = in_slice("2.6.26", "R0@1 R8@1 R16@1");
    host.given("R24@1");
    host.pass_ms(100);
    assert!(preempts(&mut host, "R9000000@2idle"));
    // CFQ of 2.6.26 has no rule that lets the real-time class preempt.
    let mut host = in_slice("2.6.26", "R0@1 R8@1 R16@1 R24@1 R32@1");
    assert!(!preempts(&mut host, "R9000000@2rt"));
}
