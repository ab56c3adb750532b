//! Lines that an operator writes to a group's `blkio` files: weights for all devices or for one,
//! and `reset_stats`.

use hoistway_experiment::blkio::Generation;
use hoistway_experiment::blkio::weights::{WeightFile, Weights};
use serde_json::{Value, json};

use super::{Devices, Shard};
use crate::control::Refusal;

/// The files handled here.
pub const FILES: [&str; 3] = ["blkio.weight_device", "blkio.leaf_weight_device", "blkio.reset_stats"];

impl Devices {
    /// Writes a line to one of [`FILES`]; devices are named as in the configuration. `weight` and
    /// `leaf_weight` are the group's weights on the other devices. A rule for one device lasts
    /// until the group is given another weight, for that device or for all.
    ///
    /// # Errors
    /// What is wrong with the line, or no such group; nothing has changed then.
    pub fn write_blkio(
        &self,
        group: &str,
        file: &str,
        line: &str,
        (weight, leaf_weight): (u64, Option<u64>),
    ) -> Result<Value, Refusal> {
        let having: Vec<&Shard> = self.shards.iter().filter(|shard| shard.group(group).is_some()).collect();
        if having.is_empty() {
            let known = self.groups().join(", ");
            return Err(Refusal::new("group", format!("there is no group {group:?}; there are: {known}")));
        }
        if file == "blkio.reset_stats" {
            return reset(&having, group, line);
        }
        let find = |word: &str| having.iter().position(|shard| shard.handle.name() == word);
        let is_leaf = file == WeightFile::LeafDevice.name();
        let file = if is_leaf { WeightFile::LeafDevice } else { WeightFile::Device(Generation::Tree) };
        let usual = if is_leaf { leaf_weight.unwrap_or(weight) } else { weight };
        let default = u32::try_from(usual).unwrap_or(u32::MAX);
        // A device whose rule is removed gets the group's weight again.
        let mut weights = Weights { default, devices: Vec::new() };
        file.write(line, &mut weights, find)
            .map_err(|wrong| Refusal::new("line", format!("{}; {}", wrong.message, wrong.help)))?;
        let named = line.split_whitespace().next().and_then(find);
        let Some((index, shard)) = named.and_then(|index| Some((index, having.get(index)?))) else {
            return Err(Refusal::new("line", "the line names no device"));
        };
        let weight = weights.on(&index);
        if let Some(group) = shard.group(group) {
            let handled = if is_leaf {
                // Without a rule for this device, the leaf weight is the group's own setting, which
                // may be none.
                let is_own = leaf_weight.is_some() || !weights.devices.is_empty();
                shard.handle.set_leaf_weight(group.handle(), is_own.then_some(weight))
            } else {
                shard.handle.set_weight(group.handle(), weight)
            };
            handled.map_err(|error| Refusal::new("line", error.message))?;
        }
        let name = if is_leaf { "leaf_weight" } else { "weight" };
        Ok(json!({"group": group, "device": shard.handle.name(), name: weight}))
    }
}

/// Parses the weight in a line of a file with one weight for all devices.
///
/// # Errors
/// What is wrong with the line.
pub fn weight_of(file: WeightFile, line: &str) -> Result<u32, Refusal> {
    let mut weights = Weights { default: 0, devices: Vec::<(usize, u32)>::new() };
    file.write(line, &mut weights, |_| None)
        .map_err(|wrong| Refusal::new("line", format!("{}; {}", wrong.message, wrong.help)))?;
    Ok(weights.default)
}

fn reset(having: &[&Shard], group: &str, line: &str) -> Result<Value, Refusal> {
    if line.trim().parse::<i64>().is_err() {
        return Err(Refusal::new("line", format!("'{line}' is no number (EINVAL); write any whole number")));
    }
    let mut devices = 0;
    for shard in having {
        let Some(group) = shard.group(group) else { continue };
        let was_kept =
            shard.handle.reset_account(group.handle()).map_err(|error| Refusal::new("group", error.message))?;
        devices += usize::from(was_kept);
    }
    Ok(json!({"group": group, "devices": devices}))
}
