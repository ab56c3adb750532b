//! The description of one job as plain data, with everything that an issuer needs.
//!
//! A [`Job`] is the same for every host; it holds no file handle, clock or random state. It is
//! created by [`crate::name`] (the twelve workload codes) and [`crate::fio`] (job files), and used
//! by [`crate::Issuer`]. Units are part of the names. `Default` is fio's default of each option, so
//! that only differences need to be set.

use hoistway_block::Operation;
use serde::{Deserialize, Serialize};

use crate::goal::Goals;
use crate::output::Output;
pub use crate::replay::{Pace, Replay};

mod area;
mod course;
mod derived;
mod pacing;
mod shape;
mod source;
mod submission;

pub use area::{Amount, Area, FileOrder, Placement, Zones};
pub use course::{Affinity, Checks, Course, Ends, Priorities, PriorityShare, PrioritySplit, Reporting, Times};
pub use pacing::{Pacing, RateProcess, Think};
pub use shape::{BlockSize, Distribution, Mix, Pattern, Shape, SplitEntry, ZoneShare};
pub use source::{Input, Source};
pub use submission::{Engine, Submission, SyncKind};

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One value per data direction.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
    /// For trims (discards).
    pub trim: T,
}

impl<T: Clone> PerDirection<T> {
    /// The same value for all three.
    pub fn all(value: T) -> Self {
        Self { read: value.clone(), write: value.clone(), trim: value }
    }
}

impl<T> PerDirection<T> {
    /// The value of one direction.
    #[inline]
    pub fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
            Direction::Trim => &self.trim,
        }
    }

    /// The value of one direction, mutable.
    #[inline]
    pub fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
            Direction::Trim => &mut self.trim,
        }
    }
}

/// The direction of a data I/O.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Data is read from the device.
    Read,
    /// Data is written to the device.
    Write,
    /// Data is discarded.
    Trim,
}

impl Direction {
    /// All three, in the order of fio's triples.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

    /// The operation that the device gets.
    #[inline]
    pub const fn operation(self) -> Operation {
        match self {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
            Direction::Trim => Operation::Discard,
        }
    }
}

/// Settings that the job requests for its group; the experiment merges those of all jobs of a
/// group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupSettings {
    /// Weight, 1 to 10,000.
    pub weight: Option<u32>,
    /// Priority level, 0 to 7, for schedulers whose groups have levels instead of weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Limit of reads in bytes/s.
    pub read_bytes_per_s: Option<u64>,
    /// Limit of writes in bytes/s.
    pub write_bytes_per_s: Option<u64>,
    /// Limit of reads in I/Os per second.
    pub read_ios_per_s: Option<u64>,
    /// Limit of writes in I/Os per second.
    pub write_ios_per_s: Option<u64>,
    /// Soft limit ("high") in bytes/s.
    pub high_bytes_per_s: Option<u64>,
    /// Specification of the scheduler to run this job under.
    pub scheduler: Option<String>,
}

/// One job: `threads` identical issuers of one I/O sequence, with its options in groups. Its JSON
/// has no groups: each option stands beside the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Job {
    /// Name in results.
    pub name: String,
    /// Free text.
    pub description: String,
    /// The group (cgroup, tenant) that it runs in; empty means the root group.
    pub group: String,
    /// Settings that it requests for that group.
    #[serde(rename = "wishes")]
    pub group_settings: GroupSettings,
    /// Clones of this job (fio `numjobs`), at least 1.
    pub threads: u32,
    /// Number of threads of earlier jobs of the same file, which makes thread numbers and therefore
    /// random streams unique.
    pub first_thread: u32,
    /// What issues its I/Os, if no pattern does. At most one of these is set.
    #[serde(flatten)]
    pub source: Source,
    /// What its I/Os look like: directions, places and sizes.
    #[serde(flatten)]
    pub shape: Shape,
    /// Which files and which part of them it uses, and how much it transfers there.
    #[serde(flatten)]
    pub area: Area,
    /// How it calls the system: engine, depth, page cache and durability.
    #[serde(flatten)]
    pub submission: Submission,
    /// When it issues: rates and pauses.
    #[serde(flatten)]
    pub pacing: Pacing,
    /// Goals that it must achieve, and limits that end it.
    #[serde(skip_serializing_if = "is_default")]
    pub goals: Goals,
    /// The CPUs that its threads may run on.
    #[serde(flatten)]
    pub affinity: Affinity,
    /// Logs that are written about its I/Os.
    #[serde(skip_serializing_if = "is_default")]
    pub output: Output,
    /// What it verifies, and whether an error ends it.
    #[serde(flatten)]
    pub checks: Checks,
    /// When it starts and ends.
    #[serde(flatten)]
    pub times: Times,
    /// The I/O priorities of its requests.
    #[serde(flatten)]
    pub priorities: Priorities,
    /// Seed of this job instead of the run's.
    pub seed: Option<u64>,
    /// Its place among the jobs of a file: which run before it, and which end with it.
    #[serde(flatten)]
    pub course: Course,
    /// How results show it.
    #[serde(flatten)]
    pub reporting: Reporting,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            group: String::new(),
            group_settings: GroupSettings::default(),
            threads: 1,
            first_thread: 0,
            source: Source::default(),
            shape: Shape::default(),
            area: Area::default(),
            submission: Submission::default(),
            pacing: Pacing::default(),
            goals: Goals::default(),
            affinity: Affinity::default(),
            output: Output::default(),
            checks: Checks::default(),
            times: Times::default(),
            priorities: Priorities::default(),
            seed: None,
            course: Course::default(),
            reporting: Reporting::default(),
        }
    }
}

impl Job {
    /// This job with other options.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serde does not promise `deny_unknown_fields` beside `flatten`; this holds it.
    #[test]
    fn the_json_of_a_job_has_no_groups_and_no_unknown_options() {
        let job = Job::default().with(|job| {
            job.shape.mix = Mix::ReadWrite { read_percent: 70 };
            job.area.files = 2;
            job.submission.iodepth = 32;
            job.times.runtime_ns = Some(5);
        });
        let json = serde_json::to_string(&job).expect("plain data");
        let value: serde_json::Value = serde_json::from_str(&json).expect("it was written as JSON");
        let options = ["mix", "files", "iodepth", "rate_bytes_per_s", "continue_on_error", "runtime_ns", "phase"];
        assert_eq!(options.iter().find(|option| value.get(option).is_none()), None, "{json}");
        assert_eq!(serde_json::from_str::<Job>(&json).expect("it was written as JSON"), job);
        let unknown = json.replace("\"iodepth\"", "\"io_depth\"");
        let error = serde_json::from_str::<Job>(&unknown).expect_err("no such option").to_string();
        assert!(error.contains("unknown field `io_depth`"), "{error}");
    }
}
