//! From a trace to issued I/Os: selection, paces, speed, passes.
//!
//! Source: docs/specifications/harness.md, section 9.8.

use std::collections::VecDeque;
use std::io::Cursor;
use std::sync::Arc;

use hoistway_block::Operation;
use hoistway_workload::replay::{Fit, Pace};
use hoistway_workload::trace::recording::{Builder, GroupBy, Recorded, Selection, Unusable};
use hoistway_workload::trace::{Options, Reading, Source, format_of_name};
use hoistway_workload::{Io, Issuer, Next, Replay, Unsuitable};

fn record(format: &str, text: &str, selection: Selection) -> Result<Recorded, Unusable> {
    let source = Source { name: "f".to_owned(), content: Box::new(Cursor::new(text.as_bytes().to_vec())) };
    let format = format_of_name(format).expect("a format");
    let mut reading = Reading::new(format, vec![source], Options::default());
    let mut builder = Builder::new(selection);
    while let Some(item) = reading.next_item().expect("reads") {
        builder.add(item)?;
    }
    builder.finish()
}

/// I/Os as Hoistway's CSV: (time in us, operation, KiB offset, pid, latency in us).
fn table(ios: &[(u64, &str, u64, u32, u64)]) -> String {
    let mut text = String::from("time_ns,device,op,offset_bytes,length_bytes,flags,pid,comm,cpu,group,latency_ns\n");
    for (at_us, operation, kib, pid, latency_us) in ios {
        let (at_ns, offset, latency) = (at_us * 1_000, kib << 10, latency_us * 1_000);
        text.push_str(&format!("{at_ns},8:0,{operation},{offset},4096,,{pid},p{pid},0,,{latency}\n"));
    }
    text
}

fn replay_of(recorded: &Recorded) -> Replay {
    Replay::new("t", Arc::clone(&recorded.groups[0].1))
}

/// Runs thread `thread` with every I/O taking `latency_us`; returns (time in us, offset in KiB) of
/// all.
fn run(replay: Replay, depth: u32, thread: u32, latency_us: u64) -> Vec<(u64, u64)> {
    let job = replay.job("t", depth);
    let mut issuer = Issuer::new(&job, thread, 1 << 30, 1).expect("suits");
    let (mut now, mut issued, mut in_flight) = (0, Vec::new(), VecDeque::new());
    loop {
        let next = issuer.next(now);
        let first: Option<(u64, Io)> = in_flight.front().copied();
        now = match (next, first) {
            (Next::Issue(io), _) => {
                issued.push((now / 1_000, io.offset_bytes >> 10));
                in_flight.push_back((now + latency_us * 1_000, io));
                continue;
            }
            (Next::NotBefore(at), Some((done, _))) => at.min(done),
            (Next::NotBefore(at), None) => at,
            (Next::Busy | Next::Finished, Some((done, _))) => done,
            (Next::Busy, None) => panic!("busy with nothing in flight"),
            (Next::Finished, None) => return issued,
        };
        while in_flight.front().is_some_and(|(done, _)| *done <= now) {
            let (_, io) = in_flight.pop_front().expect("there is one");
            issuer.completed(io.token, true);
        }
    }
}

#[test]
fn at_recorded_times_only_the_depth_holds_back() {
    let text = table(&[(500, "read", 4, 1, 50), (600, "read", 8, 1, 50), (900, "write", 12, 2, 50)]);
    let recorded = record("csv", &text, Selection::default()).expect("usable");
    assert_eq!((recorded.steps, recorded.duration_ns), (3, 400_000));
    let replay = replay_of(&recorded);
    assert_eq!(run(replay.clone(), 64, 0, 50), [(0, 4), (100, 8), (400, 12)]);
    let faster = Replay { speed_permille: 2_000, ..replay.clone() };
    assert_eq!(run(faster, 64, 0, 50), [(0, 4), (50, 8), (200, 12)]);
    // One at a time, and each takes longer than the gaps: late, but in order.
    assert_eq!(run(replay.clone(), 1, 0, 1_000), [(0, 4), (1_000, 8), (2_000, 12)]);
    // A pass lasts as long as the trace and a mean gap: 400 + 400 / 3 us.
    let twice = run(Replay { repeats: 2, ..replay }, 64, 0, 50);
    assert_eq!(twice[3..], [(533, 4), (633, 8), (933, 12)]);
}

