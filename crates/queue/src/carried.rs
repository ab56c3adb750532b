//! Requests that are carried from one policy to the next, in their order of insertion.

use crate::slot::Slot;
use hoistway_block::RequestId;
use hoistway_elevator::structures::{Array, Links, List};

/// Sorted runs that exist at a time: one for each bit of a slot's number, which suffices for any
/// number of slots.
const RUNS: usize = RequestId::SLOT_BITS as usize;

/// The carried requests, and the numbers that say which of two requests was inserted first.
///
/// Invariant: the number of every inserted request is at most `newest`. The list uses the links that the caller passes.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    list: List,
    newest: u64,
    violations: u32,
}

impl Carried {
    /// Numbers a request in the order of insertion.
    #[inline(always)]
    pub(crate) fn number(&mut self, slot: &mut Slot) {
        self.newest += 1;
        slot.set_sequence(self.newest);
    }

    /// Keeps a request until the new policy is in place.
    pub(crate) fn push(&mut self, links: &mut Links, slot: u32) {
        self.violations += u32::from(!self.list.push_back(links, slot));
    }

    pub(crate) fn pop(&mut self, links: &mut Links) -> Option<u32> {
        self.list.pop_front(links)
    }

    /// Takes one out. False if it is not carried.
    pub(crate) fn remove(&mut self, links: &mut Links, slot: u32) -> bool {
        self.list.remove(links, slot)
    }

    pub(crate) fn violations(&self) -> u32 {
        self.violations
    }

    /// Sorts the carried requests by their order of insertion: a bottom-up merge sort in place.
    /// Sorted runs have 1, 2, 4 ... requests, and two runs of the same length are merged at once,
    /// like the carries of a binary counter.
    pub(crate) fn sort(&mut self, links: &mut Links, slots: &Array<Slot>) {
        let mut runs = [const { List::EMPTY }; RUNS];
        while let Some(slot) = self.list.pop_front(links) {
            let mut run = List::EMPTY;
            run.push_back(links, slot);
            for kept in &mut runs {
                if kept.is_empty() {
                    *kept = core::mem::take(&mut run);
                    break;
                }
                run = self.merge_runs(core::mem::take(kept), run, links, slots);
            }
        }
        for run in runs {
            let sorted = core::mem::take(&mut self.list);
            self.list = self.merge_runs(run, sorted, links, slots);
        }
    }

    fn merge_runs(&self, mut first: List, mut second: List, links: &mut Links, slots: &Array<Slot>) -> List {
        let mut merged = List::EMPTY;
        while let (Some(one), Some(other)) = (first.first(), second.first()) {
            let [age, other_age] = [one, other].map(|slot| slots.at(slot).age(self.newest));
            let older = if other_age > age { &mut second } else { &mut first };
            if let Some(slot) = older.pop_front(links) {
                merged.push_back(links, slot);
            }
        }
        for rest in [&mut first, &mut second] {
            while let Some(slot) = rest.pop_front(links) {
                merged.push_back(links, slot);
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_out_in_the_order_of_their_insertion() {
        let (mut links, mut slots) = (Links::try_new(50).unwrap(), Array::try_new(50, Slot::EMPTY).unwrap());
        let mut carried = Carried::default();
        // 7 and 50 have no common divisor, so each slot comes once.
        let inserted: [u32; 50] = core::array::from_fn(|at| u32::try_from(at * 7 % 50).unwrap());
        for slot in inserted {
            carried.number(slots.at_mut(slot));
        }
        for slot in 0..50 {
            carried.push(&mut links, slot);
        }
        assert!(carried.remove(&mut links, inserted[20]) && !carried.remove(&mut links, inserted[20]));
        carried.sort(&mut links, &slots);
        for slot in inserted.iter().filter(|slot| **slot != inserted[20]) {
            assert_eq!(carried.pop(&mut links), Some(*slot));
        }
        assert_eq!((carried.pop(&mut links), carried.violations()), (None, 0));
    }
}
