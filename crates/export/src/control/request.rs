//! Parses one line of the control socket into a request: a function of bytes.
//!
//! | line | meaning |
//! | --- | --- |
//! | `{"command": "status"}` | all counters; with `"buckets": true` also the histograms of latency |
//! | `{"command": "scheduler", "scheduler": "wfq", "device": "ssd0"}` | switch the policy |
//! | `{"command": "set", "group": "tenants/db", "weight": 300}` | change a share; also `leaf_weight`, `priority`: null = default |
//! | `{"command": "limit", "group": "tenants/db", "file": "io.max", "line": "rbps=50000000"}` | change limits |
//! | `{"command": "set", "tunable": "NAME", "value": "VALUE", "device": "ssd0"}` | change a tunable |
//! | `{"command": "reload"}` | read the configuration file again |
//! | `{"command": "drain"}` | finish what is in flight, then exit |
//! | `{"command": "export", "add": "NAME=BACKING[,OPTION...]", "device": "ssd0"}` | add an export |
//! | `{"command": "export", "remove": "NAME"}` | remove an export |
//! | `{"command": "resize", "export": "NAME"}` | take over the size of a file or device that has grown |
//! | `{"command": "evict", "client": "pid:12"}`, `{"command": "evict", "export": "db"}` | close connections |
//!
//! `device` may be omitted if there is only one. Answers are one line each: `{"ok": ...}` or
//! `{"error": "...", "field": "..."}`; nothing is ever applied partly.

use hoistway_experiment::GroupPriority;
use serde_json::{Map, Value, json};

use crate::configuration::problem::nearest;
use crate::configuration::{DEFAULT_WEIGHT, WEIGHTS};

/// Longest line that is read.
pub const MAXIMUM_LINE_BYTES: usize = 64 * 1024;

const COMMANDS: [&str; 9] = ["status", "scheduler", "set", "limit", "reload", "drain", "export", "resize", "evict"];
/// Commands of the specification (docs/specifications/engine.md, section 8) that later versions
/// will support.
const LATER: [&str; 2] = ["trace", "metrics"];

/// A request of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Report all counters.
    Status {
        /// Whether to add the histograms of each group's latency.
        buckets: bool,
    },
    /// Set another policy, or the same with other tunables.
    Scheduler {
        /// The device; may be omitted if there is only one.
        device: Option<String>,
        /// `NAME[:TUNABLE=VALUE,...]`.
        scheduler: String,
    },
    /// Change a group's share.
    Share {
        /// The group's path.
        group: String,
        /// The property to change.
        share: Share,
    },
    /// Change a group's limits.
    Limit {
        /// The group's path.
        group: String,
        /// `io.max`, `io.low`, `io.latency`, or one of `blkio.weight`, `blkio.leaf_weight`,
        /// `blkio.weight_device`, `blkio.leaf_weight_device`, `blkio.reset_stats`.
        file: String,
        /// In the form of the kernel's line without the device: `rbps=50000000 wiops=max`.
        line: String,
    },
    /// Change a tunable of the active policy.
    Tunable {
        /// The device; may be omitted if there is only one.
        device: Option<String>,
        /// Its name.
        name: String,
        /// Its value, in the tunable's own unit.
        value: String,
    },
    /// Read the configuration file again.
    Reload,
    /// Drain and exit.
    Drain,
    /// Add an export.
    AddExport {
        /// The device; may be omitted if there is only one.
        device: Option<String>,
        /// `NAME=BACKING[,OPTION...]`, as `--export` takes it.
        export: String,
    },
    /// Remove an export.
    RemoveExport(String),
    /// Take over the size of an export's file or device.
    Resize(String),
    /// Close a client's connections.
    EvictClient(String),
    /// Close all connections to an export.
    EvictExport(String),
}

/// A property of a group's share.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Weight among its siblings, 1 to 10,000.
    Weight(u64),
    /// Weight of its own queues among the groups below it, 1 to 10,000; none = its weight.
    LeafWeight(Option<u64>),
    /// Priority level, for schedulers that support levels of groups; none = the scheduler's
    /// default.
    Priority(Option<GroupPriority>),
}

/// Why a request was refused, and which field caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence with the value, what is allowed, and the remedy.
    pub error: String,
    /// The field that caused it.
    pub field: &'static str,
}

impl Refusal {
    /// A refusal caused by one field.
    pub fn new(field: &'static str, error: impl Into<String>) -> Self {
        Self { error: error.into(), field }
    }

