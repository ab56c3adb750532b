//! Exports that a reload adds, removes or renames, and the groups that change with them.
//!
//! [`Devices::open_added`] is the only step that can fail, and undoes what it did. What the same reload
//! removes counts as free: a renamed export keeps its volume and its clients, and a file of a removed
//! export without clients can be opened by another one.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hoistway_engine::{EngineError, ErrorKind, VolumeId};
use tracing::warn;

use super::checks::identity_of;
use super::groups::remedy;
use super::{Devices, Names, Shard, disks, lock, placed};
use crate::configuration::{Configuration, Device, Export, Place, Problem};
use crate::control::Refusal;
use crate::server::reload::Change;

/// How long the device's other threads may take to close a file.
const CLOSING: Duration = Duration::from_secs(1);
/// How often to try again.
const POLL: Duration = Duration::from_millis(10);

/// The volumes of added exports: open, and not yet known to clients.
pub struct OpenedExports<'a>(Vec<OpenedExport<'a>>);

struct OpenedExport<'a> {
    shard: &'a Shard,
    export: &'a Export,
    volume: VolumeId,
    from: From,
}

/// Where a volume comes from.
enum From {
    /// It was opened.
    File,
    /// It is that of a removed export of the same name, which has clients.
    Removed(Box<Export>),
    /// It is that of an export that the same reload removes.
    Renamed(String),
}

/// An export that was closed for the sake of another one.
struct Closed<'a> {
    shard: &'a Shard,
    device: &'a Device,
    export: Export,
}

impl OpenedExports<'_> {
    fn renames(&self, shard: &Shard, name: &str) -> bool {
        let is_it = |it: &OpenedExport<'_>| matches!(&it.from, From::Renamed(before) if before == name);
        self.0.iter().any(|it| std::ptr::eq(it.shard, shard) && is_it(it))
    }
}

