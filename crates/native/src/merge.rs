//! Combines the figures of a group's workers.
//!
//! Bytes, counts and histograms add up exactly. Percentiles of each second cannot be combined
//! exactly: the result is the largest of the workers' 99th percentiles, and the mean of their
//! medians weighted by requests.

use hoistway_experiment::measurement::{GroupMeasurement, Sample, Tally};

/// Adds a worker's figures; of the per-thread results, only that of `thread` is the worker's.
pub fn add(group: &mut GroupMeasurement, part: GroupMeasurement, thread: usize) {
    add_tally(&mut group.read, part.read);
    add_tally(&mut group.write, part.write);
    add_tally(&mut group.trim, part.trim);
    add_tally(&mut group.sync, part.sync);
    group.late += part.late;
    group.issue_delay.merge(&part.issue_delay);
    for (sum, job) in group.jobs.iter_mut().zip(&part.jobs) {
        sum.add(job);
    }
    if let (Some(mine), Some(theirs)) = (group.threads.get_mut(thread), part.threads.into_iter().nth(thread)) {
        *mine = theirs;
    }
}

fn add_tally(tally: &mut Tally, part: Tally) {
    tally.bytes += part.bytes;
    tally.ios += part.ios;
    for (name, count) in part.errors {
        *tally.errors.entry(name).or_default() += count;
    }
    tally.device_ns += part.device_ns;
    tally.latency.merge(&part.latency);
    for sample in part.samples {
        match tally.samples.iter_mut().find(|known| known.at_ns == sample.at_ns) {
            Some(known) => add_sample(known, &sample),
            None => tally.samples.push(sample),
        }
    }
    tally.samples.sort_by_key(|sample| sample.at_ns);
}

fn add_sample(known: &mut Sample, part: &Sample) {
    let (mine, theirs) = (u128::from(known.ios), u128::from(part.ios));
    let weighted = u128::from(known.latency_ns_p50) * mine + u128::from(part.latency_ns_p50) * theirs;
    let median = weighted.checked_div(mine + theirs).unwrap_or(0);
    known.latency_ns_p50 = u64::try_from(median).unwrap_or(u64::MAX);
    known.latency_ns_p99 = known.latency_ns_p99.max(part.latency_ns_p99);
    known.latency_ns_max = known.latency_ns_max.max(part.latency_ns_max);
    known.length_ns = known.length_ns.max(part.length_ns);
    known.bytes += part.bytes;
    known.ios += part.ios;
    known.inflight += part.inflight;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, ios: u64, p50: u64, p99: u64) -> Sample {
        Sample {
            at_ns,
            length_ns: 1_000,
            ios,
            latency_ns_p50: p50,
            latency_ns_p99: p99,
            inflight: 1.5,
            ..Sample::default()
        }
    }

    #[test]
    fn sums_are_exact_and_percentiles_of_a_second_are_bounds() {
        let mut mine = Tally { bytes: 10, ios: 3, samples: vec![sample(0, 3, 100, 900)], ..Tally::default() };
        mine.latency.add(100);
        mine.errors.insert("EIO".into(), 1);
        let mut theirs = Tally {
            bytes: 5,
            ios: 1,
            samples: vec![sample(1_000, 1, 7, 8), sample(0, 1, 500, 500)],
            ..Tally::default()
        };
        theirs.latency.add(500);
        theirs.errors.insert("EIO".into(), 2);
        add_tally(&mut mine, theirs);
        assert_eq!((mine.bytes, mine.ios, mine.errors["EIO"], mine.latency.count()), (15, 4, 3, 2));
        assert_eq!(mine.samples.iter().map(|s| s.at_ns).collect::<Vec<_>>(), [0, 1_000]);
        let first = mine.samples[0];
        assert_eq!((first.ios, first.latency_ns_p50, first.latency_ns_p99, first.inflight), (4, 200, 900, 3.0));
    }
}
