//! What a tenant is entitled to, and how much of it he got: the yardstick of every view.
//!
//! A tenant can claim no more than it achieves alone, and no more than its part of the device by
//! weight; what the others leave of their parts is divided by weight again. That is weighted
//! max-min fairness with caps. Parts are parts of the device's time and not of its bytes: a tenant
//! uses `rate / rate of the device kept full with the same kind of request` of it, so that 4 KiB
//! requests beside 256 KiB ones can be judged. Purely arithmetical: no device, no host.
//! Source: docs/concepts/entitlement.md.

use hoistway_block::Nanos;
use serde::{Deserialize, Serialize};

use crate::measurement::SoloRates;
use crate::share::{Tree, limit_per_s, water_fill};
use crate::{Group, ShareUnit};

/// What one tenant can claim, in any unit of work per second.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Claim {
    /// Its weight, above 0.
    pub weight: f64,
    /// Its rate when it has the device to itself.
    pub alone_per_s: f64,
    /// The rate of the device when it is kept full with requests of this kind; at least
    /// `alone_per_s`, which replaces it if it is larger.
    pub full_per_s: f64,
}

impl Claim {
    /// The part of the device that it uses alone, 0 to 1.
    fn demand(&self) -> f64 {
        self.alone_per_s / self.capacity()
    }

    fn capacity(&self) -> f64 {
        self.full_per_s.max(self.alone_per_s).max(f64::MIN_POSITIVE)
    }
}

/// The rate that each tenant is entitled to while all of them want service, in its own unit.
pub fn entitled(claims: &[Claim]) -> Vec<f64> {
    let parties: Vec<(f64, Option<f64>)> = claims.iter().map(|claim| (claim.weight, Some(claim.demand()))).collect();
    water_fill(1.0, &parties).iter().zip(claims).map(|(part, claim)| part * claim.capacity()).collect()
}

/// How much of its entitlement each tenant got.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entitlement {
    /// What each tenant is entitled to per second: bytes, or I/Os if it transfers none.
    pub entitled_per_s: Vec<f64>,
    /// What it got, in the same unit.
    pub got_per_s: Vec<f64>,
    /// Got / entitled; more than 1 if others left it more. `None` if it is entitled to nothing.
    pub fulfilled: Vec<Option<f64>>,
    /// Got / entitled of the tenant that is worst off, 0 to 1: what is above the entitlement counts
    /// as all of it.
    pub isolation: f64,
    /// Index of the tenant that is worst off.
    pub worst: usize,
}

impl Entitlement {
    /// Compares amounts, tenant by tenant; `None` if no tenant is entitled to anything.
    pub fn of(got_per_s: Vec<f64>, entitled_per_s: Vec<f64>) -> Option<Self> {
        let fulfilled: Vec<Option<f64>> = got_per_s
            .iter()
            .zip(&entitled_per_s)
            .map(|(got, entitled)| (*entitled > 0.0).then(|| got / entitled))
            .collect();
        let known = fulfilled.iter().enumerate().filter_map(|(index, part)| Some((index, (*part)?)));
        let (worst, part) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Self { isolation: part.clamp(0.0, 1.0), worst, entitled_per_s, got_per_s, fulfilled })
    }
}

/// What each of `groups` is entitled to per second over the window from `from_ns` to `to_ns` after
/// the start of the run: level by level of the tree, and moment by moment where groups come and go.
///
/// One of `rates` per group; `None` if they are not known. In bytes, or in I/Os for a group that
/// transfers no bytes; 0 for groups without jobs.
pub fn of_groups(groups: &[Group], rates: &[SoloRates], (from_ns, to_ns): (Nanos, Nanos)) -> Option<Vec<f64>> {
    let busy = |index: usize| !groups[index].jobs.is_empty();
    let is_known = |index: usize| rates.get(index).is_some_and(SoloRates::is_full_known);
    if to_ns <= from_ns || !(0..groups.len()).all(|index| !busy(index) || is_known(index)) {
        return None;
    }
    let claim = |index: usize| {
        let (alone_per_s, full_per_s) = rates.get(index).map_or((0.0, 0.0), SoloRates::claimed);
        Claim { weight: f64::from(groups[index].weight.get()), alone_per_s, full_per_s }
    };
    let claims: Vec<Claim> = (0..groups.len()).map(claim).collect();
    let weights: Vec<u32> = groups.iter().map(|group| group.weight.get()).collect();
    let demands: Vec<Option<f64>> = claims.iter().map(|claim| Some(claim.demand())).collect();
    // A limit of a parent is in bytes; the child that is slowest to transfer them bounds its part.
    let limit = |group: &Group, members: &[usize]| {
        let limit = limit_per_s(group, members.iter().map(|&member| &groups[member]), ShareUnit::Bytes)?;
        let slowest = members.iter().map(|&member| claims[member].capacity()).reduce(f64::min)?;
        Some(limit / slowest)
    };
    let tree = Tree::new(groups, &weights, demands, &limit);
    let mut entitled = vec![0.0; groups.len()];
    for (start_ns, end_ns) in spans(groups, from_ns, to_ns) {
        let present = |index: &usize| {
            let group = &groups[*index];
            busy(*index) && group.start_ns <= start_ns && group.stop_ns.is_none_or(|stop_ns| stop_ns >= end_ns)
        };
        let leaves: Vec<usize> = (0..groups.len()).filter(present).collect();
        let mut parts = vec![0.0; groups.len()];
        tree.divide("", 1.0, &leaves, &mut parts);
        let of_window = (end_ns - start_ns) as f64 / (to_ns - from_ns) as f64;
        for (index, part) in parts.iter().enumerate() {
            entitled[index] += part * claims[index].capacity() * of_window;
        }
    }
    Some(entitled)
}

