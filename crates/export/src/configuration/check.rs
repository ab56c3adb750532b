//! Checks that involve several parts of a configuration: names that must differ, names that must
//! exist, addresses that need explicit permission.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::{Place, Problem, Sourced, nearest};
use super::{Address, Configuration, Export, MAXIMUM_NAME_BYTES, MAXIMUM_PROBLEMS, PeerMatch, prefixes};

/// What is wrong with a text, and how to correct it.
pub type Verdict = Result<(), (String, String)>;

/// Checks that only the engine can make; none of them opens a file.
#[derive(Copy, Clone)]
pub struct Checks<'a> {
    /// Checks a scheduler's text, `NAME[:TUNABLE=VALUE,...]`.
    pub scheduler: &'a dyn Fn(&str) -> Verdict,
    /// Checks a backing's text.
    pub backing: &'a dyn Fn(&str) -> Verdict,
    /// Checks the whole: whether each device has room for what it is to hold, and who writes where.
    pub whole: &'a dyn Fn(&Configuration) -> Vec<Problem>,
}

/// All problems of a configuration that was read without problems; empty if it is valid.
pub fn check(configuration: &Configuration, checks: Checks<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    presence(configuration, &mut problems);
    names(configuration, &mut problems);
    // A trial starts a shard, and many devices have the same scheduler.
    let mut tried: BTreeMap<&str, Verdict> = BTreeMap::new();
    for scheduler in configuration.devices.iter().map(|device| &device.scheduler) {
        let verdict = tried.entry(&scheduler.value).or_insert_with(|| (checks.scheduler)(&scheduler.value));
        if let Err((what, help)) = verdict {
            problems.push(Problem::new(&scheduler.place, what.clone(), help.clone()));
        }
    }
    for (_, export) in configuration.exports().filter(|(_, export)| !export.backing.value.is_empty()) {
        if let Err((what, help)) = (checks.backing)(&export.backing.value) {
            problems.push(Problem::new(&export.backing.place, what, help));
        }
    }
    problems.extend((checks.whole)(configuration));
    listeners(configuration, &mut problems);
    identities(configuration, &mut problems);
    problems
}

/// Warnings, which do not keep the server from starting.
pub fn warnings(configuration: &Configuration) -> Vec<String> {
    let by_cgroup = configuration.identities.iter().any(|identity| identity.property.value == PeerMatch::Cgroup);
    let of_exports = configuration.exports().map(|(_, export)| &export.group);
    let users = of_exports.chain(configuration.identities.iter().filter_map(|it| it.group.as_ref()));
    let used: BTreeSet<&str> = users.flat_map(|user| prefixes(&user.value)).collect();
    let unused = configuration.groups.iter().filter(|group| !by_cgroup && !used.contains(group.path.value.as_str()));
    let more = unused.clone().count().saturating_sub(MAXIMUM_PROBLEMS);
    let more = (more > 0).then(|| format!("hoistway: warning: {more} more groups are not used"));
    unused
        .take(MAXIMUM_PROBLEMS)
        .map(|group| {
            format!(
                "hoistway: warning: {}: no export and no identity uses the group {}",
                group.path.place.at, group.path.value
            )
        })
        .chain(more)
        .collect()
}

fn presence(configuration: &Configuration, problems: &mut Vec<Problem>) {
    let nowhere = Place::default();
    if configuration.exports().next().is_none() && configuration.listeners.is_empty() {
        let help = "--export NAME=PATH --nbd unix:PATH, or a file with [[device.export]] and [[listen]]";
        problems.push(Problem::new(&nowhere, "there is nothing to export, and nowhere to listen", help));
        return;
    }
    if configuration.exports().next().is_none() {
        let help = "add a [[device]] with a [[device.export]], or --export NAME=PATH";
        problems.push(Problem::new(&nowhere, "there is nothing to export", help));
    }
    let is_attached = |export: &Export| export.ublk.is_some() || export.vhost_user_blk.is_some();
    if configuration.listeners.is_empty() && !configuration.exports().any(|(_, export)| is_attached(export)) {
        let help = "add a [[listen]], or ublk or vhost_user_blk in an export; or --nbd unix:PATH, --vhost-user unix:PATH, \
                    or ,ublk in --export";
        problems.push(Problem::new(&nowhere, "there is nowhere to listen", help));
    }
    for device in configuration.devices.iter().filter(|device| device.exports.is_empty()) {
        let what = format!("device {} exports nothing", device.name);
        problems.push(Problem::new(&device.name.place, what, "add a [[device.export]] below it"));
    }
}

