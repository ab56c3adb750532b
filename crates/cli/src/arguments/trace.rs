//! The options of `hoistway trace` and `hoistway replay` (harness 9.7 and 9.8).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use hoistway_block::Nanos;
use hoistway_experiment::Diagnostic;

use super::test::{OutputArguments, PlaceArguments, RepetitionArguments, SchedulerArguments, ShareUnitName};
use crate::units;

/// A time range of a trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start, inclusive.
    pub from_ns: Nanos,
    /// End, exclusive.
    pub to_ns: Nanos,
}

/// `hoistway trace`.
#[derive(Args, Debug)]
pub struct TraceArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// The subcommands of `hoistway trace`.
#[derive(Subcommand, Debug)]
pub enum TraceCommand {
    /// Show a trace's format, duration, operations, sizes, seek distances and latencies
    #[command(after_help = "Examples:
  hoistway trace info sda.blktrace.0
  hoistway trace info --json web_0.csv
  hoistway trace info --format disksim old.trace")]
    Info(InfoArguments),
    /// Print a trace in the format of blkparse
    #[command(after_help = "Examples:
  hoistway trace cat sda                            sda.blktrace.0, .1, ... together
  hoistway trace cat web_0.csv.gz | head
  hoistway trace cat sda --time 10s-20s --actions D,C --processes postgres")]
    Cat(CatArguments),
    /// Convert a trace to another format
    #[command(after_help = "Examples:
  hoistway trace convert web_0.csv --to blktrace --out web_0      then: blkparse -i web_0, btt -i web_0.bin
  hoistway trace convert sda --to iolog3 --out sda.iolog          then: fio --name=j --read_iolog=sda.iolog ...
  hoistway trace convert sda --to fio --out sda.fio --groups-by comm
  hoistway trace convert sda --to csv --out sda.csv
  hoistway trace convert sda.zst --to blktrace --out - | blkparse -i -")]
    Convert(ConvertArguments),
    /// Record the I/O of a block device with the kernel's tracer, as blktrace files (needs root)
    #[command(after_help = "Examples:
  hoistway trace record /dev/sdb --for 30s --out sdb
  hoistway trace record /dev/sdb --out sdb                        until Ctrl-C")]
    Record(RecordArguments),
    /// Replay a trace under several schedulers (same as `hoistway replay`)
    Replay(Box<ReplayArguments>),
}

/// Options for reading a file.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Format")]
pub struct FormatArguments {
    /// Unit of times in a trace of MQSim
    #[arg(long, value_name = "ps|ns|us", default_value = "ns")]
    pub time_unit: TimeUnit,
    /// How to read `wait` in fio's iolog version 2: in microseconds as fio documents it, or as fio 3.33 implements it
    #[arg(long, value_name = "documented|fio", default_value = "documented")]
    pub iolog_wait: WaitName,
    /// Skip and count invalid records; without this, reading stops at the first invalid binary record or the eleventh
    /// invalid line
    #[arg(long)]
    pub skip_damaged: bool,
}

/// Filters of events.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Filters")]
pub struct FilterArguments {
    /// Only events in this time range, counted from the first event: 10s-20s, 1m-
    #[arg(long, value_name = "A-B", value_parser = span)]
    pub time: Option<Span>,
    /// Only events of these devices, named as in `hoistway trace info`: 8:16,sdb
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub devices: Vec<String>,
    /// Only these actions, by blkparse's letters (m for messages): Q,D,C
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub actions: Vec<String>,
    /// Only events of these processes, by number or name, including the dispatches and completions of their I/Os:
    /// 1042,postgres
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub processes: Vec<String>,
}

/// The unit of times.
#[derive(ValueEnum, Copy, Clone, Debug, Default)]
pub enum TimeUnit {
    /// Picoseconds
    Ps,
    /// Nanoseconds
    #[default]
    Ns,
    /// Microseconds
    Us,
}

/// Meaning of `wait`.
#[derive(ValueEnum, Copy, Clone, Debug, Default)]
pub enum WaitName {
    /// Microseconds after the previous wait
    #[default]
    Documented,
    /// Milliseconds since the beginning
    Fio,
}

/// `hoistway trace info`.
#[derive(Args, Debug)]
pub struct InfoArguments {
    /// Traces: files, or the base names of blktrace files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Format of the trace [default: recognised from the content]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    #[command(flatten)]
    pub reading: FormatArguments,
    /// Print JSON: a list with one object per file
    #[arg(long)]
    pub json: bool,
}

/// `hoistway trace cat`.
#[derive(Args, Debug)]
pub struct CatArguments {
    /// Trace: a file, or the base name of blktrace files
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the trace [default: recognised from the content]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    #[command(flatten)]
    pub reading: FormatArguments,
    #[command(flatten)]
    pub filter: FilterArguments,
}

/// `hoistway trace convert`.
#[derive(Args, Debug)]
pub struct ConvertArguments {
    /// Trace: a file, or the base name of blktrace files
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format to write
    #[arg(long, value_name = "FORMAT")]
    pub to: ToName,
    /// Output file; for blktrace the base name, for fio the job file (its logs are written beside it); - is stdout
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
    /// Format of the trace [default: recognised from the content]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    #[command(flatten)]
    pub reading: FormatArguments,
    /// How to divide I/Os into groups, for --to csv and fio: by pid, comm, cgroup or device, or by file=MAP.csv with
    /// lines KEY,GROUP[,WEIGHT]
    #[arg(long, visible_alias = "groups", value_name = "BY")]
    pub groups_by: Option<String>,
    /// File name to write into iolog3 logs and fio jobs as the one to read and write; for a trace of several devices, a
    /// list
    #[arg(long, value_name = "PATH,...", default_value = "/dev/replayed", value_delimiter = ',')]
    pub device: Vec<String>,
    #[command(flatten)]
    pub filter: FilterArguments,
}

/// Output formats.
#[derive(ValueEnum, Copy, Clone, Debug, PartialEq, Eq)]
pub enum ToName {
    /// Binary files of blktrace
    Blktrace,
    /// Text as printed by blkparse
    Blkparse,
    /// fio's I/O log, version 3
    Iolog3,
    /// Hoistway's table, one line per I/O
    Csv,
    /// A fio job file and one log per group
    Fio,
}

/// `hoistway trace record`.
#[derive(Args, Debug)]
pub struct RecordArguments {
    /// Block device to record
    #[arg(value_name = "DEVICE", required_unless_present = "device_option")]
    device: Option<PathBuf>,
    /// Block device to record, as an option
    #[arg(long = "device", value_name = "DEVICE", conflicts_with = "device", hide = true)]
    device_option: Option<PathBuf>,
    /// Base name of the files to write
    #[arg(long, value_name = "BASE")]
    pub out: PathBuf,
    /// How long to record [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = units::time)]
    pub length: Option<Nanos>,
}

impl RecordArguments {
    /// The block device, given in either form.
    pub fn device(&self) -> &Path {
        self.device.as_deref().or(self.device_option.as_deref()).unwrap_or(Path::new(""))
    }
}

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

/// `A-B`; either end may be omitted.
fn span(text: &str) -> Result<Span, Diagnostic> {
    let wrong = || Diagnostic::new(format!("'{text}' is not a time range"), "write 10s-20s, 1m- or -500ms");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let time = |text: &str, missing| if text.is_empty() { Ok(missing) } else { units::time(text) };
    let (from_ns, to_ns) = (time(from, 0)?, time(to, Nanos::MAX)?);
    if from_ns < to_ns { Ok(Span { from_ns, to_ns }) } else { Err(wrong()) }
}
