//! The block devices of a shard's exports.

use engine::{EngineError, ShardHandle};

use super::{Devices, Names, lock};
use crate::configuration::{Configuration, Export};
use crate::ublk::{Disk, Source};
use crate::vhost_user_blk::{DeviceFacts, Served};

impl Devices {
    /// What a virtual machine attaches when it opens an export.
    ///
    /// # Errors
    /// The export is not open, or there is no room for its group.
    pub fn served(&self, export: &Export, configuration: &Configuration) -> Result<Served, EngineError> {
        let name = &export.name.value;
        for shard in &self.shards {
            let mut names = lock(&shard.names);
            let Some(volume) = names.exports.get(name).copied() else { continue };
            let group = names.group(&shard.handle, &export.group.value, configuration)?;
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
        let group = self.group(shard, &export.group.value, configuration)?;
        let facts = shard.facts(volume)?;
        let name = &export.name.value;
        let source = Source { shard, export: name, volume, group, facts: &facts, min_block_bytes: export.min_block };
        self.disks.push(Disk::open(&source, number)?);
        Ok(())
    }

    /// Removes an export's block device, now or when it is no longer in use.
    pub(super) fn remove_disk(&mut self, export: &str) {
        let Some(at) = self.disks.iter().position(|disk| disk.export() == export) else { return };
        let disk = self.disks.remove(at);
        let users = disk.users();
        if !users.is_empty() {
            eprintln!(
                "hoistway: warning: export {export} is removed when nothing uses {} any more: {}",
                disk.node(),
                users.join(", ")
            );
        }
        self.removed_disks.push(disk);
        self.remove_unused_disks();
    }

    pub(super) fn remove_unused_disks(&mut self) {
        let (used, unused): (Vec<Disk>, Vec<Disk>) =
            std::mem::take(&mut self.removed_disks).into_iter().partition(|disk| !disk.users().is_empty());
        self.removed_disks = used;
        for disk in unused {
            if let Err(error) = disk.remove() {
                eprintln!("hoistway: warning: {}; {}", error.message, error.help);
            }
        }
    }

    /// Removes the devices that are not in use; returns a line about each that stays.
    pub(super) fn close_disks(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for disk in self.disks.drain(..).chain(self.removed_disks.drain(..)) {
            let users = disk.users();
            if !users.is_empty() {
                lines.push(format!(
                    "hoistway: note: {} ({}) stays, and its requests wait for the next server: {}",
                    disk.node(),
                    disk.export(),
                    users.join(", ")
                ));
                continue;
            }
            if let Err(error) = disk.remove() {
                lines.push(format!("hoistway: warning: {}; {}", error.message, error.help));
            }
        }
        lines
    }
}
