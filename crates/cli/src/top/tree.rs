//! The groups of an interval as a tree: a parent's row has the sums of the groups below it and of
//! its own requests.

use std::collections::BTreeMap;

use hoistway_experiment::printable;

use super::sample::{DeviceSample, GroupSample};
use super::shares::{self, Share};
use super::table::{Line, Sort, compare};

/// The name of the row of a parent's own requests, beside the rows of the groups below it.
const ITSELF: &str = "(itself)";

/// The weight of a group that the source does not name.
const DEFAULT_WEIGHT: u32 = 100;

/// A group with its share and the groups below it.
#[derive(Default)]
struct Node<'a> {
    /// None if only groups below it are known.
    own: Option<(&'a GroupSample, Share)>,
    below: BTreeMap<&'a str, Node<'a>>,
}

/// The groups of a device: each parent before the groups below it, siblings sorted.
pub fn lines(device: &DeviceSample, seconds: f64, sort: Sort) -> Vec<Line> {
    let mut root = Node::default();
    for (group, share) in device.groups.iter().zip(shares::of(device, seconds)) {
        let mut node = &mut root;
        for name in group.path.split('/') {
            node = node.below.entry(name).or_default();
        }
        node.own = Some((group, share));
    }
    root.children("", 0, seconds, sort).into_iter().flatten().collect()
}

impl Node<'_> {
    /// The rows of the groups below, in a list for each of them.
    fn children(&self, path: &str, depth: usize, seconds: f64, sort: Sort) -> Vec<Vec<Line>> {
        let mut children: Vec<Vec<Line>> = self
            .below
            .iter()
            .map(|(name, node)| {
                let path = if depth == 0 { (*name).to_owned() } else { format!("{path}/{name}") };
                node.rows(&path, name, depth, seconds, sort)
            })
            .collect();
        children.sort_by(|one, other| compare(&one[0], &other[0], sort));
        children
    }

    /// The row of the group, then those of the groups below it.
    fn rows(&self, path: &str, name: &str, depth: usize, seconds: f64, sort: Sort) -> Vec<Line> {
        let indented = |name: &str, depth: usize| format!("{}{name}", "  ".repeat(depth));
        let (sum, share) = self.sum(path);
        let mut line = Line::new(&sum, share, seconds);
        line.label = indented(&printable(name), depth);
        let mut children = self.children(path, depth + 1, seconds, sort);
        if let Some((own, share)) = self.own.filter(|(own, _)| !self.below.is_empty() && own.has_requests()) {
            let mut itself = Line::new(own, share, seconds);
            (itself.group, itself.label) = (format!("{path}/{ITSELF}"), indented(ITSELF, depth + 1));
            // The reason is about the group's own requests.
            itself.why = line.why.take();
            children.insert(0, vec![itself]);
        }
        std::iter::once(line).chain(children.into_iter().flatten()).collect()
    }

    /// The group with all groups below it. Weight, limits and reason are its own.
    fn sum(&self, path: &str) -> (GroupSample, Share) {
        let unknown =
            || (GroupSample { path: path.to_owned(), weight: DEFAULT_WEIGHT, ..GroupSample::default() }, Share::NONE);
        let (mut sum, mut share) = self.own.map_or_else(unknown, |(own, share)| (own.clone(), share));
        for (name, node) in &self.below {
            let (more, its) = node.sum(name);
            sum.add(&more);
            share.add(its);
        }
        (sum, share)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::Flow;
    use super::*;

    fn group(path: &str, weight: u32, bytes: u64, latency_ns: u64) -> GroupSample {
        let latency = if bytes > 0 { [(latency_ns, bytes)].into() } else { BTreeMap::new() };
        let flow = Flow { ios: bytes, bytes, service_ns: Some(bytes * 1_000_000_000), latency };
        let none = Flow { service_ns: Some(0), ..Flow::default() };
        let outstanding = Some(if bytes > 0 { bytes + 2 } else { 0 });
        GroupSample { path: path.to_owned(), weight, flows: [flow, none], outstanding, ..GroupSample::default() }
    }

    fn of(groups: Vec<GroupSample>, sort: Sort) -> Vec<Line> {
        lines(&DeviceSample { groups, ..DeviceSample::default() }, 1.0, sort)
    }

    #[test]
    fn a_parent_has_the_sums_of_the_groups_below_it() {
        let groups =
            vec![group("t", 300, 0, 0), group("t/b", 100, 10, 5), group("t/a", 100, 40, 9), group("u", 100, 50, 7)];
        let lines = of(groups, Sort::Name);
        let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["t", "  a", "  b", "u"]);
        let parent = &lines[0];
        assert_eq!((parent.group.as_str(), parent.weight), ("t", 300));
        assert_eq!((parent.ios_per_s[0], parent.bytes_per_s[0]), (50.0, 50.0));
        assert_eq!((parent.in_flight, parent.queued), (Some(50.0), Some(4.0)));
        assert_eq!(parent.latency_ns, [Some(9), Some(9)], "of all requests below it, not a mean of percentiles");
        assert!((parent.share.got_percent - 50.0).abs() < 1e-9 && (parent.share.due_percent - 75.0).abs() < 1e-9);
        assert!(parent.share.is_backlogged);
    }

    #[test]
    fn siblings_are_sorted_below_their_parent() {
        let groups =
            vec![group("t", 100, 0, 0), group("t/a", 100, 1, 5), group("t/b", 100, 9, 5), group("u", 100, 5, 5)];
        let labels: Vec<String> = of(groups, Sort::Iops).into_iter().map(|line| line.label).collect();
        assert_eq!(labels, ["t", "  b", "  a", "u"]);
    }

    #[test]
    fn a_parents_own_requests_have_a_row() {
        let mut own = group("t", 100, 4, 5);
        own.why = Some("t keeps 1 request".to_owned());
        let lines = of(vec![own, group("t/a", 100, 6, 5)], Sort::Name);
        let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
        assert_eq!(labels, ["t", "  (itself)", "  a"]);
        assert_eq!((lines[0].ios_per_s[0], lines[1].ios_per_s[0]), (10.0, 4.0));
        assert_eq!((lines[0].why.as_deref(), lines[1].why.as_deref()), (None, Some("t keeps 1 request")));
    }

    #[test]
    fn a_parent_that_is_not_counted_is_added() {
        let lines = of(vec![group("a.slice/b", 100, 4, 5)], Sort::Name);
        assert_eq!((lines.len(), lines[0].label.as_str(), lines[0].ios_per_s[0]), (2, "a.slice", 4.0));
    }
}
