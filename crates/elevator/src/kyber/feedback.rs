//! Kyber's feedback: latencies are collected in small histograms, and their percentiles determine
//! depths.
//!
//! If the device is congested (the 90th percentile of some domain's time in the device misses its
//! target), domains that meet their target lose depth and those that do not gain depth. Without
//! congestion a domain that misses its target gains depth, and no domain loses any.

use super::domain::Domain;
use crate::structures::{Array, NoMemory};
use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};

const BUCKETS: u32 = 8;
/// Measured domains, in the order of their indices.
const MEASURED: u32 = 3;
/// Buckets up to the target: four, a quarter of it each.
const GOOD_BUCKETS: u32 = 4;
/// Samples needed before a percentile is read, unless [`COLLECTION_LIMIT_NS`] passed while they were
/// collected.
const ENOUGH_SAMPLES: u32 = 500;
const COLLECTION_LIMIT_NS: Nanos = SECOND;
/// Time from the first completion after an evaluation to the next evaluation.
pub const INTERVAL_NS: Nanos = 100 * MILLISECOND;

/// The two times that are measured of a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Span {
    /// From allocation to completion.
    Total,
    /// From the driver's acceptance to completion.
    InDevice,
}

/// Latencies in quarters of the target; the last bucket collects everything above.
#[derive(Copy, Clone, Debug, Default)]
struct Histogram([u32; BUCKETS as usize]);

impl Histogram {
    #[inline]
    fn add(&mut self, bucket: u32) {
        if let Some(count) = self.0.get_mut(bucket as usize) {
            *count = count.saturating_add(1);
        }
    }

    fn samples(&self) -> u32 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The bucket that contains the percentile.
    fn percentile(&self, percent: u32) -> u32 {
        let mut needed = (u64::from(self.samples()) * u64::from(percent)).div_ceil(100);
        let mut bucket = 0;
        for count in self.0.iter().take(BUCKETS as usize - 1) {
            if u64::from(*count) >= needed {
                break;
            }
            needed = needed.saturating_sub(u64::from(*count));
            bucket += 1;
        }
        bucket
    }
}

/// The bucket of a latency, for a target in ns.
#[inline]
pub fn bucket_of(latency_ns: Nanos, target_ns: Nanos) -> u32 {
    let width_ns = (target_ns / u64::from(GOOD_BUCKETS)).max(1);
    let Some(above_zero) = latency_ns.checked_sub(1) else { return 0 };
    match above_zero.checked_div(width_ns) {
        Some(bucket) if bucket < u64::from(BUCKETS - 1) => (bucket & 7) as u32,
        _ => BUCKETS - 1,
    }
}

/// The measurements of a domain.
#[derive(Copy, Clone, Debug, Default)]
struct Measured {
    total: Histogram,
    in_device: Histogram,
    /// From this time on, few samples are enough. Both histograms share it, and the time in the
    /// device is evaluated first. With less than 500 samples a second that evaluation resets this
    /// time, and the total time is read only once 500 samples exist. The same happens in Linux.
    patience_ends_ns: Option<Nanos>,
    /// The 99th percentile of the total time, kept from an evaluation without congestion.
    last: Option<u32>,
}

impl Measured {
    fn histogram(&mut self, span: Span) -> &mut Histogram {
        match span {
            Span::Total => &mut self.total,
            Span::InDevice => &mut self.in_device,
        }
    }

    /// The bucket of a percentile and the number of samples, if there are enough; the histogram is
    /// then cleared.
    fn read(&mut self, span: Span, percent: u32, now: Nanos) -> Option<(u32, u32)> {
        let samples = self.histogram(span).samples();
        if samples == 0 {
            return None;
        }
        let patience_ends_ns = *self.patience_ends_ns.get_or_insert(now.saturating_add(COLLECTION_LIMIT_NS));
        if samples < ENOUGH_SAMPLES && now < patience_ends_ns {
            return None;
        }
        self.patience_ends_ns = None;
        let bucket = self.histogram(span).percentile(percent);
        *self.histogram(span) = Histogram::default();
        Some((bucket, samples))
    }
}

/// A result of an evaluation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A percentile was read: its bucket, and the number of samples.
    Latency(Domain, Span, u32, u32),
    /// A domain gets this depth.
    Depth(Domain, u32),
}

/// The histograms of all domains.
#[derive(Debug)]
pub struct Feedback(Array<Measured>);

impl Feedback {
    /// On the heap, to save kernel stack.
    pub fn try_new() -> Result<Self, NoMemory> {
        Ok(Self(Array::try_new(MEASURED, Measured::default())?))
    }

    /// A request of a domain with this target completed.
    #[inline]
    pub fn add(&mut self, domain: Domain, total_ns: Nanos, in_device_ns: Nanos, target_ns: Nanos) {
        let measured = self.0.at_mut(domain.index());
        measured.total.add(bucket_of(total_ns, target_ns));
        measured.in_device.add(bucket_of(in_device_ns, target_ns));
    }

