//! A look at a device and its groups: counters that only grow. Two looks make an interval.

use std::collections::BTreeMap;

use block::Nanos;

/// Everything at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// When, on the source's own clock, in nanoseconds.
    pub at_ns: Nanos,
    /// The devices.
    pub devices: Vec<DeviceLook>,
}

/// A device at one moment.
#[derive(Clone, Debug, Default)]
pub struct DeviceLook {
    /// Its name.
    pub name: String,
    /// The scheduler, and settings worth a word.
    pub scheduler: String,
    /// Commands it may hold; 0 = not known.
    pub depth: u64,
    /// Requests inside it now.
    pub in_flight: u64,
    /// Time it was busy, in nanoseconds; none where nobody counts it.
    pub busy_ns: Option<Nanos>,
    /// What it did, reads and writes; none: the sum of the groups.
    pub flows: Option<[Flow; 2]>,
    /// The 17 numbers of `/proc/diskstats`; none where nobody counts them.
    pub diskstats: Option<[u64; 17]>,
    /// Other figures for the detail view, by name.
    pub notes: BTreeMap<String, String>,
    /// How full it is, as the server tells it; null elsewhere.
    pub saturation: serde_json::Value,
    /// Its groups.
    pub groups: Vec<GroupLook>,
}

impl DeviceLook {
    /// How full it is, and whose share is not kept and why; nothing where nobody knows.
    pub fn sentences(&self) -> Vec<String> {
        let own = self.saturation["text"].as_str().map(|text| format!("{}: {text}", self.name));
        own.into_iter().chain(self.groups.iter().filter_map(|group| group.why.clone())).collect()
    }
}

/// A group on a device at one moment.
#[derive(Clone, Debug, Default)]
pub struct GroupLook {
    /// Its path.
    pub path: String,
    /// Its weight.
    pub weight: u32,
    /// Reads and writes.
    pub flows: [Flow; 2],
    /// Discards.
    pub discards: Flow,
    /// Requests not answered yet; none where nobody counts them.
    pub outstanding: Option<u64>,
    /// Time in which it had work but a limit held it, in nanoseconds; none where nobody counts it.
    pub throttled_ns: Option<Nanos>,
    /// Its limits as a line; empty without.
    pub limit: String,
    /// Why its share was not kept, where somebody knows.
    pub why: Option<String>,
}

/// Reads or writes.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Requests completed.
    pub ios: u64,
    /// Bytes completed.
    pub bytes: u64,
    /// Time that completed requests had spent in the device, summed, in nanoseconds; none where nobody counts it.
    pub service_ns: Option<Nanos>,
    /// Completed requests by latency, from the lower bound of each step in nanoseconds; empty where nobody counts them.
    pub latency: BTreeMap<Nanos, u64>,
}

impl Flow {
    /// What was added since `before`. A source that began anew counts from zero.
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

/// The time below which `part` of the requests of all flows were answered.
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

/// What happened between two looks.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its length, in nanoseconds.
    pub length_ns: Nanos,
    /// The devices; `flows` and `busy_ns` are what was added.
    pub devices: Vec<DeviceLook>,
}

impl Interval {
    /// From `before` to `now`; devices and groups that are new count from zero.
    pub fn between(before: &Look, now: &Look) -> Self {
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

fn difference(device: &DeviceLook, old: Option<&DeviceLook>) -> DeviceLook {
    let none = Flow::default();
    let groups = device.groups.iter().map(|group| {
        let old = old.and_then(|old| old.groups.iter().find(|it| it.path == group.path));
        let flow = |at: usize| group.flows[at].since(old.map_or(&none, |old| &old.flows[at]));
        let discards = group.discards.since(old.map_or(&none, |old| &old.discards));
        let before_ns = old.and_then(|old| old.throttled_ns).unwrap_or(0);
        let throttled_ns = group.throttled_ns.map(|now| now.saturating_sub(before_ns));
        GroupLook { flows: [flow(0), flow(1)], discards, throttled_ns, ..group.clone() }
    });
    let old_flows = old.and_then(|old| old.flows.as_ref());
    DeviceLook {
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
