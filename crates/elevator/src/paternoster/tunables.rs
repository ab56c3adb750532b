//! The settings.

use crate::tunable::{OutOfRange, Unit};

/// The row of `give`.
pub const GIVE: usize = 0;

crate::tunables! {
    /// The values in force. Until `give` is set it is 3 on flash and 100 where positioning costs
    /// time.
    pub struct Settings {
        /// Per cent of throughput that may be spent on shares.
        give: "give", Unit::Percent, 0..=100, 3, OutOfRange::Clamp,
            "Per cent of throughput that may be spent on exact shares: 0 = none is given up, 100 = exact whatever it costs.";
        /// Bound on the time that 95 % of sync reads spend in the device; 0 = none.
        lat_ns: "lat_us", Unit::Microseconds, 0..=10_000_000, 0, OutOfRange::Clamp,
            "Upper bound on the time that 95 % of sync reads stay in the device, even at the cost of throughput; 0 \
            = no bound.";
        /// What shares are counted in: bytes or requests.
        fair: "fair", Unit::Choice(&["bytes", "iops"]), 0..=1, 0, OutOfRange::Refuse,
            "What is divided by weight: bytes (4 KiB at least for each request), or requests.";
        /// Length of an issuer's slice on a disk.
        slice_ns: "slice_ms", Unit::Milliseconds, 0..=1000, 100, OutOfRange::Clamp,
            "How long one issuer has a disk to itself where that is faster than serving all at once; 0 = never.";
        /// How long an empty issuer is waited for.
        idle_ns: "idle_ms", Unit::Milliseconds, 0..=50, 8, OutOfRange::Clamp,
            "How long a disk is idled for the next request of an issuer whose turn it is; 0 = never.";
    }
}
