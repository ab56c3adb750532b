//! The options of fio 3.33, one row each, in the order of fio's documentation.
//!
//! A row is `row(name, aliases, class, kind and setter, doc)`; [`super::options`] uses it. An
//! option of fio that is missing here is refused as unknown, so that none is ignored silently.

use block::time::{MICROSECOND, SECOND};

use super::draft::Draft;
use super::goals::{
    cpu_mask, cpu_policy, cpus_allowed, ignored_errors, input, latency_percentile, milliseconds, prefix, read_iolog,
    replay_skip, steady_state,
};
use super::options::Action::{Flag, Integer, Nothing, Perhaps, Signed, Size, Switch, Text, Time, Triple};
use super::options::Class::{Honoured, NoEffect, NotYet, Refused};
use super::options::{Action, Class, Outcome, Row};
use super::units::{self, Base};
use super::values::{distribution, not_one_of};
use crate::goal::Flow;
use crate::job::{Amount, Ends, FileOrder, PerDirection, RateProcess, SyncKind};
use crate::program::Program;

pub(super) const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    class: Class,
    action: Action,
    doc: &'static str,
) -> Row {
    Row { name, aliases, class, action, doc }
}

pub(super) const fn quiet(name: &'static str, why: &'static str, doc: &'static str) -> Row {
    row(name, &[], NoEffect, Nothing { harmless: &[], why }, doc)
}

pub(super) const fn not_yet(
    name: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
    doc: &'static str,
) -> Row {
    row(name, &[], NotYet, Nothing { harmless, why }, doc)
}

const fn refused(name: &'static str, harmless: &'static [&'static str], why: &'static str, doc: &'static str) -> Row {
    row(name, &[], Refused, Nothing { harmless, why }, doc)
}

/// The row with additional names.
const fn also(aliases: &'static [&'static str], row: Row) -> Row {
    Row { aliases, ..row }
}

const U32: u64 = u32::MAX as u64;
const CONTENT: &str = "what the buffers hold is the host's choice";
const OWN_TIMING: &str = "times are taken and reported in Hoistway's own way";
const LAYOUT: &str = "files are laid out by the host";
const REPORT: &str = "the report has its own settings, see hoistway test --percentiles";
const LOG: &str = "logs are kept in memory and written as text at the end";
const TRACE: &str = "traces are replayed with hoistway test --trace";
const TRIMMED: &str = "blocks that were checked are not discarded";
const ENGINE: &str = "how the host's own engine submits is not the job's choice";
const ZONES: &str = "zoned devices are not supported: no host knows write pointers or resets zones";
/// Maximum number of files of a thread.
const MAX_FILES: u64 = 4096;

