//! The keys of `serve.toml` as data, for the manual page `serve.toml(5)` and the JSON Schema. A test compares them with
//! the reader: names, and what is accepted at the ends of each range.

use serde_json::{Map, Value, json};

use super::{MEMORY, PRIORITIES, QUEUE_DEPTHS, ROTATIONAL, UBLK_NUMBER_MAX, WEIGHTS};
use crate::log::Format;
use hoistway_experiment::limit_lines::BURSTS_MS;

/// What a value may be.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Switch,
    Words(&'static [&'static str]),
    /// A whole number from the first to the last.
    Number(u64, u64),
    /// A list of these.
    Numbers(u64, u64),
    /// A whole number of a few.
    OneOf(&'static [u64]),
    /// Bytes, as a number or as a text with a unit, from the first to the last.
    Size(u64, u64),
    /// Per second: bytes as in [`Kind::Size`], or requests, with `k` and `M`; 0 is none.
    Rate,
    SwitchOrNumber(u64),
    /// A table of keys.
    Table(&'static [Key]),
    /// Any number of tables.
    Tables(&'static [Key]),
}

/// One key.
#[derive(Clone, Copy)]
struct Key {
    name: &'static str,
    /// Another name of the same key.
    short: Option<&'static str>,
    kind: Kind,
    is_needed: bool,
    /// As it is written in the file; without one, the description says what applies.
    default: &'static str,
    doc: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, short: None, kind, is_needed: false, default, doc }
}

const fn needed(name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { is_needed: true, ..key(name, kind, "", doc) }
}

const fn limit(name: &'static str, short: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { short: Some(short), ..key(name, kind, "0", doc) }
}

const MIB: u64 = 1 << 20;
const ROTATIONAL_WORDS: &[&str] = &[ROTATIONAL[0].0, ROTATIONAL[1].0, ROTATIONAL[2].0];

const TOP: &[Key] = &[
    key(
        "root",
        Kind::Text,
        "",
        "Directory below which relative backings are opened. No \"..\" and no symbolic link leads out of it.",
    ),
    key("drain_timeout_s", Kind::Number(1, 3_600), "30", "Longest time for ending, in seconds."),
    key("device", Kind::Tables(DEVICE), "", "One scheduler. Shares are divided within a device."),
    key("group", Kind::Tables(GROUP), "", "Weight and limits of a group."),
    key("listen", Kind::Tables(LISTEN), "", "A socket for NBD clients. Either unix or tcp is needed."),
    key(
        "identity",
        Kind::Tables(IDENTITY),
        "",
        "Who a client is. Exactly one of uid, gid, cgroup, certificate and listener is needed. The first that fits counts.",
    ),
    key("metrics", Kind::Table(METRICS), "", "Metrics for Prometheus. Either unix or tcp is needed."),
    key("control", Kind::Table(CONTROL), "", "The socket of hoistway ctl and hoistway top, mode 0600."),
    key("log", Kind::Table(LOG), "", "The log on standard error. Both keys apply on reload."),
];

const DEVICE: &[Key] = &[
    needed("name", Kind::Text, "1 to 256 bytes."),
    key("scheduler", Kind::Text, "\"paternoster\"", "NAME[:TUNABLE=VALUE,...]; hoistway list schedulers."),
    key(
        "memory",
        Kind::Size(MEMORY.start().0, MEMORY.end().0),
        "\"256MiB\"",
        "Memory for payloads in flight, 2 MiB for each group. More wait, group by group.",
    ),
    key(
        "queue_depth",
        Kind::Number(*QUEUE_DEPTHS.start(), *QUEUE_DEPTHS.end()),
        "0",
        "Requests given to the device at once. 0: 32 on what rotates, elsewhere learned, 128 at most.",
    ),
    key(
        "rotational",
        Kind::Words(ROTATIONAL_WORDS),
        "\"auto\"",
        "Whether positioning costs time, as on disks. \"auto\" asks the system and, if it says yes, measures.",
    ),
    key(
        "max_request",
        Kind::Size(4 << 10, MIB),
        "\"1MiB\"",
        "Longer requests are cut into parts of this size, a power of two.",
    ),
    key(
        "cache",
        Kind::Words(&["direct", "page"]),
        "\"direct\"",
        "Past the page cache where the file system can, or through it.",
    ),
    key("batch_wait_us", Kind::Number(0, 1_000), "0", "Longest wait for several completions at once, in microseconds."),
    key("busy_poll_us", Kind::Number(0, 200), "50", "Time of looking for work before sleeping, in microseconds."),
    key(
        "threads",
        Kind::Number(0, 64),
        "0",
        "Threads that share the work of the device's clients. 0: one for each processor that it may use, up to 4.",
    ),
    key(
        "inline_max",
        Kind::Size(0, MIB),
        "\"16KiB\"",
        "Longest I/O done by the device's threads themselves, for backings in memory.",
    ),
    key("cpu", Kind::Numbers(0, 1_023), "[]", "Processors that the threads may use; none: all."),
    key("export", Kind::Tables(EXPORT), "", "What clients can open."),
];

const EXPORT: &[Key] = &[
    needed("name", Kind::Text, "NBD export name, 1 to 256 bytes."),
    key(
        "backing",
        Kind::Text,
        "",
        "A file, a block device, a slice of one (/dev/sdb@1GiB+100GiB), memory:SIZE, null:SIZE, or model:NAME,BACKING. \
         Needed, but for base and overlay.",
    ),
    key("base", Kind::Text, "", "Instead of a backing: the image that the export begins with, which is only read."),
    key("overlay", Kind::Text, "", "The file that the export writes to: what is not in it is in the base."),
    key(
        "group",
        Kind::Text,
        "",
        "The group that is charged, unless an identity says otherwise. Default: the export's name.",
    ),
    key("read_only", Kind::Switch, "false", "Opened for reading only. A mounted device may then be exported, too."),
    key(
        "min_block",
        Kind::OneOf(&[1, 512, 4_096]),
        "1",
        "Smallest block advertised, in bytes. Unaligned requests work regardless.",
    ),
    key("description", Kind::Text, "\"\"", "A text for clients that list exports."),
    key("unsafe_flush", Kind::Switch, "false", "Flushes and FUA are answered without being done; for scratch disks."),
    key(
        "ublk",
        Kind::SwitchOrNumber(UBLK_NUMBER_MAX),
        "false",
        "The export is also a local block device, /dev/ublkbN; a number asks for that N.",
    ),
    key(
        "vhost_user_blk",
        Kind::Table(VHOST_USER_BLK),
        "",
        "The socket at which a virtual machine attaches the export.",
    ),
];

const MODE: Key = key("mode", Kind::Text, "\"0660\"", "Permission bits of the unix socket, three octal digits.");
const OWNER_GROUP: Key =
    key("owner_group", Kind::Text, "", "Group of the unix socket, name or number. Default: the process's.");
const UNIX: Key = key("unix", Kind::Text, "", "Path of a unix socket.");
const TCP: Key = key("tcp", Kind::Text, "", "IP address and port.");
const ALLOW_PLAIN: Key = key(
    "allow_plain",
    Kind::Switch,
    "false",
    "Consent to TCP beyond the loopback without TLS, which is unencrypted and unauthenticated.",
);

const VHOST_USER_BLK: &[Key] = &[needed("unix", Kind::Text, "Path of the socket."), MODE, OWNER_GROUP];

const GROUP: &[Key] = &[
    needed("path", Kind::Text, "Names with / between them. Children divide what their parent gets."),
    key("weight", Kind::Number(*WEIGHTS.start(), *WEIGHTS.end()), "100", "Share relative to its siblings."),
    key(
        "leaf_weight",
        Kind::Number(*WEIGHTS.start(), *WEIGHTS.end()),
        "",
        "Weight of the group's own I/O among the groups below it, for cfq. Default: the group's weight.",
    ),
    key(
        "priority",
        Kind::Number(*PRIORITIES.start(), *PRIORITIES.end()),
        "",
        "Level of the group, for uchida and tarasov. Default: the scheduler's.",
    ),
    limit("read_bps_max", "rbps", Kind::Rate, "Most bytes read per second; 0: no limit."),
    limit("write_bps_max", "wbps", Kind::Rate, "Most bytes written per second; 0: no limit."),
    limit("total_bps_max", "tbps", Kind::Rate, "Most bytes per second of both together; 0: no limit."),
    limit("read_iops_max", "riops", Kind::Rate, "Most reads per second; 0: no limit."),
    limit("write_iops_max", "wiops", Kind::Rate, "Most writes per second; 0: no limit."),
    limit("total_iops_max", "tiops", Kind::Rate, "Most requests per second; 0: no limit."),
    key(
        "burst_ms",
        Kind::Number(*BURSTS_MS.start(), *BURSTS_MS.end()),
        "",
        "Time for which an idle group saves up what these rates allow, in milliseconds. Default: 100.",
    ),
    limit(
        "latency_target_us",
        "target",
        Kind::Number(0, u32::MAX as u64),
        "While it is missed, siblings get less; 0: no target.",
    ),
    key("io", Kind::Table(LINES), "", "The kernel's lines without the device."),
];

const LINES: &[Key] = &[
    key("max", Kind::Text, "", "\"rbps=50000000 wiops=max\""),
    key("low", Kind::Text, "", "The same keys, best effort."),
    key("latency", Kind::Text, "", "\"target=2000\", in microseconds."),
];

const LISTEN: &[Key] = &[
    UNIX,
    TCP,
    MODE,
    OWNER_GROUP,
    key("exports", Kind::Texts, "[\"*\"]", "Names of the exports that are visible here; * stands for any letters."),
    key("list", Kind::Switch, "true", "Whether clients may list exports."),
    ALLOW_PLAIN,
    key("max_connections", Kind::Number(1, 65_536), "256", "One more is closed at once."),
    key(
        "max_connections_per_peer",
        Kind::Number(0, 65_536),
        "0",
        "Connections of one process or address. 0: all but an eighth of max_connections.",
    ),
    key("handshake_timeout_s", Kind::Number(1, 3_600), "10", "Longest time for a handshake, in seconds."),
    key(
        "stall_timeout_s",
        Kind::Number(1, 86_400),
        "30",
        "Time after which a client that stalls is closed, in seconds; the same for all listeners.",
    ),
    key("tls", Kind::Table(TLS), "", "Serves no client without TLS."),
];

const TLS: &[Key] = &[
    needed("certificate", Kind::Text, "File with the server's certificate, then its intermediates, in PEM."),
    needed("key", Kind::Text, "File with its key, in PEM, without a passphrase."),
    key(
        "client_ca",
        Kind::Text,
        "",
        "File with the authorities of the clients, in PEM; with it, clients need a certificate.",
    ),
];

const IDENTITY: &[Key] = &[
    key("uid", Kind::Number(0, u32::MAX as u64 - 1), "", "User of the peer of a unix socket."),
    key("gid", Kind::Number(0, u32::MAX as u64 - 1), "", "Group of the peer of a unix socket."),
    key("cgroup", Kind::Switch, "false", "Each peer of a unix socket is charged to its own cgroup."),
    key("listener", Kind::Text, "", "\"unix:PATH\" or \"tcp:ADDRESS:PORT\"."),
    key("certificate", Kind::Text, "", "A name in the client's certificate, or \"*.DOMAIN\"."),
    key("group", Kind::Text, "", "The group that is charged; needed but for cgroup."),
    key("exports", Kind::Texts, "[\"*\"]", "The other exports do not exist for this client."),
];

const METRICS: &[Key] = &[UNIX, TCP, MODE, OWNER_GROUP, ALLOW_PLAIN];
const CONTROL: &[Key] = &[needed("unix", Kind::Text, "Path of the socket.")];
const LOG: &[Key] = &[
    key(
        "format",
        Kind::Words(&FORMATS),
        "\"auto\"",
        "\"auto\": journald where the journal reads standard error, else human.",
    ),
    key("level", Kind::Text, "\"info\"", "error, warn, info, debug, off, or by target: \"warn,client=info\"."),
];

const FORMATS: [&str; Format::ALL.len()] = {
    let mut words = [""; Format::ALL.len()];
    let mut at = 0;
    while at < words.len() {
        words[at] = Format::ALL[at].0;
        at += 1;
    }
    words
};

/// The JSON Schema (draft 2020-12) of `serve.toml`, for editors and validators that know TOML.
pub fn schema() -> Value {
    let mut schema = of_table(TOP);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("serve.toml of hoistway serve");
    schema
}

fn of_table(keys: &[Key]) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let mut value = of_kind(key.kind);
        value["description"] = json!(key.doc);
        // Defaults are written as in TOML, which is JSON for all of these.
        if let Ok(default) = serde_json::from_str::<Value>(key.default) {
            value["default"] = default;
        }
        if let Some(name) = key.short {
            properties.insert(name.into(), value.clone());
        }
        properties.insert(key.name.into(), value);
    }
    let needed: Vec<&str> = keys.iter().filter(|key| key.is_needed).map(|key| key.name).collect();
    json!({"type": "object", "properties": properties, "required": needed, "additionalProperties": false})
}