fn names(configuration: &Configuration, problems: &mut Vec<Problem>) {
    distinct("device", configuration.devices.iter().map(|device| &device.name), problems);
    distinct("export", configuration.exports().map(|(_, export)| &export.name), problems);
    distinct("group", configuration.groups.iter().map(|group| &group.path), problems);
    for name in configuration.devices.iter().map(|device| &device.name) {
        well_formed("device name", name, problems);
    }
    for (_, export) in configuration.exports() {
        well_formed("export name", &export.name, problems);
        // An export without a name has no group either, which was reported already.
        if !export.group.value.is_empty() || !export.name.value.is_empty() {
            path("group", &export.group, problems);
        }
        if export.backing.value.is_empty() {
            let help = "name a file, a device, memory:SIZE or null:SIZE";
            problems.push(Problem::new(&export.backing.place, "backing is empty", help));
        }
    }
    for group in &configuration.groups {
        path("path", &group.path, problems);
    }
    for group in configuration.identities.iter().filter_map(|identity| identity.group.as_ref()) {
        path("group", group, problems);
    }
}

fn distinct<'a>(kind: &str, names: impl Iterator<Item = &'a Sourced<String>>, problems: &mut Vec<Problem>) {
    let mut seen: BTreeMap<&str, &Place> = BTreeMap::new();
    for name in names {
        if let Some(first) = seen.insert(&name.value, &name.place) {
            let what = format!("the {kind} {:?} is declared twice", name.value);
            problems.push(Problem::new(&name.place, what, format!("the first is at {}: rename one", first.at)));
        }
    }
}

fn well_formed(kind: &str, name: &Sourced<String>, problems: &mut Vec<Problem>) {
    let reason = if name.value.is_empty() {
        "is empty"
    } else if name.value.len() > MAXIMUM_NAME_BYTES {
        "is longer than 256 bytes"
    } else if name.value.chars().any(char::is_control) {
        "holds a control character"
    } else {
        return;
    };
    let what = format!("the {kind} {:?} {reason}", name.value);
    problems.push(Problem::new(&name.place, what, "use 1 to 256 bytes of printable UTF-8"));
}

fn path(key: &str, path: &Sourced<String>, problems: &mut Vec<Problem>) {
    let good = path.value.len() <= MAXIMUM_NAME_BYTES
        && !path.value.chars().any(char::is_control)
        && path.value.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !good {
        let what = format!("{key} = {:?} is not a group's path", path.value);
        let help = "write names with / between them, as in tenants/db, at most 256 bytes";
        problems.push(Problem::new(&path.place, what, help));
    }
}

fn listeners(configuration: &Configuration, problems: &mut Vec<Problem>) {
    let mut seen: BTreeMap<String, &Place> = BTreeMap::new();
    let exports = export_names(configuration);
    for listener in &configuration.listeners {
        let address = &listener.address;
        if let Some(first) = seen.insert(address.value.to_string(), &address.place) {
            let what = format!("two listeners have the address {address}");
            problems.push(Problem::new(&address.place, what, format!("the first is at {}", first.at)));
        }
        match &listener.tls {
            None => plain(address, listener.allow_plain, problems),
            Some(tls) if listener.allow_plain => {
                let what = format!("{address} has tls and allow_plain, and serves no client without TLS");
                problems.push(Problem::new(&tls.certificate.place, what, "leave one of them out"));
            }
            Some(_) => {}
        }
        visible(&exports, &listener.exports, problems);
    }
    let metrics = configuration.metrics.iter().map(|metrics| &metrics.address);
    configuration.metrics.iter().for_each(|metrics| plain(&metrics.address, metrics.allow_plain, problems));
    for address in configuration.exports().filter_map(|(_, export)| export.vhost_user_blk.as_ref()).chain(metrics) {
        if let Some(first) = seen.insert(address.value.to_string(), &address.place) {
            let kind = if matches!(address.value, Address::Unix { .. }) { "path" } else { "address" };
            let what = format!("two sockets have the {kind} {address}");
            problems.push(Problem::new(&address.place, what, format!("the first is at {}", first.at)));
        }
    }
    let mut timeouts = configuration.listeners.iter().map(|listener| &listener.stall_timeout_s);
    if let (Some(first), Some(other)) =
        (timeouts.next(), timeouts.find(|it| **it != configuration.listeners[0].stall_timeout_s))
    {
        let what = format!("stall_timeout_s = {other} differs from another listener's {first}");
        problems.push(Problem::new(
            &other.place,
            what,
            "give all listeners the same value: in this version it applies per device",
        ));
    }
    if let Some(control) = &configuration.control
        && let Some(place) = seen.get(&format!("unix:{}", control.unix.value.display()))
    {
        let what = format!("{} is another socket's path already", control.unix.value.display());
        problems.push(Problem::new(&control.unix.place, what, format!("that socket is at {}", place.at)));
    }
}

