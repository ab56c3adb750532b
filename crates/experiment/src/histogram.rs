//! Latency histograms with fio's buckets: 64 per power of two, with an error of at most 1/128. fio
//! has 1,856 of them up to 17 s, and counts longer times in the last; here they go on up to 39 hours, because gaps and latencies of traces are that long.
//!
//! All hosts and fio's JSON use the same buckets, so histograms of groups, sets and tools are
//! merged by adding counts. Percentiles are computed from merged histograms, never by averaging
//! percentiles. Source: docs/specifications/harness.md, section 7.4.

use hoistway_block::Nanos;
use serde::{Deserialize, Serialize};

/// Number of buckets: 42 ranges of 64 buckets; from 64 ns up, each range is one power of two. The
/// last one ends at 2^47 ns.
pub const BUCKETS: usize = 42 << SUB_BITS;

/// Sub-buckets per power of two, as bits.
const SUB_BITS: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;

/// The bucket of a latency. The last bucket contains everything from about 2^47 ns (39 hours) up.
#[inline]
pub const fn bucket_of(latency_ns: Nanos) -> usize {
    let highest_bit = (latency_ns | 1).ilog2();
    if highest_bit <= SUB_BITS {
        return index(latency_ns);
    }
    let shift = highest_bit - SUB_BITS;
    let bucket = ((shift as u64 + 1) << SUB_BITS) + ((latency_ns >> shift) & (SUB_BUCKETS - 1));
    if bucket < BUCKETS as u64 { index(bucket) } else { BUCKETS - 1 }
}

#[expect(clippy::cast_possible_truncation, reason = "callers pass numbers below BUCKETS")]
const fn index(number: u64) -> usize {
    number as usize
}

/// The latency that represents a bucket, in nanoseconds: its middle.
#[inline]
pub const fn bucket_ns(bucket: usize) -> Nanos {
    let bucket = bucket as u64;
    if bucket < 2 * SUB_BUCKETS {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    // 2^(shift + 6) + (sub + 1/2) x 2^shift, rounded down; shift is at least 1.
    (SUB_BUCKETS << shift) + ((2 * (bucket % SUB_BUCKETS) + 1) << (shift - 1))
}

/// Number of powers of two of latencies, each with a page of buckets.
const PAGES: usize = BUCKETS >> SUB_BITS;
/// Number of buckets of a page.
const PAGE: usize = 1 << SUB_BITS;

/// Counts by bucket. A page is allocated with its first count, because most groups use two or three
/// and there may be 100,000 groups.
#[derive(Clone, Debug)]
struct Counts<T> {
    /// Pages in order of their allocation.
    pages: Vec<T>,
    /// Position of the page of each power of two, from 1; 0 means none.
    places: [u8; PAGES],
}

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), places: [0; PAGES] }
    }
}

impl<T: Copy + Default + Into<u64>> Counts<T> {
    #[inline]
    fn at_mut(&mut self, bucket: usize) -> &mut T {
        let mut place = self.places[bucket >> SUB_BITS];
        if place == 0 {
            place = self.add_page(bucket >> SUB_BITS);
        }
        &mut self.pages[((usize::from(place) - 1) << SUB_BITS) + bucket % PAGE]
    }

    /// Allocates all pages now, so that counting never has to wait for memory.
    fn reserve_all(&mut self) {
        self.pages.reserve_exact(BUCKETS - self.pages.len());
    }

    #[cold]
    fn add_page(&mut self, power: usize) -> u8 {
        self.pages.reserve_exact(PAGE);
        self.pages.resize(self.pages.len() + PAGE, T::default());
        let place = u8::try_from(self.pages.len() >> SUB_BITS).unwrap_or(u8::MAX);
        self.places[power] = place;
        place
    }

    /// The buckets in use with their counts, in ascending order.
    fn used(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let pages = self.places.iter().enumerate().filter(|(_, place)| **place > 0);
        let page = |(power, place): (usize, &u8)| {
            let begin = (usize::from(*place) - 1) << SUB_BITS;
            let counts = self.pages[begin..begin + PAGE].iter().enumerate();
            counts.map(move |(bucket, count)| ((power << SUB_BITS) + bucket, (*count).into()))
        };
        pages.flat_map(page).filter(|(_, count)| *count > 0)
    }
}

