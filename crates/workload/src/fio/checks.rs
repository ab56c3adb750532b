//! The options that check data: `verify` and related ones.

use super::diagnostic::{Findings, Place, Severity};
use super::draft::Draft;
use super::options::Action::{Flag, Integer, Switch, Text};
use super::options::Class::Honoured;
use super::options::{Outcome, Row};
use super::table::{not_yet, quiet, row};
use super::values::not_one_of;
use crate::job::{Direction, Job, Pattern};
use crate::verify::{self, Kind, Verify};

const U32: u64 = u32::MAX as u64;
/// Length of a header without its checksum. As in fio, it is the minimum of `verify_offset` and
/// half the minimum of `verify_interval`.
const HEADER_BYTES: u64 = 40;
/// The least that `verify_interval` may be set to.
pub(super) const LEAST_VERIFY_INTERVAL_BYTES: u64 = 2 * HEADER_BYTES;

/// Rows, as in [`super::table::ROWS`].
pub const ROWS: &[Row] = &[
    row(
        "verify",
        &[],
        Honoured,
        Text(kind),
        "Checksum or pattern for checking data: crc32c, md5, sha256, xxhash, pattern, meta, ...",
    ),
    row("do_verify", &[], Honoured, Switch(|d, on| d.verify.reads_back = on), "Read written data back and check it."),
    row(
        "verify_only",
        &[],
        Honoured,
        Flag(|d, on| d.verify.only_checks = on),
        "Write nothing, and check the data of an earlier run.",
    ),
    row(
        "verify_interval",
        &[],
        Honoured,
        Integer(LEAST_VERIFY_INTERVAL_BYTES, 1 << 30, |d, v| d.verify.interval_bytes = small(v)),
        "Distance between headers in bytes.",
    ),
    row(
        "verify_offset",
        &[],
        Honoured,
        Integer(HEADER_BYTES, 1 << 30, |d, v| d.verify.header_offset_bytes = small(v)),
        "Position of the header in its interval.",
    ),
    row("verify_pattern", &[], Honoured, Text(pattern), "Data to write: 0xBYTES, numbers, \"text\", %o (the offset)."),
    row(
        "verify_backlog",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.verify.backlog = small(v)),
        "Read back after this number of blocks.",
    ),
    row(
        "verify_backlog_batch",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.verify.backlog_batch = small(v)),
        "Number of blocks to check then.",
    ),
    row("verify_fatal", &[], Honoured, Switch(|d, on| d.verify.is_fatal = on), "End the thread at a damaged block."),
    row(
        "verify_write_sequence",
        &[],
        Honoured,
        Switch(|d, on| d.verify.checks_order = on),
        "Check that a block comes from the last write to its offset.",
    ),
    quiet(
        "verify_dump",
        "the first damaged block is reported with both values, without a dump",
        "Dump damaged blocks.",
    ),
    quiet("verify_async", "blocks are checked at completion", "Number of threads that check."),
    quiet("verify_async_cpus", "blocks are checked at completion", "CPUs of these threads."),
    quiet("verifysort", "it has no effect in fio either", "Sort the reads."),
    quiet("verifysort_nr", "it has no effect in fio either", "Sort the reads."),
    quiet("verify_state_save", "no state is saved", "Save the state of checking at the end."),
    not_yet("verify_state_load", &["0"], "no state is loaded", "Load the state of an earlier run."),
    quiet("verify_header_seed", "the seed is not compared", "Check the seed in the header."),
    quiet(
        "experimental_verify",
        "the same blocks are read back",
        "Repeat the random sequence instead of storing offsets.",
    ),
];

fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn kind(draft: &mut Draft, text: &str) -> Outcome {
    let name = match text {
        "0" => {
            draft.verify_kind = None;
            return Ok(());
        }
        "crc32c-intel" => "crc32c",
        name => name,
    };
    let known = Kind::NAMES.iter().find(|(known, _)| *known == name);
    let (_, kind) = known.ok_or_else(|| not_one_of(text, &Kind::NAMES.map(|(name, _)| name)))?;
    draft.verify_kind = Some(*kind);
    Ok(())
}

fn pattern(draft: &mut Draft, text: &str) -> Outcome {
    draft.verify.pattern = verify::Pattern::parse(text)?;
    Ok(())
}

/// Resolves `verify` and the options that accompany it, once block sizes and directions are known.
pub(super) fn resolve<'a>(job: &mut Job, draft: &Draft, at: impl Fn(&str) -> &'a Place, findings: &mut Findings) {
    job.checks.verify = None;
    let Some(kind) = draft.verify_kind else { return };
    let mut verify = Verify { kind, ..draft.verify.clone() };
    let sizes = job.shape.mix.directions().iter().filter(|direction| **direction != Direction::Trim);
    let sizes: Vec<_> = sizes.map(|direction| job.shape.block_sizes.of(*direction)).collect();
    let least = sizes.iter().map(|size| size.smallest_bytes()).min().unwrap_or(4096);
    let most = sizes.iter().map(|size| size.largest_bytes()).max().unwrap_or(4096);
    // As in fio, the interval must divide all block sizes.
    let interval = verify.interval_bytes.min(least);
    let fits = |interval: u32| interval > 0 && least.is_multiple_of(interval) && most.is_multiple_of(interval);
    verify.interval_bytes = match interval {
        _ if job.shape.sizes_unaligned => 0,
        0 if least == most => 0,
        interval if fits(interval) => interval,
        _ => greatest_common_divisor(least, most),
    };
    let part = if verify.interval_bytes > 0 { verify.interval_bytes } else { least };
    let head = small(kind.head_bytes() as u64);
    if head >= part {
        let message =
            format!("a part of {part} bytes does not hold the header of {head} bytes of verify={}", kind.name());
        let place = if verify.interval_bytes > 0 { "verify_interval" } else { "verify" };
        findings.error(at(place), message, "make the blocks larger, or use another verify");
    }
    let offset = verify.header_offset_bytes;
    if head > 0 && offset > 0 && (offset < head || offset + head > part) {
        let message = format!("a header of {head} bytes at {offset} does not fit into a part of {part} bytes");
        findings.error(at("verify_offset"), message, format!("write {head} to {}", part.saturating_sub(head)));
    }
    if kind == Kind::Pattern && verify.pattern.is_empty() {
        findings.error(at("verify"), "verify=pattern needs a verify_pattern", "add verify_pattern=0xdeadbeef, say");
    }
    remark(job, &verify, at, findings);
    job.checks.verify = Some(Box::new(verify));
}

/// Warns, as fio does, about data that may be reported as damaged or may not be checked.
fn remark<'a>(job: &Job, verify: &Verify, at: impl Fn(&str) -> &'a Place, findings: &mut Findings) {
    if !job.shape.mix.has_writes() || !verify.reads_back {
        return;
    }
    if job.threads > 1 && !job.area.file.is_empty() && job.area.offset_increment == crate::job::Amount::Bytes(0) {
        let message = "several threads write the same blocks and will report each other's blocks as damaged";
        findings.remark(Severity::Warning, at("numjobs"), message);
    }
    if job.times.time_based && verify.backlog == 0 {
        let message = "blocks are read back after each pass; the writes of an incomplete last pass are not checked";
        findings.remark(Severity::Note, at("time_based"), message);
    }
    if matches!(job.shape.pattern, Pattern::Random { .. }) && !job.uses_random_map() && job.effective_depth() > 1 {
        let message = "writes that overlap may be in flight together; a block that both wrote may be found damaged";
        findings.remark(Severity::Note, at("verify"), message);
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
