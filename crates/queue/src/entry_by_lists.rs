//! Submission by the rules of the kernels before blk-mq: a bio takes a request of its kind before or after it looks for
//! merge candidates, and a freed request wakes a sleeper.

use crate::RequestQueue;
use crate::entry::Entered;
use hoistway_block::{Direction, Nanos};
use hoistway_elevator::{Admission, Bio, Elevator};

impl<E: Elevator> RequestQueue<E> {
    /// Whether write-back and read-ahead should hold off because too many requests of a direction
    /// are allocated: from 113 of 128 on, until fewer than 103 are. Where sync and async are
    /// counted separately, reads stand for sync and writes for async. Always false where the era
    /// has no such flag (2.4, blk-mq).
    pub fn is_congested(&self, direction: Direction) -> bool {
        self.pool.is_congested(direction)
    }

    /// Runs before a bio looks for merge candidates: a new bio may plug the queue, and a woken one
    /// takes its request first and holds it during the search. An error names the queue on which it
    /// continues to sleep.
    #[cold]
    pub(crate) fn begin_by_lists(&mut self, bio: &Bio, is_new: bool, now: Nanos) -> Result<(), bool> {
        if is_new {
            self.plug_if_empty(now);
            return Ok(());
        }
        self.take_from_list(bio, true, now).map(|_| ())
    }

    /// The bio merged; the request that it held is freed.
    #[cold]
    pub(crate) fn merged_by_lists(&mut self, bio: &Bio, is_new: bool, now: Nanos) {
        self.pool.entered(bio);
        if !is_new {
            self.pool.give_back(self.pool.kind_of(bio));
        }
        self.unplug_by_threshold(bio, now);
    }

    /// The bio did not merge; it takes a request unless it holds one. Returns the request's kind.
    #[cold]
    pub(crate) fn take_by_lists(&mut self, bio: &Bio, is_new: bool, now: Nanos) -> Result<bool, bool> {
        if is_new { self.take_from_list(bio, false, now) } else { Ok(self.pool.kind_of(bio)) }
    }

    /// The bio has entered.
    #[cold]
    pub(crate) fn entered_by_lists(&mut self, bio: &Bio, now: Nanos) {
        self.pool.entered(bio);
        self.unplug_by_threshold(bio, now);
    }

    /// Takes a request and returns its kind, or returns the queue to sleep on.
    fn take_from_list(&mut self, bio: &Bio, is_woken: bool, now: Nanos) -> Result<bool, bool> {
        let is_must = self.elevator.admit(bio, now) == Admission::Must;
        // One slot per hardware queue is reserved for its flush command.
        let slots = self.requests.capacity().saturating_sub(self.device.queues()).max(1);
        if self.requests.in_use() >= slots {
            return Err(self.pool.sleeps_apart(bio));
        }
        self.pool.take_of_kind(bio, is_must, is_woken, now)
    }

    /// A bio merged, and two requests may have become one: the old kernels wake a sleeper for the
    /// freed one.
    #[inline]
    pub(crate) fn merging_freed_a_request(&mut self, now: Nanos) {
        if self.pool.is_wake_due() {
            self.admit_waiting(now);
        }
    }

    /// Wakes the sleepers due after this call; each one runs at once and takes its request before
    /// others move.
    #[cold]
    pub(crate) fn wake_sleepers(&mut self, now: Nanos) {
        // Each round removes a sleeper or ends a kind's wakes, so the number of bios bounds the
        // rounds.
        while let Some((kind, index)) = self.pool.next_sleeper(&mut self.bios) {
            let is_let_in = index.is_some_and(|index| self.wake(index, now));
            self.pool.woke(kind, is_let_in);
        }
    }

    fn wake(&mut self, index: u32, now: Nanos) -> bool {
        match self.admit_bio(index, now) {
            Entered::NoTag { limited } => {
                self.pool.put_back(&mut self.bios, index, limited);
                false
            }
            Entered::Merged(_) | Entered::Queued(_) => true,
        }
    }
}
