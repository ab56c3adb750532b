//! Fuzzes the parser of `serve.toml` with arbitrary text.

use crate::target::{Seen, Target};
use hoistway_export::configuration::check::{Checks, check, warnings};
use hoistway_export::configuration::show::show;
use hoistway_export::configuration::{Configuration, Problem, file};

pub const TARGET: Target = Target {
    name: "serve-configuration",
    promise: "no panic; each problem names its place; what is accepted is shown so that it reads back as itself",
    run,
    corpus,
    tokens: TOKENS,
    longest_bytes: 16 * 1_024,
};

const TOKENS: &[&[u8]] = &[
    b"[[device]]\n",
    b"[[device.export]]\n",
    b"[[group]]\n",
    b"[[listen]]\n",
    b"[[identity]]\n",
    b"[control]\n",
    b"root",
    b"name",
    b"scheduler",
    b"memory",
    b"queue_depth",
    b"max_request",
    b"cache",
    b"batch_wait_us",
    b"busy_poll_us",
    b"inline_max",
    b"cpu",
    b"backing",
    b"group",
    b"read_only",
    b"min_block",
    b"description",
    b"unsafe_flush",
    b"path",
    b"weight",
    b"unix",
    b"tcp",
    b"mode",
    b"owner_group",
    b"exports",
    b"tls",
    b"client_ca",
    b"certificate",
    b"max_connections",
    b"uid",
    b"cgroup",
    b" = ",
    b"\"",
    b"'",
    b"\"\"\"",
    b"[",
    b"]",
    b"{",
    b"}",
    b"\n",
    b"#",
    b"true",
    b"0x",
    b"0o7",
    b"1_0",
    b"1e5",
    b"inf",
    b"256MiB",
    b"\\u0000",
    b"\\U0010ffff",
    b"\xc3\xa4",
    b"127.0.0.1:10809",
    b"[::1]:0",
    b"0600",
    b"*",
    b"db-*",
];

fn run(bytes: &[u8]) -> Seen {
    let Ok(text) = std::str::from_utf8(bytes) else { return Seen::NOTHING.and(b"no text") };
    match read(text) {
        Ok(configuration) => {
            let shown = show(&configuration);
            match file::read("shown", &shown) {
                Ok(again) => assert_eq!(show(&again), shown, "what is shown reads back as itself"),
                Err(problems) => panic!("what is shown is refused: {}\n{shown}", list(&problems)),
            }
            let seen = Seen::NOTHING.and_count(configuration.devices.len()).and_count(configuration.groups.len());
            let seen = seen.and_count(configuration.listeners.len()).and_count(configuration.identities.len());
            warnings(&configuration).iter().fold(seen, |seen, warning| seen.and_message(warning, text))
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a problem");
            let kinds: std::collections::BTreeSet<_> = problems.iter().map(kind).collect();
            kinds.iter().take(3).fold(Seen::NOTHING, |seen, kind| seen.and_message(kind, text))
        }
    }
}

fn kind(problem: &Problem) -> String {
    assert!(!problem.what.is_empty(), "a problem without a sentence");
    let text = problem.to_string();
    assert!(text.len() < 100_000, "a message of unbounded length");
    problem.what.clone()
}

fn read(text: &str) -> Result<Configuration, Vec<Problem>> {
    let configuration = file::read("serve.toml", text)?;
    let checks = Checks {
        scheduler: &|text| {
            if text.starts_with("wfq") { Ok(()) } else { Err(("no such scheduler".into(), "wfq".into())) }
        },
        backing: &|text| if text.is_empty() { Err(("no backing".into(), "a path".into())) } else { Ok(()) },
        whole: &|_| Vec::new(),
    };
    let problems = check(&configuration, checks);
    if problems.is_empty() { Ok(configuration) } else { Err(problems) }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

fn corpus() -> Vec<Vec<u8>> {
    let whole = r#"
root = "/srv/disks"
drain_timeout_s = 20
[[device]]
name = "ssd0"
scheduler = "wfq:request_cost=8"
memory = "256MiB"
queue_depth = 8
max_request = "1MiB"
cache = "page"
batch_wait_us = 5
busy_poll_us = 0
inline_max = "16KiB"
cpu = [0, 1]
[[device.export]]
name = "db"
backing = "db.img"
group = "tenants/db"
read_only = true
min_block = 512
description = "the \"database\" ä"
unsafe_flush = false
[[device.export]]
name = "scratch"
backing = "memory:1GiB"
[[group]]
path = "tenants/db"
weight = 300
[[listen]]
unix = "/run/nbd.sock"
mode = "0600"
owner_group = "disk"
exports = ["*"]
tls = { certificate = "c.pem", key = "k.pem", client_ca = "ca.pem" }
max_connections = 256
handshake_timeout_s = 10
stall_timeout_s = 30
[[listen]]
tcp = "127.0.0.1:10809"
exports = ["db"]
[[identity]]
uid = 1000
group = "tenants/db"
exports = ["db", "db-*"]
[control]
unix = "/run/control.sock"
"#;
    let small = r#"
[[device]]
name = "a"
[[device.export]]
name = "a"
backing = "model:ssd,file=/a"
[[listen]]
unix = "/a"
"#;
    let wrong = r#"
[[device]]
name = 7
queue_depth = "many"
exprt = []
[device.export]
[[listen]]
tcp = "nowhere"
[[group]]
path = "/"
weight = 0
"#;
    [whole, small, wrong].map(|text| text.as_bytes().to_vec()).into()
}
