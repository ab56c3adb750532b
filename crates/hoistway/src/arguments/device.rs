//! The options of `hoistway device`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use experiment::Machine;

use crate::units;

/// `hoistway device`.
#[derive(Args, Debug, Clone)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct DeviceArguments {
    /// What to do with models.
    #[command(subcommand)]
    pub command: DeviceCommand,
}

/// The subcommands.
#[derive(Subcommand, Debug, Clone)]
pub enum DeviceCommand {
    /// Print a model's file, to copy and to change
    Show(ShowArguments),
    /// Run what was measured on real devices on their models, and compare
    Fit(FitArguments),
    /// Make a model of a real disk: change a model's parameters until it gives the figures that were measured
    Calibrate(Box<CalibrateArguments>),
    /// A block device of this machine that behaves like a model, for the kernel's own schedulers (root)
    Create(CreateArguments),
    /// The devices that were created
    List(RigListArguments),
    /// Take a created device away
    Delete(DeleteArguments),
    /// What `create` starts: answers for one device
    #[command(hide = true)]
    Serve(CreateArguments),
    /// What `serve` starts: has the block device open
    #[command(hide = true)]
    Keep,
}

/// `hoistway device create`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device create --model sata\n  hoistway device create --model ssd,channels=2 --size 8G\n  hoistway test /dev/loop64 --host native -s none -s mq-deadline -s bfq --weights 100,800\n  hoistway device delete loop64\n\nThe path of the device goes to stdout. It stays until it is deleted; what is written to it lies in memory and goes with it.\nNeeds root, /dev/fuse and loop devices (the kernel's modules fuse and loop)."
)]
pub struct CreateArguments {
    /// NAME or FILE, [,KEY=VALUE...]; the models: hoistway list devices
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Only the first part of the model, or a larger one [default: the model's own]
    #[arg(long = "size", value_name = "SIZE", value_parser = units::size)]
    pub size_bytes: Option<u64>,
    /// Seed of the model's random numbers
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Memory for what is written; beyond it writes fail with ENOSPC [default: half of what is available]
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::size)]
    pub memory_bytes: Option<u64>,
    /// Stay, and take the device away at Ctrl-C or when this process ends in whatever way
    #[arg(long)]
    pub foreground: bool,
}

/// `hoistway device list`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device list\n  hoistway device list --json\n\nLATE is by how much replies came later than the model wanted: what half of them and what 99 % of them stayed below."
)]
pub struct RigListArguments {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `hoistway device delete`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:\n  hoistway device delete /dev/loop64\n  hoistway device delete all")]
pub struct DeleteArguments {
    /// The device: /dev/loop64, loop64, 64, or all
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<String>,
    /// Even if it is mounted or otherwise in use: its users get errors
    #[arg(long)]
    pub force: bool,
}

/// `hoistway device show`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device show sata > my.toml\n  hoistway device show sata,rpm=5400 > slow.toml    every parameter with its meaning"
)]
pub struct ShowArguments {
    /// NAME or FILE, [,KEY=VALUE...]
    #[arg(value_name = "MODEL")]
    pub model: String,
}

/// `hoistway device fit`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device fit\n  hoistway device fit sata ssd-lsi\n  hoistway device fit ./my.toml --tolerance 5%\n  hoistway device fit --markdown                    the table of docs/devices.md\n\nExit code 4 if a row that is not provisional is off by more than the tolerance."
)]
pub struct FitArguments {
    /// NAME or FILE, [,KEY=VALUE...]; all models without it
    #[arg(value_name = "MODEL")]
    pub models: Vec<String>,
    /// How far a row may be off
    #[arg(long, value_name = "PERCENT", default_value = "12%", value_parser = units::percent)]
    pub tolerance: f64,
    /// As JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// As a pipe table
    #[arg(long)]
    pub markdown: bool,
}

/// `hoistway device calibrate`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  fio --output-format=json --output=fio.json job.fio\n  hoistway device calibrate ssd-lsi --rows fio.json -o my.toml\n  hoistway device calibrate sata --rows hoistway-test-20261120-095012 --free seek_avg_ms,spt_outer,cmd_overhead_us\n  hoistway test model:./my.toml\n\nROWS is a model's file or a file with [[anchor]] entries alone (hoistway device show sata has some), a result of fio as\nJSON or, with --job-file, in terse lines, or the result directory of hoistway test. Parameters of MODEL that no row depends on stay as they are."
)]
pub struct CalibrateArguments {
    /// The model to begin with: NAME or FILE, [,KEY=VALUE...]
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// What was measured
    #[arg(long, value_name = "ROWS")]
    pub rows: PathBuf,
    /// Which parameters may change [default: those that usually differ between devices of its type]
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    pub free: Vec<String>,
    /// Where the new model goes; stdout without it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The job file of a result of fio that does not say what its jobs were (terse)
    #[arg(long, value_name = "FILE")]
    pub job_file: Option<PathBuf>,
    /// The scheduler a result of fio was measured under
    #[arg(long, value_name = "SPEC", default_value = "none")]
    pub sched: String,
    /// The simulated computer for a result of fio
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = units::machine)]
    pub machine: Option<Machine>,
    /// Runs of all rows at most
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_trials: u32,
    /// Before and after as JSON on stdout (needs --output)
    #[arg(long, requires = "output")]
    pub json: bool,
}
