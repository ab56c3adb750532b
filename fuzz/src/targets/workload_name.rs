//! Fuzzes workload codes with settings, `drr:iodepth=4,bs=8k`, with arbitrary text.

use crate::target::{Seen, Target};
use hoistway_workload::name::{Named, parse};

pub const TARGET: Target = Target {
    name: "workload-name",
    promise: "no panic; jobs have the name they were given; a refusal says why",
    run,
    corpus: || {
        ["bsr", "drr:iodepth=4", "DRW:bs=4k,16k,iodepth=8", "brm:rwmixread=90", "bonnie:bs=8k", "video:frame=4k", "xyz"]
            .map(|text| text.as_bytes().to_vec())
            .into()
    },
    tokens: &[
        b":",
        b",",
        b"=",
        b"iodepth=",
        b"bs=",
        b"rw=",
        b"randread",
        b"size=50%",
        b"rate=1m",
        b"thinktime=1ms",
        b"0",
        b"k",
        b"drr",
        b"dd",
        b"bonnie",
        b"dbench:files=4",
        b"startup:app=lowriter",
        b"video:period=",
    ],
    longest_bytes: 1_024,
};

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    match parse(text) {
        Ok(Named { name, jobs, notes, .. }) => {
            assert!(name.eq_ignore_ascii_case(text), "{text:?} is called {name:?}");
            assert!(jobs.iter().all(|job| job.name.starts_with(&name)), "a job of {text:?} has a name of its own");
            notes
                .iter()
                .take(3)
                .fold(Seen::NOTHING.and_count(notes.len()), |seen, note| seen.and_message(&note.message, text))
        }
        Err(refusal) => {
            let message = refusal.to_string();
            assert!(!message.is_empty(), "a refusal without a reason");
            Seen::NOTHING.and_message(&message, text)
        }
    }
}