/// The window divided at every coming and going.
fn spans(groups: &[Group], from_ns: Nanos, to_ns: Nanos) -> Vec<(Nanos, Nanos)> {
    let changes = groups.iter().flat_map(|group| [Some(group.start_ns), group.stop_ns]).flatten();
    let mut edges: Vec<Nanos> = changes.filter(|at| (from_ns..to_ns).contains(at)).chain([from_ns, to_ns]).collect();
    edges.sort_unstable();
    edges.dedup();
    edges.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weight;
    use hoistway_workload::Job;

    fn claim(weight: f64, alone_per_s: f64, full_per_s: f64) -> Claim {
        Claim { weight, alone_per_s, full_per_s }
    }

    /// The three examples of docs/concepts/entitlement.md.
    #[test]
    fn the_examples_of_the_page() {
        let rounded = |claims: &[Claim]| entitled(claims).iter().map(|rate| rate.round()).collect::<Vec<_>>();
        // A database that uses a tenth of the device alone gets all of that, whatever its weight.
        assert_eq!(rounded(&[claim(100.0, 40.0, 400.0), claim(100.0, 400.0, 400.0)]), [40.0, 360.0]);
        // Three that fill the device: by weight.
        let full = [claim(800.0, 400.0, 400.0), claim(100.0, 400.0, 400.0), claim(100.0, 400.0, 400.0)];
        assert_eq!(rounded(&full), [320.0, 40.0, 40.0]);
        // 4 KiB reads, of which the device does 100 MiB/s, beside 256 KiB reads, of which it does 500.
        assert_eq!(rounded(&[claim(100.0, 100.0, 100.0), claim(100.0, 500.0, 500.0)]), [50.0, 250.0]);
    }

    #[test]
    fn a_rate_alone_above_that_of_the_full_device_is_the_capacity() {
        assert_eq!(entitled(&[claim(1.0, 100.0, 30.0), claim(1.0, 100.0, 30.0)]), [50.0, 50.0]);
        assert_eq!(entitled(&[claim(1.0, 0.0, 0.0), claim(1.0, 7.0, 7.0)]), [0.0, 7.0]);
    }

    #[test]
    fn isolation_is_that_of_the_group_that_is_worst_off() {
        let got = Entitlement::of(vec![50.0, 30.0, 0.0], vec![40.0, 60.0, 0.0]).unwrap();
        assert_eq!((got.isolation, got.worst, got.fulfilled[2]), (0.5, 1, None));
        assert!(Entitlement::of(vec![90.0, 70.0], vec![40.0, 60.0]).unwrap().isolation <= 1.0);
        assert_eq!(Entitlement::of(vec![0.0], vec![0.0]), None);
    }

    fn rates(alone: f64, full: f64) -> SoloRates {
        SoloRates { bytes_per_s: alone, full_bytes_per_s: full, ..SoloRates::default() }
    }

    fn group(path: &str, weight: u32) -> Group {
        Group::new(path, Weight::new(weight).unwrap(), vec![Job::default()])
    }

    #[test]
    fn groups_that_come_and_go_are_entitled_to_the_time_that_they_are_there() {
        let late = Group { start_ns: 60, ..group("late", 300) };
        let groups = [group("all", 100), late];
        // 10 to 60 alone, then 60 to 110 a quarter, in a window from 10 to 110.
        let entitled = of_groups(&groups, &[rates(100.0, 100.0); 2], (10, 110)).unwrap();
        assert_eq!(entitled, [50.0 + 12.5, 37.5]);
        assert_eq!(of_groups(&groups, &[rates(100.0, 0.0); 2], (10, 110)), None, "an old result");
        assert_eq!(of_groups(&groups, &[], (10, 110)), None);
    }

    #[test]
    fn a_limit_of_the_parent_binds_the_children_together() {
        let mut parent = group("p", 100);
        parent.jobs.clear();
        parent.limits.read_bytes_per_s = Some(30);
        let groups = [parent, group("p/a", 100), group("p/b", 200), group("q", 100)];
        let all = [SoloRates::default(), rates(30.0, 100.0), rates(30.0, 100.0), rates(100.0, 100.0)];
        let entitled: Vec<f64> = of_groups(&groups, &all, (0, 10)).unwrap().iter().map(|it| it.round()).collect();
        assert_eq!(entitled, [0.0, 10.0, 20.0, 70.0]);
    }
}
