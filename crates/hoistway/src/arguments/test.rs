//! The options of `hoistway test` (harness 5.3), by subject.

use std::path::PathBuf;

use block::Nanos;
use clap::{Args, Subcommand, ValueEnum};

use crate::units;

/// Thread counts; an alias, so that clap sees one value and not a repeated option.
pub type ThreadCounts = Vec<u32>;
/// Percentiles, 0 to 100; an alias for the same reason.
pub type Percentiles = Vec<f64>;

/// Seeds; an alias for the same reason.
pub type Seeds = Vec<u64>;

/// What the steps of a scenario say themselves.
const SET_BY_SCENARIO: [&str; 31] = [
    "device_depth",
    "machine",
    "queue_requests",
    "file",
    "keep",
    "exclusive",
    "destructive",
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

/// `hoistway test`.
#[derive(Args, Debug, Clone)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  hoistway test                                     four readers (dsr) of a simulated SATA disk, weights 100, 200, 300
                                                    and 400, under none, mq-deadline, bfq and paternoster
  hoistway test -s all                              the same under every scheduler
  hoistway test model:ssd -w drr:iodepth=32 --weights 100,800 -s none -s wfq
  hoistway test model:nvme,seed=7 -w job.fio -s mq-deadline --sweep fifo_batch=1,16,64
  hoistway test /mnt/disk -m 8 --sets 3             for real, in a temporary file of that directory
  hoistway test --host engine model:ssd -s wfq      for real, on a file behind the model of an SSD
  hoistway test --scenario write-bomb               what somebody has measured before, as it was
  hoistway test --scenario everyday:quick -s bfq    54 everyday cells, a verdict on each, in half a minute
  hoistway test --scenario everyday model:nvme -w drm:bs=16k,iodepth=8 --weights 100,800 --weights 50,100 --seeds 1,2,3,4
  hoistway test -s none -s wfq --assert 'share_error_max <= 10% @ sched=wfq'
  hoistway test report DIR                          print a stored result again
  hoistway test compare DIR1 DIR2                   what changed, and whether it is more than noise

Without TARGET, workload and group options the first line is what runs."
)]
pub struct TestArguments {
    /// Work on stored results instead.
    #[command(subcommand)]
    pub stored: Option<Stored>,
    /// model:NAME[,KEY=VALUE...], a directory, a file or a block device [default: model:sata]
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// What somebody has measured before, step by step: NAME or FILE.toml, with :STEP one step alone; `hoistway list
    /// scenarios` has them. TARGET, --host, --sched, times, seed, repetition and output apply to all steps. One that judges
    /// (everyday) also takes --device, -w, --weights and --group instead of its own
    #[arg(long, value_name = "NAME", conflicts_with_all = SET_BY_SCENARIO)]
    pub scenario: Option<String>,
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub replay: super::trace::ReplayOptions,
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
    Report(ReportArguments),
    /// Compare two stored results
    Compare(CompareArguments),
}

/// `hoistway test report`.
#[derive(Args, Debug, Clone)]
pub struct ReportArguments {
    /// A result directory, or a file of fio's JSON (its jobs become groups)
    pub directory: PathBuf,
    #[command(flatten)]
    pub show: ShowArguments,
}

/// `hoistway test compare`.
#[derive(Args, Debug, Clone)]
pub struct CompareArguments {
    /// The result to compare with: a result directory, or a file of fio's JSON
    pub old: PathBuf,
    /// The result in question
    pub new: PathBuf,
    /// Exit 4 when a figure is worse by more than this with its whole interval, 5 when its interval reaches past this or
    /// there is none (one set, too few samples): PCT[@total_bw|lat_p99|share_error_max]. lat_p99 is of each group,
    /// share_error_max is compared in points of per cent
    #[arg(long, value_name = "PCT[@METRIC]")]
    pub max_regression: Option<String>,
}

