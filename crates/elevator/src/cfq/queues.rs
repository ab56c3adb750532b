//! The records of queues: which are free, and which will be.

use super::contexts::SPARE_QUEUE;
use super::references::References;
use super::state::{FREE_QUEUE, Marks, Queue};
use crate::structures::{Array, NIL, NoMemory};

/// The table of queues.
///
/// Invariant: a record is in the chain of free ones, in that of deferred ones, or in use.
#[derive(Debug)]
pub struct Queues {
    records: Array<Queue>,
    first_free: u32,
    /// Queues whose last reference was dropped during this event while they were active, or NIL.
    deferred: u32,
}

impl Queues {
    #[inline(always)]
    pub fn try_new(count: u32) -> Result<Self, NoMemory> {
        let first_free = if count > 1 { SPARE_QUEUE + 1 } else { NIL };
        Ok(Self { records: free_queues(count)?, first_free, deferred: NIL })
    }

    #[inline]
    pub fn len(&self) -> u32 {
        self.records.len()
    }

    #[inline]
    pub fn at(&self, queue: u32) -> &Queue {
        self.records.at(queue)
    }

    #[inline]
    pub fn at_mut(&mut self, queue: u32) -> &mut Queue {
        self.records.at_mut(queue)
    }

    #[inline]
    pub fn get(&self, queue: u32) -> Option<&Queue> {
        self.records.get(queue)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.records.iter()
    }

    /// Takes a free record; `None` if all are in use.
    #[inline(always)]
    pub fn take(&mut self) -> Option<(u32, &mut Queue)> {
        let queue = self.first_free;
        let state = self.records.get_mut(queue)?;
        self.first_free = state.next_free;
        Some((queue, state))
    }

    /// Frees a record.
    #[inline(always)]
    pub fn give_back(&mut self, queue: u32) {
        let state = self.records.at_mut(queue);
        (state.marks, state.next_free) = (Marks::NONE, self.first_free);
        self.first_free = queue;
    }

    /// The record is freed later in this event.
    #[inline]
    pub fn defer(&mut self, queue: u32) {
        let earlier = core::mem::replace(&mut self.deferred, queue);
        self.records.at_mut(queue).next_free = earlier;
    }

    /// Takes the first of the deferred records, which are chained by `next_free`; or NIL.
    #[inline]
    pub fn take_deferred(&mut self) -> u32 {
        core::mem::replace(&mut self.deferred, NIL)
    }

    /// The first of the deferred records, or NIL.
    pub fn deferred(&self) -> u32 {
        self.deferred
    }
}

/// Links the free records; the spare queue is permanently in use.
#[inline(never)]
fn free_queues(count: u32) -> Result<Array<Queue>, NoMemory> {
    let mut queues = Array::try_new(count, FREE_QUEUE)?;
    for queue in SPARE_QUEUE + 1..count {
        queues.at_mut(queue).next_free = if queue + 1 < count { queue + 1 } else { NIL };
    }
    let spare = queues.at_mut(SPARE_QUEUE);
    spare.marks.set(Marks::USED);
    spare.references = References::ONE;
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_free_deferred_or_in_use() {
        let mut queues = Queues::try_new(3).unwrap();
        assert_eq!([(); 3].map(|()| queues.take().map(|(queue, _)| queue)), [Some(1), Some(2), None]);
        queues.defer(1);
        queues.defer(2);
        let first = queues.take_deferred();
        assert_eq!((first, queues.at(first).next_free, queues.deferred()), (2, 1, NIL));
        queues.give_back(1);
        assert_eq!(queues.take().map(|(queue, _)| queue), Some(1));
    }
}
