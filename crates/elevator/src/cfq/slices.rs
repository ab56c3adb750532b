//! Slices: how long a queue, a workload and a group have the device. Pure arithmetic, in ticks.

use super::Cfq;
use super::state::{Marks, WORKLOAD_TYPES, WorkloadType, class_number};
use hoistway_block::Class;

/// One level is worth a fifth of the base slice.
const SLICE_SCALE: u64 = 5;
const LEVELS: u64 = 8;
/// Shortest slice of a workload, in jiffies.
const SHORTEST_WORKLOAD_JIFFIES: u64 = 2;

/// The slice of a level: level 4 gets `base`; each level with a lower number gets a fifth of `base`
/// more than the next, each with a higher number a fifth less.
#[inline]
pub const fn priority_slice(base: u64, level: u8) -> u64 {
    let fifth = base / SLICE_SCALE;
    let level = if level > 7 { 7 } else { level as u64 };
    if level <= 4 {
        base.saturating_add(fifth.saturating_mul(4 - level))
    } else {
        base.saturating_sub(fifth.saturating_mul(level - 4))
    }
}

/// Number of requests after which an async slice ends while others wait.
#[inline]
pub const fn async_allowance(base_requests: u64, level: u8) -> u64 {
    let level = if level > 7 { 7 } else { level as u64 };
    base_requests.saturating_mul(2).saturating_mul(LEVELS - level)
}

/// The new average number of busy queues. It rises fast and falls slowly, and rounding keeps it
/// from falling all the way: with one busy queue, an average that was ever 3 stays 3 (quirk Q1 of
/// the specification).
#[inline]
pub const fn busy_average(average: u32, busy: u32) -> u32 {
    let (high, low) = if average > busy { (average, busy) } else { (busy, average) };
    (high.saturating_mul(3).saturating_add(low).saturating_add(2)) / 4
}

/// A slice shortened so that all queues get one within the group's part of the target latency, but
/// not below the time needed to idle for a request or two.
#[inline]
pub const fn scaled_slice(slice: u64, base: u64, busy: u64, group_slice: u64, idle_ticks: u64) -> u64 {
    let expected = base.saturating_mul(busy);
    if expected <= group_slice {
        return slice;
    }
    let (Some(least), Some(scaled)) = (
        idle_ticks.saturating_mul(2).saturating_mul(slice).checked_div(base),
        slice.saturating_mul(group_slice).checked_div(expected),
    ) else {
        return slice;
    };
    let low = if least < slice { least } else { slice };
    if scaled > low { scaled } else { low }
}

/// How far behind the present a queue's key lies: it grows with the number of queues and with lower
/// priority (docs/specifications/cfq.md, section 5.10).
#[inline]
pub const fn key_offset(others: i64, longest_slice: u64, slice: u64) -> i64 {
    let shorter = longest_slice.cast_signed().wrapping_sub(slice.cast_signed());
    others.saturating_mul(shorter)
}

impl Cfq {
    /// The slice of a queue by its level, in ticks.
    #[inline]
    pub(super) fn priority_slice_of(&self, queue: u32) -> u64 {
        let queue = self.queues.at(queue);
        priority_slice(self.settings.slice(queue.is_sync()), queue.level)
    }

    /// A group's part of the target latency, in ticks.
    pub(super) fn group_slice(&self, group: u32) -> u64 {
        let target = self.settings.target_latency_ticks;
        let group = self.groups.at(group);
        if self.profile.has_hierarchy {
            return target.saturating_mul(group.fraction) >> 12;
        }
        let part = target.saturating_mul(u64::from(group.weight));
        part.checked_div(self.group_order.total_weight()).unwrap_or(target)
    }

    /// The length of a slice that begins now, shortened if many queues share; also used for the
    /// rest of a slice that never began (4.20).
    pub(super) fn current_slice(&mut self, queue: u32) -> u64 {
        let slice = self.priority_slice_of(queue);
        if !self.settings.low_latency {
            return slice;
        }
        let (group, class) = (self.queues.at(queue).group, self.queues.at(queue).class);
        let class = if class == Class::RealTime { Class::RealTime } else { Class::BestEffort };
        let busy = self.class_busy(group, class);
        let place = class_number(class) as usize;
        let mut average = busy;
        if let Some(kept) = self.groups.get_mut(group).and_then(|state| state.busy_average.get_mut(place)) {
            *kept = busy_average(*kept, busy);
            average = *kept;
        }
        let base = self.settings.slice(true);
        scaled_slice(slice, base, u64::from(average), self.group_slice(group), self.settings.slice_idle_ticks)
    }

