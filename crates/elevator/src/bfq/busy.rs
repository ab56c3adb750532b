//! How much is queued: busy queues by class, raised ones among them, and requests.

use super::state::{CLASSES, class_index};
use hoistway_block::Class;

/// Counts of what is queued.
///
/// Invariant: a queue counts while it has the mark `BUSY`, a request while it is queued.
#[derive(Debug, Default)]
pub struct Busy {
    by_class: [u32; CLASSES as usize],
    raised: u32,
    requests: u32,
}

impl Busy {
    /// A queue of this class becomes busy, or ceases to be.
    #[inline]
    pub fn change(&mut self, class: Class, is_more: bool) {
        if let Some(count) = self.by_class.get_mut(class_index(class) as usize) {
            *count = if is_more { count.wrapping_add(1) } else { count.saturating_sub(1) };
        }
    }

    /// Busy queues.
    #[inline]
    pub fn total(&self) -> u32 {
        let [real_time, best_effort, idle] = self.by_class;
        real_time.wrapping_add(best_effort).wrapping_add(idle)
    }

    /// Whether there is only one busy queue, and it is not of the idle class.
    #[inline]
    pub fn is_one_above_idle(&self) -> bool {
        let [real_time, best_effort, idle] = self.by_class;
        idle == 0 && real_time.wrapping_add(best_effort) == 1
    }

    /// Whether busy queues are of different classes.
    #[inline]
    pub fn classes_differ(&self) -> bool {
        let [real_time, best_effort, idle] = self.by_class.map(|busy| u32::from(busy > 0));
        real_time + best_effort + idle > 1
    }

    /// Busy queues whose weight is raised.
    #[inline]
    pub fn raised(&self) -> u32 {
        self.raised
    }

    /// The weight of a busy queue begins to be raised, or ceases to be.
    #[inline]
    pub fn change_raised(&mut self, is_more: bool) {
        self.raised = if is_more { self.raised.wrapping_add(1) } else { self.raised.saturating_sub(1) };
    }

    /// Queued requests.
    #[inline]
    pub fn requests(&self) -> u32 {
        self.requests
    }

    #[inline]
    pub fn add_request(&mut self) {
        self.requests = self.requests.wrapping_add(1);
    }

    #[inline]
    pub fn remove_request(&mut self) {
        self.requests = self.requests.saturating_sub(1);
    }

    /// For checks.
    pub fn by_class(&self) -> [u32; CLASSES as usize] {
        self.by_class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_told_apart() {
        let mut busy = Busy::default();
        busy.change(Class::BestEffort, true);
        assert!(busy.is_one_above_idle() && !busy.classes_differ());
        busy.change(Class::Idle, true);
        assert!(!busy.is_one_above_idle() && busy.classes_differ());
        busy.change(Class::BestEffort, false);
        assert_eq!((busy.is_one_above_idle(), busy.total(), busy.by_class()), (false, 1, [0, 0, 1]));
    }
}
