//! The status of the devices as JSON.

use std::collections::BTreeMap;

use engine::counters::{Counted, GroupCounters, Sums, TimeHistogram};
use engine::{DepthState, GroupShare, GroupStatus, Saturation, ShardStatus, VolumeStatus};
use serde_json::{Map, Value, json};

use super::{Devices, lock};
use crate::configuration::read_limits;

impl Devices {
    /// The saturation of each device. Stopped devices are left out.
    pub fn saturations(&self) -> Vec<(String, Saturation)> {
        let of = |shard: &super::Shard| Some((shard.handle.name().to_owned(), shard.handle.saturation().ok()?));
        self.shards.iter().filter_map(of).collect()
    }

    /// Devices, exports, groups and connections with their counters, and optionally the groups'
    /// histograms. Stopped devices are left out.
    pub fn status(&self, with_buckets: bool) -> Value {
        let (mut devices, mut exports, mut groups, mut connections) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for shard in &self.shards {
            let Ok(status) = shard.handle.status() else { continue };
            let volumes: BTreeMap<u32, &VolumeStatus> = status.volumes.iter().map(|it| (it.volume, it)).collect();
            let paths: BTreeMap<u32, &GroupStatus> = status.groups.iter().map(|it| (it.group, it)).collect();
            let served: Vec<String> = lock(&shard.names).exports.keys().cloned().collect();
            devices.push(device(&status));
            for volume in &status.volumes {
                exports.push(export(&status.name, volume, served.contains(&volume.facts.name)));
            }
            for group in status.groups.iter().filter(|group| !group.path.is_empty()) {
                let mut value = self::group(&status.name, group);
                let share = status.saturation.groups.iter().find(|share| share.group == group.group);
                value["share"] = share.map_or(Value::Null, self::share);
                if with_buckets {
                    value["latency_buckets"] = buckets(&group.counters);
                }
                groups.push(value);
            }
            for connection in &status.connections {
                let mut value = json!({
                    "client": connection.label,
                    "device": status.name,
                    "export": volumes.get(&connection.volume).map(|volume| &volume.facts.name),
                    "group": paths.get(&connection.group).map(|group| &group.path),
                    "in_flight": connection.requests_in_flight,
                });
                extend(&mut value, sums(&connection.sums));
                connections.push(value);
            }
        }
        json!({"devices": devices, "exports": exports, "groups": groups, "connections": connections})
    }
}

fn device(status: &ShardStatus) -> Value {
    let tunables: Map<String, Value> =
        status.tunables.iter().map(|tunable| (tunable.name.to_owned(), json!(tunable.value))).collect();
    let reasons: Map<String, Value> =
        status.reasons.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    let counters = &status.loop_counters;
    json!({
        "name": status.name,
        "scheduler": status.scheduler,
        "switching": status.is_switching,
        "tunables": tunables,
        "reasons": reasons,
        "limiters": status.limiters,
        "held_by_limiters": status.held_by_limiters,
        "queue_depth": status.device_depth,
        "queue_depth_most": status.most_device_depth,
        "saturation": saturation(&status.saturation),
        "requests_in_flight": status.requests_in_flight,
        "ios_in_flight": status.ios_in_flight,
        "memory_used_bytes": status.memory_bytes.0,
        "memory_bytes": status.memory_bytes.1,
        "memory_refusals": status.memory_refusals,
        "violations": status.violations,
        "diskstats": status.queue.diskstats(),
        "loop": {
            "turns": counters.turns,
            "events": counters.events,
            "inline_ios": counters.inline_ios,
            "started_ios": counters.started_ios,
            "merged_ios": counters.merged_ios,
            "syncs": counters.syncs,
            "sleeps": counters.sleeps,
            "asleep_ns": counters.asleep_ns,
            "polls_fruitful": counters.polls_fruitful,
            "polls_fruitless": counters.polls_fruitless,
            "full_submits": counters.full_submits,
            "completion_overflows": counters.completion_overflows,
            "pauses_for_credit": counters.pauses_for_credit,
            "pauses_for_memory": counters.pauses_for_memory,
            "longest_turn_ns": counters.longest_turn_ns,
        },
    })
}

