//! Fuzzes the parser of `--sched NAME[@VERSION][:key=value,...]` with arbitrary text.

use crate::target::{Seen, Target};
use hoistway_experiment::SchedulerSpec;

pub const TARGET: Target = Target {
    name: "scheduler-spec",
    promise: "no panic; accepted text is printed as text that parses to the same value, and its file name is valid",
    run,
    corpus: || {
        ["bfq:slice_idle=0,low_latency=1", "cfq@2.6.36:slice_idle=0", "mq-deadline", "none:a=b c,d= e "]
            .map(|text| text.as_bytes().to_vec())
            .into()
    },
    tokens: &[b"bfq", b"@6.1", b":", b",", b"=", b"slice_idle=8", b" ", b"\t", b"\xc3\xa4", b"/", b"'"],
    longest_bytes: 512,
};

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    match text.parse::<SchedulerSpec>() {
        Ok(spec) => {
            let shown = spec.to_string();
            assert_eq!(shown.parse().as_ref(), Ok(&spec), "{shown:?} reads back as itself");
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            assert!(spec.slug().chars().all(is_plain), "{:?} as a part of a file name", spec.slug());
            Seen::NOTHING.and_count(spec.settings.len()).and(&[u8::from(spec.version.is_some())])
        }
        Err(diagnostic) => {
            assert!(!diagnostic.message.is_empty() && !diagnostic.help.is_empty(), "what is wrong, and what to do");
            Seen::NOTHING.and_message(&diagnostic.message, text)
        }
    }
}
