//! Rounds the floor over time: a floor of 3.4 requests is 3 for some periods and 4 for others.

use super::controller::REQUEST;
use hoistway_block::Nanos;

#[derive(Clone, Debug)]
pub struct Dither {
    /// Fraction of a request lost by rounding down so far.
    fraction_q8: u32,
    is_rounded_up: bool,
    until_ns: Nanos,
}

impl Dither {
    pub const NONE: Dither = Dither { fraction_q8: 0, is_rounded_up: false, until_ns: 0 };

    /// The floor in whole requests, constant for `period_ns`.
    pub fn round(&mut self, floor_q8: u32, now: Nanos, period_ns: Nanos) -> u32 {
        if now >= self.until_ns {
            self.fraction_q8 = (self.fraction_q8 % REQUEST).wrapping_add(floor_q8 % REQUEST);
            self.is_rounded_up = self.fraction_q8 >= REQUEST;
            self.until_ns = now.saturating_add(period_ns);
        }
        (floor_q8 / REQUEST).wrapping_add(u32::from(self.is_rounded_up))
    }
}