/// Who does it, on what.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Target")]
pub struct PlaceArguments {
    /// simulator (sim), engine, or native (kernel): the kernel's own schedulers on a block device, with real cgroups
    /// [default: by TARGET: model -> simulator, else engine]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Commands the device may hold at a time [default: the device's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub device_depth: Option<u32>,
    /// The simulated computer: era=2.6,read_ahead_kib=128,...; its keys: hoistway list machine
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = units::machine)]
    pub machine: Option<experiment::Machine>,
    /// Requests the queue may hold (nr_requests) [default: as Linux: twice the depth, without a scheduler the depth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_240))]
    pub queue_requests: Option<u32>,
    /// A test file of our own: made if there is none, used again if it carries our mark
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    pub file: Option<PathBuf>,
    /// Leave the temporary file of a directory target behind
    #[arg(long)]
    pub keep: bool,
    /// Refuse a block device that is mounted or otherwise in use, even for reading
    #[arg(long)]
    pub exclusive: bool,
    /// Allow writes to this block device (repeat the path of TARGET); what is on it is lost. Native host only
    #[arg(long, value_name = "DEVICE")]
    pub destructive: Option<PathBuf>,
    /// Goes with --destructive: even if the device holds a file system or a partition table
    #[arg(long, requires = "destructive")]
    pub overwrite_signature: bool,
}

/// What is done.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArguments {
    /// Workload (bsr ... drm, all, dd, bonnie, dbench, startup, video, copy; with suffix drr:bs=4k,iodepth=32) or FILE.fio;
    /// repeatable [default: drr; without TARGET dsr]
    #[arg(short, long, value_name = "W")]
    pub workload: Vec<String>,
    /// Same as -w FILE.fio
    #[arg(long, value_name = "FILE.fio")]
    pub job: Vec<PathBuf>,
    /// Print the jobs of a file, everything resolved, as a job file, and stop
    #[arg(long, value_name = "FILE.fio")]
    pub show_jobs: Option<PathBuf>,
    /// In job files buffered libaio keeps its iodepth, although Linux would do one I/O after the other
    #[arg(long)]
    pub buffered_async: bool,
    /// Replay a trace instead, of any format: a file, or the base name of blktrace's files; see `hoistway replay --help`
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// fio makes the load instead of our own generator, on a block device (--host native), a directory or a file: a
    /// cross-check
    #[arg(long, value_name = "fio[=PATH]")]
    pub generator: Option<String>,
    /// Run 1,2,4,...,N threads per group [default: 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with = "threads")]
    pub max_threads: Option<u32>,
    /// These thread counts instead of the doubling: 1,3,6
    #[arg(long, value_name = "LIST", value_parser = units::threads)]
    pub threads: Option<ThreadCounts>,
    /// Block size
    #[arg(long = "bs", value_name = "SIZE", value_parser = units::size)]
    pub block_bytes: Option<u64>,
    /// I/Os in flight per thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub iodepth: Option<u32>,
    /// Area per thread [default: simulator: the device in equal parts; engine: 256 MiB per area]
    #[arg(long = "size", value_name = "SIZE", value_parser = units::size)]
    pub size_bytes: Option<u64>,
    /// Percentage of reads in mixed workloads
    #[arg(long, value_name = "PCT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: Option<u8>,
    /// An fsync after so many writes
    #[arg(long, value_name = "N")]
    pub fsync: Option<u32>,
    /// I/Os per second a thread may issue
    #[arg(long, value_name = "IOPS", value_parser = units::ios_per_s)]
    pub rate_iops: Option<u64>,
    /// Measured time per run [default: 30s; simulator: virtual]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub runtime: Option<Nanos>,
    /// Not measured, before each run [default: 2s; simulator: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub ramp: Option<Nanos>,
    /// Seed of everything random [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Who shares the device.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Groups")]
