//! Cooperating queues: issuers that take turns in reading one range of sectors. Their queues are
//! found by the sector of their next request, merged, and split again when the shared queue becomes
//! seeky.

use super::Cfq;
use super::state::Marks;
use crate::structures::NIL;

/// A request within this many sectors of the head is close.
pub const CLOSE_SECTORS: u64 = 8_192;

impl Cfq {
    /// A queue whose next request is close to where the empty active queue stopped, so that idling
    /// would waste time.
    pub(super) fn close_cooperator(&mut self, queue: u32) -> Option<u32> {
        if self.profile.has_one_level {
            return None;
        }
        let state = self.queues.at(queue);
        let is_alone = self.groups.at(state.group).busy_queues == 1;
        if state.is_idle_class() || !state.is_sync() || state.is_seeky() || is_alone {
            return None;
        }
        let level = state.original_level;
        let (found, distance) = self.nearest_queue(level)?;
        let state = self.queues.at(queue);
        let other = self.queues.at(found);
        let fits = found != queue
            && distance <= CLOSE_SECTORS
            && other.group == state.group
            && other.is_sync()
            && !other.is_seeky()
            && other.is_real_time() == state.is_real_time();
        fits.then_some(found)
    }

    /// Schedules a merge of two queues: the issuers of the queue that has fewer move to the other,
    /// each with its next request.
    pub(super) fn arrange_merger(&mut self, queue: u32, found: u32) {
        if self.queues.at(found).process_references() == 0 {
            return;
        }
        let mut target = found;
        for _ in 0..self.queues.len() {
            match self.queues.at(target).references.merges_into() {
                NIL => break,
                next if next == queue => return,
                next => target = next,
            }
        }
        let ours = self.queues.at(queue).process_references();
        let theirs = self.queues.at(target).process_references();
        if ours == 0 || theirs == 0 || target == queue {
            return;
        }
        let (from, to, moved) = if theirs >= ours { (queue, target, ours) } else { (target, queue, theirs) };
        self.queues.at_mut(from).references.schedule_merge(to);
        self.queues.at_mut(to).references.expect(moved);
    }

    /// Moves an issuer to the queue that its own is scheduled to be merged into; the reference to
    /// that queue was taken when the merge was scheduled.
    pub(super) fn merge_over(&mut self, context: u32, queue: u32) -> u32 {
        let target = self.queues.at(queue).references.merges_into();
        self.log_queue(queue, "merging with queue {0}", &[u64::from(target)]);
        self.contexts.at_mut(context).queue = target;
        self.queues.at_mut(target).marks.set(Marks::COOP);
        self.drop_reference(queue);
        target
    }

    /// Removes an issuer from a shared queue. The last issuer keeps the queue; for others the
    /// result is NIL, and they get a new one.
    pub(super) fn split(&mut self, context: u32, queue: u32) -> u32 {
        self.log_queue(queue, "breaking apart cfqq", &[]);
        let state = self.queues.at_mut(queue);
        if state.process_references() == 1 {
            state.issuer = context;
            state.marks.clear(Marks::COOP);
            state.marks.clear(Marks::SPLIT_COOP);
            return queue;
        }
        self.drop_queue(context);
        NIL
    }

    /// An issuer leaves a queue with scheduled merges: drops the references to all targets of the
    /// chain, which were taken when the merges were scheduled.
    pub(super) fn drop_mergers(&mut self, queue: u32) {
        let mut target = self.queues.at(queue).references.merges_into();
        for _ in 0..self.queues.len() {
            if target == NIL {
                return;
            }
            let next = self.queues.at(target).references.merges_into();
            self.drop_reference(target);
            target = next;
        }
    }
}
