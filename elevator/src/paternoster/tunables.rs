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
        /// One at a time: how long.
        slice_ns: "slice_ms", Unit::Milliseconds, 1..=1000, 100, OutOfRange::Clamp,
            "How long one issuer has a disk while it is given to one at a time.";
        /// One at a time: how long an empty one is waited for.
        idle_ns: "idle_ms", Unit::Milliseconds, 0..=50, 8, OutOfRange::Clamp,
            "How long a disk is kept for the next request of the issuer that has it; 0 = never.";
        /// Which way disks are used.
        cabins: "cabins", Unit::Choice(&["auto", "one", "flow"]), 0..=2, 0, OutOfRange::Refuse,
            "How a disk is used: one issuer at a time, all at once (flow), or whichever gives more; flash is always used in flow unless one is set.";
    }
}
