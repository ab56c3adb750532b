//! bfq against the decisions of Linux's own: the logs hold what the BFQ of Linux 6.18 was called
//! with, and what it answered (`zcat` shows them). In `ssd.log` two readers of depth 8 read from flash, with levels 2 and
//! 6; in `disk.log` two of depth 8 read from a disk, with levels 0 and 7; in `jobs.log` sixteen of
//! depth 1 read from a disk, eight of level 0 and eight of level 7. Only the last has enough queues
//! for quirk Q19 of docs/specifications/bfq.md to matter. Our policy gets the same calls at the same times. How they were recorded:
//! docs/measured/2026-11-26-bfq-ioprio. `examples/bfq_replay.rs` replays other logs.

mod replay;

use replay::Replay;
use std::io::Read;

/// Name, packed log, tunables, and a number of requests that the run exceeds.
const LOGS: [(&str, &[u8], &str, usize); 3] = [
    ("ssd", include_bytes!("ssd.log.gz"), "low_latency=0", 400),
    ("disk", include_bytes!("disk.log.gz"), "", 400),
    ("jobs", include_bytes!("jobs.log.gz"), "low_latency=0", 330),
];

fn unpacked(log: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(log).read_to_string(&mut text).expect("a whole log");
    text
}

#[test]
fn every_decision_is_the_kernels() {
    for (name, log, tunables, requests) in LOGS {
        let log = unpacked(log);
        let run = Replay::new(&format!("6.18:{tunables}"), &log).run(&log);
        assert_eq!(run.first_difference, None, "{name}: after {} events:\n{}", run.same, run.last_lines());
        assert_eq!(run.same, run.events, "{name}");
        assert!(run.turns > 10 && run.requests > requests, "{name}: {} turns, {} requests", run.turns, run.requests);
    }
}

/// Before 6.9 BFQ did not take the time of a batch for that of its requests (quirk Q18 of
/// docs/specifications/bfq.md), and decides otherwise.
#[test]
fn the_form_before_it_decides_otherwise() {
    for (name, log, tunables, _) in LOGS {
        let log = unpacked(log);
        let run = Replay::new(&format!("6.8:{tunables}"), &log).run(&log);
        assert!(run.first_difference.is_some(), "{name}: all {} events are the same", run.same);
    }
}
