//! Parses `serve.toml` into a [`Configuration`]: one function per kind of table, one line per key.

use std::path::PathBuf;

use hoistway_engine::Rotational;
use hoistway_experiment::limit_lines::BURSTS_MS;
use hoistway_experiment::{GroupPriority, Limits};
use toml::de::DeTable;

use super::problem::{Place, Problem, Sourced};
use super::reader::{Reader, Source};
use super::size::Size;
use super::{
    Address, Cache, Configuration, Control, DEFAULT_MEMORY, DEFAULT_SCHEDULER, DEFAULT_WEIGHT, Device, Export, Group,
    Identity, Listener, MAXIMUM_DEVICES, MAXIMUM_EXPORTS, MAXIMUM_GROUPS, MAXIMUM_IDENTITIES, MAXIMUM_LISTENERS,
    MEMORY, Metrics, PRIORITIES, PeerMatch, QUEUE_DEPTHS, ROTATIONAL, Tls, UBLK_NUMBER_MAX, WEIGHTS, write_limits,
};
use crate::log::{Filter, Format, LogSettings};
use crate::ublk::Number;

/// Parses a whole file; `file` is its name for messages. All errors of form and range are reported
/// at once; checks across tables are in [`super::check::check`].
pub fn read(file: &str, text: &str) -> Result<Configuration, Vec<Problem>> {
    let source = Source::new(file, text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let place = error.span().map_or(Place { at: file.into(), quoted: "".into() }, |span| source.place(span));
        source.report(&place, format!("not TOML: {}", error.message()), "see https://toml.io for the notation");
    }
    if !source.problems.borrow().is_empty() {
        return Err(source.problems.into_inner());
    }
    let place = Place { at: file.into(), quoted: "".into() };
    let configuration = top(Reader::new(&source, "the file", document.get_ref(), place));
    let problems = source.problems.into_inner();
    if problems.is_empty() { Ok(configuration) } else { Err(problems) }
}

fn top(mut reader: Reader<'_>) -> Configuration {
    let root = reader.text("root").map(|root| Sourced::new(PathBuf::from(&root.value), &root.place));
    let configuration = Configuration {
        root,
        drain_timeout_s: drain_timeout(&mut reader),
        devices: reader.tables("device", "[[device]]", MAXIMUM_DEVICES).into_iter().map(device).collect(),
        groups: reader.tables("group", "[[group]]", MAXIMUM_GROUPS).into_iter().map(group).collect(),
        listeners: reader.tables("listen", "[[listen]]", MAXIMUM_LISTENERS).into_iter().filter_map(listener).collect(),
        identities: reader
            .tables("identity", "[[identity]]", MAXIMUM_IDENTITIES)
            .into_iter()
            .filter_map(identity)
            .collect(),
        metrics: reader.table("metrics", "[metrics]").and_then(metrics),
        control: reader.table("control", "[control]").and_then(control),
        log: reader.table("log", "[log]").map(log).unwrap_or_default(),
    };
    reader.finish();
    configuration
}

/// The key of [`drain_timeout`].
pub(super) const DRAIN_TIMEOUT: &str = "drain_timeout_s";

pub(super) fn drain_timeout(reader: &mut Reader<'_>) -> u64 {
    reader.number(DRAIN_TIMEOUT, 1..=3_600, 30).value
}

pub(super) fn device(mut reader: Reader<'_>) -> Device {
    let name = reader.needed_text("name", "ssd0");
    let scheduler =
        reader.text("scheduler").unwrap_or_else(|| Sourced::new(DEFAULT_SCHEDULER.to_owned(), &reader.place));
    let device = Device {
        name,
        scheduler,
        memory: reader.size("memory", MEMORY, DEFAULT_MEMORY),
        queue_depth: reader.number("queue_depth", QUEUE_DEPTHS, 0).value,
        rotational: rotational(&mut reader),
        max_request: max_request(&mut reader),
        cache: match reader.choice("cache", &["direct", "page"], "direct") {
            "page" => Cache::Page,
            _ => Cache::Direct,
        },
        batch_wait_us: reader.number("batch_wait_us", 0..=1_000, 0).value,
        busy_poll_us: reader.number("busy_poll_us", 0..=200, 50).value,
        threads: reader.number("threads", 0..=64, 0).value,
        inline_max: reader.size("inline_max", Size(0)..=Size(1 << 20), Size(16 << 10)),
        cpu: reader.numbers("cpu", 0..=1_023),
        exports: reader.tables("export", "[[device.export]]", MAXIMUM_EXPORTS).into_iter().map(export).collect(),
    };
    reader.finish();
    device
}

