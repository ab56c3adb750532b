//! An event as a line.

use std::fmt::{self, Write};

use hoistway_experiment::{printable, printable_lines};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// The form of lines.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `hoistway: note: ...`.
    Human,
    /// One JSON object.
    Json,
    /// `<6>...`.
    Journald,
}

/// What a line says.
#[derive(Debug)]
pub(super) struct Record {
    pub level: Level,
    pub target: &'static str,
    pub name: &'static str,
    pub message: String,
    pub fields: Map<String, Value>,
}

impl Record {
    pub fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        Self {
            level: *metadata.level(),
            target: metadata.target(),
            name: metadata.name(),
            message: fields.message,
            fields: fields.others,
        }
    }

    /// The line, with its end. A message may have several lines.
    pub fn line(&self, style: Style) -> String {
        let word = match self.level {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "note",
            _ => "debug",
        };
        match style {
            Style::Human => format!("hoistway: {word}: {}\n", self.text()),
            Style::Json => {
                let mut object = json!({
                    "time": now(),
                    "level": level(self.level),
                    "target": self.target,
                    "event": self.name,
                    "message": self.message,
                });
                if let Value::Object(object) = &mut object {
                    object.extend(self.fields.clone());
                }
                // What serde_json leaves as it is: DEL, C1 and characters for the direction of writing.
                format!("{}\n", printable(&object.to_string()))
            }
            Style::Journald => {
                // The priorities of syslog. Each line is an entry of the journal with its own.
                let priority = match self.level {
                    Level::ERROR => 3,
                    Level::WARN => 4,
                    Level::INFO => 6,
                    _ => 7,
                };
                self.text().lines().fold(String::new(), |mut text, line| {
                    let _ = writeln!(text, "<{priority}>{line}");
                    text
                })
            }
        }
    }
}

impl Record {
    /// The message as it may be shown. Its further lines (a quotation, a remedy) are indented, so a line that is not
    /// comes from a name in the message, which must not look like an event.
    fn text(&self) -> String {
        let mut parts = self.message.split('\n');
        let mut text = printable_lines(parts.next().unwrap_or_default()).into_owned();
        for part in parts {
            text += if part.starts_with(' ') { "\n" } else { "\\u000a" };
            text += &printable_lines(part);
        }
        text
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

/// The time in UTC, with microseconds: `2026-11-26T03:34:38.123456Z`.
fn now() -> String {
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        self.others.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.insert(field, json!(format!("{value:?}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(message: &str) -> Record {
        let fields = [("errno".to_owned(), json!(5))].into_iter().collect();
        Record { level: Level::ERROR, target: "backing", name: "backing_error", message: message.to_owned(), fields }
    }

    #[test]
    fn a_name_in_a_message_neither_acts_on_a_terminal_nor_begins_a_line() {
        let mut record = record("client x\u{1b}[2J\u{202e}\nhoistway: error: forged\n  help: real");
        let shown = "client x\\u001b[2J\\u202e\\u000ahoistway: error: forged";
        assert_eq!(record.line(Style::Human), format!("hoistway: error: {shown}\n  help: real\n"));
        assert_eq!(record.line(Style::Journald), format!("<3>{shown}\n<3>  help: real\n"));
        record.fields.insert("client".to_owned(), json!("x\u{9b}2J\u{7f}"));
        let line = record.line(Style::Json);
        assert!(!line.trim_end().contains(|it: char| it.is_control() || it == '\u{202e}'), "{line:?}");
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["client"], &object["message"]), (&json!("x\u{9b}2J\u{7f}"), &json!(record.message)));
    }

    #[test]
    fn a_record_has_three_forms() {
        assert_eq!(record("it failed").line(Style::Human), "hoistway: error: it failed\n");
        assert_eq!(record("it failed\n  help: x").line(Style::Journald), "<3>it failed\n<3>  help: x\n");
        let line = record("it \"failed\"\n").line(Style::Json);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["level"], &object["errno"]), (&json!("error"), &json!(5)));
        assert_eq!((&object["target"], &object["event"]), (&json!("backing"), &json!("backing_error")));
        let time = object["time"].as_str().unwrap();
        assert!(time.len() == 27 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
}
