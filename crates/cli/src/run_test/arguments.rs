//! The options of `hoistway test` (harness 5.3), by subject.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use hoistway_block::Nanos;

use crate::run_test::compare::CompareArguments;
use crate::units;

/// Thread counts; an alias, so that clap sees one value and not a repeated option.
pub type ThreadCounts = Vec<u32>;
/// Percentiles, 0 to 100; an alias for the same reason.
pub type Percentiles = Vec<f64>;

/// Seeds; an alias for the same reason.
pub type Seeds = Vec<u64>;

/// Options that the steps of a scenario set, so that the command line may not.
const SET_BY_SCENARIO: [&str; 30] = [
    "device_depth",
    "machine",
    "queue_requests",
    "file",
    "keep",
    "exclusive",
    "job",
    "show_jobs",
    "trace",
    "generator",
    "max_threads",
    "threads",
    "block_bytes",
    "iodepth",
    "size_bytes",
    "rwmixread",
    "fsync",
    "rate_iops",
    "groups",
    "nrgrp",
    "strict",
    "buffered_async",
    "limiter",
    "slice_idle",
    "group_idle",
    "quantum",
    "low_latency",
    "group_isolation",
    "sweep",
    "resume",
];

/// Options that `-h` shows: those of a first comparison. `--help` has all.
const COMMON: [&str; 19] = [
    "target",
    "scenario",
    "host",
    "destructive",
    "workload",
    "iodepth",
    "runtime",
    "ramp",
    "weights",
    "group",
    "sched",
    "sets",
    "assert",
    "outdir",
    "dry_run",
    "format",
    "explain",
    "help",
    "version",
];

/// Leaves a rarer option out of `-h`.
fn in_long_help_only(argument: clap::Arg) -> clap::Arg {
    let is_common = COMMON.contains(&argument.get_id().as_str());
    if is_common { argument } else { argument.hide_short_help(true) }
}

/// `hoistway test`.
#[derive(Args, Debug, Clone)]
#[command(
    mut_args(in_long_help_only),
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  hoistway test                                     four sequential readers of a simulated SATA disk, weights 100,
                                                    200, 300 and 400, under none, mq-deadline, bfq and paternoster
  hoistway test -s all                              the same under every scheduler
  hoistway test model:ssd -w randread:iodepth=32 --weights 100,800 -s none -s wfq
  hoistway test model:nvme,seed=7 -w job.fio -s mq-deadline --sweep fifo_batch=1,16,64
  hoistway test /mnt/disk -m 8 --sets 3             real I/O on a temporary file in that directory
  hoistway test --host engine model:ssd -s wfq      real I/O on a temporary file, with the timing of a model SSD
  hoistway test --scenario write-bomb               repeat a published experiment with its own settings
  hoistway test --scenario everyday:quick -s bfq    54 everyday situations, a verdict on each, in half a minute
  hoistway test --scenario everyday model:nvme -w drm:bs=16k,iodepth=8 --weights 100,800 --weights 50,100
  hoistway test -s none -s wfq --assert 'share_error_max <= 10% @ sched=wfq'
  hoistway test report DIR                          print a stored result again
  hoistway test compare DIR1 DIR2                   which differences exceed the noise

