//! The short form of a configuration: a server of one device, from command-line flags alone.
//!
//! `--nbd unix:/run/hoistway.sock --export a=/dev/shm/a.img,weight=300 --export b=/dev/shm/b.img
//! --group b,write_bps_max=50MiB --scheduler wfq`
//!
//! What follows the first comma of a flag are keys of the file's table of the same name, read by
//! [`mod@file`]'s functions.

use std::path::PathBuf;

use super::options::Options;
use super::problem::{Place, Problem, Sourced};
use super::size::Size;
use super::{
    Address, Configuration, Control, DEFAULT_WEIGHT, Device, Export, Group, Listener, MEMORY, QUEUE_DEPTHS, ROTATIONAL,
    Tls, WEIGHTS, file,
};

/// Keys of a device that have flags of their own, whose values may have commas.
const OWN_FLAGS: [&str; 6] = ["scheduler", "memory", "queue_depth", "rotational", "export", "name"];
const ADDRESS_KEYS: [&str; 2] = ["unix", "tcp"];

/// The flags as given. Together they make a configuration; none of them may be combined with a
/// file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `unix:PATH` or `tcp:ADDRESS:PORT` with options, once per `--nbd`.
    pub nbd: Vec<String>,
    /// `[NAME=]unix:PATH` with options, once per `--vhost-user`.
    pub vhost_user: Vec<String>,
    /// `NAME=BACKING[,OPTION...]` or `NAME=base=BASE,overlay=OVERLAY[,OPTION...]`, once per `--export`.
    pub export: Vec<String>,
    /// `PATH[,OPTION...]`, once per `--group`.
    pub group: Vec<String>,
    /// `OPTION[,OPTION...]`, once per `--device`.
    pub device: Vec<String>,
    /// `--scheduler`.
    pub scheduler: Option<String>,
    /// `--memory`.
    pub memory: Option<String>,
    /// `--queue-depth`.
    pub queue_depth: Option<u64>,
    /// `--rotational`, one of the words of [`ROTATIONAL`].
    pub rotational: Option<String>,
    /// `--root`.
    pub root: Option<PathBuf>,
    /// `--drain-timeout-s`.
    pub drain_timeout_s: Option<String>,
    /// `unix:PATH` or `tcp:ADDRESS:PORT` with options, by `--metrics`.
    pub metrics: Option<String>,
    /// `--control`.
    pub control: Option<PathBuf>,
    /// `--tls-certificate`.
    pub tls_certificate: Option<PathBuf>,
    /// `--tls-key`.
    pub tls_key: Option<PathBuf>,
    /// `--tls-client-ca`.
    pub tls_client_ca: Option<PathBuf>,
    /// `--allow-plain`.
    pub allow_plain: bool,
}

/// Builds a configuration of one device called `default`, or reports all errors in the flags.
pub fn read(flags: &Flags) -> Result<Configuration, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut device = device(flags, &mut problems);
    let mut configuration = Configuration::empty();
    // The groups with a weight of their exports.
    let mut by_exports = Vec::new();
    for text in &flags.export {
        if let Some((export, weight)) = kept(export(text), &mut problems) {
            if let Some(weight) = weight {
                problems.extend(share(&mut by_exports, &export.group, weight).err());
            }
            device.exports.push(export);
        }
    }
    for text in &flags.group {
        if let Some((group, has_weight)) = kept(group(text), &mut problems) {
            problems.extend(declare(&mut configuration.groups, &mut by_exports, group, has_weight).err());
        }
    }
    configuration.groups.append(&mut by_exports);
    for text in &flags.vhost_user {
        kept(vhost_user(text, &mut device.exports), &mut problems);
    }
    for text in &flags.nbd {
        configuration.listeners.extend(kept(listener(text), &mut problems));
    }
    problems.extend(secure(flags, &mut configuration.listeners).err());
    configuration.devices.push(device);
    if let Some(text) = &flags.metrics {
        configuration.metrics = kept(at_address("--metrics", text, file::metrics), &mut problems).flatten();
        if let Some(metrics) = &mut configuration.metrics {
            metrics.allow_plain |= flags.allow_plain;
        }
    }
    configuration.control = flags.control.as_ref().map(|path| Control {
        unix: Sourced::new(path.clone(), &Place::flag("--control", &path.display().to_string())),
    });
    configuration.root =
        flags.root.as_ref().map(|path| Sourced::new(path.clone(), &Place::flag("--root", &path.display().to_string())));
    if let Some(text) = &flags.drain_timeout_s {
        let place = Place::flag("--drain-timeout-s", text);
        let read =
            Options::default().with(file::DRAIN_TIMEOUT, text).read(&place, |mut it| file::drain_timeout(&mut it));
        configuration.drain_timeout_s = kept(read, &mut problems).unwrap_or(configuration.drain_timeout_s);
    }
    if problems.is_empty() { Ok(configuration) } else { Err(problems) }
}