/// The saturation of a device over at least the last second. Unknown values are null.
fn saturation(saturation: &Saturation) -> Value {
    json!({
        "text": saturation.text,
        "depth": word_of(saturation.depth_state),
        "saturated": saturation.is_saturated,
        "requests_needed": saturation.needed,
        "requests_exact": saturation.exact.map(tenths),
        "requests_in_flight": tenths(saturation.in_flight),
    })
}

const fn word_of(depth_state: DepthState) -> &'static str {
    match depth_state {
        DepthState::Idle => "idle",
        DepthState::Learning => "learning",
        DepthState::Saturated(_) => "learned",
        DepthState::Unsaturated => "full",
        DepthState::Fixed => "given",
    }
}

/// The service due to and received by a group that asks for more than it gets, over at least the
/// last second.
fn share(share: &GroupShare) -> Value {
    json!({
        "due_pct": tenths(100.0 * share.due),
        "got_pct": tenths(100.0 * share.got),
        "outstanding": tenths(share.outstanding),
        "why": share.why,
    })
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn export(device: &str, volume: &VolumeStatus, is_served: bool) -> Value {
    let facts = &volume.facts;
    let mut value = json!({
        "name": facts.name,
        "device": device,
        "backing": facts.description,
        "size_bytes": facts.size_bytes,
        "read_only": facts.is_read_only,
        "rotational": facts.is_rotational,
        "block_bytes": facts.block_bytes,
        "served": is_served,
        "damaged": volume.is_damaged,
    });
    if volume.has_unsafe_flush {
        // In capitals, because readers must not overlook it.
        value["UNSAFE_FLUSH"] = json!(true);
    }
    extend(&mut value, sums(&volume.sums));
    value
}

fn group(device: &str, group: &GroupStatus) -> Value {
    let mut value = json!({
        "path": group.path,
        "device": device,
        "weight": group.weight,
        "connections": group.connections,
        "memory_bytes": group.memory_bytes,
        "throttled_ns": group.throttled_ns,
    });
    if let Some(leaf_weight) = group.leaf_weight {
        value["leaf_weight"] = json!(leaf_weight);
    }
    if let Some(priority) = group.priority {
        value["priority"] = json!(priority);
    }
    for (file, line) in read_limits(&group.limits) {
        value[file] = json!(line);
    }
    if let Some(blkio) = group.blkio {
        value["blkio"] = json!(blkio);
    }
    extend(&mut value, sums(&group.counters.sums));
    value["latency_ns"] = latencies(&group.counters);
    value
}

/// The kinds of request that occurred, each with its sums.
fn sums(sums: &Sums) -> Map<String, Value> {
    let used = Counted::ALL.into_iter().filter(|kind| sums.of(*kind).requests > 0);
    used.map(|kind| {
        let tally = sums.of(kind);
        let value = json!({
            "requests": tally.requests,
            "bytes": tally.bytes,
            "errors": tally.errors,
            "queue_ns": tally.queue_ns,
            "service_ns": tally.service_ns,
            "total_ns": tally.total_ns,
        });
        (kind.name().to_owned(), value)
    })
    .collect()
}

/// Median, 99th and 99.9th percentile of queue, service and total time, for the kinds that
/// occurred.
fn latencies(counters: &GroupCounters) -> Value {
    let quantiles = |times: &TimeHistogram| json!({"p50": times.quantile_ns(0.5), "p99": times.quantile_ns(0.99), "p99.9": times.quantile_ns(0.999)});
    let used = Counted::ALL.into_iter().zip(&counters.times).filter(|(_, times)| times.total.count() > 0);
    let kinds: Map<String, Value> = used
        .map(|(kind, times)| {
            let value = json!({
                "queue": quantiles(&times.queue),
                "service": quantiles(&times.service),
                "total": quantiles(&times.total),
            });
            (kind.name().to_owned(), value)
        })
        .collect();
    json!(kinds)
}

/// Total time per kind: `[[lower bound in ns, count], ...]`, counted since the start.
fn buckets(counters: &GroupCounters) -> Value {
    let used = Counted::ALL.into_iter().zip(&counters.times).filter(|(_, times)| times.total.count() > 0);
    let kinds: Map<String, Value> =
        used.map(|(kind, times)| (kind.name().to_owned(), json!(times.total.buckets().collect::<Vec<_>>()))).collect();
    json!(kinds)
}

fn extend(value: &mut Value, more: Map<String, Value>) {
    if let Value::Object(fields) = value {
        fields.extend(more);
    }
}
