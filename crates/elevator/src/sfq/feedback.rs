//! sfq-d2: the number in flight is the largest whose mean residence time stays within a learned
//! bound.
//!
//! IBIS (Xu et al. 2013) adjusts its depth by the difference between the observed latency and a
//! reference that was profiled beforehand. Here the reference is learned as well: a percentage of
//! the shortest mean residence time of the last seconds. The depth is shared by all issuers: one
//! with few outstanding requests gains only from the shorter queue of the others inside the device.

use super::Rule;
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};

crate::tunables! {
    /// The tunables' values.
    pub struct Settings {
        /// The reference residence time, if it is not learned.
        target_ns: "target_us", Unit::Microseconds, 0..=10_000_000, 0, OutOfRange::Clamp,
            "How long a request may stay in the device on average; 0 = `slack` per cent of the shortest time seen.";
        /// The learned reference, in per cent of the shortest mean residence time.
        slack: "slack", Unit::Percent, 100..=10_000, 200, OutOfRange::Clamp,
            "The learned bound: per cent of the shortest mean time of the last ten seconds.";
        /// Charge for every request in addition to its sectors.
        request_cost_sectors: "request_cost", Unit::Sectors, 0..=1_048_576, 0, OutOfRange::Refuse,
            "Sectors charged for every request beside its own; 0 shares bytes, a large number shares requests.";
    }
}

/// The depth is adjusted once per window: at least this long, with at least this many requests.
const WINDOW_NS: Nanos = 10 * MILLISECOND;
const WINDOW_REQUESTS: u64 = 64;
/// The shortest residence time is forgotten after this.
const MEMORY_NS: Nanos = 10 * SECOND;
const SIXTEENTHS: u64 = 16;
/// The initial depth, also used to find the shortest residence time.
const FEW_Q4: u64 = 4 * SIXTEENTHS;

/// The depth controller of SFQ(D2).
#[derive(Debug)]
pub struct ByResidence {
    settings: Settings,
    depth_q4: u64,
    window_from_ns: Nanos,
    stayed_ns: Nanos,
    requests: u64,
    /// Largest number in flight in this window: only a depth that was used has been tried.
    deepest: u32,
    /// Shortest mean residence time of the present ten seconds and of the ten before; 0 = none yet.
    shortest_ns: [Nanos; 2],
    memory_from_ns: Nanos,
}

impl ByResidence {
    fn reference_ns(&self) -> Nanos {
        if self.settings.target_ns > 0 {
            return self.settings.target_ns.unsigned_abs();
        }
        let [present, past] = self.shortest_ns;
        let shortest = if present == 0 || (past > 0 && past < present) { past } else { present };
        shortest.saturating_mul(self.settings.slack.unsigned_abs()) / 100
    }

    fn remember(&mut self, now: Nanos, mean_ns: Nanos) {
        if now.saturating_sub(self.memory_from_ns) >= MEMORY_NS {
            let [present, _] = self.shortest_ns;
            (self.shortest_ns, self.memory_from_ns) = ([0, present], now);
            // The shortest residence time shows only while few are in flight: otherwise the bound
            // would drift upwards step by step.
            self.depth_q4 = self.depth_q4.min(FEW_Q4);
        }
        let [present, _] = &mut self.shortest_ns;
        if *present == 0 || mean_ns < *present {
            *present = mean_ns.max(1);
        }
    }

    /// A step in proportion to the error, by a quarter at most.
    fn step(&mut self, mean_ns: Nanos, most_q4: u64) {
        let reference = self.reference_ns().max(1);
        let depth = self.depth_q4;
        let quarter = (depth / 4).max(1);
        self.depth_q4 = if mean_ns > reference {
            let part = depth.saturating_mul(mean_ns.wrapping_sub(reference)).checked_div(mean_ns).unwrap_or(0);
            depth.saturating_sub(part.clamp(1, quarter))
        } else if u64::from(self.deepest).saturating_mul(SIXTEENTHS) >= depth.saturating_sub(SIXTEENTHS) {
            let part = depth.saturating_mul(reference.wrapping_sub(mean_ns)).checked_div(reference).unwrap_or(0);
            depth.saturating_add((part / 4).clamp(1, quarter))
        } else {
            depth
        };
        self.depth_q4 = self.depth_q4.clamp(SIXTEENTHS, most_q4.max(SIXTEENTHS));
    }
}

impl Rule for ByResidence {
    const IS_STRICT: bool = false;
    const ROWS: &'static [Tunable] = Settings::ROWS;

    fn new() -> Self {
        Self {
            settings: Settings::DEFAULT,
            depth_q4: FEW_Q4,
            window_from_ns: 0,
            stayed_ns: 0,
            requests: 0,
            deepest: 0,
            shortest_ns: [0; 2],
            memory_from_ns: 0,
        }
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)
    }

    fn request_cost_sectors(&self) -> u64 {
        self.settings.request_cost_sectors.unsigned_abs()
    }

    fn limit(&self, device_depth: u32) -> u32 {
        u32::try_from(self.depth_q4 / SIXTEENTHS).unwrap_or(u32::MAX).min(device_depth)
    }

    fn learn(&mut self, now: Nanos, stayed_ns: Nanos, in_flight: u32, device_depth: u32) {
        self.deepest = self.deepest.max(in_flight);
        self.stayed_ns = self.stayed_ns.saturating_add(stayed_ns);
        self.requests = self.requests.wrapping_add(1);
        if now.saturating_sub(self.window_from_ns) < WINDOW_NS || self.requests < WINDOW_REQUESTS {
            return;
        }
        let mean_ns = self.stayed_ns.checked_div(self.requests).unwrap_or(0);
        self.remember(now, mean_ns);
        self.step(mean_ns, u64::from(device_depth).saturating_mul(SIXTEENTHS));
        (self.window_from_ns, self.stayed_ns, self.requests, self.deepest) = (now, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with a residence time of 100 us for up to `units` in flight, growing in proportion
    /// beyond; always full.
    fn settled(rule: &mut ByResidence, units: u64) -> u32 {
        let mut now = 0;
        for _ in 0..200_000 {
            let in_flight = rule.limit(32);
            let stayed_ns = (100_000 * u64::from(in_flight) / units).max(100_000);
            now += stayed_ns / u64::from(in_flight);
            rule.learn(now, stayed_ns, in_flight, 32);
        }
        rule.limit(32)
    }

    #[test]
    fn depth_settles_where_the_residence_time_meets_the_bound() {
        // Twice the shortest time is reached with 16 in flight where 8 are served at a time.
        assert!((15..=17).contains(&settled(&mut ByResidence::new(), 8)));
        let mut bounded = ByResidence::new();
        bounded.set(0, 150).unwrap();
        assert!((11..=13).contains(&settled(&mut bounded, 8)));
    }
}
