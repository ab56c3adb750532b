//! The short form of a configuration: a server of one device, from command-line flags alone.
//!
//! `--nbd unix:/run/hoistway.sock --export a=/dev/shm/a.img,weight=300 --export b=/dev/shm/b.img
//! --scheduler wfq`

use std::path::PathBuf;

use super::problem::{Place, Problem, Sourced, nearest};
use super::size::Size;
use super::{
    Address, Configuration, Control, Device, Export, Group, Listener, MEMORY, Metrics, QUEUE_DEPTHS, ROTATIONAL, Tls,
    UBLK_NUMBER_MAX, WEIGHTS,
};
use crate::ublk::Number;

/// The options that may follow the backing in `--export`.
const EXPORT_OPTIONS: [&str; 7] = ["weight", "group", "read_only", "min_block", "description", "unsafe_flush", "ublk"];

/// The flags as given. Together they make a configuration; none of them may be combined with a
/// file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `unix:PATH` or `tcp:ADDRESS:PORT`, once per `--nbd`.
    pub nbd: Vec<String>,
    /// `[NAME=]unix:PATH`, once per `--vhost-user`.
    pub vhost_user: Vec<String>,
    /// `NAME=BACKING[,OPTION...]`, once per `--export`.
    pub export: Vec<String>,
    /// `--scheduler`.
    pub scheduler: Option<String>,
    /// `--memory`.
    pub memory: Option<String>,
    /// `--queue-depth`.
    pub queue_depth: Option<u64>,
    /// `--rotational`, one of the words of [`ROTATIONAL`].
    pub rotational: Option<String>,
    /// `unix:PATH` or `tcp:ADDRESS:PORT`, by `--metrics`.
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
    let mut device = Device { name: Sourced::new("default".to_owned(), &Place::default()), ..Device::default() };
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
    let mut configuration = Configuration::empty();
    for text in &flags.export {
        match export(text) {
            Ok((export, weight)) => {
                if let Some(weight) = weight {
                    share(&mut configuration.groups, &export.group, weight, &mut problems);
                }
                device.exports.push(export);
            }
            Err(problem) => problems.push(problem),
        }
    }
    for text in &flags.vhost_user {
        if let Err(problem) = vhost_user(text, &mut device.exports) {
            problems.push(problem);
        }
    }
    for text in &flags.nbd {
        match listener(text) {
            Ok(listener) => configuration.listeners.push(listener),
            Err(problem) => problems.push(problem),
        }
    }
    problems.extend(secure(flags, &mut configuration.listeners).err());
    configuration.devices.push(device);
    match flags.metrics.as_deref().map(|text| address("--metrics", text)) {
        Some(Ok(address)) => configuration.metrics = Some(Metrics { address, allow_plain: flags.allow_plain }),
        Some(Err(problem)) => problems.push(problem),
        None => {}
    }
    configuration.control = flags.control.as_ref().map(|path| Control {
        unix: Sourced::new(path.clone(), &Place::flag("--control", &path.display().to_string())),
    });
    if problems.is_empty() { Ok(configuration) } else { Err(problems) }
}

/// Parses one `--export`, with the weight that it gives to its group.
fn export(text: &str) -> Result<(Export, Option<u64>), Problem> {
    let place = Place::flag("--export", text);
    let wrong = |what: String, help: &str| Problem::new(&place, what, help);
    let Some((name, rest)) = text.split_once('=') else {
        return Err(wrong("an export is NAME=PATH".to_owned(), "for example --export a=/srv/a.img,weight=300"));
    };
    let (backing, options) = split_backing(rest);
    let mut export = Export {
        name: Sourced::new(name.to_owned(), &place),
        backing: Sourced::new(backing.to_owned(), &place),
        group: Sourced::new(name.to_owned(), &place),
        read_only: false,
        min_block: 1,
        description: String::new(),
        unsafe_flush: false,
        ublk: None,
        vhost_user_blk: None,
    };
    let mut weight = None;
    for option in options {
        let (key, value) = option.split_once('=').unwrap_or((option, "true"));
        let refuse = |allowed: &str| Err(wrong(format!("{key}={value} is not {allowed}"), "see hoistway serve --help"));
        match key {
            "weight" => match value.parse().ok().filter(|weight| WEIGHTS.contains(weight)) {
                Some(number) => weight = Some(number),
                None => return refuse("a weight from 1 to 10000"),
            },
            "group" => export.group.value = value.to_owned(),
            "description" => export.description = value.to_owned(),
            "min_block" => match value {
                "1" => export.min_block = 1,
                "512" => export.min_block = 512,
                "4096" => export.min_block = 4_096,
                _ => return refuse("one of 1, 512, 4096"),
            },
            "ublk" => match (value.parse(), value.parse::<u32>()) {
                (Ok(switch), _) => export.ublk = if switch { Some(Number::Any) } else { None },
                (_, Ok(number)) if u64::from(number) <= UBLK_NUMBER_MAX => export.ublk = Some(Number::Is(number)),
                _ => return refuse("true, false or the number of a device"),
            },
            "read_only" | "unsafe_flush" => {
                let Ok(switch) = value.parse() else { return refuse("true or false") };
                if key == "read_only" {
                    export.read_only = switch;
                } else {
                    export.unsafe_flush = switch;
                }
            }
            _ => {
                let meant = nearest(key, &EXPORT_OPTIONS).map_or(String::new(), |it| format!("; did you mean {it}?"));
                let help = format!("options are {}; a path with a comma needs a file", EXPORT_OPTIONS.join(", "));
                return Err(wrong(format!("unknown option {key}{meant}"), &help));
            }
        }
    }
    Ok((export, weight))
}

