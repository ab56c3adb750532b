//! The options of `hoistway trace` (harness 9.7 and 9.8).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use hoistway_block::Nanos;
use hoistway_experiment::Diagnostic;

use crate::replay::arguments::ReplayArguments;
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
#[command(after_help = "Examples:
  hoistway trace info sda.blktrace.0                format, duration, sizes and latencies
  hoistway trace cat sda --actions D,C              dispatches and completions, as blkparse prints them
  hoistway trace convert sda --to csv --out sda.csv
  sudo hoistway trace record /dev/sdb --for 30s --out sdb")]
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

/// `A-B`; either end may be omitted.
pub fn span(text: &str) -> Result<Span, Diagnostic> {
    let wrong = || Diagnostic::new(format!("'{text}' is not a time range"), "write 10s-20s, 1m- or -500ms");
    let (from, to) = text.split_once('-').ok_or_else(wrong)?;
    let time = |text: &str, missing| if text.is_empty() { Ok(missing) } else { units::time(text) };
    let (from_ns, to_ns) = (time(from, 0)?, time(to, Nanos::MAX)?);
    if from_ns < to_ns { Ok(Span { from_ns, to_ns }) } else { Err(wrong()) }
}
