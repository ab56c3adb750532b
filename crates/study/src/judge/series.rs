//! A run as bytes of each tenant in each tenth of a second, from the start; and means over spans of
//! it.

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;
use hoistway_experiment::Measurement;

/// Length of a bin.
pub const BIN_NS: Nanos = 100 * MILLISECOND;
/// Bins in a second.
pub const PER_SECOND: usize = 10;

/// One run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// Bytes, by tenant and bin.
    pub bytes: Vec<Vec<u64>>,
}

impl Series {
    /// The series in the logs of a run's threads.
    pub fn of(measurement: &Measurement) -> Self {
        let bins = usize::try_from(measurement.experiment.length_ns() / BIN_NS).unwrap_or(0);
        let tenant = |group: &hoistway_experiment::measurement::GroupMeasurement| {
            let mut bytes = vec![0; bins];
            for span in group.threads.iter().filter_map(|thread| thread.log.as_ref()).flat_map(|log| &log.spans) {
                let bin = usize::try_from(span.end_ns.saturating_sub(1) / BIN_NS).unwrap_or(usize::MAX);
                if let Some(sum) = bytes.get_mut(bin) {
                    *sum += span.bytes;
                }
            }
            bytes
        };
        Self { bytes: measurement.groups.iter().map(tenant).collect() }
    }

    /// Bytes per second of each tenant from bin `from` up to bin `to`.
    pub fn rates(&self, from: usize, to: usize) -> Vec<f64> {
        let seconds = to.saturating_sub(from).max(1) as f64 / PER_SECOND as f64;
        let sum = |bins: &Vec<u64>| bins[from.min(bins.len())..to.min(bins.len())].iter().sum::<u64>() as f64;
        self.bytes.iter().map(|bins| sum(bins) / seconds).collect()
    }

    /// Total bytes per second in each whole second from bin `from` up to bin `to`.
    pub fn seconds(&self, from: usize, to: usize) -> Vec<f64> {
        let starts = (from..to.saturating_sub(PER_SECOND - 1)).step_by(PER_SECOND);
        starts.map(|start| self.rates(start, start + PER_SECOND).iter().sum()).collect()
    }
}
