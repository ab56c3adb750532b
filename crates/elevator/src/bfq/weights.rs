//! Which weights are in use, and how many groups have requests: if either differs, shares need idling.

use super::Bfq;
use super::wf2q::WEIGHT_MAX;
use crate::structures::{Array, Bitmap, NoMemory};

/// The counts that tell whether the scenario is symmetric.
///
/// Invariants: `in_use` holds the weights that some queue is counted under; `group_kinds` is the number of weights that
/// some group has. A queue is counted under at most one weight, which its record remembers.
#[derive(Debug)]
pub struct Weights {
    /// For each weight, the number of queues that have this weight and requests, and are not
    /// raised.
    counts: Array<u32>,
    in_use: Bitmap,
    /// For each weight, the number of groups in active sets that have it.
    group_counts: Array<u32>,
    group_kinds: u32,
    /// Groups with requests, queued or in flight.
    pending_groups: u32,
}

impl Weights {
    #[inline(always)]
    pub fn try_new() -> Result<Self, NoMemory> {
        let counts = WEIGHT_MAX + 1;
        Ok(Self {
            counts: Array::try_new(counts, 0)?,
            in_use: Bitmap::try_new(counts)?,
            group_counts: Array::try_new(counts, 0)?,
            group_kinds: 0,
            pending_groups: 0,
        })
    }

    /// Includes a queue of this weight.
    #[inline]
    fn count(&mut self, weight: u32) {
        let count = self.counts.at_mut(weight);
        *count = count.wrapping_add(1);
        if *count == 1 {
            self.in_use.set(weight);
        }
    }

    /// Excludes a queue that was included under this weight.
    #[inline]
    fn uncount(&mut self, weight: u32) {
        let count = self.counts.at_mut(weight);
        *count = count.wrapping_sub(1);
        if *count == 0 {
            self.in_use.clear(weight);
        }
    }

    /// Counts the weight of a group that enters or leaves an active set.
    #[inline]
    fn count_group(&mut self, weight: u32, is_in: bool) {
        let count = self.group_counts.at_mut(weight);
        let before = *count;
        *count = if is_in { before.wrapping_add(1) } else { before.saturating_sub(1) };
        match (before, *count) {
            (0, 1) => self.group_kinds = self.group_kinds.wrapping_add(1),
            (1, 0) => self.group_kinds = self.group_kinds.saturating_sub(1),
            _ => {}
        }
    }

    /// A group begins or ceases to have requests.
    #[inline]
    pub fn count_pending_group(&mut self, is_more: bool) {
        let before = self.pending_groups;
        self.pending_groups = if is_more { before.wrapping_add(1) } else { before.saturating_sub(1) };
    }

    /// Groups with requests.
    #[inline]
    pub fn pending_groups(&self) -> u32 {
        self.pending_groups
    }

    /// Whether two queues differ.
    #[inline]
    pub fn differ(&self) -> bool {
        self.in_use.count() >= 2
    }

    /// Whether two groups in active sets differ.
    #[inline]
    pub fn of_groups_differ(&self) -> bool {
        self.group_kinds >= 2
    }

    /// The lowest weight of a counted queue.
    #[inline]
    pub fn lowest(&self) -> Option<u32> {
        self.in_use.first_set()
    }

    /// Whether exactly the weights of these queues and groups are counted; both are sorted.
    pub fn count_exactly(&self, queues: &[u32], groups: &[u32]) -> Result<(), (&'static str, u32)> {
        let kinds = runs_agree(queues, |weight, many| *self.counts.at(weight) == many && self.in_use.test(weight))
            .map_err(|weight| ("weights are counted", weight))?;
        // There are many more weights than queues: those that no queue has are checked together.
        if self.in_use.members() != kinds {
            return Err(("no other weight is in use", kinds));
        }
        let in_all = self.counts.iter().fold(0_u32, |sum, count| sum.saturating_add(*count));
        if usize::try_from(in_all) != Ok(queues.len()) {
            return Err(("no other weight is counted", in_all));
        }
        let kinds = runs_agree(groups, |weight, many| *self.group_counts.at(weight) == many)
            .map_err(|weight| ("weights of groups are counted", weight))?;
        if self.group_kinds == kinds { Ok(()) } else { Err(("weights of groups are known", kinds)) }
    }
}

/// The number of different weights, if `agrees` with each and its number; else the first that does not.
fn runs_agree(sorted: &[u32], agrees: impl Fn(u32, u32) -> bool) -> Result<u32, u32> {
    let mut kinds = 0;
    for same in sorted.chunk_by(|one, other| one == other) {
        let weight = same.first().copied().unwrap_or(0);
        if !agrees(weight, u32::try_from(same.len()).unwrap_or(u32::MAX)) {
            return Err(weight);
        }
        kinds += 1;
    }
    Ok(kinds)
}

impl Bfq {
    /// Includes the queue in the count of weights in use.
    pub(super) fn count_weight(&mut self, queue: u32) {
        let weight = self.schedule.entity(queue).weight.min(WEIGHT_MAX);
        let Some(state) = self.queues.get_mut(queue) else { return };
        if state.counted_weight != 0 || queue == super::contexts::SPARE_QUEUE {
            return;
        }
        state.counted_weight = weight;
        self.weights.count(weight);
    }

    pub(super) fn uncount_weight(&mut self, queue: u32) {
        let Some(state) = self.queues.get_mut(queue) else { return };
        let weight = core::mem::replace(&mut state.counted_weight, 0);
        if weight != 0 {
            self.weights.uncount(weight);
        }
    }

    /// Counts the weight of a group that enters or leaves an active set.
    pub(super) fn count_group_weight(&mut self, entity: u32, is_in: bool) {
        self.weights.count_group(self.schedule.entity(entity).weight.min(WEIGHT_MAX), is_in);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_differ_while_two_kinds_are_counted() {
        let mut weights = Weights::try_new().unwrap();
        for weight in [40, 40, 80] {
            weights.count(weight);
        }
        weights.count_group(100, true);
        assert_eq!((weights.differ(), weights.of_groups_differ(), weights.lowest()), (true, false, Some(40)));
        assert_eq!(weights.count_exactly(&[40, 40, 80], &[100]), Ok(()));
        assert!(weights.count_exactly(&[40, 80, 80], &[100]).is_err());
        weights.uncount(40);
        weights.uncount(40);
        weights.count_group(200, true);
        assert_eq!((weights.differ(), weights.of_groups_differ(), weights.lowest()), (false, true, Some(80)));
        weights.count_group(100, false);
        assert_eq!(weights.count_exactly(&[80], &[200]), Ok(()));
    }
}