/// The value, or nothing and the problems.
fn kept<T>(read: Result<T, Vec<Problem>>, problems: &mut Vec<Problem>) -> Option<T> {
    match read {
        Ok(value) => Some(value),
        Err(found) => {
            problems.extend(found);
            None
        }
    }
}

/// The device without its exports.
fn device(flags: &Flags, problems: &mut Vec<Problem>) -> Device {
    let mut device = kept(settings(&flags.device), problems).unwrap_or_default();
    device.name = Sourced::new("default".to_owned(), &Place::default());
    if let Some(scheduler) = &flags.scheduler {
        device.scheduler = Sourced::new(scheduler.clone(), &Place::flag("--scheduler", scheduler));
    }
    if let Some(memory) = &flags.memory {
        match Size::parse(memory).filter(|size| MEMORY.contains(size)) {
            Some(size) => device.memory = size,
            None => {
                let what = format!("{memory:?} is not a size from {} to {}", MEMORY.start(), MEMORY.end());
                problems.push(Problem::new(&Place::flag("--memory", ""), what, "for example --memory 256MiB"));
            }
        }
    }
    if let Some(depth) = flags.queue_depth {
        if QUEUE_DEPTHS.contains(&depth) {
            device.queue_depth = depth;
        } else {
            let what = format!("{depth} is outside {} to {}", QUEUE_DEPTHS.start(), QUEUE_DEPTHS.end());
            problems.push(Problem::new(
                &Place::flag("--queue-depth", ""),
                what,
                "0 learns the depth that saturates the device",
            ));
        }
    }
    if let Some(word) = &flags.rotational {
        match ROTATIONAL.iter().find(|(known, _)| known == word) {
            Some((_, meaning)) => device.rotational = *meaning,
            None => {
                let what = format!("{word:?} is not one of {}", ROTATIONAL.map(|(word, _)| word).join(", "));
                problems.push(Problem::new(&Place::flag("--rotational", ""), what, "auto measures the device"));
            }
        }
    }
    device
}

/// The device without what has flags of its own.
fn settings(texts: &[String]) -> Result<Device, Vec<Problem>> {
    let options = Options::parse(texts.iter().flat_map(|text| text.split(',')));
    let place = Place::flag("--device", &texts.join(","));
    if let Some(key) = options.first_of(&OWN_FLAGS) {
        let what = format!("{key} is no option of --device");
        return Err(vec![Problem::new(
            &place,
            what,
            "the flags of the device are --scheduler, --memory, \
            --queue-depth, --rotational and --export; its name is default",
        )]);
    }
    options.with("name", "default").read(&place, file::device)
}

/// Parses one `--group`, and whether it gives the weight.
fn group(text: &str) -> Result<(Group, bool), Vec<Problem>> {
    let (path, options) = text.split_once(',').unwrap_or((text, ""));
    let options = Options::parse(options.split(',')).with("path", path);
    let has_weight = options.first_of(&["weight"]).is_some();
    Ok((options.read(&Place::flag("--group", text), file::group)?, has_weight))
}