fn of_kind(kind: Kind) -> Value {
    let number = |least: u64, most: u64| json!({"type": "integer", "minimum": least, "maximum": most});
    match kind {
        Kind::Text => json!({"type": "string"}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Switch => json!({"type": "boolean"}),
        Kind::Words(words) => json!({"enum": words}),
        Kind::Number(least, most) => number(least, most),
        Kind::Numbers(least, most) => json!({"type": "array", "items": number(least, most)}),
        Kind::OneOf(numbers) => json!({"enum": numbers}),
        Kind::Size(least, most) => json!({"anyOf": [number(least, most), {"type": "string", "pattern": "^[0-9]"}]}),
        Kind::Rate => json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]"}]}),
        Kind::SwitchOrNumber(most) => json!({"anyOf": [{"type": "boolean"}, number(0, most)]}),
        Kind::Table(keys) => of_table(keys),
        Kind::Tables(keys) => json!({"type": "array", "items": of_table(keys)}),
    }
}

/// The keys for `serve.toml(5)`: `.TP` paragraphs in roff, table by table.
pub fn manual() -> String {
    let mut text = String::new();
    write_table(&mut text, "", TOP);
    text
}

fn write_table(text: &mut String, path: &str, keys: &[Key]) {
    for key in keys.iter().filter(|key| !matches!(key.kind, Kind::Table(_) | Kind::Tables(_))) {
        let short = key.short.map_or(String::new(), |short| format!(", \\fB{short}\\fR"));
        let default = match (key.is_needed, key.default) {
            (true, _) => " Needed.".to_owned(),
            (false, "") => String::new(),
            (false, default) => format!(" Default: {default}."),
        };
        let line = format!(".TP\n\\fB{}\\fR{short} = {}\n{}{default}\n", key.name, words(key.kind), key.doc);
        text.push_str(&line.replace('-', "\\-").replace("\n'", "\n\\&'").replace("\n\".", "\n\\&\"."));
    }
    for key in keys {
        let (title, own) = match key.kind {
            Kind::Tables(own) => (format!("[[{path}{}]]", key.name), own),
            Kind::Table(own) => (format!("[{path}{}]", key.name), own),
            _ => continue,
        };
        text.push_str(&format!(".SS {title}\n{}\n", key.doc));
        write_table(text, &format!("{path}{}.", key.name), own);
    }
}

/// What a value may be, in words.
fn words(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".into(),
        Kind::Texts => "list of texts".into(),
        Kind::Switch => "true or false".into(),
        Kind::Words(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", "),
        Kind::Number(least, most) => format!("{least} to {most}"),
        Kind::Numbers(least, most) => format!("list of {least} to {most}"),
        Kind::OneOf(numbers) => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        Kind::Size(least, most) => format!("{} to {}", super::Size(least), super::Size(most)),
        Kind::Rate => "number, or text with a unit, per second".into(),
        Kind::SwitchOrNumber(most) => format!("true, false or 0 to {most}"),
        Kind::Table(_) | Kind::Tables(_) => "table".into(),
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