    /// The refusal as an answer.
    pub fn to_json(&self) -> Value {
        json!({"error": self.error, "field": self.field})
    }
}

/// Parses one line.
pub fn parse(line: &[u8]) -> Result<Request, Refusal> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| Refusal::new("", format!("the line is not JSON: {error}")))?;
    let Value::Object(fields) = value else {
        return Err(Refusal::new("", "the line is not a JSON object, as in {\"command\": \"status\"}"));
    };
    let mut fields = Fields(fields);
    let command = fields.needed_text("command")?;
    let request = match command.as_str() {
        "status" => Request::Status { buckets: fields.switch("buckets")? },
        "reload" => Request::Reload,
        "drain" => Request::Drain,
        "scheduler" => {
            Request::Scheduler { device: fields.text("device")?, scheduler: fields.needed_text("scheduler")? }
        }
        "set" => set(&mut fields)?,
        "limit" => Request::Limit {
            group: fields.needed_text("group")?,
            file: fields.needed_text("file")?,
            line: fields.needed_text("line")?,
        },
        "evict" => match (fields.text("client")?, fields.text("export")?) {
            (Some(client), None) => Request::EvictClient(client),
            (None, Some(export)) => Request::EvictExport(export),
            _ => return Err(Refusal::new("client", "evict takes either a client or an export")),
        },
        "export" => match (fields.text("add")?, fields.text("remove")?) {
            (Some(export), None) => Request::AddExport { device: fields.text("device")?, export },
            (None, Some(export)) => Request::RemoveExport(export),
            _ => return Err(Refusal::new("add", "export takes either add or remove")),
        },
        "resize" => Request::Resize(fields.needed_text("export")?),
        later if LATER.contains(&later) => {
            return Err(Refusal::new("command", format!("{later} is not available in this version")));
        }
        other => {
            let meant = nearest(other, &COMMANDS).map_or(String::new(), |word| format!("; did you mean {word}?"));
            let error = format!("there is no command {other:?}{meant} Commands: {}", COMMANDS.join(", "));
            return Err(Refusal::new("command", error));
        }
    };
    fields.finish()?;
    Ok(request)
}

fn set(fields: &mut Fields) -> Result<Request, Refusal> {
    if let Some(group) = fields.text("group")? {
        return Ok(Request::Share { group, share: share(fields)? });
    }
    if let Some(name) = fields.text("tunable")? {
        let value = match fields.0.remove("value") {
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(Refusal::new("value", "value must be a text or a number")),
        };
        return Ok(Request::Tunable { device: fields.text("device")?, name, value });
    }
    if fields.0.contains_key("export") {
        return Err(Refusal::new("export", "nothing of an export can be changed while it is served"));
    }
    Err(Refusal::new(
        "group",
        "set takes a group with its weight, leaf_weight or priority, or a tunable with its value",
    ))
}

/// Parses the property of a group's share.
fn share(fields: &mut Fields) -> Result<Share, Refusal> {
    if let Some(level) = fields.0.remove("priority") {
        let known = level.as_u64().and_then(|level| GroupPriority::new(u32::try_from(level).ok()?).ok());
        return match (&level, known) {
            (Value::Null, _) | (_, Some(_)) => Ok(Share::Priority(known)),
            _ => {
                Err(Refusal::new("priority", format!("priority = {level} is not a whole number from 0 to 7, or null")))
            }
        };
    }
    if let Some(weight) = fields.0.remove("leaf_weight") {
        return if weight.is_null() {
            Ok(Share::LeafWeight(None))
        } else {
            weight_in("leaf_weight", &weight).map(|weight| Share::LeafWeight(Some(weight)))
        };
    }
    let weight = fields.0.remove("weight").unwrap_or(Value::Null);
    weight_in("weight", &weight).map(Share::Weight)
}

fn weight_in(field: &'static str, value: &Value) -> Result<u64, Refusal> {
    let allowed = format!("a whole number from {} to {}", WEIGHTS.start(), WEIGHTS.end());
    value
        .as_u64()
        .filter(|number| WEIGHTS.contains(number))
        .ok_or_else(|| Refusal::new(field, format!("{field} = {value} is not {allowed}, as {DEFAULT_WEIGHT}")))
}