/// Converts a number that an `Integer` row has already limited to 32 bits.
fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn byte(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn hint(value: u64) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

fn each<T>(triple: PerDirection<Option<u64>>, narrow: fn(u64) -> T, missing: PerDirection<T>) -> PerDirection<T> {
    PerDirection {
        read: triple.read.map_or(missing.read, narrow),
        write: triple.write.map_or(missing.write, narrow),
        trim: triple.trim.map_or(missing.trim, narrow),
    }
}

/// All rows.
pub const ROWS: &[Row] = &[
    // Name and files.
    row("description", &[], Honoured, Text(|d, text| store(&mut d.job.description, text)), "Free text, shown."),
    row("name", &[], Honoured, Text(|d, text| store(&mut d.job.name, text)), "Name of the job in results."),
    row(
        "wait_for",
        &[],
        Honoured,
        Text(|d, text| store(&mut d.job.wait_for, text)),
        "Starts after all jobs of that name.",
    ),
    row("filename", &[], Honoured, Text(file_name), "The file or device the job works on, or several: a:b."),
    row("directory", &[], Honoured, Text(|d, text| store(&mut d.job.directory, text)), "Where made-up files go."),
    row(
        "filename_format",
        &[],
        Honoured,
        Text(|d, text| store(&mut d.file_format, text)),
        "Form of made-up names, of $jobname, $jobnum, $filenum, $clientuid.",
    ),
    row("nrfiles", &[], Honoured, Integer(1, MAX_FILES, |d, v| d.files = Some(small(v))), "Files per thread."),
    quiet("openfiles", "files are not opened and closed in between", "Files open at once."),
    row(
        "file_service_type",
        &[],
        Honoured,
        Text(file_order),
        "Which file is next: roundrobin[:N], random[:N], sequential.",
    ),
    quiet("unique_filename", "there is no server mode", "Prefix of the client's address."),
    not_yet("lockfile", &["none"], "files are not locked", "Locks the file while in use."),
    not_yet("opendir", &[], "name the files", "Takes all files below a directory."),
    row(
        "filesize",
        &[],
        Honoured,
        Integer(512, u64::MAX, |d, v| d.job.file_bytes = Some(v)),
        "Size of the file laid out.",
    ),
    // Direction and position.
    row("rw", &["readwrite"], Honoured, Text(direction), "Direction and pattern, e.g. randread:8. Ours: rewrite."),
    row(
        "program",
        &[],
        Honoured,
        Text(program),
        "Ours, not fio's: copy, dbench, startup or video with its settings, e.g. startup:app=lowriter, instead of rw.",
    ),
    row("rw_sequencer", &[], Honoured, Text(sequencer), "What a run of a random pattern does: sequential, identical."),
    row("bs", &["blocksize"], Honoured, Triple(1, 1 << 30, |d, t| d.block_bytes = t), "I/O size: read,write,trim."),
    row("bsrange", &["blocksize_range"], Honoured, Text(block_ranges), "Range of I/O sizes, e.g. 4k-64k."),
    row("bssplit", &[], Honoured, Text(block_splits), "Weighted I/O sizes, e.g. 4k/60:8k/40."),
    row(
        "bs_unaligned",
        &["blocksize_unaligned"],
        Honoured,
        Flag(|d, on| d.job.sizes_unaligned = on),
        "Ranges take any byte count.",
    ),
    row("bs_is_seq_rand", &[], Honoured, Switch(|d, on| d.job.sizes_by_pattern = on), "bs=sequential,random."),
    row(
        "blockalign",
        &["ba"],
        Honoured,
        Triple(1, U32, |d, t| d.job.block_align_bytes = each(t, small, d.job.block_align_bytes)),
        "Alignment of random offsets.",
    ),
    row("size", &[], Honoured, Size(|d, v| d.job.size = Some(v)), "Bytes or percent of the file used."),
    row(
        "io_size",
        &["io_limit"],
        Honoured,
        Size(|d, v| d.job.io_size = (v != Amount::Bytes(0)).then_some(v)),
        "Bytes transferred; may exceed size.",
    ),
    row("offset", &["fileoffset"], Honoured, Size(|d, v| d.job.offset = v), "First byte used."),
    row(
        "offset_increment",
        &[],
        Honoured,
        Size(|d, v| d.job.offset_increment = v),
        "Added to offset per clone, in bytes or percent of the file.",
    ),
    row(
        "offset_align",
        &[],
        Honoured,
        Integer(0, u64::MAX, |d, v| d.job.offset_align_bytes = v),
        "What an offset in percent is rounded up to.",
    ),
    row(
        "number_ios",
        &[],
        Honoured,
        Integer(0, u64::MAX, |d, v| d.job.number_ios = (v > 0).then_some(v)),
        "I/Os at most.",
    ),
    row("loops", &[], Honoured, Integer(1, U32, |d, v| d.job.loops = small(v)), "Passes."),
    also(
        &["fill_fs"],
        row(
            "fill_device",
            &[],
            Honoured,
            Switch(|_, _| {}),
            "Goes on to the end of the file or device where no size is given, as every job does here.",
        ),
    ),
    not_yet("file_append", &["0"], LAYOUT, "Begins at the end of the file."),
    row("rwmixread", &[], Honoured, Integer(0, 100, |d, v| d.read_percent = byte(v)), "Percent of reads."),
    row("rwmixwrite", &[], Honoured, Integer(0, 100, |d, v| d.read_percent = 100 - byte(v)), "Percent of writes."),
    row("norandommap", &[], Honoured, Flag(|d, on| d.job.random_map = !on), "Random blocks may repeat."),
    quiet(
        "softrandommap",
        "the map of random blocks takes no memory here",
        "Goes on without a map when memory is short.",
    ),
    row(
        "percentage_random",
        &[],
        Honoured,
        Triple(0, 100, |d, t| d.job.random_percent = each(t, byte, PerDirection::all(100))),
        "Percent of the I/Os that are random.",
    ),
    row(
        "random_distribution",
        &[],
        Honoured,
        Text(spread),
        "random, zipf:T[:C], pareto:H[:C], normal:D[:C], zoned:P/S:..., zoned_abs:P/SIZE:...",
    ),
    row("randseed", &[], Honoured, Integer(0, u64::MAX, |d, v| d.job.seed = Some(v)), "Seed of the job."),
    row(
        "randrepeat",
        &[],
        NoEffect,
        Nothing { harmless: &["1"], why: "every run repeats; another --seed gives another one" },
        "Repeatable random offsets.",
    ),
    row(
        "allrandrepeat",
        &[],
        NoEffect,
        Nothing { harmless: &["1", "0"], why: "every run repeats" },
        "Repeatable random numbers.",
    ),
    quiet("random_generator", "the generator is Hoistway's own, the distribution is the same", "Random generator."),
    // Zones.
    row(
        "zonemode",
        &[],
        Honoured,
        Text(zone_mode),
        "Zones of the area: none, strided; zbd only by fio itself: hoistway test TARGET --generator fio.",
    ),
    row("zonesize", &[], Honoured, Integer(0, u64::MAX, |d, v| d.zone_bytes = v), "Bytes done before the next zone."),
    row(
        "zonerange",
        &[],
        Honoured,
        Integer(0, u64::MAX, |d, v| d.zone_range_bytes = v),
        "Length of a zone, else zonesize.",
    ),
    row("zoneskip", &[], Honoured, Integer(0, u64::MAX, |d, v| d.zone_skip_bytes = v), "Bytes between zones."),
    refused("zonecapacity", &["0"], ZONES, "Usable bytes of a zone."),
    refused("read_beyond_wp", &["0"], ZONES, "Reads behind the write pointer."),
    refused("max_open_zones", &["0"], ZONES, "Zones open at once."),
    refused("job_max_open_zones", &["0"], ZONES, "Zones open at once per job."),
    refused("ignore_zone_limits", &["0"], ZONES, "Ignores the device's limits."),
    refused("zone_reset_threshold", &[], ZONES, "When zones are reset."),
    refused("zone_reset_frequency", &[], ZONES, "How often zones are reset."),
    // Engine.
    row(
        "ioengine",
        &[],
        Honoured,
        Text(|d, text| store(&mut d.engine, text)),
        "How I/O is done; see the engines of the documentation.",
    ),
    row("iodepth", &[], Honoured, Integer(1, 65_536, |d, v| d.job.iodepth = small(v)), "I/Os in flight."),
    row(
        "iodepth_low",
        &[],
        Honoured,
        Integer(0, 65_536, |d, v| d.job.iodepth_low = (v > 0).then(|| small(v))),
        "Refills when so few are in flight.",
    ),
    also(
        &["iodepth_batch_submit"],
        quiet("iodepth_batch", "whatever has become free is submitted together", "I/Os submitted together."),
    ),
    row(
        "iodepth_batch_complete_min",
        &["iodepth_batch_complete"],
        Honoured,
        Integer(0, 65_536, |d, v| d.job.completion_batch = small(v)),
        "Completions waited for at the full depth.",
    ),
    quiet("iodepth_batch_complete_max", "all completions that are there are taken", "Completions taken at once."),
    quiet("io_submit_mode", "submission never waits for the device here", "Who submits."),
    not_yet("serialize_overlap", &["0"], "overlapping I/Os are not held back", "Holds back overlapping I/Os."),
    row("direct", &[], Honoured, Switch(|d, on| d.job.direct = on), "Page cache bypassed."),
    row("buffered", &[], Honoured, Switch(|d, on| d.job.direct = !on), "The opposite of direct."),
    row("sync", &[], Honoured, Text(sync_kind), "Durability of writes: none, dsync, sync."),
    row("fsync", &[], Honoured, Integer(0, U32, |d, v| d.job.fsync_every = small(v)), "fsync after so many writes."),
    row(
        "fdatasync",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.job.fdatasync_every = small(v)),
        "fdatasync after so many writes.",
    ),
    row("end_fsync", &[], Honoured, Switch(|d, on| d.job.end_fsync = on), "fsync at the end."),
    not_yet("fsync_on_close", &["0"], "use end_fsync=1", "fsync when the file is closed."),
    quiet("sync_file_range", "no host starts write-back of a range", "Starts write-back of ranges."),
    row("invalidate", &[], Honoured, Switch(|d, on| d.job.invalidate = on), "Cached pages dropped before the job."),
    // Clones, phases, groups of results.
    row("numjobs", &[], Honoured, Integer(1, 10_000, |d, v| d.job.threads = small(v)), "Clones of the job."),
    also(&["threads"], quiet("thread", "hosts have their own workers", "Threads instead of processes.")),
    row(
        "group_reporting",
        &[],
        Honoured,
        Flag(|d, on| d.job.group_reporting = on),
        "One result for the reporting group.",
    ),
    row("new_group", &[], Honoured, Flag(|d, on| d.begins_report_group = on), "Begins a reporting group."),
    row(
        "stonewall",
        &["wait_for_previous"],
        Honoured,
        Flag(|d, on| d.begins_phase = on),
        "Waits for all earlier jobs.",
    ),
    row("startdelay", &["start_delay"], Honoured, Text(start_delay), "Seconds, or a range of them, before the start."),
    row("exitall", &[], Honoured, Flag(|d, on| d.job.ends_phase = on), "The end of this job ends its group."),
    row("exit_what", &[], Honoured, Text(exit_what), "What exitall ends: group, stonewall, all."),
    not_yet("exitall_on_error", &["0"], "an error ends its own thread", "An error ends all jobs."),
    // Time and rate.
    row(
        "runtime",
        &["timeout"],
        Honoured,
        Time(SECOND, |d, v| d.job.runtime_ns = (v > 0).then_some(v)),
        "End of the job.",
    ),
    row("time_based", &[], Honoured, Flag(|d, on| d.job.time_based = on), "Starts over until runtime."),
    row("ramp_time", &[], Honoured, Time(SECOND, |d, v| d.job.ramp_ns = v), "Not measured at the begin."),
    row(
        "rate",
        &[],
        Honoured,
        Triple(0, u64::MAX, |d, t| d.job.rate_bytes_per_s = each(t, |v| v, PerDirection::all(0))),
        "Bytes/s at most.",
    ),
    row(
        "rate_iops",
        &[],
        Honoured,
        Triple(0, U32, |d, t| d.job.rate_ios_per_s = each(t, small, PerDirection::all(0))),
        "I/Os per second at most.",
    ),
    row(
        "rate_min",
        &["ratemin"],
        Honoured,
        Triple(0, u64::MAX, |d, t| d.job.goals.least_bytes_per_s = each(t, |v| v, PerDirection::all(0))),
        "Bytes/s at least; less ends the job with an error.",
    ),
    row(
        "rate_iops_min",
        &[],
        Honoured,
        Triple(0, U32, |d, t| d.job.goals.least_ios_per_s = each(t, small, PerDirection::all(0))),
        "I/Os per second at least; less ends the job with an error.",
    ),
    row(
        "rate_cycle",
        &["ratecycle"],
        Honoured,
        Integer(1, U32, |d, v| d.job.goals.cycle_ns = milliseconds(v)),
        "Averaging time of rate_min and rate_iops_min in milliseconds.",
    ),
    row("rate_process", &[], Honoured, Text(rate_process), "Spacing under a rate: linear, poisson."),
    row(
        "rate_ignore_thinktime",
        &[],
        Honoured,
        Switch(|d, on| d.job.rate_ignores_think = on),
        "Pauses are not caught up.",
    ),
    row("thinktime", &[], Honoured, Time(MICROSECOND, |d, v| d.job.think.time_ns = v), "Pause."),
    quiet("thinktime_spin", "the whole thinktime is slept", "Part of the pause spent spinning."),
    row(
        "thinktime_blocks",
        &[],
        Honoured,
        Integer(1, U32, |d, v| d.job.think.blocks = small(v)),
        "I/Os between pauses.",
    ),
    row("thinktime_blocks_type", &[], Honoured, Text(think_type), "Which I/Os count: complete, issue."),
    row(
        "thinktime_iotime",
        &[],
        Honoured,
        Time(SECOND, |d, v| d.job.think.io_time_ns = v),
        "Time of I/O before a pause.",
    ),
    row("flow", &[], Honoured, Integer(0, 1_000, flow), "Part of the I/Os of all jobs with the same flow_id."),
    row("flow_id", &[], Honoured, Integer(0, U32, |d, v| d.flow.0 = small(v)), "Which jobs share a flow."),
    row(
        "flow_sleep",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.flow.1 = v * MICROSECOND),
        "Wait in microseconds when held back by a flow.",
    ),
    row(
        "latency_target",
        &[],
        Honoured,
        Time(MICROSECOND, |d, v| d.target.target_ns = v),
        "Latency that the largest depth is searched for.",
    ),
    row(
        "latency_window",
        &[],
        Honoured,
        Time(MICROSECOND, |d, v| d.target.window_ns = v),
        "How long a depth is tried.",
    ),
    row(
        "latency_percentile",
        &[],
        Honoured,
        Text(latency_percentile),
        "Percent of the I/Os that must hold latency_target.",
    ),
    row("latency_run", &[], Honoured, Switch(|d, on| d.target.goes_on = on), "Goes on after the search."),
    row(
        "max_latency",
        &[],
        Honoured,
        Time(MICROSECOND, |d, v| d.job.goals.longest_io_ns = v),
        "A longer latency ends the job with an error.",
    ),
    row(
        "steadystate",
        &["ss"],
        Honoured,
        Text(steady_state),
        "Figure and limit, as iops:0.3%: iops, bw or lat, or its slope (iops_slope); needs steadystate_duration.",
    ),
    row(
        "steadystate_duration",
        &["ss_dur"],
        Honoured,
        Time(SECOND, |d, v| d.steady.duration_ns = v),
        "The job ends when the figure has been steady for so long.",
    ),
    row(
        "steadystate_ramp_time",
        &["ss_ramp"],
        Honoured,
        Time(SECOND, |d, v| d.steady.ramp_ns = v),
        "Not looked at in the beginning.",
    ),
    row(
        "steadystate_check_interval",
        &["ss_interval"],
        Honoured,
        Time(SECOND, |d, v| d.steady.interval_ns = v.max(MICROSECOND)),
        "One value per this time.",
    ),
    // Priorities, CPUs, groups.
    row(
        "prio",
        &[],
        Honoured,
        Integer(0, 7, |d, v| d.priority_level = Some(byte(v))),
        "I/O priority level, 0 highest.",
    ),
    row(
        "prioclass",
        &[],
        Honoured,
        Integer(0, 3, |d, v| d.priority_class = byte(v)),
        "1 real time, 2 best effort, 3 idle.",
    ),
    row("priohint", &[], Honoured, Integer(0, 1023, |d, v| d.priority_hint = hint(v)), "I/O hint of the priority."),
    row("cmdprio_percentage", &[], Honoured, Triple(0, 100, other_priority), "Percent of I/Os with another priority."),
    row("cmdprio_class", &[], Honoured, Integer(0, 3, |d, v| d.other_priority.1 = byte(v)), "Class of those."),
    row("cmdprio", &[], Honoured, Integer(0, 7, |d, v| d.other_priority.0 = byte(v)), "Level of those."),
    row("cmdprio_hint", &[], Honoured, Integer(0, 1023, |d, v| d.other_hint = hint(v)), "Hint of those."),
    row(
        "cmdprio_bssplit",
        &[],
        Honoured,
        Text(priority_splits),
        "Priority by block size: SIZE/PERCENT[/CLASS/LEVEL[/HINT]]:...",
    ),
    row(
        "nice",
        &[],
        Honoured,
        Signed(-20, 19, |d, v| d.nice = v),
        "CPU priority; makes the I/O level when prio is not given.",
    ),
    row(
        "cpus_allowed",
        &[],
        Honoured,
        Text(cpus_allowed),
        "CPUs to run on; the engine has one thread for all jobs, the simulator none.",
    ),
    row("cpumask", &[], Honoured, Integer(1, u64::MAX, cpu_mask), "CPUs to run on, as a mask."),
    row("cpus_allowed_policy", &[], Honoured, Text(cpu_policy), "How clones have the CPUs: shared, split."),
    quiet("numa_cpu_nodes", "no host binds memory nodes", "Nodes to run on."),
    quiet("numa_mem_policy", "no host binds memory nodes", "Memory policy."),
    row("cgroup", &[], Honoured, Text(|d, text| store(&mut d.job.group, text)), "The group the job runs in."),
    row(
        "cgroup_weight",
        &[],
        Honoured,
        Integer(1, 10_000, |d, v| d.job.wishes.weight = Some(small(v))),
        "Weight of that group.",
    ),
    quiet("cgroup_nodelete", "groups are removed by whoever made them", "Keeps the group."),
    not_yet("uid", &[], "hosts do not change the user", "User to run as."),
    not_yet("gid", &[], "hosts do not change the group", "Group to run as."),
    // Logs, reports, traces.
    row(
        "write_bw_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.bandwidth_log = it)),
        "Bandwidth log.",
    ),
    row(
        "write_lat_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.latency_log = it)),
        "Latency log.",
    ),
    row(
        "write_iops_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.ios_log = it)),
        "IOPS log.",
    ),
    row(
        "write_hist_log",
        &[],
        Honoured,
        Perhaps(|d, text| prefix(text).map(|it| d.job.output.histogram_log = it)),
        "Histogram log.",
    ),
    row(
        "log_avg_msec",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.job.output.average_over_ns = milliseconds(v)),
        "Averaging of logs.",
    ),
    row(
        "log_max_value",
        &[],
        Honoured,
        Switch(|d, on| d.job.output.largest = on),
        "Maximum instead of average in logs of latency.",
    ),
    row(
        "log_hist_msec",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.job.output.histogram_every_ns = milliseconds(v)),
        "Time of one histogram.",
    ),
    row(
        "log_hist_coarseness",
        &[],
        Honoured,
        Integer(0, 6, |d, v| d.job.output.histogram_coarseness = byte(v)),
        "How often the number of buckets is halved.",
    ),
    quiet("log_entries", LOG, "Memory of logs."),
    row("log_offset", &[], Honoured, Switch(|d, on| d.job.output.with_offsets = on), "Offsets in logs."),
    row("log_prio", &[], Honoured, Switch(|d, on| d.job.output.with_priorities = on), "Priorities in logs."),
    quiet("log_compression", LOG, "Compressed logs."),
    quiet("log_compression_cpus", LOG, "CPUs that compress."),
    quiet("log_store_compressed", LOG, "Stored compressed."),
    quiet("log_unix_epoch", "logs count from the begin of the measured time, which may be simulated", "Clock of logs."),
    quiet("log_alternate_epoch", LOG, "Clock of logs."),
    quiet("log_alternate_epoch_clock_id", LOG, "Clock of logs."),
    row("per_job_logs", &[], Honoured, Switch(|d, on| d.job.output.in_one_file = !on), "One log per job."),
    quiet("bwavgtime", OWN_TIMING, "Averaging of bandwidth."),
    quiet("iopsavgtime", OWN_TIMING, "Averaging of IOPS."),
    quiet("clat_percentiles", REPORT, "Percentiles of completion latency."),
    quiet("lat_percentiles", REPORT, "Percentiles of latency."),
    quiet("slat_percentiles", REPORT, "Percentiles of submission latency."),
    quiet("percentile_list", REPORT, "Which percentiles."),
    quiet("significant_figures", REPORT, "Resolution of percentiles."),
    quiet("unified_rw_reporting", REPORT, "Directions added up."),
    quiet("block_error_percentiles", REPORT, "Percentiles of errors."),
    quiet("disk_util", REPORT, "Utilisation of disks."),
    not_yet("stats", &["1"], "every job is measured", "Whether the job is measured."),
    row("read_iolog", &[], Honoured, Text(read_iolog), "Replays a trace, of any format that is known."),
    row(
        "write_iolog",
        &[],
        Honoured,
        Text(|d, text| prefix(text).map(|it| d.job.output.iolog = it)),
        "Writes everything the job does as an iolog.",
    ),
    row("replay_no_stall", &[], Honoured, Switch(|d, on| input(d).as_fast_as_possible = on), "Replays without waits."),
    row(
        "replay_time_scale",
        &[],
        Honoured,
        Integer(1, 100_000, |d, v| input(d).time_percent = small(v)),
        "Scales the waits, in percent.",
    ),
    quiet("replay_redirect", "the trace is replayed on the target anyway", "Replays on another device."),
    row(
        "replay_scale",
        &[],
        Honoured,
        Integer(1, U32, |d, v| input(d).divide_offsets_by = small(v)),
        "Divides offsets.",
    ),
    row(
        "replay_align",
        &[],
        Honoured,
        Integer(0, 1 << 30, |d, v| input(d).align_bytes = small(v)),
        "Rounds offsets down.",
    ),
    row("replay_skip", &[], Honoured, Text(replay_skip), "Leaves out operations: read, write, trim, sync."),
    quiet("read_iolog_chunked", "traces are read in parts anyway", "Reads the trace in parts."),
    not_yet("merge_blktrace_file", &[], TRACE, "Merges traces."),
    not_yet("merge_blktrace_scalars", &[], TRACE, "Scales merged traces."),
    not_yet("merge_blktrace_iters", &[], TRACE, "Repeats merged traces."),
    // Buffers and errors.
    quiet("zero_buffers", CONTENT, "Buffers of zeros."),
    quiet("refill_buffers", CONTENT, "New content for every I/O."),
    quiet("scramble_buffers", CONTENT, "Slightly new content for every I/O."),
    quiet("buffer_pattern", CONTENT, "A pattern."),
    quiet("buffer_compress_percentage", CONTENT, "Compressible content."),
    quiet("buffer_compress_chunk", CONTENT, "Size of compressible parts."),
    quiet("dedupe_percentage", CONTENT, "Repeated content."),
    quiet("dedupe_mode", CONTENT, "How content repeats."),
    quiet("dedupe_working_set_percentage", CONTENT, "Set of repeated content."),
    quiet("dedupe_global", CONTENT, "Repeats over all jobs."),
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
        "Errors that do not end the job: of reads, of writes, as EIO:110,ENOSPC.",
    ),
    quiet("error_dump", "errors are always shown", "Shows errors."),
    // Units and layout.
    row("kb_base", &[], Honoured, Text(kb_base), "What k means: 1024 or 1000; kib is the other one."),
    quiet("unit_base", "reports have their own units", "Bits or bytes in reports."),
    quiet("create_on_open", LAYOUT, "Files are created when opened."),
    quiet("create_serialize", LAYOUT, "Files are created one by one."),
    quiet("create_fsync", LAYOUT, "Files are synced when created."),
    not_yet("create_only", &["0"], LAYOUT, "Only creates the files."),
    not_yet("pre_read", &["0"], "use a job of its own with stonewall", "Reads the files before the job."),
    quiet("fallocate", LAYOUT, "How files are allocated."),
    quiet("fadvise_hint", "no advice is given to the kernel", "Advice on the pattern."),
    quiet("write_hint", "no host passes hints on", "Lifetime of written data."),
    quiet("overwrite", LAYOUT, "Whether existing data is overwritten."),
    quiet(
        "allow_mounted_write",
        "Hoistway's own rules about mounted devices hold",
        "Permission to write mounted devices.",
    ),
    quiet("allow_file_create", LAYOUT, "Permission to create files."),
    quiet("unlink", LAYOUT, "Deletes files at the end."),
    quiet("unlink_each_loop", LAYOUT, "Deletes files after each loop."),
    quiet("gtod_reduce", OWN_TIMING, "Fewer clock calls."),
    quiet("gtod_cpu", OWN_TIMING, "A CPU for the clock."),
    quiet("clocksource", OWN_TIMING, "Which clock."),
    quiet("disable_lat", OWN_TIMING, "No latency."),
    quiet("disable_clat", OWN_TIMING, "No completion latency."),
    quiet("disable_slat", OWN_TIMING, "No submission latency."),
    also(&["disable_bw"], quiet("disable_bw_measurement", OWN_TIMING, "No bandwidth.")),
    also(&["iomem"], quiet("mem", ENGINE, "Memory of buffers.")),
    quiet("hugepage-size", ENGINE, "Size of huge pages."),
    also(&["mem_align"], quiet("iomem_align", ENGINE, "Alignment of buffers.")),
    quiet("lockmem", ENGINE, "Memory locked away."),
    quiet("sqthread_poll", ENGINE, "Submission by a kernel thread."),
    quiet("sqthread_poll_cpu", ENGINE, "CPU of that thread."),
    quiet("hipri", ENGINE, "Polled completions."),
    quiet("registerfiles", ENGINE, "Registered files."),
    quiet("fixedbufs", ENGINE, "Registered buffers."),
    quiet("nonvectored", ENGINE, "Calls without vectors."),
    quiet("uncached", ENGINE, "Buffered without staying in the cache."),
    quiet("userspace_reap", ENGINE, "Completions taken in user space."),
    not_yet("nowait", &["0"], "hosts wait", "Fails instead of waiting."),
    quiet("force_async", ENGINE, "Forced asynchronous submission."),
    quiet("exec_prerun", "commands of a job file are never executed", "Command before the job."),
    quiet("exec_postrun", "commands of a job file are never executed", "Command after the job."),
    quiet("idle-prof", OWN_TIMING, "Idle profile of CPUs."),
    // Refused.
    refused("trim_percentage", &["0"], TRIMMED, "Discards what was checked."),
    refused("trim_verify_zero", &["0"], TRIMMED, "Checks discarded data."),
    refused("trim_backlog", &["0"], TRIMMED, "Discards late."),
    refused("trim_backlog_batch", &["0"], TRIMMED, "Discards in batches."),
    refused("write_barrier", &["0"], "fio itself does nothing with it", "Barrier writes."),
    refused("atomic", &["0"], "atomic writes are not implemented", "Atomic writes."),
    refused("ioscheduler", &[], "schedulers are chosen with --sched", "Scheduler of the device."),
    refused("profile", &[], "profiles are programs of fio", "A built-in profile."),
    refused("client", &[], "there is no client mode", "Runs on servers."),
    refused("server", &[], "there is no server mode", "Runs as a server."),
    quiet("cmd_type", "reads and writes are those of io_uring", "Command set of io_uring_cmd."),
];

