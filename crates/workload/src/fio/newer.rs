//! Options that fio has had only since 3.34, up to 3.43: the version that this parser follows, 3.33,
//! refuses them. Those that change nothing about the I/O are accepted, the others refused by name.
//! Source: fio's `options.c`, `engines/io_uring.c`, `engines/fileoperations.c`, `engines/xnvme.c`. The
//! version that brought an option is not named, because fio does not record it.

use super::options::Action::Nothing;
use super::options::Class::{NotYet, Refused};
use super::options::Row;
use super::setters::ZONES;
use super::table::{also, quiet, row};

const PROTECTION: &str = "newer than fio 3.33; no host sends protection information";
const PLACEMENT: &str = "newer than fio 3.33; no host sends placement identifiers";
const SPRANDOM: &str =
    "newer than fio 3.33: one sequential pass with rewrites; precondition with rw=randwrite and loops=2";
const COMMAND: &str = "newer than fio 3.33; io_uring_cmd is run as io_uring here";

const fn newer(name: &'static str, harmless: &'static [&'static str], why: &'static str, doc: &'static str) -> Row {
    row(name, &[], Refused, Nothing { harmless, why }, doc)
}

/// Rows, as in [`super::table::ROWS`].
pub const ROWS: &[Row] = &[
    quiet("log_issue_time", "newer than fio 3.33; logs have no column for it", "Log the time of issue."),
    quiet("job_start_clock_id", "the report has its own clock", "Clock of the start time in the report."),
    quiet("comm", "threads have the name of their job", "Name of the process in ps and top."),
    quiet("gpu_dev_id", "the memory of I/Os is the host's", "GPU whose memory is used."),
    quiet("stat_type", "the report has its own figures", "Which call the filestat engine makes."),
    quiet("thinkcycles", "newer than fio 3.33; threads sleep for the whole thinktime", "Busy cycles of thinktime."),
    quiet("xnvme_iovec", "it belongs to an engine that is not supported", "Vectors in the xnvme engine."),
    newer("verify_pattern_interval", &["0"], "newer than fio 3.33", "Repeat the pattern at this distance."),
    row(
        "ramp_size",
        &[],
        NotYet,
        Nothing { harmless: &[], why: "newer than fio 3.33; ramp_time is supported" },
        "Bytes to transfer before measuring starts.",
    ),
    row(
        "end_syncfs",
        &[],
        NotYet,
        Nothing { harmless: &["0"], why: "newer than fio 3.33; end_fsync is supported" },
        "Call syncfs at the end.",
    ),
    newer("sprandom", &["0"], SPRANDOM, "Precondition a drive as random writes would, in one pass."),
    newer("spr_op", &[], SPRANDOM, "Overprovisioning that sprandom assumes."),
    newer("spr_num_regions", &[], SPRANDOM, "Regions of sprandom."),
    newer("spr_cs", &[], SPRANDOM, "Cache of the drive that sprandom assumes."),
    newer("fdp", &["0"], PLACEMENT, "Send placement identifiers."),
    also(&["fdp_pli"], newer("plids", &[], PLACEMENT, "Placement identifiers.")),
    also(&["fdp_pli_select"], newer("plid_select", &[], PLACEMENT, "How identifiers are chosen.")),
    also(&["data_placement"], newer("dataplacement", &["none"], PLACEMENT, "Kind of placement: none, fdp, streams.")),
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
    newer("num_range", &["1"], "newer than fio 3.33; a discard has one range", "Ranges of a discard."),
    newer("recover_zbd_write_error", &["0"], ZONES, "Go on after a failed write to a zone."),
    newer("write_zone_remainder", &["0"], ZONES, "Write the rest of a zone that is smaller than a block."),
];