fn rotational(reader: &mut Reader<'_>) -> Rotational {
    let [(default, _), ..] = ROTATIONAL;
    let word = reader.choice("rotational", &ROTATIONAL.map(|(word, _)| word), default);
    ROTATIONAL.iter().find(|(known, _)| *known == word).map_or_else(Rotational::default, |(_, meaning)| *meaning)
}

/// Parts lie in slots of the arena, whose sizes are powers of two up to 1 MiB.
fn max_request(reader: &mut Reader<'_>) -> Size {
    let default = Size(1 << 20);
    let size = reader.size("max_request", Size(4 << 10)..=default, default);
    if size.0.is_power_of_two() {
        return size;
    }
    let what = format!("max_request = \"{size}\" is no power of two");
    reader.report(&reader.place, what, "write 4KiB, 16KiB, 64KiB, 256KiB or 1MiB");
    default
}

/// The backing's text, which the keys of an overlay are a part of.
fn backing(reader: &mut Reader<'_>) -> Sourced<String> {
    let keys = ["base", "overlay"].map(|key| (key, reader.text(key)));
    let Some(place) = keys.iter().find_map(|(_, text)| Some(text.as_ref()?.place.clone())) else {
        return reader.needed_text("backing", "db.img");
    };
    if let Some(backing) = reader.text("backing") {
        let what = format!("backing = \"{backing}\" is given together with base or overlay");
        reader.report(&backing.place, what, "an export has either a backing, or a base and an overlay");
    }
    let words = keys.iter().filter_map(|(key, text)| Some(format!("{key}={}", text.as_ref()?.value)));
    Sourced::new(words.collect::<Vec<_>>().join(","), &place)
}

pub(super) fn export(mut reader: Reader<'_>) -> Export {
    let name = reader.needed_text("name", "db");
    let backing = backing(&mut reader);
    let group = reader.text("group").unwrap_or_else(|| name.clone());
    let min_block = reader.number("min_block", 1..=4_096, 1);
    let min_block = match min_block.value {
        512 => 512,
        4_096 => 4_096,
        1 => 1,
        other => {
            let what = format!("min_block = {other} is not one of 1, 512, 4096");
            reader.report(&min_block.place, what, "the default is 1");
            1
        }
    };
    let export = Export {
        name,
        backing,
        group,
        read_only: reader.switch("read_only", false),
        min_block,
        description: reader.text("description").map_or(String::new(), |text| text.value),
        unsafe_flush: reader.switch("unsafe_flush", false),
        ublk: reader
            .switch_or_number("ublk", 0..=UBLK_NUMBER_MAX)
            .map(|number| number.and_then(|number| u32::try_from(number).ok()).map_or(Number::Any, Number::Is)),
        vhost_user_blk: reader.table("vhost_user_blk", "[device.export.vhost_user_blk]").map(vhost_user_blk),
    };
    reader.finish();
    export
}

pub(super) fn vhost_user_blk(mut reader: Reader<'_>) -> Sourced<Address> {
    let unix = reader.needed_text("unix", "/run/hoistway/db.vhost");
    let (mode, owner_group) = (reader.text("mode"), reader.text("owner_group"));
    let address = unix_address(&reader, unix, mode, owner_group);
    reader.finish();
    address
}

pub(super) fn group(mut reader: Reader<'_>) -> Group {
    let path = reader.needed_text("path", "tenants/db");
    let weight = reader.number("weight", WEIGHTS, DEFAULT_WEIGHT).value;
    let leaf_weight =
        reader.optional_number("leaf_weight", WEIGHTS, DEFAULT_WEIGHT, "leave it out for the group's weight");
    let priority = reader.optional_number("priority", PRIORITIES, 4, "leave it out for the scheduler's default");
    let priority = priority.and_then(|level| GroupPriority::new(u32::try_from(level).ok()?).ok());
    let limits = limits(&mut reader);
    reader.finish();
    Group { path, weight, leaf_weight, priority, limits }
}

