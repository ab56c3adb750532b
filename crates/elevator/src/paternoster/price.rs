//! What a request costs the device beside its bytes, learned from what it delivers: with a narrower window it
//! cannot deliver more work. Where it then delivers more requests and fewer bytes, the price of a request is at
//! most the bytes that are lost for each request that is gained.

use super::epoch::Sum;

/// The price before anything is known: a small request costs twice its bytes, which no calibrated flash model exceeds.
pub const MOST_BYTES: u32 = 4096;
/// Pairs of epochs before their rates tell the price.
const LEAST_PAIRS: i32 = 4;
/// Requests must become more frequent by one part in this many: rates of short epochs differ by a few per cent by
/// chance.
const MORE_REQUESTS: i32 = 8;

/// The price, and what pairs of epochs with the present window say of it.
#[derive(Clone, Debug)]
pub struct Price {
    bytes: u32,
    pairs: i32,
    /// Sums over pairs of rates: bytes lost, requests gained, and requests of the references.
    lost_sectors: i32,
    gained: i32,
    requests: i32,
}

impl Price {
    pub const UNKNOWN: Price = Price { bytes: MOST_BYTES, pairs: 0, lost_sectors: 0, gained: 0, requests: 0 };

    /// At most [`MOST_BYTES`].
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// From now on another window is compared.
    pub const fn forget_pairs(&mut self) {
        *self = Price { bytes: self.bytes, ..Price::UNKNOWN };
    }

    /// An epoch with the window, and a reference epoch, which has a wider one.
    pub fn learn(&mut self, held: Sum, reference: Sum) {
        let rate = |of: fn(Sum) -> i64, sum| i32::try_from(of(sum)).unwrap_or(i32::MAX);
        let requests = |sum| rate(|sum| sum.work.requests_rate(sum.ns), sum);
        let sectors = |sum| rate(|sum| sum.work.rate(sum.ns, 0) >> 9, sum);
        self.pairs = self.pairs.saturating_add(1);
        self.lost_sectors = self.lost_sectors.saturating_add(sectors(reference)).saturating_sub(sectors(held));
        self.gained = self.gained.saturating_add(requests(held)).saturating_sub(requests(reference));
        self.requests = self.requests.saturating_add(requests(reference));
        if self.pairs >= LEAST_PAIRS && self.lost_sectors > 0 && self.gained > self.requests / MORE_REQUESTS {
            let most_bytes =
                (i64::from(self.lost_sectors) << 9).checked_div(i64::from(self.gained)).unwrap_or(i64::MAX);
            self.bytes = self.bytes.min(u32::try_from(most_bytes).unwrap_or(MOST_BYTES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paternoster::epoch::Work;

    /// What a device does in 2^24 ns if its requests cost `price` beside their bytes: 256 KiB requests with a
    /// wide window, 4 KiB requests beside half of them with a narrow one.
    fn pair(price: u64, capacity: u64) -> (Sum, Sum) {
        let of = |bytes: u64, requests: u64| {
            let narrow = |number: u64| u32::try_from(number).expect("small");
            Sum { work: Work { sectors: narrow(bytes >> 9), requests: narrow(requests) }, ..Sum::NONE }
        };
        let of = |bytes, requests| Sum { ns: 1 << 24, ..of(bytes, requests) };
        let large = capacity / (262_144 + price);
        let small = (capacity / 2) / (4_096 + price);
        (of(large / 2 * 262_144 + small * 4_096, large / 2 + small), of(large * 262_144, large))
    }

    #[test]
    fn the_price_of_a_device_is_found() {
        for price in [200, 1_000, 2_000, 3_900] {
            let mut learned = Price::UNKNOWN;
            let (held, reference) = pair(price, 1 << 30);
            (0..LEAST_PAIRS).for_each(|_| learned.learn(held, reference));
            assert!(u64::from(learned.bytes()).abs_diff(price) < 50, "{price}: {learned:?}");
        }
    }

    #[test]
    fn equal_requests_say_nothing_of_the_price_and_a_slower_device_does_not_raise_it() {
        let mut price = Price::UNKNOWN;
        let of = |requests| Sum { work: Work { sectors: requests * 8, requests }, ns: 1 << 24, ..Sum::NONE };
        (0..9).for_each(|_| price.learn(of(10_000), of(12_000)));
        (0..9).for_each(|_| price.learn(of(12_000), of(10_000)));
        assert_eq!(price.bytes(), MOST_BYTES);
        let (held, reference) = pair(500, 1 << 30);
        price.forget_pairs();
        (0..LEAST_PAIRS).for_each(|_| price.learn(held, reference));
        let found = price.bytes();
        let (held, reference) = pair(3_000, 1 << 28);
        price.forget_pairs();
        (0..LEAST_PAIRS).for_each(|_| price.learn(held, reference));
        assert!(found < 600 && price.bytes() == found, "{found}: {price:?}");
    }
}