/// A histogram of latencies, with exact minimum, maximum and sum.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Counts<u64>,
    count: u64,
    min_ns: Nanos,
    max_ns: Nanos,
    sum_ns: u64,
    sum_of_squares: f64,
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let sums = |it: &Self| (it.count, it.min_ns, it.max_ns, it.sum_ns);
        sums(self) == sums(other) && self.sum_of_squares == other.sum_of_squares && self.bins().eq(other.bins())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram. Each power of two takes 512 bytes from its first count on.
    pub fn new() -> Self {
        Self { counts: Counts::default(), count: 0, min_ns: Nanos::MAX, max_ns: 0, sum_ns: 0, sum_of_squares: 0.0 }
    }

    /// Allocates all its memory now (21 KiB), so that counting allocates nothing.
    pub(crate) fn reserve(&mut self) {
        self.counts.reserve_all();
    }

    /// Counts one latency.
    #[inline]
    pub fn add(&mut self, latency_ns: Nanos) {
        self.add_to(bucket_of(latency_ns), latency_ns);
    }

    /// Counts a latency whose bucket is already known.
    #[inline]
    pub(crate) fn add_to(&mut self, bucket: usize, latency_ns: Nanos) {
        *self.counts.at_mut(bucket) += 1;
        self.count += 1;
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
        self.sum_of_squares += latency_ns as f64 * latency_ns as f64;
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in other.bins() {
            *self.counts.at_mut(bucket) += count;
        }
        self.count += other.count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.sum_of_squares += other.sum_of_squares;
    }

    /// The sum of `histograms`.
    pub fn merged<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Histogram {
        histograms.into_iter().fold(Histogram::new(), |mut sum, histogram| {
            sum.merge(histogram);
            sum
        })
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest latency in nanoseconds; 0 if there is none.
    pub fn min_ns(&self) -> Nanos {
        if self.count == 0 { 0 } else { self.min_ns }
    }

    /// The largest latency in nanoseconds; 0 if there is none.
    pub fn max_ns(&self) -> Nanos {
        self.max_ns
    }

    /// The mean in nanoseconds; 0 if there is none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// The standard deviation in nanoseconds (n - 1); 0 for fewer than two.
    pub fn deviation_ns(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let mean = self.mean_ns();
        let squares = self.sum_of_squares - self.count as f64 * mean * mean;
        (squares / (self.count - 1) as f64).max(0.0).sqrt()
    }

    /// The percentile as fio reports it: the middle of the first bucket that `percent` of the
    /// latencies do not exceed.
    ///
    /// It may be above the largest latency counted. `percent` is 0 to 100; the result is 0 if
    /// nothing was counted.
    pub fn percentile_unclamped_ns(&self, percent: f64) -> Nanos {
        if self.count == 0 {
            return 0;
        }
        percentile_bucket(self.bins(), self.count, percent).map_or(self.max_ns, bucket_ns)
    }

    /// The percentile as Hoistway's tables report it: limited to the smallest and largest latency
    /// counted.
    ///
    /// ```
    /// use hoistway_experiment::Histogram;
    ///
    /// let mut latencies = Histogram::new();
    /// (1..=1000).for_each(|us| latencies.add(us * 1_000));
    /// let p99_ns = latencies.percentile_ns(99.0);
    /// assert!((980_000..=1_000_000).contains(&p99_ns), "{p99_ns}");
    /// assert_eq!(latencies.percentile_ns(100.0), 1_000_000);
    /// ```
    pub fn percentile_ns(&self, percent: f64) -> Nanos {
        if self.count == 0 {
            return 0;
        }
        self.percentile_unclamped_ns(percent).clamp(self.min_ns, self.max_ns)
    }

    /// The buckets in use with their counts, in ascending order.
    pub fn bins(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.used()
    }

    /// A histogram from other bins (latency in nanoseconds, count); minimum, maximum and sums are
    /// those of the given latencies.
    pub fn from_bins(bins: impl IntoIterator<Item = (Nanos, u64)>) -> Histogram {
        let mut histogram = Histogram::new();
        for (latency_ns, count) in bins.into_iter().filter(|&(_, count)| count > 0) {
            *histogram.counts.at_mut(bucket_of(latency_ns)) += count;
            histogram.count += count;
            histogram.min_ns = histogram.min_ns.min(latency_ns);
            histogram.max_ns = histogram.max_ns.max(latency_ns);
            histogram.sum_ns = histogram.sum_ns.saturating_add(latency_ns.saturating_mul(count));
            histogram.sum_of_squares += latency_ns as f64 * latency_ns as f64 * count as f64;
        }
        histogram
    }

    /// A histogram of `count` latencies with these percentiles, each exact to its bucket, and
    /// linear interpolation between them.
    ///
    /// `listed` contains percent (0 to 100) and nanoseconds, both ascending; latencies above the
    /// last percentile get its value. It is for results without buckets.
    pub fn from_percentiles(listed: &[(f64, Nanos)], count: u64) -> Histogram {
        let (mut below, mut before_ns) = (0, None);
        let mut bins: Vec<(Nanos, u64)> = Vec::new();
        for &(percent, ns) in listed {
            // The same rule as for looking up a percentile: the first latency that this many
            // requests do not exceed.
            #[expect(clippy::cast_possible_truncation, reason = "at most `count`")]
            let up_to = ((percent / 100.0 * count as f64).ceil() as u64).clamp(1, count.max(1));
            let here = up_to.saturating_sub(below).min(count);
            let from_ns = before_ns.unwrap_or(ns);
            let pieces = here.clamp(1, PIECES);
            for piece in 1..=pieces {
                let at_ns = from_ns + ns.saturating_sub(from_ns) * piece / pieces;
                bins.push((at_ns, here * piece / pieces - here * (piece - 1) / pieces));
            }
            (below, before_ns) = (below.max(up_to), Some(ns));
        }
        bins.extend(before_ns.map(|last_ns| (last_ns, count.saturating_sub(below))));
        Self::from_bins(bins)
    }
}

