//! bfq against the decisions of Linux's own: the logs hold what the BFQ of Linux 6.18 was called
//! with, and what it answered, with two readers of depth 8: of levels 2 and 6 on flash,
//! of levels 0 and 7 on a disk. Our policy gets the same calls at the same times. How they were recorded: docs/measured/2026-11-26-bfq-ioprio.

mod replay;

use replay::Replay;

const LOGS: [(&str, &str, &str); 2] =
    [("ssd", include_str!("ssd.log"), "low_latency=0"), ("disk", include_str!("disk.log"), "")];

#[test]
fn every_decision_is_the_kernels() {
    for (name, log, tunables) in LOGS {
        let run = Replay::new(&format!("6.18:{tunables}"), log).run(log);
        assert_eq!(run.first_difference, None, "{name}: after {} events:\n{}", run.same, run.last_lines());
        assert!(run.turns > 10 && run.requests > 400, "{name}: {} turns, {} requests", run.turns, run.requests);
    }
}

/// Before 6.9 BFQ did not take the time of a batch for that of its requests (quirk Q18 of
/// docs/specifications/bfq.md), and decides otherwise.
#[test]
fn the_form_before_it_decides_otherwise() {
    for (name, log, tunables) in LOGS {
        let run = Replay::new(&format!("6.8:{tunables}"), log).run(log);
        assert!(run.first_difference.is_some(), "{name}: all {} events are the same", run.same);
    }
}

/// Replays all logs of a folder: `REPLAY=FOLDER cargo test ... -- --ignored --nocapture`.
#[test]
#[ignore = "needs a folder of logs"]
fn replay_a_folder() {
    let folder = std::env::var("REPLAY").expect("REPLAY=FOLDER");
    let mut logs: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|kind| kind == "log"));
    logs.sort();
    for path in logs {
        let log = std::fs::read_to_string(&path).expect("a log");
        let name = path.file_stem().expect("a name").to_string_lossy();
        let tunables = if name.ends_with("-0") { "low_latency=0" } else { "" };
        let [new, old] = ["6.18", "6.8"].map(|form| Replay::new(&format!("{form}:{tunables}"), &log).run(&log));
        let difference = new.first_difference.unwrap_or_default();
        let (same, old_same) = (new.same, old.same);
        println!(
            "{name}: {} events, {} turns; {same} same, form of 6.8 {old_same}; {difference}",
            new.events, new.turns
        );
    }
}
