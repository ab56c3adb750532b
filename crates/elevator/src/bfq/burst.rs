//! Bursts: many queues created shortly after one another are taken for the start of a service, and
//! are not treated as interactive.

use super::Bfq;
use super::state::Marks;

/// From this many queues on, a burst is large.
const LARGE: u32 = 8;

/// The current burst.
#[derive(Debug)]
pub struct Burst {
    pub list: crate::structures::List,
    /// Number of queues that have joined it.
    pub queues: u32,
    /// The group of its queues.
    pub group: u32,
    pub last_ticks: u64,
    pub is_large: bool,
}

impl Bfq {
    /// A new queue got a request: it joins the current burst, or begins one.
    #[inline(never)]
    pub(super) fn note_burst(&mut self, queue: u32) {
        let state = self.queues.at(queue);
        if self.burst.queues == 0 && self.busy_total() > 0 {
            return;
        }
        let was_split = !self.clock.is_past(state.split_ticks.wrapping_add(self.spans.split_grace));
        if self.burst_links.is_linked(queue) || state.has(Marks::IN_LARGE_BURST) || was_split {
            return;
        }
        let group = self.entities.at(queue).parent;
        let is_over = self.clock.is_past(self.burst.last_ticks.wrapping_add(self.spans.burst));
        if is_over || group != self.burst.group {
            self.begin_burst(queue, group);
        } else if self.burst.is_large {
            self.queues.at_mut(queue).marks.set(Marks::IN_LARGE_BURST);
        } else {
            self.join_burst(queue);
        }
        self.burst.last_ticks = self.clock.ticks;
    }

    fn begin_burst(&mut self, queue: u32, group: u32) {
        self.burst.is_large = false;
        self.empty_burst_list();
        self.burst.queues = 0;
        if self.profile.begins_bursts_always || self.busy_total() == 0 {
            self.put_in_burst_list(queue);
            self.burst.queues = 1;
        }
        self.burst.group = group;
    }

    fn join_burst(&mut self, queue: u32) {
        self.burst.queues = self.burst.queues.wrapping_add(1);
        if self.burst.queues < LARGE {
            self.put_in_burst_list(queue);
            return;
        }
        self.burst.is_large = true;
        for _ in 0..self.queues.len() {
            let Some(listed) = self.burst.list.pop_front(&mut self.burst_links) else { break };
            self.queues.at_mut(listed).marks.set(Marks::IN_LARGE_BURST);
        }
        self.queues.at_mut(queue).marks.set(Marks::IN_LARGE_BURST);
    }

    fn empty_burst_list(&mut self) {
        for _ in 0..self.queues.len() {
            if self.burst.list.pop_front(&mut self.burst_links).is_none() {
                return;
            }
        }
    }

    pub(super) fn put_in_burst_list(&mut self, queue: u32) {
        if !self.burst.list.push_front(&mut self.burst_links, queue) {
            self.count_violation();
        }
    }

    /// Removes a queue from the list of the current burst; true if it was on the list.
    pub(super) fn leave_burst_list(&mut self, queue: u32) -> bool {
        self.burst.list.remove(&mut self.burst_links, queue)
    }

    /// A queue that was idle for long no longer belongs to the burst of its creation, and no longer
    /// counts as new.
    pub(super) fn leave_old_burst(&mut self, queue: u32) {
        let state = self.queues.at_mut(queue);
        let was_new = state.has(Marks::JUST_CREATED);
        state.marks.clear(Marks::JUST_CREATED);
        let forgotten = state.budget_timeout_ticks.wrapping_add(self.spans.burst_forgotten);
        if !was_new && state.dispatched == 0 && self.clock.is_past(forgotten) {
            state.marks.clear(Marks::IN_LARGE_BURST);
            self.leave_burst_list(queue);
        }
    }
}
