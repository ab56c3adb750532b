//! Fuzzes the journal of changed settings: a file that `hoistway restore` obeys.

use crate::target::{Seen, Target};
use hoistway_linux::setting::Content;

pub const TARGET: Target = Target {
    name: "journal",
    promise: "no panic; another version is refused; what is read is written again as it was",
    run,
    corpus,
    tokens: &[
        b"\"version\"",
        b"\"pid\"",
        b"\"start_time_ticks\"",
        b"\"watcher\"",
        b"\"cmdline\"",
        b"\"entries\"",
        b"\"path\"",
        b"\"old\"",
        b"\"new\"",
        b"\"requires_scheduler\"",
        b"\"line\"",
        b"\"device\"",
        b"\"absent\"",
        b"\"cgroups\"",
        b"\"subtree_controls\"",
        b"/sys/block/sda/queue/",
        b"/../",
        b": ",
        b", ",
        b"[",
        b"{}",
        b"null",
        b"-1",
        b"1e9",
        b"\\u0000",
        b"\\ud800",
    ],
    longest_bytes: 4_096,
};

fn run(bytes: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(bytes);
    match Content::parse(bytes) {
        Ok(content) => {
            assert_eq!(content.version, 1, "another version was taken");
            let written = serde_json::to_vec(&content).expect("a journal can be written");
            assert_eq!(Content::parse(&written).expect("what was written is read"), content);
            Seen::NOTHING.and_message(&format!("{content:?}"), &text)
        }
        Err(error) => {
            let error = error.to_string();
            assert!(!error.is_empty(), "a refusal without a reason");
            Seen::NOTHING.and_message(&error, &text)
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    [
        r#"{"version": 1, "pid": 4711, "start_time_ticks": 5, "cmdline": [], "entries": [], "cgroups": []}"#,
        r#"{"version": 1, "pid": 4711, "start_time_ticks": 5, "watcher": {"pid": 4712, "start_time_ticks": 6},
            "cmdline": ["hoistway", "test"], "entries": [
            {"path": "/sys/block/sda/queue/scheduler", "old": "bfq", "new": "none"},
            {"path": "/sys/block/sda/queue/iosched/slice_idle", "old": "8", "requires_scheduler": "bfq"},
            {"path": "/sys/fs/cgroup/io.cost.qos", "old": "", "line": {"device": "8:0", "absent": "enable=0"}}],
            "cgroups": ["/sys/fs/cgroup/hoistway.4711"], "subtree_controls": ["/sys/fs/cgroup/cgroup.subtree_control"]}"#,
        r#"{"version": 2, "pid": 1, "start_time_ticks": 0, "cmdline": [], "entries": [], "cgroups": []}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
