//! Lines that an operator writes into a group's `blkio` files: weights of all devices or of one, and `reset_stats`.

use experiment::blkio::Form;
use experiment::blkio::weights::{WeightFile, Weights};
use serde_json::{Value, json};

use super::{Devices, Shard, lock};
use crate::control::Refusal;

/// The files that are written here.
pub const FILES: [&str; 2] = ["blkio.weight_device", "blkio.reset_stats"];

impl Devices {
    /// Writes a line to one of [`FILES`]; devices are named as in the configuration. Rules for one device last until
    /// the group is given another weight, for it or for all.
    ///
    /// # Errors
    /// What is wrong with the line, or no such group; nothing has changed then.
    pub fn write_blkio(&self, group: &str, file: &str, line: &str, default: u64) -> Result<Value, Refusal> {
        let having: Vec<&Shard> =
            self.shards.iter().filter(|shard| lock(&shard.names).groups.contains_key(group)).collect();
        if having.is_empty() {
            let known = self.groups().join(", ");
            return Err(Refusal::new("group", format!("there is no group {group:?}; there are: {known}")));
        }
        if file == "blkio.reset_stats" {
            return reset(&having, group, line);
        }
        let find = |word: &str| having.iter().position(|shard| shard.handle.name() == word);
        let default = u32::try_from(default).unwrap_or(u32::MAX);
        // The device whose rule is taken away has the group's weight again.
        let mut weights = Weights { default, devices: Vec::new() };
        WeightFile::Device(Form::Tree)
            .write(line, &mut weights, find)
            .map_err(|wrong| Refusal::new("line", format!("{}; {}", wrong.message, wrong.help)))?;
        let named = line.split_whitespace().next().and_then(find);
        let Some((index, shard)) = named.and_then(|index| Some((index, having.get(index)?))) else {
            return Err(Refusal::new("line", "the line names no device"));
        };
        let weight = weights.on(&index);
        if let Some(handle) = lock(&shard.names).groups.get(group) {
            shard.handle.set_weight(*handle, weight).map_err(|error| Refusal::new("line", error.message))?;
        }
        Ok(json!({"group": group, "device": shard.handle.name(), "weight": weight}))
    }
}

/// The weight in a line for `blkio.weight`.
///
/// # Errors
/// What is wrong with it.
pub fn weight_of(line: &str) -> Result<u32, Refusal> {
    let mut weights = Weights { default: 0, devices: Vec::<(usize, u32)>::new() };
    WeightFile::All(Form::Tree)
        .write(line, &mut weights, |_| None)
        .map_err(|wrong| Refusal::new("line", format!("{}; {}", wrong.message, wrong.help)))?;
    Ok(weights.default)
}

fn reset(having: &[&Shard], group: &str, line: &str) -> Result<Value, Refusal> {
    if line.trim().parse::<i64>().is_err() {
        return Err(Refusal::new("line", format!("'{line}' is no number (EINVAL); write any whole number")));
    }
    let mut devices = 0;
    for shard in having {
        let Some(handle) = lock(&shard.names).groups.get(group).copied() else { continue };
        let was_kept = shard.handle.reset_account(handle).map_err(|error| Refusal::new("group", error.message))?;
        devices += usize::from(was_kept);
    }
    Ok(json!({"group": group, "devices": devices}))
}
