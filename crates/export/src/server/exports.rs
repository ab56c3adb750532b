//! Exports while the server runs: added and removed by an operator, resized, and rid of their clients.

use std::time::Instant;

use hoistway_engine::{ANSWER_TIMEOUT, Backing, BackingKind};
use serde_json::{Value, json};

use super::devices::{EVICTION_TIMEOUT, not_over};
use super::handshake_thread::ClientSink;
use super::{Origin, Server};
use crate::configuration::problem::shown;
use crate::configuration::{Configuration, Problem, flags};
use crate::control::Refusal;

impl Server {
    /// Adds an export, given as for `--export`, by the way of a reload.
    ///
    /// # Errors
    /// What is wrong with it, or why it cannot be opened; nothing has changed then.
    pub(super) fn add_export(&mut self, device: Option<&str>, text: &str) -> Result<Value, Refusal> {
        if self.is_draining {
            return Err(Refusal::new("add", "the server is ending"));
        }
        let (export, weight) = flags::export(text).map_err(|problems| refused(&problems))?;
        let name = export.name.value.clone();
        let mut configuration = self.state.active().configuration.clone();
        if let Some(weight) = weight {
            flags::share(&mut configuration.groups, &export.group, weight).map_err(|problem| refused(&[problem]))?;
        }
        let known = names(configuration.devices.iter().map(|device| device.name.value.as_str()));
        let of_device = match (device, &mut configuration.devices[..]) {
            (Some(device), devices) => devices.iter_mut().find(|it| it.name.value == device),
            (None, [only]) => Some(only),
            (None, _) => return Err(Refusal::new("device", format!("name one of the devices: {known}"))),
        };
        let Some(of_device) = of_device else {
            let device = device.unwrap_or_default();
            return Err(Refusal::new("device", format!("there is no device {device:?}; there are: {known}")));
        };
        let device = of_device.name.value.clone();
        of_device.exports.push(export);
        let applied = self.apply(configuration).map_err(|problems| refused(&problems))?;
        let mut answer = json!({"export": name, "device": device, "lasts": self.lasts()});
        if let Some(node) = self.state.devices.disk_of(&name).map(|disk| disk.node) {
            answer["node"] = json!(node);
        }
        Ok(with_warnings(answer, &applied.warnings))
    }

    /// Removes an export, by the way of a reload: connected clients stay, new ones do not find it.
    ///
    /// # Errors
    /// There is none of this name, or something else names it; nothing has changed then.
    pub(super) fn remove_export(&mut self, name: &str) -> Result<Value, Refusal> {
        let mut configuration = self.state.active().configuration.clone();
        let Some(device) =
            configuration.devices.iter_mut().find(|device| device.exports.iter().any(|it| it.name.value == name))
        else {
            return Err(no_export(name, &configuration));
        };
        if device.exports.len() == 1 {
            let what = format!("{name} is the last export of the device {}, which cannot be without", device.name);
            return Err(Refusal::new("remove", format!("{what}; add another one first, or end the server")));
        }
        device.exports.retain(|export| export.name.value != name);
        let disk = self.state.devices.disk_of(name);
        let applied = self.apply(configuration).map_err(|problems| refused(&problems))?;
        let connected = self.state.devices.connected(name);
        let mut answer = json!({"export": name, "connected": connected, "lasts": self.lasts()});
        if let Some(disk) = disk.filter(|disk| !disk.users.is_empty()) {
            answer["in_use"] =
                json!(format!("{} goes when nothing uses it any more: {}", disk.node, disk.users.join(", ")));
        }
        Ok(with_warnings(answer, &applied.warnings))
    }

