//! Options of fio 3.34 to 3.42, which the version that this parser follows does not have. Those that
//! change nothing about the I/O are accepted, the others refused by name.

use super::options::Action::{Integer, Nothing};
use super::options::Class::{Honoured, NotYet, Refused};
use super::options::Row;
use super::table::{also, quiet, row};

const PROTECTION: &str = "an option of fio 3.35 and newer: no host sends protection information";
const PLACEMENT: &str = "an option of fio 3.36 and newer: no host sends placement identifiers";
const SPRANDOM: &str =
    "an option of fio 3.41 and newer: one sequential pass with rewrites; precondition with rw=randwrite and loops=2";
const COMMAND: &str = "an option of fio 3.35 and newer: io_uring_cmd is run as io_uring here";

const fn newer(name: &'static str, harmless: &'static [&'static str], why: &'static str, doc: &'static str) -> Row {
    row(name, &[], Refused, Nothing { harmless, why }, doc)
}

/// Rows, as in [`super::table::ROWS`].
pub const ROWS: &[Row] = &[
    row(
        "log_window_value",
        &[],
        Honoured,
        Integer(0, 1, |d, v| d.job.output.largest = v > 0),
        "The newer name of log_max_value.",
    ),
    quiet("log_issue_time", "an option of fio 3.37 and newer: logs have no column for it", "Log the time of issue."),
    quiet("job_start_clock_id", "the report has its own clock", "Clock of the start time in the report."),
    quiet("stat_type", "the report has its own figures", "Which figures the report has."),
    quiet(
        "thinkcycles",
        "an option of fio 3.34 and newer: threads sleep for the whole thinktime",
        "Busy cycles of thinktime.",
    ),
    quiet("xnvme_iovec", "it belongs to an engine that is not supported", "Vectors in the xnvme engine."),
    quiet("verify_header_interval", "headers are at every verify_interval", "Distance between headers."),
    newer("verify_pattern_interval", &["0"], "an option of fio 3.41 and newer", "Repeat the pattern at this distance."),
    row(
        "ramp_size",
        &[],
        NotYet,
        Nothing { harmless: &["0"], why: "an option of fio 3.41 and newer; ramp_time is supported" },
        "Bytes to transfer before measuring starts.",
    ),
    newer("sprandom", &["0"], SPRANDOM, "Precondition a drive as random writes would, in one pass."),
    newer("spr_op", &[], SPRANDOM, "Overprovisioning that sprandom assumes."),
    newer("spr_num_regions", &[], SPRANDOM, "Regions of sprandom."),
    newer("spr_cs", &[], SPRANDOM, "Cache of the drive that sprandom assumes."),
    newer("fdp", &["0"], PLACEMENT, "Send placement identifiers."),
    also(&["plids"], newer("fdp_pli", &[], PLACEMENT, "Placement identifiers.")),
    also(&["plid_select"], newer("fdp_pli_select", &[], PLACEMENT, "How identifiers are chosen.")),
    newer("dataplacement", &["none"], PLACEMENT, "Kind of placement: none, fdp, streams."),
    newer("dp_scheme", &[], PLACEMENT, "File with identifiers by offset."),
    newer("md_per_io_size", &["0"], PROTECTION, "Metadata bytes per I/O."),
    newer("pi_act", &[], PROTECTION, "Whether the drive makes the protection information."),
    newer("pi_chk", &[], PROTECTION, "What of it is checked."),
    newer("apptag", &[], PROTECTION, "Application tag."),
    newer("apptag_mask", &[], PROTECTION, "Mask of the application tag."),
    newer("write_mode", &["write"], COMMAND, "Command of writes."),
    newer("verify_mode", &["read"], COMMAND, "Command of verifying reads."),
    newer("deac", &["0"], COMMAND, "Deallocate with write zeroes."),
    newer("readfua", &["0"], COMMAND, "Read past the drive's cache."),
    newer("writefua", &["0"], COMMAND, "Write through the drive's cache."),
    newer("num_range", &["1"], "an option of fio 3.37 and newer: a discard has one range", "Ranges of a discard."),
    newer("recover_zbd_write_error", &["0"], super::setters::ZONES, "Go on after a failed write to a zone."),
];
