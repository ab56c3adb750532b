//! mqfq: issuers with requests in flight count as well, and no issuer is served that leads the one
//! furthest behind by more than `lead`.

use super::Rule;
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::Nanos;

crate::tunables! {
    /// The tunables' values.
    pub struct Settings {
        /// The threshold T of MQFQ: by how many sectors an issuer may lead.
        lead_sectors: "lead", Unit::Sectors, 0..=1_048_576, 0, OutOfRange::Clamp,
            "Largest lead of a tenant of weight 100 over the one furthest behind, in sectors; 0 = strict.";
        /// How long an issuer without requests is expected to send another one.
        wait_ns: "wait_us", Unit::Microseconds, 0..=1_000_000, 100, OutOfRange::Clamp,
            "How long the device waits for a tenant whose last request has just completed.";
        /// Charge for every request in addition to its sectors.
        request_cost_sectors: "request_cost", Unit::Sectors, 0..=1_048_576, 0, OutOfRange::Refuse,
            "Sectors charged for every request beside its own; 0 shares bytes, a large number shares requests.";
    }
}

/// The threshold of MQFQ.
#[derive(Debug)]
pub struct Strict(Settings);

impl Rule for Strict {
    const IS_STRICT: bool = true;
    const ROWS: &'static [Tunable] = Settings::ROWS;

    fn new() -> Self {
        Self(Settings::DEFAULT)
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.0.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.0.set(index, value)
    }

    fn request_cost_sectors(&self) -> u64 {
        self.0.request_cost_sectors.unsigned_abs()
    }

    fn limit(&self, device_depth: u32) -> u32 {
        device_depth
    }

    fn patience(&self) -> (u64, Nanos) {
        (self.0.lead_sectors.unsigned_abs(), self.0.wait_ns.unsigned_abs())
    }
}