/// Longest name or path in bytes: Linux's limit for a path.
const MAX_TEXT_BYTES: usize = 4096;

fn store(field: &mut String, text: &str) -> Outcome {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("the text is {} bytes long; at most {MAX_TEXT_BYTES} are allowed", text.len()));
    }
    text.clone_into(field);
    Ok(())
}

fn file_name(draft: &mut Draft, text: &str) -> Outcome {
    let names: Vec<&str> = split_names(text);
    if names.iter().any(|name| name.is_empty()) {
        return Err(format!("'{text}' has an empty name; '\\:' is a colon"));
    }
    draft.named_files = small(names.len() as u64);
    // A single file by its name; several files as the list was written, because jobs with the same
    // list share them.
    let name = if let [one] = names[..] { one.replace("\\:", ":") } else { text.to_owned() };
    store(&mut draft.job.file, &name)
}

/// Splits at colons that are not escaped by a backslash.
pub fn split_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(':') {
        if !text[..at].ends_with('\\') {
            names.push(&text[start..at]);
            start = at + 1;
        }
    }
    names.push(&text[start..]);
    names
}

fn file_order(draft: &mut Draft, text: &str) -> Outcome {
    let (word, count) = text.split_once(':').map_or((text, None), |(word, count)| (word.trim(), Some(count)));
    draft.job.file_order = match word {
        "roundrobin" => FileOrder::RoundRobin,
        "random" => FileOrder::Random,
        "sequential" => FileOrder::Sequential,
        _ => return Err(not_one_of(word, &["roundrobin", "random", "sequential"])),
    };
    draft.job.file_run = small(count.map_or(Ok(1), |count| draft.numbers.within(count, 1, U32))?);
    Ok(())
}

