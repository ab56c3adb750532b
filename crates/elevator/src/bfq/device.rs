//! What BFQ knows of the device: its kind, what it holds, and whether it queues commands.

use crate::interface::Configuration;

/// With at least one more request than this, queued or in the device, a completion is a sample of
/// the device's depth.
pub const TOO_FEW: u32 = 3;
/// Completions sampled before it is decided whether the device reorders.
const SAMPLES: u32 = 32;

/// The device.
///
/// Invariants: `deepest` is the largest `in_driver` since the last decision; on a rotational device `flash_queues` is
/// false from the first decision on.
#[derive(Debug)]
pub struct Device {
    is_rotational: bool,
    /// `nr_requests`.
    tags: u32,
    /// Requests in flight.
    in_driver: u32,
    /// Whether the device queues commands; `None` counts as yes (Q1).
    queues: Option<bool>,
    /// Flash that queues commands (`nonrot_with_queueing`).
    flash_queues: bool,
    deepest: u32,
    samples: u32,
}

impl Device {
    #[inline(always)]
    pub fn new(configuration: &Configuration) -> Self {
        let (is_rotational, tags) = (configuration.rotational, configuration.depth.requests);
        let flash_queues = !is_rotational;
        Self { is_rotational, tags, in_driver: 0, queues: None, flash_queues, deepest: 0, samples: 0 }
    }

    #[inline]
    pub fn is_rotational(&self) -> bool {
        self.is_rotational
    }

    #[inline]
    pub fn tags(&self) -> u32 {
        self.tags
    }

    pub fn set_tags(&mut self, tags: u32) {
        self.tags = tags;
    }

    /// Whether the device queues commands; unknown counts as yes (quirk Q1 of docs/specifications/bfq.md).
    #[inline]
    pub fn queues(&self) -> bool {
        self.queues != Some(false)
    }

    /// Whether it is flash that queues commands.
    #[inline]
    pub fn flash_queues(&self) -> bool {
        self.flash_queues
    }

    // ---- requests in flight ----

    #[inline]
    pub fn in_driver(&self) -> u32 {
        self.in_driver
    }

    #[inline]
    pub fn enter(&mut self) {
        self.in_driver = self.in_driver.wrapping_add(1);
    }

    #[inline]
    pub fn leave(&mut self) {
        self.in_driver = self.in_driver.saturating_sub(1);
    }

    /// The largest number in flight since it was last decided whether the device queues.
    #[inline]
    pub fn deepest(&self) -> u32 {
        self.deepest
    }

    // ---- whether it queues commands ----

    /// A request is about to leave, while `queued` wait. Whether [`Device::sample`] may learn from it.
    #[inline(always)]
    pub fn sees(&mut self, queued: u32) -> bool {
        self.deepest = self.deepest.max(self.in_driver);
        self.queues != Some(true) && self.in_driver.wrapping_add(queued) > TOO_FEW
    }

    /// Counts a sample; after enough of them, decides by whether more than `above` requests were in flight at a time.
    #[inline(always)]
    pub fn sample(&mut self, above: u8) {
        let seen = self.samples;
        self.samples = seen.wrapping_add(1);
        if seen < SAMPLES {
            return;
        }
        let queues = self.deepest > u32::from(above);
        self.queues = Some(queues);
        (self.deepest, self.samples) = (0, 0);
        self.flash_queues = !self.is_rotational && queues;
    }

    /// For tests.
    #[cfg(test)]
    pub fn decide(&mut self, queues: Option<bool>, flash_queues: bool) {
        (self.queues, self.flash_queues) = (queues, flash_queues);
    }

    /// For tests.
    #[cfg(test)]
    pub fn decided(&self) -> (Option<bool>, bool) {
        (self.queues, self.flash_queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_never_holds_many_does_not_queue() {
        let mut device = Device::new(&Configuration { rotational: false, ..Configuration::default() });
        device.enter();
        for n in 0..=SAMPLES {
            assert!(device.sees(3) && !device.sees(2) && device.queues(), "sample {n}");
            device.sample(3);
        }
        assert_eq!((device.queues(), device.flash_queues(), device.deepest()), (false, false, 0));
        for _ in 0..4 {
            device.enter();
        }
        for _ in 0..=SAMPLES {
            assert!(device.sees(0));
            device.sample(3);
        }
        device.leave();
        assert_eq!((device.queues(), device.flash_queues(), device.in_driver()), (true, true, 4));
        assert!(!device.sees(100), "it is known");
    }
}
