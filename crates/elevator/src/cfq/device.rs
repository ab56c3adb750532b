//! What CFQ knows of the device: its kind, what the driver holds, where the head is, and whether it queues commands.

/// A device with fewer requests at a time than this does not reorder.
pub const QUEUEING_FROM: u32 = 5;
/// Completions sampled before it is decided whether the device reorders.
const SAMPLES: u32 = 50;

/// The device.
///
/// Invariant: once found to queue commands, it counts as such for good.
#[derive(Debug)]
pub struct Device {
    is_rotational: bool,
    /// Requests that the driver holds.
    in_driver: u32,
    last_sector: u64,
    /// Whether the device queues commands; `None` counts as yes (Q2).
    queues: Option<bool>,
    deepest: u32,
    samples: u32,
}

impl Device {
    #[inline(always)]
    pub const fn new(is_rotational: bool, queues: Option<bool>) -> Self {
        Self { is_rotational, in_driver: 0, last_sector: 0, queues, deepest: 0, samples: 0 }
    }

    #[inline]
    pub fn is_rotational(&self) -> bool {
        self.is_rotational
    }

    #[inline]
    pub fn in_driver(&self) -> u32 {
        self.in_driver
    }

    /// The end of the last request that the driver took.
    #[inline]
    pub fn last_sector(&self) -> u64 {
        self.last_sector
    }

    /// The driver takes a request that ends at this sector.
    #[inline]
    pub fn enter(&mut self, end: u64) {
        self.in_driver = self.in_driver.wrapping_add(1);
        self.last_sector = end;
    }

    /// The driver gives one back.
    #[inline]
    pub fn leave(&mut self) {
        self.in_driver = self.in_driver.wrapping_sub(1);
    }

    /// Whether the device is known to queue commands.
    #[inline]
    pub fn surely_queues(&self) -> bool {
        self.queues == Some(true)
    }

    /// Whether the device queues commands; unknown counts as yes.
    #[inline]
    pub fn may_queue(&self) -> bool {
        self.queues != Some(false)
    }

    /// CFQ of 2.6.26: a device that takes enough requests at a time queues commands.
    #[inline]
    pub fn judge_by_driver(&mut self) {
        if self.in_driver >= QUEUEING_FROM {
            self.queues = Some(true);
        }
    }

    /// A request is about to leave, while `queued` wait. Whether [`Device::sample`] may learn from it: only while
    /// enough requests are queued or in flight.
    #[inline(always)]
    pub fn sees(&mut self, queued: u32) -> bool {
        self.deepest = self.deepest.max(self.in_driver);
        !self.surely_queues() && (queued > QUEUEING_FROM || self.in_driver > QUEUEING_FROM)
    }

    /// Counts a sample; after enough of them, decides.
    #[inline(always)]
    pub fn sample(&mut self) {
        if self.samples < SAMPLES {
            self.samples += 1;
            return;
        }
        self.queues = Some(self.deepest >= QUEUEING_FROM);
    }

    /// For tests: `in_driver` requests are in the driver.
    #[cfg(test)]
    pub fn hold(&mut self, in_driver: u32) {
        self.in_driver = in_driver;
    }

    /// For tests.
    #[cfg(test)]
    pub fn decided(&self) -> Option<bool> {
        self.queues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_judged_by_the_most_that_it_held() {
        let mut device = Device::new(true, None);
        for sector in [8, 16, 24, 32, 40, 48] {
            device.enter(sector);
        }
        assert_eq!(
            (device.last_sector(), device.sees(0), device.may_queue(), device.surely_queues()),
            (48, true, true, false)
        );
        (0..=SAMPLES).for_each(|_| device.sample());
        assert!(device.surely_queues() && !device.sees(100), "for good");
    }
}
