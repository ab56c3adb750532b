//! fio's engines: which are supported, and what happens to a section with another one.
//!
//! Source: docs/specifications/harness.md, section 6.4.

use super::Surroundings;
use super::diagnostic::{Findings, Place, Severity};
use super::draft::Draft;
use super::expand::settings;
use super::lex::{Content, Line};
use crate::job::{Engine, Job};

/// Synchronous engines.
const SYNC: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];
/// Asynchronous engines.
const ASYNC: &[&str] = &["libaio", "io_uring", "io_uring_cmd", "posixaio"];

/// Whether hosts can do the engine's kind of I/O.
pub(super) fn is_known(name: &str) -> bool {
    SYNC.contains(&name) || ASYNC.contains(&name) || name == "null"
}

/// Stores the settings of a section. If its engine is refused, no other error is reported, because
/// its options may belong to that engine.
pub(super) fn section(draft: &mut Draft, lines: &[Line], findings: &mut Findings) {
    let named = lines.iter().rev().find_map(|line| match &line.content {
        Content::Setting { key, value: Some(value) } if key == "ioengine" => Some(value.as_str()),
        _ => None,
    });
    if is_known(named.unwrap_or(&draft.engine)) {
        settings(draft, lines, findings);
    } else {
        settings(draft, lines, &mut Findings::default());
    }
}

/// The name with which a job file selects the engine of a job, so that the job is the same when the
/// file is parsed again.
pub(super) fn name_of(job: &Job) -> &str {
    let name = job.submission.engine_name.as_str();
    // Buffered libaio would lose its depth.
    let is_serialised = name == "libaio" && !job.submission.direct && job.submission.iodepth > 1;
    match job.submission.engine {
        Engine::Sync if SYNC.contains(&name) => name,
        Engine::Sync => "psync",
        Engine::Async if ASYNC.contains(&name) && !is_serialised => name,
        Engine::Async => "io_uring",
        Engine::Null => "null",
    }
}

/// Reports that an engine is not supported, once per engine.
pub(super) fn refuse(name: &str, at: &Place, findings: &mut Findings) {
    let all = || SYNC.iter().chain(ASYNC).copied().chain(["null"]);
    let shown: String = name.chars().take(64).collect();
    let message = format!("engine '{shown}' is not supported");
    let help = match crate::suggest::nearest(name, all()) {
        Some(near) => format!("did you mean '{near}'? "),
        None => String::new(),
    };
    let known = all().collect::<Vec<_>>().join(", ");
    let help = format!("{help}supported are {known}; fio itself runs the file: hoistway test TARGET --generator fio");
    findings.error_once(at, message, help);
}

/// Maps a supported engine to the job's fields.
pub(super) fn choose<'a>(
    job: &mut Job,
    name: &str,
    surroundings: &Surroundings<'_>,
    at: impl Fn(&str) -> &'a Place,
    findings: &mut Findings,
) {
    name.clone_into(&mut job.submission.engine_name);
    job.submission.engine = match name {
        "null" => Engine::Null,
        _ if SYNC.contains(&name) => Engine::Sync,
        _ => Engine::Async,
    };
    match name {
        // A mapping always goes through the page cache, however the file was opened.
        "mmap" => {
            job.submission.direct = false;
            let message = "engine 'mmap' is run with pread and pwrite through the page cache";
            findings.remark(Severity::Note, at("ioengine"), message);
        }
        "splice" => {
            let message = "engine 'splice' is run with pread and pwrite";
            findings.remark(Severity::Note, at("ioengine"), message);
        }
        // Passthrough commands bypass the page cache.
        "io_uring_cmd" => {
            job.submission.direct = true;
            let message = "engine 'io_uring_cmd' is run as io_uring with direct=1";
            findings.remark(Severity::Note, at("ioengine"), message);
        }
        _ => {}
    }
    if job.submission.engine == Engine::Sync && job.submission.iodepth > 1 {
        let message = "both iodepth >= 1 and synchronous I/O engine are selected, queue depth will be capped at 1";
        findings.remark(Severity::Note, at("iodepth"), message);
    }
    let is_serialised = name == "libaio" && !job.submission.direct && !surroundings.buffered_async;
    if is_serialised && job.submission.iodepth > 1 {
        let message = "buffered libaio is synchronous, the depth is limited to 1; use direct=1, or --buffered-async";
        findings.remark(Severity::Note, at("iodepth"), message);
        job.submission.iodepth = 1;
    }
}
