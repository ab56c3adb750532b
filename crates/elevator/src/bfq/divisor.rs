//! Division by a sum of weights: the sum changes less often than virtual time is divided by it.

/// A divisor that is used more often than it changes: the quotient then costs a multiplication.
#[derive(Copy, Clone, Debug)]
pub struct Divisor {
    value: u64,
    /// 2^64 divided by the value, rounded down.
    inverse: u64,
}

impl Divisor {
    pub const ZERO: Divisor = Divisor { value: 0, inverse: 0 };

    #[inline]
    pub const fn value(self) -> u64 {
        self.value
    }

    pub fn set(&mut self, value: u64) {
        self.value = value;
        self.inverse = u64::MAX.checked_div(value).unwrap_or(0);
    }

    /// The exact quotient; 0 while the value is 0.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half of a product of two halves")]
    pub fn quotient(self, dividend: u64) -> u64 {
        if self.value == 0 {
            return 0;
        }
        // The estimate is at most two too small, because `inverse` is less than one smaller than
        // the exact value.
        let mut quotient = ((u128::from(dividend) * u128::from(self.inverse)) >> 64) as u64;
        let mut rest = dividend.wrapping_sub(quotient.wrapping_mul(self.value));
        for _ in 0..2 {
            if rest >= self.value {
                quotient = quotient.wrapping_add(1);
                rest = rest.wrapping_sub(self.value);
            }
        }
        quotient
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoistway_block::random::Stream;

    #[test]
    fn a_quotient_by_inverse_is_exact() {
        let mut stream = Stream::of(1, "bfq/divisor");
        for bits in 0..64 {
            for _ in 0..200 {
                let (dividend, value) = (stream.next() >> (stream.below(64)), (stream.next() >> bits).max(1));
                let mut divisor = Divisor::ZERO;
                divisor.set(value);
                assert_eq!(divisor.quotient(dividend), dividend / value, "{dividend} / {value}");
            }
        }
        let mut one = Divisor::ZERO;
        one.set(1);
        assert_eq!((one.quotient(u64::MAX), Divisor::ZERO.quotient(7)), (u64::MAX, 0));
    }
}
