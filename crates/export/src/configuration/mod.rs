//! The server's configuration: `serve.toml` or flags, read and checked as a whole before anything
//! is opened.
//!
//! text or flags -> [`file::read`] or [`flags::read`] -> [`Configuration`] -> [`check::check`] ->
//! [`show::show`], server
//!
//! All problems are reported at once, each with its place, its value, what is allowed and the
//! remedy. Nothing in this directory opens, stats or connects to anything: a configuration is a
//! function of its text.

pub mod check;
pub mod file;
pub mod flags;
pub mod keys;
mod options;
pub mod problem;
mod reader;
pub mod show;
pub mod size;

use std::net::SocketAddr;
use std::path::PathBuf;

use hoistway_block::DeviceNumber;
use hoistway_engine::Rotational;
use hoistway_experiment::io_latency_line::{read_io_latency, write_io_latency};
use hoistway_experiment::{Diagnostic, GroupPriority, Limits};
use hoistway_experiment::{limit_lines, units};

use crate::log::LogSettings;
use crate::ublk::Number;

pub use problem::{Place, Problem, Sourced};
pub use size::Size;

/// The scheduler of a device that names none: it keeps shares on disks and on flash, and costs at
/// most 3 % of throughput.
pub const DEFAULT_SCHEDULER: &str = "paternoster";
/// Default weight of a group.
pub const DEFAULT_WEIGHT: u64 = 100;
/// Valid weights of a group.
pub const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=10_000;
/// Valid priority levels of a group.
pub const PRIORITIES: std::ops::RangeInclusive<u64> = 0..=7;
/// Longest export or group name, in bytes.
pub const MAXIMUM_NAME_BYTES: usize = 256;
/// Most devices.
pub const MAXIMUM_DEVICES: usize = 256;
/// Most exports of a device: the engine's limit.
pub const MAXIMUM_EXPORTS: usize = 1_024;
/// Most groups, as many as a device can have.
pub const MAXIMUM_GROUPS: usize = 16_384;
/// Most listeners.
pub const MAXIMUM_LISTENERS: usize = 64;
/// Most identities.
pub const MAXIMUM_IDENTITIES: usize = 4_096;
/// Most entries of a list: patterns of exports, processors.
pub const MAXIMUM_LIST: usize = 4_096;
/// Most problems that are shown; a damaged file has any number.
pub const MAXIMUM_PROBLEMS: usize = 100;
/// Valid arena sizes of a device.
pub const MEMORY: std::ops::RangeInclusive<Size> = Size(64 << 20)..=Size(64 << 30);
/// Default arena size of a device.
pub const DEFAULT_MEMORY: Size = Size(256 << 20);
/// Valid numbers of requests in flight on a device; 0 = learned: the number beyond which it gets no
/// faster.
pub const QUEUE_DEPTHS: std::ops::RangeInclusive<u64> = 0..=4_096;

/// The largest number of a ublk device (the driver's default limit of devices is 64).
pub const UBLK_NUMBER_MAX: u64 = 1_023;

/// Valid words for whether positioning costs time.
pub const ROTATIONAL: [(&str, Rotational); 3] =
    [("auto", Rotational::Measured), ("yes", Rotational::Yes), ("no", Rotational::No)];

/// A complete configuration with defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Directory below which backings are opened; none: the working directory, and absolute paths
    /// are allowed.
    pub root: Option<Sourced<PathBuf>>,
    /// How long a drain may last, in seconds.
    pub drain_timeout_s: u64,
    /// The devices, one shard each.
    pub devices: Vec<Device>,
    /// Groups with a weight or limits of their own.
    pub groups: Vec<Group>,
    /// The sockets that clients connect to.
    pub listeners: Vec<Listener>,
    /// The identities of clients.
    pub identities: Vec<Identity>,
    /// The endpoint for metrics, if there is one.
    pub metrics: Option<Metrics>,
    /// The control socket, if there is one.
    pub control: Option<Control>,
    /// The form of the log, and its events.
    pub log: LogSettings,
}

