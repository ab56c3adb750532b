//! Due shares, actual shares, and their deviation.
//!
//! Due shares follow from the weights if all groups are backlogged; what a group cannot use
//! (because of a limit or a low demand) is redistributed to the others by weight (water filling).
//! Source: docs/specifications/harness.md, section 5.5.

use std::collections::BTreeMap;

use hoistway_workload::Job;
use hoistway_workload::job::{BlockSize, Mix};
use serde::{Deserialize, Serialize};

use crate::{Group, ShareUnit};

/// Divides `capacity` by weight among parties with at most `demand` each (`None` means unlimited).
///
/// Returns the due amount of each in the unit of `capacity`. If the demands add up to less, the
/// rest is not assigned.
pub fn water_fill(capacity: f64, parties: &[(f64, Option<f64>)]) -> Vec<f64> {
    let mut due: Vec<Option<f64>> = vec![None; parties.len()];
    // Each round satisfies at least one party or is the last.
    for _ in 0..=parties.len() {
        let given: f64 = due.iter().flatten().sum();
        let open = || parties.iter().zip(&due).filter(|(_, due)| due.is_none());
        let weights: f64 = open().map(|(&(weight, _), _)| weight).sum();
        if weights <= 0.0 {
            break;
        }
        let per_weight = (capacity - given).max(0.0) / weights;
        let mut satisfied = false;
        for (&(weight, demand), due) in parties.iter().zip(&mut due).filter(|(_, due)| due.is_none()) {
            if let Some(demand) = demand.filter(|&demand| demand <= per_weight * weight) {
                *due = Some(demand);
                satisfied = true;
            }
        }
        if !satisfied {
            for (&(weight, _), due) in parties.iter().zip(&mut due).filter(|(_, due)| due.is_none()) {
                *due = Some(per_weight * weight);
            }
            break;
        }
    }
    due.into_iter().map(|due| due.unwrap_or(0.0)).collect()
}

/// The due part of `capacity` of each of `groups`, level by level of the tree; 0 for groups without
/// jobs.
///
/// `effective_weights` are the weights in force, one per group. Demands follow from rates and
/// limits ([`demand_per_s`]).
pub fn due(capacity_per_s: f64, groups: &[Group], effective_weights: &[u32], unit: ShareUnit) -> Vec<f64> {
    due_up_to(capacity_per_s, groups, effective_weights, unit, &[])
}

/// As [`due`], but each group is also limited to its rate when it runs alone: one value per group
/// in `unit` per second, or an empty list.
pub fn due_up_to(
    capacity_per_s: f64,
    groups: &[Group],
    effective_weights: &[u32],
    unit: ShareUnit,
    alone_per_s: &[f64],
) -> Vec<f64> {
    let mut due = vec![0.0; groups.len()];
    let all: Vec<usize> = (0..groups.len()).filter(|&index| !groups[index].jobs.is_empty()).collect();
    let demand = |(index, group)| smaller(demand_per_s(group, unit), alone_per_s.get(index).copied());
    let demands = groups.iter().enumerate().map(demand).collect();
    let limit =
        |group: &Group, members: &[usize]| limit_per_s(group, members.iter().map(|&member| &groups[member]), unit);
    Tree::new(groups, effective_weights, demands, &limit).divide("", capacity_per_s, &all, &mut due);
    due
}

/// The groups as a tree of paths, with what each can use at most.
pub(crate) struct Tree<'a> {
    groups: &'a [Group],
    by_path: BTreeMap<&'a str, usize>,
    effective_weights: &'a [u32],
    /// The maximum that each group's own jobs can use, in the unit of what is divided; `None` means
    /// unlimited.
    demands: Vec<Option<f64>>,
    /// The maximum that a group lets its members use together.
    limit: &'a dyn Fn(&Group, &[usize]) -> Option<f64>,
}

impl<'a> Tree<'a> {
    /// The tree of `groups`, with one weight and one demand per group.
    pub(crate) fn new(
        groups: &'a [Group],
        effective_weights: &'a [u32],
        demands: Vec<Option<f64>>,
        limit: &'a dyn Fn(&Group, &[usize]) -> Option<f64>,
    ) -> Self {
        let by_path = groups.iter().enumerate().map(|(index, group)| (group.path.as_str(), index)).collect();
        Self { groups, by_path, effective_weights, demands, limit }
    }

