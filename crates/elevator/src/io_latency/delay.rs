//! Induced delay, for a group that is at depth 1 and still makes others miss their target: its
//! submitter is delayed at the next submission.
//!
//! Bios issued on behalf of the root (metadata, swap) must not wait, because tasks of other groups
//! would wait with them. Instead, the time that such a bio took less than the group's target
//! is recorded as a delay that the group owes. Source: Linux 6.1 block/blk-cgroup.c,
//! blkcg_scale_delay.

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND, since};

/// The longest delay at one time.
const LONGEST_NS: Nanos = 250 * MILLISECOND;

/// The delay that a group owes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Delay {
    /// Steps down that could not be taken at depth 1; while 0, no delay is due.
    steps: u32,
    owed_ns: Nanos,
    /// The part of the owed time that existed at the last reduction.
    seen_ns: Nanos,
    seen_steps: u32,
    reduced_at: Nanos,
}

impl Delay {
    pub const NONE: Delay = Delay { steps: 0, owed_ns: 0, seen_ns: 0, seen_steps: 0, reduced_at: 0 };

    /// How many steps down were refused at depth 1 and not taken back.
    #[inline]
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    pub const fn step_down(&mut self) {
        self.steps = self.steps.saturating_add(1);
    }

    /// Takes one step back. False if there is none.
    pub const fn step_up(&mut self) -> bool {
        let had_one = self.steps > 0;
        self.steps = self.steps.saturating_sub(1);
        had_one
    }

    pub const fn clear_steps(&mut self) {
        self.steps = 0;
    }

    pub const fn owe(&mut self, ns: Nanos, now: Nanos) {
        self.reduce(now);
        self.owed_ns = self.owed_ns.saturating_add(ns);
    }

    /// The delay that is due now.
    pub const fn due_ns(&mut self, now: Nanos) -> Nanos {
        if self.steps == 0 {
            return 0;
        }
        self.reduce(now);
        if self.owed_ns > LONGEST_NS { LONGEST_NS } else { self.owed_ns }
    }

    /// Once a second, reduces the owed time by the time since the last reduction, at most by what
    /// was owed then; after a step up, by at least half of what was owed then.
    const fn reduce(&mut self, now: Nanos) {
        let elapsed = since(now, self.reduced_at);
        if elapsed <= SECOND {
            return;
        }
        self.reduced_at = now;
        let mut less = if self.seen_ns < elapsed { self.seen_ns } else { elapsed };
        if self.steps < self.seen_steps && less < self.seen_ns / 2 {
            less = self.seen_ns / 2;
        }
        self.owed_ns = self.owed_ns.saturating_sub(less);
        self.seen_ns = self.owed_ns;
        self.seen_steps = self.steps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_due_before_a_step() {
        let mut delay = Delay::NONE;
        delay.owe(5_000_000, 0);
        assert_eq!(delay.due_ns(0), 0);
        delay.step_down();
        assert_eq!(delay.due_ns(0), 5_000_000);
        assert!(delay.step_up() && !delay.step_up());
        assert_eq!(delay.due_ns(0), 0);
    }

    #[test]
    fn at_most_a_quarter_of_a_second_is_due() {
        let mut delay = Delay::NONE;
        delay.step_down();
        delay.owe(9 * SECOND, 0);
        assert_eq!(delay.due_ns(0), LONGEST_NS);
    }

    #[test]
    fn owed_time_decays_every_second() {
        let mut delay = Delay::NONE;
        delay.step_down();
        delay.step_down();
        delay.owe(100_000_000, 0);
        // The first call after a second only records what is owed; the next reduces the recorded
        // part by the time passed.
        assert_eq!(delay.due_ns(SECOND + 1), 100_000_000);
        assert_eq!(delay.due_ns(2 * SECOND), 100_000_000, "not within a second");
        assert_eq!(delay.due_ns(2 * SECOND + 2), 0);
    }

    #[test]
    fn after_a_step_up_half_is_forgiven() {
        let mut delay = Delay::NONE;
        delay.step_down();
        delay.step_down();
        delay.owe(20 * SECOND, 0);
        assert_eq!(delay.due_ns(SECOND + 1), LONGEST_NS);
        assert!(delay.step_up());
        delay.due_ns(2 * SECOND + 2);
        assert_eq!(delay.owed_ns, 10 * SECOND);
    }
}
