//! One limit as a debt: what passes is owed, and paid off at the rate.
//!
//! A bio may go when nothing is owed, however large it is; then it owes its own amount. While nothing
//! wants to go, up to `burst` is saved up. So in any time t at most rate x (t + burst) and one bio pass,
//! and while bios wait, at least rate x t less one bio. Debts are kept as the time when they are paid off,
//! and a remainder, so that no rounding adds up. This is the generic cell rate algorithm (ITU-T I.371).

use hoistway_block::Nanos;

/// A rate that means "no limit".
pub const UNLIMITED: u64 = u64::MAX;
const SECOND: u64 = 1_000_000_000;
/// Rates from this one on are computed with fewer digits, so that products fit: an error below 1 in 2^32.
const EXACT_BELOW: u64 = 1 << 34;

/// One limit of one group.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Amount per second.
    per_second: u64,
    /// When nothing is owed any more.
    paid_at: Nanos,
    /// What is owed beyond `paid_at`, in parts of a nanosecond: a numerator over `per_second`.
    rest: u64,
}

impl Bucket {
    pub const NONE: Bucket = Bucket { per_second: UNLIMITED, paid_at: 0, rest: 0 };

    /// Whether there is a limit.
    #[inline]
    pub const fn is_limit(&self) -> bool {
        self.per_second != UNLIMITED
    }

    /// When the next bio may go.
    #[inline]
    pub const fn paid_at(&self) -> Nanos {
        self.paid_at
    }

    /// Counts an amount that goes now.
    #[inline]
    pub const fn charge(&mut self, amount: u64, burst_ns: Nanos, now: Nanos) {
        if !self.is_limit() || amount == 0 {
            return;
        }
        let since = now.saturating_sub(burst_ns);
        if self.paid_at < since {
            self.paid_at = since;
            self.rest = 0;
        }
        self.owe(amount);
    }

    const fn owe(&mut self, amount: u64) {
        // Digits are dropped from both, so that their ratio stays.
        let (mut amount, mut rate) = (amount, self.per_second);
        while rate >= EXACT_BELOW {
            amount = amount.div_ceil(2);
            rate >>= 1;
        }
        let (Some(seconds), Some(below)) = (amount.checked_div(rate), amount.checked_rem(rate)) else { return };
        let parts = below.saturating_mul(SECOND).saturating_add(self.rest);
        let (Some(ns), Some(rest)) = (parts.checked_div(rate), parts.checked_rem(rate)) else { return };
        self.rest = rest;
        self.paid_at = self.paid_at.saturating_add(seconds.saturating_mul(SECOND)).saturating_add(ns);
    }

    /// Changes the rate. What is owed under the old one is paid off at the new one.
    pub const fn set(&mut self, per_second: u64, now: Nanos) {
        let owed = if self.is_limit() { amount_of(self.per_second, self.paid_at.saturating_sub(now)) } else { 0 };
        *self = Bucket { per_second, paid_at: if owed == 0 { self.paid_at } else { now }, rest: 0 };
        if !self.is_limit() {
            self.paid_at = 0;
        } else if owed > 0 {
            self.owe(owed);
        }
    }
}

/// What a rate gives in a time, rounded down.
const fn amount_of(per_second: u64, ns: Nanos) -> u64 {
    let (mut rate, mut scale) = (per_second, 0u32);
    while rate >= EXACT_BELOW {
        rate >>= 1;
        scale = scale.wrapping_add(1);
    }
    let (seconds, below) = (ns / SECOND, ns % SECOND);
    let part = rate.saturating_mul(below) / SECOND;
    per_second.saturating_mul(seconds).saturating_add(part << (scale & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_are_paid_off_at_the_rate_without_rounding() {
        let mut bucket = Bucket::NONE;
        bucket.set(3, 0);
        for count in 1..=3_000_000u64 {
            bucket.charge(1, 0, bucket.paid_at());
            assert_eq!(bucket.paid_at(), count * SECOND / 3);
        }
    }

    #[test]
    fn what_was_not_used_is_saved_up_to_the_burst() {
        let mut bucket = Bucket::NONE;
        bucket.set(10, 0);
        let later = 100 * SECOND;
        let mut count = 0;
        while bucket.paid_at() <= later {
            bucket.charge(1, SECOND, later);
            count += 1;
        }
        assert_eq!(count, 11, "a second's worth and one");
    }

    #[test]
    fn a_change_carries_the_debt_over() {
        let mut bucket = Bucket::NONE;
        bucket.set(10, 0);
        bucket.charge(100, 0, SECOND);
        assert_eq!(bucket.paid_at(), 11 * SECOND);
        bucket.set(1_000, SECOND);
        assert_eq!(bucket.paid_at(), SECOND + SECOND / 10);
        bucket.set(UNLIMITED, SECOND);
        assert_eq!(bucket.paid_at(), 0);
        bucket.set(1, SECOND);
        assert_eq!(bucket.paid_at(), 0);
    }

    #[test]
    fn no_rate_or_amount_overflows() {
        for rate in [1, 2, EXACT_BELOW - 1, EXACT_BELOW, 1 << 50, u64::MAX - 1] {
            for amount in [1, 512, u64::from(u32::MAX), u64::MAX] {
                let mut bucket = Bucket::NONE;
                bucket.set(rate, 0);
                bucket.charge(amount, 0, 0);
                let exact = u128::from(amount) * u128::from(SECOND) / u128::from(rate);
                let got = u128::from(bucket.paid_at());
                let most = exact + exact / (1 << 31) + 1_000_000_000;
                assert!(
                    got >= exact.min(u128::from(u64::MAX)) && got <= most,
                    "{amount} at {rate}: {got}, exact {exact}"
                );
                bucket.set(7, 1);
                bucket.set(u64::MAX - 1, 2);
            }
        }
    }
}