    /// Divides `capacity` among the children of the group at `prefix` (empty, or ending in `/`),
    /// whose leaves are `leaves`.
    pub(crate) fn divide(&self, prefix: &str, capacity: f64, leaves: &[usize], due: &mut [f64]) {
        let mut children: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut own = None;
        for &leaf in leaves {
            let Some(below) = self.groups[leaf].path.get(prefix.len()..) else {
                // The group at `prefix` itself, whose jobs compete with its child groups.
                own = Some(leaf);
                continue;
            };
            let part = below.split('/').next().unwrap_or(below);
            let path = &self.groups[leaf].path[..prefix.len() + part.len()];
            let place = *places.entry(path).or_insert(children.len());
            match children.get_mut(place) {
                Some((_, members)) => members.push(leaf),
                None => children.push((path, vec![leaf])),
            }
        }
        let mut parties: Vec<(f64, Option<f64>)> =
            children.iter().map(|(path, members)| (self.weight(path), self.demand(path, members))).collect();
        parties.extend(own.map(|leaf| (self.leaf_weight(leaf), self.demand_of(leaf))));
        let parts = water_fill(capacity, &parties);
        if let (Some(leaf), Some(part)) = (own, parts.last()) {
            due[leaf] = *part;
        }
        for ((path, members), part) in children.iter().zip(parts) {
            match members[..] {
                [leaf] if self.groups[leaf].path == *path => due[leaf] = part,
                _ => self.divide(&format!("{path}/"), part, members, due),
            }
        }
    }

    fn weight(&self, path: &str) -> f64 {
        let weight = self.by_path.get(path).and_then(|index| self.effective_weights.get(*index).copied());
        f64::from(weight.unwrap_or(crate::Weight::DEFAULT.get()))
    }

    fn leaf_weight(&self, index: usize) -> f64 {
        let group = &self.groups[index];
        group.leaf_weight.map_or_else(|| self.weight(&group.path), |weight| f64::from(weight.get()))
    }

    fn demand_of(&self, leaf: usize) -> Option<f64> {
        self.demands.get(leaf).copied().flatten()
    }

    /// The maximum that a subtree can use: the sum of its leaves, limited by its own limit.
    fn demand(&self, path: &str, members: &[usize]) -> Option<f64> {
        let leaves: Option<f64> = members.iter().map(|&leaf| self.demand_of(leaf)).sum();
        let own = self.by_path.get(path).map(|index| &self.groups[*index]);
        smaller(leaves, own.and_then(|group| (self.limit)(group, members)))
    }
}

fn smaller(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Maximum demand of a group per second, in `unit`; `None` means unlimited.
///
/// It follows from the rates of its jobs and from its limits; neither limits device time.
pub fn demand_per_s(group: &Group, unit: ShareUnit) -> Option<f64> {
    let rates: Option<f64> = group.jobs.iter().map(|job| rate_per_s(job, unit)).sum();
    smaller(rates, limit_per_s(group, std::iter::once(group), unit))
}

/// The rate of all threads of a job; `None` if any direction that it uses has no rate.
fn rate_per_s(job: &Job, unit: ShareUnit) -> Option<f64> {
    let of_direction = |bytes_per_s: u64, ios_per_s: u32, size: &BlockSize| {
        let size_bytes = mean_bytes(size);
        let by_bytes = (bytes_per_s > 0).then_some(bytes_per_s as f64);
        let by_ios = (ios_per_s > 0).then_some(f64::from(ios_per_s) * size_bytes);
        in_unit(smaller(by_bytes, by_ios)?, size_bytes, unit)
    };
    let (bytes, ios, sizes) = (&job.pacing.rate_bytes_per_s, &job.pacing.rate_ios_per_s, &job.shape.block_sizes);
    let read = || of_direction(bytes.read, ios.read, &sizes.read);
    let write = || of_direction(bytes.write, ios.write, &sizes.write);
    let trim = || of_direction(bytes.trim, ios.trim, &sizes.trim);
    let per_thread = match job.shape.mix {
        _ if job.source.program.is_some() => {
            in_unit(job.source.program?.bytes_per_s()?, mean_bytes(&sizes.read), unit)?
        }
        Mix::Read => read()?,
        Mix::Write => write()?,
        Mix::Trim => trim()?,
        Mix::ReadWrite { .. } | Mix::Rewrite => read()? + write()?,
        Mix::TrimWrite => trim()? + write()?,
    };
    Some(per_thread * f64::from(job.threads))
}

/// A group's limit as it applies to the jobs of `members`; `None` if a direction that they use is
/// unlimited.
pub(crate) fn limit_per_s<'a>(group: &Group, members: impl Iterator<Item = &'a Group>, unit: ShareUnit) -> Option<f64> {
    let mut uses = (None::<f64>, None::<f64>);
    for job in members.flat_map(|member| &member.jobs) {
        let (reads, writes) = match job.shape.mix {
            Mix::Read => (true, false),
            Mix::ReadWrite { .. } | Mix::Rewrite => (true, true),
            Mix::Write | Mix::Trim | Mix::TrimWrite => (false, true),
        };
        // The largest mean request size of any job converts a limit of requests to the highest
        // possible one of bytes.
        let larger = |seen: Option<f64>, size| Some(seen.unwrap_or(0.0).max(mean_bytes(size)));
        uses.0 = if reads { larger(uses.0, &job.shape.block_sizes.read) } else { uses.0 };
        uses.1 = if writes { larger(uses.1, &job.shape.block_sizes.write) } else { uses.1 };
    }
    let limits = &group.limits;
    let of = |size_bytes: Option<f64>, bytes_per_s: Option<u64>, ios_per_s: Option<u64>| match size_bytes {
        None => Some(0.0),
        Some(size) => {
            let by_ios = ios_per_s.map(|ios| ios as f64 * size);
            in_unit(smaller(bytes_per_s.map(|bytes| bytes as f64), by_ios)?, size, unit)
        }
    };
    let read = of(uses.0, limits.read_bytes_per_s, limits.read_ios_per_s)?;
    let write = of(uses.1, limits.write_bytes_per_s, limits.write_ios_per_s)?;
    let size = uses.0.into_iter().chain(uses.1).reduce(f64::max);
    let total = of(size, limits.total_bytes_per_s, limits.total_ios_per_s);
    Some(total.map_or(read + write, |total| total.min(read + write)))
}

