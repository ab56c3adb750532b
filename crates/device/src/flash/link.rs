//! The host link: one transfer at a time, in each direction if it is duplex.

use super::parameters::FlashController;
use crate::rate::Rate;
use hoistway_block::Nanos;

const TO_DEVICE: usize = 0;

/// When the link becomes free.
#[derive(Clone, Debug)]
pub(super) struct Link {
    rate: Rate,
    /// To the device and to the host; a half-duplex link uses only the first.
    free_at: [Nanos; 2],
    to_host: usize,
}

impl Link {
    pub(super) fn new(controller: &FlashController) -> Self {
        let to_host = usize::from(controller.duplex != 0);
        Self { rate: Rate::of_kb_per_s(controller.link_kb_per_s), free_at: [0; 2], to_host }
    }

    /// Reserves it for a transfer to the device; returns the transfer's end.
    #[inline]
    pub(super) fn send_to_device(&mut self, ready: Nanos, sectors: u32) -> Nanos {
        self.reserve(ready, TO_DEVICE, sectors)
    }

    /// Reserves it for a transfer to the host; returns the transfer's end.
    #[inline]
    pub(super) fn send_to_host(&mut self, ready: Nanos, sectors: u32) -> Nanos {
        self.reserve(ready, self.to_host, sectors)
    }

    #[inline]
    fn reserve(&mut self, ready: Nanos, direction: usize, sectors: u32) -> Nanos {
        let free_at = &mut self.free_at[direction];
        *free_at = ready.max(*free_at) + self.rate.transfer_ns(sectors);
        *free_at
    }

    /// Its transfers are dropped at `now`.
    pub(super) fn reset(&mut self, now: Nanos) {
        self.free_at = [now; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlashParameters;

    #[test]
    fn only_a_duplex_link_carries_both_directions_at_a_time() {
        for (duplex, sent_at) in [(0, [1_000, 2_000, 3_000]), (1, [1_000, 1_000, 2_000])] {
            // 512 bytes in a microsecond.
            let mut link = Link::new(
                &FlashParameters::default()
                    .with(|flash| {
                        flash.controller.duplex = duplex;
                        flash.controller.link_kb_per_s = 512_000;
                    })
                    .controller,
            );
            let sent = [link.send_to_device(0, 1), link.send_to_host(0, 1), link.send_to_host(500, 1)];
            assert_eq!(sent, sent_at, "duplex {duplex}");
            link.reset(10_000);
            assert_eq!(link.send_to_host(0, 1), 11_000);
        }
    }
}
