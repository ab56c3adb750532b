//! From texts to an experiment, for a program with options of its own, as the command `hoistway` has
//! them: what the notations of groups, workloads, limiters and times mean, and whether a host can make
//! the runs.
//!
//! ```
//! use hoistway::plan::{groups, workloads};
//!
//! let (name, jobs) = workloads::of_name("randread:iodepth=32", &[])?;
//! let db = groups::describe("name=db,weight=800")?.with_jobs(&jobs, &[])?;
//! assert_eq!((name.as_str(), db.weight.get(), db.jobs.len()), ("randread:iodepth=32", 800, 1));
//! # Ok::<(), hoistway::Error>(())
//! ```

pub mod check;
pub mod groups;
pub mod limiters;
pub mod machine;
pub mod times;
pub mod workloads;

/// The schedulers to compare when none is named: the kernel's usual choices and our own.
pub const USUAL_SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "bfq", "paternoster"];
/// The workload of groups that name none.
pub const DEFAULT_WORKLOAD: &str = "randread";
