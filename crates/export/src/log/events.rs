//! Events that several places have, and those with many fields. Their names are in
//! docs/reference/logs.md, which people's filters rely on.

use std::io;
use std::time::{Duration, Instant};

use hoistway_engine::counters::{Counted, Sums};
use hoistway_engine::{ConnectionEnd, EndReason};
use serde_json::Value;
use tracing::{debug, error, info, warn};

use crate::configuration::read_limits;
use crate::control::{Refusal, Request, Share};
use crate::nbd::handshake::Closed;
use crate::server::reload::Change;

/// The server is ready.
pub fn started(version: &str, devices: usize, exports: usize) {
    info!(
        name: "start",
        target: "server",
        version,
        devices,
        exports,
        "hoistway {version} serves {} on {}",
        counted(exports as u64, "export"),
        counted(devices as u64, "device")
    );
}

/// `1 export`, `2 exports`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The server has ended.
pub fn ended(version: &str, exit_status: u8, duration: Duration) {
    let duration_s = duration.as_secs_f64();
    info!(
        name: "end",
        target: "server",
        version,
        exit_status,
        duration_s,
        "hoistway {version} ends with status {exit_status} after {duration_s:.1} s"
    );
}

/// A problem of the configuration or of the start, as it is printed.
pub fn problem(line: &str) {
    let text = without_prefix(line);
    error!(name: "problem", target: "server", "{text}");
}

/// A warning about the configuration, as it is printed.
pub fn configuration_warning(line: &str) {
    let text = without_prefix(line);
    warn!(name: "configuration_warning", target: "server", "{text}");
}

/// Without `hoistway: error: `, which the log's form adds if it has it.
fn without_prefix(line: &str) -> &str {
    let rest = line.strip_prefix("hoistway: ");
    rest.and_then(|rest| rest.split_once(": ")).map_or(line, |(_, text)| text)
}

/// The configuration was read again and is in force.
pub fn reloaded(changes: &[Change]) {
    let count = changes.len();
    let texts: Vec<String> = changes.iter().map(change).collect();
    let all = if texts.is_empty() { "no change for connected clients".to_owned() } else { texts.join(", ") };
    info!(name: "reload", target: "server", changes = count, what = all, "the configuration was read again: {all}");
}

fn change(change: &Change) -> String {
    let or_default = |value: Option<String>| value.unwrap_or_else(|| "default".to_owned());
    match change {
        Change::Weight { group, weight } => format!("weight of {group} {weight}"),
        Change::LeafWeight { group, weight } => {
            format!("leaf_weight of {group} {}", or_default(weight.map(|weight| weight.to_string())))
        }
        Change::Priority { group, priority } => {
            format!("priority of {group} {}", or_default(priority.map(|level| level.get().to_string())))
        }
        Change::Limits { group, limits } => {
            let lines = read_limits(limits).into_iter().filter_map(|(file, line)| Some(format!("{file} {}", line?)));
            let lines: Vec<String> = lines.collect();
            format!("limits of {group} {}", if lines.is_empty() { "none".to_owned() } else { lines.join(" ") })
        }
        Change::Scheduler { device, scheduler } => format!("scheduler of {device} {scheduler}"),
        Change::Added { export, .. } => format!("export {} added", export.name),
        Change::Removed { export, .. } => format!("export {export} removed"),
    }
}

/// A configuration was refused; its problems are events of their own.
pub fn reload_refused(problems: usize) {
    warn!(name: "reload_refused", target: "server", problems, "the configuration stays as it was");
}

/// A socket waits before it accepts again.
pub fn accept_paused(listener: &str, error: &io::Error) {
    warn!(
        name: "accept_paused",
        target: "listener",
        listener,
        "those who connect to {listener} wait, because no connection can be accepted: {error}"
    );
}

