//! The options of `hoistway device`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hoistway_experiment::Machine;

use crate::units;

/// `hoistway device`.
#[derive(Args, Debug, Clone)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  hoistway device show sata > my.toml               a model to change; then: hoistway test model:./my.toml
  hoistway device fit                               every model against the measurements it was fitted to
  hoistway device calibrate sata --rows fio.json -o my.toml   a model of your disk, from a fio result"
)]
pub struct DeviceArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: DeviceCommand,
}

/// The subcommands.
#[derive(Subcommand, Debug, Clone)]
pub enum DeviceCommand {
    /// Print a model as a TOML file, as a starting point for your own
    Show(ShowArguments),
    /// Repeat published measurements of real devices on their models, and compare the figures
    Fit(FitArguments),
    /// Make a model of a real disk: adjust a model's parameters until it reproduces measured figures
    Calibrate(Box<CalibrateArguments>),
    /// Create a block device with the timing of a model, for the kernel's own schedulers (needs root)
    Create(CreateArguments),
    /// List the devices that `create` made
    List(RigListArguments),
    /// Remove a created device
    Delete(DeleteArguments),
    /// Answer the I/O of one device (started by `create`)
    #[command(hide = true)]
    Serve(CreateArguments),
    /// Hold the block device open (started by `serve`)
    #[command(hide = true)]
    Keep,
}

/// `hoistway device create`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device create --model sata\n  hoistway device create --model ssd,channels=2 --size 8G\n  hoistway test /dev/loop64 --host native -s none -s mq-deadline -s bfq --weights 100,800\n  hoistway device delete loop64\n\nPrints the device's path. The device exists until it is deleted; data written to it is in memory and is lost then.\nNeeds root, /dev/fuse and loop devices (the kernel's modules fuse and loop)."
)]
pub struct CreateArguments {
    /// Model: NAME or FILE, with parameters as [,KEY=VALUE...]; `hoistway list devices` lists the models
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Size of the device, smaller or larger than the model's [default: the model's size]
    #[arg(long = "size", value_name = "SIZE", value_parser = units::size)]
    pub size_bytes: Option<u64>,
    /// Seed of the model's random numbers
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Limit of memory for written data; further writes fail with ENOSPC [default: half of the available memory]
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::size)]
    pub memory_bytes: Option<u64>,
    /// Stay in the foreground, and remove the device at Ctrl-C or when this process ends for any reason
    #[arg(long)]
    pub foreground: bool,
}

/// `hoistway device list`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device list\n  hoistway device list --json\n\nLATE is the delay of replies behind the model's completion times: median and 99th percentile.\nLocal block devices of `hoistway serve` (ublk) follow, also those that wait for a server."
)]
pub struct RigListArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `hoistway device delete`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device delete /dev/loop64\n  hoistway device delete all\n  hoistway device delete /dev/ublkb0    left by a server that is gone"
)]
pub struct DeleteArguments {
    /// Device to remove: /dev/loop64, loop64, 64, or all of them; or /dev/ublkb0
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<String>,
    /// Remove it even if it is mounted or in use; its users get I/O errors
    #[arg(long)]
    pub force: bool,
}

/// `hoistway device show`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device show sata > my.toml\n  hoistway device show sata,rpm=5400 > slow.toml    with one parameter changed\n\nThe file explains every parameter."
)]
pub struct ShowArguments {
    /// Model: NAME or FILE, with parameters as [,KEY=VALUE...]
    #[arg(value_name = "MODEL")]
    pub model: String,
}

/// `hoistway device fit`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  hoistway device fit\n  hoistway device fit sata ssd-lsi\n  hoistway device fit ./my.toml --tolerance 5%\n  hoistway device fit --markdown                    the table of docs/devices.md\n\nA row is one published figure of a model's file. Exit code 4 if a row deviates by more than the\ntolerance; rows that the file marks as provisional do not count."
)]
pub struct FitArguments {
    /// Models: NAME or FILE, with parameters as [,KEY=VALUE...] [default: all models]
    #[arg(value_name = "MODEL")]
    pub models: Vec<String>,
    /// Largest accepted deviation of a row from the published figure
    #[arg(long, value_name = "PERCENT", default_value = "12%", value_parser = units::percent)]
    pub tolerance: f64,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print a Markdown table
    #[arg(long)]
    pub markdown: bool,
}

/// `hoistway device calibrate`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  fio --output-format=json --output=fio.json job.fio\n  hoistway device calibrate ssd-lsi --rows fio.json -o my.toml\n  hoistway device calibrate sata --rows hoistway-test-20261120-095012 --free seek_avg_ms,spt_outer,cmd_overhead_us\n  hoistway test model:./my.toml\n\nROWS is one of: a model's file, or a file with [[anchor]] entries alone (see hoistway device show sata); a fio result as\nJSON, or in terse lines together with --job-file; the result directory of hoistway test. Parameters of MODEL that no row\ndepends on are not changed. After the first trial it says how long the search will take. With -o FILE it can be\ninterrupted: its trials are in FILE.trials, and the same command continues."
)]
pub struct CalibrateArguments {
    /// Model to start from: NAME or FILE, with parameters as [,KEY=VALUE...]
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// File or directory with the measured figures
    #[arg(long, value_name = "ROWS")]
    pub rows: PathBuf,
    /// Parameters to adjust [default: those that usually differ between devices of this type]
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    pub free: Vec<String>,
    /// Write the new model to this file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// fio job file of the results, for terse results, which do not contain the jobs' options
    #[arg(long, value_name = "FILE")]
    pub job_file: Option<PathBuf>,
    /// Scheduler that was set when fio measured
    #[arg(long, value_name = "SPEC", default_value = "none")]
    pub sched: String,
    /// Parameters of the simulated computer that repeats fio's jobs; `hoistway list machine` lists them
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = units::machine)]
    pub machine: Option<Machine>,
    /// Largest number of trials; each trial simulates all rows
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_trials: u32,
    /// Print the figures before and after as JSON (needs --output)
    #[arg(long, requires = "output")]
    pub json: bool,
}