fn spread(draft: &mut Draft, text: &str) -> Outcome {
    let (distribution, centre_millionths) = distribution(&mut draft.numbers, text)?;
    (draft.job.distribution, draft.job.centre_millionths) = (distribution, centre_millionths);
    Ok(())
}

fn zone_mode(draft: &mut Draft, text: &str) -> Outcome {
    draft.is_strided = match text {
        "none" => false,
        "strided" => true,
        "zbd" => return Err(ZONES.to_owned()),
        _ => return Err(not_one_of(text, &["none", "strided"])),
    };
    Ok(())
}

fn exit_what(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.ends = match text {
        "group" => Ends::Group,
        "stonewall" => Ends::Phase,
        "all" => Ends::All,
        _ => return Err(not_one_of(text, &["group", "stonewall", "all"])),
    };
    Ok(())
}

fn priority_splits(draft: &mut Draft, text: &str) -> Outcome {
    draft.priority_splits = Some(draft.numbers.priority_splits(text)?);
    Ok(())
}

fn direction(draft: &mut Draft, text: &str) -> Outcome {
    (draft.job.mix, draft.job.pattern) = draft.numbers.direction(text)?;
    Ok(())
}

fn program(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.program = Some(Program::parse(text)?);
    Ok(())
}

fn sequencer(draft: &mut Draft, text: &str) -> Outcome {
    draft.repeats_offset = match text {
        "sequential" => false,
        "identical" => true,
        _ => return Err(not_one_of(text, &["sequential", "identical"])),
    };
    Ok(())
}

