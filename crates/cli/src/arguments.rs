//! The command line as clap reads it. This module only parses: texts become numbers and words, and
//! the modules of the subcommands decide what they mean.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::ctl::CtlArguments;
use crate::lab::LabArguments;
use crate::serve::ServeArguments;
use crate::top::TopArguments;
use crate::top::stat::StatArguments;

pub mod device;
pub mod test;
pub mod trace;
pub mod tune;

pub use device::DeviceArguments;
pub use test::{CompareArguments, TestArguments};
pub use trace::{ReplayArguments, TraceArguments};
pub use tune::TuneArguments;

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
    #[command(after_help = "Examples:
  hoistway trace info sda.blktrace.0                format, duration, sizes and latencies
  hoistway trace cat sda --actions D,C              dispatches and completions, as blkparse prints them
  hoistway trace convert sda --to csv --out sda.csv
  sudo hoistway trace record /dev/sdb --for 30s --out sdb")]
    Trace(TraceArguments),
    /// Replay a trace of block I/O under several schedulers (same as `test --trace`)
    Replay(Box<ReplayArguments>),
    /// Compare two stored results and say which differences exceed the noise (same as `test compare`)
    #[command(after_help = "Examples:
  hoistway compare before after                         a table with intervals
  hoistway compare before after --max-regression 5%     for CI: exit 4 if worse, 5 if the noise hides it
  hoistway compare fio-old.json fio-new.json            results of fio --output-format=json+")]
    Compare(CompareArguments),
    /// Serve files and block devices over NBD, ublk and vhost-user-blk; divide the disk among tenants by weight
    #[command(after_help = "Examples:
  hoistway serve --nbd unix:/run/hoistway.sock --export a=/srv/a.img,weight=300 --export b=/srv/b.img
  hoistway serve --export a=/srv/a.img,weight=300,ublk --vhost-user a=unix:/run/a.sock
  hoistway serve --check /etc/hoistway/serve.toml
  hoistway serve /etc/hoistway/serve.toml")]
    Serve(Box<ServeArguments>),
    /// Query a running server, or change its settings
    #[command(after_help = "Examples:
  hoistway ctl status
  hoistway ctl --control /run/h.sock set group tenants/db 800
  hoistway ctl scheduler mq-deadline:fifo_batch=1")]
    Ctl(CtlArguments),
    /// Show each group's current and due share of a device, live: of a server, a block device or a simulated test
    Top(TopArguments),
    /// Print a device's counters in the format of the kernel's /proc/diskstats or io.stat
    Stat(StatArguments),
    /// List schedulers, tunables, limiters, device models, workloads and scenarios
    List(ListArguments),
    /// Device models: print, compare with published measurements, fit to a disk, or create as a block device
    #[command(after_help = "Examples:
  hoistway device show sata > my.toml               a model to change; then: hoistway test model:./my.toml
  hoistway device fit                               every model against the measurements it was fitted to
  hoistway device calibrate sata --rows fio.json -o my.toml   a model of your disk, from a fio result")]
    Device(DeviceArguments),
    /// Open the laboratory: schedulers at work on a page in your browser, live; change weights and loads while it runs
    #[command(after_help = "Examples:
  hoistway lab
  hoistway lab --model sata -s mq-deadline -s bfq -s paternoster
  hoistway lab --port 0 --no-browser            a free port; open the printed address yourself

The page is served on the loopback address only and needs no network. Ctrl-C closes the laboratory.")]
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
    #[command(after_help = "Examples:
  hoistway schema                   the outputs, and the commands that print them
  hoistway schema test > test.json  for `hoistway test --format json`")]
    Schema(SchemaArguments),
    /// Run one thread of a job (started by the native host)
    #[command(hide = true)]
    Worker,
    /// Restore the settings when the parent process has ended (started by the native host)
    #[command(hide = true)]
    Watch(WatchArguments),
}

/// `hoistway list`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway list\n  hoistway list mq-deadline       its tunables with units, ranges, defaults\n  hoistway list devices           the models behind model:NAME and their parameters\n  hoistway list --json"
)]
pub struct ListArguments {
    /// What to list: schedulers, limiters, devices, workloads, scenarios, options (of job files), machine (parameters
    /// of the simulated computer), or the name of a scheduler [default: an overview]
    #[arg(value_name = "WHAT")]
    pub what: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hoistway demo`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway demo\n  hoistway demo --output /tmp/report.html\n\nNeeds neither root nor a device; the temporary file (in TMPDIR or /tmp) is removed."
)]
pub struct DemoArguments {
    /// Write the HTML report to this file
    #[arg(long, value_name = "FILE", default_value = "hoistway-demo.html")]
    pub output: PathBuf,
    /// Run only the simulated part
    #[arg(long)]
    pub no_file: bool,
}

/// `hoistway restore`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway restore --list\n  hoistway restore\n\nSettings that another program has changed since then are left alone. Exit code 6 if a setting could not be restored."
)]
pub struct RestoreArguments {
    /// Only print what would be restored
    #[arg(long)]
    pub list: bool,
}

/// The hidden `hoistway watch`.
#[derive(Args, Debug)]
pub struct WatchArguments {
    /// Journal file that lists the settings to restore
    pub journal: PathBuf,
}

/// `hoistway completions`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway completions bash > /etc/bash_completion.d/hoistway\n  hoistway completions fish > ~/.config/fish/completions/hoistway.fish"
)]
pub struct CompletionsArguments {
    /// Shell to generate completions for
    pub shell: clap_complete::Shell,
}

/// `hoistway schema`.
#[derive(Args, Debug)]
pub struct SchemaArguments {
    /// Output to describe [default: list them]
    pub output: Option<String>,
}

/// `hoistway man`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hoistway man | man -l -\n  hoistway man /usr/local/share/man/man1")]
pub struct ManArguments {
    /// Write hoistway.1, hoistway-test.1, ... into this directory, and serve.toml.5 (into man5 beside it, if it is
    /// man1), instead of printing hoistway.1
    pub directory: Option<PathBuf>,
}