#[test]
fn a_closed_replay_keeps_as_many_in_flight_as_were_recorded() {
    let text =
        table(&[(0, "read", 0, 1, 100), (10, "read", 4, 1, 100), (500, "read", 8, 1, 10), (900, "read", 12, 1, 10)]);
    let recorded = record("csv", &text, Selection::default()).expect("usable");
    let replay = Replay { pace: Pace::Closed, ..replay_of(&recorded) };
    assert_eq!(replay.default_depth(), 2);
    assert_eq!(run(replay.clone(), 2, 0, 100), [(0, 0), (0, 4), (100, 8), (100, 12)]);
}

#[test]
fn a_dependent_replay_waits_for_what_had_completed_before() {
    // The third was queued after the first had completed, while the second was still in flight.
    let text =
        table(&[(0, "read", 0, 1, 100), (10, "read", 4, 1, 900), (200, "read", 8, 1, 100), (1_000, "read", 12, 1, 10)]);
    let recorded = record("csv", &text, Selection::default()).expect("usable");
    let replay = Replay { pace: Pace::Dependent, ..replay_of(&recorded) };
    assert_eq!(run(replay.clone(), 64, 0, 70), [(0, 0), (0, 4), (70, 8), (140, 12)]);
    assert_eq!(run(Replay { repeats: 2, ..replay }, 64, 0, 70).len(), 8);
}

#[test]
fn what_is_left_out_is_counted() {
    let text = table(&[(0, "read", 0, 1, 1), (10, "write", 4, 1, 1), (20, "read", 8, 2, 1), (30, "flush", 0, 2, 1)]);
    let only_reads = record("csv", &text, Selection { writes: false, ..Selection::default() }).expect("usable");
    assert_eq!((only_reads.steps, only_reads.left_out["writes"]), (2, 2));
    let part = record("csv", &text, Selection { time_ns: (10_000, 30_000), ..Selection::default() }).expect("usable");
    assert_eq!((part.steps, part.left_out["I/Os outside of --time"]), (2, 2));
    // Found by fuzzing: a trace of 317 years. If it is repeated, the clock saturates after 584
    // years, and later I/Os would never be issued.
    let mad = record("spc", "0,0,4096,R,0\n0,0,4096,R,10000000000\n", Selection::default());
    assert_eq!(mad.map(|_| ()), Err(Unusable::TimesMakeNoSense));
    let none = record("csv", &text, Selection { devices: vec!["sdb".to_owned()], ..Selection::default() });
    assert_eq!(none.map(|_| ()), Err(Unusable::Nothing));
}

#[test]
fn groups_and_threads_follow_the_processes() {
    let text = table(&[(0, "read", 0, 7, 1), (10, "read", 4, 8, 1), (20, "read", 8, 7, 1)]);
    let by = |by| record("csv", &text, Selection { by, ..Selection::default() }).expect("usable");
    let names = |recorded: &Recorded| recorded.groups.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&by(GroupBy::Comm)), ["p7", "p8"]);
    assert_eq!(names(&by(GroupBy::Pid)), ["pid7", "pid8"]);
    let map = [("p7".to_owned(), "db/a".to_owned())].into();
    assert_eq!(names(&by(GroupBy::Table(map))), ["db/a", "rest"]);
    let own = record("csv", &text, Selection { own_threads: true, ..Selection::default() }).expect("usable");
    let replay = replay_of(&own);
    assert_eq!(replay.recording.parts.len(), 2);
    assert_eq!(run(replay.clone(), 4, 0, 1), [(0, 0), (20, 8)]);
    assert_eq!(run(replay, 4, 1, 1), [(10, 4)]);
}

#[test]
fn devices_lie_behind_one_another() {
    let text = "0,0,4096,R,0.0\n1,8,4096,R,0.1\n0,2048,4096,W,0.2\n";
    let recorded = record("spc", text, Selection::default()).expect("usable");
    assert_eq!(recorded.devices, ["0", "1"]);
    // Device 0 ends at 1,028 KiB, so device 1 starts at 2 MiB.
    assert_eq!(run(replay_of(&recorded), 4, 0, 1), [(0, 0), (100_000, 2_052), (200_000, 1_024)]);
}