/// One device: one scheduler, and the threads that share its work.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its name in messages and on the control socket.
    pub name: Sourced<String>,
    /// `NAME[:TUNABLE=VALUE,...]`.
    pub scheduler: Sourced<String>,
    /// Size of the buffer arena.
    pub memory: Size,
    /// Requests given to the device at once; 0 = learned: the number beyond which it gets no
    /// faster.
    pub queue_depth: u64,
    /// Whether positioning costs time.
    pub rotational: Rotational,
    /// Largest part that a request is cut into.
    pub max_request: Size,
    /// Whether the backing is accessed through the page cache.
    pub cache: Cache,
    /// How long to wait for several completions at once, in microseconds; 0 disables it.
    pub batch_wait_us: u64,
    /// How long to poll for work before sleeping, in microseconds; 0 disables it.
    pub busy_poll_us: u64,
    /// Threads that share the work of the device's clients; 0: one for each processor, up to 4.
    pub threads: u64,
    /// Largest I/O performed by the device's threads themselves where the backing is memory; 0 disables it.
    pub inline_max: Size,
    /// Processors that the device's threads may use; empty: all.
    pub cpu: Vec<u64>,
    /// Its exports.
    pub exports: Vec<Export>,
}

/// How a backing is opened.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cache {
    /// With direct I/O where the file system supports it (`direct`).
    Direct,
    /// Through the page cache (`page`).
    Page,
}

/// One export.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// NBD export name.
    pub name: Sourced<String>,
    /// File, device, slice, model, `memory:SIZE` or `null:SIZE`.
    pub backing: Sourced<String>,
    /// The group charged for its I/O unless the client's identity says otherwise.
    pub group: Sourced<String>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Smallest block advertised: 1, 512 or 4,096 bytes.
    pub min_block: u32,
    /// A description for users.
    pub description: String,
    /// Whether flushes are answered without flushing.
    pub unsafe_flush: bool,
    /// The number of its local block device, if it has one.
    pub ublk: Option<Number>,
    /// The unix socket that a virtual machine attaches it by, if there is one.
    pub vhost_user_blk: Option<Sourced<Address>>,
}

/// A group's share and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its path, for example `tenants/db`.
    pub path: Sourced<String>,
    /// Weight relative to its siblings, 1 to 10,000.
    pub weight: u64,
    /// Weight of its own queues among the groups below it, 1 to 10,000; none = `weight`.
    pub leaf_weight: Option<u64>,
    /// Its priority level, for schedulers that support levels of groups; none = the scheduler's
    /// default.
    pub priority: Option<GroupPriority>,
    /// Its maximum and minimum rates, and its latency target.
    pub limits: Limits,
}

/// A listening socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The address.
    pub address: Sourced<Address>,
    /// Names or patterns (`b-*`) of the exports visible here.
    pub exports: Vec<Sourced<String>>,
    /// Whether the LIST option is answered.
    pub list: bool,
    /// Whether plain TCP beyond the loopback interface is allowed.
    pub allow_plain: bool,
    /// The files for TLS; if given, no client is served without it.
    pub tls: Option<Tls>,
    /// Connections at once; further ones are accepted and closed.
    pub max_connections: u64,
    /// Connections of one peer at once; 0 = all but an eighth of `max_connections`.
    pub peer_connections: u64,
    /// How long a handshake may last, in seconds.
    pub handshake_timeout_s: u64,
    /// How long a client may stall inside a payload or without reading replies, in seconds.
    pub stall_timeout_s: Sourced<u64>,
}

/// The files for TLS of a listener, all in PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Tls {
    /// The server's certificate, with its intermediates behind it.
    pub certificate: Sourced<PathBuf>,
    /// The certificate's private key.
    pub key: Sourced<PathBuf>,
    /// The authorities that sign the certificates of clients; if given, clients must have one.
    pub client_ca: Option<Sourced<PathBuf>>,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Permission bits, 0660 by default.
        mode: u32,
        /// Name or number of the group that owns it, if not the process's own.
        owner_group: Option<String>,
    },
    /// TCP; port 0 lets the system choose.
    Tcp(SocketAddr),
}

