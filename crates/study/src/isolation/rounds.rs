//! One run, reduced: rounds, the steady ones among them, and the figures of those.

use std::ops::Range;

use hoistway_block::Nanos;
use hoistway_experiment::measurement::GroupMeasurement;
use hoistway_experiment::share::Fairness;
use hoistway_experiment::steady_state::{self, ROUNDS};
use hoistway_experiment::{Histogram, Measurement, histogram};

use super::cell::{BIN_NS, Cell};
use super::desideratum::{Desideratum, HAS_ITS_DUE};

/// Shortest window in which a returning tenant's rate is observed, in bins of a millisecond, and
/// the number of its requests that the window must be able to hold.
const LEAST_WINDOW: usize = 5;
const LEAST_REQUESTS: f64 = 20.0;
/// Windows over which the rate has to last.
const LASTING: usize = 4;

/// The figures of a run, over its steady rounds; over the last five if it was never steady.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Bytes per second of each tenant.
    pub bytes_per_s: Vec<f64>,
    /// I/Os per second of all.
    pub ios_per_s: f64,
    /// Median and 99th percentile of the first tenant's latency, if it was logged.
    pub latency_ns: Option<(f64, f64)>,
    /// The round, from 1, with which the steady state was reached.
    pub steady_from: Option<usize>,
    /// Bytes of the first tenant in each millisecond since its return, if that is observed.
    pub since_return: Vec<u64>,
    /// Size of its requests.
    pub request_bytes: f64,
}

impl Sample {
    /// Reduces a run of a cell.
    pub fn of(cell: &Cell, measurement: &Measurement) -> Self {
        let by_tenant: Vec<Vec<(u64, u64)>> = measurement.groups.iter().map(|group| rounds_of(group, cell)).collect();
        let bytes = |tenant: &Vec<(u64, u64)>| tenant.iter().map(|(bytes, _)| *bytes as f64).collect::<Vec<_>>();
        let total: Vec<f64> =
            (0..cell.rounds).map(|round| by_tenant.iter().map(|it| it[round].0 as f64).sum()).collect();
        // What is judged has to be steady as well: the latency of the first tenant, whose rate with a
        // constant number in flight is the inverse of that; and the shares, as Jain's index.
        let judged: Vec<f64> = match cell.desideratum {
            Desideratum::Priority => by_tenant.first().map(bytes).unwrap_or_default(),
            _ if cell.desideratum.is_about_shares() => {
                (0..cell.rounds).map(|round| jain(cell, &by_tenant, round)).collect()
            }
            _ => Vec::new(),
        };
        let series: Vec<&[f64]> = if judged.is_empty() { vec![&total] } else { vec![&total, &judged] };
        let steady = steady_state::window(&series);
        let steady_from = steady.as_ref().map(|window| window.end);
        let window = steady.unwrap_or(cell.rounds.saturating_sub(ROUNDS)..cell.rounds);
        let seconds = (cell.round_ns * window.len() as u64) as f64 / 1e9;
        let per_s = |amounts: &mut dyn Iterator<Item = u64>| amounts.sum::<u64>() as f64 / seconds;
        let bytes_per_s =
            by_tenant.iter().map(|tenant| per_s(&mut tenant[window.clone()].iter().map(|(bytes, _)| *bytes))).collect();
        let ios = by_tenant.iter().flat_map(|tenant| &tenant[window.clone()]).map(|(_, ios)| *ios);
        let ios_per_s = per_s(&mut ios.into_iter());
        let latency_ns = measurement.groups.first().and_then(|group| latency(group, cell, &window));
        let since_return = match (cell.desideratum.has_return(), measurement.groups.first()) {
            (true, Some(group)) => since(group, cell.returns_ns, cell.rounds as u64 * cell.round_ns),
            _ => Vec::new(),
        };
        let jobs = cell.groups.iter().flat_map(|group| &group.jobs).take(1);
        let request_bytes = jobs.map(|job| f64::from(job.shape.block_sizes.read.largest_bytes())).sum();
        Self { bytes_per_s, ios_per_s, latency_ns, steady_from, since_return, request_bytes }
    }

