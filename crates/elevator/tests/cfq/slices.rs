//! Cases 5, 6, 8 and 11 of docs/specifications/cfq.md, section 19, and other computed values that
//! appear only in the messages about queues with requests.

use crate::host::{Built, DISK, FLASH, Host, MS};

fn many(host: &mut Host, context: u32, group: u32, count: u64) {
    for n in 0..count {
        host.submit(&format!("R{}@{context}g{group}", (u64::from(context) << 26) + n * 8));
    }
}

#[test]
fn t05_slices_of_queues_in_two_groups() {
    let mut host = Host::new("cfq@2.6.36");
    host.group(1, 100);
    host.group(2, 800);
    host.trace();
    many(&mut host, 1, 1, 100);
    // Three queues want 300 ms, and the group has 266 ms: 100 x 266 / 300.
    for context in 2..=4 {
        many(&mut host, context, 2, 100);
    }
    let mut slices = Vec::new();
    for _ in 0..90 {
        host.dispatched();
        host.pass_ms(5);
        if !host.in_device.is_empty() {
            host.complete_nth(0);
        }
        slices.extend(host.lines_with("set_slice"));
    }
    // Group 2 has three busy queues, but its first slice is computed for two, because CFQ uses an
    // average: (3 x the larger + the smaller + 2) / 4 of the old average 0 and the current number 3
    // is 2. Two queues want 200 ms, which is less than the group's 266 ms, so the slice is not
    // reduced.
    assert_eq!(slices[..4], ["1S set_slice=33", "2S set_slice=100", "3S set_slice=88", "4S set_slice=88"]);
}

/// A host with nine queues that stay busy for long: two that CFQ idles for, six that it does not
/// idle for because their issuers think too long, and an async one.
fn nine_queues() -> Host {
    let mut host = Host::with("cfq@2.6.36:slice_sync=100", &Built { slots: 1024, ..DISK });
    for context in 1..=6 {
        many(&mut host, context, 0, 1);
    }
    host.rest();
    host.pass_ms(50);
    host.trace();
    // Several requests after a pause make the mean think time valid, and longer than 8 ms.
    for context in 1..=8 {
        many(&mut host, context, 0, 100);
    }
    for n in 0..100 {
        host.submit(&format!("W{}@9", 900_000_000 + n * 8));
    }
    let off = host.lines_with("idle=0");
    assert_eq!(off.len(), 6, "{off:?}");
    host
}

#[test]
fn t06_workload_slices() {
    let mut host = nine_queues();
    let mut slices = std::collections::BTreeMap::new();
    for _ in 0..4_000 {
        host.dispatched();
        host.pass_ms(4);
        if !host.in_device.is_empty() {
            host.complete_nth(0);
        }
        let lines = host.lines();
        if lines.iter().any(|line| line.ends_with("del_from_rr")) {
            break;
        }
        // A workload is the queues of one class and type that CFQ serves together (types: 0 async,
        // 1 sync without idling, 2 sync with idling). The message with its slice comes just before
        // the message with its type. The last slice of each type counts, because queues change
        // their type after they were served for the first time.
        for pair in lines.windows(2) {
            if let (Some(slice), Some((_, kind))) =
                (pair[0].strip_prefix("workload slice:"), pair[1].split_once("wl_prio:0 wl_type:"))
            {
                slices.insert(kind.to_owned(), slice.to_owned());
            }
        }
    }
    let expected = [("0", "13"), ("1", "200"), ("2", "66")];
    assert!(slices.iter().map(|(kind, slice)| (kind.as_str(), slice.as_str())).eq(expected), "{slices:?}");
}