impl Address {
    /// Whether both are the same place; the permissions of a unix socket are ignored.
    pub fn is_same_place(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Unix { path, .. }, Address::Unix { path: other, .. }) => path == other,
            _ => self == other,
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix { path, .. } => write!(formatter, "unix:{}", path.display()),
            Address::Tcp(address) => write!(formatter, "tcp:{address}"),
        }
    }
}

/// A known client, and its rights.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// The property that identifies it.
    pub property: Sourced<PeerMatch>,
    /// The group charged for its I/O; none with [`PeerMatch::Cgroup`], where the peer's cgroup is the
    /// group.
    pub group: Option<Sourced<String>>,
    /// Names or patterns of the exports that it may open.
    pub exports: Vec<Sourced<String>>,
}

/// The property that identifies a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMatch {
    /// The user id of a unix socket's peer.
    Uid(u32),
    /// The group id of a unix socket's peer.
    Gid(u32),
    /// A name in the client's certificate, or `*.` and a domain.
    Certificate(String),
    /// Any peer of a unix socket, identified by its cgroup.
    Cgroup,
    /// The listener that it connected to, as `unix:PATH` or `tcp:ADDRESS:PORT`.
    Listener(String),
}

/// The endpoint for metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// Its address.
    pub address: Sourced<Address>,
    /// Whether TCP beyond the loopback interface is allowed.
    pub allow_plain: bool,
}

/// The control socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Path of the unix socket, created with mode 0600.
    pub unix: Sourced<PathBuf>,
}

impl std::fmt::Display for PeerMatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PeerMatch::Uid(id) => write!(formatter, "uid={id}"),
            PeerMatch::Gid(id) => write!(formatter, "gid={id}"),
            PeerMatch::Cgroup => formatter.write_str("cgroup"),
            PeerMatch::Certificate(name) => write!(formatter, "certificate={name}"),
            PeerMatch::Listener(address) => write!(formatter, "listener={address}"),
        }
    }
}

impl Default for Device {
    fn default() -> Self {
        Self {
            name: Sourced::default(),
            scheduler: Sourced::new(DEFAULT_SCHEDULER.to_owned(), &Place::default()),
            memory: DEFAULT_MEMORY,
            queue_depth: 0,
            rotational: Rotational::Measured,
            max_request: Size(1 << 20),
            cache: Cache::Direct,
            batch_wait_us: 0,
            busy_poll_us: 50,
            threads: 0,
            inline_max: Size(16 << 10),
            cpu: Vec::new(),
            exports: Vec::new(),
        }
    }
}

impl Listener {
    /// A listener with an address and defaults for everything else.
    pub fn at(address: Sourced<Address>) -> Self {
        Self {
            exports: vec![Sourced::new("*".to_owned(), &address.place)],
            stall_timeout_s: Sourced::new(30, &address.place),
            address,
            list: true,
            allow_plain: false,
            tls: None,
            max_connections: 256,
            peer_connections: 0,
            handshake_timeout_s: 10,
        }
    }
}

impl Listener {
    /// Connections that one peer may have at once.
    pub fn max_connections_per_peer(&self) -> u64 {
        match self.peer_connections {
            0 => self.max_connections - self.max_connections / 8,
            given => given,
        }
    }
}

impl Configuration {
    /// A configuration without devices, groups and listeners, with defaults for everything else.
    pub fn empty() -> Self {
        Self {
            root: None,
            drain_timeout_s: 30,
            devices: Vec::new(),
            groups: Vec::new(),
            listeners: Vec::new(),
            identities: Vec::new(),
            metrics: None,
            control: None,
            log: LogSettings::default(),
        }
    }

    /// How long a client may stall, in seconds; the same for all listeners.
    pub fn stall_timeout_s(&self) -> u64 {
        self.listeners.first().map_or(30, |listener| listener.stall_timeout_s.value)
    }

    /// All exports, each with its device.
    pub fn exports(&self) -> impl Iterator<Item = (&Device, &Export)> {
        self.devices.iter().flat_map(|device| device.exports.iter().map(move |export| (device, export)))
    }

