//! The options of `hoistway tune`. Source: docs/specifications/harness.md, section 8.2.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hoistway_block::Nanos;
use hoistway_tune::Goal;

use crate::replay::arguments::ReplayOptions;
use crate::run_test::arguments::ProgressName;
use crate::units;

/// `hoistway tune`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:
  hoistway tune                                     list this machine's disks and their probable class, without I/O
  hoistway tune model:raid5x12                      measure a simulated array
  sudo hoistway tune /dev/sdb                       measure by reading, and restore all settings
  sudo hoistway tune /dev/sdb --goal latency --save sdb.json
  sudo hoistway tune /dev/sdb --from sdb.json --apply          apply it now; --undo reverts it
  sudo hoistway tune /dev/sdb --from sdb.json --persist        and at every boot, for the disk's WWN or serial
  hoistway tune /mnt/disk --load jobs.fio           recommend for this load, on a temporary file in that directory
  hoistway tune /dev/sdb --load sdb --groups-by comm           or for a recorded load (hoistway trace record)
  hoistway tune /dev/sdb --from-fio none=a.json --from-fio bfq=b.json    from fio's results, without I/O
  hoistway tune model:ssd --iocost --emit iocost    print the lines for io.cost.model and io.cost.qos
  hoistway tune model:sata --classic                print the table of the tool iostune (2010)

Exit codes: 0 also if the recommendation is \"keep\", 5 if the figures are too noisy to decide, 6 if a setting
could not be restored.")]
pub struct TuneArguments {
    /// What to tune: model:NAME[,KEY=VALUE...] (simulated), a block device, or a directory [default: list all disks]
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    #[command(flatten)]
    pub probing: ProbingArguments,
    #[command(flatten)]
    pub acting: ActingArguments,
    #[command(flatten)]
    pub showing: ShowingArguments,
}

/// Measuring.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Measuring")]
pub struct ProbingArguments {
    /// What matters most: balanced, throughput, latency or fairness
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub goal: Goal,
    /// Which host runs the schedulers: simulator (sim), engine, or native (kernel) [default: simulator for a model,
    /// native for a block device, else engine]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Measure 1 s per step, twice [default: up to 3 s, three times, at most 5 minutes in total]
    #[arg(long, conflicts_with = "thorough")]
    pub quick: bool,
    /// Measure 10 s per step, five times, without a time limit
    #[arg(long)]
    pub thorough: bool,
    /// Time limit for all steps except --iocost: steps are shortened to fit, and those that still do not fit are left
    /// out and reported. On a model it is simulated time [default: 5m; with --quick 2m; on a model none]
    #[arg(long, value_name = "TIME", value_parser = units::time, conflicts_with = "thorough")]
    pub budget: Option<Nanos>,
    /// Recommend from the device's properties alone, without any I/O
    #[arg(long)]
    pub no_probe: bool,
    /// Measure only the current setting; needs no root
    #[arg(long, conflicts_with = "no_probe")]
    pub current_only: bool,
    /// Scheduler to try instead of those for the device's class: NAME[:TUNABLE=VALUE,...]; repeatable
    #[arg(long, value_name = "SPEC")]
    pub candidates: Vec<String>,
    /// Recommend for this load: a job file (.fio), or a trace recorded on the device
    // The options of a replay require an argument of this id.
    #[arg(id = "trace", long = "load", value_name = "FILE")]
    pub load: Option<PathBuf>,
    #[command(flatten)]
    pub replay: ReplayOptions,
    /// Refuse a trace that reaches beyond the target
    #[arg(long, requires = "trace", help_heading = "Replay")]
    pub strict: bool,
    /// Also measure reads during writes; on a block device that needs --destructive, elsewhere it is the default
    #[arg(long, conflicts_with_all = ["no_probe", "from", "from_fio"])]
    pub probe_writes: bool,
    /// Also measure reads during writes on this block device (repeat the path of TARGET); its content is lost. On a
    /// model and in a directory that is done anyway
    #[arg(long, value_name = "DEVICE")]
    pub destructive: Option<PathBuf>,
    /// With --destructive: write even if the device holds a file system or a partition table
    #[arg(long, requires = "destructive")]
    pub overwrite_signature: bool,
    /// Also measure the coefficients and latencies for io.cost
    #[arg(long)]
    pub iocost: bool,
    /// Print the table of the tool iostune: 1, 2, 4 and 8 parallel readers under each scheduler, and its recommendation
    #[arg(long)]
    pub classic: bool,
    /// Size of the temporary file in a directory
    #[arg(long = "size", value_name = "SIZE", default_value = "1G", value_parser = units::size)]
    pub size_bytes: u64,
    /// Refuse a block device that is mounted or otherwise in use, even for reading
    #[arg(long)]
    pub exclusive: bool,
    /// Use the measurements stored by --save instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_probe", "current_only", "trace", "classic"])]
    pub from: Option<PathBuf>,
    /// Use a result of fio (--output-format=json or json+) instead of measuring; SPEC is the scheduler that was set;
    /// repeatable
    #[arg(
        long,
        value_name = "[SPEC=]FILE",
        conflicts_with_all = ["no_probe", "current_only", "trace", "classic", "from", "iocost", "html"]
    )]
    pub from_fio: Vec<String>,
}

/// Applying.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Applying")]
pub struct ActingArguments {
    /// Apply the recommendation now, and store the previous settings for --undo [default: change nothing]
    #[arg(long)]
    pub apply: bool,
    /// Apply it now and at every boot, by a udev rule that matches the disk's WWN or serial number
    #[arg(long)]
    pub persist: bool,
    /// Revert --apply and --persist; for all devices if TARGET is not given
    #[arg(long, conflicts_with_all = ["apply", "persist", "from", "emit"])]
    pub undo: bool,
    /// Apply even if TuneD or another udev rule also sets the scheduler of this device
    #[arg(long)]
    pub force: bool,
    /// Root directory of a system image for --persist and --undo, instead of /
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
}

/// Output.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct ShowingArguments {
    /// Print only this part of the result
    #[arg(long, value_name = "WHAT")]
    pub emit: Option<Emit>,
    /// Print everything as JSON (same as --emit json)
    #[arg(long, conflicts_with = "emit")]
    pub json: bool,
    /// Write an HTML page with the measurements
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Store the measurements in this file, for --from
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// How to show progress on stderr
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub progress: ProgressName,
}

/// Parts of the output.
#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
pub enum Emit {
    /// A udev rule
    Udev,
    /// A systemd unit that applies the settings at boot
    Systemd,
    /// A TuneD profile
    Tuned,
    /// Shell commands that write to sysfs
    Sysfs,
    /// The lines of io.cost.model and io.cost.qos
    Iocost,
    /// The same as an entry of systemd's hardware database
    IocostHwdb,
    /// Seastar's io-properties file
    SeastarYaml,
    /// Everything
    Json,
}
