//! `hoistway serve`: block devices for clients, from a file or from flags.

use linux::input::Ceiling;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use experiment::Diagnostic;
use export::configuration::check::{check, warnings};
use export::configuration::flags::{self, Flags};
use export::configuration::problem::shown;
use export::configuration::show::show;
use export::configuration::{Configuration, Place, Problem, file};
use export::log::{self, Filter, Format, LogOverrides, events};
use export::server::{CHECKS, Origin, Server, inherited_listeners};
use linux::output::error_line;

use crate::exit::print;

/// The version that the log names.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Exit status: nothing went wrong.
const DONE: u8 = 0;
/// Exit status: a run-time failure.
const FAILED: u8 = 1;
/// Exit status: usage or configuration.
const USAGE: u8 = 2;

/// Arguments of `hoistway serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Configuration file (TOML), instead of the options below
    #[arg(value_name = "CONFIG", conflicts_with_all = ["nbd", "vhost_user", "export", "scheduler", "memory", "queue_depth", "rotational", "metrics", "control"])]
    config: Option<PathBuf>,
    /// Print the complete configuration, including defaults, and exit
    #[arg(long)]
    check: bool,
    /// Listen for NBD clients on unix:PATH or tcp:ADDRESS:PORT (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<String>,
    /// Listen for a virtual machine that attaches an export as vhost-user-blk (repeatable)
    #[arg(long, value_name = "[NAME=]unix:PATH")]
    vhost_user: Vec<String>,
    /// Serve the file or block device PATH as NAME, with options weight=N, group=G, read_only, min_block=N (smallest
    /// block size to advertise), description=TEXT, unsafe_flush (answer flushes without doing them) and ublk (a local
    /// block device, /dev/ublkbN; ublk=N chooses N); repeatable
    #[arg(long, value_name = "NAME=PATH[,OPTION...]")]
    export: Vec<String>,
    /// Scheduler: NAME[:TUNABLE=VALUE,...]; `hoistway list schedulers` lists them
    #[arg(long, short = 's', visible_alias = "sched", value_name = "SPEC")]
    scheduler: Option<String>,
    /// Memory for the data of requests, 64MiB to 64GiB (default 256MiB)
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Limit of requests in flight on the device; 0 finds the smallest number that reaches full throughput (32 on a
    /// rotational disk)
    #[arg(long, value_name = "N")]
    queue_depth: Option<u64>,
    /// Whether the disk rotates: auto, yes or no; auto asks the system, and if it says yes, verifies it by measuring
    #[arg(long, value_name = "WORD")]
    rotational: Option<String>,
    /// Answer scrapes of Prometheus at unix:PATH or tcp:ADDRESS:PORT, path /metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,
    /// Create a control socket for `hoistway ctl` and `hoistway top` at PATH
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Form of the log on stderr: human (for people), json, journald, or auto: journald if the journal reads stderr,
    /// else human [default: auto]
    #[arg(long, value_name = "FORMAT", value_parser = log_format)]
    log_format: Option<Format>,
    /// Events of the log: error, warn, info or debug, or levels by target: warn,client=info [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = log_filter)]
    log_level: Option<Filter>,
    /// When ready, print the NBD URI of every export
    #[arg(long)]
    print_uri: bool,
}

/// Serves until it is told to end. Exit status (docs/specifications/engine.md, section 8): 0
/// drained, 1 run-time failure or abandoned requests, 2 usage or configuration, 3 a missing feature
/// of this system.
pub fn run(arguments: ServeArguments) -> u8 {
    let (configuration, origin) = match read(&arguments) {
        Ok(read) => read,
        Err(problems) => return refuse(&problems),
    };
    let mut configuration = configuration;
    let inherited = match inherited_listeners(&mut configuration) {
        Ok(inherited) => inherited,
        Err(problem) => return refuse(&[problem]),
    };
    let problems = check(&configuration, CHECKS);
    if !problems.is_empty() {
        return refuse(&problems);
    }
    let overrides = LogOverrides { format: arguments.log_format, filter: arguments.log_level.clone() };
    let log = log::start(overrides, &configuration.log, Box::new(io::stderr()));
    warnings(&configuration).iter().for_each(|warning| events::configuration_warning(warning));
    if arguments.check {
        return match print(&show(&configuration)) {
            Ok(()) => DONE,
            Err(error) => {
                error_line(error);
                FAILED
            }
        };
    }
    let (devices, exports) = (configuration.devices.len(), configuration.exports().count());
    match Server::start(configuration, origin, inherited) {
        Ok(server) => {
            let begun = Instant::now();
            events::started(VERSION, devices, exports);
            // A reader of the ready lines finds the warnings of the start in the log.
            log.flush();
            // A process that is told that the server is ready may send a signal at once.
            server.handle_signals();
            server.announce(arguments.print_uri);
            let status = server.run();
            events::ended(VERSION, status, begun.elapsed());
            status
        }
        Err(failure) => {
            shown(&failure.problems).iter().for_each(|line| events::problem(line));
            failure.exit_status
        }
    }
}

fn log_format(text: &str) -> Result<Format, Diagnostic> {
    let names = Format::ALL.map(|(name, _)| name);
    let found = Format::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, format)| format);
    found.ok_or_else(|| {
        Diagnostic::new(format!("'{text}' is no form of the log"), format!("there are {}", names.join(", ")))
    })
}

fn log_filter(text: &str) -> Result<Filter, Diagnostic> {
    text.parse().map_err(|what: String| Diagnostic::new(what, "for example --log-level warn,client=info"))
}

fn read(arguments: &ServeArguments) -> Result<(Configuration, Origin), Vec<Problem>> {
    match &arguments.config {
        Some(path) => Ok((read_file(path)?, Origin::File(path.clone()))),
        None => {
            let flags = Flags {
                nbd: arguments.nbd.clone(),
                vhost_user: arguments.vhost_user.clone(),
                export: arguments.export.clone(),
                scheduler: arguments.scheduler.clone(),
                memory: arguments.memory.clone(),
                queue_depth: arguments.queue_depth,
                rotational: arguments.rotational.clone(),
                metrics: arguments.metrics.clone(),
                control: arguments.control.clone(),
            };
            Ok((flags::read(&flags)?, Origin::Flags))
        }
    }
}

fn read_file(path: &Path) -> Result<Configuration, Vec<Problem>> {
    let name = path.display().to_string();
    let text = linux::input::text(path, Ceiling::CONFIGURATION).map_err(|error| {
        let place = Place { at: name.as_str().into(), quoted: "".into() };
        vec![Problem::new(&place, format!("cannot be read: {error}"), "give the path of a serve.toml")]
    })?;
    file::read(&name, &text)
}

fn refuse(problems: &[Problem]) -> u8 {
    shown(problems).iter().for_each(error_line);
    USAGE
}
