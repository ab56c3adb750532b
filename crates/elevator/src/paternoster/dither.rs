//! Dithers the window: where it holds 3.4 requests, it holds 3 for some periods and 4 for others.

use hoistway_block::Nanos;

/// The golden ratio: multiples of it, without their whole parts, fill the unit interval as evenly as any
/// sequence (Knuth, The Art of Computer Programming, volume 3, 6.4), and no load keeps step with them.
const GOLDEN: u32 = 0x9E37_79B9;

/// What of a request must fit into the window for it to be dispatched, in 2^32nds; constant for a period.
#[derive(Clone, Debug)]
pub struct Dither {
    part: u32,
    until_ns: Nanos,
}

impl Dither {
    pub const NONE: Dither = Dither { part: 0, until_ns: 0 };

    /// What of a request of `request_bytes` must fit into the window.
    pub fn part_of(&mut self, request_bytes: u64, now: Nanos, period_ns: Nanos) -> u64 {
        if now >= self.until_ns {
            self.part = self.part.wrapping_add(GOLDEN);
            self.until_ns = now.saturating_add(period_ns);
        }
        request_bytes.saturating_mul(u64::from(self.part)) >> u32::BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_three_and_two_fifths_holds_four_in_two_of_five_periods() {
        let mut dither = Dither::NONE;
        let mut held = |period: u64| {
            let part_bytes = dither.part_of(10_000, period * 10, 10);
            (0..10).find(|n| n * 10_000 + part_bytes >= 34_000).expect("it is full")
        };
        for begin in 0..20 {
            let all: u64 = (0..50).map(|at| held(begin * 50 + at)).sum();
            assert!(all.abs_diff(170) <= 2, "{all} of 170");
        }
    }
}
