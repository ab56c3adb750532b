//! The complete definition of one run of a test.

use hoistway_block::random::{fnv1a64, fnv1a64_continued};
use hoistway_block::{Nanos, Priority};
use hoistway_workload::Job;
use serde::{Deserialize, Serialize};

use crate::{Diagnostic, Group, GroupList, Machine, Reweigh, SchedulerSpec, group};

/// The limiter that enforces rate limits of groups as the kernel does.
pub const GROUP_LIMITER: &str = "throttle";
/// The limiter that enforces exact rates.
pub const EXACT_LIMITER: &str = "rate";
/// The limiter that enforces latency targets of groups.
pub const LATENCY_LIMITER: &str = "io.latency";

/// The unit of shares.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareUnit {
    /// Bytes completed.
    #[default]
    Bytes,
    /// Requests completed.
    Ios,
    /// Device time; only on hosts that know it.
    Time,
}

/// One run: these groups run these jobs on this target, under this scheduler, for this long.
///
/// A host needs nothing else to run it, and on the simulator equal experiments give equal
/// measurements.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Experiment {
    /// Target of the I/O: `model:sata`, a file, a directory, `/dev/...`. The host interprets it.
    pub target: String,
    /// Name of the workload in reports and in the run's path: `drr`, or the name of a job file.
    pub workload: String,
    /// The scheduler and its settings.
    pub scheduler: SchedulerSpec,
    /// Limiters above the scheduler with their settings, in the same format. Those that the groups'
    /// limits need are used even if they are not named ([`Experiment::limiters_needed`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limiters: Vec<SchedulerSpec>,
    /// The groups with their jobs; at least one has jobs.
    pub groups: GroupList,
    /// NR in tables: the factor of the thread count of each job, at least 1. The
    /// jobs' `threads` already include it, so hosts ignore it.
    pub threads: u32,
    /// Number of the repetition, from 1.
    pub set: u32,
    /// Seed of all random streams. Sets differ by their number; the schedulers of one set get the
    /// same load.
    pub seed: u64,
    /// Length of the measured window, in nanoseconds; [`Experiment::UNTIL_DONE_NS`] if all jobs end
    /// by themselves.
    pub runtime_ns: Nanos,
    /// Unmeasured time before the window, in nanoseconds.
    pub ramp_ns: Nanos,
    /// Commands that the device accepts at a time, at least 1; `None` means the device's own depth.
    pub device_depth: Option<u32>,
    /// Requests that the queue holds (`nr_requests`), at least 1; `None` means the host's default.
    pub queue_requests: Option<u32>,
    /// The unit of shares.
    pub share_unit: ShareUnit,
    /// The simulated computer; other hosts refuse anything but the default, because they run on a
    /// real one.
    #[serde(default, skip_serializing_if = "Machine::is_default")]
    pub machine: Machine,
}

/// One thread of a run.
#[derive(Copy, Clone, Debug)]
pub struct IssuerPlace<'a> {
    /// Index of its group in [`Experiment::groups`].
    pub group: usize,
    /// Index of its job in the group's jobs.
    pub job_index: usize,
    /// The job.
    pub job: &'a Job,
    /// Its number within the job, from 0.
    pub thread: u32,
}

impl IssuerPlace<'_> {
    /// The largest I/O that it issues, in bytes.
    pub fn largest_io_bytes(&self) -> u64 {
        let sizes =
            hoistway_workload::job::Direction::ALL.iter().map(|direction| self.job.shape.block_sizes.of(*direction));
        sizes.map(|size| u64::from(size.largest_bytes())).max().unwrap_or(0)
    }
}

impl Experiment {
    /// Value of [`Experiment::runtime_ns`] for runs that last until their jobs are done. Longer
    /// than any run, and small enough not to overflow sums.
    pub const UNTIL_DONE_NS: Nanos = 1 << 50;

    /// One run of these groups on a target until their jobs are done: without limiters, with seed 1,
    /// the host's own depths and no ramp. Change the other fields as needed.
    pub fn new(
        target: impl Into<String>,
        workload: impl Into<String>,
        scheduler: SchedulerSpec,
        groups: impl Into<GroupList>,
    ) -> Self {
        Self {
            target: target.into(),
            workload: workload.into(),
            scheduler,
            limiters: Vec::new(),
            groups: groups.into(),
            threads: 1,
            set: 1,
            seed: 1,
            runtime_ns: Self::UNTIL_DONE_NS,
            ramp_ns: 0,
            device_depth: None,
            queue_requests: None,
            share_unit: ShareUnit::Bytes,
            machine: Machine::default(),
        }
    }

    /// The same run of one group alone: the others keep their places and have no jobs.
    #[must_use]
    pub fn alone(mut self, group: usize) -> Self {
        let others = self.groups.iter_mut().enumerate().filter(|(other, _)| *other != group);
        others.for_each(|(_, group)| group.jobs.clear());
        self
    }

