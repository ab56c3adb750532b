//! The status of the devices.

use std::collections::BTreeMap;

use hoistway_engine::counters::{Counted, GroupCounters, Sums, TimeHistogram, Times};
use hoistway_engine::{
    Damage, DepthState, GroupShare, GroupStatus, Saturation, ShardHandle, ShardStatus, VolumeStatus,
};

use super::report::{
    BlockDeviceReport, ConnectionReport, DeviceReport, DevicesReport, ExportReport, GroupReport, KindsReport,
    LatencyReport, LoopReport, QuantilesReport, SaturationReport, ShareReport, TallyReport, UnansweredReport,
};
use super::{Devices, lock};
use crate::configuration::read_limits;

impl Devices {
    /// The saturation of each device. Stopped devices are left out.
    pub fn saturations(&self) -> Vec<(String, Saturation)> {
        let of = |handle: &ShardHandle| Some((handle.name().to_owned(), handle.saturation().ok()?));
        self.each(of).into_iter().flatten().collect()
    }

    /// The state of each device, with histograms. Devices that have stopped or do not answer are left out.
    pub fn shard_statuses(&self) -> Vec<ShardStatus> {
        self.each(|handle| handle.status().ok()).into_iter().flatten().collect()
    }

    /// Devices, exports, groups and connections with their counters, and optionally the groups'
    /// histograms. Devices that have stopped or do not answer are left out.
    pub fn status(&self, with_buckets: bool) -> DevicesReport {
        let mut report = DevicesReport::default();
        let statuses = self.each(|handle| handle.status().ok());
        report.not_answering = self.silent();
        for (shard, status) in self.shards.iter().zip(statuses) {
            let Some(status) = status else { continue };
            let volumes: BTreeMap<u32, &VolumeStatus> = status.volumes.iter().map(|it| (it.volume, it)).collect();
            let paths: BTreeMap<u32, &GroupStatus> = status.groups.iter().map(|it| (it.group, it)).collect();
            let (served, disks) = {
                let names = lock(&shard.names);
                let served: Vec<String> = names.exports.keys().cloned().collect();
                (served, names.block_devices())
            };
            report.devices.push(device(&status));
            for volume in &status.volumes {
                report.exports.push(export(&status.name, volume, &served, &disks));
            }
            for of in status.groups.iter().filter(|group| !group.path.is_empty()) {
                let share = status.saturation.groups.iter().find(|share| share.group == of.group);
                report.groups.push(group(&status.name, of, share, with_buckets));
            }
            report.connections.extend(status.connections.iter().map(|connection| ConnectionReport {
                client: connection.label.clone(),
                device: status.name.clone(),
                export: volumes.get(&connection.volume).map(|volume| volume.facts.name.clone()),
                group: paths.get(&connection.group).map(|group| group.path.clone()),
                in_flight: connection.requests_in_flight,
                sums: sums(&connection.sums),
            }));
        }
        report
    }
}

fn device(status: &ShardStatus) -> DeviceReport {
    let counters = &status.loop_counters;
    DeviceReport {
        name: status.name.clone(),
        scheduler: status.scheduling.scheduler.to_owned(),
        switching: status.scheduling.is_switching,
        tunables: status.scheduling.tunables.iter().map(|tunable| (tunable.name.to_owned(), tunable.value)).collect(),
        reasons: status.scheduling.reasons.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        limiters: status.scheduling.limiters.clone(),
        held_by_limiters: status.scheduling.held_by_limiters,
        queue_depth: status.device_depth,
        queue_depth_most: status.most_device_depth,
        saturation: saturation(&status.saturation),
        requests_in_flight: status.requests_in_flight,
        ios_in_flight: status.ios_in_flight,
        memory_used_bytes: status.memory_bytes.0,
        memory_bytes: status.memory_bytes.1,
        memory_refusals: status.memory_refusals,
        violations: status.violations,
        diskstats: status.queue.diskstats(),
        thread: LoopReport {
            turns: counters.turns,
            events: counters.events,
            inline_ios: counters.inline_ios,
            started_ios: counters.started_ios,
            merged_ios: counters.merged_ios,
            syncs: counters.syncs,
            sleeps: counters.sleeps,
            asleep_ns: counters.asleep_ns,
            polls_fruitful: counters.polls_fruitful,
            polls_fruitless: counters.polls_fruitless,
            full_submits: counters.full_submits,
            completion_overflows: counters.completion_overflows,
            pauses_for_credit: counters.pauses_for_credit,
            pauses_for_memory: counters.pauses_for_memory,
            longest_turn_ns: counters.longest_turn_ns,
        },
    }
}