/// Number of steps of the interpolation between two listed percentiles.
const PIECES: u64 = 64;

/// The first bucket at which at least `percent` of all `count` latencies are reached.
fn percentile_bucket(mut bins: impl Iterator<Item = (usize, u64)>, count: u64, percent: f64) -> Option<usize> {
    // At least one, because the 0th percentile is the smallest bucket in use.
    let wanted = (percent / 100.0 * count as f64).max(1.0);
    let mut running = 0_u64;
    let last = bins.find(|(_, in_bucket)| {
        running += in_bucket;
        running as f64 >= wanted
    });
    last.map(|(bucket, _)| bucket)
}

/// Counts of one second. It holds only what percentiles need, because every latency is added to it
/// in addition to the [`Histogram`].
#[derive(Debug)]
pub(crate) struct SecondCounts {
    counts: Counts<u32>,
    max_ns: Nanos,
}

impl SecondCounts {
    pub(crate) fn new() -> Self {
        Self { counts: Counts::default(), max_ns: 0 }
    }

    /// Allocates all its memory now.
    pub(crate) fn reserve(&mut self) {
        self.counts.reserve_all();
    }

    /// Counts a latency whose bucket is already known.
    #[inline]
    pub(crate) fn add(&mut self, bucket: usize, latency_ns: Nanos) {
        *self.counts.at_mut(bucket) += 1;
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// A percentile of all `count` latencies that were added, in nanoseconds; not above the
    /// largest.
    pub(crate) fn percentile_ns(&self, count: u64, percent: f64) -> Nanos {
        percentile_bucket(self.counts.used(), count, percent)
            .map_or(self.max_ns, |bucket| bucket_ns(bucket).min(self.max_ns))
    }

    pub(crate) fn max_ns(&self) -> Nanos {
        self.max_ns
    }

    pub(crate) fn clear(&mut self) {
        self.counts.pages.fill(0);
        self.max_ns = 0;
    }
}

/// The serialised form: only the buckets in use.
#[derive(Serialize, Deserialize)]
struct Sparse {
    min_ns: Nanos,
    max_ns: Nanos,
    sum_ns: u64,
    sum_of_squares: f64,
    /// Pairs of bucket number and count.
    bins: Vec<(usize, u64)>,
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Self {
        Self {
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns,
            sum_ns: histogram.sum_ns,
            sum_of_squares: histogram.sum_of_squares,
            bins: histogram.bins().collect(),
        }
    }
}

impl TryFrom<Sparse> for Histogram {
    type Error = String;

