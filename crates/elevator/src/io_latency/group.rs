//! State of io.latency for a group: its count and queue, its depth, and what it tells its children.

use super::delay::Delay;
use super::samples::Samples;
use crate::structures::List;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{GroupId, Nanos};

/// No limit of depth.
pub const UNLIMITED: u32 = u32::MAX;
/// Initial value of every cookie. A parent's cookie tells its children how far they are throttled:
/// by its distance below this value.
pub const DEFAULT_COOKIE: u32 = 1_000_000;
/// A window is this many targets long, within these bounds.
const WINDOW_TARGETS: u64 = 16;
const SHORTEST_WINDOW_NS: Nanos = 100 * MILLISECOND;
const LONGEST_WINDOW_NS: Nanos = SECOND;

/// What a parent tells its children, and on behalf of which child.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Children {
    pub cookie: u32,
    pub changed_at: Option<Nanos>,
    /// The tightest target that is missed; 0 = none. Only children with a looser target, or none,
    /// are throttled.
    pub missed_target_ns: Nanos,
    /// The child that misses the target: only that child raises the cookie again.
    pub protected: Option<GroupId>,
    /// Sum of the children's samples when each was last evaluated.
    pub samples: u64,
}

impl Children {
    pub const FRESH: Children =
        Children { cookie: DEFAULT_COOKIE, changed_at: None, missed_target_ns: 0, protected: None, samples: 0 };

    /// Moves the cookie: down in large steps, up in small ones. More than one queue depth below the
    /// default it moves by 1, and it stops at two queue depths below, so that raising it again does
    /// not take too long.
    pub fn change(&mut self, queue_depth: u32, is_up: bool) {
        let step = step_of(queue_depth, is_up);
        let below = DEFAULT_COOKIE.saturating_sub(self.cookie);
        if is_up {
            let step = if below > queue_depth { 1 } else { step };
            self.cookie = self.cookie.saturating_add(step).min(DEFAULT_COOKIE);
        } else if below <= queue_depth {
            self.cookie = self.cookie.saturating_sub(step);
        } else if below < queue_depth.saturating_mul(2) {
            self.cookie = self.cookie.saturating_sub(1);
        }
    }
}

/// By how much cookies and depths move.
pub fn step_of(queue_depth: u32, is_up: bool) -> u32 {
    (if is_up { queue_depth >> 4 } else { queue_depth >> 2 }).max(1)
}

/// The state of a group on this device.
#[derive(Clone, Debug)]
pub struct Group {
    pub is_present: bool,
    pub parent: Option<GroupId>,
    /// Bios of the group and its descendants that were admitted here, until they end.
    pub in_flight: u32,
    pub waiting: List,
    pub most_in_flight: u32,
    /// The parent's cookie when the group last compared it.
    pub cookie: u32,
    /// Latency target; 0 = none.
    pub target_ns: Nanos,
    pub window_ns: Nanos,
    pub window_began: Nanos,
    /// Samples of this window.
    pub current: Samples,
    /// Samples of all windows since the siblings' cookie was last changed.
    pub gathered: Samples,
    /// Number of gathered samples at the last evaluation.
    pub samples: u64,
    pub average_ns: Nanos,
    pub delay: Delay,
    pub children: Children,
}

impl Group {
    pub const ABSENT: Group = Group {
        is_present: false,
        parent: None,
        in_flight: 0,
        waiting: List::EMPTY,
        most_in_flight: UNLIMITED,
        cookie: DEFAULT_COOKIE,
        target_ns: 0,
        window_ns: SHORTEST_WINDOW_NS,
        window_began: 0,
        current: Samples::NONE,
        gathered: Samples::NONE,
        samples: 0,
        average_ns: 0,
        delay: Delay::NONE,
        children: Children::FRESH,
    };

    #[inline]
    pub const fn has_room(&self) -> bool {
        self.in_flight < self.most_in_flight
    }

    /// Sets a new target and the window length that belongs to it.
    pub fn set_target(&mut self, target_ns: Nanos) {
        self.target_ns = target_ns;
        self.window_ns = target_ns.saturating_mul(WINDOW_TARGETS).clamp(SHORTEST_WINDOW_NS, LONGEST_WINDOW_NS);
    }

    pub fn unlimit(&mut self) {
        self.most_in_flight = UNLIMITED;
        self.delay.clear_steps();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn moved(children: &mut Children, is_up: bool, times: usize) -> Vec<u32> {
        (0..times)
            .map(|_| {
                children.change(128, is_up);
                DEFAULT_COOKIE - children.cookie
            })
            .collect()
    }

    #[test]
    fn cookies_fall_fast_to_a_depth_and_slowly_to_two() {
        let mut children = Children::FRESH;
        assert_eq!(moved(&mut children, false, 7), [32, 64, 96, 128, 160, 161, 162]);
        assert_eq!(moved(&mut children, false, 200).last(), Some(&256));
        assert_eq!(moved(&mut children, true, 128).last(), Some(&128));
        assert_eq!(moved(&mut children, true, 3), [120, 112, 104]);
        assert_eq!(moved(&mut children, true, 20).last(), Some(&0));
    }

    #[test]
    fn windows_are_sixteen_targets_within_bounds() {
        let window_ms = |target_ms: u64| {
            let mut group = Group::ABSENT;
            group.set_target(target_ms * MILLISECOND);
            group.window_ns / MILLISECOND
        };
        assert_eq!([1, 10, 50, 75, 1_000].map(window_ms), [100, 160, 800, 1_000, 1_000]);
    }
}