/// Declares a group, which may have a weight of its exports: both must agree.
fn declare(
    groups: &mut Vec<Group>,
    by_exports: &mut Vec<Group>,
    mut group: Group,
    has_weight: bool,
) -> Result<(), Problem> {
    if let Some(at) = by_exports.iter().position(|other| other.path == group.path) {
        let weight = by_exports.remove(at).weight;
        if has_weight && weight != group.weight {
            return Err(other_weight(&group.path, weight));
        }
        group.weight = weight;
    }
    groups.push(group);
    Ok(())
}

fn other_weight(path: &Sourced<String>, weight: u64) -> Problem {
    let what = format!("the group {path} has the weight {weight} already");
    Problem::new(&path.place, what, "give it one weight, or each export a group of its own")
}

/// Parses one `--export`, with the weight that it gives to its group.
///
/// # Errors
/// All problems of the text.
pub fn export(text: &str) -> Result<(Export, Option<u64>), Vec<Problem>> {
    let place = Place::flag("--export", text);
    let Some((name, rest)) = text.split_once('=') else {
        let help = "for example --export a=/srv/a.img,weight=300";
        return Err(vec![Problem::new(&place, "an export is NAME=PATH", help)]);
    };
    let options = if ["base=", "overlay="].iter().any(|key| rest.starts_with(key)) {
        Options::parse(rest.split(',')).with("name", name)
    } else {
        let (backing, options) = split_backing(rest);
        Options::parse(options).with("name", name).with("backing", backing)
    };
    options.read(&place, |mut reader| {
        let weight = reader.optional_number("weight", WEIGHTS, DEFAULT_WEIGHT, "the default is 100");
        (file::export(reader), weight)
    })
}

/// Gives an export the socket of one `--vhost-user`.
fn vhost_user(text: &str, exports: &mut [Export]) -> Result<(), Vec<Problem>> {
    let place = Place::flag("--vhost-user", text);
    let wrong = |what: String, help: &str| Err(vec![Problem::new(&place, what, help)]);
    let (name, address) = match text.strip_prefix("unix:") {
        Some(path) => (None, Some(path)),
        None => match text.split_once("=unix:") {
            Some((name, path)) => (Some(name), Some(path)),
            None => (None, None),
        },
    };
    let Some(address) = address.filter(|path| !path.is_empty()) else {
        let help =
            "for example --vhost-user unix:/run/hoistway/db.vhost, or with the export's name in front db=unix:PATH";
        return wrong(format!("{text:?} is not [NAME=]unix:PATH"), help);
    };
    let known: Vec<String> = exports.iter().map(|export| export.name.value.clone()).collect();
    let export = match (name, exports) {
        (None, [only]) => only,
        (None, _) => {
            let what = format!("there are {} exports and the socket names none", known.len());
            return wrong(what, "write --vhost-user NAME=unix:PATH, one socket for each export");
        }
        (Some(name), exports) => match exports.iter_mut().find(|export| export.name.value == name) {
            Some(export) => export,
            None => {
                let what = format!("there is no export {name:?}");
                return wrong(what, &format!("exports: {}", known.join(", ")));
            }
        },
    };
    if export.vhost_user_blk.is_some() {
        let what = format!("the export {} has a socket already", export.name);
        return wrong(what, "one virtual machine attaches an export: make an export for each");
    }
    let (path, options) = address.split_once(',').unwrap_or((address, ""));
    let options = Options::parse(options.split(',')).with("unix", path);
    export.vhost_user_blk = Some(options.read(&place, file::vhost_user_blk)?);
    Ok(())
}

