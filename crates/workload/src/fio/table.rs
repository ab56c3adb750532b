//! The options of fio 3.33 about files, I/O, time, rates, priorities and groups, one row each, in the order of fio's
//! documentation; [`super::output_table`] has the others.
//!
//! A row is `row(name, aliases, class, kind and setter, doc)`; [`super::options`] uses it. An
//! option of fio that is missing here is refused as unknown, so that none is ignored silently.

use hoistway_block::time::{MICROSECOND, SECOND};

use super::goals::{cpu_mask, cpu_policy, cpus_allowed, latency_percentile, milliseconds, steady_state};
use super::options::Action::{Flag, Integer, Nothing, Signed, Size, Switch, Text, Time, Triple};
use super::options::Class::{Honoured, NoEffect, NotYet, Refused};
use super::options::{Action, Class, Row};
use super::setters::{
    ZONES, block_ranges, block_splits, byte, direction, each, engine, exit_what, file_name, file_order, file_sizes,
    flow, hint, other_priority, priority_splits, program, rate_process, sequencer, small, spread, start_delay, store,
    sync_kind, think_type, zone_mode,
};
use crate::job::{Amount, PerDirection};

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

pub(super) const fn refused(
    name: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
    doc: &'static str,
) -> Row {
    row(name, &[], Refused, Nothing { harmless, why }, doc)
}

/// The row with additional names.
pub(super) const fn also(aliases: &'static [&'static str], row: Row) -> Row {
    Row { aliases, ..row }
}

const U32: u64 = u32::MAX as u64;
pub(super) const LAYOUT: &str = "the host creates and lays out the files";
/// Maximum number of files of a thread.
const MAX_FILES: u64 = 4096;

