//! Changes of a group's share by an operator while the server runs.

use hoistway_experiment::blkio::Generation;
use hoistway_experiment::blkio::weights::WeightFile;
use serde_json::{Value, json};

use super::handshake_thread::ClientSink;
use super::{Server, devices};
use crate::configuration::{DEFAULT_WEIGHT, Group, Place, Sourced};
use crate::control::{Refusal, Share};

impl Server {
    /// Sets a group's weight, leaf weight or priority level on every device that has the group, and
    /// in the configuration in force.
    pub(super) fn set_share(&self, path: &str, share: Share) -> Result<Value, Refusal> {
        let mut configuration = self.state.active().configuration.clone();
        let declared = configuration.groups.iter().position(|group| group.path.value == path);
        let there = &self.state.devices;
        let devices = match share {
            Share::Weight(weight) => there.set_weight(path, weight)?,
            Share::LeafWeight(weight) => there.set_leaf_weight(path, weight)?,
            Share::Priority(level) => there.set_group_priority(path, level)?,
        };
        if devices == 0 && declared.is_none() {
            let known = there.groups().join(", ");
            return Err(Refusal::new("group", format!("there is no group {path:?}; there are: {known}")));
        }
        let index = declared.unwrap_or_else(|| {
            let path = Sourced::new(path.to_owned(), &Place::flag("ctl set", ""));
            configuration.groups.push(Group::new(path, DEFAULT_WEIGHT));
            configuration.groups.len() - 1
        });
        let group = &mut configuration.groups[index];
        let (name, value) = match share {
            Share::Weight(weight) => {
                group.weight = weight;
                ("weight", json!(weight))
            }
            Share::LeafWeight(weight) => {
                group.leaf_weight = weight;
                ("leaf_weight", json!(weight))
            }
            Share::Priority(level) => {
                group.priority = level;
                ("priority", json!(level.map(hoistway_experiment::GroupPriority::get)))
            }
        };
        self.state.set_active(configuration, self.is_draining);
        Ok(json!({"group": path, name: value, "devices": devices}))
    }

    /// Writes a line to one of the `blkio.*` files that a group has under CFQ.
    pub(super) fn write_blkio(&self, path: &str, file: &str, line: &str) -> Result<Value, Refusal> {
        let whole = [WeightFile::All(Generation::Tree), WeightFile::Leaf];
        if let Some(known) = whole.into_iter().find(|known| known.name() == file) {
            let weight = u64::from(devices::blkio::weight_of(known, line)?);
            let is_leaf = known == WeightFile::Leaf;
            return self.set_share(path, if is_leaf { Share::LeafWeight(Some(weight)) } else { Share::Weight(weight) });
        }
        if !devices::blkio::FILES.contains(&file) {
            let names = whole.map(WeightFile::name).into_iter().chain(devices::blkio::FILES);
            let there_are = format!("there are {}", names.collect::<Vec<_>>().join(", "));
            return Err(Refusal::new("file", format!("there is no file '{file}' to write; {there_are}")));
        }
        let active = self.state.active();
        let configuration = &active.configuration;
        let leaf_weight = configuration.leaf_weight(path);
        self.state.devices.write_blkio(path, file, line, (configuration.weight(path), leaf_weight))
    }
}
