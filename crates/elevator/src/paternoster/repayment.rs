//! In a reference epoch tenants that lead are not held back. The lead that they gain is repaid in
//! the period after it: the allowed lead shrinks evenly to zero. A lead that is left at the end is
//! forgiven.

use hoistway_block::Nanos;

#[derive(Clone, Debug)]
pub struct Repayment {
    /// The largest lead of any tenant in the last reference epoch, in virtual time.
    owed: u64,
    is_forgiven: bool,
}

impl Repayment {
    pub const NONE: Repayment = Repayment { owed: 0, is_forgiven: false };

    pub fn record_lead(&mut self, lead: u64) {
        self.owed = self.owed.max(lead);
    }

    /// The lead allowed `past_ns` into a period of `length_ns`. It shrinks to zero.
    pub fn allowed(&self, past_ns: Nanos, length_ns: Nanos) -> u64 {
        let left_ns = length_ns.saturating_sub(past_ns);
        let parts = (left_ns << 10).checked_div(length_ns).unwrap_or(0);
        (self.owed >> 10).saturating_mul(parts)
    }

    /// Ends the period.
    pub const fn end(&mut self) {
        (self.is_forgiven, self.owed) = (self.owed > 0, 0);
    }

    /// Whether there is a rest to forgive; true once.
    pub const fn forgive(&mut self) -> bool {
        core::mem::replace(&mut self.is_forgiven, false)
    }
}
