//! Expands lists to runs: workloads x schedulers x thread counts x sets, by default in an order
//! that favours none of them.

use hoistway_block::Nanos;
use hoistway_block::random::{Stream, fnv1a64, fnv1a64_continued};
use serde::{Deserialize, Serialize};

use crate::{Experiment, GroupList, Machine, SchedulerSpec, ShareUnit};

/// The order of runs.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The loops, outermost first, are set, workload and thread count; within them the schedulers
    /// run in a random order drawn from the seed. Slow drift of the device becomes noise instead of
    /// favouring the scheduler that runs first.
    #[default]
    Interleaved,
    /// The loops, outermost first, are scheduler, set, workload and thread count, as in the test
    /// script iostest of 2010.
    Classic,
}

/// A workload with its name and the jobs of each group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// The name in reports.
    pub name: String,
    /// The groups with their jobs for one thread.
    pub groups: GroupList,
}

/// The lists that define a test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Matrix {
    /// Target of the I/O.
    pub target: String,
    /// The workloads.
    pub workloads: Vec<WorkloadPlan>,
    /// The schedulers, in the order of reports.
    pub schedulers: Vec<SchedulerSpec>,
    /// Limiters above each of them; see [`Experiment::limiters`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limiters: Vec<SchedulerSpec>,
    /// The thread counts (NR), each at least 1.
    pub threads: Vec<u32>,
    /// Number of repetitions, at least 1.
    pub sets: u32,
    /// Order of the runs.
    pub order: Order,
    /// Seed of the load and of the order.
    pub seed: u64,
    /// Measured time per run, in nanoseconds.
    pub runtime_ns: Nanos,
    /// Unmeasured time before it, in nanoseconds.
    pub ramp_ns: Nanos,
    /// See [`Experiment::device_depth`].
    pub device_depth: Option<u32>,
    /// See [`Experiment::queue_requests`].
    pub queue_requests: Option<u32>,
    /// The unit of shares.
    pub share_unit: ShareUnit,
    /// See [`Experiment::machine`].
    pub machine: Machine,
}

/// The thread counts of `--max-threads`: 1, 2, 4, ... and the maximum itself.
pub fn doubling(max_threads: u32) -> Vec<u32> {
    let mut counts: Vec<u32> =
        std::iter::successors(Some(1_u32), |&n| n.checked_mul(2)).take_while(|&n| n < max_threads).collect();
    counts.push(max_threads.max(1));
    counts
}

impl Matrix {
    /// All runs, in order.
    pub fn experiments(&self) -> Vec<Experiment> {
        match self.order {
            Order::Interleaved => (1..=self.sets).flat_map(|set| self.interleaved_set(set)).collect(),
            Order::Classic => self.classic(),
        }
    }

    /// The runs of one repetition with shuffled schedulers; also for sets beyond [`Matrix::sets`],
    /// if the precision requires more.
    pub fn interleaved_set(&self, set: u32) -> Vec<Experiment> {
        let mut experiments = Vec::new();
        for workload in &self.workloads {
            for threads in self.ascending_threads() {
                let mut schedulers: Vec<&SchedulerSpec> = self.schedulers.iter().collect();
                let place = format!("order/{}/nr{threads}/set{set}", workload.name);
                shuffle(&mut schedulers, &mut Stream::of(self.seed, &place));
                experiments.extend(schedulers.into_iter().map(|s| self.experiment(workload, s, threads, set)));
            }
        }
        experiments
    }

    fn classic(&self) -> Vec<Experiment> {
        let mut experiments = Vec::new();
        for scheduler in &self.schedulers {
            for set in 1..=self.sets {
                for workload in &self.workloads {
                    let runs = self.ascending_threads().into_iter();
                    experiments.extend(runs.map(|threads| self.experiment(workload, scheduler, threads, set)));
                }
            }
        }
        experiments
    }

