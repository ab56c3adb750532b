//! Which weights are in use: if more than one is, shares need idling.

use super::Bfq;
use super::wf2q::WEIGHT_MAX;
use crate::structures::{Array, NoMemory};

/// The weights of the groups in active sets.
#[derive(Debug)]
pub struct GroupWeights {
    /// For each weight, the number of groups that have it.
    pub counts: Array<u32>,
    /// Number of weights that some group has.
    pub kinds: u32,
}

impl GroupWeights {
    pub fn try_new() -> Result<Self, NoMemory> {
        Ok(Self { counts: Array::try_new(WEIGHT_MAX + 1, 0)?, kinds: 0 })
    }
}

impl Bfq {
    /// Includes the queue in the count of weights in use.
    pub(super) fn count_weight(&mut self, queue: u32) {
        let weight = self.entities.at(queue).weight.min(WEIGHT_MAX);
        let Some(state) = self.queues.get_mut(queue) else { return };
        if state.counted_weight != 0 || queue == super::contexts::SPARE_QUEUE {
            return;
        }
        state.counted_weight = weight;
        let count = self.weight_counts.at_mut(weight);
        *count = count.wrapping_add(1);
        if *count == 1 {
            self.weights_in_use.set(weight);
        }
    }

    pub(super) fn uncount_weight(&mut self, queue: u32) {
        let Some(state) = self.queues.get_mut(queue) else { return };
        let weight = core::mem::replace(&mut state.counted_weight, 0);
        if weight == 0 {
            return;
        }
        let count = self.weight_counts.at_mut(weight);
        *count = count.wrapping_sub(1);
        if *count == 0 {
            self.weights_in_use.clear(weight);
        }
    }

    /// Counts the weight of a group that enters or leaves an active set.
    pub(super) fn count_group_weight(&mut self, entity: u32, is_in: bool) {
        let weight = self.entities.at(entity).weight.min(WEIGHT_MAX);
        let count = self.group_weights.counts.at_mut(weight);
        let before = *count;
        *count = if is_in { before.wrapping_add(1) } else { before.saturating_sub(1) };
        match (before, *count) {
            (0, 1) => self.group_weights.kinds = self.group_weights.kinds.wrapping_add(1),
            (1, 0) => self.group_weights.kinds = self.group_weights.kinds.saturating_sub(1),
            _ => {}
        }
    }
}