Without TARGET, workload and group options, the first example runs. -h shows the common options, --help all."
)]
pub struct TestArguments {
    /// A subcommand on stored results, instead of a run.
    #[command(subcommand)]
    pub stored: Option<Stored>,
    /// What to measure: model:NAME[,KEY=VALUE...] (simulated), a directory, a file or a block device [default:
    /// model:sata]
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// Run a stored experiment: NAME or FILE.toml, or NAME:STEP for one of its steps; `hoistway list scenarios` lists
    /// them. TARGET, --host, --sched, times, seed, repetition and output options apply to every step. In a scenario
    /// with verdicts (everyday), --device, -w, --weights and --group replace its own
    #[arg(long, value_name = "NAME", conflicts_with_all = SET_BY_SCENARIO)]
    pub scenario: Option<String>,
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub replay: crate::replay::arguments::ReplayOptions,
    #[command(flatten)]
    pub groups: GroupArguments,
    #[command(flatten)]
    pub schedulers: SchedulerArguments,
    #[command(flatten)]
    pub repetition: RepetitionArguments,
    #[command(flatten)]
    pub judge: JudgeArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// What is done with stored results.
#[derive(Subcommand, Debug, Clone)]
pub enum Stored {
    /// Print a stored result again
    #[command(after_help = "Examples:
  hoistway test report hoistway-test-20261122-101500
  hoistway test report hoistway-test-20261122-101500 --format html=report.html
  hoistway test report fio.json --explain")]
    Report(ReportArguments),
    /// Compare two stored results (same as `hoistway compare`)
    #[command(after_help = "Examples:
  hoistway test compare before after
  hoistway test compare before after --max-regression 5%@lat_p99")]
    Compare(CompareArguments),
}

/// `hoistway test report`.
#[derive(Args, Debug, Clone)]
pub struct ReportArguments {
    /// Result directory, or a JSON file written by fio (each job is shown as a group)
    pub directory: PathBuf,
    #[command(flatten)]
    pub show: ShowArguments,
}

/// The target, and the host that issues the I/O.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Target")]
pub struct PlaceArguments {
    /// Which host runs the schedulers: simulator (sim), engine (real I/O under Hoistway's schedulers), or native
    /// (kernel: the kernel's own schedulers on a block device, with real cgroups) [default: simulator for a model, else
    /// engine]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Number of commands the device accepts at a time [default: the device's own queue depth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub device_depth: Option<u32>,
    /// Parameters of the simulated computer: era=2.6,read_ahead_kib=128,...; `hoistway list machine` lists them
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = units::machine)]
    pub machine: Option<hoistway_experiment::Machine>,
    /// Number of requests in the scheduler's queue (nr_requests) [default: as in Linux: twice the device's depth;
    /// without a scheduler, the depth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_240))]
    pub queue_requests: Option<u32>,
    /// Use the test file PATH as the target: created if it does not exist; an existing file is accepted only if
    /// Hoistway created it
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    pub file: Option<PathBuf>,
    /// Keep the temporary file of a directory target
    #[arg(long)]
    pub keep: bool,
    /// Refuse a block device that is mounted or otherwise in use, even for reading
    #[arg(long)]
    pub exclusive: bool,
    /// Allow writes to this block device (repeat the path of TARGET); its content is lost. Native host only
    #[arg(long, value_name = "DEVICE")]
    pub destructive: Option<PathBuf>,
    /// With --destructive: write even if the device holds a file system or a partition table
    #[arg(long, requires = "destructive")]
    pub overwrite_signature: bool,
}

