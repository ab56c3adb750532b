//! sfq: a fixed number of requests in flight.

use super::Rule;
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};

crate::tunables! {
    /// The tunables' values.
    pub struct Settings {
        /// The depth D.
        depth: "depth", Unit::Count, 0..=65_536, 0, OutOfRange::Clamp,
            "Most requests in flight; 0 = the depth of the device. A smaller number keeps shares for shallower \
            tenants, at the cost of throughput.";
        /// Charge for every request in addition to its sectors.
        request_cost_sectors: "request_cost", Unit::Sectors, 0..=1_048_576, 0, OutOfRange::Refuse,
            "Sectors charged for every request beside its own; 0 shares bytes, a large number shares requests.";
    }
}

/// The fixed depth D of SFQ(D).
#[derive(Debug)]
pub struct FixedDepth(Settings);

impl Rule for FixedDepth {
    const IS_STRICT: bool = false;
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
        match u32::try_from(self.0.depth) {
            Ok(depth) if depth > 0 => depth.min(device_depth),
            _ => device_depth,
        }
    }
}