    /// The first completion after activation: the slice begins.
    #[inline(never)]
    pub(super) fn begin_slice(&mut self, queue: u32) {
        let slice = self.current_slice(queue);
        let now = self.clock.now();
        let state = self.queues.at_mut(queue);
        state.slice.begin(now, slice);
        state.marks.clear(Marks::SLICE_NEW);
        self.log_queue(queue, "set_slice={0}", &[slice]);
    }

    /// How long a type of a class may have the device in its group's turn.
    pub(super) fn workload_slice(&self, group: u32, class: Class, kind: WorkloadType) -> u64 {
        let count = u64::from(self.trees.len(self.tree_index(group, class, kind)));
        let place = class_number(class) as usize;
        let average = self.groups.at(group).busy_average.get(place).copied().unwrap_or(0);
        let among = u64::from(average.max(self.class_busy(group, class)));
        let whole = self.group_slice(group);
        let mut slice = whole.saturating_mul(count).checked_div(among).unwrap_or(whole);
        if kind == WorkloadType::Async {
            let target = self.settings.target_latency_ticks.saturating_mul(u64::from(self.async_busy(group)));
            slice = slice.min(target.checked_div(u64::from(self.engine.busy_queues)).unwrap_or(slice));
            let asynchronous = slice.saturating_mul(self.settings.slice(false));
            slice = asynchronous.checked_div(self.settings.slice(true)).unwrap_or(slice);
        } else {
            slice = slice.max(self.settings.slice_idle_ticks.saturating_mul(2));
        }
        slice.max(SHORTEST_WORKLOAD_JIFFIES.saturating_mul(self.clock.ticks().jiffy_ticks))
    }

    /// Number of busy queues of a class in a group.
    pub(super) fn class_busy(&self, group: u32, class: Class) -> u32 {
        let mut busy = 0_u32;
        for kind in WORKLOAD_TYPES {
            busy = busy.wrapping_add(self.trees.len(self.tree_index(group, class, kind)));
        }
        busy
    }

    /// Number of busy async queues of a group.
    pub(super) fn async_busy(&self, group: u32) -> u32 {
        let best_effort = self.trees.len(self.tree_index(group, Class::BestEffort, WorkloadType::Async));
        let real_time = self.trees.len(self.tree_index(group, Class::RealTime, WorkloadType::Async));
        best_effort.wrapping_add(real_time)
    }

    /// Whether the slice is over; a slice that has not begun is not.
    #[inline]
    pub(super) fn is_slice_used(&self, queue: u32) -> bool {
        let queue = self.queues.at(queue);
        !queue.has(Marks::SLICE_NEW) && queue.slice.is_over(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t01_slices_by_level() {
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6, 7].map(|level| priority_slice(100, level)),
            [180, 160, 140, 120, 100, 80, 60, 40]
        );
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|level| priority_slice(40, level)), [72, 64, 56, 48, 40, 32, 24, 16]);
        assert_eq!((priority_slice(25, 0), priority_slice(25, 7)), (45, 10), "HZ 250");
    }

    #[test]
    fn t02_requests_of_an_async_slice() {
        assert_eq!([0, 4, 7].map(|level| async_allowance(2, level)), [32, 16, 4]);
        assert_eq!([0, 4, 7].map(|level| async_allowance(1, level)), [16, 8, 2]);
    }

    #[test]
    fn t03_the_busy_average_rises_fast_and_sticks_at_three() {
        let mut average = 0;
        let mut seen = [0; 8];
        for (at, busy) in [8, 8, 1, 1, 1, 1, 1, 1].into_iter().enumerate() {
            average = busy_average(average, busy);
            seen[at] = average;
        }
        assert_eq!(seen, [6, 8, 6, 5, 4, 3, 3, 3]);
    }

    #[test]
    fn t04_slices_shrink_when_many_share() {
        let scaled = |level, busy| scaled_slice(priority_slice(100, level), 100, busy, 300, 8);
        assert_eq!([4, 0, 7].map(|level| scaled(level, 8)), [37, 67, 15]);
        assert_eq!((scaled(4, 40), scaled(4, 3)), (16, 100));
    }

    #[test]
    fn the_first_queue_of_a_group_lies_before_now() {
        assert_eq!((key_offset(-1, 180, 100), key_offset(-1, 180, 180), key_offset(0, 180, 40)), (-80, 0, 0));
        assert_eq!(key_offset(2, 180, 40), 280);
    }
}
