//! Plays a measurement second by second, as if it happened now: of the simulator, or stored by any
//! host.

use std::collections::{BTreeMap, VecDeque};

use hoistway_block::Nanos;
use hoistway_experiment::measurement::{Sample, Tally};
use hoistway_experiment::{Measurement, entitlement};

use super::sample::{DeviceSample, Flow, GroupSample, Interval};
use super::shares;

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
        let interval = |at: usize| {
            let length_ns = length(at).max(1);
            Interval { length_ns, devices: vec![device(measurement, at, length_ns)] }
        };
        Self((0..seconds.max().unwrap_or(0)).map(interval).collect())
    }

    /// The next second.
    pub fn next(&mut self) -> Option<Interval> {
        self.0.pop_front()
    }
}

fn device(measurement: &Measurement, at: usize, length_ns: Nanos) -> DeviceSample {
    let scheduler = &measurement.scheduler;
    let tunables = scheduler.tunables.iter().map(|it| (it.name.clone(), format!("{}{}", it.value, it.unit)));
    let seconds = length_ns as f64 / 1e9;
    let mut groups: Vec<GroupSample> = (0..measurement.groups.len()).map(|it| group(measurement, it, at)).collect();
    for (group, due) in groups.iter_mut().zip(due_percent(measurement, at, length_ns)) {
        group.due_percent = Some(due).filter(|due| *due > 0.0);
    }
    let in_device: Option<f64> = groups.iter().map(|group| shares::in_device(group, seconds)).sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean number of requests")]
    let in_flight = in_device.unwrap_or_default().round() as u64;
    DeviceSample {
        in_flight,
        name: measurement.target.path.clone(),
        scheduler: scheduler.name.clone(),
        depth: u64::from(measurement.target.queue_depth),
        notes: tunables.collect::<BTreeMap<_, _>>(),
        groups,
        ..DeviceSample::default()
    }
}

/// What each group is entitled to in a second, in per cent of what the device did in it; empty if the rates
/// of the solo runs are not known, or not all in bytes.
fn due_percent(measurement: &Measurement, at: usize, length_ns: Nanos) -> Vec<f64> {
    let samples = || measurement.groups.iter().flat_map(|group| [&group.read, &group.write]);
    let bytes: u64 = samples().filter_map(|tally| Some(tally.samples.get(at)?.bytes)).sum();
    let from_ns =
        measurement.experiment.ramp_ns + samples().find_map(|it| Some(it.samples.get(at)?.at_ns)).unwrap_or(0);
    let rates = &measurement.solo_rates;
    if bytes == 0 || rates.iter().any(|rates| rates.is_full_known() && rates.counts_ios()) {
        return Vec::new();
    }
    let entitled = entitlement::of_groups(&measurement.experiment.groups, rates, (from_ns, from_ns + length_ns));
    let percent = |per_s: f64| 100.0 * per_s * (length_ns as f64 / 1e9) / bytes as f64;
    entitled.unwrap_or_default().into_iter().map(percent).collect()
}

fn group(measurement: &Measurement, index: usize, at: usize) -> GroupSample {
    let group = &measurement.groups[index];
    let in_flight = |tally: &Tally| tally.samples.get(at).map_or(0.0, |sample| sample.inflight);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "requests in flight are few and not negative"
    )]
    let outstanding = (in_flight(&group.read) + in_flight(&group.write)).round() as u64;
    let service_ns = service_ns(measurement, index);
    let flow = |tally: &Tally| {
        let flow = tally.samples.get(at).map(flow_of).unwrap_or_default();
        Flow { service_ns: service_ns.map(|each| each * flow.ios), ..flow }
    };
    GroupSample {
        path: group.path.clone(),
        weight: group.effective_weight,
        flows: [&group.read, &group.write].map(flow),
        outstanding: Some(outstanding),
        throttled_ns: group.throttled_ns.get(at).copied(),
        ..GroupSample::default()
    }
}

/// The mean time in the device for each I/O of a group, by the requests that were recorded; none if the host
/// recorded none.
fn service_ns(measurement: &Measurement, index: usize) -> Option<Nanos> {
    let record = measurement.dispatches.as_ref()?;
    let is_own = |of: Option<u16>| of.is_some_and(|of| usize::from(of) == index);
    let own: Nanos = record.requests.iter().filter(|it| is_own(it.group)).map(|it| it.service_ns).sum();
    // Merged I/Os are one request: the record's part of the I/Os is that of its time.
    let ios = u128::from(measurement.groups[index].ios()) * u128::from(record.length_ns);
    let each = u128::from(own) * u128::from(measurement.window_ns);
    each.checked_div(ios).and_then(|ns| ns.try_into().ok())
}

/// A sample has only median and 99th percentile of its latencies: the flow is exact for those two
/// only.
fn flow_of(sample: &Sample) -> Flow {
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
        let of = |sample| [0.5, 0.99].map(|part| quantile_of(&[flow_of(sample)], part));
        assert_eq!(of(&sample), [Some(10), Some(90)]);
        let one = Sample { ios: 1, latency_ns_p50: 7, latency_ns_p99: 7, ..Sample::default() };
        assert_eq!(of(&one), [Some(7), Some(7)]);
    }
}
