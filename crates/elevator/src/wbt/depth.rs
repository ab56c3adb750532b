//! The scaling steps of wbt: how many writes may be in flight at each step, and how long a window
//! is.
//!
//! Step 0 is the start; each step down (positive) halves the depth, each step up (negative) doubles
//! it, up to three quarters of the device's depth. Source: Linux 6.1 block/blk-rq-qos.c,
//! rq_depth_calc_max_depth, and block/blk-wbt.c; docs/specifications/throttle.md, section 6.

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;

/// Depth of step 0, if the device accepts that many.
const DEFAULT_DEPTH: u32 = 16;
/// Length of a window at step 0 and above.
const WINDOW_NS: Nanos = 100 * MILLISECOND;

/// How many writes of each class may be in flight.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// For sync writes.
    pub max: u32,
    /// For writeback without concurrent reads.
    pub normal: u32,
    /// For background writeback, for writeback beside reads, and for discards.
    pub background: u32,
}

impl Limits {
    const fn of_depth(depth: u32) -> Self {
        if depth <= 2 {
            return Self { max: depth, normal: depth, background: 1 };
        }
        Self { max: depth, normal: depth.saturating_add(1) / 2, background: depth.saturating_add(3) / 4 }
    }
}

/// The current step and its limits.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Staircase {
    queue_depth: u32,
    step: i32,
    limits: Limits,
    is_at_top: bool,
}

impl Staircase {
    /// Step 0 for a device of this depth.
    pub const fn new(queue_depth: u32) -> Self {
        let queue_depth = if queue_depth == 0 { 1 } else { queue_depth };
        let (depth, _) = depth_of(queue_depth, 0);
        Self { queue_depth, step: 0, limits: Limits::of_depth(depth), is_at_top: false }
    }

    /// 0 at first; larger means less depth.
    #[inline]
    pub const fn step(&self) -> i32 {
        self.step
    }

    /// The limits at this step.
    #[inline]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// One step to more depth. False at the top.
    pub const fn increase_depth(&mut self) -> bool {
        if self.is_at_top {
            return false;
        }
        self.set_step(self.step.saturating_sub(1));
        true
    }

    /// One step to less depth; with `at_once`, from above step 0 straight to it. False at the
    /// lowest depth.
    pub const fn decrease_depth(&mut self, at_once: bool) -> bool {
        // At a negative step a depth of 1 is not the lowest one: on devices that accept 2 commands
        // the formula gives less there than at step 0. The kernel refuses to step down there, and
        // so never leaves that step.
        if self.step >= 0 && self.limits.max == 1 {
            return false;
        }
        let next = if self.step < 0 && at_once { 0 } else { self.step.saturating_add(1) };
        self.set_step(next);
        // Only a step up detects the top.
        self.is_at_top = false;
        true
    }

    const fn set_step(&mut self, step: i32) {
        let (depth, is_at_top) = depth_of(self.queue_depth, step);
        self.step = step;
        self.limits = Limits::of_depth(depth);
        self.is_at_top = is_at_top;
    }

    /// Length of the next window: below step 0 it is divided by the square root of the step plus
    /// one.
    pub const fn window_ns(&self) -> Nanos {
        if self.step <= 0 {
            return WINDOW_NS;
        }
        let root = square_root(self.step.unsigned_abs().saturating_add(1).saturating_mul(256));
        match (WINDOW_NS << 4).checked_div(root as u64) {
            Some(window) => window,
            None => WINDOW_NS,
        }
    }
}

/// The depth of a step, and whether it is the largest.
const fn depth_of(queue_depth: u32, step: i32) -> (u32, bool) {
    if queue_depth == 1 {
        return if step > 0 { (1, false) } else { (2, true) };
    }
    let depth = if queue_depth < DEFAULT_DEPTH { queue_depth } else { DEFAULT_DEPTH };
    let above_one = depth.saturating_sub(1);
    if step >= 0 {
        let halvings = if step > 31 { 31 } else { step.unsigned_abs() };
        return (1u32.saturating_add(above_one >> halvings), false);
    }
    let doublings = if step < -31 { 31 } else { step.unsigned_abs() };
    let most = (queue_depth as u64).saturating_mul(3) / 4;
    let wanted = 1u64.saturating_add((above_one as u64) << doublings);
    if wanted > most { (low_half(most), true) } else { (low_half(wanted), false) }
}

