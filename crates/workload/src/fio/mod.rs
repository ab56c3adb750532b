//! Parses fio job files into jobs, or reports every problem with its place.
//!
//! ```text
//! bytes -> lex (lines, includes, variables) -> options (rows of table.rs) -> expand (sections -> jobs) -> Parsed
//!                                                                                 Jobs -> show -> the same file again
//! ```
//! Each option works as in fio, is accepted with a note why it has no effect, or is refused.
//! Source: docs/specifications/harness.md, section 6.

mod checks;
mod diagnostic;
mod draft;
mod engines;
mod expand;
mod fio_only;
mod goals;
mod lex;
mod newer;
mod options;
mod output_table;
mod program;
mod setters;
mod show;
mod table;
pub(crate) mod units;
pub(crate) mod values;

use hoistway_block::Nanos;

pub use diagnostic::{Diagnostic, MAX_ERRORS, Place, Severity};
pub use fio_only::{on_target, only_reads};
pub use lex::{MAX_FILE_BYTES, MAX_INCLUDE_DEPTH, MAX_LINE_BYTES};
pub use options::Class;
pub use show::show;

use crate::job::Job;
use diagnostic::Findings;

/// Maximum number of threads of all jobs of a file.
pub const MAX_THREADS: u32 = 10_000;
/// Maximum number of I/Os in flight of all threads of a file.
pub const MAX_IN_FLIGHT: u64 = 1 << 20;

/// What a job file may ask its environment for; this crate reads neither files nor environment
/// variables itself.
pub struct Surroundings<'a> {
    /// Reads an included file. The path is already relative to the including file. The error is a
    /// short reason.
    pub read_include: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
    /// Returns the value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// `$pagesize`, in bytes.
    pub page_bytes: u64,
    /// `$mb_memory`, in MiB.
    pub memory_mib: u64,
    /// `$ncpus`.
    pub cpus: u64,
    /// Whether buffered libaio keeps its depth although the kernel would serialise it
    /// (`--buffered-async`).
    pub buffered_async: bool,
}

impl Surroundings<'static> {
    /// An environment without includes and variables on a small machine, for tests, fuzzing and
    /// literal texts.
    pub fn none() -> Self {
        Self {
            read_include: &|_| Err("includes are not available here".to_owned()),
            variable: &|_| None,
            page_bytes: 4096,
            memory_mib: 1024,
            cpus: 1,
            buffered_async: false,
        }
    }
}

/// A file that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
    /// Notes and warnings.
    pub notes: Vec<Diagnostic>,
}

/// Parses a job file. `name` is used in messages; its directory is the base of relative includes.
///
/// ```
/// use hoistway_workload::fio::{self, Surroundings};
///
/// let text = b"[global]\nbs=4k\ndirect=1\n[reader]\nrw=randread\niodepth=8\n[log]\nrw=write\nfsync=1\n";
/// let file = fio::parse("oltp.fio", text, &Surroundings::none()).unwrap();
/// let jobs: Vec<_> = file.jobs.iter().map(|job| (job.name.as_str(), job.submission.iodepth, job.submission.fsync_every)).collect();
/// assert_eq!(jobs, [("reader", 8, 0), ("log", 1, 1)]);
///
/// let errors = fio::parse("oltp.fio", b"[reader]\nrw=randred\n", &Surroundings::none()).unwrap_err();
/// assert!(errors[0].to_string().contains("randread"), "{}", errors[0]);
/// ```
///
/// # Errors
/// All problems, at most [`MAX_ERRORS`], followed by the notes.
pub fn parse(name: &str, bytes: &[u8], surroundings: &Surroundings<'_>) -> Result<Parsed, Vec<Diagnostic>> {
    let mut findings = Findings::default();
    let lines = lex::lex(name, bytes, surroundings, &mut findings);
    let jobs = expand::expand(name, &lines, surroundings, &mut findings);
    findings.finish().map(|notes| Parsed { jobs, notes })
}

/// Applies `key=value[,key=value]...` to a job, as the suffix of a workload code does.
///
/// A comma belongs to the value unless `key=` follows it, so that triples such as `bs=4k,16k` are
/// possible.
///
/// # Errors
/// The problems; they name `origin` (a flag, for example) as the file.
pub fn override_job(job: Job, overrides: &str, origin: &str) -> Result<(Job, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut findings = Findings::default();
    let job = expand::overridden(job, overrides, origin, &mut findings);
    findings.finish().map(|notes| (job, notes))
}

/// All options of job files: name, class, one sentence.
pub fn options() -> impl Iterator<Item = (&'static str, Class, &'static str)> {
    options::rows().map(|row| (row.name, row.class, row.doc))
}

/// A time in microseconds, the finest unit of job files.
fn microseconds(time_ns: Nanos) -> u64 {
    time_ns / hoistway_block::time::MICROSECOND
}
