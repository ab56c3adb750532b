//! `hoistway ctl`: one request to a running server, and its answer.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use export::control::socket::ask;
use serde_json::{Map, Value, json};

/// The default path of a server's control socket.
pub const DEFAULT_SOCKET: &str = "/run/hoistway/control.sock";

/// Arguments of `hoistway ctl`.
#[derive(Args, Debug)]
pub struct CtlArguments {
    /// The server's control socket
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET, global = true)]
    control: PathBuf,
    /// Print the answer as one line of JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// What is asked.
#[derive(Subcommand, Debug)]
enum Command {
    /// Show devices, groups, exports and clients, and what was counted
    Status,
    /// Switch the scheduler without losing a request: NAME[:TUNABLE=VALUE,...]
    Scheduler {
        /// The scheduler and its tunables
        spec: String,
        /// The device, where there are several
        #[arg(long)]
        device: Option<String>,
    },
    /// Change a share or a tunable while clients work
    #[command(subcommand)]
    Set(Set),
    /// Change a group's limits while clients work: limit tenants/db io.max "rbps=50000000 wiops=max"
    Limit {
        /// The group's path, as tenants/db
        path: String,
        /// io.max, io.low or io.latency; blkio.weight, blkio.leaf_weight, either with _device ("DEVICE 300", 0 takes it
        /// away), or blkio.reset_stats
        file: String,
        /// As the kernel's line without the device; keys left out keep their values
        line: String,
    },
    /// Read the configuration file again
    Reload,
    /// Finish what is in flight, then exit
    Drain,
    /// Close the connections of a client (as `status` names it) or of an export
    Evict {
        /// A client, as pid:123 or 127.0.0.1:5000
        #[arg(required_unless_present = "export")]
        client: Option<String>,
        /// All clients of this export
        #[arg(long, conflicts_with = "client")]
        export: Option<String>,
    },
}

#[derive(Subcommand, Debug)]
enum Set {
    /// A group's weight
    Group {
        /// The group's path, as tenants/db
        path: String,
        /// 1 to 10000
        weight: u64,
    },
    /// The weight of a group's own I/O among the groups below it (for cfq)
    LeafWeight {
        /// The group's path, as tenants/db
        path: String,
        /// 1 to 10000, or default: as the group's weight
        weight: String,
    },
    /// A group's level (for uchida and tarasov)
    Priority {
        /// The group's path, as tenants/db
        path: String,
        /// 0 to 7, or default: the scheduler's
        level: String,
    },
    /// A tunable of the scheduler in force
    Tunable {
        /// Its name
        name: String,
        /// Its value, in its own unit
        value: String,
        /// The device, where there are several
        #[arg(long)]
        device: Option<String>,
    },
}

/// Sends the request, prints the answer, and returns the exit code: 0 done, 1 no server or no
/// answer, 2 refused.
pub fn run(arguments: CtlArguments) -> u8 {
    let answer = match ask(&arguments.control, &arguments.command.to_json()) {
        Ok(answer) => answer,
        Err(error) => {
            let socket = arguments.control.display();
            eprintln!("hoistway: error: no answer from the control socket {socket}: {error}");
            eprintln!("  help: {}", help(&error));
            return 1;
        }
    };
    let is_refused = answer.get("error").is_some();
    if arguments.json {
        say(&format!("{answer}\n"));
    } else if let Some(error) = answer.get("error") {
        let field = answer.get("field").and_then(Value::as_str).unwrap_or("");
        let place = if field.is_empty() { String::new() } else { format!(" ({field})") };
        let error = error.as_str().unwrap_or("refused");
        // Errors of a configuration file are printed in the server's own form.
        eprintln!("hoistway: error: {}{place}", error.strip_prefix("hoistway: error: ").unwrap_or(error));
    } else {
        let mut text = String::new();
        show(&answer["ok"], 0, &mut text);
        say(&text);
    }
    if is_refused { 2 } else { 0 }
}

/// A reader that has closed the pipe (`| head`) is no error.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

fn help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "is the server running, with [control] or --control? name its socket by --control",
        io::ErrorKind::ConnectionRefused => "the server that made this socket is gone",
        io::ErrorKind::PermissionDenied => "the control socket is its owner's alone: use the server's user, or root",
        _ => "look at the server's own messages",
    }
}

impl Command {
    fn to_json(&self) -> Value {
        match self {
            Command::Status => json!({"command": "status"}),
            Command::Reload => json!({"command": "reload"}),
            Command::Drain => json!({"command": "drain"}),
            Command::Scheduler { spec, device } => {
                with_device(json!({"command": "scheduler", "scheduler": spec}), device.as_deref())
            }
            Command::Set(Set::Group { path, weight }) => json!({"command": "set", "group": path, "weight": weight}),
            Command::Set(Set::LeafWeight { path, weight }) => {
                json!({"command": "set", "group": path, "leaf_weight": number_or_default(weight)})
            }
            Command::Set(Set::Priority { path, level }) => {
                json!({"command": "set", "group": path, "priority": number_or_default(level)})
            }
            Command::Set(Set::Tunable { name, value, device }) => {
                with_device(json!({"command": "set", "tunable": name, "value": value}), device.as_deref())
            }
            Command::Limit { path, file, line } => {
                json!({"command": "limit", "group": path, "file": file, "line": line})
            }
            Command::Evict { export: Some(export), .. } => json!({"command": "evict", "export": export}),
            Command::Evict { client, .. } => json!({"command": "evict", "client": client}),
        }
    }
}

/// `default` as null; the server checks a text that is no number and says what it accepts.
fn number_or_default(text: &str) -> Value {
    if text == "default" { Value::Null } else { text.parse::<u64>().map_or_else(|_| json!(text), Value::from) }
}

fn with_device(mut request: Value, device: Option<&str>) -> Value {
    if let Some(device) = device {
        request["device"] = json!(device);
    }
    request
}

/// An answer for people: `name: value`, indented by depth, lists with a dash.
fn show(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Array(list) if list.is_empty() => *out += &format!("{indent}{name}: none\n"),
                    Value::Object(_) | Value::Array(_) => {
                        *out += &format!("{indent}{name}:\n");
                        show(value, depth + 1, out);
                    }
                    plain => *out += &format!("{indent}{name}: {}\n", text(plain)),
                }
            }
        }
        Value::Array(list) => {
            for entry in list {
                match entry {
                    Value::Object(fields) => *out += &format!("{indent}- {}\n", line(fields)),
                    plain => *out += &format!("{indent}- {}\n", text(plain)),
                }
            }
        }
        plain => *out += &format!("{indent}{}\n", text(plain)),
    }
}

/// An object in one line: the plain fields first, then `name(...)` for those with fields of their
/// own.
fn line(fields: &Map<String, Value>) -> String {
    let plain = fields.iter().filter(|(_, value)| !value.is_object());
    let nested = fields.iter().filter_map(|(name, value)| Some((name, value.as_object()?)));
    let words = plain.map(|(name, value)| format!("{name} {}", text(value)));
    let deeper = nested.map(|(name, fields)| format!("{name}({})", line(fields)));
    words.chain(deeper).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
