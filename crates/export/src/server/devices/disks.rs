//! The block devices of a shard's exports.

use std::collections::BTreeMap;
use std::time::Duration;

use hoistway_engine::{EngineError, ShardHandle};
use tracing::{info, warn};

use super::report::{BlockDeviceReport, UblkReport};
use super::{Devices, MAX_LOCAL_DISKS, Names, Shard, lock};
use crate::configuration::{Configuration, Export};
use crate::ublk::{Disk, Source};
use crate::vhost_user_blk::{DeviceFacts, Served};

/// The sector of local block devices and virtual machines.
const SECTOR_BYTES: u32 = 512;

/// The unit in which the clients of an export address it: local block devices and virtual machines have
/// sectors.
pub(super) fn unit_bytes(export: &Export) -> u32 {
    let is_disk = export.ublk.is_some() || export.vhost_user_blk.is_some();
    export.min_block.max(if is_disk { SECTOR_BYTES } else { 1 })
}

/// How long the removal of a block device may take: its shard has 10 s to return the requests.
const REMOVAL: Duration = Duration::from_secs(15);

impl Devices {
    /// Removes the block devices of removed exports that are no longer in use, and closes the volumes of removed exports
    /// whose last client has left.
    pub fn remove_unused(&self) {
        for shard in &self.shards {
            let unused = lock(&shard.names).take_unused_disks();
            remove(unused);
            shard.close_unused_volumes();
        }
    }

    /// Removes the block devices that are not in use, and leaves the others to the next server.
    /// Called before [`Devices::drain`], because removing a device finishes its requests.
    pub fn close_disks(&self) {
        for shard in &self.shards {
            // Removing waits for the shard, which must not wait for the names meanwhile.
            let disks = lock(&shard.names).take_disks();
            close(disks);
        }
    }

    /// A line about each block device.
    pub fn disk_lines(&self) -> Vec<String> {
        let lines = |shard: &Shard| -> Vec<String> {
            lock(&shard.names).disks.iter().map(|disk| format!("{}: {}", disk.node(), disk.export())).collect()
        };
        self.shards.iter().flat_map(lines).collect()
    }

    /// What a virtual machine attaches when it opens an export.
    ///
    /// # Errors
    /// The export is not open, or there is no room for its group.
    pub fn served(&self, export: &Export, configuration: &Configuration) -> Result<Served, EngineError> {
        let name = &export.name.value;
        for shard in &self.shards {
            let mut names = lock(&shard.names);
            let Some(volume) = names.exports.get(name).copied() else { continue };
            let group = names.charge(&shard.handle, export, configuration)?;
            let facts = DeviceFacts::new(&shard.handle.facts(volume)?, name, export.min_block);
            return Ok(Served { name: name.clone(), shard: shard.handle.clone(), volume, group, facts });
        }
        Err(EngineError::usage(format!("the export {name} is not open"), "see the status"))
    }
}

impl Names {
    /// Makes an export's block device, if it is to have one. Its volume must be open.
    pub(super) fn open_disk(
        &mut self,
        shard: &ShardHandle,
        export: &Export,
        configuration: &Configuration,
    ) -> Result<(), EngineError> {
        let Some(number) = export.ublk else { return Ok(()) };
        let Some(volume) = self.exports.get(&export.name.value).copied() else { return Ok(()) };
        let name = &export.name.value;
        if self.disks.len() + self.removed_disks.len() >= MAX_LOCAL_DISKS as usize {
            let what = format!("export '{name}': a device has at most {MAX_LOCAL_DISKS} local block devices");
            return Err(EngineError::usage(what, "serve the others by NBD or vhost-user-blk"));
        }
        let group = &self.charge(shard, export, configuration)?;
        let facts = shard.facts(volume)?;
        let source = Source { shard, export: name, volume, group, facts: &facts, min_block_bytes: export.min_block };
        self.disks.push(Disk::open(&source, number)?);
        Ok(())
    }

    /// The block devices, by export; those of removed exports that are in use as well.
    pub(super) fn block_devices(&self) -> BTreeMap<String, BlockDeviceReport> {
        let all = self.removed_disks.iter().chain(&self.disks);
        let report = |disk: &Disk| BlockDeviceReport {
            node: disk.node(),
            ublk: UblkReport {
                queues: disk.queues(),
                features: disk.features().into_iter().map(str::to_owned).collect(),
            },
        };
        all.map(|disk| (disk.export().to_owned(), report(disk))).collect()
    }

    /// Removes an export's block device, now or when it is no longer in use.
    pub(super) fn remove_disk(&mut self, export: &str) {
        let Some(at) = self.disks.iter().position(|disk| disk.export() == export) else { return };
        let disk = self.disks.remove(at);
        let users = disk.users();
        if !users.is_empty() {
            let (node, users) = (disk.node(), users.join(", "));
            warn!(
                name: "disk",
                target: "device",
                export,
                node,
                users,
                "export {export} is removed when nothing uses {node} any more: {users}"
            );
        }
        self.removed_disks.push(disk);
    }

    /// Takes the devices of removed exports that are no longer in use.
    pub(super) fn take_unused_disks(&mut self) -> Vec<Disk> {
        let (used, unused): (Vec<Disk>, Vec<Disk>) =
            std::mem::take(&mut self.removed_disks).into_iter().partition(|disk| !disk.users().is_empty());
        self.removed_disks = used;
        unused
    }

    /// Takes all devices.
    pub(super) fn take_disks(&mut self) -> Vec<Disk> {
        self.disks.drain(..).chain(self.removed_disks.drain(..)).collect()
    }
}

/// Removes devices.
pub(super) fn remove(disks: Vec<Disk>) {
    for disk in disks {
        let (node, export) = (disk.node(), disk.export().to_owned());
        // The kernel waits for its requests, and so for a backing that hangs.
        match hoistway_linux::patience::within(REMOVAL, move || disk.remove()) {
            Some(Ok(())) => {}
            Some(Err(error)) => warn!(name: "disk", target: "device", "{}; {}", error.message, error.help),
            None => warn!(name: "disk", target: "device", export, node, "{node} ({export}) was not removed in time"),
        }
    }
}

/// Removes the devices that are not in use, and leaves the others to the next server.
pub(super) fn close(disks: Vec<Disk>) {
    for disk in disks {
        let users = disk.users();
        if users.is_empty() {
            remove(vec![disk]);
            continue;
        }
        let (node, export, users) = (disk.node(), disk.export(), users.join(", "));
        if disk.outlives_server() {
            let fate = "stays, and its requests wait for the next server";
            info!(name: "disk", target: "device", export, node, users, "{node} ({export}) {fate}: {users}");
        } else {
            let fate = "ends with the server, and its users get I/O errors";
            warn!(name: "disk", target: "device", export, node, users, "{node} ({export}) {fate}: {users}");
        }
    }
}