fn in_unit(bytes_per_s: f64, size_bytes: f64, unit: ShareUnit) -> Option<f64> {
    match unit {
        ShareUnit::Bytes => Some(bytes_per_s),
        ShareUnit::Ios => Some(bytes_per_s / size_bytes.max(1.0)),
        ShareUnit::Time => None,
    }
}

fn mean_bytes(size: &BlockSize) -> f64 {
    match size {
        BlockSize::Fixed(bytes) => f64::from(*bytes),
        BlockSize::Range { min, max } => (f64::from(*min) + f64::from(*max)) / 2.0,
        BlockSize::Split(entries) => {
            let weights: f64 = entries.iter().map(|entry| f64::from(entry.weight)).sum();
            let sum: f64 = entries.iter().map(|entry| f64::from(entry.bytes) * f64::from(entry.weight)).sum();
            if weights == 0.0 { 4096.0 } else { sum / weights }
        }
    }
}

/// How well actual shares fit due shares.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fairness {
    /// Fraction of the total service of each party, 0 to 1.
    pub share: Vec<f64>,
    /// Due fraction of each party, 0 to 1.
    pub due: Vec<f64>,
    /// Share divided by due share of each party; 1 is exact, `None` if nothing was due.
    pub relative: Vec<Option<f64>>,
    /// Largest deviation of a relative share from 1 (0.05 = 5 %).
    pub error_max: f64,
    /// Mean deviation of the relative shares from 1.
    pub error_mean: f64,
    /// Jain's index over the relative shares: 1 = all equal, 1/n = one party has everything.
    pub jain: f64,
}