    /// Checks what can be checked without a host: lengths, counts, groups.
    pub fn check(&self) -> Result<(), Diagnostic> {
        if self.runtime_ns == 0 {
            return Err(Diagnostic::new("the measured time is 0", "give --runtime a time above 0, for example 10s"));
        }
        if self.threads == 0 {
            return Err(Diagnostic::new("0 threads per group", "thread counts begin at 1"));
        }
        for (index, limiter) in self.limiters.iter().enumerate() {
            if self.limiters[..index].iter().any(|other| other.name == limiter.name) {
                let message = format!("limiter '{}' is given twice", limiter.name);
                return Err(Diagnostic::new(message, "give it once, with all its settings: NAME:KEY=VALUE,KEY=VALUE"));
            }
            if let Some(version) = &limiter.version {
                let message = format!("limiter '{limiter}': limiters have no versions, nor '@{version}'");
                return Err(Diagnostic::new(message, format!("write {}", limiter.name)));
            }
        }
        if self.groups.iter().all(|group| group.jobs.is_empty()) {
            return Err(Diagnostic::new("no group has a job", "name a workload with --workload"));
        }
        self.check_reweighs()?;
        group::check(&self.groups)
    }

    fn check_reweighs(&self) -> Result<(), Diagnostic> {
        let wrong = |group: &Group, what: &str, help: &str| {
            Err(Diagnostic::new(format!("group '{}': {what}", group.path), help))
        };
        for group in &self.groups {
            let Some(Reweigh { at_ns, .. }) = group.reweigh else { continue };
            if at_ns >= self.length_ns() {
                return wrong(
                    group,
                    "its weight changes when the run is over",
                    "let it change earlier, or make the run longer",
                );
            }
            if group.is_in_root {
                return wrong(
                    group,
                    "a group in reports only has no weight that could change",
                    "leave cgroup=root out",
                );
            }
            if !self.limiters_needed().is_empty() {
                return wrong(group, "its weight changes during the run, beside limiters", "leave the limiters out");
            }
        }
        Ok(())
    }

    /// Fails if a group's weight changes during the run; for hosts that do not support this.
    ///
    /// # Errors
    /// A group's weight changes.
    pub fn check_weights_stay(&self) -> Result<(), Diagnostic> {
        let Some(group) = self.groups.iter().find(|group| group.reweigh.is_some()) else { return Ok(()) };
        let message =
            format!("the weight of group '{}' changes during the run, which only the simulator does", group.path);
        Err(Diagnostic::new(message, "leave reweigh= out, or use --host simulator"))
    }

    /// The limiter that enforces the groups' maximum rates where the kernel is simulated or used: its own,
    /// unless the exact one is named, or a group has what only that one can do.
    pub fn rates_by(&self) -> &'static str {
        let is_named = self.limiters.iter().any(|limiter| limiter.name == EXACT_LIMITER);
        let is_needed = self.groups.iter().any(|group| group.limits.needs_exact());
        if is_named || is_needed { EXACT_LIMITER } else { GROUP_LIMITER }
    }

    /// The limiters to use: those named, and those that enforce the groups' limits.
    pub fn limiters_needed(&self) -> Vec<SchedulerSpec> {
        let (mut needed, by) = (self.limiters.clone(), self.rates_by());
        for name in self.groups.iter().flat_map(|group| group.limits.limiters(by)) {
            if !needed.iter().any(|limiter| limiter.name == name) {
                needed.push(SchedulerSpec::named(name));
            }
        }
        needed
    }

    /// Seed of this run, from the user's seed and the set but not the scheduler, so that schedulers
    /// are compared under the same load.
    pub const fn run_seed(&self) -> u64 {
        fnv1a64_continued(fnv1a64(&self.seed.to_le_bytes()), &self.set.to_le_bytes())
    }

    /// Identifies this run among the runs of its test; also its path below `runs/` in a result
    /// directory.
    pub fn key(&self) -> String {
        let workload = self.workload.replace(['/', ':', ',', '='], "_");
        format!("{workload}/{}/nr{}/set{}", self.scheduler.slug(), self.threads, self.set)
    }

    /// Checksum of the experiment; a stored measurement belongs to it only if the checksums are
    /// equal.
    pub fn fingerprint(&self) -> u64 {
        // Plain data with string keys only, so serialising it to JSON cannot fail.
        fnv1a64(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The threads of the run in the order of [`Recorder`](crate::Recorder)'s indices.
    pub fn issuers(&self) -> impl Iterator<Item = IssuerPlace<'_>> {
        self.groups.iter().enumerate().flat_map(|(group, members)| {
            members.jobs.iter().enumerate().flat_map(move |(job_index, job)| {
                (0..job.threads).map(move |thread| IssuerPlace { group, job_index, job, thread })
            })
        })
    }

    /// I/O priority of a thread: that of its job, otherwise that of its group, otherwise none.
    pub fn priority_of(&self, place: &IssuerPlace<'_>) -> Priority {
        match place.job.priority() {
            Priority::NONE => Priority(self.groups[place.group].priority.unwrap_or(0)),
            given => given,
        }
    }

    /// Time from the start to the end of the run, in nanoseconds: ramp and window.
    pub const fn length_ns(&self) -> Nanos {
        self.ramp_ns.saturating_add(self.runtime_ns)
    }
}
