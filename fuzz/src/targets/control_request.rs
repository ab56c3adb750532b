//! Fuzzes one line of the control socket.

use crate::target::{Seen, Target};
use hoistway_export::control::request::{MAXIMUM_LINE_BYTES, Request, Share, parse};

pub const TARGET: Target = Target {
    name: "control-request",
    promise: "no panic; weights inside their range; a refusal says why",
    run,
    corpus,
    tokens: &[
        b"\"command\"",
        b"\"status\"",
        b"\"scheduler\"",
        b"\"set\"",
        b"\"reload\"",
        b"\"drain\"",
        b"\"evict\"",
        b"\"device\"",
        b"\"group\"",
        b"\"weight\"",
        b"\"tunable\"",
        b"\"value\"",
        b"\"client\"",
        b"\"export\"",
        b": ",
        b", ",
        b"{",
        b"}",
        b"[",
        b"null",
        b"true",
        b"1e9",
        b"-1",
        b"\\u0000",
        b"\\ud800",
    ],
    longest_bytes: MAXIMUM_LINE_BYTES,
};

fn run(bytes: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(bytes);
    match parse(bytes) {
        Ok(request) => {
            if let Request::Share { share: Share::Weight(weight) | Share::LeafWeight(Some(weight)), .. } = &request {
                assert!((1..=10_000).contains(weight), "weight {weight}");
            }
            Seen::NOTHING.and_message(&format!("{request:?}"), &text)
        }
        Err(refusal) => {
            assert!(!refusal.error.is_empty(), "a refusal without a reason");
            assert!(refusal.to_json().to_string().len() < 1_024 + 8 * bytes.len(), "an answer of unbounded length");
            Seen::NOTHING.and_message(&refusal.error, &text).and(refusal.field.as_bytes())
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    [
        r#"{"command": "status"}"#,
        r#"{"command": "scheduler", "scheduler": "wfq:request_cost=8", "device": "ssd0"}"#,
        r#"{"command": "set", "group": "tenants/db", "weight": 300}"#,
        r#"{"command": "set", "group": "tenants/db", "leaf_weight": null}"#,
        r#"{"command": "set", "group": "tenants/db", "priority": 7}"#,
        r#"{"command": "set", "tunable": "request_cost", "value": "8", "device": "ssd0"}"#,
        r#"{"command": "reload"}"#,
        r#"{"command": "drain"}"#,
        r#"{"command": "evict", "client": "pid:12"}"#,
        r#"{"command": "evict", "export": "db"}"#,
    ]
    .map(|line| line.as_bytes().to_vec())
    .into()
}
