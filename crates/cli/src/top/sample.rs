//! A sample of a device and its groups: counters that only grow. Two samples make an interval.

use std::collections::BTreeMap;

use hoistway_block::Nanos;
use hoistway_experiment::printable;

/// All counters at one time.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Its time on the source's own clock, in nanoseconds.
    pub at_ns: Nanos,
    /// The devices.
    pub devices: Vec<DeviceSample>,
}

/// A device at one time.
#[derive(Clone, Debug, Default)]
pub struct DeviceSample {
    /// Its name.
    pub name: String,
    /// The scheduler, and notable settings.
    pub scheduler: String,
    /// Its queue depth; 0 = not known.
    pub depth: u64,
    /// Requests in flight in it now.
    pub in_flight: u64,
    /// Time that it was busy, in nanoseconds; none if not counted.
    pub busy_ns: Option<Nanos>,
    /// Its reads and writes; none: the sum of the groups.
    pub flows: Option<[Flow; 2]>,
    /// The 17 numbers of `/proc/diskstats`; none if not counted.
    pub diskstats: Option<[u64; 17]>,
    /// Other figures for the detail view, by name.
    pub notes: BTreeMap<String, String>,
    /// Its saturation, as the server reports it; null elsewhere.
    pub saturation: serde_json::Value,
    /// Exports that are local block devices too: export and node.
    pub nodes: BTreeMap<String, String>,
    /// Its groups.
    pub groups: Vec<GroupSample>,
}

impl DeviceSample {
    /// Sentences about its saturation, about shares that are not kept and why, and about the nodes of
    /// its exports; empty if not known.
    pub fn sentences(&self) -> Vec<String> {
        let own = self.saturation["text"].as_str().map(|text| format!("{}: {text}", self.name));
        let reasons = self.groups.iter().filter_map(|group| group.why.clone());
        let nodes: Vec<String> = self.nodes.iter().map(|(export, node)| format!("{export} is {node}")).collect();
        let nodes = (!nodes.is_empty()).then(|| format!("{}: {}", self.name, nodes.join(", ")));
        let all = own.into_iter().chain(reasons).chain(nodes);
        all.map(|sentence| printable(&sentence).into_owned()).collect()
    }
}

/// A group on a device at one time.
#[derive(Clone, Debug, Default)]
pub struct GroupSample {
    /// Its path.
    pub path: String,
    /// Its weight.
    pub weight: u32,
    /// Reads and writes.
    pub flows: [Flow; 2],
    /// Discards.
    pub discards: Flow,
    /// Requests not completed yet; none if not counted.
    pub outstanding: Option<u64>,
    /// Mean number of them that wait outside the device, as the server reports it; none if it reports
    /// none.
    pub waiting: Option<f64>,
    /// Time in which it had work but a limit held it, in nanoseconds; none if not counted.
    pub throttled_ns: Option<Nanos>,
    /// Its limits as a line; empty if it has none.
    pub limit: String,
    /// The share due to it, in per cent, as the source reports it; none if it reports none.
    pub due_percent: Option<f64>,
    /// How much of it the group got, in per cent, as the server reports it; none if it reports none.
    pub isolation_percent: Option<f64>,
    /// Why its share was not kept, if known.
    pub why: Option<String>,
}

impl GroupSample {
    /// Whether it did I/O, or has requests that are not completed.
    pub fn has_requests(&self) -> bool {
        self.flows.iter().any(|flow| flow.ios > 0) || self.outstanding.is_some_and(|count| count > 0)
    }

    /// Adds the counters of a group below this one. Times that either does not count are unknown.
    pub fn add(&mut self, more: &GroupSample) {
        self.flows.iter_mut().zip(&more.flows).for_each(|(flow, more)| flow.add(more));
        self.discards.add(&more.discards);
        self.outstanding = self.outstanding.zip(more.outstanding).map(|(own, more)| own + more);
        self.waiting = self.waiting.zip(more.waiting).map(|(own, more)| own + more);
    }
}

/// Reads or writes.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Requests completed.
    pub ios: u64,
    /// Bytes completed.
    pub bytes: u64,
    /// Sum of the completed requests' times in the device, in nanoseconds; none if not counted.
    pub service_ns: Option<Nanos>,
    /// Completed requests by latency, keyed by the lower bound of each step in nanoseconds; empty
    /// if not counted.
    pub latency: BTreeMap<Nanos, u64>,
}