/// TCP that other machines can reach has to be allowed.
pub(super) fn plain(address: &Sourced<Address>, is_allowed: bool, problems: &mut Vec<Problem>) {
    if let Address::Tcp(socket) = address.value
        && !socket.ip().is_loopback()
        && !is_allowed
    {
        let what = format!("{address} can be reached from other machines without TLS");
        let help = "give a [[listen]] tls, listen on 127.0.0.1, or set allow_plain = true (--allow-plain) if the \
                    network is trusted";
        problems.push(Problem::new(&address.place, what, help));
    }
}

fn identities(configuration: &Configuration, problems: &mut Vec<Problem>) {
    let known: Vec<String> = configuration.listeners.iter().map(|it| it.address.value.to_string()).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let exports = export_names(configuration);
    let asks_for_certificates = configuration.listeners.iter().filter_map(|it| it.tls.as_ref());
    let asks_for_certificates = asks_for_certificates.filter(|tls| tls.client_ca.is_some()).count() > 0;
    for identity in &configuration.identities {
        if let PeerMatch::Certificate(name) = &identity.property.value {
            let place = &identity.property.place;
            if name.is_empty() || name.strip_prefix("*.").unwrap_or(name).contains('*') {
                let help =
                    "for example certificate = \"tenant-a\", or \"*.tenants.example.org\" for any one name below it";
                problems.push(Problem::new(
                    place,
                    format!("certificate = {name:?} is neither a name nor *.DOMAIN"),
                    help,
                ));
            } else if !asks_for_certificates {
                let what = format!("certificate = {name:?} fits no client: no listener asks for certificates");
                problems.push(Problem::new(place, what, "give a [[listen]] tls with client_ca"));
            }
        }
        if let PeerMatch::Listener(address) = &identity.property.value
            && !known.contains(&address.as_str())
        {
            let what = format!("listener = {address:?} is none of the listeners");
            problems.push(Problem::new(&identity.property.place, what, format!("they are {}", known.join(", "))));
        }
        visible(&exports, &identity.exports, problems);
    }
}

fn export_names(configuration: &Configuration) -> BTreeSet<&str> {
    configuration.exports().map(|(_, export)| export.name.value.as_str()).collect()
}

/// Checks the names of visible exports. A name without a star must be that of an export; otherwise
/// it is reported as a typing error. A pattern may match nothing, because exports can be added
/// later.
fn visible(exports: &BTreeSet<&str>, patterns: &[Sourced<String>], problems: &mut Vec<Problem>) {
    for pattern in patterns {
        // Comparing a wrong name with all others is slow, and no more problems than these are shown.
        if pattern.value.contains('*') || exports.contains(pattern.value.as_str()) || problems.len() > MAXIMUM_PROBLEMS
        {
            continue;
        }
        let known: Vec<&str> = exports.iter().copied().collect();
        let meant = nearest(&pattern.value, &known).map_or(String::new(), |name| format!("; did you mean {name:?}?"));
        let what = format!("there is no export {:?}{meant}", pattern.value);
        problems.push(Problem::new(&pattern.place, what, format!("exports: {}", known.join(", "))));
    }
}
