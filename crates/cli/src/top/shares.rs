//! The due and actual shares in one interval. Source: docs/specifications/harness.md, sections 5.5
//! and 10.3.

use std::collections::BTreeMap;

use hoistway_experiment::share::water_fill;

use super::sample::{DeviceSample, GroupSample};

/// A group is not backlogged if, on average, fewer of its requests than this are waiting.
const BACKLOG: f64 = 0.1;

/// A group's share of a device in an interval, in per cent of the total.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Share {
    /// The share by the weights.
    pub due_percent: f64,
    /// The actual share.
    pub got_percent: f64,
    /// Whether it wanted more than it got.
    pub is_backlogged: bool,
    /// The server's own figure of how much of its due share it got, in per cent.
    pub reported_isolation: Option<f64>,
}

impl Share {
    /// Of a group without requests.
    pub const NONE: Self = Self { due_percent: 0.0, got_percent: 0.0, is_backlogged: false, reported_isolation: None };

    /// How much of its due share it got, in per cent, at most 100; none for a group that wants no more. A
    /// server's own figure counts: it is also in its metrics, and in the line about saturation.
    pub fn isolation_percent(&self) -> Option<f64> {
        let computed = || (100.0 * self.got_percent / self.due_percent).min(100.0);
        let is_judged = self.is_backlogged && self.due_percent > 0.0;
        is_judged.then(|| self.reported_isolation.unwrap_or_else(computed))
    }

    /// Adds the share of a group below this one.
    pub fn add(&mut self, more: Self) {
        self.due_percent += more.due_percent;
        self.got_percent += more.got_percent;
        self.is_backlogged |= more.is_backlogged;
        // No source reports it for a sum.
        self.reported_isolation = None;
    }
}

/// The bytes that a group transferred.
pub fn bytes(group: &GroupSample) -> u64 {
    group.flows.iter().map(|flow| flow.bytes).sum()
}

/// Mean number of the group's requests in the device over `seconds` (Little's law); none if the
/// time is not counted.
pub fn in_device(group: &GroupSample, seconds: f64) -> Option<f64> {
    let [reads, writes] = &group.flows;
    Some((reads.service_ns? + writes.service_ns?) as f64 / 1e9 / seconds)
}

/// Mean number of the group's requests that wait to be dispatched to the device. Where only the
/// number outstanding at one moment is known, the mean of those in the device is taken off it.
pub fn queued(group: &GroupSample, seconds: f64) -> Option<f64> {
    if let Some(waiting) = group.waiting {
        return Some(waiting);
    }
    Some((group.outstanding? as f64 - in_device(group, seconds)?).max(0.0))
}

/// The shares of a device's groups, in the groups' order. What is due is computed here only for sources
/// that do not report it: a server's own figure is also in its metrics and its reasons, that of a test in its
/// table.
pub fn of(device: &DeviceSample, seconds: f64) -> Vec<Share> {
    let capacity: f64 = device.groups.iter().map(|group| bytes(group) as f64).sum();
    if device.saturation.is_object() || device.groups.iter().any(|group| group.due_percent.is_some()) {
        let reported = |group: &GroupSample| {
            let got_percent = if capacity > 0.0 { 100.0 * bytes(group) as f64 / capacity } else { 0.0 };
            // A group without a figure asks for no more than it gets.
            let due_percent = group.due_percent.unwrap_or(got_percent);
            let reported_isolation = group.isolation_percent;
            Share { due_percent, got_percent, is_backlogged: group.due_percent.is_some(), reported_isolation }
        };
        return device.groups.iter().map(reported).collect();
    }
    let is_backlogged = |group: &GroupSample| match queued(group, seconds) {
        Some(queued) => queued >= BACKLOG && group.limit.is_empty(),
        // This source does not count waiting requests, so any group that did I/O counts as wanting
        // more.
        None => bytes(group) > 0 && group.limit.is_empty(),
    };
    let leaves: Vec<Leaf> = device
        .groups
        .iter()
        .enumerate()
        .map(|(index, group)| Leaf {
            index,
            path: &group.path,
            got: bytes(group) as f64,
            wants_more: is_backlogged(group),
        })
        .collect();
    let weights: BTreeMap<&str, u32> = device.groups.iter().map(|group| (group.path.as_str(), group.weight)).collect();
    let mut due = vec![0.0; leaves.len()];
    divide("", capacity, &leaves.iter().collect::<Vec<_>>(), &weights, &mut due);
    let percent = |bytes: f64| if capacity > 0.0 { 100.0 * bytes / capacity } else { 0.0 };
    leaves
        .iter()
        .zip(due)
        .map(|(leaf, due)| Share {
            due_percent: percent(due),
            got_percent: percent(leaf.got),
            is_backlogged: leaf.wants_more,
            reported_isolation: None,
        })
        .collect()
}

