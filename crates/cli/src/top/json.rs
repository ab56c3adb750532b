//! An interval as one line of JSON.

use std::collections::BTreeMap;

use hoistway_export::server::devices::report::SaturationReport;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::sample::{DeviceSample, Interval};
use super::table::{self, Line, Sort};

/// One interval. Values that are not counted are null.
#[derive(Serialize, JsonSchema)]
pub struct IntervalLine {
    /// Its length in ns.
    interval_ns: u64,
    /// The devices.
    devices: Vec<DeviceLine>,
}

/// A device in an interval.
#[derive(Serialize, JsonSchema)]
struct DeviceLine {
    /// Its name.
    device: String,
    /// The scheduler, and notable settings.
    scheduler: String,
    /// Its queue depth; 0 if it is not known.
    depth: u64,
    /// Requests in flight now.
    in_flight: u64,
    /// Time that it was busy, in per cent.
    busy_pct: Option<f64>,
    /// Its saturation, as a server of hoistway reports it.
    #[schemars(with = "Option<SaturationReport>")]
    saturation: Value,
    /// The nodes of a server's exports that are local block devices too, by export.
    nodes: BTreeMap<String, String>,
    /// Its groups.
    groups: Vec<GroupLine>,
}

/// A group on a device in an interval.
#[derive(Serialize, JsonSchema)]
struct GroupLine {
    /// Its path.
    group: String,
    /// Its weight.
    weight: u32,
    /// Whether it asked for more than it got.
    backlogged: bool,
    /// The share that its weight implies, in per cent.
    due_pct: f64,
    /// The share that it got, in per cent.
    got_pct: f64,
    /// Percentage points above the due share; null if it is not backlogged.
    diff_pct: Option<f64>,
    /// How much of the due share it got, in per cent, at most 100; null if it is not backlogged.
    isolation_pct: Option<f64>,
    /// Bytes read per second.
    read_bytes_per_s: f64,
    /// Bytes written per second.
    write_bytes_per_s: f64,
    /// Reads per second.
    read_ios_per_s: f64,
    /// Writes per second.
    write_ios_per_s: f64,
    /// Mean number of requests in flight.
    in_flight: Option<f64>,
    /// Mean number of queued requests.
    queued: Option<f64>,
    /// Median latency in ns.
    latency_ns_p50: Option<u64>,
    /// 99th percentile of latency in ns.
    latency_ns_p99: Option<u64>,
    /// Time in which a limit kept requests waiting, in per cent.
    throttled_pct: Option<f64>,
    /// Its limits; empty without.
    limit: String,
    /// Why its share was not kept, if known.
    why: Option<String>,
}

/// The interval as a line of text.
pub fn line(interval: &Interval) -> String {
    let devices = interval.devices.iter().map(|it| device(it, interval)).collect();
    format!("{}\n", json!(IntervalLine { interval_ns: interval.length_ns, devices }))
}

fn device(device: &DeviceSample, interval: &Interval) -> DeviceLine {
    let busy = device.busy_ns.map(|busy_ns| rounded(100.0 * busy_ns as f64 / interval.length_ns as f64));
    DeviceLine {
        device: device.name.clone(),
        scheduler: device.scheduler.clone(),
        depth: device.depth,
        in_flight: device.in_flight,
        busy_pct: busy,
        saturation: device.saturation.clone(),
        nodes: device.nodes.clone(),
        groups: table::lines(device, interval.seconds(), Sort::Name).iter().map(group).collect(),
    }
}

fn group(line: &Line) -> GroupLine {
    GroupLine {
        group: line.group.clone(),
        weight: line.weight,
        backlogged: line.share.is_backlogged,
        due_pct: rounded(line.share.due_percent),
        got_pct: rounded(line.share.got_percent),
        diff_pct: line.difference().map(rounded),
        isolation_pct: line.share.isolation_percent().map(rounded),
        read_bytes_per_s: line.bytes_per_s[0].round(),
        write_bytes_per_s: line.bytes_per_s[1].round(),
        read_ios_per_s: rounded(line.ios_per_s[0]),
        write_ios_per_s: rounded(line.ios_per_s[1]),
        in_flight: line.in_flight.map(rounded),
        queued: line.queued.map(rounded),
        latency_ns_p50: line.latency_ns[0],
        latency_ns_p99: line.latency_ns[1],
        throttled_pct: line.throttled_percent.map(rounded),
        limit: line.limit.clone(),
        why: line.why.clone(),
    }
}

/// Rounds to thousandths.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