/// The load.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArguments {
    /// Workload by name (read, write, rw, randread, randwrite, randrw, as in fio and direct; bsr ... drm, dd, bonnie,
    /// dbench, startup, video, copy, or all; with options as in
    /// randread:bs=4k,iodepth=32) or a fio job file FILE.fio; repeatable; `hoistway list workloads` explains the names
    /// [default: randread; without TARGET read; both direct, of 32k]
    #[arg(short, long, value_name = "W")]
    pub workload: Vec<String>,
    /// Same as -w FILE.fio
    #[arg(long, value_name = "FILE.fio")]
    pub job: Vec<PathBuf>,
    /// Print the jobs of this job file with all defaults and inherited options filled in, and exit
    #[arg(long, value_name = "FILE.fio")]
    pub show_jobs: Option<PathBuf>,
    /// Let buffered libaio jobs keep iodepth I/Os in flight, although Linux issues them one at a time
    #[arg(long)]
    pub buffered_async: bool,
    /// Replay this trace instead of a workload: a file in any supported format, or the base name of blktrace files; see
    /// `hoistway replay --help`
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Generate the load with fio instead of Hoistway's own generator, as a cross-check; on a block device (--host
    /// native), a directory or a file
    #[arg(long, value_name = "fio[=PATH]")]
    pub generator: Option<String>,
    /// Repeat the test with 1, 2, 4, ..., N threads per group [default: 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with = "threads")]
    pub max_threads: Option<u32>,
    /// Repeat the test with these numbers of threads per group: 1,3,6
    #[arg(long, value_name = "LIST", value_parser = units::threads)]
    pub threads: Option<ThreadCounts>,
    /// Size of an I/O
    #[arg(long = "bs", value_name = "SIZE", value_parser = units::size)]
    pub block_bytes: Option<u64>,
    /// I/Os in flight per thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub iodepth: Option<u32>,
    /// Size of the area that each thread accesses [default: simulator: an equal part of the device; engine: 256 MiB]
    #[arg(long = "size", value_name = "SIZE", value_parser = units::size)]
    pub size_bytes: Option<u64>,
    /// Percentage of reads in mixed workloads
    #[arg(long, value_name = "PCT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: Option<u8>,
    /// Call fsync after every N writes of a thread
    #[arg(long, value_name = "N")]
    pub fsync: Option<u32>,
    /// Limit each thread to this many I/Os per second
    #[arg(long, value_name = "IOPS", value_parser = units::ios_per_s)]
    pub rate_iops: Option<u64>,
    /// Measured time per run; virtual time on the simulator [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub runtime: Option<Nanos>,
    /// Warm-up before the measured time of each run [default: 2s; simulator: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub ramp: Option<Nanos>,
    /// Seed of the random number generators [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// The groups that share the device.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Groups")]
pub struct GroupArguments {
    /// Run the workload in several groups (implied by --nrgrp, --weights and --group)
    #[arg(short = 'c', long)]
    pub groups: bool,
    /// Number of groups [default: 4 with -c, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nrgrp: Option<u32>,
    /// Weights of the groups, 1 to 10000: 100,800, or 100..800 (even steps over the groups); repeatable in a scenario
    /// with verdicts [default: 100,200,...,100*N]
    #[arg(long, value_name = "LIST")]
    pub weights: Vec<String>,
    /// Define one group; repeatable: name=db,weight=800,workload=randread:iodepth=4,threads=2,start=5s,stop=20s; --help has
    /// the other keys
    ///
    /// Further keys: rbps=..,wbps=..,riops=..,wiops=.. (limits of io.max), low_rbps=..,idle=US,latency=US (io.low), high=.. (io.high of the kernel patches of 2016), target=US
    /// (io.latency), ioprio=be/4, leaf_weight=N (weight of its own threads beside its child groups, for cfq),
    /// priority=0..7 (for uchida and tarasov), files=own (one file per thread), cgroup=root (a group in the report
    /// only: its processes stay in the root cgroup). Two workload=...,threads=... pairs run both workloads in one
    /// group; workload=none makes a parent without I/O for groups named name=a/b; reweigh=8s:400 changes the weight
    /// during the run, in scenarios with verdicts
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["nrgrp", "weights"])]
    pub group: Vec<String>,
    /// Refuse weights that the scheduler cannot represent to within 2 % of their ratios, and traces that reach beyond
    /// the target
    #[arg(long)]
    pub strict: bool,
    /// Leave out the runs of each group alone (up to 5 s each on a real device), which tell what it is entitled to: the
    /// tables then have no isolation
    #[arg(long)]
    pub no_solo: bool,
    /// Run each group alone first: the default now
    #[arg(long, hide = true, conflicts_with = "no_solo")]
    pub calibrate: bool,
    /// Unit in which shares are measured
    #[arg(long, value_name = "UNIT", default_value = "bytes")]
    pub share_unit: ShareUnitName,
}

/// Unit in which shares are measured
#[derive(ValueEnum, Copy, Clone, Debug)]
pub enum ShareUnitName {
    /// Bytes completed.
    Bytes,
    /// Requests completed.
    Ios,
    /// Device time used.
    Time,
}