    /// How long a change of the exports lasts.
    fn lasts(&self) -> &'static str {
        match self.origin {
            Origin::File(_) => "until the next reload, which reads the file, or the end of the server",
            Origin::Flags => "until the end of the server",
        }
    }

    /// Closes the connections of an export: of NBD clients and of a virtual machine's front end. Nothing of
    /// them can reach the device any more when it returns.
    ///
    /// # Errors
    /// There is nothing to close, with the users of its local block device if it has one; or the device
    /// does not complete what it was given.
    pub(super) fn evict_export(&self, name: &str) -> Result<Value, Refusal> {
        let machine = self.virtual_disks.disconnect(name, EVICTION_TIMEOUT);
        let clients = self.state.devices.evict(&|_, export| export == name, "export")?;
        if machine == Some(false) {
            return Err(Refusal::new("export", not_over("its device")));
        }
        let closed = clients + usize::from(machine.is_some());
        let disk = self.state.devices.disk_of(name);
        let kept = disk.map(|disk| {
            let users = if disk.users.is_empty() { "nothing".to_owned() } else { disk.users.join(", ") };
            let remedy =
                if disk.is_removed { String::new() } else { format!(", then hoistway ctl export remove {name}") };
            format!(
                "{} is a local block device, and its users cannot be evicted (in use by {users}): unmount it{remedy}",
                disk.node
            )
        });
        match (closed, kept) {
            (0, Some(kept)) => Err(Refusal::new("export", kept)),
            (0, None) => Err(nothing_to_evict("export", name)),
            (closed, None) => Ok(json!({"closed": closed})),
            (closed, Some(kept)) => Ok(json!({"closed": closed, "kept": kept})),
        }
    }

    /// Closes the connections of a client, as [`Server::evict_export`] does.
    ///
    /// # Errors
    /// There is none, or its device does not complete what it was given.
    pub(super) fn evict_client(&self, client: &str) -> Result<Value, Refusal> {
        match self.state.devices.evict(&|peer, _| peer == client, "client")? {
            0 => Err(nothing_to_evict("client", client)),
            closed => Ok(json!({"closed": closed})),
        }
    }

    /// Looks at the size of an export's file or device again, and takes it over if it has grown.
    ///
    /// # Errors
    /// No such export, one whose size is not that of a file or device, or one that has shrunk.
    pub(super) fn resize(&self, name: &str) -> Result<Value, Refusal> {
        let active = self.state.active();
        let found = active.configuration.exports().find(|(_, export)| export.name.value == name);
        let Some((_, export)) = found else { return Err(no_export(name, &active.configuration)) };
        if let Some(why) = fixed_size(&export.backing.value) {
            return Err(Refusal::new("export", format!("the size of {name} cannot change: {why}")));
        }
        let grown = self.state.devices.grow(export, Instant::now() + ANSWER_TIMEOUT).map_err(|error| {
            let text = format!("{}; {}", error.message, error.help);
            Refusal::new("export", text)
        })?;
        let mut answer = json!({"export": name, "before_bytes": grown.before_bytes, "size_bytes": grown.now_bytes});
        if grown.before_bytes == grown.now_bytes {
            return Ok(answer);
        }
        let mut notes = grown.notes;
        notes.extend(self.tell_of_growth(name, grown.now_bytes));
        if !notes.is_empty() {
            answer["notes"] = json!(notes);
        }
        Ok(answer)
    }

    /// Tells new clients and a virtual machine of a larger export; returns notes about those that cannot be told.
    fn tell_of_growth(&self, name: &str, size_bytes: u64) -> Vec<String> {
        let active = self.state.active();
        self.state.set_active(active.configuration.clone(), active.draining);
        let connected = self.state.devices.connected(name);
        let clients = (connected > 0).then(|| {
            format!("{connected} connected NBD clients keep the size that they know until they connect again")
        });
        clients.into_iter().chain(self.virtual_disks.grow(name, size_bytes)).collect()
    }

    /// Takes over the sizes of all files and devices that have grown; returns the exports, and what went wrong.
    pub(super) fn grow_exports(&self) -> (Vec<String>, Vec<String>) {
        let (mut grown, mut warnings) = (Vec::new(), Vec::new());
        // One for all: files that do not answer must not add up.
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        for (_, export) in self.state.active().configuration.exports() {
            let name = &export.name.value;
            if fixed_size(&export.backing.value).is_some() {
                continue;
            }
            match self.state.devices.grow(export, deadline) {
                Ok(growth) if growth.before_bytes == growth.now_bytes => {}
                Ok(growth) => {
                    grown.push(name.clone());
                    warnings.extend(growth.notes);
                    warnings.extend(self.tell_of_growth(name, growth.now_bytes));
                }
                Err(error) => warnings.push(format!("{}; {}", error.message, error.help)),
            }
        }
        (grown, warnings)
    }
}

/// An answer with the warnings, if there are any.
pub(super) fn with_warnings(mut answer: Value, warnings: &[String]) -> Value {
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
    answer
}

/// Why a backing has always the same size, if it has.
fn fixed_size(backing: &str) -> Option<&'static str> {
    let backing = Backing::parse(backing).ok()?;
    match (backing.kind, backing.model) {
        (_, Some(_)) => Some("a device model has a fixed size"),
        (BackingKind::Path { slice: Some(_), .. }, _) => {
            Some("it is a slice: remove the export, and add it with another slice")
        }
        (BackingKind::Memory(_) | BackingKind::Null(_), _) => {
            Some("it is part of the backing's text: remove the export, and add it with another size")
        }
        (BackingKind::Path { .. } | BackingKind::Overlay { .. }, None) => None,
    }
}

fn no_export(name: &str, configuration: &Configuration) -> Refusal {
    let known = names(configuration.exports().map(|(_, export)| export.name.value.as_str()));
    Refusal::new("export", format!("there is no export {name:?}; there are: {known}"))
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn refused(problems: &[Problem]) -> Refusal {
    Refusal::new("export", shown(problems).join("\n"))
}

fn nothing_to_evict(field: &'static str, name: &str) -> Refusal {
    Refusal::new(field, format!("no connection belongs to the {field} {name:?}; status lists them"))
}
