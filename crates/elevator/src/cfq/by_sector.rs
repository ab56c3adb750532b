//! Queues by the sector of their next request, to find neighbours (the kernel's `prio_trees`).
//!
//! Next requests change with almost every event, but neighbours are needed only when a non-seeky
//! issuer has run out of requests. So changes are recorded in O(1), and applied when the order is
//! read, the oldest change first.

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
        if self.stale_links.is_linked(queue) {
            self.stale.remove(&mut self.stale_links, queue);
        }
        self.stale.push_back(&mut self.stale_links, queue);
    }

    /// Removes a queue whose record is about to be freed.
    pub(super) fn forget_by_sector(&mut self, queue: u32) {
        if self.stale_links.is_linked(queue) {
            self.stale.remove(&mut self.stale_links, queue);
        }
        self.unlink_by_sector(queue);
    }

    /// The busy queue of a level whose next request is nearest to the head, and its distance.
    #[inline(never)]
    pub(super) fn nearest_queue(&mut self, level: u8) -> Option<(u32, u64)> {
        while let Some(queue) = self.stale.pop_front(&mut self.stale_links) {
            self.link_by_sector(queue);
        }
        let tree = self.sector_trees.get(u32::from(level))?;
        let head = self.last_position_sectors;
        let above = tree.lower_bound(&self.sector_links, head);
        let below = match above {
            Some(above) => self.sector_links.prev(above),
            None => tree.last(),
        };
        let distance = |queue: u32| self.sector_links.key(queue).map_or(u64::MAX, |sector| sector.abs_diff(head));
        match (above, below) {
            (Some(above), Some(below)) if distance(below) < distance(above) => Some((below, distance(below))),
            (Some(above), _) => Some((above, distance(above))),
            (None, Some(below)) => Some((below, distance(below))),
            (None, None) => None,
        }
    }

    /// Links a queue at its next request. If that position is taken, the queue stays outside until
    /// its next request changes.
    fn link_by_sector(&mut self, queue: u32) {
        self.unlink_by_sector(queue);
        let state = self.queues.at(queue);
        if state.is_idle_class() || state.next == NIL || !state.has(Marks::ON_RR) {
            return;
        }
        let Some(sector) = self.sort_links.key(state.next) else { return };
        let level = state.original_level;
        let Some(tree) = self.sector_trees.get_mut(u32::from(level)) else { return };
        if tree.find_exact(&self.sector_links, sector).is_some() {
            return;
        }
        if tree.insert(&mut self.sector_links, queue, sector) {
            // Saved, because the queue's level may change while the queue is linked.
            self.queues.at_mut(queue).sector_level = level;
        }
    }

    fn unlink_by_sector(&mut self, queue: u32) {
        if !self.sector_links.is_linked(queue) {
            return;
        }
        let level = u32::from(self.queues.at(queue).sector_level);
        if let Some(tree) = self.sector_trees.get_mut(level)
            && !tree.remove(&mut self.sector_links, queue)
        {
            self.count_violation();
        }
    }
}
