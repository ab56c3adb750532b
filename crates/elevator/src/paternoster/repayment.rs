//! What leaders got in a reference epoch is repaid evenly over the repaying period, and the rest is forgiven.

use block::Nanos;

#[derive(Clone, Debug)]
pub struct Repayment {
    /// The farthest that anybody led in the last reference, in virtual time.
    owed: u64,
    is_forgiven: bool,
}

impl Repayment {
    pub const NONE: Repayment = Repayment { owed: 0, is_forgiven: false };

    pub fn lends(&mut self, lead: u64) {
        self.owed = self.owed.max(lead);
    }

    /// The lead that is allowed after `past_ns` of `length_ns`. It shrinks to zero.
    pub fn allowed(&self, past_ns: Nanos, length_ns: Nanos) -> u64 {
        let left_ns = length_ns.saturating_sub(past_ns);
        let parts = (left_ns << 10).checked_div(length_ns).unwrap_or(0);
        (self.owed >> 10).saturating_mul(parts)
    }

    /// The period is over.
    pub const fn end(&mut self) {
        (self.is_forgiven, self.owed) = (self.owed > 0, 0);
    }

    /// Whether there is a rest to forgive; once.
    pub const fn forgive(&mut self) -> bool {
        core::mem::replace(&mut self.is_forgiven, false)
    }
}