fn saturation(saturation: &Saturation) -> SaturationReport {
    SaturationReport {
        text: saturation.text.clone(),
        depth: word_of(saturation.depth_state).to_owned(),
        saturated: saturation.is_saturated,
        requests_needed: saturation.needed,
        requests_exact: saturation.exact.map(tenths),
        requests_in_flight: tenths(saturation.in_flight),
        isolation_pct: saturation.isolation().map(|part| thousandths(100.0 * part)),
    }
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

fn share(share: &GroupShare) -> ShareReport {
    ShareReport {
        // Finer than the tenths that are shown, so that sums of groups are right in them.
        due_pct: thousandths(100.0 * share.due),
        got_pct: thousandths(100.0 * share.got),
        isolation_pct: thousandths(100.0 * share.isolation()),
        outstanding: tenths(share.outstanding),
        why: share.why.clone(),
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn export(
    device: &str,
    volume: &VolumeStatus,
    served: &[String],
    disks: &BTreeMap<String, BlockDeviceReport>,
) -> ExportReport {
    let facts = &volume.facts;
    let disk = disks.get(&facts.name);
    ExportReport {
        name: facts.name.clone(),
        device: device.to_owned(),
        backing: facts.description.clone(),
        size_bytes: facts.size_bytes,
        read_only: facts.is_read_only,
        rotational: facts.is_rotational,
        block_bytes: facts.block_bytes,
        served: served.contains(&facts.name),
        node: disk.map(|disk| disk.node.clone()),
        ublk: disk.map(|disk| disk.ublk.clone()),
        damaged: volume.damage.is_some(),
        damage: volume.damage.map(Damage::text),
        note: facts.note.clone(),
        unanswered: volume
            .unanswered
            .map(|it| UnansweredReport { oldest_s: tenths(it.oldest_ns as f64 / 1e9), ios: it.ios }),
        unsafe_flush: volume.has_unsafe_flush,
        sums: sums(&volume.sums),
    }
}

fn group(device: &str, group: &GroupStatus, of_group: Option<&GroupShare>, with_buckets: bool) -> GroupReport {
    let [(_, io_max), (_, io_low), (_, io_latency)] = read_limits(&group.limits);
    GroupReport {
        path: group.path.clone(),
        device: device.to_owned(),
        weight: group.weight,
        connections: group.connections,
        memory_bytes: group.memory_bytes,
        throttled_ns: group.throttled_ns,
        waiting: tenths(group.window.waiting),
        leaf_weight: group.leaf_weight,
        priority: group.priority,
        io_max,
        io_low,
        io_latency,
        blkio: group.blkio,
        sums: sums(&group.counters.sums),
        latency_ns: by_times(&group.counters, |times| LatencyReport {
            queue: quantiles(&times.queue),
            service: quantiles(&times.service),
            total: quantiles(&times.total),
        }),
        share: of_group.map(share),
        latency_buckets: with_buckets.then(|| by_times(&group.counters, |times| times.total.buckets().collect())),
    }
}

/// The sums of the kinds of request that occurred.
fn sums(sums: &Sums) -> KindsReport<TallyReport> {
    KindsReport::of(Counted::ALL.map(|kind| {
        let tally = sums.of(kind);
        (tally.requests > 0).then(|| tally.into())
    }))
}

/// A value from the times of each kind of request that occurred.
fn by_times<T>(counters: &GroupCounters, value: impl Fn(&Times) -> T) -> KindsReport<T> {
    KindsReport::of(counters.times.each_ref().map(|times| (times.total.count() > 0).then(|| value(times))))
}

fn quantiles(times: &TimeHistogram) -> QuantilesReport {
    QuantilesReport { p50: times.quantile_ns(0.5), p99: times.quantile_ns(0.99), p999: times.quantile_ns(0.999) }
}
