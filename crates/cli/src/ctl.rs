//! `hoistway ctl`: one request to a running server, and its answer.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use hoistway_block::Nanos;
use hoistway_experiment::printable_lines;
use hoistway_export::control::socket::ask;
use hoistway_linux::output::error_line;
use serde_json::{Map, Value, json};

use crate::exit::print;
use crate::status;

/// The default path of a server's control socket.
pub const DEFAULT_SOCKET: &str = "/run/hoistway/control.sock";

/// The environment variable that names the control socket where `--control` does not.
const SOCKET_VARIABLE: &str = "HOISTWAY_CONTROL";

/// A control socket as `--control` takes it: a path, or `unix:PATH` as the addresses of clients are
/// written.
#[derive(Clone, Debug)]
pub struct Socket(pub PathBuf);

/// Reads `--control`.
///
/// # Errors
/// None: any text is a path.
pub fn socket(text: &str) -> Result<Socket, std::convert::Infallible> {
    Ok(Socket(PathBuf::from(text.strip_prefix("unix:").unwrap_or(text))))
}

/// The control socket: the given one, else that of the environment, else the default.
pub fn socket_of(given: Option<&Socket>) -> PathBuf {
    let of_environment = || std::env::var(SOCKET_VARIABLE).ok().filter(|text| !text.is_empty());
    match given {
        Some(Socket(path)) => path.clone(),
        None => {
            let text = of_environment().unwrap_or_else(|| DEFAULT_SOCKET.to_owned());
            PathBuf::from(text.strip_prefix("unix:").unwrap_or(&text))
        }
    }
}

/// Arguments of `hoistway ctl`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  hoistway ctl status
  hoistway ctl --control /run/h.sock set group tenants/db 800
  hoistway ctl scheduler mq-deadline:fifo_batch=1")]