#[test]
fn t06_the_shortest_workload_slices() {
    let shortest = |text: &str| {
        let mut host = Host::new("cfq@2.6.36");
        // A group of the smallest weight beside nine of the largest has 3 ms of the 300.
        for group in 1..=10 {
            host.group(group, if group == 1 { 100 } else { 1000 });
        }
        for context in 2..=10 {
            many(&mut host, context, context, 40);
        }
        host.trace();
        host.submit(text);
        for _ in 0..2_000 {
            host.dispatched();
            host.pass_ms(1);
            if !host.in_device.is_empty() {
                host.complete_nth(0);
            }
            let lines = host.lines();
            if let Some(at) = lines.iter().position(|line| line.starts_with("1S set_active")) {
                return lines[at - 1].clone();
            }
        }
        panic!("it never had its turn");
    };
    assert_eq!(shortest("R0@1g1"), "workload slice:16");
    // Alone, an async queue has 300 ms x slice_async / slice_sync.
    let mut host = Host::new("cfq@2.6.36:slice_async=1");
    host.trace();
    host.submit("W0@1");
    host.dispatch();
    assert_eq!(host.lines_with("workload slice"), ["workload slice:3"], "300 x 1 / 100");
    host.rest();
    host.set("slice_sync", 1000);
    host.pass_ms(1_000);
    host.submit("W8@1");
    host.dispatch();
    assert_eq!(host.lines_with("workload slice"), ["workload slice:2"], "two ticks at least");
}

#[test]
fn t08_think_times_decide_about_waiting() {
    let idle_off = |think_ms: u64| {
        let mut host = Host::new("cfq@2.6.36");
        host.trace();
        let mut after = None;
        for n in 0..6_u64 {
            host.submit(&format!("R{}@1", n * 8));
            if !host.lines_with("idle=0").is_empty() {
                after = Some(n + 1);
            }
            host.dispatch();
            host.complete_nth(0);
            host.pass_ms(think_ms);
        }
        after
    };
    // Every request is a sample, also an issuer's first one, and three samples are needed; so the
    // third request decides.
    assert_eq!((idle_off(7), idle_off(50)), (None, Some(3)));
}

#[test]
fn t11_seeks_by_distance() {
    let idle_off = |jump: u64, built: &Built, sectors: u32| {
        let mut host = Host::with("cfq@2.6.36", built);
        host.teach_depth(false);
        host.trace();
        let mut sector = 1_000;
        for n in 1..=12 {
            host.submit(&format!("R{sector}@1+{sectors}"));
            if !host.lines_with("1S idle=0").is_empty() {
                return Some(n);
            }
            host.rest();
            sector += u64::from(sectors) + jump;
        }
        None
    };
    assert_eq!(idle_off(801, &DISK, 8), Some(6), "the sixth request is the fifth jump");
    assert_eq!(idle_off(800, &DISK, 8), None);
    assert_eq!(idle_off(0, &FLASH, 8), Some(5), "on flash the fifth small request is the fifth seek");
    assert_eq!((idle_off(100_000, &FLASH, 64), idle_off(0, &FLASH, 63)), (None, Some(5)));
}

#[test]
fn q10_a_queue_whose_last_request_ended_at_sector_0_has_no_distance() {
    let mut host = Host::new("cfq@2.6.36");
    host.trace();
    // The first request of a queue is no seek, wherever it is.
    for n in 0..5_u64 {
        host.submit(&format!("R{}@1", 1_000_000 * (n + 1)));
        host.rest();
    }
    assert!(host.lines_with("idle=0").is_empty(), "four jumps");
    host.submit("R9000000@1");
    assert_eq!(host.lines_with("idle=0").len(), 1, "five");
}

#[test]
fn other_clocks_have_other_ticks() {
    for (tick_ms, slice_idle, sync, expire) in [(4, 8, 100, 124), (10, 10, 100, 120)] {
        let host = Host::with("cfq@2.6.36", &Built { tick_ns: tick_ms * MS, ..DISK });
        let shown = ["slice_idle", "slice_sync", "fifo_expire_sync"].map(|name| host.setting(name));
        assert_eq!(shown, [Some(slice_idle), Some(sync), Some(expire)], "ticks of {tick_ms} ms");
    }
    let mut host = Host::with("cfq@2.6.36", &Built { tick_ns: 4 * MS, ..DISK });
    host.set("slice_idle", 5);
    assert_eq!(host.setting("slice_idle"), Some(8), "whole ticks that last at least so long");
}

#[test]
fn t40_flash_begins_without_waiting_in_4_20_only() {
    let idle = |version: &str, built: &Built| Host::with(&format!("cfq@{version}"), built).setting("slice_idle");
    assert_eq!((idle("4.20", &FLASH), idle("4.20", &DISK), idle("3.0", &FLASH)), (Some(0), Some(8), Some(8)));
}