pub struct GroupArguments {
    /// Group mode (implied by the next three)
    #[arg(short = 'c', long)]
    pub groups: bool,
    /// Number of groups [default: 4 with -c, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nrgrp: Option<u32>,
    /// Weights, 1 to 10000: 100,800 or 100..800 (N even steps); repeatable for a scenario that judges [default:
    /// 100,200,...,100*N]
    #[arg(long, value_name = "LIST")]
    pub weights: Vec<String>,
    /// One group in full, repeatable: name=db,weight=800,workload=drr:iodepth=4,threads=2,start=5s,stop=20s,
    /// rbps=..,wbps=..,riops=..,wiops=..,low_rbps=..,idle=US,latency=US,high=..,target=US,ioprio=be/4,
    /// leaf_weight=N (of its own threads beside groups below it: for cfq), priority=0..7 (of the group: for uchida and
    /// tarasov), files=own (each thread has a file), cgroup=root (a group in
    /// reports only: its processes stay in the root group); workload=drr,threads=15,workload=drw,threads=15 does both,
    /// workload=none nothing: it holds the groups below it (name=a/b); reweigh=8s:400 gives it another weight on the way, in
    /// scenarios that judge
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["nrgrp", "weights"])]
    pub group: Vec<String>,
    /// Refuse weights that the mechanism cannot hold to within 2 % of their ratios, and traces that go beyond the target
    #[arg(long)]
    pub strict: bool,
    /// Run each group alone first: it is due no more than it does alone (for groups that think, or wait for each I/O)
    #[arg(long)]
    pub calibrate: bool,
    /// In what shares are measured
    #[arg(long, value_name = "UNIT", default_value = "bytes")]
    pub share_unit: ShareUnitName,
}

/// In what shares are measured.
#[derive(ValueEnum, Copy, Clone, Debug)]
pub enum ShareUnitName {
    /// Bytes completed.
    Bytes,
    /// Requests completed.
    Ios,
    /// Time of the device.
    Time,
}

/// Who decides.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Schedulers")]
pub struct SchedulerArguments {
    /// NAME[@VERSION][:KEY=VALUE,...], repeatable; all is every scheduler there is [default: none,
    /// mq-deadline, bfq and paternoster; native: current, what is set]
    #[arg(short, long, value_name = "SPEC")]
    pub sched: Vec<String>,
    /// A limiter above every scheduler, repeatable: NAME[:KEY=VALUE,...]; `hoistway list limiters` has them. The one
    /// that limits of groups need comes by itself
    #[arg(long, value_name = "SPEC")]
    pub limiter: Vec<String>,
    /// slice_idle=V on every scheduler that has it
    #[arg(short = 'I', long, value_name = "V")]
    pub slice_idle: Option<String>,
    /// group_idle=V on every scheduler that has it
    #[arg(long, value_name = "V")]
    pub group_idle: Option<String>,
    /// quantum=V on every scheduler that has it
    #[arg(long, value_name = "V")]
    pub quantum: Option<String>,
    /// low_latency=V on every scheduler that has it
    #[arg(long, value_name = "0|1")]
    pub low_latency: Option<String>,
    /// group_isolation=1 on every scheduler that has it
    #[arg(short = 'G', long)]
    pub group_isolation: bool,
    /// One variant per value, of every scheduler that has the tunable; repeatable (all combinations)
    #[arg(long, value_name = "KEY=V1,V2,..")]
    pub sweep: Vec<String>,
}

/// Scenarios that judge (`--scenario everyday`).
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Scenarios that judge, such as everyday")]
pub struct JudgeArguments {
    /// Judge on this device instead of the scenario's, repeatable: NAME[,KEY=VALUE...], as behind model:. TARGET is one more
    #[arg(long, value_name = "MODEL", requires = "scenario")]
    pub device: Vec<String>,
    /// One run of each cell and scheduler per seed, instead of the scenario's
    #[arg(long, value_name = "LIST", value_parser = units::seeds, requires = "scenario", conflicts_with = "seed")]
    pub seeds: Option<Seeds>,
    /// Measure these besides, to know what can be had, instead of the scenario's; repeatable, `none` always is one
    #[arg(long, value_name = "SPEC", requires = "scenario")]
    pub against: Vec<String>,
    /// Only cells whose name contains this, repeatable: all of them are told by --dry-run
    #[arg(long, value_name = "TEXT", requires = "scenario")]
    pub cells: Vec<String>,
}

