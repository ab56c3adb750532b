//! What an epoch delivered, and what a held epoch and a reference epoch say together.

use super::controller::ONE;
use hoistway_block::Nanos;

/// Leaders are held only if those that lag gain more than one part in this many of what leaders lose.
const HELP_PRICE: i64 = 8;
/// What tenants that lag keep of what they would get with exact shares, whatever `give` says: one that
/// asks for less than its share is limited by latency, and room for it costs the others little.
const LEAST_KEPT: i64 = ONE * 3 / 5;

/// The results of an epoch.
#[derive(Copy, Clone, Debug)]
pub struct Epoch {
    /// Work done while a tenant led.
    pub work: Work,
    /// The part of it that was done for tenants that do not lead.
    pub lagging: Work,
    /// How long a tenant led.
    pub ns: Nanos,
    /// Length of the epoch from its start.
    pub length_ns: Nanos,
    /// Mean work in flight or about to return.
    pub window_bytes: u32,
    /// Tenants that are backlogged, in flight or expected back.
    pub tenants: u32,
    /// Part of the work went into the device's buffer for writes.
    pub is_buffered: bool,
}

/// Completed requests.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Work {
    pub sectors: u32,
    pub requests: u32,
}

impl Work {
    pub const NONE: Work = Work { sectors: 0, requests: 0 };

    pub const fn of(sectors: u32) -> Self {
        Self { sectors, requests: 1 }
    }

    /// No sum comes near 2 TiB: what is in flight, or is done in one epoch.
    #[inline]
    pub const fn add(&mut self, other: Work) {
        self.sectors = self.sectors.wrapping_add(other.sectors);
        self.requests = self.requests.wrapping_add(other.requests);
    }

    /// Takes away what was added before.
    #[inline]
    pub const fn remove(&mut self, other: Work) {
        self.sectors = self.sectors.wrapping_sub(other.sectors);
        self.requests = self.requests.wrapping_sub(other.requests);
    }

    /// In bytes, if a request costs `price_bytes` beside its bytes.
    pub const fn bytes(self, price_bytes: u32) -> u64 {
        // Neither product exceeds 2^41.
        ((self.sectors as u64) << 9).wrapping_add((self.requests as u64).wrapping_mul(price_bytes as u64))
    }

    /// Bytes per 2^24 ns.
    pub fn rate(self, ns: Nanos, price_bytes: u32) -> i64 {
        rate(self.bytes(price_bytes), ns)
    }

    /// Requests per 2^24 ns.
    pub fn requests_rate(self, ns: Nanos) -> i64 {
        rate(u64::from(self.requests), ns)
    }
}

impl Epoch {
    /// Mean work of a request.
    pub fn request_bytes(&self, price_bytes: u32) -> u32 {
        let mean = self.work.bytes(price_bytes).checked_div(u64::from(self.work.requests)).unwrap_or(0);
        u32::try_from(mean).unwrap_or(u32::MAX)
    }
}

#[derive(Copy, Clone, Debug)]
pub struct Sum {
    pub work: Work,
    pub lagging: Work,
    pub ns: Nanos,
}

impl Sum {
    pub const NONE: Sum = Sum { work: Work::NONE, lagging: Work::NONE, ns: 0 };

    pub const fn of(epoch: Epoch) -> Self {
        Self { work: epoch.work, lagging: epoch.lagging, ns: epoch.ns }
    }

    pub fn add(&mut self, epoch: Epoch) {
        self.work.add(epoch.work);
        self.lagging.add(epoch.lagging);
        self.ns = self.ns.saturating_add(epoch.ns);
    }

    pub fn and(mut self, other: Sum) -> Sum {
        self.work.add(other.work);
        self.lagging.add(other.lagging);
        self.ns = self.ns.saturating_add(other.ns);
        self
    }

    pub fn rate(self, price_bytes: u32) -> i64 {
        self.work.rate(self.ns, price_bytes)
    }

    /// By how much tenants that lag keep more than they must of what exact shares give them; negative if they keep
    /// less. In bytes, which do not change with the price.
    pub fn margin(self, exact_lagging_rate: i64) -> i64 {
        let rate = self.lagging_rate(0);
        rate.saturating_mul(ONE).checked_div(exact_lagging_rate).unwrap_or(ONE).saturating_sub(LEAST_KEPT)
    }

    /// What was done for tenants that do not lead.
    pub fn lagging_rate(self, price_bytes: u32) -> i64 {
        self.lagging.rate(self.ns, price_bytes)
    }
}

/// Rate in bytes per 2^24 ns.
fn rate(work: u64, ns: Nanos) -> i64 {
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
    pub fn of(held: Sum, reference: Sum, price_bytes: u32) -> Self {
        let rate = |sum: Sum| sum.rate(price_bytes);
        let lagging = |sum: Sum| sum.lagging_rate(price_bytes);
        let sum = rate(reference).saturating_add(rate(held));
        let over_mean = |rate: i64| rate.saturating_mul(2 * ONE).checked_div(sum).unwrap_or(0);
        let loss = over_mean(rate(reference).saturating_sub(rate(held)));
        let gain = over_mean(lagging(held).saturating_sub(lagging(reference)));
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

    fn sum(lagging: u32, others: u32) -> Sum {
        Sum { work: Work::of(lagging + others), lagging: Work::of(lagging), ns: 1 << 24 }
    }

    fn percent(ratio: i64) -> i64 {
        (ratio * 100 + ONE / 2) / ONE
    }

    #[test]
    fn holding_helps_if_laggards_gain_more_than_an_eighth_of_what_leaders_lose() {
        let reference = sum(100_000, 900_000);
        assert!(Effect::of(sum(111_000, 820_000), reference, 0).help > 0, "11 for 80");
        assert!(Effect::of(sum(109_000, 820_000), reference, 0).help < 0, "9 for 80");
        // A laggard whose own client is its limit gains nothing, and one that loses is not helped at all.
        assert!(Effect::of(sum(100_000, 700_000), reference, 0).help < 0);
        assert!(Effect::of(sum(80_000, 900_000), reference, 0).help < 0);
        assert_eq!(percent(Effect::of(sum(150_000, 700_000), reference, 0).loss), 16);
        assert_eq!(Effect::of(Sum::NONE, Sum::NONE, 0).loss, 0);
    }

    #[test]
    fn laggards_keep_three_fifths() {
        let exact = sum(100_000, 0).lagging_rate(0);
        for (got, is_enough) in [(61_000, true), (59_000, false), (200_000, true), (0, false)] {
            assert_eq!(sum(got, 1_000_000).margin(exact) >= 0, is_enough, "{got}");
        }
        assert!(sum(0, 1_000_000).margin(0) > 0, "nothing is known yet");
    }

    #[test]
    fn work_is_bytes_and_the_price_of_requests() {
        let of = |sectors, requests| Sum { work: Work { sectors, requests }, ..sum(0, 0) };
        // Sixteen small requests instead of a large one are as much work if a request costs 4 KiB.
        let (small, large) = (of(128, 16), of(248, 1));
        assert_eq!(percent(Effect::of(small, large, 4_096).loss), 0);
        assert!(percent(Effect::of(small, large, 0).loss) > 60);
    }
}
