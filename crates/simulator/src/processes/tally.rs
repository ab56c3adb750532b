//! The order of a run's completions, as a checksum, and the device's share of their time.

use hoistway_block::random::{fnv1a64, fnv1a64_continued};
use hoistway_block::{Nanos, Status};

/// What completions are told to. Time in the device is counted once, however many requests are there.
#[derive(Debug)]
pub(super) struct Tally {
    checksum: Option<u64>,
    /// When the device last completed anything: a request's time in the device counts from there if
    /// it waited in the device behind others.
    device_free_at: Nanos,
}

impl Tally {
    pub(super) fn new(has_checksum: bool) -> Self {
        Self { checksum: has_checksum.then(|| fnv1a64(b"")), device_free_at: 0 }
    }

    /// The device completed a request that it got at `issued_ns`; 0 = it never got it. Returns the
    /// time that the device spent on it.
    #[inline]
    pub(super) fn device_ns(&mut self, issued_ns: Nanos, now: Nanos) -> Nanos {
        let device_ns = now.saturating_sub(issued_ns.max(self.device_free_at));
        self.device_free_at = now;
        if issued_ns == 0 { 0 } else { device_ns }
    }

    /// A process sees the end of an I/O.
    #[inline]
    pub(super) fn completed(&mut self, io: u32, status: Status, now: Nanos) {
        if let Some(checksum) = &mut self.checksum {
            for value in [now, u64::from(io), status as u64] {
                *checksum = fnv1a64_continued(*checksum, &value.to_le_bytes());
            }
        }
    }

    /// FNV-1a over time, number and status of every completion so far, if enabled.
    pub(super) fn checksum(&self) -> Option<u64> {
        self.checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_the_device_does_not_count_twice() {
        let mut tally = Tally::new(false);
        assert_eq!(tally.device_ns(100, 150), 50);
        assert_eq!(tally.device_ns(110, 180), 30, "it waited behind the first until 150");
        assert_eq!(tally.device_ns(0, 190), 0, "it never was in the device");
        assert_eq!(tally.device_ns(200, 220), 20);
    }
}