fn block_ranges(draft: &mut Draft, text: &str) -> Outcome {
    draft.block_ranges = Some(draft.numbers.ranges(text)?);
    Ok(())
}

fn block_splits(draft: &mut Draft, text: &str) -> Outcome {
    let (sizes, was_scaled) = draft.numbers.split(text)?;
    draft.block_splits = Some(sizes);
    draft.split_was_scaled = was_scaled;
    Ok(())
}

fn sync_kind(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.sync = match text {
        "none" | "0" => SyncKind::None,
        "sync" | "1" => SyncKind::Sync,
        "dsync" => SyncKind::DataSync,
        _ => return Err(not_one_of(text, &["none", "sync", "dsync", "0", "1"])),
    };
    Ok(())
}

fn start_delay(draft: &mut Draft, text: &str) -> Outcome {
    let (earliest, latest) = text.split_once('-').unwrap_or((text, text));
    let (earliest_ns, latest_ns) = (units::time(earliest, SECOND)?, units::time(latest, SECOND)?);
    if earliest_ns > latest_ns {
        return Err(format!("the range '{text}' runs backwards"));
    }
    draft.job.start_delay_ns = (earliest_ns, latest_ns);
    Ok(())
}

fn rate_process(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.rate_process = match text {
        "linear" => RateProcess::Linear,
        "poisson" => RateProcess::Poisson,
        _ => return Err(not_one_of(text, &["linear", "poisson"])),
    };
    Ok(())
}

