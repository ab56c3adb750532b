//! An interval as one line of JSON.

use serde_json::{Value, json};

use super::sample::{DeviceSample, Interval};
use super::table::{self, Line, Sort};

/// The interval; values that are not counted are null.
pub fn line(interval: &Interval) -> String {
    let devices: Vec<Value> = interval.devices.iter().map(|it| device(it, interval)).collect();
    format!("{}\n", json!({ "interval_ns": interval.length_ns, "devices": devices }))
}

fn device(device: &DeviceSample, interval: &Interval) -> Value {
    let groups: Vec<Value> = table::lines(device, interval.seconds(), Sort::Name).iter().map(group).collect();
    let busy = device.busy_ns.map(|busy_ns| rounded(100.0 * busy_ns as f64 / interval.length_ns as f64));
    json!({
        "device": device.name,
        "scheduler": device.scheduler,
        "depth": device.depth,
        "in_flight": device.in_flight,
        "busy_pct": busy,
        "saturation": device.saturation,
        "groups": groups,
    })
}

fn group(line: &Line) -> Value {
    json!({
        "group": line.group,
        "weight": line.weight,
        "backlogged": line.share.is_backlogged,
        "due_pct": rounded(line.share.due_percent),
        "got_pct": rounded(line.share.got_percent),
        "diff_pct": line.difference().map(rounded),
        "read_bytes_per_s": line.bytes_per_s[0].round(),
        "write_bytes_per_s": line.bytes_per_s[1].round(),
        "read_ios_per_s": rounded(line.ios_per_s[0]),
        "write_ios_per_s": rounded(line.ios_per_s[1]),
        "in_flight": line.in_flight.map(rounded),
        "queued": line.queued.map(rounded),
        "latency_ns_p50": line.latency_ns[0],
        "latency_ns_p99": line.latency_ns[1],
        "throttled_pct": line.throttled_percent.map(rounded),
        "limit": line.limit,
        "why": line.why,
    })
}

/// Rounds to thousandths.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