impl Devices {
    /// Opens the exports that a reload adds; all or none.
    ///
    /// # Errors
    /// There is no room for their groups, or the first that cannot be opened.
    pub fn open_added<'a>(
        &'a self,
        changes: &'a [Change],
        configuration: &'a Configuration,
    ) -> Result<OpenedExports<'a>, Vec<Problem>> {
        let problems: Vec<Problem> =
            configuration.devices.iter().filter_map(|device| self.lack_of_room(device)).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let removed: BTreeSet<(&str, &str)> = changes.iter().filter_map(Change::removed).collect();
        let mut opened = OpenedExports(Vec::new());
        let mut closed = Vec::new();
        for change in changes {
            let Change::Added { device: name, export } = change else { continue };
            let device = configuration.devices.iter().find(|device| device.name.value == *name);
            let (Some(device), Some(shard)) = (device, self.shard(name)) else { continue };
            match self.open_one(device, shard, export, &removed, &opened, &mut closed) {
                Ok((volume, from)) => opened.0.push(OpenedExport { shard, export, volume, from }),
                Err(problem) => {
                    self.undo(opened, closed);
                    return Err(vec![problem]);
                }
            }
        }
        Ok(opened)
    }

    fn open_one<'a>(
        &'a self,
        device: &'a Device,
        shard: &'a Shard,
        export: &Export,
        removed: &BTreeSet<(&str, &str)>,
        opened: &OpenedExports<'a>,
        closed: &mut Vec<Closed<'a>>,
    ) -> Result<(VolumeId, From), Problem> {
        shard.close_unused_volumes();
        if let Some((before, volume)) = lock(&shard.names).take_removed(export) {
            return Ok((volume, From::Removed(Box::new(before))));
        }
        let goes = |name: &str| removed.contains(&(shard.handle.name(), name)) && !opened.renames(shard, name);
        if let Some((before, volume)) = lock(&shard.names).same_volume(export, goes) {
            return Ok((volume, From::Renamed(before)));
        }
        let error = match self.open_volume(device, shard, export) {
            Ok(volume) => return Ok((volume, From::File)),
            Err(error) => error,
        };
        // A file system that does not answer would not answer the following either.
        if error.kind == ErrorKind::System {
            return Err(placed(&error, std::slice::from_ref(export), &export.name.place));
        }
        let freed = self.close_removed(device, export, removed, opened);
        if freed.is_empty() {
            return Err(self.explained(&error, export, removed));
        }
        closed.extend(freed);
        let again = self.open_volume_soon(device, shard, export);
        again.map(|volume| (volume, From::File)).map_err(|error| self.explained(&error, export, removed))
    }

    fn open_volume(&self, device: &Device, shard: &Shard, export: &Export) -> Result<VolumeId, EngineError> {
        self.volume(device, export).and_then(|volume| shard.handle.open_volume(&volume))
    }

    /// Opens a volume whose file is being closed by the device's threads.
    fn open_volume_soon(&self, device: &Device, shard: &Shard, export: &Export) -> Result<VolumeId, EngineError> {
        let start = Instant::now();
        loop {
            match self.open_volume(device, shard, export) {
                Err(error) if error.kind == ErrorKind::Unsafe && start.elapsed() < CLOSING => thread::sleep(POLL),
                answer => return answer,
            }
        }
    }

    /// Closes the exports that the reload removes, have no clients and lie on the same file.
    fn close_removed<'a>(
        &'a self,
        device: &'a Device,
        export: &Export,
        removed: &BTreeSet<(&str, &str)>,
        opened: &OpenedExports<'_>,
    ) -> Vec<Closed<'a>> {
        let root = self.root.as_deref();
        let Some(wanted) = identity_of(export, root) else { return Vec::new() };
        let mut closed = Vec::new();
        for shard in &self.shards {
            let mut names = lock(&shard.names);
            let goes = |before: &Export| {
                let name = before.name.value.as_str();
                removed.contains(&(shard.handle.name(), name))
                    && !opened.renames(shard, name)
                    && identity_of(before, root) == Some(wanted)
            };
            let going: Vec<Export> = names.opened.values().filter(|it| goes(it)).cloned().collect();
            for export in going {
                let Some(volume) = names.exports.get(&export.name.value).copied() else { continue };
                if shard.handle.close_volume(volume).unwrap_or(false) {
                    names.exports.remove(&export.name.value);
                    closed.push(Closed { shard, device, export });
                }
            }
        }
        closed
    }

    /// Closes what was opened, and opens again what was closed for it.
    fn undo(&self, opened: OpenedExports<'_>, closed: Vec<Closed<'_>>) {
        for OpenedExport { shard, volume, from, .. } in opened.0 {
            match from {
                From::File => _ = shard.handle.close_volume(volume),
                From::Removed(before) => lock(&shard.names).removed.push((*before, volume)),
                From::Renamed(_) => {}
            }
        }
        for Closed { shard, device, export } in closed {
            match self.open_volume_soon(device, shard, &export) {
                Ok(volume) => _ = lock(&shard.names).exports.insert(export.name.value, volume),
                Err(error) => {
                    let name = &export.name;
                    warn!(
                        name: "export_lost",
                        target: "device",
                        export = name.value,
                        "export {name} cannot be opened again: {}; {}", error.message, error.help
                    );
                }
            }
        }
    }

    /// An error at its place, and whose clients are in the way, if any are.
    fn explained(&self, error: &EngineError, export: &Export, removed: &BTreeSet<(&str, &str)>) -> Problem {
        let mut problem = placed(error, std::slice::from_ref(export), &export.name.place);
        let root = self.root.as_deref();
        let user = self.shards.iter().find_map(|shard| {
            lock(&shard.names).user_of(export, root, |name| removed.contains(&(shard.handle.name(), name)))
        });
        if let Some(before) = user {
            problem.help =
                format!("clients of the removed export {before} still use it: hoistway ctl evict --export {before}");
        }
        problem
    }

    /// Makes the added exports known. Returns warnings about what is missing.
    pub fn publish(&self, opened: OpenedExports<'_>, configuration: &Configuration) -> Vec<String> {
        let mut warnings = Vec::new();
        for OpenedExport { shard, export, volume, from } in opened.0 {
            let name = &export.name.value;
            if let From::Renamed(before) = from {
                let _ = shard.handle.rename_volume(volume, name);
                lock(&self.clients).rename(shard.handle.name(), &before, name);
            }
            let mut names = lock(&shard.names);
            names.exports.insert(name.clone(), volume);
            names.opened.insert(name.clone(), export.clone());
            // The other exports are in force already, so a device that cannot be made is no reason
            // to refuse the configuration.
            let group = names.charge(&shard.handle, export, configuration).map(drop);
            if let Err(error) = group.and_then(|()| names.open_disk(&shard.handle, export, configuration)) {
                let text = format!("{}; {}", error.message, error.help);
                warn!(name: "disk", target: "device", "{text}");
                warnings.push(text);
            }
        }
        warnings
    }

    /// Removes an export of a device; its clients stay connected.
    pub fn remove(&self, device: &str, export: &str, opened: &OpenedExports<'_>) {
        let Some(shard) = self.shard(device) else { return };
        let mut names = lock(&shard.names);
        let volume = names.exports.remove(export);
        let before = names.opened.remove(export);
        names.charged.remove(export);
        if let (Some(before), Some(volume), false) = (before, volume, opened.renames(shard, export)) {
            names.removed.push((before, volume));
        }
        names.remove_disk(export);
        let unused = names.take_unused_disks();
        // Removing waits for the shard, which must not wait for the names meanwhile.
        drop(names);
        disks::remove(unused);
        shard.close_unused_volumes();
    }

    /// Applies one checked change of a setting.
    ///
    /// # Errors
    /// The engine refuses it nevertheless.
    pub fn apply(&self, change: &Change) -> Result<(), Problem> {
        let refused = |refusal: Refusal| Problem::new(&Place::default(), refusal.error, "");
        match change {
            Change::Added { .. } | Change::Removed { .. } => Ok(()),
            Change::Weight { group, weight } => self.set_weight(group, *weight).map(drop),
            Change::LeafWeight { group, weight } => self.set_leaf_weight(group, *weight).map(drop),
            Change::Priority { group, priority } => self.set_group_priority(group, *priority).map(drop),
            Change::Limits { group, limits } => self.set_limits(group, limits).map(drop),
            Change::Scheduler { device, scheduler } => self.switch(Some(device), scheduler).map(drop),
        }
        .map_err(refused)
    }

    /// The problem of a device without room for the groups of its exports and clients, if it has none.
    fn lack_of_room(&self, device: &Device) -> Option<Problem> {
        let names = lock(&self.shard(&device.name.value)?.names);
        let needed = names.groups.lack(device, names.charged.values().map(|(path, _)| path.as_str()))?;
        let what = format!(
            "device {} would have {needed} groups, with those of connected clients; its memory of {} has room for {}",
            device.name,
            device.memory,
            super::groups::room_of(device)
        );
        Some(Problem::new(&device.name.place, what, format!("{} (restart the server for more memory)", remedy(needed))))
    }

    /// Charges the open exports to the groups of a configuration, and removes the groups that are not used any more.
    pub fn settle_groups(&self, configuration: &Configuration) {
        for device in &configuration.devices {
            let Some(shard) = self.shard(&device.name.value) else { continue };
            let mut names = lock(&shard.names);
            let Names { exports, .. } = &*names;
            let open: Vec<&Export> = device.exports.iter().filter(|it| exports.contains_key(&it.name.value)).collect();
            for export in open {
                if let Err(error) = names.charge(&shard.handle, export, configuration) {
                    warn!(name: "group", target: "device", "{}; {}", error.message, error.help);
                }
            }
        }
        self.remove_unused_groups(configuration);
    }

    /// Removes the groups that nothing uses and the configuration does not name.
    pub fn remove_unused_groups(&self, configuration: &Configuration) {
        for shard in &self.shards {
            lock(&shard.names).groups.remove_unnamed(&shard.handle, configuration);
        }
    }
}