fn flow(draft: &mut Draft, weight: u64) {
    draft.job.goals.flow = (weight > 0).then(|| Flow { id: 0, weight: small(weight), sleep_ns: 0 });
}

fn think_type(draft: &mut Draft, text: &str) -> Outcome {
    draft.job.think.counts_issued = match text {
        "complete" => false,
        "issue" => true,
        _ => return Err(not_one_of(text, &["complete", "issue"])),
    };
    Ok(())
}

fn other_priority(draft: &mut Draft, percent: PerDirection<Option<u64>>) {
    draft.job.priority_share.read_percent = percent.read.map_or(0, byte);
    draft.job.priority_share.write_percent = percent.write.map_or(0, byte);
}

fn continue_on_error(draft: &mut Draft, text: &str) -> Outcome {
    draft.verify.goes_on = matches!(text, "verify" | "all" | "1");
    let (read, write) = match text {
        "none" | "0" | "verify" => (false, false),
        "read" => (true, false),
        "write" => (false, true),
        "io" | "all" | "1" => (true, true),
        _ => return Err(not_one_of(text, &["none", "read", "write", "io", "verify", "all", "0", "1"])),
    };
    draft.job.continue_on_error = PerDirection { read, write, trim: write };
    Ok(())
}

fn kb_base(draft: &mut Draft, text: &str) -> Outcome {
    draft.numbers.base = match text {
        "1024" => Base::Binary,
        "1000" => Base::Decimal,
        _ => return Err(not_one_of(text, &["1024", "1000"])),
    };
    Ok(())
}
