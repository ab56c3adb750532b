//! The command line as clap reads it. Nothing is done here: texts become numbers, what they mean is decided elsewhere.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::ctl::CtlArguments;
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

/// Block I/O schedulers, on a simulated disk or a real one: compare them, and share a disk with them.
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
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub general: General,
}

/// What every subcommand knows.
#[derive(Args, Debug, Clone)]
pub struct General {
    /// Print results and errors only: no plan, progress, notes or warnings
    #[arg(long, global = true, help_heading = "General")]
    pub quiet: bool,
    /// Colour of messages; NO_COLOR is honoured too
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "General")]
    pub color: Color,
    /// Put back first what a run that was killed has left behind (as `hoistway restore`)
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
    /// Measure workloads x groups x schedulers on one target
    Test(Box<TestArguments>),
    /// Find out what a disk should run, and why; set it, if wanted
    Tune(Box<TuneArguments>),
    /// Traces of block I/O: what is in them, in another format, recorded, replayed
    Trace(TraceArguments),
    /// Replay a trace under schedulers (as `test --trace`)
    Replay(Box<ReplayArguments>),
    /// Compare two stored results: what changed, and whether it is more than noise (same as test compare)
    #[command(after_help = "Examples:
  hoistway compare before after                         a table with intervals
  hoistway compare before after --max-regression 5%     for CI: exit 4 if worse, 5 if the noise hides it
  hoistway compare fio-old.json fio-new.json            results of fio --output-format=json+")]
    Compare(CompareArguments),
    /// Serve block devices to NBD clients, with shares
    #[command(after_help = "Examples:
  hoistway serve --nbd unix:/run/hoistway.sock --export a=/srv/a.img,weight=300 --export b=/srv/b.img
  hoistway serve --check /etc/hoistway/serve.toml
  hoistway serve /etc/hoistway/serve.toml")]
    Serve(Box<ServeArguments>),
    /// Ask a running server, or change what it does
    #[command(after_help = "Examples:
  hoistway ctl status
  hoistway ctl --control /run/h.sock set group tenants/db 800
  hoistway ctl scheduler mq-deadline:fifo_batch=1")]
    Ctl(CtlArguments),
    /// Who uses a device now, and who should: on a server, a block device, a simulated test
    Top(TopArguments),
    /// The counters of a device as the kernel's files have them: diskstats, io.stat
    Stat(StatArguments),
    /// Show schedulers, tunables, device models and workloads
    List(ListArguments),
    /// Device models: print one to copy, compare them with published measurements, fit one to your disk
    #[command(after_help = "Examples:
  hoistway device show sata > my.toml               a model to change; then: hoistway test model:./my.toml
  hoistway device fit                               every model against the measurements it was fitted to
  hoistway device calibrate sata --rows fio.json -o my.toml   a model of your disk, from a result of fio")]
    Device(DeviceArguments),
    /// Three tenants share one disk: on the simulator, and for real on a temporary file
    Demo(DemoArguments),
    /// Put back what a run that was killed has left behind: schedulers, tunables, cgroups
    Restore(RestoreArguments),
    /// Print the completions of a shell
    Completions(CompletionsArguments),
    /// Print the manual page, or write one per subcommand into a directory
    Man(ManArguments),
    /// One thread of a job, started by the native host
    #[command(hide = true)]
    Worker,
    /// Restores when its parent is gone, started by the native host
    #[command(hide = true)]
    Watch(WatchArguments),
}

/// `hoistway list`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway list\n  hoistway list mq-deadline       its tunables with units, ranges, defaults\n  hoistway list devices           the models behind model:NAME and their parameters\n  hoistway list --json"
)]
pub struct ListArguments {
    /// schedulers, limiters, devices, workloads, scenarios, options (of job files), machine, or the name of a scheduler; everything in short without it
    #[arg(value_name = "WHAT")]
    pub what: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `hoistway demo`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway demo\n  hoistway demo --output /tmp/report.html\n\nNeeds neither root nor a device; the temporary file (in TMPDIR or /tmp) is removed."
)]
pub struct DemoArguments {
    /// Where the report page goes
    #[arg(long, value_name = "FILE", default_value = "hoistway-demo.html")]
    pub output: PathBuf,
    /// Only the simulated half
    #[arg(long)]
    pub no_file: bool,
}

/// `hoistway restore`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway restore --list\n  hoistway restore\n\nSettings that somebody else has changed since are left alone. Exit code 6 if something could not be put back."
)]
pub struct RestoreArguments {
    /// Only say what would be put back
    #[arg(long)]
    pub list: bool,
}

/// The hidden `hoistway watch`.
#[derive(Args, Debug)]
pub struct WatchArguments {
    /// The journal to restore from
    pub journal: PathBuf,
}

/// `hoistway completions`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  hoistway completions bash > /etc/bash_completion.d/hoistway\n  hoistway completions fish > ~/.config/fish/completions/hoistway.fish"
)]
pub struct CompletionsArguments {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `hoistway man`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  hoistway man | man -l -\n  hoistway man /usr/local/share/man/man1")]
pub struct ManArguments {
    /// Write hoistway.1, hoistway-test.1, ... here instead of printing the first
    pub directory: Option<PathBuf>,
}
