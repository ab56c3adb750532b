//! Plays a measurement second by second, as if it happened now: of the simulator, or stored by any
//! host.

use std::collections::{BTreeMap, VecDeque};

use hoistway_experiment::Measurement;
use hoistway_experiment::measurement::{GroupMeasurement, Sample, Tally};

use super::sample::{DeviceSample, Flow, GroupSample, Interval};

/// The intervals left to play.
#[derive(Debug)]
pub struct Playback(VecDeque<Interval>);

impl Playback {
    /// All of a measurement.
    pub fn new(measurement: &Measurement) -> Self {
        let seconds = measurement.groups.iter().map(|group| group.read.samples.len().max(group.write.samples.len()));
        let length = |at: usize| {
            let samples = measurement.groups.iter().flat_map(|group| [&group.read, &group.write]);
            samples.filter_map(|tally| tally.samples.get(at)).map(|sample| sample.length_ns).max().unwrap_or(0)
        };
        let interval = |at: usize| Interval { length_ns: length(at).max(1), devices: vec![device(measurement, at)] };
        Self((0..seconds.max().unwrap_or(0)).map(interval).collect())
    }

    /// The next second.
    pub fn next(&mut self) -> Option<Interval> {
        self.0.pop_front()
    }
}

fn device(measurement: &Measurement, at: usize) -> DeviceSample {
    let scheduler = &measurement.scheduler;
    let tunables = scheduler.tunables.iter().map(|it| (it.name.clone(), format!("{}{}", it.value, it.unit)));
    DeviceSample {
        name: measurement.target.path.clone(),
        scheduler: scheduler.name.clone(),
        depth: u64::from(measurement.target.queue_depth),
        notes: tunables.collect::<BTreeMap<_, _>>(),
        groups: measurement.groups.iter().map(|it| group(it, at)).collect(),
        ..DeviceSample::default()
    }
}

fn group(group: &GroupMeasurement, at: usize) -> GroupSample {
    let in_flight = |tally: &Tally| tally.samples.get(at).map_or(0.0, |sample| sample.inflight);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "requests in flight are few and not negative"
    )]
    let outstanding = (in_flight(&group.read) + in_flight(&group.write)).round() as u64;
    GroupSample {
        path: group.path.clone(),
        weight: group.effective_weight,
        flows: [&group.read, &group.write].map(|tally| tally.samples.get(at).map(flow).unwrap_or_default()),
        outstanding: Some(outstanding),
        throttled_ns: group.throttled_ns.get(at).copied(),
        ..GroupSample::default()
    }
}

/// A sample has only median and 99th percentile of its latencies: the flow is exact for those two
/// only.
fn flow(sample: &Sample) -> Flow {
    let half = sample.ios.div_ceil(2);
    let mut latency = BTreeMap::from([(sample.latency_ns_p50, half)]);
    *latency.entry(sample.latency_ns_p99).or_insert(0) += sample.ios - half;
    latency.retain(|_, count| *count > 0);
    Flow { ios: sample.ios, bytes: sample.bytes, service_ns: None, latency }
}

#[cfg(test)]
mod tests {
    use super::super::sample::quantile_of;
    use super::*;

    #[test]
    fn a_sample_answers_with_its_own_percentiles() {
        let sample = Sample { ios: 101, latency_ns_p50: 10, latency_ns_p99: 90, ..Sample::default() };
        let of = |sample| [0.5, 0.99].map(|part| quantile_of(&[flow(sample)], part));
        assert_eq!(of(&sample), [Some(10), Some(90)]);
        let one = Sample { ios: 1, latency_ns_p50: 7, latency_ns_p99: 7, ..Sample::default() };
        assert_eq!(of(&one), [Some(7), Some(7)]);
    }
}
