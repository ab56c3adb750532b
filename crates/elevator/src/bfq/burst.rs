//! Bursts: many queues created shortly after one another are taken for the start of a service, and
//! are not treated as interactive.

use super::Bfq;
use super::clock::Clock;
use super::state::Marks;
use crate::structures::{Links, List, NIL, NoMemory};

/// From this many queues on, a burst is large.
const LARGE: u32 = 8;

/// The current burst.
///
/// Invariants: the list is empty while the burst is large; otherwise it holds queues that have joined and are not freed.
#[derive(Debug)]
pub struct Burst {
    list: List,
    links: Links,
    /// Number of queues that have joined it; from [`LARGE`] on none joins or leaves.
    queues: u32,
    /// The group of its queues.
    group: u32,
    last_ticks: u64,
    violations: u32,
}

impl Burst {
    #[inline(always)]
    pub fn try_new(queues: u32) -> Result<Self, NoMemory> {
        let links = Links::try_new(queues)?;
        Ok(Self { list: List::EMPTY, links, queues: 0, group: NIL, last_ticks: 0, violations: 0 })
    }

    /// Whether no queue has joined it.
    #[inline]
    fn is_empty(&self) -> bool {
        self.queues == 0
    }

    #[inline]
    pub fn is_large(&self) -> bool {
        self.queues >= LARGE
    }

    /// Whether a queue is on the list.
    #[inline]
    pub fn lists(&self, queue: u32) -> bool {
        self.links.is_linked(queue)
    }

    /// Whether a queue of this group cannot join, because the burst is over or of another group.
    #[inline]
    fn excludes(&self, group: u32, clock: &Clock) -> bool {
        clock.is_past(self.last_ticks.wrapping_add(clock.spans.burst)) || group != self.group
    }

    /// A new burst begins in this group; it has no queue yet.
    #[inline]
    fn begin(&mut self, group: u32) {
        for _ in 0..self.list.len() {
            if self.list.pop_front(&mut self.links).is_none() {
                break;
            }
        }
        (self.queues, self.group) = (0, group);
    }

    /// A queue joins. False if the burst has become large thereby: the caller then empties the list by
    /// [`Burst::take_listed`].
    #[inline]
    fn join(&mut self, queue: u32) -> bool {
        self.queues = self.queues.wrapping_add(1);
        if self.is_large() {
            return false;
        }
        self.list(queue);
        true
    }

    /// Takes a queue from the list of a burst that has become large.
    #[inline]
    fn take_listed(&mut self) -> Option<u32> {
        self.list.pop_front(&mut self.links)
    }

    /// Puts a queue that returns to the burst on the list.
    pub fn list(&mut self, queue: u32) {
        self.violations = self.violations.wrapping_add(u32::from(!self.list.push_front(&mut self.links, queue)));
    }

    /// Removes a queue from the list.
    pub fn unlist(&mut self, queue: u32) -> bool {
        self.list.remove(&mut self.links, queue)
    }

    /// A queue's record is freed; one with an owner no longer counts.
    #[inline]
    pub fn forget(&mut self, queue: u32, had_owner: bool) {
        if self.unlist(queue) && had_owner {
            self.queues = self.queues.saturating_sub(1);
        }
    }

    /// A group was removed: its id may be used again.
    pub fn forget_group(&mut self, group: u32) {
        if self.group == group {
            self.group = NIL;
        }
    }

    pub fn violations(&self) -> u32 {
        self.violations
    }
}

impl Bfq {
    /// A new queue got a request: it joins the current burst, or begins one.
    #[inline(never)]
    pub(super) fn note_burst(&mut self, queue: u32) {
        let state = self.queues.at(queue);
        if self.burst.is_empty() && self.busy.total() > 0 {
            return;
        }
        let was_split = !self.clock.is_past(state.split_ticks.wrapping_add(self.clock.spans.split_grace));
        if self.burst.lists(queue) || state.has(Marks::IN_LARGE_BURST) || was_split {
            return;
        }
        let group = self.schedule.entity(queue).parent;
        if self.burst.excludes(group, &self.clock) {
            self.burst.begin(group);
            if self.profile.begins_bursts_always || self.busy.total() == 0 {
                self.burst.join(queue);
            }
        } else if self.burst.is_large() {
            self.queues.at_mut(queue).marks.set(Marks::IN_LARGE_BURST);
        } else if !self.burst.join(queue) {
            self.mark_large_burst(queue);
        }
        self.burst.last_ticks = self.clock.ticks;
    }

    fn mark_large_burst(&mut self, queue: u32) {
        for _ in 0..self.queues.len() {
            let Some(listed) = self.burst.take_listed() else { break };
            self.queues.at_mut(listed).marks.set(Marks::IN_LARGE_BURST);
        }
        self.queues.at_mut(queue).marks.set(Marks::IN_LARGE_BURST);
    }

    /// A queue that was idle for long no longer belongs to the burst of its creation, and no longer
    /// counts as new.
    pub(super) fn leave_old_burst(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        let was_new = state.has(Marks::JUST_CREATED);
        state.marks.clear(Marks::JUST_CREATED);
        let forgotten = state.budget_timeout_ticks.wrapping_add(self.clock.spans.burst_forgotten);
        if !was_new && state.dispatched == 0 && self.clock.is_past(forgotten) {
            state.marks.clear(Marks::IN_LARGE_BURST);
            self.burst.unlist(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_queue_makes_a_burst_large() {
        let mut burst = Burst::try_new(20).unwrap();
        burst.begin(3);
        assert!((1..8).all(|queue| burst.join(queue)) && burst.lists(7) && !burst.is_large());
        assert!(!burst.join(8) && burst.is_large());
        let listed: [_; 8] = core::array::from_fn(|_| burst.take_listed());
        assert_eq!(listed.map(|queue| queue.unwrap_or(0)), [7, 6, 5, 4, 3, 2, 1, 0]);
        burst.begin(3);
        assert!(burst.is_empty() && !burst.is_large() && burst.violations() == 0);
    }

    #[test]
    fn a_freed_queue_with_an_owner_no_longer_counts() {
        let mut burst = Burst::try_new(20).unwrap();
        for queue in 1..8 {
            burst.join(queue);
        }
        burst.forget(1, true);
        burst.forget(2, false);
        assert!(burst.join(9) && !burst.join(10));
    }
}