/// The schedulers and limiters.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Schedulers")]
pub struct SchedulerArguments {
    /// Scheduler to test: NAME[@VERSION][:TUNABLE=VALUE,...], where VERSION is a kernel version (or v8r3, of bfq); repeatable;
    /// `all` means every scheduler [default: none, mq-deadline, bfq and paternoster; native host: the one set now
    /// (current)]
    #[arg(short, long, value_name = "SPEC")]
    pub sched: Vec<String>,
    /// Put this limiter in front of every scheduler: NAME[:TUNABLE=VALUE,...]; repeatable; `hoistway list limiters`
    /// lists them. The limiter that a group's limits require is added automatically
    #[arg(long, value_name = "SPEC")]
    pub limiter: Vec<String>,
    /// Set slice_idle=V in every scheduler that has it
    #[arg(short = 'I', long, value_name = "V")]
    pub slice_idle: Option<String>,
    /// Set group_idle=V in every scheduler that has it
    #[arg(long, value_name = "V")]
    pub group_idle: Option<String>,
    /// Set quantum=V in every scheduler that has it
    #[arg(long, value_name = "V")]
    pub quantum: Option<String>,
    /// Set low_latency=V in every scheduler that has it
    #[arg(long, value_name = "0|1")]
    pub low_latency: Option<String>,
    /// Set group_isolation=1 in every scheduler that has it; without --sched test CFQ of the kernel that had it
    #[arg(short = 'G', long)]
    pub group_isolation: bool,
    /// Test every scheduler that has this tunable once per value; repeatable: all combinations are tested
    #[arg(long, value_name = "KEY=V1,V2,..")]
    pub sweep: Vec<String>,
}

/// Scenarios with verdicts (`--scenario everyday`).
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Scenarios with verdicts, such as everyday")]
pub struct JudgeArguments {
    /// Use this device model instead of the scenario's: NAME[,KEY=VALUE...]; repeatable; TARGET is added to them
    #[arg(long, value_name = "MODEL", requires = "scenario")]
    pub device: Vec<String>,
    /// Use these seeds instead of the scenario's: each cell runs once per scheduler and seed
    #[arg(long, value_name = "LIST", value_parser = units::seeds, requires = "scenario", conflicts_with = "seed")]
    pub seeds: Option<Seeds>,
    /// Reference scheduler that shows what the device can achieve, instead of the scenario's; repeatable; `none` is
    /// always measured
    #[arg(long, value_name = "SPEC", requires = "scenario")]
    pub against: Vec<String>,
    /// Run only cells whose name contains TEXT; repeatable; --dry-run prints the names
    #[arg(long, value_name = "TEXT", requires = "scenario")]
    pub cells: Vec<String>,
}

/// Repetitions and statistics.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Repetition and statistics")]
pub struct RepetitionArguments {
    /// Number of repetitions of every run [default: 1; 3 with --assert]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sets: Option<u32>,
    /// Repeat until --precision is reached, at most N times [default: the value of --sets]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub max_sets: Option<u32>,
    /// Target for half the width of the 95 % confidence interval of the total throughput [default: 5%]
    #[arg(long, value_name = "PCT", requires = "max_sets", value_parser = units::percent)]
    pub precision: Option<f64>,
    /// Order of the runs: schedulers shuffled within each repetition, or all repetitions of one scheduler after another
    #[arg(long, value_name = "ORDER", default_value = "interleaved")]
    pub order: OrderName,
    /// Idle time between runs [default: 1s; simulator: 0]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub cooldown: Option<Nanos>,
    /// Number of simulated runs at the same time; results do not depend on it [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Exit 4 unless this holds; repeatable: 'share_error_max <= 10% @ sched=wfq,nr=8', 'lat_p99(cgrp1).hi <= 50ms'
    #[arg(long, value_name = "EXPR")]
    pub assert: Vec<String>,
    /// Result directory that 'baseline' in assertions refers to
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Continue the interrupted test of this result directory; give its other options again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["outdir", "no_store"])]
    pub resume: Option<PathBuf>,
}

/// The order of runs.
#[derive(ValueEnum, Copy, Clone, Debug)]
pub enum OrderName {
    /// Schedulers shuffled within each repetition
    Interleaved,
    /// All repetitions of one scheduler, then the next scheduler
    Classic,
}

