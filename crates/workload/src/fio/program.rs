//! Jobs that are programs (`program=`): which options apply and what the resulting job is.

use super::diagnostic::{Findings, Place, Severity};
use super::draft::Draft;
use super::expand::priorities;
use super::{Surroundings, engines, options};
use crate::job::{Amount, Job, Placement};
use crate::program::Program;

/// Options that mean the same for a program as for a pattern; all others have no effect on a
/// program.
const HONOURED: &[&str] = &[
    "name",
    "description",
    "filename",
    "directory",
    "filesize",
    "size",
    "offset",
    "offset_increment",
    "loops",
    "randseed",
    "ioengine",
    "invalidate",
    "numjobs",
    "group_reporting",
    "new_group",
    "stonewall",
    "wait_for",
    "startdelay",
    "exitall",
    "exit_what",
    "runtime",
    "time_based",
    "ramp_time",
    "prio",
    "prioclass",
    "nice",
    "cgroup",
    "cgroup_weight",
    "continue_on_error",
    "kb_base",
];

/// The options among them that messages list.
const COMMON: &str = "size, offset, runtime, loops, numjobs, startdelay, randseed, prio";

/// Whether an option applies to a program. Only the video player can either use or bypass the page
/// cache.
fn is_honoured(program: Program, option: &str) -> bool {
    HONOURED.contains(&option) || matches!(program, Program::Video(_)) && matches!(option, "direct" | "buffered")
}

/// The job of a draft with a program: the program's own fields, and those set by options that
/// apply.
pub(super) fn resolved<'a>(
    program: Program,
    draft: &'a Draft,
    surroundings: &Surroundings<'_>,
    at: impl Fn(&str) -> &'a Place,
    findings: &mut Findings,
) -> Job {
    for option in draft.given_at.keys().filter(|option| **option != "program" && !is_honoured(program, option)) {
        let message = format!("option '{option}' has no effect on program={}", program.name());
        findings.remark(Severity::Note, at(option), message);
    }
    let given = draft.job.clone();
    if given.times.time_based && given.times.runtime_ns.is_none() {
        findings.error(at("time_based"), "time_based needs a runtime", "add runtime=30, say");
    }
    let mut job = Job::default().with(|job| {
        job.source.program = Some(program);
        job.name = given.name;
        job.description = given.description;
        job.group = given.group;
        job.group_settings = given.group_settings;
        job.threads = given.threads;
        job.area.file = given.area.file;
        job.area.directory = given.area.directory;
        job.area.offset = given.area.offset;
        job.area.offset_increment = given.area.offset_increment;
        job.area.size = given.area.size.filter(|size| *size != Amount::Bytes(0));
        job.area.file_bytes = given.area.file_bytes;
        job.area.loops = given.area.loops;
        job.submission.direct = given.submission.direct;
        job.submission.invalidate = given.submission.invalidate;
        job.checks.continue_on_error = given.checks.continue_on_error;
        job.times.runtime_ns = given.times.runtime_ns;
        job.times.time_based = given.times.time_based;
        job.times.ramp_ns = given.times.ramp_ns;
        job.times.start_delay_ns = given.times.start_delay_ns;
        job.seed = given.seed;
        job.first_thread = given.first_thread;
        job.course.phase = given.course.phase;
        job.reporting.report_group = given.reporting.report_group;
        job.course.wait_for = given.course.wait_for;
        job.course.ends_phase = given.course.ends_phase;
        job.course.ends = given.course.ends;
        job.reporting.group_reporting = given.reporting.group_reporting;
    });
    engines::choose(&mut job, &draft.engine, surroundings, at, findings);
    program.describe(&mut job);
    // A program may choose another kind of engine than the file, whose name then no longer fits.
    job.submission.engine_name = engines::name_of(&job).to_owned();
    // As with patterns, a job without a file has one area per thread; threads that share a file get
    // separate parts of it.
    job.area.placement = if job.area.file.is_empty() { Placement::Own } else { Placement::Split };
    priorities(&mut job, draft);
    job
}

/// Stores one setting from the suffix of a workload name, in the program if the job is one,
/// otherwise in the job.
pub(super) fn override_one(draft: &mut Draft, key: &str, value: Option<&str>, place: &Place, findings: &mut Findings) {
    let Some(program) = &mut draft.job.source.program else {
        if key == "program" {
            return findings.error(
                place,
                "a suffix cannot make a program of a workload",
                "name it: copy, dbench, startup, video",
            );
        }
        return options::apply(draft, key, value, place, findings);
    };
    if let Some(own) = program.keys().iter().find(|own| own.name == key) {
        if let Err(message) = program.set(key, value.unwrap_or("")) {
            findings.error(place, message, format!("{key}: {} Allowed are {}.", own.doc, own.allowed));
        }
        return;
    }
    let program = *program;
    let own = || program.keys().iter().map(|own| own.name);
    let all = own().collect::<Vec<_>>().join(", ");
    let all = format!("{all}; and as in job files {COMMON}");
    match options::find(key) {
        Some(row) if is_honoured(program, row.name) => options::apply(draft, key, value, place, findings),
        Some(_) => {
            let message = format!("option '{key}' has no effect on {}", program.name());
            findings.error(place, message, format!("it takes {all}"));
        }
        None => {
            let hint = crate::suggest::did_you_mean(key, own().chain(HONOURED.iter().copied()));
            findings.error(
                place,
                format!("unknown setting '{key}' of {}", program.name()),
                format!("{hint}It takes {all}"),
            );
        }
    }
}
