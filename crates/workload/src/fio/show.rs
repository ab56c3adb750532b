//! Formats jobs as a job file that parses to the same jobs (`hoistway test --show-jobs`).
//!
//! Block size, depth, clones and engine are always written, other values if they differ from fio's
//! defaults; sizes are in bytes, times in microseconds, except those of options that count milliseconds.

use std::fmt::{Display, Write};

use hoistway_block::time::MILLISECOND;

use super::checks::LEAST_VERIFY_INTERVAL_BYTES;
use super::engines;
use super::microseconds;
use crate::goal::{Figure, Search};
use crate::job::{
    Amount, BlockSize, Direction, Distribution, Ends, FileOrder, Job, Mix, Pattern, PerDirection, PrioritySplit,
    RateProcess, SyncKind, ZoneShare,
};

/// Formats these jobs as a job file. They must come from [`super::parse`], because fields that only
/// workload names such as `drr` set have no fio option.
pub fn show(jobs: &[Job]) -> String {
    let mut file = String::new();
    for (index, job) in jobs.iter().enumerate() {
        if index > 0 {
            file.push('\n');
        }
        let mut section = Section { text: String::new(), default: Job::default() };
        section.head(job, index.checked_sub(1).map(|before| &jobs[before]));
        section.place(job);
        match &job.source.program {
            None => {
                section.pattern(job);
                section.sizes(job);
                section.depth(job);
            }
            // A program describes its I/O itself.
            Some(program) => section.line("program", program),
        }
        section.engine(job);
        section.time(job);
        section.goals(job);
        section.output(job);
        section.group(job);
        file.push_str(&section.text);
    }
    file
}

fn span_of(section: &mut Section, key: &str, time_ns: u64) {
    if time_ns > 0 {
        section.line(key, format_args!("{}us", microseconds(time_ns)));
    }
}

struct Section {
    text: String,
    default: Job,
}

