//! Reads the counters of a running server, through its control socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hoistway_export::control::socket::ask;
use serde_json::{Value, json};

use super::sample::{DeviceSample, Flow, GroupSample, Sample};
use crate::exit::Error;

/// A server.
#[derive(Debug)]
pub struct Server {
    socket: PathBuf,
    begun: Instant,
}

impl Server {
    /// The server behind a control socket.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), begun: Instant::now() }
    }

    /// Reads all counters.
    pub fn sample(&self) -> Result<Sample, Error> {
        let asked = ask(&self.socket, &json!({"command": "status", "buckets": true})).map_err(|error| {
            Error::failed(
                format!("no server answers at {}: {error}", self.socket.display()),
                "hoistway serve --control PATH starts one; or name a block device, a result directory, or -- and a test",
            )
        })?;
        let at_ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if let Some(error) = asked["error"].as_str() {
            return Err(Error::failed(format!("the server refuses: {error}"), "it may have another version"));
        }
        Ok(Sample { at_ns, devices: devices(&asked["ok"]) })
    }
}

/// The devices of an answer to `status`.
pub fn devices(status: &Value) -> Vec<DeviceSample> {
    let all = |name: &str| status[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |value: &Value, device: &str| value["device"] == device;
    all("devices")
        .iter()
        .map(|device| {
            let name = text(&device["name"]);
            let outstanding = |path: &str| {
                let its = all("connections").iter().filter(|it| of(it, &name) && it["group"] == path);
                its.map(|it| number(&it["in_flight"])).sum()
            };
            let groups = all("groups").iter().filter(|group| of(group, &name));
            DeviceSample {
                scheduler: text(&device["scheduler"]),
                depth: number(&device["queue_depth"]),
                in_flight: number(&device["ios_in_flight"]),
                diskstats: diskstats(device),
                notes: notes(device),
                saturation: device["saturation"].clone(),
                nodes: nodes(all("exports").iter().filter(|export| of(export, &name))),
                groups: groups.map(|group| self::group(group, outstanding(&text(&group["path"])))).collect(),
                name,
                ..DeviceSample::default()
            }
        })
        .collect()
}

/// The exports that are local block devices too.
fn nodes<'a>(exports: impl Iterator<Item = &'a Value>) -> BTreeMap<String, String> {
    exports.filter_map(|export| Some((text(&export["name"]), export["node"].as_str()?.to_owned()))).collect()
}

/// Tunables, and the reasons of choices.
fn notes(device: &Value) -> BTreeMap<String, String> {
    let fields = |name: &str| device[name].as_object().into_iter().flatten();
    let tunables = fields("tunables").map(|(name, value)| (name.clone(), value.to_string()));
    let reasons = fields("reasons").map(|(name, count)| (format!("chosen: {name}"), count.to_string()));
    tunables.chain(reasons).collect()
}

fn group(group: &Value, outstanding: u64) -> GroupSample {
    // Zeroing is a write that moves no data.
    let mut writes = flow(group, "write");
    writes.add(&Flow { bytes: 0, ..flow(group, "write_zeroes") });
    let limits = ["io.max", "io.low", "io.latency"].into_iter().filter_map(|file| group[file].as_str());
    GroupSample {
        path: text(&group["path"]),
        weight: u32::try_from(number(&group["weight"])).unwrap_or(u32::MAX),
        flows: [flow(group, "read"), writes],
        discards: flow(group, "discard"),
        outstanding: Some(outstanding),
        waiting: group["waiting"].as_f64(),
        throttled_ns: group["throttled_ns"].as_u64(),
        limit: limits.collect::<Vec<_>>().join(" "),
        isolation_percent: group["share"]["isolation_pct"].as_f64(),
        due_percent: group["share"]["due_pct"].as_f64(),
        why: group["share"]["why"].as_str().map(str::to_owned),
    }
}

fn flow(group: &Value, kind: &str) -> Flow {
    let steps = group["latency_buckets"][kind].as_array().into_iter().flatten();
    Flow {
        ios: number(&group[kind]["requests"]),
        bytes: number(&group[kind]["bytes"]),
        service_ns: Some(number(&group[kind]["service_ns"])),
        latency: steps.map(|step| (number(&step[0]), number(&step[1]))).collect(),
    }
}

fn diskstats(device: &Value) -> Option<[u64; 17]> {
    let fields: Vec<u64> = device["diskstats"].as_array()?.iter().map(number).collect();
    fields.try_into().ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_of_a_device_are_those_of_its_exports() {
        let status = json!({
            "devices": [{"name": "nvme0", "saturation": {"text": "idle"}}, {"name": "nvme1"}],
            "exports": [
                {"name": "db", "device": "nvme0", "node": "/dev/ublkb0"},
                {"name": "ci", "device": "nvme0"},
                {"name": "vm", "device": "nvme1", "node": "/dev/ublkb1"},
                {"name": "web", "device": "nvme0", "node": "/dev/ublkb2"},
            ],
        });
        let devices = devices(&status);
        assert_eq!(devices[0].sentences(), ["nvme0: idle", "nvme0: db is /dev/ublkb0, web is /dev/ublkb2"]);
        assert_eq!(devices[1].sentences(), ["nvme1: vm is /dev/ublkb1"]);
    }
}
