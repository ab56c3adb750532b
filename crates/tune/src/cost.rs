//! What io.cost needs to know of a device: six coefficients, two latencies and the lines of its
//! files.
//!
//! Source: docs/specifications/harness.md, section 8.7.

use hoistway_experiment::io_cost_lines::{ModelValues, Percent, QosValues};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of the page that is the unit of io.cost's model.
const PAGE_BYTES: f64 = 4096.0;
/// Fraction of the measured coefficients that is safe to promise, since mixed loads cost more than
/// the sum of their parts.
const SAFE: f64 = 0.75;
/// Target latency as a multiple of the latency at 0.9 times the device's rate.
const LATENCY_MARGIN: f64 = 1.5;
/// Bounds of the virtual rate (`vrate`) in percent.
const CLOCK_PERCENT: (u32, u32) = (60, 100);

/// Bytes per second, then sequential and random requests per second.
#[derive(Copy, Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Coefficients {
    /// Coefficients of reads.
    pub read: [f64; 3],
    /// Coefficients of writes; `None` if writing was not permitted.
    pub write: Option<[f64; 3]>,
}

/// Latencies of random requests at 0.9 times their maximum rate, in nanoseconds.
#[derive(Copy, Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Latencies {
    /// Median of reads.
    pub read_p50_ns: f64,
    /// 95th percentile of reads.
    pub read_p95_ns: f64,
    /// Median of writes.
    pub write_p50_ns: Option<f64>,
    /// 95th percentile of writes.
    pub write_p95_ns: Option<f64>,
}

/// The values to write to the files, without the device number.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct CostLine {
    /// `io.cost.model`.
    pub model: ModelValues,
    /// `io.cost.qos`.
    pub qos: QosValues,
}

/// A measured figure as the file takes it: an integer of at least 1, since 0 means unknown.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates, far below 2^53")]
fn whole(value: f64) -> u64 {
    (value.round() as u64).max(1)
}

impl Coefficients {
    /// The values of `io.cost.model`. If writes were not measured, the coefficients of reads are
    /// used for them.
    pub fn model(&self) -> ModelValues {
        let of = |values: [f64; 3]| values.map(whole);
        ModelValues { is_user: true, read: of(self.read), write: of(self.write.unwrap_or(self.read)) }
    }

    /// The same coefficients with a safety margin.
    #[must_use]
    pub fn safe(&self) -> Self {
        let of = |values: [f64; 3]| values.map(|value| value * SAFE);
        Self { read: of(self.read), write: self.write.map(of) }
    }

    /// Upper bound of 4 KiB random reads per second according to the model. One read costs a base
    /// and one page, as the kernel computes them.
    pub fn predicted_random_ios_per_s(&self) -> f64 {
        let [bytes_per_s, _, random] = self.read;
        let page_s = PAGE_BYTES / bytes_per_s;
        let base_s = (1.0 / random - page_s).max(0.0);
        1.0 / (base_s + page_s)
    }

    /// Upper bound of bytes per second according to the model, for sequential reads of 1 MiB.
    pub fn predicted_bytes_per_s(&self) -> f64 {
        const PAGES: f64 = 256.0;
        let [bytes_per_s, sequential, _] = self.read;
        let page_s = PAGE_BYTES / bytes_per_s;
        let base_s = (1.0 / sequential - page_s).max(0.0);
        PAGES * PAGE_BYTES / (base_s + PAGES * page_s)
    }
}

impl Latencies {
    /// The values of `io.cost.qos`: the target is derived from the median on mechanical devices and
    /// from the 95th percentile on flash.
    pub fn qos(&self, is_mechanical: bool) -> QosValues {
        let percent = if is_mechanical { 50 } else { 95 };
        let pick = |p50: f64, p95: f64| whole(LATENCY_MARGIN * if is_mechanical { p50 } else { p95 } / 1e3);
        let read_latency_us = pick(self.read_p50_ns, self.read_p95_ns);
        let write_latency_us = match (self.write_p50_ns, self.write_p95_ns) {
            (Some(p50), Some(p95)) => pick(p50, p95),
            _ => read_latency_us,
        };
        QosValues {
            is_enabled: true,
            is_user: true,
            read_percent: Percent::whole(percent),
            read_latency_us,
            write_percent: Percent::whole(percent),
            write_latency_us,
            min: Percent::whole(CLOCK_PERCENT.0),
            max: Percent::whole(CLOCK_PERCENT.1),
        }
    }
}

/// Both lines: as measured (`naive`) and with a safety margin (`safe`).
pub fn lines(coefficients: &Coefficients, latencies: &Latencies, is_mechanical: bool) -> [(&'static str, CostLine); 2] {
    let qos = latencies.qos(is_mechanical);
    [
        ("naive", CostLine { model: coefficients.model(), qos }),
        ("safe", CostLine { model: coefficients.safe().model(), qos }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLASH: Coefficients = Coefficients { read: [500e6, 90e3, 80e3], write: Some([400e6, 70e3, 60e3]) };

    #[test]
    fn a_random_read_costs_what_its_rate_says() {
        // 12.5 us each, of which 8.192 us are the page.
        assert!((FLASH.predicted_random_ios_per_s() - 80e3).abs() < 1e-6);
        // If the page alone costs more than the rate implies, the cost of the page applies.
        let slow_link = Coefficients { read: [100e6, 90e3, 80e3], write: None };
        assert!((slow_link.predicted_random_ios_per_s() - 100e6 / 4096.0).abs() < 1e-6);
        // (1 / 90000 - 8.192 us) for the request, 256 pages of 8.192 us.
        assert!((FLASH.predicted_bytes_per_s() - 499.305e6).abs() < 1e3, "{}", FLASH.predicted_bytes_per_s());
    }

    #[test]
    fn lines_have_reserve_and_latency_by_class() {
        let latencies =
            Latencies { read_p50_ns: 10e6, read_p95_ns: 30e6, write_p50_ns: Some(1e6), write_p95_ns: Some(2e6) };
        let [(_, naive), (_, safe)] = lines(&FLASH, &latencies, false);
        assert_eq!((naive.model.read, safe.model.read), ([500_000_000, 90_000, 80_000], [375_000_000, 67_500, 60_000]));
        assert_eq!((naive.qos.read_latency_us, naive.qos.write_latency_us), (45_000, 3_000));
        assert_eq!(latencies.qos(true).read_latency_us, 15_000);
        assert_eq!((naive.qos.min, naive.qos.max), (Percent::whole(60), Percent::whole(100)));
    }
}