    fn ascending_threads(&self) -> Vec<u32> {
        let mut counts = self.threads.clone();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    fn experiment(&self, workload: &WorkloadPlan, scheduler: &SchedulerSpec, threads: u32, set: u32) -> Experiment {
        let mut groups = workload.groups.clone();
        // Changing the groups would copy the shared list.
        if threads > 1 {
            for job in groups.iter_mut().flat_map(|group| &mut group.jobs) {
                job.threads = job.threads.saturating_mul(threads);
                job.first_thread = job.first_thread.saturating_mul(threads);
            }
        }
        Experiment {
            target: self.target.clone(),
            workload: workload.name.clone(),
            scheduler: scheduler.clone(),
            groups,
            threads,
            set,
            seed: self.seed,
            runtime_ns: self.runtime_ns,
            ramp_ns: self.ramp_ns,
            device_depth: self.device_depth,
            queue_requests: self.queue_requests,
            limiters: self.limiters.clone(),
            share_unit: self.share_unit,
            machine: self.machine.clone(),
        }
    }

    /// Checksum of the plan; a result directory is resumed only if it is equal.
    pub fn fingerprint(&self) -> u64 {
        self.experiments()
            .iter()
            .fold(fnv1a64(&[]), |hash, experiment| fnv1a64_continued(hash, &experiment.fingerprint().to_le_bytes()))
    }
}

/// Shuffles uniformly (Fisher-Yates).
pub fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for last in (1..items.len()).rev() {
        let other = usize::try_from(stream.below(last as u64 + 1)).unwrap_or(last);
        items.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, Weight};
    use hoistway_workload::Job;

    fn matrix(order: Order) -> Matrix {
        let job = Job::default().with(|job| job.threads = 2);
        let groups = vec![Group::new("g", Weight::DEFAULT, vec![job])];
        Matrix {
            target: "model:null".into(),
            workloads: ["drr", "bsr"]
                .map(|name| WorkloadPlan { name: name.into(), groups: groups.clone().into() })
                .into(),
            schedulers: ["a", "b", "c", "d"].map(SchedulerSpec::named).into(),
            threads: vec![4, 1],
            sets: 3,
            order,
            seed: 1,
            runtime_ns: 1,
            ramp_ns: 0,
            device_depth: None,
            queue_requests: None,
            limiters: Vec::new(),
            share_unit: ShareUnit::Bytes,
            machine: Machine::default(),
        }
    }

    fn place(e: &Experiment) -> (u32, &str, u32, &str) {
        (e.set, &e.workload, e.threads, &e.scheduler.name)
    }

    #[test]
    fn interleaved_runs_shuffle_the_schedulers_inside_each_row() {
        let runs = matrix(Order::Interleaved).experiments();
        let rows: Vec<_> = runs.chunks(4).map(|row| (row[0].set, row[0].workload.as_str(), row[0].threads)).collect();
        let expected = [(1, "drr", 1), (1, "drr", 4), (1, "bsr", 1), (1, "bsr", 4)];
        assert_eq!(rows[..4], expected);
        let orders: Vec<Vec<&str>> = runs.chunks(4).map(|row| row.iter().map(|e| place(e).3).collect()).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, ["a", "b", "c", "d"]);
        }
        assert!(orders.iter().any(|order| *order != orders[0]), "twelve equal permutations");
        assert_eq!(runs, matrix(Order::Interleaved).experiments());
    }

    #[test]
    fn classic_runs_nest_with_the_scheduler_outermost() {
        let runs = matrix(Order::Classic).experiments();
        assert_eq!(runs.len(), 48);
        assert_eq!(place(&runs[0]), (1, "drr", 1, "a"));
        assert_eq!(place(&runs[1]), (1, "drr", 4, "a"));
        assert_eq!(place(&runs[2]), (1, "bsr", 1, "a"));
        assert_eq!(place(&runs[4]), (2, "drr", 1, "a"));
        assert_eq!(place(&runs[12]), (1, "drr", 1, "b"));
    }

    #[test]
    fn a_thread_count_multiplies_the_threads_of_the_jobs() {
        let runs = matrix(Order::Classic).experiments();
        assert_eq!((runs[1].threads, runs[1].groups[0].jobs[0].threads), (4, 8));
        assert_eq!(runs[1].issuers().count(), 8);
    }

    #[test]
    fn thread_counts_double_up_to_the_maximum() {
        assert_eq!(doubling(8), [1, 2, 4, 8]);
        assert_eq!(doubling(6), [1, 2, 4, 6]);
        assert_eq!(doubling(1), [1]);
    }

    #[test]
    fn another_seed_is_another_plan() {
        let other = Matrix { seed: 2, ..matrix(Order::Classic) };
        assert_ne!(other.fingerprint(), matrix(Order::Classic).fingerprint());
    }
}