impl Section {
    fn line(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.text, "{key}={value}");
    }

    fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.line(key, value);
        }
    }

    fn number(&mut self, key: &str, value: u64, default: u64) {
        if value != default {
            self.line(key, value);
        }
    }

    fn flag(&mut self, key: &str, is_on: bool) {
        if is_on {
            self.line(key, 1);
        }
    }

    fn amount(&mut self, key: &str, value: Option<Amount>) {
        match value {
            None => {}
            Some(Amount::Bytes(bytes)) => self.line(key, bytes),
            Some(Amount::Percent(percent)) => self.line(key, format_args!("{percent}%")),
        }
    }

    fn triple<T: Copy + PartialEq + Display>(&mut self, key: &str, value: PerDirection<T>, default: PerDirection<T>) {
        if value != default {
            self.line(key, format_args!("{},{},{}", value.read, value.write, value.trim));
        }
    }

    fn head(&mut self, job: &Job, before: Option<&Job>) {
        if job.name.is_empty() || job.name == "global" || job.name.contains([']', '\n']) {
            self.text.push_str("[job]\n");
            self.text("name", &job.name);
        } else {
            let _ = writeln!(self.text, "[{}]", job.name);
        }
        self.text("description", &job.description);
        if let Some(before) = before {
            self.flag("stonewall", job.course.phase != before.course.phase);
            self.flag(
                "new_group",
                job.course.phase == before.course.phase && job.reporting.report_group != before.reporting.report_group,
            );
        }
        self.text("wait_for", &job.course.wait_for);
        self.flag("exitall", job.course.ends_phase);
        match job.course.ends {
            Ends::Group => {}
            Ends::Phase => self.line("exit_what", "stonewall"),
            Ends::All => self.line("exit_what", "all"),
        }
        self.flag("group_reporting", job.reporting.group_reporting);
        self.line("numjobs", job.threads);
    }

    fn place(&mut self, job: &Job) {
        if job.area.files > 1 && !job.area.file.is_empty() {
            // The list is written as it was given.
            self.text("filename", &job.area.file);
        } else {
            self.text("filename", &job.area.file.replace(':', "\\:"));
            self.number("nrfiles", u64::from(job.area.files), 1);
        }
        let run = if job.area.file_run > 1 { format!(":{}", job.area.file_run) } else { String::new() };
        match (job.area.file_order, run.is_empty()) {
            (FileOrder::RoundRobin, true) => {}
            (FileOrder::RoundRobin, false) => self.line("file_service_type", format_args!("roundrobin{run}")),
            (FileOrder::Random, _) => self.line("file_service_type", format_args!("random{run}")),
            (FileOrder::Sequential, _) => self.line("file_service_type", format_args!("sequential{run}")),
        }
        self.text("directory", &job.area.directory);
        match (job.area.least_file_bytes, job.area.file_bytes) {
            (Some(least_bytes), Some(most_bytes)) => self.line("filesize", format_args!("{least_bytes}-{most_bytes}")),
            (_, file_bytes) => self.amount("filesize", file_bytes.map(Amount::Bytes)),
        }
        self.amount("offset", (job.area.offset != self.default.area.offset).then_some(job.area.offset));
        self.number("offset_align", job.area.offset_align_bytes, 0);
        self.amount(
            "offset_increment",
            (job.area.offset_increment != self.default.area.offset_increment).then_some(job.area.offset_increment),
        );
        if let Some(zones) = job.area.zones {
            self.line("zonemode", "strided");
            self.line("zonesize", zones.size_bytes);
            self.line("zonerange", zones.range_bytes);
            self.line("zoneskip", zones.skip_bytes);
        }
        self.amount("size", job.area.size);
        self.amount("io_size", job.area.io_size);
        self.number("number_ios", job.area.number_ios.unwrap_or(0), 0);
        self.number("loops", u64::from(job.area.loops), 1);
    }

    fn pattern(&mut self, job: &Job) {
        let (prefix, suffix) = match job.shape.pattern {
            Pattern::Sequential { skip_bytes: 0 } | Pattern::Random { run: 1, .. } => {
                (job.shape.pattern, String::new())
            }
            Pattern::Sequential { skip_bytes } => (job.shape.pattern, format!(":{skip_bytes}")),
            Pattern::Random { run, .. } => (job.shape.pattern, format!(":{run}")),
        };
        let prefix = if matches!(prefix, Pattern::Random { .. }) { "rand" } else { "" };
        let word = match job.shape.mix {
            Mix::Read => "read",
            Mix::Write => "write",
            Mix::Trim => "trim",
            Mix::ReadWrite { .. } => "rw",
            Mix::TrimWrite => "trimwrite",
            Mix::Rewrite => "rewrite",
        };
        self.line("rw", format_args!("{prefix}{word}{suffix}"));
        if let Mix::ReadWrite { read_percent } = job.shape.mix {
            self.number("rwmixread", u64::from(read_percent), 50);
        }
        if matches!(job.shape.pattern, Pattern::Random { repeat_offset: true, .. }) {
            self.line("rw_sequencer", "identical");
        }
        self.flag("norandommap", !job.shape.random_map);
        self.triple("percentage_random", job.shape.random_percent, self.default.shape.random_percent);
        let centre = job.shape.centre_millionths;
        match &job.shape.distribution {
            Distribution::Uniform => {}
            Distribution::Zipf { theta_millionths } => self.distribution("zipf", u64::from(*theta_millionths), centre),
            Distribution::Pareto { h_millionths } => self.distribution("pareto", u64::from(*h_millionths), centre),
            // Written in percent of the area.
            Distribution::Normal { deviation_millionths } => {
                self.distribution("normal", u64::from(*deviation_millionths) * 100, centre);
            }
            Distribution::Zoned(zones) => self.zoned(zones),
        }
        if let Some(seed) = job.seed {
            self.line("randseed", seed);
        }
    }

    fn distribution(&mut self, word: &str, millionths: u64, centre_millionths: Option<u32>) {
        let (whole, fraction) = (millionths / 1_000_000, millionths % 1_000_000);
        let centre = centre_millionths
            .map_or_else(String::new, |centre| format!(":{}.{:06}", centre / 1_000_000, centre % 1_000_000));
        self.line("random_distribution", format_args!("{word}:{whole}.{fraction:06}{centre}"));
    }

    fn zoned(&mut self, zones: &PerDirection<Vec<ZoneShare>>) {
        let all = [&zones.read, &zones.write, &zones.trim];
        let is_absolute = all.iter().any(|zones| zones.iter().any(|zone| matches!(zone.size, Amount::Bytes(_))));
        let part = |zone: &ZoneShare| match zone.size {
            Amount::Bytes(size) => format!("{}/{size}", zone.percent),
            Amount::Percent(size) => format!("{}/{size}", zone.percent),
        };
        let parts = all.map(|zones| zones.iter().map(part).collect::<Vec<_>>().join(":"));
        let word = if is_absolute { "zoned_abs" } else { "zoned" };
        self.line("random_distribution", format_args!("{word}:{}", parts.join(",")));
    }

    fn sizes(&mut self, job: &Job) {
        let sizes = Direction::ALL.map(|direction| job.shape.block_sizes.of(direction));
        let fixed = sizes.map(|size| match size {
            BlockSize::Fixed(bytes) => *bytes,
            _ => 4096,
        });
        let [read, write, trim] = fixed;
        if (read, read) == (write, trim) {
            self.line("bs", read);
        } else {
            self.line("bs", format_args!("{read},{write},{trim}"));
        }
        if sizes.iter().any(|size| matches!(size, BlockSize::Range { .. })) {
            let ranges = sizes.map(|size| format!("{}-{}", size.smallest_bytes(), size.largest_bytes()));
            self.line("bsrange", ranges.join(","));
        }
        if sizes.iter().any(|size| matches!(size, BlockSize::Split(_))) {
            self.line("bssplit", sizes.map(split).join(","));
        }
        self.flag("bs_unaligned", job.shape.sizes_unaligned);
        self.flag("bs_is_seq_rand", job.shape.sizes_by_pattern);
        let PerDirection { read, write, trim } = job.shape.block_align_bytes;
        if (read, write, trim) != (0, 0, 0) {
            let parts = [read, write, trim].map(|align| if align == 0 { String::new() } else { align.to_string() });
            self.line("blockalign", parts.join(","));
        }
    }

    fn depth(&mut self, job: &Job) {
        self.line("iodepth", job.submission.iodepth);
        self.number("iodepth_low", u64::from(job.submission.iodepth_low.unwrap_or(0)), 0);
        self.number("iodepth_batch_complete_min", u64::from(job.submission.completion_batch), 1);
    }

    fn engine(&mut self, job: &Job) {
        self.line("ioengine", engines::name_of(job));
        self.flag("direct", job.submission.direct);
        if !job.submission.invalidate {
            self.line("invalidate", 0);
        }
        match job.submission.sync {
            SyncKind::None => {}
            SyncKind::DataSync => self.line("sync", "dsync"),
            SyncKind::Sync => self.line("sync", "sync"),
        }
        self.number("fsync", u64::from(job.submission.fsync_every), 0);
        self.number("fdatasync", u64::from(job.submission.fdatasync_every), 0);
        self.flag("end_fsync", job.submission.end_fsync);
        self.flag("fsync_on_close", job.submission.fsync_on_close);
        let continues = job.checks.verify.as_ref().is_some_and(|verify| verify.continues);
        match (job.checks.continue_on_error.read, job.checks.continue_on_error.write) {
            (false, false) if continues => self.line("continue_on_error", "verify"),
            (false, false) => {}
            (true, true) if continues => self.line("continue_on_error", "all"),
            (true, false) => self.line("continue_on_error", "read"),
            (false, true) => self.line("continue_on_error", "write"),
            (true, true) => self.line("continue_on_error", "io"),
        }
        let Some(verify) = &job.checks.verify else { return };
        self.line("verify", verify.kind.name());
        // One that follows from the block sizes may be smaller than the option allows, and follows again.
        if u64::from(verify.interval_bytes) >= LEAST_VERIFY_INTERVAL_BYTES {
            self.number("verify_interval", u64::from(verify.interval_bytes), 0);
        }
        self.number("verify_offset", u64::from(verify.header_offset_bytes), 0);
        self.text("verify_pattern", &verify.pattern.show());
        if !verify.reads_back {
            self.line("do_verify", 0);
        }
        self.flag("verify_only", verify.only_checks);
        self.number("verify_backlog", u64::from(verify.backlog), 0);
        self.number("verify_backlog_batch", u64::from(verify.backlog_batch), 0);
        if !verify.checks_order {
            self.line("verify_write_sequence", 0);
        }
        self.flag("verify_fatal", verify.is_fatal);
    }

    fn time(&mut self, job: &Job) {
        let mut span = |key: &str, time_ns: u64| {
            if time_ns > 0 {
                self.line(key, format_args!("{}us", microseconds(time_ns)));
            }
        };
        span("runtime", job.times.runtime_ns.unwrap_or(0));
        span("ramp_time", job.times.ramp_ns);
        span("thinktime", job.pacing.think.time_ns);
        if job.times.start_delay_ns != (0, 0) {
            let (earliest, latest) = job.times.start_delay_ns;
            self.line("startdelay", format_args!("{}us-{}us", microseconds(earliest), microseconds(latest)));
        }
        self.flag("time_based", job.times.time_based);
        self.number("thinktime_blocks", u64::from(job.pacing.think.blocks), 0);
        span_of(self, "thinktime_iotime", job.pacing.think.io_time_ns);
        if job.pacing.think.counts_issued {
            self.line("thinktime_blocks_type", "issue");
        }
        self.triple("rate", job.pacing.rate_bytes_per_s, self.default.pacing.rate_bytes_per_s);
        self.triple("rate_iops", job.pacing.rate_ios_per_s, self.default.pacing.rate_ios_per_s);
        if job.pacing.rate_process == RateProcess::Poisson {
            self.line("rate_process", "poisson");
        }
        self.flag("rate_ignore_thinktime", job.pacing.rate_ignores_think);
    }

    fn goals(&mut self, job: &Job) {
        let goals = &job.goals;
        self.triple("rate_min", goals.least_bytes_per_s, self.default.goals.least_bytes_per_s);
        self.triple("rate_iops_min", goals.least_ios_per_s, self.default.goals.least_ios_per_s);
        self.number("rate_cycle", goals.cycle_ns / MILLISECOND, self.default.goals.cycle_ns / MILLISECOND);
        span_of(self, "max_latency", goals.longest_io_ns);
        if let Some(Search { target_ns, window_ns, share_millionths, continues }) = goals.search {
            span_of(self, "latency_target", target_ns);
            span_of(self, "latency_window", window_ns);
            let (whole, fraction) = (share_millionths / 10_000, share_millionths % 10_000);
            self.line("latency_percentile", format_args!("{whole}.{fraction:04}"));
            self.flag("latency_run", continues);
        }
        if let Some(steady) = goals.steady {
            let word = match steady.figure {
                Figure::Ios => "iops",
                Figure::Bytes => "bw",
                Figure::Latency => "lat",
            };
            let slope = if steady.by_slope { "_slope" } else { "" };
            let (whole, fraction) = (steady.limit_millionths / 1_000_000, steady.limit_millionths % 1_000_000);
            let limit = match (steady.in_percent, steady.figure) {
                (true, _) => format!("{whole}.{fraction:06}%"),
                (false, Figure::Ios) => format!("{whole}.{fraction:06}"),
                (false, Figure::Bytes) => whole.to_string(),
                (false, Figure::Latency) => format!("{}us", microseconds(whole)),
            };
            self.line("steadystate", format_args!("{word}{slope}:{limit}"));
            span_of(self, "steadystate_duration", steady.duration_ns);
            span_of(self, "steadystate_ramp_time", steady.ramp_ns);
            span_of(self, "steadystate_check_interval", steady.interval_ns);
        }
        if let Some(flow) = goals.flow {
            self.line("flow", flow.weight);
            self.number("flow_id", u64::from(flow.id), 0);
            self.number("flow_sleep", microseconds(flow.sleep_ns), 0);
        }
        let PerDirection { read, write, .. } = &goals.ignored_errnos;
        if !read.is_empty() || !write.is_empty() {
            let list = |errors: &[u16]| errors.iter().map(u16::to_string).collect::<Vec<_>>().join(":");
            self.line("ignore_error", format_args!("{},{}", list(read), list(write)));
        }
        if !job.affinity.cpus.is_empty() {
            self.line("cpus_allowed", job.affinity.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        }
        if job.affinity.splits_cpus {
            self.line("cpus_allowed_policy", "split");
        }
    }

    fn output(&mut self, job: &Job) {
        let output = &job.output;
        let logs = [
            ("write_bw_log", &output.bandwidth_log),
            ("write_lat_log", &output.latency_log),
            ("write_iops_log", &output.ios_log),
            ("write_hist_log", &output.histogram_log),
            ("write_iolog", &output.iolog),
        ];
        for (key, prefix) in logs {
            if let Some(prefix) = prefix {
                self.line(key, prefix);
            }
        }
        self.number("log_avg_msec", output.average_over_ns / MILLISECOND, 0);
        self.number("log_hist_msec", output.histogram_every_ns / MILLISECOND, 0);
        self.number("log_hist_coarseness", u64::from(output.histogram_coarseness), 0);
        self.flag("log_max_value", output.largest);
        self.flag("log_offset", output.with_offsets);
        self.flag("log_prio", output.with_priorities);
        if output.in_one_file {
            self.line("per_job_logs", 0);
        }
        let Some(input) = &job.source.input else { return };
        self.line("read_iolog", &input.file);
        self.flag("replay_no_stall", input.as_fast_as_possible);
        self.number("replay_time_scale", u64::from(input.time_percent), 100);
        self.number("replay_scale", u64::from(input.divide_offsets_by), 0);
        self.number("replay_align", u64::from(input.align_bytes), 0);
        let words = ["read", "write", "trim", "sync"].into_iter().zip(input.skips);
        let skipped: Vec<&str> = words.filter(|(_, is_skipped)| *is_skipped).map(|(word, _)| word).collect();
        self.text("replay_skip", &skipped.join(","));
    }

    fn group(&mut self, job: &Job) {
        let (class, level, hint) = parts_of(job.priorities.priority_bits);
        if (class, level) != (0, 0) {
            self.line("prio", level);
            self.line("prioclass", class);
        }
        self.number("priohint", u64::from(hint), 0);
        let share = job.priorities.priority_share;
        if share.read_percent > 0 || share.write_percent > 0 {
            self.line("cmdprio_percentage", format_args!("{},{}", share.read_percent, share.write_percent));
            let (class, level, hint) = parts_of(share.priority_bits);
            self.line("cmdprio_class", class);
            self.line("cmdprio", level);
            self.number("cmdprio_hint", u64::from(hint), 0);
        }
        let PerDirection { read, write, .. } = &job.priorities.priority_splits;
        if !read.is_empty() || !write.is_empty() {
            let part = |it: &PrioritySplit| {
                let (class, level, hint) = parts_of(it.priority_bits);
                let hint = if hint > 0 { format!("/{hint}") } else { String::new() };
                format!("{}/{}/{class}/{level}{hint}", it.bytes, it.percent)
            };
            let parts = [read, write].map(|splits| splits.iter().map(part).collect::<Vec<_>>().join(":"));
            self.line("cmdprio_bssplit", parts.join(","));
        }
        self.text("cgroup", &job.group);
        let group_settings = &job.group_settings;
        self.number("cgroup_weight", u64::from(group_settings.weight.unwrap_or(0)), 0);
        let limits = [
            ("priority", group_settings.priority.map(u64::from)),
            ("rbps", group_settings.read_bytes_per_s),
            ("wbps", group_settings.write_bytes_per_s),
            ("riops", group_settings.read_ios_per_s),
            ("wiops", group_settings.write_ios_per_s),
            ("high", group_settings.high_bytes_per_s),
        ];
        for (key, limit) in limits {
            if let Some(limit) = limit {
                let _ = writeln!(self.text, ";# hoistway: {key}={limit}");
            }
        }
        if let Some(scheduler) = &group_settings.scheduler {
            let _ = writeln!(self.text, ";# hoistway: sched={scheduler}");
        }
    }
}

/// Class, level and hint of a priority in Linux's encoding.
fn parts_of(bits: u16) -> (u16, u16, u16) {
    (bits >> 13, bits & 7, bits >> 3 & 0x3ff)
}

/// One direction of `bssplit`; empty for a range, which is written as `bsrange`.
fn split(size: &BlockSize) -> String {
    match size {
        BlockSize::Fixed(bytes) => format!("{bytes}/100"),
        BlockSize::Range { .. } => String::new(),
        BlockSize::Split(entries) => {
            let entry = |entry: &crate::job::SplitEntry| format!("{}/{}", entry.bytes, entry.weight / 100);
            entries.iter().map(entry).collect::<Vec<_>>().join(":")
        }
    }
}
