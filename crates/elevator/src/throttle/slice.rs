//! Token slices: what a group may have sent since a slice began, and how long the next bio has to
//! wait.
//!
//! All times are ticks (jiffies). A slice is extended while its group is busy and trimmed after
//! each bio, so that no more than one slice's worth of tokens is ever saved up. Source: Linux 6.1
//! block/blk-throttle.c, tg_may_dispatch and throtl_trim_slice.

/// Time in ticks.
pub type Ticks = u64;

/// A rate in bytes or I/Os per second that means "no limit".
pub const UNLIMITED: u64 = u64::MAX;
/// Limits of I/Os are 32 bits wide, and so is what they allow.
const MOST_IOS: u64 = u32::MAX as u64;

/// Tick rate and slice length; the same for all groups.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    /// Ticks per second.
    pub hz: u64,
    /// Length of a slice in ticks.
    pub slice: Ticks,
}

impl Clock {
    /// `value` rounded up to whole slices.
    #[inline]
    const fn round_up(self, value: Ticks) -> Ticks {
        match value.checked_rem(self.slice) {
            None | Some(0) => value,
            Some(over) => value.wrapping_add(self.slice.wrapping_sub(over)),
        }
    }

    #[inline]
    const fn round_down(self, value: Ticks) -> Ticks {
        match value.checked_rem(self.slice) {
            None => value,
            Some(over) => value.wrapping_sub(over),
        }
    }

    /// What a rate per second allows in this many ticks, rounded down. Computed in parts where the
    /// product needs more than 64 bits.
    #[inline]
    pub const fn allowed(self, per_second: u64, ticks: Ticks) -> u64 {
        let (Some(seconds), Some(rest)) = (ticks.checked_div(self.hz), ticks.checked_rem(self.hz)) else { return 0 };
        let of_rest = match per_second.checked_mul(rest) {
            Some(product) => product.checked_div(self.hz),
            None => self.allowed_of_many(per_second, rest),
        };
        let of_rest = match of_rest {
            Some(amount) => amount,
            None => 0,
        };
        per_second.saturating_mul(seconds).saturating_add(of_rest)
    }

    /// As [`Clock::allowed`] for `rest` ticks, less than a second: the rate is split into a whole
    /// number per tick and a remainder.
    #[cold]
    const fn allowed_of_many(self, per_second: u64, rest: Ticks) -> Option<u64> {
        let (Some(per_tick), Some(left)) = (per_second.checked_div(self.hz), per_second.checked_rem(self.hz)) else {
            return None;
        };
        match left.saturating_mul(rest).checked_div(self.hz) {
            Some(of_left) => Some(per_tick.saturating_mul(rest).saturating_add(of_left)),
            None => None,
        }
    }

    #[inline]
    const fn allowed_ios(self, per_second: u64, ticks: Ticks) -> u64 {
        let allowed = self.allowed(per_second, ticks);
        if allowed > MOST_IOS { MOST_IOS } else { allowed }
    }
}

/// The limits in force for one direction of a group.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    pub bytes_per_s: u64,
    pub ios_per_s: u64,
}

impl Limit {
    pub const NONE: Limit = Limit { bytes_per_s: UNLIMITED, ios_per_s: UNLIMITED };

    #[inline]
    pub const fn is_none(self) -> bool {
        self.bytes_per_s == UNLIMITED && self.ios_per_s == UNLIMITED
    }
}

/// What [`Slice::trim`] removed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Trimmed {
    pub slices: u64,
    /// What these slices allowed, including the carry-over. If it is more than was sent, the
    /// difference is lost.
    pub bytes: i64,
    pub ios: i64,
}

/// One direction of a group.
#[derive(Copy, Clone, Debug)]
pub struct Slice {
    pub start: Ticks,
    pub end: Ticks,
    /// Sent since `start`.
    pub bytes: u64,
    pub ios: u64,
    /// Carry-over from a change of limits (negative: owed).
    pub carryover_bytes: i64,
    pub carryover_ios: i64,
}

impl Slice {
    pub const EMPTY: Slice = Slice { start: 0, end: 0, bytes: 0, ios: 0, carryover_bytes: 0, carryover_ios: 0 };