/// Reads limits from their own keys, then from lines in the kernel's form: `io.max = "rbps=50000000
/// wiops=max"`.
fn limits(reader: &mut Reader<'_>) -> Limits {
    let mut limits = Limits::NONE;
    // The name in the kernel's line is accepted as a key as well.
    for (key, short, place) in [
        ("read_bps_max", "rbps", &mut limits.read_bytes_per_s),
        ("write_bps_max", "wbps", &mut limits.write_bytes_per_s),
        ("total_bps_max", "tbps", &mut limits.total_bytes_per_s),
    ] {
        let key = given(reader, key, short);
        let most = Size(0)..=Size(u64::MAX - 1);
        *place = Some(reader.rate(key, most, Size(0)).0).filter(|limit| *limit > 0);
    }
    for (key, short, place) in [
        ("read_iops_max", "riops", &mut limits.read_ios_per_s),
        ("write_iops_max", "wiops", &mut limits.write_ios_per_s),
        ("total_iops_max", "tiops", &mut limits.total_ios_per_s),
    ] {
        let key = given(reader, key, short);
        let most = 0..=u64::from(u32::MAX) - 1;
        *place = Some(reader.ios_per_s(key, most, 0)).filter(|limit| *limit > 0);
    }
    limits.burst_ms = reader.optional_number("burst_ms", BURSTS_MS, 100, "leave it out for 100 ms");
    let key = given(reader, "latency_target_us", "target");
    limits.latency_target_us = reader.number(key, 0..=u64::from(u32::MAX), 0).value;
    if let Some(mut lines) = reader.table("io", "io") {
        for (key, file) in [("max", "io.max"), ("low", "io.low"), ("latency", "io.latency")] {
            let Some(line) = lines.text(key) else { continue };
            if let Err(wrong) = write_limits(file, &line.value, &mut limits) {
                lines.report(&line.place, format!("{file}: {}", wrong.message), wrong.help);
            }
        }
        lines.finish();
    }
    limits
}

