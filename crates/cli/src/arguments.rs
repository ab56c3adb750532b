//! The command line as clap reads it: the subcommands, and the options of all. The options of each are in its module.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::ctl::CtlArguments;
use crate::demo::DemoArguments;
use crate::device::arguments::DeviceArguments;
use crate::generate::{CompletionsArguments, ManArguments};
use crate::image::ImageArguments;
use crate::lab::LabArguments;
use crate::list::ListArguments;
use crate::processes::WatchArguments;
use crate::replay::arguments::ReplayArguments;
use crate::restore::RestoreArguments;
use crate::run_test::arguments::TestArguments;
use crate::run_test::compare::CompareArguments;
use crate::schema::SchemaArguments;
use crate::serve::ServeArguments;
use crate::top::TopArguments;
use crate::top::stat::StatArguments;
use crate::trace::arguments::TraceArguments;
use crate::tune::arguments::TuneArguments;

/// Compare block I/O schedulers on simulated and real disks, tune a disk, and serve disks with shares by weight
#[derive(Parser, Debug)]
#[command(
    name = "hoistway",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "First steps:\n  hoistway demo                        three tenants on one disk, in half a minute\n  hoistway test                        four schedulers, four readers, one simulated SATA disk\n  hoistway list                        all schedulers, devices and workloads\n\nExit codes: 0 done, 1 failed, 2 usage, 3 refused for safety, 4 an assertion failed, 5 inconclusive,\n6 not restored, 130 and 143 interrupted."
)]
pub struct Arguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub general: General,
}

/// Options of every subcommand.
#[derive(Args, Debug, Clone)]
pub struct General {
    /// Print results and errors only: no plan, progress, notes or warnings
    #[arg(long, global = true, help_heading = "General")]
    pub quiet: bool,
    /// When to colour messages; `auto` also respects the environment variable NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "General")]
    pub color: Color,
    /// Before anything else, restore the settings that a killed run left changed (see `hoistway restore`)
    #[arg(long, global = true, help_heading = "General")]
    pub auto_restore: bool,
}

/// When messages are coloured.
#[derive(ValueEnum, Copy, Clone, Debug, PartialEq, Eq)]
pub enum Color {
    /// If stderr is a terminal and NO_COLOR is not set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run workloads under several schedulers on one target; compare throughput, latency and shares
    Test(Box<TestArguments>),
    /// Measure a disk, recommend a scheduler and settings with reasons, and apply them on request
    Tune(Box<TuneArguments>),
    /// Inspect, print, convert, record or replay traces of block I/O
    Trace(TraceArguments),
    /// Replay a trace of block I/O under several schedulers (same as `test --trace`)
    Replay(Box<ReplayArguments>),
    /// Compare two stored results and say which differences exceed the noise (same as `test compare`)
    Compare(CompareArguments),
    /// Serve files and block devices over NBD, ublk and vhost-user-blk; divide the disk among tenants by weight
    Serve(Box<ServeArguments>),
    /// Make, describe, check and commit overlays: disks that begin as a base image and take only what is written
    Image(ImageArguments),
    /// Query a running server, or change its settings
    Ctl(CtlArguments),
    /// Show each group's current and due share of a device, live: of a server, a block device or a simulated test
    Top(TopArguments),
    /// Print a device's counters in the format of the kernel's /proc/diskstats or io.stat
    Stat(StatArguments),
    /// List schedulers, tunables, limiters, device models, workloads and scenarios
    List(ListArguments),
    /// Device models: print, compare with published measurements, fit to a disk, or create as a block device
    Device(DeviceArguments),
    /// Open the laboratory: schedulers at work on a page in your browser, live; change weights and loads while it runs
    Lab(LabArguments),
    /// Show three tenants sharing one disk under three schedulers: simulated, then on a temporary file
    Demo(DemoArguments),
    /// Restore the schedulers, tunables and cgroups that a killed run left changed
    Restore(RestoreArguments),
    /// Print a shell's completion script
    Completions(CompletionsArguments),
    /// Print the manual page, or write one page per subcommand into a directory
    Man(ManArguments),
    /// Print the JSON Schema of a JSON output, or list the outputs that have one
    Schema(SchemaArguments),
    /// Run one thread of a job (started by the native host)
    #[command(hide = true)]
    Worker,
    /// Restore the settings when the parent process has ended (started by the native host)
    #[command(hide = true)]
    Watch(WatchArguments),
}