/// How often.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Repetition and statistics")]
pub struct RepetitionArguments {
    /// Repetitions [default: 1; 3 with --assert]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub sets: Option<u32>,
    /// Go on until --precision holds, at most N repetitions [default: --sets]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub max_sets: Option<u32>,
    /// Wanted half width of the 95 % interval of the total throughput [default: 5%]
    #[arg(long, value_name = "PCT", requires = "max_sets", value_parser = units::percent)]
    pub precision: Option<f64>,
    /// Schedulers shuffled inside each repetition, or nested loops
    #[arg(long, value_name = "ORDER", default_value = "interleaved")]
    pub order: OrderName,
    /// Idle time between runs [default: 1s; simulator: 0]
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub cooldown: Option<Nanos>,
    /// Simulated runs at a time; the results do not depend on it [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,
    /// Must hold, or exit 4; repeatable: 'share_error_max <= 10% @ sched=wfq,nr=8', 'lat_p99(cgrp1).hi <= 50ms'
    #[arg(long, value_name = "EXPR")]
    pub assert: Vec<String>,
    /// Stored result for assertions against 'baseline'
    #[arg(long, value_name = "DIR")]
    pub baseline: Option<PathBuf>,
    /// Only the runs that an interrupted test has not made yet; repeat its other options
    #[arg(long, value_name = "DIR", conflicts_with_all = ["outdir", "no_store"])]
    pub resume: Option<PathBuf>,
}

/// The order of runs.
#[derive(ValueEnum, Copy, Clone, Debug)]
pub enum OrderName {
    /// Schedulers shuffled inside each set.
    Interleaved,
    /// Scheduler outermost.
    Classic,
}

/// What comes out.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct OutputArguments {
    #[command(flatten)]
    pub show: ShowArguments,
    /// Result directory [default: ./hoistway-test-YYYYmmdd-HHMMSS]
    #[arg(short, long, value_name = "DIR")]
    pub outdir: Option<PathBuf>,
    /// Write no result directory
    #[arg(long, conflicts_with = "outdir")]
    pub no_store: bool,
    /// Progress on stderr: a line in place on a terminal, else one per run
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub progress: ProgressName,
    /// Print the plan and stop
    #[arg(long)]
    pub dry_run: bool,
    /// blktrace files of every run, BASE-WORKLOAD-SCHED-nrN-setK.blktrace.0 and so on; read them with blkparse -i
    #[arg(long, value_name = "BASE")]
    pub trace_out: Option<PathBuf>,
    /// What CFQ kept of the groups' service, as the kernel's files: BASE-WORKLOAD-SCHED-nrN-setK/GROUP/blkio.time and so on
    #[arg(long, value_name = "BASE")]
    pub blkio_out: Option<PathBuf>,
    /// Print the table of a stored result (test report DIR)
    #[arg(short = 'R', long = "report", value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// How results are shown.
#[derive(Args, Debug, Clone)]
pub struct ShowArguments {
    /// text, classic, json, fio-json, csv, html, markdown, explain or figure (SVG: share error against throughput), to
    /// stdout or FORMAT=FILE; repeatable [default: text]
    #[arg(long, value_name = "FORMAT[=FILE]")]
    pub format: Vec<String>,
    /// Write what would go to stdout into a file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// A total column in the classic table (the other formats always have it)
    #[arg(long)]
    pub total: bool,
    /// Percentiles of latency in tables and CSV [default: text: 50,99,99.9; CSV: 50,90,95,99,99.9,100]
    #[arg(long, value_name = "LIST", value_parser = units::percentiles)]
    pub percentiles: Option<Percentiles>,
    /// In text a table of these figures instead: METRIC[(GROUP)][@read|@write],..., named as in --assert, for example
    /// 'time(app),lat_max(app),late_share(video),total_bw@read'
    #[arg(long, value_name = "LIST")]
    pub figures: Option<String>,
    /// One more line per group, with its latencies
    #[arg(long)]
    pub per_group_latency: bool,
    /// Also what was due to each group, what could be had, what it got, and why these differ (--format explain)
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

/// How progress is shown.
#[derive(ValueEnum, Copy, Clone, Debug, PartialEq, Eq)]
pub enum ProgressName {
    /// A bar on a terminal, else lines.
    Auto,
    /// One line per finished run.
    Line,
    /// One line in place.
    Bar,
    /// Nothing.
    None,
}
