//! The options of `hoistway replay` (harness 9.7 and 9.8), and those of a replay in other commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hoistway_block::Nanos;

use crate::run_test::arguments::{
    OutputArguments, PlaceArguments, RepetitionArguments, SchedulerArguments, ShareUnitName,
};
use crate::trace::arguments::{Span, TimeUnit, WaitName, span};
use crate::units;

/// `hoistway replay`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:
  hoistway replay web_0.csv                          on a simulated SATA disk, under four schedulers
  hoistway replay sda model:ssd -s none -s bfq --pace closed
  hoistway replay sda /dev/sdb --host native -s mq-deadline -s bfq --groups-by comm --weights 100,800
  hoistway replay web_0.csv /mnt/disk --speed 10 --scale
  hoistway replay db.csv memory:1GiB -s none --trace-out again    and again: hoistway trace info again-*.blktrace.0

This is the same as `hoistway test --trace`. On a block device or an existing file only the reads are replayed,
unless writing is allowed (--destructive).")]
pub struct ReplayArguments {
    /// Trace: a file, or the base name of blktrace files
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Where to replay it: model:NAME[,KEY=VALUE...] (simulated), a directory, a file or a block device [default:
    /// model:sata]
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    #[command(flatten)]
    pub replay: ReplayOptions,
    #[command(flatten)]
    pub place: PlaceArguments,
    /// A trace that goes beyond the target is an error
    #[arg(long, help_heading = "Replay")]
    pub strict: bool,
    /// Limit of I/Os in flight per group [default: at the recorded times 1024 I/Os or 256 MiB; with --pace closed as
    /// many as were recorded]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Replay")]
    pub iodepth: Option<u32>,
    /// Bytes of the target to use [default: all; of a file that is created, what the trace needs, at most 1 GiB]
    #[arg(long = "size", value_name = "SIZE", value_parser = units::size, help_heading = "Replay")]
    pub size_bytes: Option<u64>,
    /// Stop after this time [default: at the end of the trace]
    #[arg(long, value_name = "TIME", value_parser = units::time, help_heading = "Replay")]
    pub runtime: Option<Nanos>,
    /// Weights of the groups in order, 1 to 10000: 100,800, or 100..800 (even steps over the groups)
    #[arg(long, value_name = "LIST", help_heading = "Groups")]
    pub weights: Option<String>,
    /// Unit in which shares are measured
    #[arg(long, value_name = "UNIT", default_value = "bytes", help_heading = "Groups")]
    pub share_unit: ShareUnitName,
    #[command(flatten)]
    pub schedulers: SchedulerArguments,
    #[command(flatten)]
    pub repetition: RepetitionArguments,
    #[command(flatten)]
    pub output: OutputArguments,
}

/// How a trace is replayed.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Replay")]
pub struct ReplayOptions {
    /// Format of the trace [default: recognised from the content]
    #[arg(long, value_name = "NAME", requires = "trace")]
    pub trace_format: Option<String>,
    /// Unit of times in a trace of MQSim [default: ns]
    #[arg(long, value_name = "ps|ns|us", requires = "trace")]
    pub time_unit: Option<TimeUnit>,
    /// How to read `wait` in fio's iolog version 2: in microseconds as fio documents it, or as fio 3.33 implements it
    /// [default: documented]
    #[arg(long, value_name = "documented|fio", requires = "trace")]
    pub iolog_wait: Option<WaitName>,
    /// When to issue I/Os: at their recorded times (as-recorded), whenever fewer than --iodepth are in flight (closed), or
    /// after the completion of those I/Os that had completed before it in the recording (dependent) [default: as-recorded]
    #[arg(long, value_name = "PACE", requires = "trace")]
    pub pace: Option<String>,
    /// Replay speed as a multiple of the recorded one, 0.001 to 1000
    #[arg(long, value_name = "FACTOR", requires = "trace")]
    pub speed: Option<String>,
    /// Replay the trace N times in succession
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: Option<u32>,
    /// Only I/Os of these devices, named as in `hoistway trace info`; the areas of several devices follow one another
    /// on the target
    #[arg(long, value_name = "LIST", requires = "trace", value_delimiter = ',')]
    pub devices: Vec<String>,
    /// Only this time range of the trace: 10s-20s, 1m-
    #[arg(long, value_name = "A-B", requires = "trace", value_parser = span)]
    pub time: Option<Span>,
    /// Wrap I/Os beyond the end of the target around to its start, keeping their alignment (the default)
    #[arg(long, requires = "trace", conflicts_with_all = ["scale", "strict"])]
    pub wrap: bool,
    /// Scale all offsets to the size of the target
    #[arg(long, requires = "trace", conflicts_with = "strict")]
    pub scale: bool,
    /// Refuse a trace that reaches beyond the target: `--strict` of either command, which `test` has for weights as
    /// well.
    #[arg(skip)]
    pub strict: bool,
    /// Whether processes plug their I/Os (hold them back to merge them) as in the recording; on the native host the
    /// kernel does this itself [default: recorded; none if the trace has no plugs, or on the native host]
    #[arg(long, value_name = "recorded|none", requires = "trace")]
    pub plugs: Option<PlugsName>,
    /// How to divide I/Os into groups: by pid, comm, cgroup or device, or by file=MAP.csv with lines KEY,GROUP[,WEIGHT]
    /// [default: one group]
    #[arg(long, value_name = "BY", requires = "trace")]
    pub groups_by: Option<String>,
    /// Replay each process of the trace by its own thread, which preserves the order within each process
    #[arg(long, requires = "trace")]
    pub own_processes: bool,
}

/// The use of a trace's plugs.
#[derive(ValueEnum, Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum PlugsName {
    /// Plug I/Os as recorded
    #[default]
    Recorded,
    /// Send every I/O to the scheduler at once
    None,
}
