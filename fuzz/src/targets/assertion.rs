//! Fuzzes the parser of assertions, `--assert 'share_error_max <= 5%'`, with arbitrary text.

use crate::target::{Seen, Target};
use hoistway_experiment::assertion::Assertion;

pub const TARGET: Target = Target {
    name: "assertion",
    promise: "no panic; what is accepted keeps its text; a refusal says why",
    run,
    corpus: || {
        [
            "share_error_max<=5%@sched=cfq",
            "total_bw >= 0.95*total_bw@sched=none @ nr=1",
            "lat_p99(cgrp1).hi <= 50ms",
            "share_error_max <= 10% @ sched=bfq,nr=8",
            "total_bw >= 0.97*baseline",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    tokens: &[
        b"<=",
        b">=",
        b"<",
        b">",
        b"==",
        b"*",
        b"(",
        b")",
        b",",
        b".",
        b"%",
        b"ms",
        b"us",
        b"MB/s",
        b"share_error_max",
        b"lat_p99(cgrp1)",
        b"total_bw",
        b"iops",
        b"read",
        b"write",
        b"none",
        b"baseline",
        b".hi",
        b"sched=",
        b"nr=",
        b"1e308",
        b"inf",
        b"nan",
        b"\xc3\xa4",
    ],
    longest_bytes: 512,
};

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    match Assertion::parse(text) {
        Ok(assertion) => {
            assert_eq!(Assertion::parse(assertion.text()).as_ref(), Ok(&assertion), "its text reads back as itself");
            Seen::NOTHING.and(&[u8::from(assertion.needs_baseline())])
        }
        Err(diagnostic) => {
            assert!(!diagnostic.message.is_empty(), "a refusal without a reason");
            Seen::NOTHING.and_message(&diagnostic.message, text)
        }
    }
}
