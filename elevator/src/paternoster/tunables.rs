//! The three settings, and what share and throughput are counted in.

use crate::tunable::{OutOfRange, Unit};

crate::tunables! {
    /// What is in force. `give` -1 until it is set: 3 on flash, 100 where positioning costs time.
    pub struct Settings {
        /// Per cent of throughput that may be spent on shares.
        give: "give", Unit::Percent, 0..=100, 3, OutOfRange::Clamp,
            "Per cent of throughput that may be spent on exact shares: 0 = none is given up, 100 = exact whatever it costs.";
        /// Bound of the time that 95 % of sync reads spend in the device; 0 = none.
        lat_ns: "lat_us", Unit::Microseconds, 0..=10_000_000, 0, OutOfRange::Clamp,
            "So long at most 95 % of sync reads stay in the device, even at the cost of throughput; 0 = no bound.";
        /// What a share is a share of.
        fair: "fair", Unit::Choice(&["bytes", "iops"]), 0..=1, 0, OutOfRange::Refuse,
            "What is divided by weight: bytes (4 KiB at least for each request), or requests.";
        /// KiB that each request counts for beside its length when throughput is measured.
        work_kib: "work_kib", Unit::Kibibytes, 0..=64, 0, OutOfRange::Clamp,
            "KiB added to each request when throughput is measured: 0 = bytes alone, 4 favours small requests.";
    }
}