/// Truncates a depth that is known to be below 2^32.
#[expect(clippy::cast_possible_truncation, reason = "at most three quarters of a 32-bit number")]
const fn low_half(depth: u64) -> u32 {
    depth as u32
}

/// The integer square root, digit by digit.
const fn square_root(value: u32) -> u32 {
    let mut rest = value;
    let mut root = 0u32;
    let mut bit = 1u32 << 30;
    while bit > 0 {
        let candidate = root.saturating_add(bit);
        root >>= 1;
        if rest >= candidate {
            rest = rest.saturating_sub(candidate);
            root = root.saturating_add(bit);
        }
        bit >>= 2;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn limits_on(queue_depth: u32, step: i32) -> (u32, u32, u32) {
        let mut stairs = Staircase::new(queue_depth);
        stairs.set_step(step);
        let Limits { max, normal, background } = stairs.limits();
        (max, normal, background)
    }

    /// docs/specifications/throttle.md, section 10, case 33: the whole table of section 6.
    #[test]
    fn t33_each_step_has_the_depths_of_the_table() {
        let table = [
            (-2, (24, 12, 6)),
            (-1, (24, 12, 6)),
            (0, (16, 8, 4)),
            (1, (8, 4, 2)),
            (2, (4, 2, 1)),
            (3, (2, 2, 1)),
            (4, (1, 1, 1)),
            (5, (1, 1, 1)),
            (31, (1, 1, 1)),
            (40, (1, 1, 1)),
        ];
        for (step, expected) in table {
            assert_eq!(limits_on(32, step), expected, "step {step}");
        }
        for (step, depth) in [(-1, 2), (0, 2), (1, 1), (2, 1)] {
            assert_eq!(limits_on(1, step), (depth, depth, 1), "queue depth 1, step {step}");
        }
    }

    #[test]
    fn the_staircase_ends_at_depth_1_and_at_the_top() {
        let mut stairs = Staircase::new(32);
        let down = (0..10).take_while(|_| stairs.decrease_depth(true)).count();
        assert_eq!((down, stairs.step(), stairs.limits().max), (4, 4, 1));
        let up = (0..10).take_while(|_| stairs.increase_depth()).count();
        assert_eq!((up, stairs.step(), stairs.limits().max), (5, -1, 24));
        assert!(stairs.decrease_depth(true));
        assert_eq!(stairs.step(), 0, "from above straight to the middle");
    }

    #[test]
    fn a_device_of_two_commands_comes_back_from_the_top() {
        let mut stairs = Staircase::new(2);
        assert!(stairs.increase_depth());
        assert_eq!((stairs.step(), stairs.limits().max), (-1, 1), "three quarters of 2");
        assert!(stairs.decrease_depth(false));
        assert_eq!((stairs.step(), stairs.limits().max), (0, 2));
    }

    #[test]
    fn windows_shrink_by_the_square_root_of_the_step() {
        let mut stairs = Staircase::new(256);
        let lengths: Vec<u64> = (0..5)
            .map(|_| {
                let length = stairs.window_ns() / 100_000;
                stairs.decrease_depth(true);
                length
            })
            .collect();
        assert_eq!(lengths, [1_000, 727, 592, 500, 457], "tenths of a ms");
    }

    #[test]
    fn square_roots_are_rounded_down() {
        for value in (0..100_000).chain([u32::MAX - 1, u32::MAX]) {
            let root = u64::from(square_root(value));
            assert!(root * root <= u64::from(value) && (root + 1) * (root + 1) > u64::from(value), "{value}: {root}");
        }
    }
}