/// Output.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct OutputArguments {
    #[command(flatten)]
    pub show: ShowArguments,
    /// Result directory [default: hoistway/hoistway-test-YYYYmmdd-HHMMSS below $XDG_STATE_HOME or ~/.local/state]
    #[arg(short, long, value_name = "DIR")]
    pub outdir: Option<PathBuf>,
    /// Do not write a result directory
    #[arg(long, conflicts_with = "outdir")]
    pub no_store: bool,
    /// How to show progress on stderr
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub progress: ProgressName,
    /// Print the plan and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Write blktrace files of every run, BASE-WORKLOAD-SCHED-nrN-setK.blktrace.0 and so on; blkparse -i reads them
    #[arg(long, value_name = "BASE")]
    pub trace_out: Option<PathBuf>,
    /// Write CFQ's statistics of the groups as the kernel's files: BASE-WORKLOAD-SCHED-nrN-setK/GROUP/blkio.time and so
    /// on
    #[arg(long, value_name = "BASE")]
    pub blkio_out: Option<PathBuf>,
    /// Print the table of a stored result, as the test printed it (as test report DIR, which prints text)
    #[arg(short = 'R', long = "report", value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// How results are shown.
#[derive(Args, Debug, Clone)]
pub struct ShowArguments {
    /// Output format: text, classic, bonnie (its lines of a workload bonnie), json, fio-json, csv, html, markdown,
    /// explain or figure (an SVG of share error against throughput); to stdout, or to a file as FORMAT=FILE; repeatable
    /// [default: text]
    #[arg(long, value_name = "FORMAT[=FILE]")]
    pub format: Vec<String>,
    /// Write to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the classic table, with a column of totals (other formats always have it)
    #[arg(long)]
    pub total: bool,
    /// Latency percentiles in tables and CSV [default: text: 50,99,99.9; CSV: 50,90,95,99,99.9,100]
    #[arg(long, value_name = "LIST", value_parser = units::percentiles)]
    pub percentiles: Option<Percentiles>,
    /// Print a text table of these figures instead: METRIC[(GROUP)][@read|@write],..., named as in --assert, for
    /// example 'time(app),lat_max(app),late_share(video),total_bw@read'
    #[arg(long, value_name = "LIST")]
    pub figures: Option<String>,
    /// With --figures: unit of rates [default: mib]
    #[arg(long, value_enum, value_name = "UNIT")]
    pub rates: Option<RatesName>,
    /// With --figures: also a row for each repetition (--sets); --seed S --sets N repeats all of them exactly
    #[arg(long)]
    pub per_set: bool,
    /// Add a line with latencies for each group
    #[arg(long)]
    pub per_group_latency: bool,
    /// Also print what each group was due, what was attainable, what it got, and why these differ (same as --format
    /// explain)
    #[arg(long)]
    pub explain: bool,
}

impl ShowArguments {
    /// Each `--format`: as it was given, its name, and the file that it goes to, if not to stdout.
    pub fn formats(&self) -> impl Iterator<Item = (&str, &str, Option<PathBuf>)> {
        self.format.iter().map(|text| match text.split_once('=') {
            Some((name, path)) => (text.as_str(), name, Some(PathBuf::from(path))),
            None => (text.as_str(), text.as_str(), self.output.clone()),
        })
    }
}

/// Unit of rates in figures.
#[derive(ValueEnum, Copy, Clone, Debug, PartialEq, Eq)]
pub enum RatesName {
    /// MiB/s (fio 2: MB/s)
    Mib,
    /// KiB/s (fio 2: KB/s; bonnie++: K/sec)
    Kib,
    /// 1,000,000 bytes per second, as dd prints
    Mb,
}

/// How progress is shown.
#[derive(ValueEnum, Copy, Clone, Debug, PartialEq, Eq)]
pub enum ProgressName {
    /// One updated line on a terminal, else one line per finished run
    Auto,
    /// One line per finished run
    Line,
    /// One updated line
    Bar,
    /// No progress
    None,
}