/// The rows of this table.
pub const ROWS: &[Row] = &[
    // Name and files.
    row(
        "description",
        &[],
        Honoured,
        Text(|d, text| store(&mut d.job.description, text)),
        "Free text, shown in reports.",
    ),
    row("name", &[], Honoured, Text(|d, text| store(&mut d.job.name, text)), "Name of the job in results."),
    row(
        "wait_for",
        &[],
        Honoured,
        Text(|d, text| store(&mut d.job.course.wait_for, text)),
        "Start after all jobs of this name have ended.",
    ),
    row("filename", &[], Honoured, Text(file_name), "File or device of the job; several: a:b."),
    row(
        "directory",
        &[],
        Honoured,
        Text(|d, text| store(&mut d.job.area.directory, text)),
        "Directory of files that have no filename.",
    ),
    row(
        "filename_format",
        &[],
        Honoured,
        Text(|d, text| store(&mut d.files.format, text)),
        "Format of generated file names: $jobname, $jobnum, $filenum, $clientuid.",
    ),
    row(
        "nrfiles",
        &["nr_files"],
        Honoured,
        Integer(1, MAX_FILES, |d, v| d.files.count = Some(small(v))),
        "Files per thread.",
    ),
    quiet("openfiles", "files stay open during the run", "Number of files open at the same time."),
    row(
        "file_service_type",
        &[],
        Honoured,
        Text(file_order),
        "How the next file is chosen: roundrobin[:N], random[:N], sequential.",
    ),
    quiet("unique_filename", "there is no server mode", "Put the client's address in front of file names."),
    not_yet("lockfile", &["none"], "files are not locked", "Lock the file during its use."),
    not_yet("opendir", &[], "name the files", "Use all files below this directory."),
    row(
        "filesize",
        &[],
        Honoured,
        Text(file_sizes),
        "Size of each file, or a range to draw it from; offsets then extend to its end, and size is the amount alone.",
    ),
    // Direction and position.
    row(
        "rw",
        &["readwrite"],
        Honoured,
        Text(direction),
        "Direction and pattern, such as randread:8; in Hoistway also rewrite.",
    ),
    row(
        "program",
        &[],
        Honoured,
        Text(program),
        "Hoistway's own, instead of rw: copy, dbench, startup or video, with settings as in startup:app=lowriter.",
    ),
    row(
        "rw_sequencer",
        &[],
        Honoured,
        Text(sequencer),
        "Offsets within a run of a random pattern: sequential, identical.",
    ),
    row("bs", &["blocksize"], Honoured, Triple(1, 1 << 30, |d, t| d.blocks.bytes = t), "I/O size: read,write,trim."),
    row("bsrange", &["blocksize_range"], Honoured, Text(block_ranges), "Range of I/O sizes, such as 4k-64k."),
    row("bssplit", &[], Honoured, Text(block_splits), "I/O sizes with their percentages, such as 4k/60:8k/40."),
    row(
        "bs_unaligned",
        &["blocksize_unaligned"],
        Honoured,
        Flag(|d, on| d.job.shape.sizes_unaligned = on),
        "Draw any number of bytes from ranges of I/O sizes.",
    ),
    row(
        "bs_is_seq_rand",
        &[],
        Honoured,
        Switch(|d, on| d.job.shape.sizes_by_pattern = on),
        "Read bs as the sizes of sequential and random I/Os: bs=SEQUENTIAL,RANDOM.",
    ),
    row(
        "blockalign",
        &["ba"],
        Honoured,
        Triple(1, U32, |d, t| d.job.shape.block_align_bytes = each(t, small, d.job.shape.block_align_bytes)),
        "Alignment of random offsets.",
    ),
    row(
        "size",
        &[],
        Honoured,
        Size(|d, v| d.job.area.size = Some(v)),
        "Size of the area of the file that is used, in bytes or percent; with filesize the bytes to transfer.",
    ),
    row(
        "io_size",
        &["io_limit"],
        Honoured,
        Size(|d, v| d.job.area.io_size = (v != Amount::Bytes(0)).then_some(v)),
        "Bytes to transfer; may exceed size.",
    ),
    row("offset", &["fileoffset"], Honoured, Size(|d, v| d.job.area.offset = v), "Start of the area."),
    row(
        "offset_increment",
        &[],
        Honoured,
        Size(|d, v| d.job.area.offset_increment = v),
        "Increase of offset from clone to clone, in bytes or percent of the file.",
    ),
    row(
        "offset_align",
        &[],
        Honoured,
        Integer(0, u64::MAX, |d, v| d.job.area.offset_align_bytes = v),
        "Round an offset given in percent up to a multiple of this.",
    ),
    row(
        "number_ios",
        &[],
        Honoured,
        Integer(0, u64::MAX, |d, v| d.job.area.number_ios = (v > 0).then_some(v)),
        "Limit of the number of I/Os.",
    ),
    row("loops", &[], Honoured, Integer(1, U32, |d, v| d.job.area.loops = small(v)), "Number of passes over the area."),
    also(
        &["fill_fs"],
        row(
            "fill_device",
            &[],
            Honoured,
            Switch(|_, _| {}),
            "Continue to the end of the file or device; without a size, every job does this.",
        ),
    ),
    not_yet("file_append", &["0"], LAYOUT, "Start at the end of the file."),
    row("rwmixread", &[], Honoured, Integer(0, 100, |d, v| d.read_percent = byte(v)), "Percentage of reads."),
    row("rwmixwrite", &[], Honoured, Integer(0, 100, |d, v| d.read_percent = 100 - byte(v)), "Percentage of writes."),
    row(
        "norandommap",
        &[],
        Honoured,
        Flag(|d, on| d.job.shape.random_map = !on),
        "Let random blocks repeat within a pass.",
    ),
    quiet(
        "softrandommap",
        "the map of random blocks takes no memory here",
        "Continue without a map of used blocks if memory is short.",
    ),
    row(
        "percentage_random",
        &[],
        Honoured,
        Triple(0, 100, |d, t| d.job.shape.random_percent = each(t, byte, PerDirection::all(100))),
        "Percentage of random I/Os.",
    ),
    row(
        "random_distribution",
        &[],
        Honoured,
        Text(spread),
        "Distribution of random offsets: random, zipf:T[:C], pareto:H[:C], normal:D[:C], zoned:P/S:..., zoned_abs:P/SIZE:...",
    ),
    row("randseed", &[], Honoured, Integer(0, u64::MAX, |d, v| d.job.seed = Some(v)), "Seed of the job."),
    row(
        "randrepeat",
        &[],
        NoEffect,
        Nothing { harmless: &["1"], why: "every run is repeatable; --seed selects another sequence" },
        "Repeatable random offsets.",
    ),
    row(
        "allrandrepeat",
        &[],
        NoEffect,
        Nothing { harmless: &["1", "0"], why: "every run is repeatable" },
        "Repeatable random numbers.",
    ),
    quiet("random_generator", "Hoistway uses its own generator; the distribution is the same", "Random generator."),
    // Zones.
    row(
        "zonemode",
        &[],
        Honoured,
        Text(zone_mode),
        "Division of the area into zones: none, strided; zbd needs fio itself: hoistway test TARGET --generator fio.",
    ),
    row(
        "zonesize",
        &[],
        Honoured,
        Integer(0, u64::MAX, |d, v| d.zones.size_bytes = v),
        "Bytes to transfer before the next zone.",
    ),
    row(
        "zonerange",
        &[],
        Honoured,
        Integer(0, u64::MAX, |d, v| d.zones.range_bytes = v),
        "Size of a zone [default: zonesize].",
    ),
    row("zoneskip", &[], Honoured, Integer(0, u64::MAX, |d, v| d.zones.skip_bytes = v), "Gap between zones in bytes."),
    refused("zonecapacity", &["0"], ZONES, "Usable bytes of a zone."),
    refused("read_beyond_wp", &["0"], ZONES, "Read beyond the write pointer."),
    refused("max_open_zones", &["0"], ZONES, "Limit of open zones."),
    refused("job_max_open_zones", &["0"], ZONES, "Limit of open zones per job."),
    refused("ignore_zone_limits", &["0"], ZONES, "Ignore the device's limit of open zones."),
    refused("zone_reset_threshold", &[], ZONES, "When zones are reset."),
    refused("zone_reset_frequency", &[], ZONES, "How often zones are reset."),
    // Engine.
    row("ioengine", &[], Honoured, Text(engine), "I/O engine of the job, as in fio."),
    row("iodepth", &[], Honoured, Integer(1, 65_536, |d, v| d.job.submission.iodepth = small(v)), "I/Os in flight."),
    row(
        "iodepth_low",
        &[],
        Honoured,
        Integer(0, 65_536, |d, v| d.job.submission.iodepth_low = (v > 0).then(|| small(v))),
        "After reaching iodepth, submit again only at this number in flight.",
    ),
    also(
        &["iodepth_batch_submit"],
        quiet("iodepth_batch", "all free I/Os are submitted together", "Number of I/Os submitted together."),
    ),
    row(
        "iodepth_batch_complete_min",
        &["iodepth_batch_complete"],
        Honoured,
        Integer(0, 65_536, |d, v| d.job.submission.completion_batch = small(v)),
        "Number of completions to wait for when iodepth is reached.",
    ),
    quiet(
        "iodepth_batch_complete_max",
        "all available completions are handled",
        "Limit of completions handled together.",
    ),
    quiet("io_submit_mode", "submission never blocks here", "Whether another thread submits the I/Os."),
    not_yet(
        "serialize_overlap",
        &["0"],
        "overlapping I/Os are not serialised",
        "Delay I/Os that overlap others in flight.",
    ),
    row("direct", &[], Honoured, Switch(|d, on| d.job.submission.direct = on), "Bypass the page cache."),
    row("buffered", &[], Honoured, Switch(|d, on| d.job.submission.direct = !on), "The opposite of direct."),
    row("sync", &[], Honoured, Text(sync_kind), "Durability of writes: none, dsync, sync."),
    row(
        "fsync",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.job.submission.fsync_every = small(v)),
        "Call fsync after this number of writes.",
    ),
    row(
        "fdatasync",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.job.submission.fdatasync_every = small(v)),
        "Call fdatasync after this number of writes.",
    ),
    row("end_fsync", &[], Honoured, Switch(|d, on| d.job.submission.end_fsync = on), "Call fsync at the end."),
    row(
        "fsync_on_close",
        &[],
        Honoured,
        Switch(|d, on| d.job.submission.fsync_on_close = on),
        "Call fsync when the file is closed: at the end of each pass and of the job.",
    ),
    quiet("sync_file_range", "no host starts write-back of a range", "Start write-back of ranges."),
    row(
        "invalidate",
        &[],
        Honoured,
        Switch(|d, on| d.job.submission.invalidate = on),
        "Drop the cached pages of the file before the job.",
    ),
    // Clones, phases, groups of results.
    row("numjobs", &[], Honoured, Integer(1, 10_000, |d, v| d.job.threads = small(v)), "Number of clones of the job."),
    also(&["threads"], quiet("thread", "the host decides this", "Use threads instead of processes.")),
    row(
        "group_reporting",
        &[],
        Honoured,
        Flag(|d, on| d.job.reporting.group_reporting = on),
        "Report one result for all clones.",
    ),
    row("new_group", &[], Honoured, Flag(|d, on| d.begins_report_group = on), "Start a new reporting group."),
    row(
        "stonewall",
        &["wait_for_previous"],
        Honoured,
        Flag(|d, on| d.begins_phase = on),
        "Start after all earlier jobs have ended.",
    ),
    row("startdelay", &["start_delay"], Honoured, Text(start_delay), "Delay of the start in seconds, or a range."),
    row("exitall", &[], Honoured, Flag(|d, on| d.job.course.ends_phase = on), "End the other jobs when this one ends."),
    row("exit_what", &[], Honoured, Text(exit_what), "Jobs that exitall ends: group, stonewall, all."),
    not_yet("exitall_on_error", &["0"], "an error ends only its own thread", "End all jobs at an error."),
    // Time and rate.
    row(
        "runtime",
        &["timeout"],
        Honoured,
        Time(SECOND, |d, v| d.job.times.runtime_ns = (v > 0).then_some(v)),
        "Longest run time of the job.",
    ),
    row(
        "time_based",
        &[],
        Honoured,
        Flag(|d, on| d.job.times.time_based = on),
        "Repeat the job until runtime is over.",
    ),
    row(
        "ramp_time",
        &[],
        Honoured,
        Time(SECOND, |d, v| d.job.times.ramp_ns = v),
        "Warm-up at the start that is not measured.",
    ),
    row(
        "rate",
        &[],
        Honoured,
        Triple(0, u64::MAX, |d, t| d.job.pacing.rate_bytes_per_s = each(t, |v| v, PerDirection::all(0))),
        "Limit in bytes per second.",
    ),
    row(
        "rate_iops",
        &[],
        Honoured,
        Triple(0, U32, |d, t| d.job.pacing.rate_ios_per_s = each(t, small, PerDirection::all(0))),
        "Limit in I/Os per second.",
    ),
    row(
        "rate_min",
        &["ratemin"],
        Honoured,
        Triple(0, u64::MAX, |d, t| d.job.goals.least_bytes_per_s = each(t, |v| v, PerDirection::all(0))),
        "Required bytes per second; the job fails below it.",
    ),
    row(
        "rate_iops_min",
        &[],
        Honoured,
        Triple(0, U32, |d, t| d.job.goals.least_ios_per_s = each(t, small, PerDirection::all(0))),
        "Required I/Os per second; the job fails below it.",
    ),
    row(
        "rate_cycle",
        &["ratecycle"],
        Honoured,
        Integer(1, U32, |d, v| d.job.goals.cycle_ns = milliseconds(v)),
        "Time over which rate_min and rate_iops_min are averaged, in milliseconds.",
    ),
    row("rate_process", &[], Honoured, Text(rate_process), "Arrival of I/Os at a rate: linear, poisson."),
    row(
        "rate_ignore_thinktime",
        &[],
        Honoured,
        Switch(|d, on| d.job.pacing.rate_ignores_think = on),
        "Do not make up for thinktime to reach the rate.",
    ),
    row("thinktime", &[], Honoured, Time(MICROSECOND, |d, v| d.job.pacing.think.time_ns = v), "Pause between I/Os."),
    quiet("thinktime_spin", "threads sleep for the whole thinktime", "Part of thinktime spent in a busy loop."),
    row(
        "thinktime_blocks",
        &[],
        Honoured,
        Integer(1, U32, |d, v| d.job.pacing.think.blocks = small(v)),
        "Number of I/Os between pauses.",
    ),
    row(
        "thinktime_blocks_type",
        &[],
        Honoured,
        Text(think_type),
        "Whether thinktime_blocks counts I/Os at issue or completion: complete, issue.",
    ),
    row(
        "thinktime_iotime",
        &[],
        Honoured,
        Time(SECOND, |d, v| d.job.pacing.think.io_time_ns = v),
        "Time between pauses, instead of thinktime_blocks.",
    ),
    row(
        "flow",
        &[],
        Honoured,
        Integer(0, 1_000, flow),
        "Weight of the job in dividing I/Os among all jobs with the same flow_id.",
    ),
    row(
        "flow_id",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.flow.0 = small(v)),
        "Number of the flow that the job belongs to.",
    ),
    row(
        "flow_sleep",
        &[],
        Honoured,
        Integer(0, U32, |d, v| d.flow.1 = v * MICROSECOND),
        "Time to wait if the flow delays an I/O, in microseconds.",
    ),
    row(
        "latency_target",
        &[],
        Honoured,
        Time(MICROSECOND, |d, v| d.target.target_ns = v),
        "Search for the largest depth that keeps this latency.",
    ),
    row(
        "latency_window",
        &[],
        Honoured,
        Time(MICROSECOND, |d, v| d.target.window_ns = v),
        "Time for which each depth is tried.",
    ),
    row(
        "latency_percentile",
        &[],
        Honoured,
        Text(latency_percentile),
        "Percentage of I/Os that must keep latency_target.",
    ),
    row("latency_run", &[], Honoured, Switch(|d, on| d.target.continues = on), "Continue at the depth found."),
    row(
        "max_latency",
        &[],
        Honoured,
        Time(MICROSECOND, |d, v| d.job.goals.longest_io_ns = v),
        "Fail the job if an I/O takes longer.",
    ),
    row(
        "steadystate",
        &["ss"],
        Honoured,
        Text(steady_state),
        "End the job at a steady state: figure (iops, bw, lat, or its slope as in iops_slope) and limit, such as iops:0.3%; needs steadystate_duration.",
    ),
    row(
        "steadystate_duration",
        &["ss_dur"],
        Honoured,
        Time(SECOND, |d, v| d.steady.duration_ns = v),
        "Time for which the figure must be steady.",
    ),
    row(
        "steadystate_ramp_time",
        &["ss_ramp"],
        Honoured,
        Time(SECOND, |d, v| d.steady.ramp_ns = v),
        "Time at the start that the steady state ignores.",
    ),
    row(
        "steadystate_check_interval",
        &["ss_interval"],
        Honoured,
        Time(SECOND, |d, v| d.steady.interval_ns = v.max(MICROSECOND)),
        "Time between two values of the steady state.",
    ),
    // Priorities, CPUs, groups.
    row(
        "prio",
        &[],
        Honoured,
        Integer(0, 7, |d, v| d.priority.level = Some(byte(v))),
        "I/O priority level, 0 highest.",
    ),
    row(
        "prioclass",
        &[],
        Honoured,
        Integer(0, 3, |d, v| d.priority.class = byte(v)),
        "1 real time, 2 best effort, 3 idle.",
    ),
    row("priohint", &[], Honoured, Integer(0, 1023, |d, v| d.priority.hint = hint(v)), "Hint of the I/O priority."),
    row(
        "cmdprio_percentage",
        &[],
        Honoured,
        Triple(0, 100, other_priority),
        "Percentage of I/Os with the priority of cmdprio.",
    ),
    row("cmdprio_class", &[], Honoured, Integer(0, 3, |d, v| d.priority.other.1 = byte(v)), "Class of these I/Os."),
    row("cmdprio", &[], Honoured, Integer(0, 7, |d, v| d.priority.other.0 = byte(v)), "Level of these I/Os."),
    row("cmdprio_hint", &[], Honoured, Integer(0, 1023, |d, v| d.priority.other_hint = hint(v)), "Hint of these I/Os."),
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
        Signed(-20, 19, |d, v| d.priority.nice = v),
        "CPU priority; also determines the I/O priority if prio is not given.",
    ),
    row(
        "cpus_allowed",
        &[],
        Honoured,
        Text(cpus_allowed),
        "CPUs to run on (the engine has one thread for all jobs, the simulator none).",
    ),
    row("cpumask", &[], Honoured, Integer(1, u64::MAX, cpu_mask), "CPUs to run on, as a mask."),
    row("cpus_allowed_policy", &[], Honoured, Text(cpu_policy), "How clones divide these CPUs: shared, split."),
    quiet("numa_cpu_nodes", "no host binds memory nodes", "NUMA nodes to run on."),
    quiet("numa_mem_policy", "no host binds memory nodes", "NUMA memory policy."),
    row("cgroup", &[], Honoured, Text(|d, text| store(&mut d.job.group, text)), "Group (cgroup) of the job."),
    row(
        "cgroup_weight",
        &[],
        Honoured,
        Integer(1, 10_000, |d, v| d.job.group_settings.weight = Some(small(v))),
        "Weight of that group.",
    ),
    quiet("cgroup_nodelete", "the host removes the groups it created", "Keep the group at the end."),
    not_yet("uid", &[], "hosts do not change the user", "User to run as."),
    not_yet("gid", &[], "hosts do not change the group", "Group to run as."),
];
