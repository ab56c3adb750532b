//! What an epoch delivered, and what a held epoch and a reference epoch say together.

use super::controller::ONE;
use hoistway_block::Nanos;

/// Leaders are held only if those that lag gain more than one part in this many of what leaders lose.
const HELP_PRICE: i64 = 8;
/// The results of an epoch.
#[derive(Copy, Clone, Debug)]
pub struct Epoch {
    /// Work done while a tenant led, in bytes.
    pub work: u64,
    /// The part of it that was done for tenants that do not lead.
    pub lagging: u64,
    /// How long a tenant led.
    pub ns: Nanos,
    /// Length of the epoch from its start.
    pub length_ns: Nanos,
    /// Mean number of requests in flight.
    pub in_flight_q8: u32,
    /// Tenants that are backlogged, in flight or expected back.
    pub tenants: u32,
    /// Part of the work went into the device's buffer for writes.
    pub is_buffered: bool,
}

#[derive(Copy, Clone, Default, Debug)]
pub struct Sum {
    pub work: u64,
    pub lagging: u64,
    pub ns: Nanos,
}

impl Sum {
    pub const NONE: Sum = Sum { work: 0, lagging: 0, ns: 0 };

    pub fn add(&mut self, epoch: Epoch) {
        self.work = self.work.saturating_add(epoch.work);
        self.lagging = self.lagging.saturating_add(epoch.lagging);
        self.ns = self.ns.saturating_add(epoch.ns);
    }

    pub fn and(mut self, other: Sum) -> Sum {
        self.work = self.work.saturating_add(other.work);
        self.lagging = self.lagging.saturating_add(other.lagging);
        self.ns = self.ns.saturating_add(other.ns);
        self
    }

    pub fn rate(self) -> i64 {
        rate(self.work, self.ns)
    }

    /// What was done for tenants that do not lead.
    pub fn lagging_rate(self) -> i64 {
        rate(self.lagging, self.ns)
    }
}

/// Rate in bytes per 2^24 ns.
pub fn rate(work: u64, ns: Nanos) -> i64 {
    let rate = (work.min(1 << 39) << 24).checked_div(ns).unwrap_or(0);
    i64::try_from(rate.min(1 << 44)).unwrap_or(0)
}

/// What holding the tenants that lead does, from a held epoch and a reference epoch.
#[derive(Copy, Clone, Debug)]
pub struct Effect {
    /// The throughput that is lost, as the difference of two rates over their mean.
    pub loss: i64,
    /// What tenants that lag gain, less an eighth of what the others lose; in the same unit.
    pub help: i64,
}

impl Effect {
    pub fn of(held: Sum, reference: Sum) -> Self {
        let sum = reference.rate().saturating_add(held.rate());
        let over_mean = |rate: i64| rate.saturating_mul(2 * ONE).checked_div(sum).unwrap_or(0);
        let loss = over_mean(reference.rate().saturating_sub(held.rate()));
        let gain = over_mean(held.lagging_rate().saturating_sub(reference.lagging_rate()));
        let help = gain.saturating_sub(loss.saturating_add(gain) / HELP_PRICE);
        Self { loss, help }
    }

    pub const fn loss_percent(&self) -> i64 {
        self.loss.saturating_mul(100) / ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(lagging: u64, others: u64) -> Sum {
        Sum { work: lagging + others, lagging, ns: 1 << 24 }
    }

    fn percent(ratio: i64) -> i64 {
        (ratio * 100 + ONE / 2) / ONE
    }

    #[test]
    fn holding_helps_if_laggards_gain_more_than_an_eighth_of_what_leaders_lose() {
        let reference = sum(100_000, 900_000);
        assert!(Effect::of(sum(111_000, 820_000), reference).help > 0, "11 for 80");
        assert!(Effect::of(sum(109_000, 820_000), reference).help < 0, "9 for 80");
        // A laggard whose own client is its limit gains nothing, and one that loses is not helped at all.
        assert!(Effect::of(sum(100_000, 700_000), reference).help < 0);
        assert!(Effect::of(sum(80_000, 900_000), reference).help < 0);
        assert_eq!(percent(Effect::of(sum(150_000, 700_000), reference).loss), 16);
        assert_eq!(Effect::of(Sum::NONE, Sum::NONE).loss, 0);
    }
}
