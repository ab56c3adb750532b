//! What an operator asks of one export: its clients, its block device, its size.

use std::time::Instant;

use hoistway_engine::EngineError;

use super::{Devices, lock};
use crate::configuration::Export;

/// An export's local block device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskState {
    /// Its node.
    pub node: String,
    /// Its users in words.
    pub users: Vec<String>,
    /// Whether its export is removed, and it goes when nothing uses it any more.
    pub is_removed: bool,
}

/// An export's size before and after a look at its file or device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grown {
    /// Before, in bytes.
    pub before_bytes: u64,
    /// Now, in bytes.
    pub now_bytes: u64,
    /// What did not follow.
    pub notes: Vec<String>,
}

impl Devices {
    /// NBD clients that are connected to an export.
    pub fn connected(&self, export: &str) -> usize {
        let mut clients = lock(&self.clients);
        clients.sweep();
        clients.connected.values().filter(|client| client.export == export).count()
    }

    /// The local block device of an export, which may be removed already.
    pub fn disk_of(&self, export: &str) -> Option<DiskState> {
        self.shards.iter().find_map(|shard| {
            let names = lock(&shard.names);
            let present = names.disks.iter().map(|disk| (disk, false));
            let mut all = present.chain(names.removed_disks.iter().map(|disk| (disk, true)));
            let (disk, is_removed) = all.find(|(disk, _)| disk.export() == export)?;
            Some(DiskState { node: disk.node(), users: disk.users(), is_removed })
        })
    }

    /// Takes over the size of an export's file or device if it has grown, and tells its local block device.
    ///
    /// # Errors
    /// It has shrunk or cannot be looked at by `deadline`, or the export is not open.
    pub fn grow(&self, export: &Export, deadline: Instant) -> Result<Grown, EngineError> {
        let name = &export.name.value;
        for shard in &self.shards {
            let Some(volume) = lock(&shard.names).exports.get(name).copied() else { continue };
            // The names are not locked meanwhile: clients connect.
            let growth = shard.handle.grow_volume(volume, deadline)?;
            let mut notes = Vec::new();
            if growth.before_bytes != growth.now_bytes
                && let Some(disk) = lock(&shard.names).disks.iter_mut().find(|disk| disk.export() == name)
            {
                let facts = shard.handle.facts(volume)?;
                notes.extend(disk.grow(&facts, export.min_block).err().map(|error| error.message));
            }
            let unit_bytes = super::disks::unit_bytes(export);
            if !growth.now_bytes.is_multiple_of(u64::from(unit_bytes)) {
                notes.push(format!(
                    "its clients do not reach the last {} bytes, because they address it in units of {unit_bytes} bytes: \
                     truncate -s %{unit_bytes} FILE makes it a little longer",
                    growth.now_bytes % u64::from(unit_bytes)
                ));
            }
            return Ok(Grown { before_bytes: growth.before_bytes, now_bytes: growth.now_bytes, notes });
        }
        Err(EngineError::usage(format!("the export {name} is not open"), "see the status"))
    }
}