#[test]
fn of_stages_what_was_queued_is_replayed_else_what_was_issued() {
    let stages = |with_queued: bool| {
        let queued =
            if with_queued { "8,0 0 1 0.000001000 7 Q R 0 + 8 [a]\n8,0 0 2 0.000002000 7 Q R 8 + 8 [a]\n" } else { "" };
        let text = format!(
            "8,0 0 0 0.000000500 7 D R 800 + 8 [a]\n{queued}8,0 0 3 0.000003000 7 D R 0 + 16 [a]\n\
             8,0 0 4 0.000100000 0 C R 0 + 16 [0]\n8,0 0 5 0.000200000 7 Q FWS [a]\n8,0 0 6 0.000300000 0 C FN 0 [0]\n"
        );
        let text = if with_queued { text } else { text.replace(" Q FWS ", " D FWS ") };
        record("blkparse", &text, Selection::default()).expect("usable")
    };
    let queued = stages(true);
    let steps = &queued.groups[0].1.parts[0].steps;
    assert_eq!(
        steps.iter().map(|step| (step.offset_bytes, step.length_bytes)).collect::<Vec<_>>(),
        [(0, 4_096), (4_096, 4_096), (0, 0)]
    );
    assert_eq!(steps[2].operation, Operation::Flush);
    // The single completion covered both, and the flush came after it.
    assert_eq!((&queued.groups[0].1.parts[0].completed[..], steps[2].after), (&[0, 1, 2][..], 2));
    assert!(!queued.is_merged);
    let issued = stages(false);
    assert!(issued.is_merged);
    assert_eq!(issued.steps, 3);
}

#[test]
fn a_trace_that_does_not_fit_is_refused_where_that_is_asked_for() {
    let text = table(&[(0, "read", 4_096, 1, 1)]);
    let recorded = record("csv", &text, Selection::default()).expect("usable");
    let strict = Replay { fit: Fit::Strict, ..replay_of(&recorded) }.job("t", 1);
    assert!(matches!(Issuer::new(&strict, 0, 1 << 20, 1), Err(Unsuitable::TraceTooLarge { .. })));
    assert!(Issuer::new(&strict, 0, 8 << 20, 1).is_ok());
    // A replay that was read back from a result has no steps.
    let text = serde_json::to_string(&strict).expect("JSON");
    let again: hoistway_workload::Job = serde_json::from_str(&text).expect("a job");
    assert_eq!(again, strict);
    assert!(matches!(Issuer::new(&again, 0, 8 << 20, 1), Err(Unsuitable::NoRecording { .. })));
}

/// Marks held I/Os with H, others with a dot.
fn held(text: &str, selection: Selection) -> String {
    let recorded = record("blkparse", text, selection).expect("a recording");
    let steps = recorded.groups[0].1.parts.iter().flat_map(|part| part.steps.iter());
    let marks: String = steps.map(|step| if step.is_plugged { 'H' } else { '.' }).collect();
    assert_eq!(recorded.held, marks.matches('H').count() as u64);
    marks
}

/// A process holds its I/Os from the one before its plug to the last one before its unplug; other
/// processes do not.
#[test]
fn recorded_plugs_hold_what_they_held() {
    let event = |number: usize, (pid, what): (u32, &str)| {
        let place = match what {
            "P" => "N [p]".to_owned(),
            "U" | "UT" => "N [p] 2".to_owned(),
            _ => format!("W {} + 8 [p]", number * 8),
        };
        format!("8,0 0 {number} 0.{number:09} {pid} {what} {place}\n")
    };
    let text =
        |events: &[(u32, &str)]| events.iter().enumerate().map(|(at, it)| event(at + 1, *it)).collect::<String>();
    let both = text(&[
        (1, "Q"),
        (1, "G"),
        (1, "P"),
        (1, "Q"),
        (2, "Q"),
        (1, "Q"),
        (1, "U"),
        (1, "I"),
        (1, "Q"),
        (2, "Q"),
        (2, "P"),
        (2, "Q"),
        (2, "UT"),
        (2, "Q"),
    ]);
    // Process 1: three I/Os, the last of which releases the plug; then process 2 does the same with
    // two.
    assert_eq!(held(&both, Selection::default()), "HH...H..");
    assert_eq!(held(&both, Selection { plugs: false, ..Selection::default() }), "........");
    // A single I/O has nothing to wait for, and a plug that is never released ends with the trace.
    assert_eq!(held(&text(&[(1, "Q"), (1, "P"), (1, "U"), (1, "Q")]), Selection::default()), "..");
    assert_eq!(held(&text(&[(1, "Q"), (1, "P"), (1, "Q"), (1, "Q")]), Selection::default()), "HH.");
    // The plug of old kernels belonged to the queue, so any process may release it.
    assert_eq!(held(&text(&[(1, "Q"), (1, "P"), (1, "Q"), (0, "UT"), (1, "Q")]), Selection::default()), "H..");
}