    /// Evaluates all histograms and reports the results; `depth_of` is the present depth of a
    /// domain.
    pub fn look(&mut self, now: Nanos, depth_of: impl Fn(Domain) -> u32, mut found: impl FnMut(Finding)) {
        let mut is_congested = false;
        for domain in Domain::MEASURED {
            if let Some((bucket, samples)) = self.0.at_mut(domain.index()).read(Span::InDevice, 90, now) {
                found(Finding::Latency(domain, Span::InDevice, bucket, samples));
                is_congested |= bucket >= GOOD_BUCKETS;
            }
        }
        for domain in Domain::MEASURED {
            let measured = self.0.at_mut(domain.index());
            let mut total = None;
            if let Some((bucket, samples)) = measured.read(Span::Total, 99, now) {
                found(Finding::Latency(domain, Span::Total, bucket, samples));
                total = Some(bucket);
            }
            // Without congestion a percentile that meets the target changes nothing now. It is
            // kept, and used if there is congestion before a new one is read.
            if is_congested {
                total = total.or(measured.last);
                measured.last = None;
            } else if total.is_some() {
                measured.last = total;
            }
            let Some(bucket) = total else { continue };
            if is_congested || bucket >= GOOD_BUCKETS {
                found(Finding::Depth(domain, resized(depth_of(domain), bucket, domain)));
            }
        }
    }
}

/// The depth after a percentile in this bucket: in proportion, a quarter per bucket.
pub fn resized(depth: u32, bucket: u32, domain: Domain) -> u32 {
    let wanted = depth.saturating_mul(bucket.saturating_add(1)) / GOOD_BUCKETS;
    wanted.max(1).min(domain.most_tokens())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn histogram(counts: [u32; 8]) -> Histogram {
        Histogram(counts)
    }

    #[test]
    fn ky1_buckets_are_quarters_of_the_target() {
        let of_2_ms = |latency| bucket_of(latency, 2_000_000);
        assert_eq!([0, 1, 500_000].map(of_2_ms), [0, 0, 0]);
        assert_eq!([500_001, 1_000_000].map(of_2_ms), [1, 1]);
        assert_eq!([1_500_001, 2_000_000].map(of_2_ms), [3, 3]);
        assert_eq!([2_000_001, 3_500_000, 3_500_001, u64::MAX].map(of_2_ms), [4, 6, 7, 7]);
        assert_eq!([1, 2, 8, 9].map(|latency| bucket_of(latency, 0)), [0, 1, 7, 7]);
    }

    #[test]
    fn ky2_percentiles() {
        let counts = histogram([900, 50, 20, 10, 10, 5, 3, 2]);
        assert_eq!((counts.percentile(90), counts.percentile(99)), (0, 4));
        assert_eq!(histogram([450, 0, 0, 0, 50, 0, 0, 0]).percentile(90), 0);
        assert_eq!(histogram([449, 0, 0, 0, 51, 0, 0, 0]).percentile(90), 4);
        assert_eq!(histogram([495, 0, 0, 0, 0, 0, 5, 0]).percentile(99), 0);
        assert_eq!(histogram([494, 0, 0, 0, 0, 0, 6, 0]).percentile(99), 6);
    }

    #[test]
    fn ky3_few_samples_count_after_a_second() {
        let with = |samples: u32| Measured { total: histogram([samples, 0, 0, 0, 0, 0, 0, 0]), ..Measured::default() };
        let mut few = with(499);
        assert_eq!(few.read(Span::Total, 99, 0), None);
        assert_eq!(few.read(Span::Total, 99, 999 * MILLISECOND), None);
        assert_eq!(few.read(Span::Total, 99, SECOND), Some((0, 499)));
        assert_eq!(with(500).read(Span::Total, 99, 0), Some((0, 500)));
    }

    #[test]
    fn ky4_depths_follow_the_bucket() {
        let read = |depth, bucket| resized(depth, bucket, Domain::Read);
        assert_eq!([0, 1, 2, 3].map(|bucket| read(256, bucket)), [64, 128, 192, 256]);
        assert_eq!(resized(128, 7, Domain::Write), 128);
        assert_eq!(resized(64, 7, Domain::Write), 128);
        assert_eq!([read(1, 0), read(1, 7), read(3, 1), read(2, 4), read(1, 4)], [1, 2, 1, 2, 1]);
    }

    /// Fills a domain with samples whose total and device times lie in these buckets.
    fn fill(feedback: &mut Feedback, domain: Domain, total: u32, in_device: u32) {
        let measured = feedback.0.at_mut(domain.index());
        for _ in 0..600 {
            measured.total.add(total);
            measured.in_device.add(in_device);
        }
    }

    fn depths(feedback: &mut Feedback, now: Nanos) -> Vec<(Domain, u32)> {
        let mut depths = Vec::new();
        feedback.look(now, Domain::most_tokens, |finding| {
            if let Finding::Depth(domain, depth) = finding {
                depths.push((domain, depth));
            }
        });
        depths
    }

    #[test]
    fn ky9_congestion_takes_from_those_that_do_well() {
        let mut feedback = Feedback::try_new().unwrap();
        fill(&mut feedback, Domain::Read, 6, 5);
        fill(&mut feedback, Domain::Write, 1, 0);
        assert_eq!(depths(&mut feedback, 0), [(Domain::Read, 256), (Domain::Write, 64)]);
        // Congested again, without new samples of writes: their percentile was used in the
        // evaluation before.
        fill(&mut feedback, Domain::Read, 6, 5);
        assert_eq!(depths(&mut feedback, INTERVAL_NS), [(Domain::Read, 256)]);
    }

    #[test]
    fn without_congestion_no_depth_shrinks_and_the_percentile_is_kept() {
        let mut feedback = Feedback::try_new().unwrap();
        fill(&mut feedback, Domain::Write, 1, 0);
        assert_eq!(depths(&mut feedback, 0), []);
        fill(&mut feedback, Domain::Read, 3, 5);
        assert_eq!(depths(&mut feedback, INTERVAL_NS), [(Domain::Read, 256), (Domain::Write, 64)]);
    }
}
