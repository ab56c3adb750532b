//! The options of fio 3.33 about logs, reports, traces, buffers, errors and layout, and the refused ones.

use super::draft::Draft;
use super::goals::{ignored_errors, input, milliseconds, prefix, read_iolog, replay_skip};
use super::options::Action::{Integer, Perhaps, Switch, Text};
use super::options::Class::Honoured;
use super::options::{Outcome, Row};
use super::setters::{byte, continue_on_error, kb_base, small};
use super::table::{LAYOUT, also, not_yet, quiet, refused, row};
use super::values::not_one_of;

const U32: u64 = u32::MAX as u64;
const CONTENT: &str = "the host chooses the buffers' content";
const OWN_TIMING: &str = "Hoistway measures and reports times its own way";
const REPORT: &str = "the report has its own settings, see hoistway test --percentiles";
const LOG: &str = "logs are kept in memory and written as text at the end";
const TRACE: &str = "traces are replayed with hoistway test --trace";
const TRIMMED: &str = "checked blocks are not discarded";
const ENGINE: &str = "the host's engine decides how I/O is submitted";

/// Rows, as in [`super::table::ROWS`].
pub const ROWS: &[Row] = &[
    // Logs, reports, traces.
    row(
        "write_bw_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.bandwidth_log = it)),
        "Write a bandwidth log.",
    ),
    row(
        "write_lat_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.latency_log = it)),
        "Write a latency log.",
    ),
    row(
        "write_iops_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.ios_log = it)),
        "Write an IOPS log.",
    ),
    row(
        "write_hist_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.histogram_log = it)),
        "Write a log of latency histograms.",
    ),
    row(
        "log_avg_msec",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.job.output.average_over_ns = milliseconds(v)),
        "Time over which log values are averaged, in milliseconds.",
    ),
    row(
        "log_max_value",
        &["log_window_value"],
        Honoured,
        Text(window_value),
        "What a log has of each window: avg or 0, max or 1.",
    ),
    row(
        "log_hist_msec",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.job.output.histogram_every_ns = milliseconds(v)),
        "Time between two histograms, in milliseconds.",
    ),
    row(
        "log_hist_coarseness",
        &[],
        Honoured,
        Integer(0, 6, |d, v| d.job.output.histogram_coarseness = byte(v)),
        "Number of times the buckets of a histogram are halved.",
    ),
    quiet("log_entries", LOG, "Initial size of logs."),
    row("log_offset", &[], Honoured, Switch(|d, on| d.job.output.with_offsets = on), "Add offsets to logs."),
    row("log_prio", &[], Honoured, Switch(|d, on| d.job.output.with_priorities = on), "Add priorities to logs."),
    quiet("log_compression", LOG, "Compress logs."),
    quiet("log_compression_cpus", LOG, "CPUs that compress logs."),
    quiet("log_store_compressed", LOG, "Store logs compressed."),
    quiet("log_unix_epoch", "log times start at 0 with the measured time, which may be simulated", "Clock of logs."),
    quiet("log_alternate_epoch", LOG, "Clock of logs."),
    quiet("log_alternate_epoch_clock_id", LOG, "Clock of logs."),
    row("per_job_logs", &[], Honoured, Switch(|d, on| d.job.output.in_one_file = !on), "Write one log per job."),
    quiet("bwavgtime", OWN_TIMING, "Averaging time of bandwidth."),
    quiet("iopsavgtime", OWN_TIMING, "Averaging time of IOPS."),
    quiet("clat_percentiles", REPORT, "Percentiles of completion latency."),
    quiet("lat_percentiles", REPORT, "Percentiles of latency."),
    quiet("slat_percentiles", REPORT, "Percentiles of submission latency."),
    quiet("percentile_list", REPORT, "Percentiles to report."),
    quiet("significant_figures", REPORT, "Resolution of percentiles."),
    quiet("unified_rw_reporting", REPORT, "Report all directions together."),
    quiet("block_error_percentiles", REPORT, "Percentiles of errors."),
    quiet("disk_util", REPORT, "Report the utilisation of disks."),
    not_yet("stats", &["1"], "every job is measured", "Whether the job is measured."),
    row("read_iolog", &[], Honoured, Text(read_iolog), "Replay this trace, in any supported format."),
    row(
        "write_iolog",
        &[],
        Honoured,
        Text(|d, text| prefix(text).map(|it| d.job.output.iolog = it)),
        "Write the job's I/Os to this iolog.",
    ),
    row(
        "replay_no_stall",
        &[],
        Honoured,
        Switch(|d, on| input(d).as_fast_as_possible = on),
        "Replay without waiting for recorded times.",
    ),
    row(
        "replay_time_scale",
        &[],
        Honoured,
        Integer(1, 100_000, |d, v| input(d).time_percent = small(v)),
        "Scale of the waits in percent.",
    ),
    quiet("replay_redirect", "the trace is replayed on the target anyway", "Replay on another device."),
    row(
        "replay_scale",
        &[],
        Honoured,
        Integer(1, U32, |d, v| input(d).divide_offsets_by = small(v)),
        "Divide offsets by this.",
    ),
    row(
        "replay_align",
        &[],
        Honoured,
        Integer(0, 1 << 30, |d, v| input(d).align_bytes = small(v)),
        "Round offsets down to a multiple of this.",
    ),
    row("replay_skip", &[], Honoured, Text(replay_skip), "Operations to skip: read, write, trim, sync."),
    quiet("read_iolog_chunked", "traces are read in parts anyway", "Read the trace in parts."),
    not_yet("merge_blktrace_file", &[], TRACE, "Merge traces."),
    not_yet("merge_blktrace_scalars", &[], TRACE, "Scale merged traces."),
    not_yet("merge_blktrace_iters", &[], TRACE, "Repeat merged traces."),
    // Buffers and errors.
    quiet("zero_buffers", CONTENT, "Fill buffers with zeros."),
    quiet("refill_buffers", CONTENT, "Fill buffers anew for every I/O."),
    quiet("scramble_buffers", CONTENT, "Change buffers slightly for every I/O."),
    quiet("buffer_pattern", CONTENT, "Fill buffers with this pattern."),
    quiet("buffer_compress_percentage", CONTENT, "Percentage of compressible content."),
    quiet("buffer_compress_chunk", CONTENT, "Size of compressible parts."),
    quiet("dedupe_percentage", CONTENT, "Percentage of repeated content."),
    quiet("dedupe_mode", CONTENT, "Method of repeating content."),
    quiet("dedupe_working_set_percentage", CONTENT, "Size of the repeated content."),
    quiet("dedupe_global", CONTENT, "Repeat content across all jobs."),
    row(
        "continue_on_error",
        &[],
        Honoured,
        Text(continue_on_error),
        "Errors that do not end the job: none, read, write, io, all.",
    ),
    row(
        "ignore_error",
        &[],
        Honoured,
        Text(ignored_errors),
        "Errors of reads and writes that do not end the job, as in EIO:110,ENOSPC.",
    ),
    quiet("error_dump", "errors are always shown", "Print ignored errors."),
    // Units and layout.
    row("kb_base", &[], Honoured, Text(kb_base), "Bytes of the suffix k: 1024 or 1000; kib means the other."),
    quiet("unit_base", "reports have their own units", "Bits or bytes in reports."),
    quiet("create_on_open", LAYOUT, "Create files when they are opened."),
    quiet("create_serialize", LAYOUT, "Create files one after another."),
    quiet("create_fsync", LAYOUT, "Sync files after creating them."),
    not_yet("create_only", &["0"], LAYOUT, "Only create the files."),
    not_yet("pre_read", &["0"], "add a reading job and stonewall", "Read the files before the job."),
    quiet("fallocate", LAYOUT, "How files are allocated."),
    quiet("fadvise_hint", "no advice is given to the kernel", "Advice on the pattern."),
    quiet("write_hint", "no host passes hints on", "Expected lifetime of written data."),
    quiet("overwrite", LAYOUT, "Create the file before writing to it."),
    quiet("allow_mounted_write", "Hoistway has its own rules for mounted devices", "Allow writes to mounted devices."),
    quiet("allow_file_create", LAYOUT, "Allow the creation of files."),
    quiet("unlink", LAYOUT, "Delete files at the end."),
    quiet("unlink_each_loop", LAYOUT, "Delete files after each loop."),
    quiet("gtod_reduce", OWN_TIMING, "Call the clock less often."),
    quiet("gtod_cpu", OWN_TIMING, "CPU that reads the clock."),
    quiet("clocksource", OWN_TIMING, "Clock to use."),
    quiet("disable_lat", OWN_TIMING, "Do not measure latency."),
    quiet("disable_clat", OWN_TIMING, "Do not measure completion latency."),
    quiet("disable_slat", OWN_TIMING, "Do not measure submission latency."),
    also(&["disable_bw"], quiet("disable_bw_measurement", OWN_TIMING, "Do not measure bandwidth.")),
    also(&["iomem"], quiet("mem", ENGINE, "Kind of memory for buffers.")),
    quiet("hugepage-size", ENGINE, "Size of huge pages."),
    also(&["mem_align"], quiet("iomem_align", ENGINE, "Alignment of buffers.")),
    quiet("lockmem", ENGINE, "Memory to lock."),
    quiet("sqthread_poll", ENGINE, "Submit by a kernel thread."),
    quiet("sqthread_poll_cpu", ENGINE, "CPU of that thread."),
    quiet("hipri", ENGINE, "Poll for completions."),
    quiet("registerfiles", ENGINE, "Register files."),
    quiet("fixedbufs", ENGINE, "Register buffers."),
    quiet("nonvectored", ENGINE, "Use calls without vectors."),
    quiet("uncached", ENGINE, "Buffered I/O that does not stay in the cache."),
    quiet("libaio_vectored", ENGINE, "Submit vectors of one buffer."),
    quiet("userspace_reap", ENGINE, "Handle completions in user space."),
    not_yet("nowait", &["0"], "I/Os always wait", "Fail an I/O that would wait."),
    quiet("force_async", ENGINE, "Force asynchronous submission."),
    quiet("exec_prerun", "commands of a job file are never executed", "Command to run before the job."),
    quiet("exec_postrun", "commands of a job file are never executed", "Command to run after the job."),
    quiet("idle-prof", OWN_TIMING, "Report the idle time of CPUs."),
    // Refused.
    refused("trim_percentage", &["0"], TRIMMED, "Percentage of checked blocks to discard."),
    refused("trim_verify_zero", &["0"], TRIMMED, "Check that discarded blocks read as zeros."),
    refused("trim_backlog", &["0"], TRIMMED, "Number of blocks after which discarding starts."),
    refused("trim_backlog_batch", &["0"], TRIMMED, "Number of blocks to discard at a time."),
    refused("write_barrier", &["0"], "it has no effect in fio either", "Send barrier writes."),
    refused("atomic", &["0"], "atomic writes are not implemented", "Send atomic writes."),
    refused("ioscheduler", &[], "schedulers are chosen with --sched", "Scheduler of the device."),
    refused("profile", &[], "profiles are built into fio", "Run a built-in profile."),
    refused("client", &[], "there is no client mode", "Run the jobs on fio servers."),
    refused("server", &[], "there is no server mode", "Run as a server."),
    quiet("cmd_type", "io_uring's own reads and writes are used", "Command set of io_uring_cmd."),
];

fn window_value(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.output.largest = match text {
        "avg" | "0" => false,
        "max" | "1" => true,
        "both" => {
            return Err("'both' is not supported: a log has one value; run the job with avg and with max".to_owned());
        }
        _ => return Err(not_one_of(text, &["avg", "max"])),
    };
    Ok(())
}
