//! `lat_us`: allows fewer requests in flight while more than a twentieth of the sync reads exceed
//! the bound in the device.

use hoistway_block::Nanos;

/// Windows with fewer sync reads than this are not judged.
const LEAST_READS: u32 = 64;
const SIXTEENTHS: u32 = 16;

/// The bound on requests in flight, and the reads it follows.
#[derive(Clone, Debug)]
pub struct LatencyGuard {
    /// The bound, in sixteenths of a request.
    most_q4: u32,
    reads: u32,
    late: u32,
}

impl LatencyGuard {
    /// No bound: as many requests as the device accepts.
    pub const NONE: LatencyGuard = LatencyGuard { most_q4: u32::MAX, reads: 0, late: 0 };

    #[inline]
    pub const fn is_full(&self, in_flight: u32) -> bool {
        in_flight >= self.most_q4 / SIXTEENTHS
    }

    /// A sync read was in the device for `stayed_ns`; `bound_ns` is not 0. After each window of
    /// reads the bound on requests in flight falls by an eighth if more than 5 % of them were late,
    /// and grows by a sixteenth (at least half a request) if less than 2 % were.
    pub fn learn(&mut self, stayed_ns: Nanos, bound_ns: Nanos, device_depth: u32) {
        let most = device_depth.saturating_mul(SIXTEENTHS);
        self.most_q4 = self.most_q4.min(most);
        self.reads = self.reads.wrapping_add(1);
        self.late = self.late.wrapping_add(u32::from(stayed_ns > bound_ns));
        if self.reads < LEAST_READS {
            return;
        }
        let percent = self.late.saturating_mul(100).checked_div(self.reads).unwrap_or(0);
        (self.reads, self.late) = (0, 0);
        if percent > 5 {
            self.most_q4 = (self.most_q4.saturating_mul(7) / 8).max(SIXTEENTHS);
        } else if percent < 2 {
            self.most_q4 = self.most_q4.saturating_add((self.most_q4 / 16).max(SIXTEENTHS / 2)).min(most);
        }
    }
}