impl Flow {
    /// Adds the requests of another source.
    pub fn add(&mut self, more: &Flow) {
        self.ios += more.ios;
        self.bytes += more.bytes;
        self.service_ns = self.service_ns.zip(more.service_ns).map(|(own, more)| own + more);
        for (&step_ns, &count) in &more.latency {
            *self.latency.entry(step_ns).or_insert(0) += count;
        }
    }

    /// The increase since `before`. A source that restarted counts from zero.
    fn since(&self, before: &Flow) -> Flow {
        if self.ios < before.ios {
            return self.clone();
        }
        let latency = self.latency.iter().filter_map(|(&step_ns, &count)| {
            let more = count.saturating_sub(before.latency.get(&step_ns).copied().unwrap_or(0));
            (more > 0).then_some((step_ns, more))
        });
        Flow {
            ios: self.ios - before.ios,
            bytes: self.bytes.saturating_sub(before.bytes),
            service_ns: self.service_ns.map(|now| now.saturating_sub(before.service_ns.unwrap_or(0))),
            latency: latency.collect(),
        }
    }
}

/// The latency that `part` of the requests of all flows do not exceed.
pub fn quantile_of(flows: &[Flow], part: f64) -> Option<Nanos> {
    let mut all = BTreeMap::new();
    for (&step_ns, &count) in flows.iter().flat_map(|flow| &flow.latency) {
        *all.entry(step_ns).or_insert(0) += count;
    }
    let total: u64 = all.values().sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a count")]
    let wanted = ((total as f64 * part).ceil() as u64).max(1);
    let mut seen = 0;
    all.iter().find_map(|(&step_ns, &count)| {
        seen += count;
        (seen >= wanted).then_some(step_ns)
    })
}

/// The difference of two samples.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its length, in nanoseconds.
    pub length_ns: Nanos,
    /// The devices; `flows` and `busy_ns` are the increases.
    pub devices: Vec<DeviceSample>,
}

impl Interval {
    /// From `before` to `now`; new devices and groups count from zero.
    pub fn between(before: &Sample, now: &Sample) -> Self {
        let devices = now.devices.iter().map(|device| {
            let old = before.devices.iter().find(|old| old.name == device.name);
            difference(device, old)
        });
        Self { length_ns: now.at_ns.saturating_sub(before.at_ns).max(1), devices: devices.collect() }
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.length_ns as f64 / 1e9
    }
}

fn difference(device: &DeviceSample, old: Option<&DeviceSample>) -> DeviceSample {
    let none = Flow::default();
    let groups = device.groups.iter().map(|group| {
        let old = old.and_then(|old| old.groups.iter().find(|it| it.path == group.path));
        let flow = |at: usize| group.flows[at].since(old.map_or(&none, |old| &old.flows[at]));
        let discards = group.discards.since(old.map_or(&none, |old| &old.discards));
        let before_ns = old.and_then(|old| old.throttled_ns).unwrap_or(0);
        let throttled_ns = group.throttled_ns.map(|now| now.saturating_sub(before_ns));
        GroupSample { flows: [flow(0), flow(1)], discards, throttled_ns, ..group.clone() }
    });
    let old_flows = old.and_then(|old| old.flows.as_ref());
    DeviceSample {
        flows: device.flows.as_ref().map(|now| [0, 1].map(|at| now[at].since(old_flows.map_or(&none, |old| &old[at])))),
        busy_ns: device.busy_ns.map(|now| now.saturating_sub(old.and_then(|old| old.busy_ns).unwrap_or(now))),
        groups: groups.collect(),
        ..device.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(ios: u64, latency: &[(u64, u64)]) -> Flow {
        Flow { ios, bytes: ios * 4096, service_ns: Some(ios * 10), latency: latency.iter().copied().collect() }
    }

    #[test]
    fn an_interval_is_what_was_added() {
        let before = flow(10, &[(100, 10)]);
        let added = flow(14, &[(100, 11), (900, 3)]).since(&before);
        assert_eq!((added.ios, added.bytes, added.service_ns), (4, 4 * 4096, Some(40)));
        assert_eq!(added.latency, BTreeMap::from([(100, 1), (900, 3)]));
        let quantile = |part| quantile_of(std::slice::from_ref(&added), part);
        assert_eq!((quantile(0.25), quantile(0.5)), (Some(100), Some(900)));
        assert_eq!(quantile_of(&[flow(0, &[])], 0.5), None);
    }

    #[test]
    fn a_source_that_began_anew_counts_from_zero() {
        assert_eq!(flow(3, &[]).since(&flow(10, &[])).ios, 3);
    }
}
