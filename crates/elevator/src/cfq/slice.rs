//! The slice of a queue: from its activation to the end of its turn.

/// A queue's present slice, or its last one.
///
/// Invariant: `start_ticks` is 0 from the activation until the slice begins, with the first completion.
#[derive(Copy, Clone, Debug)]
pub struct Slice {
    activated_ticks: u64,
    start_ticks: u64,
    end_ticks: u64,
    length_ticks: u64,
    /// Unused rest of the last slice; negative if the slice was exceeded.
    rest_ticks: i64,
    requests: u32,
    /// For messages; no more than [`u32::MAX`].
    sectors: u32,
}

/// The ticks within the slice, which are usually charged, and those before and after it, which only CFQ of 4.20
/// counts.
pub struct Usage {
    pub in_slice: u64,
    pub unaccounted: u64,
}

impl Slice {
    pub const NONE: Self = Self {
        activated_ticks: 0,
        start_ticks: 0,
        end_ticks: 0,
        length_ticks: 0,
        rest_ticks: 0,
        requests: 0,
        sectors: 0,
    };

    /// The queue becomes the active one.
    #[inline]
    pub const fn activate(&mut self, now: u64) {
        *self = Self { activated_ticks: now, rest_ticks: self.rest_ticks, ..Self::NONE };
    }

    /// The slice begins.
    #[inline]
    pub const fn begin(&mut self, now: u64, length_ticks: u64) {
        (self.start_ticks, self.length_ticks) = (now, length_ticks);
        self.end_ticks = now.saturating_add(length_ticks);
    }

    #[inline]
    pub const fn length_ticks(&self) -> u64 {
        self.length_ticks
    }

    // ---- its end ----

    #[inline]
    pub const fn end_at(&mut self, ticks: u64) {
        self.end_ticks = ticks;
    }

    #[inline]
    pub const fn is_over(&self, now: u64) -> bool {
        now >= self.end_ticks
    }

    #[inline]
    pub const fn left(&self, now: u64) -> u64 {
        self.end_ticks.saturating_sub(now)
    }

    /// Whether it ends before this span has passed.
    #[inline]
    pub const fn ends_within(&self, now: u64, span_ticks: u64) -> bool {
        now.saturating_add(span_ticks) > self.end_ticks
    }

    /// What is left; negative if it was exceeded.
    #[inline]
    pub const fn signed_left(&self, now: u64) -> i64 {
        self.end_ticks.cast_signed().wrapping_sub(now.cast_signed())
    }

    /// Whether more of it is left than has passed.
    #[inline]
    pub const fn is_early(&self, now: u64) -> bool {
        self.left(now) > now.saturating_sub(self.start_ticks)
    }

    #[inline]
    pub const fn keep_rest(&mut self, rest_ticks: i64) {
        self.rest_ticks = rest_ticks;
    }

    #[inline]
    pub const fn take_rest(&mut self) -> i64 {
        core::mem::replace(&mut self.rest_ticks, 0)
    }

    // ---- what was had in it ----

    #[inline]
    pub const fn count_request(&mut self) {
        self.requests = self.requests.wrapping_add(1);
    }

    #[inline]
    pub const fn count_sectors(&mut self, sectors: u32) {
        self.sectors = self.sectors.saturating_add(sectors);
    }

    #[inline]
    pub const fn requests(&self) -> u64 {
        self.requests as u64
    }

    #[inline]
    pub const fn sectors(&self) -> u64 {
        self.sectors as u64
    }

    /// The time for which the queue had the device; at least a jiffy if the slice has not begun. `is_late`: what lay
    /// outside of the slice counts too.
    #[inline]
    pub fn usage(&self, now: u64, jiffy_ticks: u64, is_late: bool) -> Usage {
        let start = self.start_ticks;
        if start == 0 || start == now {
            let since_activation = now.saturating_sub(self.activated_ticks);
            return Usage { in_slice: since_activation.max(jiffy_ticks), unaccounted: 0 };
        }
        let elapsed = now.saturating_sub(start);
        let in_slice = elapsed.min(self.length_ticks);
        let before = start.saturating_sub(self.activated_ticks);
        let unaccounted = if is_late { elapsed.wrapping_sub(in_slice).wrapping_add(before) } else { 0 };
        Usage { in_slice, unaccounted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_charged_its_slice_and_in_late_forms_what_lay_outside() {
        let mut slice = Slice::NONE;
        slice.keep_rest(-7);
        slice.activate(100);
        let used = |slice: &Slice, now, is_late| {
            let Usage { in_slice, unaccounted } = slice.usage(now, 4, is_late);
            (in_slice, unaccounted)
        };
        assert_eq!((used(&slice, 101, true), used(&slice, 110, true)), ((4, 0), (10, 0)), "it has not begun");
        slice.begin(120, 50);
        assert_eq!((used(&slice, 150, true), used(&slice, 180, true)), ((30, 20), (50, 30)));
        assert_eq!((used(&slice, 180, false), slice.length_ticks()), ((50, 0), 50));
        assert!(slice.is_early(144) && !slice.is_early(145) && slice.is_over(170) && !slice.is_over(169));
        assert!(slice.ends_within(171, 0) && slice.ends_within(150, 21) && !slice.ends_within(150, 20));
        assert_eq!((slice.left(180), slice.signed_left(180)), (0, -10));
        assert_eq!((slice.take_rest(), slice.take_rest()), (-7, 0), "an activation keeps the rest");
    }
}