    /// Bytes per second of all tenants.
    pub fn total_bytes_per_s(&self) -> f64 {
        self.bytes_per_s.iter().sum()
    }

    /// Milliseconds from the return until the first tenant has 90 % of `due_bytes_per_s`, and
    /// whether it had it at all: if not, the time is that of the observation.
    pub fn response_ms(&self, due_bytes_per_s: f64) -> (f64, bool) {
        let (window, needed) = self.window(due_bytes_per_s);
        match response(&self.since_return, window, needed) {
            Some(bins) => (bins as f64, true),
            None => (self.since_return.len() as f64, false),
        }
    }

    /// The longest time in milliseconds that the first tenant stays below 90 % of `due_bytes_per_s`
    /// after its return: delta of delta-fairness.
    pub fn delta_ms(&self, due_bytes_per_s: f64) -> f64 {
        let (window, needed) = self.window(due_bytes_per_s);
        longest_below(&self.since_return, window, needed) as f64
    }

    /// The window over which a rate is observed, in bins, and the bytes that 90 % of the due are in one
    /// bin.
    fn window(&self, due_bytes_per_s: f64) -> (usize, f64) {
        let needed = HAS_ITS_DUE * due_bytes_per_s * BIN_NS as f64 / 1e9;
        let bins = (LEAST_REQUESTS * self.request_bytes / needed.max(1.0)).ceil();
        // At most the length of the observation, which is short.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
        let window = (bins as usize).clamp(LEAST_WINDOW, self.since_return.len().max(LEAST_WINDOW));
        (window, needed)
    }
}

/// The end of the first window, in bins, in which a tenant gets `needed` per bin, and goes on to get
/// it for four windows.
fn response(bins: &[u64], window: usize, needed: f64) -> Option<usize> {
    let has = |range: Range<usize>| {
        let length = range.len() as f64;
        bins[range].iter().sum::<u64>() as f64 >= needed * length
    };
    (window..=bins.len()).find(|end| {
        let from = end - window;
        has(from..*end) && has(from..(from + LASTING * window).min(bins.len()))
    })
}

/// The most windows in a row, one beginning in each bin, in which a tenant gets less than `needed` per
/// bin.
fn longest_below(bins: &[u64], window: usize, needed: f64) -> usize {
    let below = bins.windows(window).map(|bins| (bins.iter().sum::<u64>() as f64) < needed * window as f64);
    let lengths = below.scan(0, |length, is_below| {
        *length = if is_below { *length + 1 } else { 0 };
        Some(*length)
    });
    lengths.max().unwrap_or(0)
}

/// Jain's index of the tenants' bytes over their weights in one round; 0 if nothing was done.
fn jain(cell: &Cell, by_tenant: &[Vec<(u64, u64)>], round: usize) -> f64 {
    let got: Vec<f64> = by_tenant.iter().map(|tenant| tenant[round].0 as f64).collect();
    let due: Vec<f64> = cell.groups.iter().map(|group| f64::from(group.weight.get())).collect();
    Fairness::of(&got, &due).map_or(0.0, |fairness| fairness.jain)
}

/// Bytes and I/Os of a tenant in each round.
fn rounds_of(group: &GroupMeasurement, cell: &Cell) -> Vec<(u64, u64)> {
    let mut rounds = vec![(0, 0); cell.rounds];
    for span in logs(group).flat_map(|log| &log.spans) {
        let Some(at_ns) = span.end_ns.checked_sub(cell.returns_ns + 1) else { continue };
        if let Some((bytes, ios)) = rounds.get_mut(index(at_ns / cell.round_ns)) {
            (*bytes, *ios) = (*bytes + span.bytes, *ios + span.ios);
        }
    }
    rounds
}