/// The fields that have not been read yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(Refusal::new(name, format!("{name} = {other} is not a text"))),
        }
    }

    fn needed_text(&mut self, name: &'static str) -> Result<String, Refusal> {
        self.text(name)?.ok_or_else(|| Refusal::new(name, format!("{name} is missing")))
    }

    /// A boolean; false if omitted.
    fn switch(&mut self, name: &'static str) -> Result<bool, Refusal> {
        match self.0.remove(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(Refusal::new(name, format!("{name} = {other} is neither true nor false"))),
        }
    }

    fn finish(self) -> Result<(), Refusal> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err(Refusal::new("command", format!("this command has no field {key:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> (String, &'static str) {
        let refusal = parse(line.as_bytes()).unwrap_err();
        (refusal.error, refusal.field)
    }

    #[test]
    fn every_command_is_read() {
        let read = |line: &str| parse(line.as_bytes()).unwrap();
        assert_eq!(read(r#"{"command": "status"}"#), Request::Status { buckets: false });
        assert_eq!(read(r#"{"command": "status", "buckets": true}"#), Request::Status { buckets: true });
        let scheduler = Request::Scheduler { device: None, scheduler: "wfq".into() };
        assert_eq!(read(r#"{"command": "scheduler", "scheduler": "wfq"}"#), scheduler);
        let share = |share| Request::Share { group: "a/b".into(), share };
        assert_eq!(read(r#"{"command": "set", "group": "a/b", "weight": 7}"#), share(Share::Weight(7)));
        assert_eq!(read(r#"{"command": "set", "group": "a/b", "leaf_weight": 7}"#), share(Share::LeafWeight(Some(7))));
        let level = share(Share::Priority(GroupPriority::new(3).ok()));
        assert_eq!(read(r#"{"command": "set", "group": "a/b", "priority": 3}"#), level);
        assert_eq!(read(r#"{"command": "set", "group": "a/b", "priority": null}"#), share(Share::Priority(None)));
        let (group, file, line) = ("a".into(), "io.max".into(), "rbps=2000".into());
        let limit = r#"{"command": "limit", "group": "a", "file": "io.max", "line": "rbps=2000"}"#;
        assert_eq!(read(limit), Request::Limit { group, file, line });
        let tunable = Request::Tunable { device: Some("d".into()), name: "n".into(), value: "4".into() };
        assert_eq!(read(r#"{"command": "set", "tunable": "n", "value": 4, "device": "d"}"#), tunable);
        let added = Request::AddExport { device: Some("d".into()), export: "a=/a.img,read_only".into() };
        assert_eq!(read(r#"{"command": "export", "add": "a=/a.img,read_only", "device": "d"}"#), added);
        assert_eq!(read(r#"{"command": "export", "remove": "a"}"#), Request::RemoveExport("a".into()));
        assert_eq!(read(r#"{"command": "resize", "export": "a"}"#), Request::Resize("a".into()));
        assert_eq!(read(r#"{"command": "evict", "client": "pid:1"}"#), Request::EvictClient("pid:1".into()));
        assert_eq!(read(r#"{"command": "evict", "export": "a"}"#), Request::EvictExport("a".into()));
    }

    #[test]
    fn errors_name_the_field() {
        assert_eq!(error("nonsense").1, "");
        assert_eq!(error("[]").1, "");
        assert_eq!(error("{}"), ("command is missing".into(), "command"));
        assert!(error(r#"{"command": "statsu"}"#).0.contains("did you mean status?"));
        assert_eq!(error(r#"{"command": "limit", "group": "a", "line": "rbps=2000"}"#).1, "file");
        assert!(error(r#"{"command": "trace"}"#).0.contains("not available in this version"));
        assert_eq!(error(r#"{"command": "resize"}"#).1, "export");
        assert_eq!(error(r#"{"command": "export"}"#).1, "add");
        assert!(error(r#"{"command": "export", "remove": "a", "device": "d"}"#).0.contains("no field \"device\""));
        assert_eq!(error(r#"{"command": "set", "group": "a", "weight": 0}"#).1, "weight");
        assert_eq!(error(r#"{"command": "set", "group": "a"}"#).1, "weight");
        assert_eq!(error(r#"{"command": "set", "group": "a", "priority": 8}"#).1, "priority");
        assert_eq!(error(r#"{"command": "set", "group": "a", "leaf_weight": 0}"#).1, "leaf_weight");
        assert!(error(r#"{"command": "set", "group": "a", "weight": 1, "priority": 1}"#).0.contains("no field"));
        assert_eq!(error(r#"{"command": "set", "group": 5, "weight": 1}"#).1, "group");
        assert_eq!(error(r#"{"command": "scheduler"}"#).1, "scheduler");
        assert!(error(r#"{"command": "drain", "now": true}"#).0.contains("no field \"now\""));
        assert_eq!(error(r#"{"command": "evict"}"#).1, "client");
    }
}
