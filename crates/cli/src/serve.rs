//! `hoistway serve`: block devices for clients, from a file or from flags.

use hoistway_linux::input::Ceiling;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use hoistway_experiment::{Diagnostic, printable_lines};
use hoistway_export::configuration::check::{check, warnings};
use hoistway_export::configuration::flags::{self, Flags};
use hoistway_export::configuration::problem::shown;
use hoistway_export::configuration::show::show;
use hoistway_export::configuration::{Configuration, Place, Problem, file};
use hoistway_export::log::{self, Filter, Format, LogOverrides, events};
use hoistway_export::server::{CHECKS, Origin, Server, inherited_listeners};
use hoistway_export::tls::credentials::Credentials;
use hoistway_linux::output::error_line;

use crate::ctl;
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
#[command(after_help = "Examples:
  hoistway serve --nbd unix:/run/hoistway.sock --export a=/srv/a.img,weight=300 --export b=/srv/b.img
  hoistway serve --export a=/srv/a.img,weight=300,ublk --vhost-user a=unix:/run/a.sock
  hoistway serve --check /etc/hoistway/serve.toml
  hoistway serve /etc/hoistway/serve.toml")]
pub struct ServeArguments {
    /// Configuration file (TOML), instead of the options below
    #[arg(value_name = "CONFIG", conflicts_with_all = ["nbd", "vhost_user", "export", "group", "device", "scheduler", "memory", "queue_depth", "rotational", "root", "drain_timeout_s", "metrics", "control", "tls_certificate", "tls_key", "tls_client_ca", "allow_plain"])]
    config: Option<PathBuf>,
    /// Check everything but devices and sockets, which are not opened; print the complete configuration, including
    /// defaults, and exit
    #[arg(long)]
    check: bool,
    /// Listen for NBD clients on unix:PATH or tcp:ADDRESS:PORT, with options as [[listen]] of the file, such as
    /// mode=0666, max_connections=N, exports=NAME (repeatable)
    #[arg(long, value_name = "ADDRESS[,OPTION...]")]
    nbd: Vec<String>,
    /// Listen for a virtual machine that attaches an export as vhost-user-blk, with options mode=OCTAL and
    /// owner_group=NAME (repeatable)
    #[arg(long, value_name = "[NAME=]unix:PATH[,OPTION...]")]
    vhost_user: Vec<String>,
    /// Serve the file or block device PATH as NAME; base=IMAGE,overlay=FILE in place of PATH serves an overlay (see
    /// `hoistway image`). Options are weight=N, group=G, read_only, min_block=N (smallest
    /// block size to advertise), description=TEXT, unsafe_flush (answer flushes without doing them) and ublk (a local
    /// block device, /dev/ublkbN; ublk=N chooses N); repeatable
    #[arg(long, value_name = "NAME=PATH[,OPTION...]")]
    export: Vec<String>,
    /// Weight and limits of a group, with options as [[group]] of the file: weight=N, leaf_weight=N, priority=N,
    /// read_bps_max=SIZE, write_bps_max=SIZE, total_bps_max=SIZE, read_iops_max=N, write_iops_max=N, total_iops_max=N,
    /// burst_ms=N, latency_target_us=N (repeatable)
    #[arg(long, value_name = "PATH[,OPTION...]")]
    group: Vec<String>,
    /// Other settings of the device, as [[device]] of the file: threads=N, cpu=N, max_request=SIZE, cache=page,
    /// batch_wait_us=N, busy_poll_us=N, inline_max=SIZE (repeatable)
    #[arg(long, value_name = "OPTION[,OPTION...]")]
    device: Vec<String>,
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
    /// Directory that the paths of exports are below
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// How long ending may take, in seconds, 1 to 3600 (default 30)
    #[arg(long, value_name = "N")]
    drain_timeout_s: Option<String>,
    /// Answer scrapes of Prometheus at unix:PATH or tcp:ADDRESS:PORT, path /metrics, with options as [metrics] of the
    /// file
    #[arg(long, value_name = "ADDRESS[,OPTION...]")]
    metrics: Option<String>,
    /// Create a control socket for `hoistway ctl` and `hoistway top` at PATH
    #[arg(long, value_name = "PATH", value_parser = ctl::socket)]
    control: Option<ctl::Socket>,
    #[command(flatten)]
    tls: TlsArguments,
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

/// Who may connect over TCP.
#[derive(Args, Debug)]
struct TlsArguments {
    /// Serve the TCP addresses of --nbd by TLS alone, with the certificate in this PEM file
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Serve only clients whose certificate is signed by an authority in this PEM file
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Consent to --nbd and --metrics on TCP beyond the loopback interface without TLS
    #[arg(long)]
    allow_plain: bool,
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
        match Credentials::read(&configuration) {
            Ok((_, warnings)) => warnings.iter().for_each(|warning| events::configuration_warning(warning)),
            Err(problems) => return refuse(&problems),
        }
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
                group: arguments.group.clone(),
                device: arguments.device.clone(),
                scheduler: arguments.scheduler.clone(),
                memory: arguments.memory.clone(),
                queue_depth: arguments.queue_depth,
                rotational: arguments.rotational.clone(),
                root: arguments.root.clone(),
                drain_timeout_s: arguments.drain_timeout_s.clone(),
                metrics: arguments.metrics.clone(),
                control: arguments.control.clone().map(|ctl::Socket(path)| path),
                tls_certificate: arguments.tls.tls_certificate.clone(),
                tls_key: arguments.tls.tls_key.clone(),
                tls_client_ca: arguments.tls.tls_client_ca.clone(),
                allow_plain: arguments.tls.allow_plain,
            };
            Ok((flags::read(&flags)?, Origin::Flags))
        }
    }
}

fn read_file(path: &Path) -> Result<Configuration, Vec<Problem>> {
    let name = path.display().to_string();
    let text = hoistway_linux::input::text(path, Ceiling::CONFIGURATION).map_err(|error| {
        let place = Place { at: name.as_str().into(), quoted: "".into() };
        vec![Problem::new(&place, format!("cannot be read: {error}"), "give the path of a serve.toml")]
    })?;
    file::read(&name, &text)
}

fn refuse(problems: &[Problem]) -> u8 {
    shown(problems).iter().for_each(|line| error_line(printable_lines(line)));
    USAGE
}