impl Shard {
    /// Closes volumes of removed exports that have no clients left.
    pub(super) fn close_unused_volumes(&self) {
        let mut names = lock(&self.names);
        // One whose device does not answer is closed later.
        names.removed.retain(|(_, volume)| !self.handle.close_volume(*volume).unwrap_or(false));
    }
}

impl Names {
    /// The volume of a removed export with the same name, backing and settings, whose clients are still connected.
    fn take_removed(&mut self, export: &Export) -> Option<(Export, VolumeId)> {
        let is_same = |before: &Export| before.name == export.name && is_same_volume(before, export);
        let at = self.removed.iter().position(|(before, _)| is_same(before))?;
        Some(self.removed.remove(at))
    }

    /// The name and volume of an export that goes, with the same backing and settings.
    fn same_volume(&self, export: &Export, goes: impl Fn(&str) -> bool) -> Option<(String, VolumeId)> {
        let mut going = self.opened.values().filter(|before| goes(&before.name.value));
        let before = going.find(|before| is_same_volume(before, export))?;
        Some((before.name.value.clone(), *self.exports.get(&before.name.value)?))
    }

    /// The export, removed before or by this reload, whose clients use an export's backing.
    fn user_of(&self, export: &Export, root: Option<&Path>, goes: impl Fn(&str) -> bool) -> Option<String> {
        let going = self.opened.values().filter(|before| goes(&before.name.value));
        let mut all = self.removed.iter().map(|(before, _)| before).chain(going);
        let wanted = identity_of(export, root);
        let is_it = |before: &Export| {
            before.backing == export.backing || (wanted.is_some() && identity_of(before, root) == wanted)
        };
        all.find(|before| is_it(before)).map(|before| before.name.value.clone())
    }
}

fn is_same_volume(before: &Export, export: &Export) -> bool {
    before.backing == export.backing
        && before.read_only == export.read_only
        && before.unsafe_flush == export.unsafe_flush
}