impl Fairness {
    /// Compares actual with due amounts, both in any unit, party by party.
    ///
    /// `None` if either sum is 0, because there are no shares then.
    pub fn of(got: &[f64], due: &[f64]) -> Option<Self> {
        let (got_sum, due_sum): (f64, f64) = (got.iter().sum(), due.iter().sum());
        if got_sum <= 0.0 || due_sum <= 0.0 {
            return None;
        }
        let share: Vec<f64> = got.iter().map(|got| got / got_sum).collect();
        let due: Vec<f64> = due.iter().map(|due| due / due_sum).collect();
        let relative: Vec<Option<f64>> =
            share.iter().zip(&due).map(|(share, due)| (*due > 0.0).then(|| share / due)).collect();
        let known: Vec<f64> = relative.iter().flatten().copied().collect();
        let count = known.len() as f64;
        let error = |relative: &f64| (relative - 1.0).abs();
        let error_max = known.iter().map(error).fold(0.0, f64::max);
        let error_mean = known.iter().map(error).sum::<f64>() / count;
        let (sum, squares) = (known.iter().sum::<f64>(), known.iter().map(|relative| relative * relative).sum::<f64>());
        let jain = if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) };
        Some(Self { share, due, relative, error_max, error_mean, jain })
    }

    /// The part of the service that went to the wrong party, doubled: the mean deviation of the
    /// relative shares from 1, weighted by due share.
    pub fn weighted_error(&self) -> f64 {
        self.share.iter().zip(&self.due).map(|(share, due)| (share - due).abs()).sum()
    }

    /// Deviation of one party's relative share from 1; `None` if nothing was due.
    pub fn error(&self, party: usize) -> Option<f64> {
        self.relative.get(party).copied().flatten().map(|relative| (relative - 1.0).abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weight;

    fn group(path: &str, weight: u32, jobs: Vec<Job>) -> Group {
        Group::new(path, Weight::new(weight).unwrap(), jobs)
    }

    fn due_of(groups: &[Group], capacity: f64) -> Vec<f64> {
        let weights: Vec<u32> = groups.iter().map(|group| group.weight.get()).collect();
        due(capacity, groups, &weights, ShareUnit::Bytes)
    }

    #[test]
    fn a_tree_divides_level_by_level() {
        let job = || vec![Job::default()];
        let groups = [
            group("a", 300, vec![]),
            group("a/x", 100, job()),
            group("a/y", 200, job()),
            group("b", 100, job()),
            // There is no group "c", so its weight is the default, 100.
            group("c/z", 777, job()),
        ];
        // 1000 as 3:1:1, then 600 as 1:2
        assert_eq!(due_of(&groups, 1000.0), [0.0, 200.0, 400.0, 200.0, 200.0]);
    }

    #[test]
    fn a_groups_own_jobs_compete_with_the_groups_below_it() {
        let job = || vec![Job::default()];
        let leaf_weight = Some(Weight::new(500).unwrap());
        let inner = Group { leaf_weight, ..group("a/x", 100, job()) };
        let groups = [
            Group { leaf_weight: Some(Weight::new(150).unwrap()), ..group("a", 300, job()) },
            inner,
            group("a/x/y", 100, job()),
            group("a/z", 50, job()),
            // `b` has no child groups.
            Group { leaf_weight, ..group("b", 100, job()) },
        ];
        // 800 as 3:1, then 600 as 150:100:50, then 200 as 500:100
        let due: Vec<f64> = due_of(&groups, 800.0).into_iter().map(f64::round).collect();
        assert_eq!(due, [300.0, 167.0, 33.0, 100.0, 200.0]);
    }

    #[test]
    fn a_rate_bounds_what_a_group_is_due() {
        let mut slow = Job::default().with(|job| job.threads = 2);
        slow.pacing.rate_ios_per_s.read = 10;
        let groups = [group("slow", 100, vec![slow]), group("fast", 100, vec![Job::default()])];
        // 2 threads x 10 requests x 4096 bytes
        let due: Vec<f64> = due_of(&groups, 1_000_000.0).into_iter().map(f64::round).collect();
        assert_eq!(due, [81_920.0, 918_080.0]);
        assert_eq!(demand_per_s(&groups[0], ShareUnit::Ios), Some(20.0));
    }

    #[test]
    fn a_player_wants_its_frames_and_no_more() {
        let player = hoistway_workload::program::Program::Video(hoistway_workload::program::Video::USUAL);
        let group = group("v", 100, vec![Job::of(player).with(|job| job.threads = 2)]);
        // 2 players x 25 frames of 64 KiB
        assert_eq!(demand_per_s(&group, ShareUnit::Bytes), Some(3_276_800.0));
        assert_eq!(demand_per_s(&group, ShareUnit::Ios), Some(50.0));
        let replay = hoistway_workload::program::Program::StartUp(hoistway_workload::program::StartUp::USUAL);
        assert_eq!(demand_per_s(&Group { jobs: vec![Job::of(replay)], ..group }, ShareUnit::Bytes), None);
    }

    #[test]
    fn a_limit_of_the_other_direction_does_not_bound() {
        let mut limited = group("a", 100, vec![Job::default()]);
        limited.limits.write_bytes_per_s = Some(5);
        assert_eq!(demand_per_s(&limited, ShareUnit::Bytes), None);
        limited.limits.read_bytes_per_s = Some(7);
        assert_eq!(demand_per_s(&limited, ShareUnit::Bytes), Some(7.0));
    }

    #[test]
    fn jain_and_the_weighted_error_of_known_shares() {
        // Due 1 : 3, got 2 : 2. Relative shares 2 and 2/3: (8/3)^2 / (2 * 40/9) = 0.8; errors 1 and
        // 1/3 weighted by 1/4 and 3/4.
        let fairness = Fairness::of(&[2.0, 2.0], &[1.0, 3.0]).unwrap();
        assert!((fairness.jain - 0.8).abs() < 1e-12 && (fairness.weighted_error() - 0.5).abs() < 1e-12);
        // A hundredth of the service goes to the wrong one of 2 tenants: each is 2 % off.
        let near = Fairness::of(&[51.0, 49.0], &[1.0, 1.0]).unwrap();
        assert!((near.weighted_error() - 0.02).abs() < 1e-12);
        // One of four has everything: the index is 1/4.
        let greedy = Fairness::of(&[1.0, 0.0, 0.0, 0.0], &[1.0; 4]).unwrap();
        assert!((greedy.jain - 0.25).abs() < 1e-12 && (greedy.weighted_error() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn a_group_that_got_nothing_is_wholly_wrong() {
        let fairness = Fairness::of(&[0.0, 10.0], &[1.0, 1.0]).unwrap();
        assert_eq!((fairness.error_max, fairness.error(0), fairness.jain), (1.0, Some(1.0), 0.5));
        assert_eq!(Fairness::of(&[0.0, 0.0], &[1.0, 1.0]), None);
    }
}
