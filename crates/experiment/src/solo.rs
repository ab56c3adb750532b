//! The loads of solo runs: a group alone, and the device kept full with requests of its kind.
//!
//! Both rates say what the group is entitled to beside the others. Plain descriptions: the
//! caller runs them. Source: docs/concepts/entitlement.md.

use hoistway_workload::job::{Engine, Job, PerDirection, Think};

use crate::group::LowLimits;
use crate::{Group, Limits, Weight};

/// Whether these groups can be judged by what each achieves alone: several share the device, and none
/// is a recording, which has no rate of its own.
pub fn is_judged(groups: &[Group]) -> bool {
    let is_recorded = groups.iter().flat_map(|group| &group.jobs).any(|job| job.source.replay.is_some());
    groups.iter().filter(|group| !group.jobs.is_empty()).count() > 1 && !is_recorded
}

/// The groups of a run of the one at `index` alone: below its parents that have limits, for all of
/// the run, at the default weight. It is the last one.
pub fn alone(groups: &[Group], index: usize) -> Vec<Group> {
    let group = &groups[index];
    let is_parent = |other: &&Group| {
        let is_above = group.path.strip_prefix(other.path.as_str()).is_some_and(|rest| rest.starts_with('/'));
        is_above && other.limits != Limits::default()
    };
    let idle = |parent: &Group| Group { jobs: Vec::new(), limits: hard(&parent.limits), ..parent.clone() };
    groups.iter().filter(is_parent).map(idle).chain([there(group)]).collect()
}

/// The group of a run in which the one at `index` keeps the device full ([`crowd`]).
pub fn full(groups: &[Group], index: usize) -> Vec<Group> {
    let population = groups.iter().map(outstanding).fold(0, u32::saturating_add);
    vec![there(&crowd(&groups[index], population))]
}

/// The groups of a solo run without the names that do not matter to its rate, so that groups which
/// differ only in them share the run.
pub fn nameless(mut groups: Vec<Group>) -> Vec<Group> {
    let has_parents = groups.len() > 1;
    if let Some(group) = groups.last_mut() {
        let nameless = |job: &Job| {
            job.clone().with(|job| {
                job.name = String::new();
                job.group = String::new();
            })
        };
        group.jobs = group.jobs.iter().map(nameless).collect();
        if !has_parents {
            group.path.clear();
        }
    }
    groups
}

fn there(group: &Group) -> Group {
    Group {
        weight: Weight::DEFAULT,
        leaf_weight: None,
        start_ns: 0,
        stop_ns: None,
        limits: hard(&group.limits),
        ..group.clone()
    }
}

/// The limits that bind a group by itself: rates, but neither a target of latency, which binds its
/// siblings, nor a best-effort rate.
pub fn hard(limits: &Limits) -> Limits {
    Limits { low: LowLimits::NONE, latency_target_us: 0, ..*limits }
}

/// The most I/Os that the group keeps outstanding.
pub fn outstanding(group: &Group) -> u32 {
    group.jobs.iter().map(|job| job.threads.saturating_mul(job.effective_depth())).fold(0, u32::saturating_add)
}

/// The group with as many requests outstanding as all groups of the test together, without limits,
/// rates and pauses: the device as full as this test can make it, with this kind of request.
pub fn crowd(group: &Group, population: u32) -> Group {
    let times = population.div_ceil(outstanding(group).max(1)).max(1);
    let more = |job: &Job| {
        let job = job.clone().with(|job| {
            job.pacing.think = Think::default();
            job.pacing.rate_bytes_per_s = PerDirection::default();
            job.pacing.rate_ios_per_s = PerDirection::default();
        });
        let has_syncs =
            job.submission.fsync_every > 0 || job.submission.fdatasync_every > 0 || job.submission.end_fsync;
        if job.submission.direct && job.source.program.is_none() && !has_syncs {
            // By depth and not by threads, because each thread may need a file of its own.
            let iodepth = job.effective_depth().saturating_mul(times);
            job.with(|job| {
                job.submission.engine = Engine::Async;
                job.submission.iodepth = iodepth;
            })
        } else {
            job.with(|job| job.threads = job.threads.saturating_mul(times))
        }
    };
    Group { limits: Limits::default(), jobs: group.jobs.iter().map(more).collect(), ..group.clone() }
}