/// A request of an operator was answered.
pub fn operated(request: &Request, answer: &Result<Value, Refusal>) {
    let done = match answer {
        Ok(done) => done,
        Err(Refusal { error, field }) => {
            debug!(name: "request_refused", target: "control", field, error, "a request of ctl was refused: {error}");
            return;
        }
    };
    match request {
        // They have no effect, or events of their own.
        Request::Status { .. } | Request::Reload | Request::Drain => {}
        Request::Scheduler { .. } => {
            let (device, scheduler) = (text(&done["device"]), text(&done["scheduler"]));
            info!(
                name: "scheduler",
                target: "control",
                device,
                scheduler,
                "device '{device}': ctl switched to the scheduler {scheduler}"
            );
        }
        Request::Tunable { name, value, .. } => {
            let device = text(&done["device"]);
            info!(
                name: "tunable",
                target: "control",
                device,
                tunable = name,
                value,
                "device '{device}': ctl set {name} to {value}"
            );
        }
        Request::Share { group, share } => {
            let or_default = |value: Option<u64>| value.map_or_else(|| "default".to_owned(), |value| value.to_string());
            let (property, value) = match share {
                Share::Weight(weight) => ("weight", weight.to_string()),
                Share::LeafWeight(weight) => ("leaf_weight", or_default(*weight)),
                Share::Priority(level) => ("priority", or_default(level.map(|level| level.get().into()))),
            };
            info!(name: "share", target: "control", group, property, value, "group {group}: ctl set {property} to {value}");
        }
        Request::Limit { group, file, line } => {
            info!(name: "limit", target: "control", group, file, line, "group {group}: ctl wrote \"{line}\" to {file}");
        }
        Request::EvictClient(client) => {
            let closed = done["closed"].as_u64().unwrap_or(0);
            let connections = counted(closed, "connection");
            info!(name: "evict", target: "control", client, closed, "ctl closed {connections} of client {client}");
        }
        Request::EvictExport(export) => {
            let closed = done["closed"].as_u64().unwrap_or(0);
            let connections = counted(closed, "connection");
            info!(name: "evict", target: "control", export, closed, "ctl closed {connections} of export {export}");
        }
        Request::AddExport { .. } | Request::RemoveExport(_) | Request::Resize(_) => export_changed(request, done),
    }
}