    /// Whether `now` lies outside the slice.
    #[inline]
    pub const fn is_used(&self, now: Ticks) -> bool {
        now < self.start || now > self.end
    }

    /// Starts a new slice; the carry-over of a change of limits is cleared only on request.
    pub const fn restart(&mut self, now: Ticks, clock: Clock, clears_carryover: bool) {
        self.bytes = 0;
        self.ios = 0;
        self.start = now;
        self.end = now.saturating_add(clock.slice);
        if clears_carryover {
            self.carryover_bytes = 0;
            self.carryover_ios = 0;
        }
    }

    /// Starts a new slice at the time at which the slice of the child began from which a bio came,
    /// because the bio has already waited there.
    pub const fn restart_with_credit(&mut self, child_start: Ticks, now: Ticks, clock: Clock) {
        self.bytes = 0;
        self.ios = 0;
        self.carryover_bytes = 0;
        self.carryover_ios = 0;
        if child_start >= self.start {
            self.start = child_start;
        }
        self.end = now.saturating_add(clock.slice);
    }

    /// Extends the slice to `until` at least. True if it ended earlier before.
    #[inline]
    pub const fn extend(&mut self, until: Ticks, clock: Clock) -> bool {
        let is_shorter = self.end < until;
        if is_shorter {
            self.end = clock.round_up(until);
        }
        is_shorter
    }

    /// How long a bio has to wait; 0 = it may go. `bytes` is `None` for a bio whose bytes are
    /// charged already.
    pub fn wait(&self, limit: Limit, bytes: Option<u64>, now: Ticks, clock: Clock) -> Ticks {
        match self.wait_for_bytes(limit.bytes_per_s, bytes, now, clock) {
            0 => self.wait_for_io(limit.ios_per_s, now, clock),
            // As in 6.1: while a bio waits for bytes, its wait for I/Os is not computed.
            wait => wait,
        }
    }

    fn wait_for_bytes(&self, per_second: u64, bytes: Option<u64>, now: Ticks, clock: Clock) -> Ticks {
        let Some(bytes) = bytes else { return 0 };
        if per_second == UNLIMITED {
            return 0;
        }
        let elapsed = now.saturating_sub(self.start);
        let span = if elapsed == 0 { clock.slice } else { clock.round_up(elapsed) };
        let allowed = signed(clock.allowed(per_second, span)).saturating_add(self.carryover_bytes);
        let extra = signed(self.bytes.saturating_add(bytes)).saturating_sub(allowed);
        if extra <= 0 {
            return 0;
        }
        let ticks = extra.unsigned_abs().saturating_mul(clock.hz).checked_div(per_second).unwrap_or(0);
        ticks.max(1).saturating_add(span.saturating_sub(elapsed))
    }

    fn wait_for_io(&self, per_second: u64, now: Ticks, clock: Clock) -> Ticks {
        if per_second == UNLIMITED {
            return 0;
        }
        let elapsed = now.saturating_sub(self.start);
        let span = clock.round_up(elapsed.saturating_add(1));
        let allowed = signed(clock.allowed_ios(per_second, span)).saturating_add(self.carryover_ios);
        if signed(self.ios.saturating_add(1)) <= allowed {
            return 0;
        }
        span.saturating_sub(elapsed).max(1)
    }

    /// Counts a bio that goes; `bytes` as for [`Slice::wait`].
    #[inline]
    pub const fn charge(&mut self, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        self.ios = self.ios.saturating_add(1);
    }

    /// Removes whole slices that have passed, and subtracts what they allowed from what was sent.
    /// Returns what they allowed.
    pub fn trim(&mut self, limit: Limit, now: Ticks, clock: Clock) -> Option<Trimmed> {
        if self.is_used(now) {
            return None;
        }
        self.end = clock.round_up(now.saturating_add(clock.slice));
        let elapsed = clock.round_down(now.saturating_sub(self.start));
        if elapsed == 0 {
            return None;
        }
        let bytes = signed(clock.allowed(limit.bytes_per_s, elapsed)).saturating_add(self.carryover_bytes);
        let ios = signed(clock.allowed_ios(limit.ios_per_s, elapsed)).saturating_add(self.carryover_ios);
        if bytes <= 0 && ios <= 0 {
            return None;
        }
        self.carryover_bytes = 0;
        self.carryover_ios = 0;
        self.bytes = less(self.bytes, bytes);
        self.ios = less(self.ios, ios);
        self.start = self.start.saturating_add(elapsed);
        Some(Trimmed { slices: elapsed.checked_div(clock.slice).unwrap_or(0), bytes, ios })
    }