/// The key under which a limit is given: its own or the short one of the kernel's line. Giving both
/// is an error.
fn given(reader: &mut Reader<'_>, key: &'static str, short: &'static str) -> &'static str {
    if !reader.has(short) {
        return key;
    }
    if reader.has(key) {
        let what = format!("{short} and {key} are the same limit");
        reader.report(&reader.place_of(short), what, "give one of them");
        reader.ignore(key);
    }
    short
}

pub(super) fn listener(mut reader: Reader<'_>) -> Option<Listener> {
    let address = address(&mut reader, "[[listen]]");
    let exports = reader.texts("exports", &["*"]);
    let list = reader.switch("list", true);
    let allow_plain = reader.switch("allow_plain", false);
    let max_connections = reader.number("max_connections", 1..=65_536, 256).value;
    let peer_connections = reader.number("max_connections_per_peer", 0..=65_536, 0).value;
    let handshake_timeout_s = reader.number("handshake_timeout_s", 1..=3_600, 10).value;
    let stall_timeout_s = reader.number("stall_timeout_s", 1..=86_400, 30);
    let tls = reader.table("tls", "[listen.tls]").map(tls);
    reader.finish();
    let address = address?;
    Some(Listener {
        address,
        exports,
        list,
        allow_plain,
        tls,
        max_connections,
        peer_connections,
        handshake_timeout_s,
        stall_timeout_s,
    })
}

fn tls(mut reader: Reader<'_>) -> Tls {
    let path = |text: Sourced<String>| Sourced::new(PathBuf::from(&text.value), &text.place);
    let tls = Tls {
        certificate: path(reader.needed_text("certificate", "/etc/hoistway/server.pem")),
        key: path(reader.needed_text("key", "/etc/hoistway/server.key")),
        client_ca: reader.text("client_ca").map(path),
    };
    reader.finish();
    tls
}

/// The address in the keys `unix`, `mode` and `owner_group`, or `tcp`.
fn address(reader: &mut Reader<'_>, table: &str) -> Option<Sourced<Address>> {
    let unix = reader.text("unix");
    let tcp = reader.text("tcp");
    let mode = reader.text("mode");
    let owner_group = reader.text("owner_group");
    match (unix, tcp) {
        (Some(path), None) => Some(unix_address(reader, path, mode, owner_group)),
        (None, Some(address)) => {
            for (key, value) in [("mode", mode), ("owner_group", owner_group)] {
                if let Some(value) = value {
                    reader.report(&value.place, format!("{key} is for unix sockets, this one is tcp"), "leave it out");
                }
            }
            tcp_address(reader, &address)
        }
        (unix, tcp) => {
            let place = tcp.as_ref().map_or(&reader.place, |address| &address.place);
            let what = if unix.is_some() { "has both unix and tcp" } else { "has neither unix nor tcp" };
            let help = "give one: unix = \"/run/hoistway/nbd.sock\" or tcp = \"127.0.0.1:10809\"";
            reader.report(place, format!("{table} {what}"), help);
            None
        }
    }
}

fn unix_address(
    reader: &Reader<'_>,
    path: Sourced<String>,
    mode: Option<Sourced<String>>,
    owner_group: Option<Sourced<String>>,
) -> Sourced<Address> {
    let mode = mode.map_or(0o660, |mode| match u32::from_str_radix(&mode.value, 8) {
        Ok(bits) if bits <= 0o777 => bits,
        _ => {
            let what = format!("mode = \"{}\" is not three octal digits", mode.value);
            reader.report(&mode.place, what, "the default is \"0660\"");
            0o660
        }
    });
    let owner_group = owner_group.map(|group| group.value).filter(|group| !group.is_empty());
    Sourced::new(Address::Unix { path: PathBuf::from(&path.value), mode, owner_group }, &path.place)
}

fn tcp_address(reader: &Reader<'_>, address: &Sourced<String>) -> Option<Sourced<Address>> {
    match address.value.parse() {
        Ok(parsed) => Some(Sourced::new(Address::Tcp(parsed), &address.place)),
        Err(_) => {
            let what = format!("tcp = \"{}\" is not an IP address and a port", address.value);
            reader.report(&address.place, what, "for example tcp = \"127.0.0.1:10809\" or \"[::1]:10809\"");
            None
        }
    }
}

fn identity(mut reader: Reader<'_>) -> Option<Identity> {
    let ids = 0..=u64::from(u32::MAX - 1);
    let place = reader.place.clone();
    let mut property = Vec::new();
    for (key, wrap) in [("uid", PeerMatch::Uid as fn(u32) -> PeerMatch), ("gid", PeerMatch::Gid)] {
        let present = reader.has(key);
        let id = reader.number(key, ids.clone(), 0).value;
        if present {
            property.push(wrap(u32::try_from(id).unwrap_or(u32::MAX)));
        }
    }
    if reader.switch("cgroup", false) {
        property.push(PeerMatch::Cgroup);
    }
    if let Some(listener) = reader.text("listener") {
        property.push(PeerMatch::Listener(listener.value));
    }
    if let Some(certificate) = reader.text("certificate") {
        property.push(PeerMatch::Certificate(certificate.value));
    }
    let group = reader.text("group");
    let exports = reader.texts("exports", &["*"]);
    if property.len() != 1 {
        let help = "give exactly one of uid = 1000, gid = 100, cgroup = true, certificate = \"tenant-a\", \
                    listener = \"unix:/run/x.sock\"";
        reader.report(&place, format!("[[identity]] gives {} properties to match a client by", property.len()), help);
    }
    let property = property.pop();
    match (&property, &group) {
        (Some(PeerMatch::Cgroup), Some(group)) => {
            let help = "leave group out: the client's own cgroup is the group";
            reader.report(&group.place, "group cannot be combined with cgroup = true", help);
        }
        (Some(_), None) if property != Some(PeerMatch::Cgroup) => {
            reader.report(&place, "[[identity]] has no group", "add group = \"tenants/db\"");
        }
        _ => {}
    }
    reader.finish();
    property.map(|property| Identity { property: Sourced::new(property, &place), group, exports })
}

pub(super) fn metrics(mut reader: Reader<'_>) -> Option<Metrics> {
    let address = address(&mut reader, "[metrics]");
    let allow_plain = reader.switch("allow_plain", false);
    reader.finish();
    Some(Metrics { address: address?, allow_plain })
}

fn control(mut reader: Reader<'_>) -> Option<Control> {
    let unix = reader.needed_text("unix", "/run/hoistway/control.sock");
    reader.finish();
    Some(Control { unix: Sourced::new(PathBuf::from(&unix.value), &unix.place) })
}

fn log(mut reader: Reader<'_>) -> LogSettings {
    let word = reader.choice("format", &Format::ALL.map(|(name, _)| name), Format::Auto.name());
    let format = Format::ALL.into_iter().find(|(name, _)| *name == word).map_or(Format::Auto, |(_, format)| format);
    let mut filter = Filter::default();
    if let Some(level) = reader.text("level") {
        match level.value.parse() {
            Ok(wanted) => filter = wanted,
            Err(what) => reader.report(&level.place, format!("level: {what}"), "for example \"warn,client=info\""),
        }
    }
    reader.finish();
    LogSettings { format, filter }
}
