//! The tunables of anticipatory.

use crate::tunable::{OutOfRange, Unit};

crate::tunables! {
    /// The tunables, under the kernel's names.
    pub struct Settings {
        /// Age at which a sync request is overdue.
        read_expire_ns: "read_expire", Unit::Milliseconds, 0..=2_147_483_647, 125, OutOfRange::Clamp,
            "A sync request older than this is dispatched first; checked once per such interval.";
        /// Age at which an async request is overdue.
        write_expire_ns: "write_expire", Unit::Milliseconds, 0..=2_147_483_647, 250, OutOfRange::Clamp,
            "The same for async requests.";
        /// Length of a batch of sync requests.
        read_batch_expire_ns: "read_batch_expire", Unit::Milliseconds, 0..=2_147_483_647, 500, OutOfRange::Clamp,
            "Length of a batch of sync requests while async ones wait.";
        /// Length of a batch of async requests.
        write_batch_expire_ns: "write_batch_expire", Unit::Milliseconds, 0..=2_147_483_647, 125, OutOfRange::Clamp,
            "Length of a batch of async requests while sync ones wait.";
        /// How long the device is idled for the next request of a process.
        antic_expire_ns: "antic_expire", Unit::Milliseconds, 0..=2_147_483_647, 6, OutOfRange::Clamp,
            "How long the device is idled for the next request of a process; 0 = never.";
    }
}
