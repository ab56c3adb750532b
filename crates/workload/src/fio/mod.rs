//! fio job files: read into jobs, or refused with every problem at its place (harness specification 6).
//!
//! ```text
//! bytes -> lex (lines, includes, variables) -> options (rows of table.rs) -> expand (sections -> jobs) -> Parsed
//!                                                                                 Jobs -> show -> the same file again
//! ```
//! An option either does what it does in fio, or is accepted with a note that says why it does nothing, or is refused.

mod checks;
mod diagnostic;
mod draft;
mod engines;
mod expand;
mod foreign;
mod goals;
mod lex;
mod options;
mod program;
mod show;
mod table;
pub(crate) mod units;
pub(crate) mod values;

use block::Nanos;

pub use diagnostic::{Diagnostic, MAX_ERRORS, Place, Severity};
pub use foreign::{on_target, only_reads};
pub use lex::{MAX_FILE_BYTES, MAX_INCLUDE_DEPTH, MAX_LINE_BYTES};
pub use options::Class;
pub use show::show;

use crate::job::Job;
use diagnostic::Findings;

/// Threads of all jobs of a file at most.
pub const MAX_THREADS: u32 = 10_000;
/// I/Os in flight of all threads of a file at most.
pub const MAX_IN_FLIGHT: u64 = 1 << 20;

/// What a job file may ask of its surroundings; this crate reads neither files nor the environment itself.
pub struct Surroundings<'a> {
    /// Reads an included file; the path is already relative to the including file. An error is one short reason.
    pub read_include: &'a dyn Fn(&str) -> Result<Vec<u8>, String>,
    /// Looks an environment variable up.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// `$pagesize`, in bytes.
    pub page_bytes: u64,
    /// `$mb_memory`, in MiB.
    pub memory_mib: u64,
    /// `$ncpus`.
    pub cpus: u64,
    /// Buffered libaio keeps its depth, although the kernel would serialise it (`--buffered-async`).
    pub buffered_async: bool,
}

impl Surroundings<'static> {
    /// No includes, no variables, and a small machine: for tests, fuzzing and literal texts.
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

/// Reads a job file. `name` is what messages call it; a slash in it is the base of relative includes.
///
/// # Errors
/// All problems found, at most [`MAX_ERRORS`], and the notes behind them.
pub fn parse(name: &str, bytes: &[u8], surroundings: &Surroundings<'_>) -> Result<Parsed, Vec<Diagnostic>> {
    let mut findings = Findings::default();
    let lines = lex::lex(name, bytes, surroundings, &mut findings);
    let jobs = expand::expand(name, &lines, surroundings, &mut findings);
    findings.finish().map(|notes| Parsed { jobs, notes })
}

/// Sets `key=value[,key=value]...` on a job, as the suffix of a workload code does.
///
/// A comma belongs to the value unless a `key=` follows it, so that triples such as `bs=4k,16k` pass.
///
/// # Errors
/// The problems found; they name `origin` (a flag, say) as the file.
pub fn override_job(job: Job, overrides: &str, origin: &str) -> Result<(Job, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut findings = Findings::default();
    let job = expand::overridden(job, overrides, origin, &mut findings);
    findings.finish().map(|notes| (job, notes))
}

/// All options that job files may name: name, what becomes of it, one sentence.
pub fn options() -> impl Iterator<Item = (&'static str, Class, &'static str)> {
    options::rows().map(|row| (row.name, row.class, row.doc))
}

/// A time as job files write it: in microseconds, the finest unit they know.
fn microseconds(time_ns: Nanos) -> u64 {
    time_ns / block::time::MICROSECOND
}
