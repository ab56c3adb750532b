//! The records of queues: which are free, and which queue wakes which.

use super::contexts::SPARE_QUEUE;
use super::state::{FREE_QUEUE, Marks, Queue};
use crate::structures::{Array, Links, NIL, NoMemory};

/// A record's place in the table, apart from its number.
#[derive(Copy, Clone, Debug)]
pub struct Record {
    /// It differs from those of earlier queues with the same record.
    serial: u64,
    next_free: u32,
}

impl Record {
    pub const NEW: Self = Self { serial: 0, next_free: NIL };
}

/// The table of queues.
///
/// Invariants: a free record is in the chain that begins with `first_free`; a queue is on the list `woken` of its waker
/// and on no other.
#[derive(Debug)]
pub struct Queues {
    records: Array<Queue>,
    first_free: u32,
    woken: Links,
    /// The queue of the last completion, or NIL.
    last_completed: u32,
}

impl Queues {
    /// `max_budget` is that of the spare queue, in sectors.
    #[inline(always)]
    pub fn try_new(count: u32, max_budget: u32) -> Result<Self, NoMemory> {
        let first_free = if count > 1 { SPARE_QUEUE + 1 } else { NIL };
        let (records, woken) = (free_queues(count, max_budget)?, Links::try_new(count)?);
        Ok(Self { records, first_free, woken, last_completed: NIL })
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

    #[inline]
    pub fn get_mut(&mut self, queue: u32) -> Option<&mut Queue> {
        self.records.get_mut(queue)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.records.iter()
    }

    // ---- free records ----

    /// Takes a free record and clears it, but for its new serial number. `None` if all are in use.
    #[inline(always)]
    pub fn take(&mut self) -> Option<u32> {
        let queue = self.first_free;
        let state = self.records.get_mut(queue)?;
        self.first_free = state.record.next_free;
        let serial = state.record.serial.wrapping_add(1);
        *state = FREE_QUEUE;
        state.record.serial = serial;
        Some(queue)
    }

    /// Frees a record whose wakers are forgotten already ([`Self::forget_wakers`]).
    #[inline(always)]
    pub fn give_back(&mut self, queue: u32) {
        let state = self.records.at_mut(queue);
        (state.marks, state.record.next_free) = (Marks::NONE, self.first_free);
        self.first_free = queue;
    }

    /// The serial number of the queue with this record.
    #[inline(always)]
    pub fn serial(&self, queue: u32) -> u64 {
        self.records.at(queue).record.serial
    }

    // ---- wakers ----

    /// The queue of the last completion, or NIL.
    #[inline]
    pub fn last_completed(&self) -> u32 {
        self.last_completed
    }

    /// A request of a queue completed.
    #[inline(always)]
    pub fn completed(&mut self, queue: u32) {
        let is_shared = self.records.at(queue).has(Marks::COOP);
        self.last_completed = if is_shared { NIL } else { queue };
    }

    /// Makes `waker` the only waker of `queue`. False if a list was wrong.
    pub fn join_waker(&mut self, queue: u32, waker: u32) -> bool {
        let is_out = self.leave_waker(queue);
        let state = self.records.at_mut(queue);
        state.waking.replace_waker(waker);
        state.waking.forget_tentative();
        self.records.at_mut(waker).waking.woken_mut().push_front(&mut self.woken, queue) && is_out
    }

    #[inline(always)]
    fn leave_waker(&mut self, queue: u32) -> bool {
        let waker = self.records.at_mut(queue).waking.replace_waker(NIL);
        waker == NIL || self.records.at_mut(waker).waking.woken_mut().remove(&mut self.woken, queue)
    }

    /// The queue's record is about to be freed: it has no waker from now on, nor have the queues that it wakes. False
    /// if a list was wrong.
    #[inline(always)]
    pub fn forget_wakers(&mut self, queue: u32) -> bool {
        let is_out = self.leave_waker(queue);
        for _ in 0..self.records.len() {
            let Some(woken) = self.records.at_mut(queue).waking.woken_mut().pop_front(&mut self.woken) else { break };
            self.records.at_mut(woken).waking.replace_waker(NIL);
        }
        if self.last_completed == queue {
            self.last_completed = NIL;
        }
        is_out
    }

    /// Moves the queue to the front of the list of queues that its waker wakes, so that the queue
    /// that became busy last is first. False if the list was wrong.
    pub fn move_to_front_of_woken(&mut self, queue: u32) -> bool {
        let waker = self.records.at(queue).waking.waker();
        if waker == NIL {
            return true;
        }
        let woken = self.records.at_mut(waker).waking.woken_mut();
        woken.remove(&mut self.woken, queue) && woken.push_front(&mut self.woken, queue)
    }

    /// A merge target inherits the waker, if it has none. False if a list was wrong.
    pub fn inherit_waker(&mut self, queue: u32, target: u32) -> bool {
        let waker = self.records.at(queue).waking.waker();
        let is_heir = waker != NIL && waker != target && !self.records.at(target).waking.has_waker();
        !is_heir || self.join_waker(target, waker)
    }

    /// Whether a queue is on a waker's list.
    pub fn is_woken(&self, queue: u32) -> bool {
        self.woken.is_linked(queue)
    }

    /// The queues that a queue wakes.
    pub fn woken_by(&self, queue: u32) -> impl Iterator<Item = u32> {
        self.records.at(queue).waking.woken().iter(&self.woken)
    }
}

/// Links the free records; the spare queue is permanently in use.
#[inline(never)]
fn free_queues(count: u32, max_budget: u32) -> Result<Array<Queue>, NoMemory> {
    let mut records = Array::try_new(count, FREE_QUEUE)?;
    for queue in SPARE_QUEUE + 1..count {
        records.at_mut(queue).record.next_free = if queue + 1 < count { queue + 1 } else { NIL };
    }
    let spare = records.at_mut(SPARE_QUEUE);
    spare.marks = Marks::USED.with(Marks::PINNED);
    spare.max_budget = max_budget;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_once_and_gets_a_new_serial_number() {
        let mut queues = Queues::try_new(3, 100).unwrap();
        assert_eq!([(); 3].map(|()| queues.take()), [Some(1), Some(2), None]);
        queues.give_back(1);
        assert_eq!((queues.take(), queues.serial(1), queues.serial(2)), (Some(1), 2, 1));
    }

    #[test]
    fn a_freed_waker_leaves_no_trace() {
        let mut queues = Queues::try_new(5, 100).unwrap();
        assert!(queues.join_waker(1, 3) && queues.join_waker(2, 3) && queues.join_waker(1, 4));
        assert!(queues.inherit_waker(1, 2) && queues.move_to_front_of_woken(2));
        queues.completed(3);
        assert!(queues.woken_by(3).eq([2]) && queues.woken_by(4).eq([1]) && queues.last_completed() == 3);
        assert!(queues.forget_wakers(3));
        assert!(!queues.is_woken(2) && !queues.at(2).waking.has_waker() && queues.last_completed() == NIL);
    }
}