/// Gives an export the socket of one `--vhost-user`.
fn vhost_user(text: &str, exports: &mut [Export]) -> Result<(), Problem> {
    let place = Place::flag("--vhost-user", text);
    let wrong = |what: String, help: &str| Problem::new(&place, what, help);
    let (name, address) = match text.strip_prefix("unix:") {
        Some(path) => (None, Some(path)),
        None => match text.split_once("=unix:") {
            Some((name, path)) => (Some(name), Some(path)),
            None => (None, None),
        },
    };
    let Some(path) = address.filter(|path| !path.is_empty()) else {
        let help =
            "for example --vhost-user unix:/run/hoistway/db.vhost, or with the export's name in front db=unix:PATH";
        return Err(wrong(format!("{text:?} is not [NAME=]unix:PATH"), help));
    };
    let known: Vec<String> = exports.iter().map(|export| export.name.value.clone()).collect();
    let export = match (name, exports) {
        (None, [only]) => only,
        (None, _) => {
            let what = format!("there are {} exports and the socket names none", known.len());
            return Err(wrong(what, "write --vhost-user NAME=unix:PATH, one socket for each export"));
        }
        (Some(name), exports) => match exports.iter_mut().find(|export| export.name.value == name) {
            Some(export) => export,
            None => {
                let what = format!("there is no export {name:?}");
                return Err(wrong(what, &format!("exports: {}", known.join(", "))));
            }
        },
    };
    if export.vhost_user_blk.is_some() {
        let what = format!("the export {} has a socket already", export.name);
        return Err(wrong(what, "one virtual machine attaches an export: make an export for each"));
    }
    let address = Address::Unix { path: PathBuf::from(path), mode: 0o660, owner_group: None };
    export.vhost_user_blk = Some(Sourced::new(address, &place));
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
            tcp.into_iter().for_each(|listener| listener.allow_plain = flags.allow_plain);
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
    (backing, options.split(',').filter(|option| !option.is_empty()))
}

/// Sets a group's weight; two exports of one group must agree.
fn share(groups: &mut Vec<Group>, path: &Sourced<String>, weight: u64, problems: &mut Vec<Problem>) {
    match groups.iter().find(|group| group.path == *path) {
        Some(group) if group.weight != weight => {
            let what = format!("the group {path} has the weight {} already", group.weight);
            problems.push(Problem::new(&path.place, what, "give it one weight, or each export a group of its own"));
        }
        Some(_) => {}
        None => groups.push(Group::new(path.clone(), weight)),
    }
}

fn listener(text: &str) -> Result<Listener, Problem> {
    address("--nbd", text).map(Listener::at)
}

fn address(flag: &str, text: &str) -> Result<Sourced<Address>, Problem> {
    let place = Place::flag(flag, text);
    let address = if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        Address::Unix { path: PathBuf::from(path), mode: 0o660, owner_group: None }
    } else if let Some(address) = text.strip_prefix("tcp:").and_then(|address| address.parse().ok()) {
        Address::Tcp(address)
    } else {
        let help =
            format!("for example {flag} unix:/run/hoistway.sock, {flag} tcp:127.0.0.1:10809 or {flag} tcp:[::1]:10809");
        return Err(Problem::new(&place, format!("{text:?} is neither unix:PATH nor tcp:ADDRESS:PORT"), help));
    };
    Ok(Sourced::new(address, &place))
}
