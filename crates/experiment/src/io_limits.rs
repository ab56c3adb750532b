//! A group's limits in the form that queues and their limiters take.

use hoistway_block::time::MILLISECOND;
use hoistway_elevator::{Ceiling, Ceilings, IoLimits, Rates};

use crate::GROUP_LIMITER;
use crate::group::Limits;

impl Limits {
    /// The limits for a queue whose maximum rates are enforced by the limiter `rates_by`. With [`GROUP_LIMITER`]
    /// there are no totals and no burst: the kernel's throttling has none.
    pub fn io_limits(&self, rates_by: &str) -> IoLimits {
        let max = Rates { bytes_per_s: self.bytes_per_s(), ios_per_s: self.ios_per_s() };
        let by_throttle = IoLimits {
            max,
            low: self.low_rates(&max),
            idle_us: self.low.idle_us,
            latency_us: self.low.latency_us.unwrap_or(u64::MAX),
            ..IoLimits::NONE
        };
        if rates_by == GROUP_LIMITER {
            return by_throttle;
        }
        IoLimits { ceilings: self.ceilings(), max: Rates::UNLIMITED, ..by_throttle }
    }

    /// Best-effort limits; one above the maximum counts as the maximum (`tg_set_limit` in block/blk-throttle.c).
    fn low_rates(&self, max: &Rates) -> Rates {
        let [bytes_read, bytes_written] = self.low.bytes_per_s();
        let [reads, writes] = self.low.ios_per_s();
        Rates {
            bytes_per_s: [bytes_read.min(max.bytes_per_s[0]), bytes_written.min(max.bytes_per_s[1])],
            ios_per_s: [reads.min(max.ios_per_s[0]), writes.min(max.ios_per_s[1])],
        }
    }

    fn ceilings(&self) -> Ceilings {
        let ceiling = |bytes_per_s: Option<u64>, ios_per_s: Option<u64>| Ceiling {
            bytes_per_s: bytes_per_s.unwrap_or(u64::MAX).max(1),
            ios_per_s: ios_per_s.unwrap_or(u64::MAX).max(1),
        };
        Ceilings {
            read: ceiling(self.read_bytes_per_s, self.read_ios_per_s),
            write: ceiling(self.write_bytes_per_s, self.write_ios_per_s),
            total: ceiling(self.total_bytes_per_s, self.total_ios_per_s),
            burst_ns: self.burst_ms.map_or(Ceilings::NONE.burst_ns, |ms| ms.saturating_mul(MILLISECOND)),
        }
    }
}