struct Leaf<'a> {
    index: usize,
    path: &'a str,
    got: f64,
    wants_more: bool,
}

/// Divides `capacity` among the groups below `prefix` (empty, or ending in `/`), level by level.
fn divide(prefix: &str, capacity: f64, leaves: &[&Leaf], weights: &BTreeMap<&str, u32>, due: &mut [f64]) {
    let mut children: BTreeMap<&str, Vec<&Leaf>> = BTreeMap::new();
    for leaf in leaves {
        let below = &leaf.path[prefix.len().min(leaf.path.len())..];
        let length = below.find('/').unwrap_or(below.len());
        // A group's own requests compete with its child groups, as if they were a child without a
        // name.
        let child = if below.is_empty() { "" } else { &leaf.path[..prefix.len() + length] };
        children.entry(child).or_default().push(leaf);
    }
    let parties: Vec<(f64, Option<f64>)> = children
        .iter()
        .map(|(path, members)| {
            let weight = weights.get(path).copied().unwrap_or(100);
            let wants_more = members.iter().any(|leaf| leaf.wants_more);
            (f64::from(weight), (!wants_more).then(|| members.iter().map(|leaf| leaf.got).sum()))
        })
        .collect();
    for ((path, members), share) in children.iter().zip(water_fill(capacity, &parties)) {
        match members.as_slice() {
            [leaf] => due[leaf.index] = share,
            _ if path.is_empty() => {}
            _ => divide(&format!("{path}/"), share, members, weights, due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::Flow;
    use super::*;

    fn group(path: &str, weight: u32, bytes: u64, outstanding: u64) -> GroupSample {
        let flow = Flow { ios: bytes, bytes, service_ns: Some(0), ..Flow::default() };
        let none = Flow { service_ns: Some(0), ..Flow::default() };
        GroupSample {
            path: path.to_owned(),
            weight,
            flows: [flow, none],
            outstanding: Some(outstanding),
            ..GroupSample::default()
        }
    }

    fn shares(groups: &[GroupSample]) -> Vec<(f64, f64)> {
        let device = DeviceSample { groups: groups.to_vec(), ..DeviceSample::default() };
        let round = |share: Share| (share.due_percent.round(), share.got_percent.round());
        of(&device, 1.0).into_iter().map(round).collect()
    }

    #[test]
    fn weights_divide_among_those_who_wait() {
        assert_eq!(shares(&[group("a", 100, 50, 8), group("b", 300, 50, 8)]), [(25.0, 50.0), (75.0, 50.0)]);
    }

    #[test]
    fn who_wants_no_more_is_due_what_it_got() {
        let idle = group("c", 700, 10, 0);
        assert_eq!(
            shares(&[group("a", 100, 45, 8), group("b", 100, 45, 8), idle]),
            [(45.0, 45.0), (45.0, 45.0), (10.0, 10.0)]
        );
    }

    #[test]
    fn a_servers_own_figure_of_what_is_due_counts() {
        let reported = GroupSample { due_percent: Some(80.0), ..group("a", 100, 60, 8) };
        let groups = vec![reported, group("b", 100, 40, 8)];
        let saturation = serde_json::json!({"text": "idle"});
        let device = DeviceSample { groups, saturation, ..DeviceSample::default() };
        let shares = of(&device, 1.0);
        let due: Vec<(f64, bool)> = shares.iter().map(|share| (share.due_percent, share.is_backlogged)).collect();
        assert_eq!(due, [(80.0, true), (40.0, false)]);
    }

    #[test]
    fn groups_of_a_parent_divide_its_share() {
        let groups =
            [group("t/a", 100, 40, 8), group("t/b", 100, 40, 8), group("u", 100, 20, 8), group("t", 300, 0, 0)];
        let due: Vec<f64> = shares(&groups).into_iter().map(|(due, _)| due).collect();
        assert_eq!(due, [38.0, 38.0, 25.0, 0.0]);
    }
}
