//! Queues by the sector of their next request, to find neighbours (the kernel's `prio_trees`).

use super::Cfq;
use super::state::Marks;
use crate::structures::NIL;

impl Cfq {
    /// Records that a queue has another next request, or none any more.
    #[inline]
    pub(super) fn note_next(&mut self, queue: u32) {
        if self.profile.has_one_level {
            return;
        }
        self.sectors.outdate(queue);
    }

    /// Removes a queue whose record is about to be freed.
    pub(super) fn forget_by_sector(&mut self, queue: u32) {
        self.sectors.forget_change(queue);
        self.unlink_by_sector(queue);
    }

    /// The busy queue of a level whose next request is nearest to the head, and its distance.
    #[inline(never)]
    pub(super) fn nearest_queue(&mut self, level: u8) -> Option<(u32, u64)> {
        while let Some(queue) = self.sectors.take_stale() {
            self.link_by_sector(queue);
        }
        self.sectors.nearest(level, self.device.last_sector())
    }

    /// Links a queue at its next request. If that position is taken, the queue stays outside until
    /// its next request changes.
    fn link_by_sector(&mut self, queue: u32) {
        self.unlink_by_sector(queue);
        let state = self.queues.at(queue);
        if state.is_idle_class() || state.pending.next() == NIL || !state.has(Marks::ON_RR) {
            return;
        }
        let Some(sector) = self.order.key(state.pending.next()) else { return };
        let level = state.original_level;
        if self.sectors.add(queue, level, sector) {
            // Saved, because the queue's level may change while the queue is linked.
            self.queues.at_mut(queue).sector_level = level;
        }
    }

    fn unlink_by_sector(&mut self, queue: u32) {
        if !self.sectors.remove(queue, self.queues.at(queue).sector_level) {
            self.count_violation();
        }
    }
}
