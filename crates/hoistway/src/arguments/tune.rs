//! The options of `hoistway tune` (harness 8.2).

use std::path::PathBuf;

use block::Nanos;
use clap::{Args, ValueEnum};
use tune::Goal;

use super::test::ProgressName;
use super::trace::ReplayOptions;
use crate::units;

/// `hoistway tune`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "Examples:
  hoistway tune                                     the disks of this machine and what they probably are; no I/O
  hoistway tune model:raid5x12                      on a simulated array, nothing is touched
  sudo hoistway tune /dev/sdb                       measures by reading; nothing stays changed
  sudo hoistway tune /dev/sdb --goal latency --save sdb.json
  sudo hoistway tune /dev/sdb --from sdb.json --apply          sets it now; --undo takes it back
  sudo hoistway tune /dev/sdb --from sdb.json --persist        and at every boot, by WWN or serial
  hoistway tune /mnt/disk --load jobs.fio           what suits this load, in a temporary file of that directory
  hoistway tune /dev/sdb --load sdb --groups-by comm           or the trace of a real one (hoistway trace record)
  hoistway tune /dev/sdb --from-fio none=a.json --from-fio bfq=b.json    from what fio has measured; nothing is touched
  hoistway tune model:ssd --iocost --emit iocost    the lines of io.cost.model and io.cost.qos
  hoistway tune model:sata --classic                iostune's table of 2010

Exit codes: 0 also for \"keep\", 5 if the figures are too noisy to say anything, 6 if something could not be put back.")]
pub struct TuneArguments {
    /// model:NAME[,KEY=VALUE...], a block device, or a directory; without it all disks are listed
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    #[command(flatten)]
    pub probing: ProbingArguments,
    #[command(flatten)]
    pub acting: ActingArguments,
    #[command(flatten)]
    pub showing: ShowingArguments,
}

/// What is measured.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Measuring")]
pub struct ProbingArguments {
    /// What matters most: balanced, throughput, latency or fairness
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    pub goal: Goal,
    /// simulator (sim), engine, or native (kernel) [default: model -> simulator, /dev/... -> native, else engine]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// 1 s per step, twice [default: up to 3 s, three times, 5 minutes in all]
    #[arg(long, conflicts_with = "thorough")]
    pub quick: bool,
    /// 10 s per step, five times, however long that takes
    #[arg(long)]
    pub thorough: bool,
    /// Time for everything but --iocost: steps become shorter to fit, and what does not fit then is left out and said to be.
    /// On a model it is simulated time [default: 5m; with --quick 2m; on a model none]
    #[arg(long, value_name = "TIME", value_parser = units::time, conflicts_with = "thorough")]
    pub budget: Option<Nanos>,
    /// Decide from facts alone, without any I/O
    #[arg(long)]
    pub no_probe: bool,
    /// Measure what is set now and nothing else; needs no root
    #[arg(long, conflicts_with = "no_probe")]
    pub current_only: bool,
    /// Try these instead of the class's own: NAME[:KEY=VALUE,...]; repeatable
    #[arg(long, value_name = "SPEC")]
    pub candidates: Vec<String>,
    /// Recommend for this load: a job file (.fio), or a trace of what the device had to do
    // Under this name the options of a replay ask for it.
    #[arg(id = "trace", long = "load", value_name = "FILE")]
    pub load: Option<PathBuf>,
    #[command(flatten)]
    pub replay: ReplayOptions,
    /// A trace that goes beyond the target is an error
    #[arg(long, requires = "trace", help_heading = "Replay")]
    pub strict: bool,
    /// Measure reads beside writes too; on a block device that needs --destructive, elsewhere it is done anyway
    #[arg(long, conflicts_with_all = ["no_probe", "from", "from_fio"])]
    pub probe_writes: bool,
    /// Measure reads beside writes too, on a block device: its content is lost, so its path must be repeated here. On a
    /// model and in a directory that is done anyway
    #[arg(long, value_name = "DEVICE")]
    pub destructive: Option<PathBuf>,
    /// Goes with --destructive: even if the device holds a file system or a partition table
    #[arg(long, requires = "destructive")]
    pub overwrite_signature: bool,
    /// Coefficients and latencies for io.cost as well
    #[arg(long)]
    pub iocost: bool,
    /// iostune's table: 1, 2, 4, 8 parallel readers under each scheduler, and what follows
    #[arg(long)]
    pub classic: bool,
    /// Size of the temporary file in a directory
    #[arg(long = "size", value_name = "SIZE", default_value = "1G", value_parser = units::size)]
    pub size_bytes: u64,
    /// Refuse a block device that is mounted or otherwise in use, even for reading
    #[arg(long)]
    pub exclusive: bool,
    /// Use stored measurements instead of new ones
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_probe", "current_only", "trace", "classic"])]
    pub from: Option<PathBuf>,
    /// Use results of fio (--output-format=json or json+) instead of measuring; SPEC= says under which scheduler they were
    /// made; repeatable
    #[arg(
        long,
        value_name = "[SPEC=]FILE",
        conflicts_with_all = ["no_probe", "current_only", "trace", "classic", "from", "iocost", "html"]
    )]
    pub from_fio: Vec<String>,
}

/// What is done about it.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Acting")]
pub struct ActingArguments {
    /// Set it now; it is written down how it was [default: nothing is changed]
    #[arg(long)]
    pub apply: bool,
    /// Set it now and at every boot: a udev rule that matches the WWN or serial number
    #[arg(long)]
    pub persist: bool,
    /// Put back what --apply and --persist have changed; of all devices without TARGET
    #[arg(long, conflicts_with_all = ["apply", "persist", "from", "emit"])]
    pub undo: bool,
    /// Apply even if TuneD or another udev rule sets the scheduler of this device as well
    #[arg(long)]
    pub force: bool,
    /// Directory that stands for / with --persist and --undo, for images
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
}

/// What comes out.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct ShowingArguments {
    /// Print only this: udev, systemd, tuned, sysfs, iocost, iocost-hwdb, seastar-yaml or json
    #[arg(long, value_name = "WHAT")]
    pub emit: Option<Emit>,
    /// All of it as JSON (--emit json)
    #[arg(long, conflicts_with = "emit")]
    pub json: bool,
    /// A page with the measurements
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep the measurements, for --from
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Progress on stderr: a line in place on a terminal, else one per run
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub progress: ProgressName,
}

/// What can be printed alone.
#[derive(ValueEnum, Copy, Clone, PartialEq, Eq, Debug)]
pub enum Emit {
    /// A udev rule.
    Udev,
    /// A unit that applies it at boot.
    Systemd,
    /// A profile of TuneD.
    Tuned,
    /// Commands that write to sysfs.
    Sysfs,
    /// The lines of io.cost.model and io.cost.qos.
    Iocost,
    /// The same as an entry of systemd's hardware database.
    IocostHwdb,
    /// Seastar's io-properties.
    SeastarYaml,
    /// Everything.
    Json,
}