/// Gives the TCP listeners TLS, or the consent to do without.
fn secure(flags: &Flags, listeners: &mut [Listener]) -> Result<(), Problem> {
    let tcp = listeners.iter_mut().filter(|listener| matches!(listener.address.value, Address::Tcp(_)));
    let tcp: Vec<&mut Listener> = tcp.collect();
    let path = |flag: &str, path: &PathBuf| Sourced::new(path.clone(), &Place::flag(flag, &path.display().to_string()));
    let client_ca = flags.tls_client_ca.as_ref().map(|file| path("--tls-client-ca", file));
    let (certificate, key) = match (&flags.tls_certificate, &flags.tls_key) {
        (Some(certificate), Some(key)) => (path("--tls-certificate", certificate), path("--tls-key", key)),
        (None, None) if client_ca.is_none() => {
            tcp.into_iter().for_each(|listener| listener.allow_plain |= flags.allow_plain);
            return Ok(());
        }
        _ => {
            let what = "TLS needs a certificate and its key";
            let help = "give --tls-certificate FILE and --tls-key FILE together";
            return Err(Problem::new(&Place::flag("--tls-certificate", ""), what, help));
        }
    };
    if tcp.is_empty() {
        let help = "add --nbd tcp:ADDRESS:PORT; for a unix socket with TLS use a configuration file";
        return Err(Problem::new(&certificate.place, "there is no TCP listener that TLS would apply to", help));
    }
    for listener in tcp {
        listener.tls = Some(Tls { certificate: certificate.clone(), key: key.clone(), client_ca: client_ca.clone() });
    }
    Ok(())
}

/// Splits `BACKING[,OPTION...]`. Commas of a model belong to the backing:
/// `model:ssd,seed=7,/srv/a.img`.
fn split_backing(text: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut end = text.find(',').unwrap_or(text.len());
    if text.starts_with("model:") {
        // The backing extends to the first piece that is no setting of the model: its path.
        while let Some(rest) = text.get(end + 1..) {
            let piece = rest.split(',').next().unwrap_or(rest);
            end += 1 + piece.len();
            if !piece.contains('=') {
                break;
            }
        }
    }
    let (backing, options) = text.split_at(end);
    (backing, options.split(','))
}

/// Sets a group's weight; two exports of one group must agree.
///
/// # Errors
/// The group has another weight.
pub fn share(groups: &mut Vec<Group>, path: &Sourced<String>, weight: u64) -> Result<(), Problem> {
    match groups.iter().find(|group| group.path == *path) {
        Some(group) if group.weight != weight => Err(other_weight(path, group.weight)),
        Some(_) => Ok(()),
        None => {
            groups.push(Group::new(path.clone(), weight));
            Ok(())
        }
    }
}

fn listener(text: &str) -> Result<Listener, Vec<Problem>> {
    let read = at_address("--nbd", text, file::listener)?;
    // Without an address there would have been a problem.
    read.ok_or_else(|| vec![neither("--nbd", text)])
}

/// Reads a table with an address: `unix:PATH[,OPTION...]` or `tcp:ADDRESS:PORT[,OPTION...]`.
fn at_address<T>(flag: &str, text: &str, read: impl FnOnce(super::reader::Reader<'_>) -> T) -> Result<T, Vec<Problem>> {
    let (address, options) = text.split_once(',').unwrap_or((text, ""));
    let options = Options::parse(options.split(','));
    match address.split_once(':') {
        Some((kind @ ("unix" | "tcp"), place)) if !place.is_empty() && options.first_of(&ADDRESS_KEYS).is_none() => {
            options.with(kind, place).read(&Place::flag(flag, text), read)
        }
        _ => Err(vec![neither(flag, text)]),
    }
}

/// The address of an endpoint for metrics, of a program that is no server: `unix:PATH`, or `tcp:ADDRESS:PORT` on the
/// loopback interface, elsewhere with `,allow_plain=true`.
///
/// # Errors
/// All errors in the text.
pub fn metrics_address(text: &str) -> Result<Sourced<Address>, Vec<Problem>> {
    let metrics = at_address("--metrics", text, file::metrics)?;
    let metrics = metrics.ok_or_else(|| vec![neither("--metrics", text)])?;
    let mut problems = Vec::new();
    super::check::plain(&metrics.address, metrics.allow_plain, &mut problems);
    if problems.is_empty() { Ok(metrics.address) } else { Err(problems) }
}

fn neither(flag: &str, text: &str) -> Problem {
    let help =
        format!("for example {flag} unix:/run/hoistway.sock, {flag} tcp:127.0.0.1:10809 or {flag} tcp:[::1]:10809");
    Problem::new(&Place::flag(flag, text), format!("{text:?} is neither unix:PATH nor tcp:ADDRESS:PORT"), help)
}