/// An operator has changed an export; `done` is the answer.
fn export_changed(request: &Request, done: &Value) {
    match request {
        Request::AddExport { export, .. } => {
            let (name, device) = (text(&done["export"]), text(&done["device"]));
            info!(
                name: "export_added",
                target: "control",
                export = name,
                device,
                options = export,
                "device '{device}': ctl added the export {export}"
            );
        }
        Request::RemoveExport(export) => {
            info!(name: "export_removed", target: "control", export, "ctl removed the export {export}");
        }
        Request::Resize(export) => {
            let size_bytes = done["size_bytes"].as_u64();
            info!(name: "export_resized", target: "control", export, size_bytes, "ctl took over the size of {export}");
        }
        _ => {}
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The shutdown begins.
pub fn drain_begun(timeout_s: u64) {
    info!(
        name: "drain_begin",
        target: "server",
        timeout_s,
        "shutting down: no new clients, requests in flight have {timeout_s} s"
    );
}

/// The shutdown has ended.
pub fn drain_ended(abandoned_requests: usize, failed_syncs: u32, duration: Duration) {
    let duration_s = duration.as_secs_f64();
    info!(
        name: "drain_end",
        target: "server",
        abandoned_requests,
        failed_syncs,
        duration_s,
        "shut down in {duration_s:.1} s: {abandoned_requests} requests abandoned, {failed_syncs} volumes not synced"
    );
}

/// A client from its handshake to its end.
#[derive(Clone, Debug)]
pub struct ClientLife {
    /// Its name.
    pub client: String,
    /// Its export.
    pub export: String,
    /// The group charged for its I/O.
    pub group: String,
    /// The device.
    pub device: String,
    /// The listener that accepted it.
    pub listener: String,
    /// The identity that matched; none if the export's own group counts.
    pub identity: Option<String>,
    /// When it was accepted.
    pub begun: Instant,
}

impl ClientLife {
    /// Another group than the client's cgroup is charged, because there is no room for that one.
    pub fn charged_to(&mut self, group: &str) {
        let Self { client, group: cgroup, device, .. } = self;
        warn!(
            name: "cgroup_shared",
            target: "client",
            client,
            cgroup,
            group,
            device,
            "client {client} is charged to group {group}: device '{device}' has no room for another group of its user's \
             cgroups, as {cgroup}; more memory makes room"
        );
        group.clone_into(&mut self.group);
    }

    /// It begins.
    pub fn connected(&self) {
        let Self { client, export, group, device, listener, identity, .. } = self;
        let by = identity.as_ref().map_or(String::new(), |identity| format!(", by its identity {identity}"));
        info!(
            name: "connect",
            target: "client",
            client,
            export,
            group,
            device,
            listener,
            identity,
            "client {client} opened export {export} in group {group}{by} ({listener})"
        );
    }

    /// It could not be served.
    pub fn refused(&self, error: &str) {
        let Self { client, export, group, device, listener, .. } = self;
        warn!(
            name: "client_refused",
            target: "client",
            client,
            export,
            group,
            device,
            listener,
            error,
            "client {client} was refused: {error}"
        );
    }

    /// It ends.
    pub fn ended(&self, end: &ConnectionEnd) {
        let Self { client, export, group, device, listener, begun, .. } = self;
        let duration_s = begun.elapsed().as_secs_f64();
        let ConnectionEnd { reason, sums } = end;
        let Totals { requests, errors, read_bytes, written_bytes, zeroed_bytes, trimmed_bytes } = Totals::of(sums);
        let (word, why) = (reason.word(), reason.text());
        let sentence = format!(
            "client {client} left export {export} after {duration_s:.1} s, because {why}: {}, {} read, {} written{}{}, {}",
            counted(requests, "request"),
            counted(read_bytes, "byte"),
            counted(written_bytes, "byte"),
            if_any(zeroed_bytes, "zeroed"),
            if_any(trimmed_bytes, "trimmed"),
            counted(errors, "error")
        );
        let is_fault = matches!(reason, EndReason::Invalid | EndReason::Stalled);
        macro_rules! event {
            ($level:ident) => {
                $level!(
                    name: "disconnect",
                    target: "client",
                    client,
                    export,
                    group,
                    device,
                    listener,
                    reason = word,
                    duration_s,
                    requests,
                    errors,
                    read_bytes,
                    written_bytes,
                    zeroed_bytes,
                    trimmed_bytes,
                    "{sentence}"
                )
            };
        }
        if is_fault { event!(warn) } else { event!(info) }
    }
}

/// `, 512 bytes zeroed`; nothing for none, as of most clients.
fn if_any(bytes: u64, what: &str) -> String {
    if bytes == 0 { String::new() } else { format!(", {} {what}", counted(bytes, "byte")) }
}

/// What a client did, in numbers.
struct Totals {
    requests: u64,
    errors: u64,
    read_bytes: u64,
    written_bytes: u64,
    /// Asked to be zeroed, and trimmed: of these little or nothing may have been written.
    zeroed_bytes: u64,
    trimmed_bytes: u64,
}

impl Totals {
    fn of(sums: &Sums) -> Self {
        let all = || Counted::ALL.map(|kind| sums.of(kind));
        Self {
            requests: all().iter().map(|tally| tally.requests).sum(),
            errors: all().iter().map(|tally| tally.errors).sum(),
            read_bytes: sums.of(Counted::Read).bytes,
            written_bytes: sums.of(Counted::Write).bytes,
            zeroed_bytes: sums.of(Counted::WriteZeroes).bytes,
            trimmed_bytes: sums.of(Counted::Discard).bytes,
        }
    }
}

/// A client did not get as far as opening an export.
pub fn handshake_failed(listener: &str, client: &str, reason: &HandshakeEnd) {
    let (word, why) = reason.words();
    match reason {
        HandshakeEnd::Closed(Closed::Aborted) | HandshakeEnd::Gone => debug!(
            name: "handshake_ended",
            target: "listener",
            listener,
            client,
            reason = word,
            "client {client} opened no export ({listener}): {why}"
        ),
        _ => warn!(
            name: "handshake_failed",
            target: "listener",
            listener,
            client,
            reason = word,
            "the handshake of client {client} failed ({listener}): {why}"
        ),
    }
}

/// Why a handshake ended without a connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum HandshakeEnd {
    /// The protocol ended it.
    Closed(Closed),
    /// It took too long.
    Expired,
    /// It gave way to another handshake.
    Displaced,
    /// The client closed its socket.
    Gone,
}

impl HandshakeEnd {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            HandshakeEnd::Closed(Closed::Aborted) => ("aborted", "it ended the handshake itself"),
            HandshakeEnd::Closed(Closed::NoSuchExport) => {
                ("no_such_export", "there is no such export for it, or it cannot be opened this way")
            }
            HandshakeEnd::Closed(_) => ("invalid", "it sent invalid data"),
            HandshakeEnd::Expired => ("expired", "it took too long"),
            HandshakeEnd::Displaced => ("displaced", "too many handshakes of its peer were open"),
            HandshakeEnd::Gone => ("gone", "it closed the connection"),
        }
    }
}

/// TLS with a client failed.
pub fn tls_failed(listener: &str, client: &str, error: &io::Error) {
    warn!(name: "tls_failed", target: "listener", listener, client, %error, "TLS of client {client} at {listener} failed: {error}");
}

/// A client was refused, because the connections that it may have are in use.
pub fn admission_refused(listener: &str, client: &str, export: &str, reason: &str) {
    let wanted = if export.is_empty() { String::new() } else { format!(" for export {export}") };
    warn!(
        name: "admission_refused",
        target: "listener",
        listener,
        client,
        export,
        reason,
        "client {client} was refused{wanted} ({listener}): {reason}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_line_loses_its_prefix() {
        assert_eq!(without_prefix("hoistway: error: serve.toml:1:2: x\n  help: y"), "serve.toml:1:2: x\n  help: y");
        assert_eq!(without_prefix("hoistway: warning: 3 more"), "3 more");
        assert_eq!(without_prefix("other: text"), "other: text");
    }
}