    /// Called before the limits change: carries over the difference between what the old ones
    /// allowed until now and what was sent.
    pub fn carry_over(&mut self, old: Limit, now: Ticks, clock: Clock) {
        let elapsed = now.saturating_sub(self.start);
        if old.bytes_per_s != UNLIMITED {
            let left = signed(clock.allowed(old.bytes_per_s, elapsed)).saturating_sub(signed(self.bytes));
            self.carryover_bytes = self.carryover_bytes.saturating_add(left);
        }
        if old.ios_per_s != UNLIMITED {
            let left = signed(clock.allowed_ios(old.ios_per_s, elapsed)).saturating_sub(signed(self.ios));
            self.carryover_ios = self.carryover_ios.saturating_add(left);
        }
    }
}

#[inline]
const fn signed(value: u64) -> i64 {
    if value > i64::MAX as u64 { i64::MAX } else { value as i64 }
}

/// `value` less `by`, at least 0.
#[inline]
const fn less(value: u64, by: i64) -> u64 {
    if by <= 0 { value.saturating_add(by.unsigned_abs()) } else { value.saturating_sub(by.unsigned_abs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { hz: 1000, slice: 100 };

    fn bytes(per_second: u64) -> Limit {
        Limit { bytes_per_s: per_second, ..Limit::NONE }
    }

    #[test]
    fn a_rate_allows_its_part_of_a_second() {
        assert_eq!(CLOCK.allowed(1_048_576, 100), 104_857);
        assert_eq!(CLOCK.allowed(1_048_576, 2_500), 2_621_440);
        assert_eq!(CLOCK.allowed(u64::MAX - 1, 5_000), u64::MAX);
        assert_eq!(CLOCK.allowed(u64::MAX, 999), u64::MAX / 1_000 * 999 + 615 * 999 / 1_000);
    }

    /// docs/specifications/throttle.md, section 10, case 1.
    #[test]
    fn t01_the_26th_page_of_a_burst_waits_101_ticks() {
        let mut slice = Slice::EMPTY;
        slice.restart(0, CLOCK, true);
        for _ in 0..25 {
            assert_eq!(slice.wait(bytes(1_048_576), Some(4_096), 0, CLOCK), 0);
            slice.charge(Some(4_096));
        }
        assert_eq!(slice.wait(bytes(1_048_576), Some(4_096), 0, CLOCK), 101);
    }

    /// Case 4 of the same section: a bio longer than the allowance of a slice. 629146 x 1000 /
    /// 4194304 is slightly above 150 (the specification says 149).
    #[test]
    fn t04_a_large_bio_waits_for_what_it_exceeds() {
        let mut slice = Slice::EMPTY;
        slice.restart(0, CLOCK, true);
        assert_eq!(slice.wait(bytes(4 << 20), Some(1 << 20), 0, CLOCK), 250);
    }

    /// Case 13 of the same section: what was sent beyond the old limit is owed under the new one.
    #[test]
    fn t13_a_change_of_limits_carries_over() {
        let mut slice = Slice::EMPTY;
        slice.restart(0, CLOCK, true);
        slice.bytes = 102_400;
        slice.carry_over(bytes(1_048_576), 50, CLOCK);
        assert_eq!(slice.carryover_bytes, 52_428 - 102_400);
        slice.restart(50, CLOCK, false);
        let allowed = CLOCK.allowed(10_485_760, 100).cast_signed() + slice.carryover_bytes;
        assert_eq!(allowed, 998_604);
    }

    #[test]
    fn a_trim_keeps_no_more_than_one_slice() {
        let mut slice = Slice::EMPTY;
        slice.restart(0, CLOCK, true);
        slice.charge(Some(4_096));
        slice.extend(10_000, CLOCK);
        slice.trim(bytes(1_048_576), 9_950, CLOCK);
        assert_eq!((slice.start, slice.end, slice.bytes), (9_900, 10_100, 0));
    }
}