pub struct CtlArguments {
    /// Control socket of the server [default: $HOISTWAY_CONTROL, or /run/hoistway/control.sock]
    #[arg(long, value_name = "PATH", value_parser = socket, global = true)]
    control: Option<Socket>,
    /// Print the answer as one line of JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// The request.
#[derive(Subcommand, Debug)]
enum Command {
    /// Show devices, groups, exports and clients: shares, rates, latencies, and why a share is not kept
    #[command(after_help = "Examples:
  hoistway ctl status
  hoistway ctl status --interval 10s
  hoistway ctl status --all            all counters since the start
  hoistway ctl status --json

Rates and latencies are those of one --interval, which the command waits for; with --all or --json it waits for
nothing. The tables are as wide as the terminal, 80 to 200 columns; elsewhere COLUMNS, or else 80.")]
    Status {
        /// Interval over which rates and latencies are measured
        #[arg(short = 'd', long, value_name = "TIME", default_value = "1s", value_parser = status::interval)]
        interval: u64,
        /// Print all counters since the server's start instead of the tables
        #[arg(long)]
        all: bool,
    },
    /// Switch to another scheduler; requests in the queue are kept
    #[command(after_help = "Examples:
  hoistway ctl scheduler bfq
  hoistway ctl scheduler mq-deadline:fifo_batch=1,read_expire=100
  hoistway ctl scheduler wfq --device disk0")]
    Scheduler {
        /// Scheduler as NAME[:TUNABLE=VALUE,...]
        spec: String,
        /// Device of the server; required if it has several
        #[arg(long)]
        device: Option<String>,
    },
    /// Change a weight, a priority or a tunable while clients are connected
    #[command(after_help = "Examples:
  hoistway ctl set group tenants/db 800
  hoistway ctl set tunable slice_idle 0")]
    #[command(subcommand)]
    Set(Set),
    /// Change a group's limits while clients are connected
    #[command(after_help = r#"Examples:
  hoistway ctl limit tenants/db io.max "rbps=50000000 wiops=max"
  hoistway ctl limit tenants/db io.latency "target=5000"
  hoistway ctl limit tenants/db blkio.weight 300"#)]
    Limit {
        /// Path of the group, such as tenants/db
        path: String,
        /// File to write: io.max, io.low or io.latency; or blkio.weight, blkio.leaf_weight, the same with suffix
        /// _device ("DEVICE 300"; 0 removes it), or blkio.reset_stats
        file: String,
        /// Line to write, in the kernel's format without the device; keys that are not given keep their values
        line: String,
    },
    /// Read the configuration file again and apply its changes
    #[command(after_help = "Examples:
  hoistway ctl reload")]
    Reload,
    /// Add or remove an export
    #[command(subcommand)]
    Export(Export),
    /// Take over the size of an export's file or block device after it has grown
    #[command(after_help = "Examples:
  truncate -s 20G /srv/db.img && hoistway ctl resize db

New clients see the new size, and so do local block devices (Linux 6.16) and virtual machines.
NBD clients that are connected keep the size that they know until they connect again.")]
    Resize {
        /// Name of the export
        name: String,
    },
    /// Finish all requests in flight, then exit
    #[command(after_help = "Examples:
  hoistway ctl drain")]
    Drain,
    /// Close the connections of a client, or of all clients of an export
    #[command(after_help = "Examples:
  hoistway ctl evict pid:4711
  hoistway ctl evict 127.0.0.1:50312
  hoistway ctl evict --export db")]
    Evict {
        /// Client, named as in `status`: pid:123 or 127.0.0.1:5000
        #[arg(required_unless_present = "export")]
        client: Option<String>,
        /// Close the connections of all clients of this export
        #[arg(long, conflicts_with = "client")]
        export: Option<String>,
    },
}

#[derive(Subcommand, Debug)]
enum Export {
    /// Add an export, until the next reload or the end of the server
    #[command(after_help = "Examples:
  hoistway ctl export add db=/srv/db.img
  hoistway ctl export add db=/dev/sdb@0+100GiB,group=tenants/db,weight=300
  hoistway ctl export add scratch=memory:1GiB,ublk --device disk0")]
    Add {
        /// Export, as for `serve --export`
        #[arg(value_name = "NAME=BACKING[,OPTION...]")]
        export: String,
        /// Device of the server; required if it has several
        #[arg(long)]
        device: Option<String>,
    },
    /// Remove an export, until the next reload or the end of the server; connected clients stay
    #[command(after_help = "Examples:
  hoistway ctl export remove db
  hoistway ctl evict --export db   closes the connections that stayed")]
    Remove {
        /// Name of the export
        name: String,
    },
}

#[derive(Subcommand, Debug)]
enum Set {
    /// Set a group's weight
    #[command(after_help = "Examples:
  hoistway ctl set group tenants/db 800")]
    Group {
        /// Path of the group, such as tenants/db
        path: String,
        /// Weight, 1 to 10000
        weight: u64,
    },
    /// Set the weight of a group's own I/O against its child groups (for cfq)
    #[command(after_help = "Examples:
  hoistway ctl set leaf-weight tenants/db 200
  hoistway ctl set leaf-weight tenants/db default")]
    LeafWeight {
        /// Path of the group, such as tenants/db
        path: String,
        /// Weight, 1 to 10000, or `default` for the group's weight
        weight: String,
    },
    /// Set a group's priority level (for uchida and tarasov)
    #[command(after_help = "Examples:
  hoistway ctl set priority tenants/db 0
  hoistway ctl set priority tenants/db default")]
    Priority {
        /// Path of the group, such as tenants/db
        path: String,
        /// Level, 0 to 7, or `default` for the scheduler's default
        level: String,
    },
    /// Set a tunable of the current scheduler
    #[command(after_help = "Examples:
  hoistway ctl set tunable slice_idle 0
  hoistway ctl set tunable fifo_batch 1 --device disk0")]
    Tunable {
        /// Name of the tunable
        name: String,
        /// Value, in the tunable's unit
        value: String,
        /// Device of the server; required if it has several
        #[arg(long)]
        device: Option<String>,
    },
}

/// Sends the request, prints the answer, and returns the exit code: 0 done, 1 no server, no answer
/// or no place to print it, 2 refused.
pub fn run(arguments: CtlArguments) -> u8 {
    let control = socket_of(arguments.control.as_ref());
    let answered = match &arguments.command {
        Command::Status { interval, all: false } if !arguments.json => tables(&control, *interval),
        command => ask(&control, &command.to_json()),
    };
    let answer = match answered {
        Ok(answer) => answer,
        Err(error) => {
            let socket = control.display();
            let text = format!("hoistway: error: no answer from the control socket {socket}: {error}");
            error_line(printable_lines(&text));
            error_line(format_args!("  help: {}", help(&error)));
            return 1;
        }
    };
    let is_refused = answer.get("error").is_some();
    let mut printed = Ok(());
    if arguments.json {
        printed = print(&format!("{answer}\n"));
    } else if let Some(error) = answer.get("error") {
        // The field of the request that is to blame is for programs: --json shows it.
        let error = error.as_str().unwrap_or("refused");
        // Errors of a configuration file are printed in the server's own form.
        let text = format!("hoistway: error: {}", error.strip_prefix("hoistway: error: ").unwrap_or(error));
        error_line(printable_lines(&text));
    } else {
        printed = print(&answer_text(&arguments.command, &answer["ok"]));
    }
    if let Err(error) = printed {
        error_line(error);
        return 1;
    }
    if is_refused { 2 } else { 0 }
}

/// An answer for people.
fn answer_text(command: &Command, answer: &Value) -> String {
    if matches!(command, Command::Limit { file, .. } if !file.starts_with("blkio.")) {
        return limits_text(answer);
    }
    let mut text = String::new();
    show(answer, 0, &mut text);
    text
}

/// The limits of a group in words, with the lines that say the same.
fn limits_text(answer: &Value) -> String {
    let group = text(&answer["group"]);
    let devices = answer["devices"].as_u64().unwrap_or(0);
    let on = if devices == 1 { "1 device".to_owned() } else { format!("{devices} devices") };
    let lines = ["io.max", "io.low", "io.latency"].map(|file| Some((file, answer[file].as_str()?)));
    let said: Vec<String> =
        lines.into_iter().flatten().map(|(file, line)| format!("  {file}: {} ({line})\n", limit_words(line))).collect();
    match said.is_empty() {
        true => format!("group {group} has no limits, on {on}\n"),
        false => format!("limits of group {group}, on {on}:\n{}", said.concat()),
    }
}

/// A line of limits in words: `reads 50 MB/s, writes 1000 a second`.
fn limit_words(line: &str) -> String {
    let pairs = line.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
    let words: Vec<String> = pairs
        .filter(|(_, value)| *value != "max")
        .map(|(key, value)| {
            let megabytes = || value.parse::<f64>().map_or_else(|_| value.to_owned(), |rate| format!("{}", rate / 1e6));
            match key {
                "rbps" => format!("reads {} MB/s", megabytes()),
                "wbps" => format!("writes {} MB/s", megabytes()),
                "riops" => format!("reads {value} a second"),
                "wiops" => format!("writes {value} a second"),
                "target" => format!("latency {value} us"),
                _ => format!("{key} {value}"),
            }
        })
        .collect();
    if words.is_empty() { "no limit".to_owned() } else { words.join(", ") }
}

/// Asks for the status twice, `interval_ns` apart; returns the tables as an answer, or a refusal.
fn tables(control: &Path, interval_ns: Nanos) -> io::Result<Value> {
    let request = json!({"command": "status", "buckets": true});
    let before = ask(control, &request)?;
    if before.get("error").is_some() {
        return Ok(before);
    }
    let begun = Instant::now();
    thread::sleep(Duration::from_nanos(interval_ns));
    let now = ask(control, &request)?;
    if now.get("error").is_some() {
        return Ok(now);
    }
    let length_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(json!({"ok": status::text(&before["ok"], &now["ok"], length_ns, status::width())}))
}

fn help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "is the server running, with [control] or --control? name its socket by --control",
        io::ErrorKind::ConnectionRefused => "the server that made this socket is gone",
        io::ErrorKind::PermissionDenied => "the control socket is its owner's alone: use the server's user, or root",
        io::ErrorKind::TimedOut => {
            "is it a hoistway server? if it is, see what it waits for: its log, or a backing that does not answer"
        }
        _ => "look at the server's own messages",
    }
}