    /// The limits of a group, declared or not.
    pub fn limits(&self, path: &str) -> Limits {
        self.groups.iter().find(|group| group.path.value == path).map_or(Limits::NONE, |group| group.limits)
    }

    /// The priority level of a group, declared or not.
    pub fn group_priority(&self, path: &str) -> Option<GroupPriority> {
        self.groups.iter().find(|group| group.path.value == path).and_then(|group| group.priority)
    }

    /// The weight of a group's own queues, if it is declared and has one.
    pub fn leaf_weight(&self, path: &str) -> Option<u64> {
        self.groups.iter().find(|group| group.path.value == path).and_then(|group| group.leaf_weight)
    }

    /// The weight of a group, declared or not.
    pub fn weight(&self, path: &str) -> u64 {
        self.groups.iter().find(|group| group.path.value == path).map_or(DEFAULT_WEIGHT, |group| group.weight)
    }
}

impl Group {
    /// A group with a weight and no other settings.
    pub fn new(path: Sourced<String>, weight: u64) -> Self {
        Self { path, weight, leaf_weight: None, priority: None, limits: Limits::NONE }
    }
}

/// Changes limits by a line in the form of the kernel's files, without the device: `rbps=50000000
/// wiops=max`. Rates may have units, which the kernel does not take: `rbps=50MiB wiops=20k`.
///
/// # Errors
/// What is wrong with the file's name or the line, and how to correct it; nothing has changed then.
pub fn write_limits(file: &str, line: &str, limits: &mut Limits) -> Result<(), Diagnostic> {
    // The parsers of these lines expect a device first.
    let words = line.split_whitespace().map(without_unit).collect::<Vec<_>>();
    let line = format!("0:0 {}", words.join(" "));
    match file {
        "io.max" => limit_lines::write_ceilings(&line, limits).map(|_| ()),
        "io.low" => limit_lines::write_io_low(&line, limits).map(|_| ()),
        "io.latency" => write_io_latency(&line, limits).map(|_| ()),
        _ => {
            let help = "there are io.max, io.low and io.latency";
            Err(Diagnostic::new(format!("there is no file of limits '{file}'"), help))
        }
    }
}

/// A word of a limit's line with its rate as a plain number; any other word as it is.
fn without_unit(word: &str) -> String {
    let plain = |(key, value): (&str, &str)| {
        // Plain numbers stay as they are, so that the line's own parser judges them.
        let has_unit = value.ends_with(|letter: char| letter.is_ascii_alphabetic());
        let number = match () {
            () if key.ends_with("bps") => units::rate(value),
            () => units::ios_per_s(value),
        };
        let takes_unit = key.ends_with("bps") || key.ends_with("iops");
        (has_unit && takes_unit).then_some(())?;
        Some(format!("{key}={}", number.ok()?))
    };
    word.split_once('=').and_then(plain).unwrap_or_else(|| word.to_owned())
}

/// The limit files, each with the line that would set these limits; none where nothing is limited.
pub fn read_limits(limits: &Limits) -> [(&'static str, Option<String>); 3] {
    let here = DeviceNumber { major: 0, minor: 0 };
    let lines = [
        ("io.max", limit_lines::read_ceilings(here, limits)),
        ("io.low", limit_lines::read_io_low(here, limits)),
        ("io.latency", read_io_latency(here, limits)),
    ];
    // The kernel shows 0 for "not given" but does not accept it.
    let is_given = |word: &&str| !word.ends_with("=0");
    let words = |line: String| line.split(' ').skip(1).filter(is_given).collect::<Vec<_>>().join(" ");
    lines.map(|(file, line)| (file, line.map(words)))
}

/// The groups of a path: `a`, `a/b` and `a/b/c` of `a/b/c`.
pub fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| at).chain([path.len()]).map(|end| &path[..end])
}

/// Whether a name matches a pattern in which `*` stands for any number of characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(tail, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        assert!(matches("*", "") && matches("*", "db") && matches("b-*", "b-1") && matches("*-log", "db-log"));
        assert!(matches("a*b*c", "a12b3c") && matches("db", "db"));
        assert!(!matches("b-*", "b") && !matches("db", "db2") && !matches("a*b*c", "abd"));
    }
}
