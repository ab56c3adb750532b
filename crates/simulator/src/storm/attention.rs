//! When a storm checks all invariants.

/// After this many steps without an event or a change, invariants are checked only every
/// `QUIET_STRIDE`-th step: a limiter whose timer ticks while a bio waits for minutes would take
/// most of a storm's time.
const QUIET_STEPS: u64 = 16;
const QUIET_STRIDE: u64 = 64;

/// What has happened since the last check.
pub(super) struct Attention {
    /// Anything but a dispatch was called.
    is_touched: bool,
    /// Steps since the last event or change.
    quiet_steps: u64,
    /// Number of trace events at the last step.
    events: u64,
}

impl Attention {
    /// Before the first step.
    pub(super) const NEW: Self = Self { is_touched: true, quiet_steps: 0, events: 0 };

    /// Something was called that may have changed the state, if `is_so`.
    pub(super) fn touch(&mut self, is_so: bool) {
        self.is_touched |= is_so;
    }

    /// Groups, contexts, limits, tunables, depths or policies changed.
    pub(super) fn changed(&mut self) {
        (self.is_touched, self.quiet_steps) = (true, 0);
    }

    /// The end of a step; `events` is the number of trace events until now. True if all invariants are to be checked.
    pub(super) fn wants_check(&mut self, events: u64) -> bool {
        self.quiet_steps = if events == self.events { self.quiet_steps + 1 } else { 0 };
        self.events = events;
        let is_skipped = self.quiet_steps > QUIET_STEPS && !self.quiet_steps.is_multiple_of(QUIET_STRIDE);
        !is_skipped && std::mem::take(&mut self.is_touched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_steps_are_checked_now_and_then() {
        let mut attention = Attention::NEW;
        assert!(attention.wants_check(5) && !attention.wants_check(5), "nothing was called");
        let checked = (0..QUIET_STRIDE).filter(|_| {
            attention.touch(true);
            attention.wants_check(5)
        });
        assert_eq!(checked.count() as u64, QUIET_STEPS, "15 more that are not quiet yet, and the 64th");
        attention.changed();
        assert!(attention.wants_check(5));
    }
}