impl Command {
    fn to_json(&self) -> Value {
        match self {
            Command::Status { .. } => json!({"command": "status"}),
            Command::Reload => json!({"command": "reload"}),
            Command::Export(Export::Add { export, device }) => {
                with_device(json!({"command": "export", "add": export}), device.as_deref())
            }
            Command::Export(Export::Remove { name }) => json!({"command": "export", "remove": name}),
            Command::Resize { name } => json!({"command": "resize", "export": name}),
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
        plain => *out += &format!("{indent}{}\n", text(plain).trim_end()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_said_in_words() {
        let one = json!({"group": "db", "devices": 1, "io.max": "rbps=50000000 wbps=max riops=max wiops=1000"});
        let line = "rbps=50000000 wbps=max riops=max wiops=1000";
        let said =
            format!("limits of group db, on 1 device:\n  io.max: reads 50 MB/s, writes 1000 a second ({line})\n");
        assert_eq!(limits_text(&one), said);
        let target = json!({"group": "db", "devices": 2, "io.max": null, "io.latency": "target=500"});
        assert_eq!(
            limits_text(&target),
            "limits of group db, on 2 devices:\n  io.latency: latency 500 us (target=500)\n"
        );
        assert_eq!(limits_text(&json!({"group": "db", "devices": 2})), "group db has no limits, on 2 devices\n");
        assert_eq!(limit_words("rbps=max"), "no limit");
    }
}
