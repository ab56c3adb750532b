//! The loads of solo runs: a group alone, and the device kept full with requests of its kind.
//!
//! Both rates say what the group is entitled to beside the others. Plain descriptions: the
//! caller runs them. Source: docs/concepts/entitlement.md.

use hoistway_workload::job::{Engine, Job, PerDirection, Think};

use crate::{Group, Limits};

/// The most I/Os that the group keeps outstanding.
pub fn outstanding(group: &Group) -> u32 {
    group.jobs.iter().map(|job| job.threads.saturating_mul(job.effective_depth())).fold(0, u32::saturating_add)
}

/// The group with as many requests outstanding as all groups of the test together, without limits,
/// rates and pauses: the device as full as this test can make it, with this kind of request.
pub fn crowd(group: &Group, population: u32) -> Group {
    let times = population.div_ceil(outstanding(group).max(1)).max(1);
    let more = |job: &Job| {
        let job = Job {
            think: Think::default(),
            rate_bytes_per_s: PerDirection::default(),
            rate_ios_per_s: PerDirection::default(),
            ..job.clone()
        };
        let has_syncs = job.fsync_every > 0 || job.fdatasync_every > 0 || job.end_fsync;
        if job.direct && job.program.is_none() && !has_syncs {
            // By depth and not by threads, because each thread may need a file of its own.
            let iodepth = job.effective_depth().saturating_mul(times);
            Job { engine: Engine::Async, iodepth, ..job }
        } else {
            Job { threads: job.threads.saturating_mul(times), ..job }
        }
    };
    Group { limits: Limits::default(), jobs: group.jobs.iter().map(more).collect(), ..group.clone() }
}
