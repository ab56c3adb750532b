//! The options of `hoistway trace` and `hoistway replay` (harness 9.7 and 9.8).

use std::path::{Path, PathBuf};

use block::Nanos;
use clap::{Args, Subcommand, ValueEnum};
use experiment::Diagnostic;

use super::test::{OutputArguments, PlaceArguments, RepetitionArguments, SchedulerArguments, ShareUnitName};
use crate::units;

/// A part of the time of a trace, from and to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Not before.
    pub from_ns: Nanos,
    /// Not from this on.
    pub to_ns: Nanos,
}

/// `hoistway trace`.
#[derive(Args, Debug)]
pub struct TraceArguments {
    /// What to do with it.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// What is done with traces.
#[derive(Subcommand, Debug)]
pub enum TraceCommand {
    /// What is in a trace: format, duration, operations, sizes, distances, latencies
    #[command(after_help = "Examples:
  hoistway trace info sda.blktrace.0
  hoistway trace info --json web_0.csv
  hoistway trace info --format disksim old.trace")]
    Info(InfoArguments),
    /// Print a trace as blkparse does
    #[command(after_help = "Examples:
  hoistway trace cat sda                            sda.blktrace.0, .1, ... together
  hoistway trace cat web_0.csv.gz | head
  hoistway trace cat sda --time 10s-20s --actions D,C --processes postgres")]
    Cat(CatArguments),
    /// Write a trace in another format
    #[command(after_help = "Examples:
  hoistway trace convert web_0.csv --to blktrace --out web_0      then: blkparse -i web_0, btt -i web_0.bin
  hoistway trace convert sda --to iolog3 --out sda.iolog          then: fio --name=j --read_iolog=sda.iolog ...
  hoistway trace convert sda --to fio --out sda.fio --groups-by comm
  hoistway trace convert sda --to csv --out sda.csv
  hoistway trace convert sda.zst --to blktrace --out - | blkparse -i -")]
    Convert(ConvertArguments),
    /// Record a block device by the kernel's tracer (root), as blktrace files
    #[command(after_help = "Examples:
  hoistway trace record /dev/sdb --for 30s --out sdb
  hoistway trace record /dev/sdb --out sdb                        until Ctrl-C")]
    Record(RecordArguments),
    /// Replay a trace under schedulers: the same as `hoistway replay`
    Replay(Box<ReplayArguments>),
}

/// How a file is read.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Format")]
pub struct FormatArguments {
    /// Unit of times in MQSim's format
    #[arg(long, value_name = "ps|ns|us", default_value = "ns")]
    pub time_unit: TimeUnit,
    /// What `wait` means in fio's iolog version 2: microseconds as documented, or what fio 3.33 does
    #[arg(long, value_name = "documented|fio", default_value = "documented")]
    pub iolog_wait: WaitName,
    /// Leave records out that make no sense, and count them; else the eleventh line or the first binary record ends the reading
    #[arg(long)]
    pub skip_damaged: bool,
}

/// Which events of a trace.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Filters")]
pub struct FilterArguments {
    /// Only this part of the trace, from its first event: 10s-20s, 1m-
    #[arg(long, value_name = "A-B", value_parser = span)]
    pub time: Option<Span>,
    /// Only events of these devices, as `hoistway trace info` names them: 8:16,sdb
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub devices: Vec<String>,
    /// Only these actions, by the letters of blkparse, m for messages: Q,D,C
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub actions: Vec<String>,
    /// Only events of these processes, by number or name, with the dispatches and completions of their I/Os: 1042,postgres
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub processes: Vec<String>,
}

/// Unit of whole times.
#[derive(ValueEnum, Copy, Clone, Debug, Default)]
pub enum TimeUnit {
    /// Picoseconds.
    Ps,
    /// Nanoseconds.
    #[default]
    Ns,
    /// Microseconds.
    Us,
}

/// Meaning of `wait`.
#[derive(ValueEnum, Copy, Clone, Debug, Default)]
pub enum WaitName {
    /// Microseconds behind the wait before.
    #[default]
    Documented,
    /// Milliseconds since the begin.
    Fio,
}

/// `hoistway trace info`.
#[derive(Args, Debug)]
pub struct InfoArguments {
    /// Traces: files, or the base name of blktrace's files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The format, where it is not recognised or not the right one [default: by content]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    #[command(flatten)]
    pub reading: FormatArguments,
    /// As JSON: a list with one object per file
    #[arg(long)]
    pub json: bool,
}

/// `hoistway trace cat`.
#[derive(Args, Debug)]
pub struct CatArguments {
    /// A trace: a file, or the base name of blktrace's files
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format, where it is not recognised or not the right one [default: by content]
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
    /// A trace: a file, or the base name of blktrace's files
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT")]
    pub to: ToName,
    /// Where to; of blktrace the base name, of fio the job file (its logs lie beside it); - is standard output
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace what is there
    #[arg(long)]
    pub force: bool,
    /// The format, where it is not recognised or not the right one [default: by content]
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    #[command(flatten)]
    pub reading: FormatArguments,
    /// Into which groups I/Os fall, for --to csv and fio: pid, comm, cgroup, device, or file=MAP.csv with lines KEY,GROUP[,WEIGHT]
    #[arg(long, visible_alias = "groups", value_name = "BY")]
    pub groups_by: Option<String>,
    /// What --to iolog3 and fio name as the file that is read and written; of several devices, one after the other
    #[arg(long, value_name = "PATH,...", default_value = "/dev/replayed", value_delimiter = ',')]
    pub device: Vec<String>,
    #[command(flatten)]
    pub filter: FilterArguments,
}

/// Formats that are written.
#[derive(ValueEnum, Copy, Clone, Debug, PartialEq, Eq)]
pub enum ToName {
    /// Binary files of blktrace.
    Blktrace,
    /// Lines of blkparse.
    Blkparse,
    /// fio's I/O log.
    Iolog3,
    /// Our table.
    Csv,
    /// A job file of fio and a log per group.
    Fio,
}

/// `hoistway trace record`.
#[derive(Args, Debug)]
pub struct RecordArguments {
    /// The block device
    #[arg(value_name = "DEVICE", required_unless_present = "device_option")]
    device: Option<PathBuf>,
    /// The block device, as an option
    #[arg(long = "device", value_name = "DEVICE", conflicts_with = "device", hide = true)]
    device_option: Option<PathBuf>,
    /// Base name of the files
    #[arg(long, value_name = "BASE")]
    pub out: PathBuf,
    /// For how long [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = units::time)]
    pub length: Option<Nanos>,
}

impl RecordArguments {
    /// The block device, however it was named.
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

It is `hoistway test --trace`, so that its other options are known here as well. On a device or an existing file only reads
are replayed, unless writing is allowed (--destructive).")]
pub struct ReplayArguments {
    /// The trace: a file, or the base name of blktrace's files
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// model:NAME[,KEY=VALUE...], a directory, a file or a block device [default: model:sata]
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    #[command(flatten)]
    pub replay: ReplayOptions,
    #[command(flatten)]
    pub place: PlaceArguments,
    /// A trace that goes beyond the target is an error
    #[arg(long, help_heading = "Replay")]
    pub strict: bool,
    /// I/Os in flight at most per group [default: at recorded times 1024 or 256 MiB; closed: as many as were]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Replay")]
    pub iodepth: Option<u32>,
    /// Bytes of the target that are used [default: all; of a file that is made, what the trace needs, 1 GiB at most]
    #[arg(long = "size", value_name = "SIZE", value_parser = units::size, help_heading = "Replay")]
    pub size_bytes: Option<u64>,
    /// The replay ends after this at the latest [default: with the trace]
    #[arg(long, value_name = "TIME", value_parser = units::time, help_heading = "Replay")]
    pub runtime: Option<Nanos>,
    /// Weights of the groups in their order, 1 to 10000: 100,800 or 100..800
    #[arg(long, value_name = "LIST", help_heading = "Groups")]
    pub weights: Option<String>,
    /// In what shares are measured
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
    /// The trace's format, where it is not recognised or not the right one [default: by content]
    #[arg(long, value_name = "NAME", requires = "trace")]
    pub trace_format: Option<String>,
    /// Unit of times in MQSim's format [default: ns]
    #[arg(long, value_name = "ps|ns|us", requires = "trace")]
    pub time_unit: Option<TimeUnit>,
    /// What `wait` means in fio's iolog version 2: microseconds as documented, or what fio 3.33 does [default: documented]
    #[arg(long, value_name = "documented|fio", requires = "trace")]
    pub iolog_wait: Option<WaitName>,
    /// When I/Os go out: at their times (as-recorded), as soon as fewer than the depth are in flight (closed), or as soon as
    /// those have completed that had completed before (dependent) [default: as-recorded]
    #[arg(long, value_name = "PACE", requires = "trace")]
    pub pace: Option<String>,
    /// So many times as fast as recorded, 0.001 to 1000
    #[arg(long, value_name = "FACTOR", requires = "trace")]
    pub speed: Option<String>,
    /// So many times, one after the other
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: Option<u32>,
    /// Only I/Os of these devices, as `hoistway trace info` names them; several lie behind one another on the target
    #[arg(long, value_name = "LIST", requires = "trace", value_delimiter = ',')]
    pub devices: Vec<String>,
    /// Only this part of the trace: 10s-20s, 1m-
    #[arg(long, value_name = "A-B", requires = "trace", value_parser = span)]
    pub time: Option<Span>,
    /// I/Os beyond the end of the target are folded into it, alignment kept (the default)
    #[arg(long, requires = "trace", conflicts_with_all = ["scale", "strict"])]
    pub wrap: bool,
    /// All offsets are stretched or shrunk to the target's size
    #[arg(long, requires = "trace", conflicts_with = "strict")]
    pub scale: bool,
    /// A trace that goes beyond the target is an error: `--strict` of either command, which `test` has for weights as well
    #[arg(skip)]
    pub strict: bool,
    /// Whether processes hold I/Os back in their plugs as they did when the trace was recorded, so that these merge; a
    /// trace without plugs has none, on the native host the kernel has its own [default: none there, else recorded]
    #[arg(long, value_name = "recorded|none", requires = "trace")]
    pub plugs: Option<PlugsName>,
    /// Into which groups I/Os fall: pid, comm, cgroup, device, or file=MAP.csv with lines KEY,GROUP[,WEIGHT] [default: one group]
    #[arg(long, value_name = "BY", requires = "trace")]
    pub groups_by: Option<String>,
    /// Each process of the trace issues for itself, as a thread of its own: order is then kept within each
    #[arg(long, requires = "trace")]
    pub own_processes: bool,
}

/// What becomes of the plugs of a trace.
#[derive(ValueEnum, Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum PlugsName {
    /// They hold I/Os as they did.
    #[default]
    Recorded,
    /// Every I/O goes to the scheduler at once.
    None,
}

/// `A-B`, either of them may be missing.
fn span(text: &str) -> Result<Span, Diagnostic> {
    let wrong = || Diagnostic::new(format!("'{text}' is no span of time"), "write 10s-20s, 1m- or -500ms");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let time = |text: &str, missing| if text.is_empty() { Ok(missing) } else { units::time(text) };
    let (from_ns, to_ns) = (time(from, 0)?, time(to, Nanos::MAX)?);
    if from_ns < to_ns { Ok(Span { from_ns, to_ns }) } else { Err(wrong()) }
}