    fn try_from(sparse: Sparse) -> Result<Self, String> {
        let mut histogram = Histogram::new();
        for (bucket, count) in sparse.bins {
            if bucket >= BUCKETS {
                return Err(format!("histogram bucket {bucket} is not below {BUCKETS}"));
            }
            *histogram.counts.at_mut(bucket) += count;
            histogram.count += count;
        }
        if histogram.count > 0 {
            if bucket_of(sparse.min_ns) > bucket_of(sparse.max_ns) {
                return Err(format!(
                    "histogram minimum {} ns is above its maximum {} ns",
                    sparse.min_ns, sparse.max_ns
                ));
            }
            (histogram.min_ns, histogram.max_ns) = (sparse.min_ns, sparse.max_ns);
            (histogram.sum_ns, histogram.sum_of_squares) = (sparse.sum_ns, sparse.sum_of_squares);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_contains_its_own_middle() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(bucket_ns(bucket)), bucket);
        }
        assert_eq!(bucket_of(Nanos::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_bucket_is_at_most_one_in_128_off() {
        for latency_ns in (0..40).flat_map(|shift| [1_u64 << shift, (3 << shift) / 2, (1 << (shift + 1)) - 1]) {
            // The last bucket ends at 2^34 ns; larger latencies are counted in it.
            if latency_ns < 1 << 34 {
                assert!(
                    bucket_ns(bucket_of(latency_ns)).abs_diff(latency_ns) * 128 <= latency_ns.max(128),
                    "{latency_ns}"
                );
            }
        }
    }

    #[test]
    fn merging_equals_counting_together() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for latency_ns in [5, 900, 1_000_000] {
            a.add(latency_ns);
            both.add(latency_ns);
        }
        for latency_ns in [1, 70_000] {
            b.add(latency_ns);
            both.add(latency_ns);
        }
        a.merge(&b);
        assert_eq!(a, both);
        assert_eq!((a.count(), a.min_ns(), a.max_ns(), a.mean_ns()), (5, 1, 1_000_000, 1_070_906.0 / 5.0));
    }

    #[test]
    fn the_stored_form_reads_back() {
        let mut histogram = Histogram::new();
        (0..1000).for_each(|i| histogram.add(i * i));
        let json = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
        let empty = serde_json::to_string(&Histogram::new()).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&empty).unwrap(), Histogram::new());
        assert!(serde_json::from_str::<Histogram>(&json.replace("[0,", "[5000,")).is_err());
    }

    #[test]
    fn a_second_forgets_the_one_before() {
        let mut second = SecondCounts::new();
        let add = |second: &mut SecondCounts, latency_ns| second.add(bucket_of(latency_ns), latency_ns);
        [3, 77, 1 << 33].into_iter().for_each(|latency_ns| add(&mut second, latency_ns));
        assert_eq!((second.percentile_ns(3, 50.0), second.max_ns()), (77, 1 << 33));
        second.clear();
        assert_eq!((second.percentile_ns(0, 99.0), second.max_ns()), (0, 0));
        [500, 500].into_iter().for_each(|latency_ns| add(&mut second, latency_ns));
        assert_eq!((second.percentile_ns(2, 1.0), second.percentile_ns(2, 99.0)), (500, 500));
    }

    #[test]
    fn listed_percentiles_are_given_back() {
        // fio's list with values in separate buckets; counts that do not divide evenly would reveal
        // an off-by-one error.
        let percents = [1.0, 5.0, 10.0, 50.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
        let listed: Vec<(f64, Nanos)> =
            percents.iter().zip(1..).map(|(percent, n)| (*percent, bucket_ns(bucket_of(n * n * 100_000)))).collect();
        for count in [71, 99, 101, 997, 1_000, 12_345, 5_000_003] {
            let histogram = Histogram::from_percentiles(&listed, count);
            assert_eq!(histogram.percentile_unclamped_ns(50.0), listed[3].1, "of {count}");
            if count > 10_000 {
                for (percent, ns) in &listed {
                    assert_eq!(histogram.percentile_unclamped_ns(*percent), *ns, "{percent} of {count}");
                }
            }
        }
    }

    #[test]
    fn percentiles_in_tables_do_not_exceed_the_maximum() {
        let mut histogram = Histogram::new();
        histogram.add(4096);
        assert_eq!((histogram.percentile_unclamped_ns(99.0), histogram.percentile_ns(99.0)), (4128, 4096));
    }
}