/// Bytes of a tenant in each bin of `length_ns` from `from_ns` on.
fn since(group: &GroupMeasurement, from_ns: Nanos, length_ns: Nanos) -> Vec<u64> {
    let mut bins = vec![0; index(length_ns / BIN_NS)];
    for span in logs(group).flat_map(|log| &log.spans) {
        let Some(at_ns) = span.end_ns.checked_sub(from_ns + 1) else { continue };
        if let Some(bytes) = bins.get_mut(index(at_ns / BIN_NS)) {
            *bytes += span.bytes;
        }
    }
    bins
}

/// Median and 99th percentile over these rounds; none without a log of latencies.
fn latency(group: &GroupMeasurement, cell: &Cell, window: &Range<usize>) -> Option<(f64, f64)> {
    let entries = logs(group).flat_map(|log| &log.histograms).filter(|entry| {
        let at_ns = entry.end_ns.saturating_sub(cell.returns_ns + 1);
        window.contains(&index(at_ns / cell.round_ns))
    });
    let counts = entries.flat_map(|entry| &entry.counts);
    let bins = counts.map(|(bucket, count)| (histogram::bucket_ns(usize::from(*bucket)), u64::from(*count)));
    let histogram = Histogram::from_bins(bins);
    let at = |percent: f64| histogram.percentile_ns(percent) as f64;
    (!histogram.is_empty()).then(|| (at(50.0), at(99.0)))
}

fn logs(group: &GroupMeasurement) -> impl Iterator<Item = &hoistway_experiment::log::ThreadLog> {
    group.threads.iter().filter_map(|thread| thread.log.as_deref())
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_due_when_it_keeps_it() {
        // Nothing for 30 ms, a spike of 5 ms, nothing for 5 ms, then all.
        let bins: Vec<u64> = (0..100).map(|bin| u64::from((30..35).contains(&bin) || bin >= 40) * 10).collect();
        assert_eq!(response(&bins, 5, 10.0), Some(45), "the spike does not last");
        // 9 of 10 are enough from the window of 36 to 40 on: 4 of its 5 bins are empty.
        assert_eq!(response(&bins, 5, 2.0), Some(31), "a fifth is had at once, on average");
        assert_eq!(response(&bins, 5, 10.1), None);
        assert_eq!(response(&[10; 5], 5, 10.0), Some(5), "never sooner than a window");
        assert_eq!(response(&[10; 4], 5, 1.0), None);
    }

    #[test]
    fn delta_is_the_longest_time_below_the_due_whenever_it_is() {
        // 20 ms without service at first, 60 later.
        let bins: Vec<u64> =
            (0..200).map(|bin| u64::from(!(0..20).contains(&bin) && !(80..140).contains(&bin)) * 10).collect();
        assert_eq!(response(&bins, 5, 9.0), Some(25));
        // Windows of 5 bins that have less than 9 of 10: those that contain one bin without service.
        assert_eq!(longest_below(&bins, 5, 9.0), 64);
        assert_eq!(longest_below(&bins, 5, 0.0), 0, "nothing is due");
        assert_eq!(longest_below(&bins, 5, 11.0), 196, "never");
        assert_eq!(longest_below(&[10; 200], 5, 10.0), 0);
    }

    #[test]
    fn a_window_holds_twenty_requests() {
        let sample = |bytes: u64| Sample {
            bytes_per_s: Vec::new(),
            ios_per_s: 0.0,
            latency_ns: None,
            steady_from: None,
            since_return: vec![bytes; 400],
            request_bytes: 4096.0,
        };
        // A request per ms: 20 are there after 20 ms, or 23 when 90 % of the due are looked for.
        assert_eq!(sample(4096).response_ms(4_096_000.0), (23.0, true));
        assert_eq!(sample(409_600).response_ms(409_600_000.0), (5.0, true));
        assert_eq!(sample(4096).response_ms(8_192_000.0), (400.0, false));
    }
}
