//! Hot spots: how often each block is accessed, as a table of shares that is built once and
//! searched per draw.
//!
//! ```text
//! promise  zipf, pareto and normal with the parameters that fio takes; not fio's own sequence
//! cost     at most 730 table rows at load; per draw a binary search, one division, no allocation
//! limits   inside a row all ranks are equally likely; the first 64 ranks have a row each, the
//!          others share rows one sixteenth of their rank wide, so a rank's share is off by at
//!          most theta x 3 %
//! ```
//! Powers are computed in fixed point by the functions below instead of `f64::powf`, whose last
//! digit differs between systems, because a seed must replay everywhere.

use hoistway_block::random::Stream;

use crate::job::{Amount, Direction, Distribution, ZoneShare};

/// Draws of one distribution over a fixed number of blocks.
#[derive(Clone, Debug)]
pub struct Ranks {
    blocks: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// `cumulative[i]`: share of all I/Os, in 2^-63, that access ranks below `first_rank[i + 1]`.
    Table { first_rank: Vec<u64>, cumulative: Vec<u64>, multiplier: u64, first_block: u64 },
    /// The normal distribution as the sum of twelve uniform terms: half the width of each, and the
    /// middle, in blocks.
    Bell { half_width_blocks: u64, middle: u64 },
    /// Cumulative share in percent, first block and number of blocks of each part.
    Parts(Vec<(u64, u64, u64)>),
}

/// 1.0 in the fixed-point form of this file.
const ONE: u64 = 1 << 32;
/// ln 2 in the fixed-point form.
const LN_2: u64 = 2_977_044_472;
/// 1.0 of shares and weights, which need more digits: 2^62.
const WHOLE: u64 = 1 << 62;
/// Number of ranks with a row of their own.
const SINGLE_RANKS: u64 = 64;

impl Ranks {
    /// The distribution over `blocks` blocks (at least 1). [`Distribution::Uniform`] gives a flat
    /// table.
    ///
    /// `centre_millionths` is the position of the hottest block relative to all; blocks have
    /// `block_bytes`.
    pub fn new(
        distribution: &Distribution,
        centre_millionths: Option<u32>,
        direction: Direction,
        (blocks, block_bytes): (u64, u64),
    ) -> Self {
        let blocks = blocks.max(1);
        let centre = |millionths: u32| {
            let block = u128::from(blocks) * u128::from(millionths) / 1_000_000;
            u64::try_from(block).unwrap_or(0).min(blocks - 1)
        };
        let mut shape = match *distribution {
            Distribution::Uniform => table(blocks, |first, end| u128::from(end - first)),
            Distribution::Zipf { theta_millionths } => {
                let theta = fixed_millionths(theta_millionths);
                table(blocks, |first, end| zipf_weight(first, end, theta))
            }
            Distribution::Pareto { h_millionths } => {
                let exponent = pareto_exponent(h_millionths);
                table(blocks, |first, end| {
                    let share_below = |rank: u64| share_to_power(rank, blocks, exponent);
                    share_below(end).saturating_sub(share_below(first))
                })
            }
            Distribution::Normal { deviation_millionths } => {
                // Twelve uniform terms of half width w have a variance of 12 w^2 / 3, a standard
                // deviation of 2 w.
                let deviation = u128::from(blocks) * u128::from(deviation_millionths) / 1_000_000;
                let half_width_blocks = u64::try_from(deviation / 2).unwrap_or(u64::MAX / 32).max(1);
                Shape::Bell { half_width_blocks, middle: centre_millionths.map_or(blocks / 2, centre) }
            }
            Distribution::Zoned(ref zones) => parts(zones.of(direction), blocks, block_bytes),
        };
        if let Shape::Table { first_block, .. } = &mut shape {
            *first_block = centre_millionths.map_or(0, centre);
        }
        Self { blocks, shape }
    }

    /// The next block, below the number of blocks.
    pub fn draw(&self, random: &mut Stream) -> u64 {
        match &self.shape {
            Shape::Table { first_rank, cumulative, multiplier, first_block } => {
                let share = random.next() >> 1;
                let row = cumulative.partition_point(|below| *below <= share).min(cumulative.len() - 1);
                let (first, end) = (first_rank[row], first_rank[row + 1]);
                let rank = first + random.below(end - first);
                let block = self.scatter(rank, *multiplier);
                // Rank 0 is scattered to block 0; a rotation moves it to its place.
                if block < self.blocks - first_block {
                    block + first_block
                } else {
                    block - (self.blocks - first_block)
                }
            }
            Shape::Bell { half_width_blocks, middle } => self.bell(*half_width_blocks, *middle, random),
            Shape::Parts(parts) => {
                let total = parts.last().map_or(1, |part| part.0).max(1);
                let drawn = random.below(total);
                let (_, first, blocks) = parts[parts.partition_point(|part| part.0 <= drawn).min(parts.len() - 1)];
                first + random.below(blocks)
            }
        }
    }

    /// Spreads ranks over the area: hot blocks are not neighbours, and each rank has one block of
    /// its own.
    fn scatter(&self, rank: u64, multiplier: u64) -> u64 {
        if self.blocks <= u64::from(u32::MAX) {
            return rank * multiplier % self.blocks;
        }
        let product = u128::from(rank) * u128::from(multiplier) % u128::from(self.blocks);
        u64::try_from(product).unwrap_or(0)
    }

    fn bell(&self, half_width_blocks: u64, middle: u64, random: &mut Stream) -> u64 {
        // A draw outside the area is repeated: two of three if the deviation is as large as the
        // area and the centre is at its edge. 64 misses in a row do not happen in practice.
        for _ in 0..64 {
            let sum = (0..12).fold(0_u64, |sum, _| sum.saturating_add(random.below(2 * half_width_blocks + 1)));
            let block = middle.saturating_add(sum).checked_sub(12 * half_width_blocks);
            if let Some(block) = block.filter(|block| *block < self.blocks) {
                return block;
            }
        }
        middle
    }
}

/// Parts of the area by their shares. The area beyond them is not accessed; parts beyond the area
/// are dropped.
fn parts(zones: &[ZoneShare], blocks: u64, block_bytes: u64) -> Shape {
    let (mut sum, mut first) = (0, 0);
    let mut parts = Vec::new();
    for zone in zones {
        let wanted = match zone.size {
            Amount::Bytes(bytes) => bytes / block_bytes.max(1),
            percent @ Amount::Percent(_) => percent.of(blocks),
        };
        let count = wanted.min(blocks - first);
        if count > 0 && zone.percent > 0 {
            sum += u64::from(zone.percent);
            parts.push((sum, first, count));
        }
        first += count;
    }
    if parts.is_empty() {
        parts.push((1, 0, blocks));
    }
    Shape::Parts(parts)
}

/// Rows over all ranks, each with the weight that `weight(first, end)` gives it.
fn table(blocks: u64, weight: impl Fn(u64, u64) -> u128) -> Shape {
    let mut first_rank = vec![0];
    let mut sums = Vec::new();
    let (mut edge, mut sum) = (0_u64, 0_u128);
    while edge < blocks {
        let width = if edge < SINGLE_RANKS { 1 } else { edge / 16 };
        let end = edge.saturating_add(width).min(blocks);
        sum += weight(edge, end);
        first_rank.push(end);
        sums.push(sum);
        edge = end;
    }
    // Shares are in 2^-63; the sum is reduced to 64 bits first so that the product fits.
    let cut = (128 - sum.leading_zeros()).saturating_sub(64);
    let whole = (sum >> cut).max(1);
    let share = |part: u128| u64::try_from(((part >> cut) << 63) / whole).unwrap_or(u64::MAX);
    Shape::Table {
        first_rank,
        cumulative: sums.into_iter().map(share).collect(),
        multiplier: multiplier(blocks),
        first_block: 0,
    }
}

/// A number near the golden section of `blocks` that is coprime to it, so that the multiplication
/// permutes the blocks.
fn multiplier(blocks: u64) -> u64 {
    let mut candidate = u64::try_from(u128::from(blocks) * 618 / 1000).unwrap_or(0) | 1;
    while greatest_common_divisor(candidate, blocks) != 1 {
        candidate += 2;
    }
    candidate
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Weight of the ranks `first..end` (counted from 0): their number x (middle rank)^-theta.
fn zipf_weight(first: u64, end: u64, theta: u64) -> u128 {
    // Zipf's law counts ranks from 1: the middle is (first + 1 + end) / 2, one less in the binary
    // logarithm.
    let middle_log2 = log2(first.saturating_add(1).saturating_add(end)) - ONE;
    u128::from(end - first) * u128::from(two_to_minus(times(theta, middle_log2)))
}

/// ln(1 - h) / ln(h): the exponent that turns a fraction of the blocks into their fraction of the
/// I/Os.
fn pareto_exponent(h_millionths: u32) -> u64 {
    let h = u64::from(h_millionths).clamp(1, 999_999);
    let million = log2(1_000_000);
    let (above, below) = (million - log2(1_000_000 - h), million - log2(h));
    u64::try_from((u128::from(above) << 32) / u128::from(below.max(1))).unwrap_or(u64::MAX)
}

/// (rank / blocks)^exponent, in units of 1 / [`WHOLE`].
fn share_to_power(rank: u64, blocks: u64, exponent: u64) -> u128 {
    match rank {
        0 => 0,
        _ => u128::from(two_to_minus(times(exponent, log2(blocks).saturating_sub(log2(rank))))),
    }
}

fn fixed_millionths(millionths: u32) -> u64 {
    (u64::from(millionths) << 32) / 1_000_000
}

fn times(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 32).unwrap_or(u64::MAX)
}

/// Base-2 logarithm in the fixed-point form, truncated; 0 for 0 and 1.
const fn log2(value: u64) -> u64 {
    let Some(whole) = value.checked_ilog2() else { return 0 };
    let mut result = (whole as u64) << 32;
    // Mantissa in [1, 2) with 63 fractional bits; squaring doubles the logarithm, so each overflow
    // past 2 is one bit of it.
    let mut mantissa = value << (63 - whole);
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        let square = mantissa as u128 * mantissa as u128;
        let overflowed = (square >> 127) as u32;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a square below 2^(127 + overflowed), shifted into 64 bits"
        )]
        let scaled = (square >> (63 + overflowed)) as u64;
        mantissa = scaled;
        result |= (overflowed as u64) << bit;
    }
    result
}

/// log2(1 + i / 256) in the fixed-point form: the points between which [`log2_interpolated`] is
/// linear.
const LOG2_OF_MANTISSA: [u64; 257] = {
    let mut table = [0; 257];
    let mut index = 0;
    while index < 257 {
        table[index] = log2(256 + index as u64) - (8 << 32);
        index += 1;
    }
    table
};

/// [`log2`] for the hot path: takes a tenth of its time and is at most 3 x 10^-6 too small.
fn log2_interpolated(value: u64) -> u64 {
    let Some(whole) = value.checked_ilog2() else { return 0 };
    let fraction = (value << (63 - whole) << 1) >> 32;
    let row = (fraction >> 24) as usize;
    let (low, high) = (LOG2_OF_MANTISSA[row], LOG2_OF_MANTISSA[row + 1]);
    (u64::from(whole) << 32) + low + (((high - low) * (fraction & 0xff_ffff)) >> 24)
}

/// 2^-(1/2), 2^-(1/4), 2^-(1/8), ... in units of 1 / [`WHOLE`]: one factor per fractional bit.
const HALVINGS: [u64; 32] = {
    let mut table = [0; 32];
    let mut factor = (WHOLE / 2) as u128;
    let mut index = 0;
    while index < 32 {
        factor = (factor << 62).isqrt();
        #[expect(clippy::cast_possible_truncation, reason = "below 2^62: a root of a number below 1")]
        let cut = factor as u64;
        table[index] = cut;
        index += 1;
    }
    table
};

/// 2^-x in units of 1 / [`WHOLE`], x in the fixed-point form.
fn two_to_minus(x: u64) -> u64 {
    let whole = x >> 32;
    if whole > 62 {
        return 0;
    }
    let mut product = u128::from(WHOLE);
    for (index, factor) in HALVINGS.iter().enumerate() {
        if x >> (31 - index) & 1 == 1 {
            product = (product * u128::from(*factor)) >> 62;
        }
    }
    u64::try_from(product >> whole).unwrap_or(0)
}

/// Draws from the exponential distribution with this mean, for the gaps of a Poisson process.
pub fn exponential(mean_ns: u64, random: &mut Stream) -> u64 {
    // -ln(u) for u = r / 2^64, r at least 1: at most 44.4 means.
    let minus_log2 = (64 << 32) - log2_interpolated(random.next().max(1));
    times(mean_ns, times(minus_log2, LN_2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_of_hottest(distribution: &Distribution, blocks: u64, hottest: usize) -> f64 {
        let ranks = Ranks::new(distribution, None, Direction::Read, (blocks, 4096));
        let mut random = Stream::new(3);
        let mut hits = vec![0_u32; usize::try_from(blocks).expect("small")];
        for _ in 0..400_000 {
            hits[usize::try_from(ranks.draw(&mut random)).expect("small")] += 1;
        }
        hits.sort_unstable_by(|a, b| b.cmp(a));
        f64::from(hits[..hottest].iter().sum::<u32>()) / 400_000.0
    }

    #[test]
    fn logarithm_and_power_are_right_to_nine_digits() {
        for value in [1_u64, 2, 3, 10, 513, 1_000_000, 0xdead_beef_1234, u64::MAX] {
            let expected = (value as f64).log2();
            assert!((log2(value) as f64 / ONE as f64 - expected).abs() < 1e-8, "log2 {value}");
            assert!((log2_interpolated(value) as f64 / ONE as f64 - expected).abs() < 3e-6, "interpolated {value}");
        }
        for x in [0.0_f64, 0.25, 1.0, 3.7, 20.0] {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test value below 2^37")]
            let got = two_to_minus((x * ONE as f64) as u64) as f64 / WHOLE as f64;
            assert!((got / (-x).exp2() - 1.0).abs() < 1e-8, "2^-{x}");
        }
    }

    #[test]
    fn zipf_one_gives_the_hottest_blocks_their_harmonic_share() {
        // theta 1 over 1,000 blocks: H(10) / H(1000) = 2.92897 / 7.48547 = 39.13 %.
        let share = share_of_hottest(&Distribution::Zipf { theta_millionths: 1_000_000 }, 1000, 10);
        assert!((share - 0.3913).abs() < 0.005, "{share}");
    }

    #[test]
    fn pareto_gives_h_of_the_blocks_the_rest_of_the_ios() {
        let share = share_of_hottest(&Distribution::Pareto { h_millionths: 200_000 }, 1000, 200);
        assert!((share - 0.8).abs() < 0.005, "{share}");
    }

    #[test]
    fn normal_keeps_two_thirds_within_one_deviation() {
        for (centre, middle) in [(None, 50_000), (Some(300_000), 30_000)] {
            let normal = Distribution::Normal { deviation_millionths: 100_000 };
            let ranks = Ranks::new(&normal, centre, Direction::Read, (100_000, 4096));
            let mut random = Stream::new(5);
            let inside = (0..100_000).filter(|_| ranks.draw(&mut random).abs_diff(middle) <= 10_000).count();
            assert!((67_200..69_500).contains(&inside), "{inside} of 100000, 68.27 % expected");
        }
    }

    #[test]
    fn a_centre_is_where_the_hottest_block_is() {
        let zipf = Distribution::Zipf { theta_millionths: 1_200_000 };
        let ranks = Ranks::new(&zipf, Some(250_000), Direction::Read, (1_000, 4096));
        let mut random = Stream::new(7);
        let mut hits = vec![0_u32; 1_000];
        (0..100_000).for_each(|_| hits[usize::try_from(ranks.draw(&mut random)).expect("small")] += 1);
        let hottest = (0..1_000).max_by_key(|block| hits[*block]);
        assert_eq!(hottest, Some(250));
    }

    #[test]
    fn parts_get_their_shares_and_nothing_else_is_touched() {
        // fio's example: 60 % in the first 10 %, 30 % in the next 20 %, 8 % in the next 30 %, 2 %
        // in the rest.
        let share = |percent, size| ZoneShare { percent, size: Amount::Percent(size) };
        let zones = vec![share(60, 10), share(30, 20), share(8, 30), share(2, 40)];
        let zoned = Distribution::Zoned(crate::job::PerDirection::all(zones));
        let ranks = Ranks::new(&zoned, None, Direction::Write, (1_000, 4096));
        let mut random = Stream::new(7);
        let mut hits = [0_u32; 4];
        for _ in 0..100_000 {
            let block = ranks.draw(&mut random);
            hits[[100, 300, 600, 1_000].iter().position(|end| block < *end).expect("inside")] += 1;
        }
        for (hits, expected) in hits.into_iter().zip([60_000_u32, 30_000, 8_000, 2_000]) {
            assert!(hits.abs_diff(expected) < 600, "{hits} of {expected}");
        }
        // Parts given in bytes: 2 blocks, 3 blocks, and one that is dropped because it is beyond
        // the area.
        let bytes = |percent, bytes| ZoneShare { percent, size: Amount::Bytes(bytes) };
        let zones = vec![bytes(50, 8192), bytes(30, 12_288), bytes(20, 1 << 40)];
        let zoned = Distribution::Zoned(crate::job::PerDirection::all(zones));
        let ranks = Ranks::new(&zoned, None, Direction::Read, (5, 4096));
        let below_2 = (0..10_000).filter(|_| ranks.draw(&mut random) < 2).count();
        // The first part has 50 of the 80 % that the two remaining parts have together.
        assert!(below_2.abs_diff(6_250) < 200, "{below_2}");
    }

    #[test]
    fn exponential_gaps_have_the_mean_and_the_tail() {
        let mut random = Stream::new(9);
        let gaps: Vec<u64> = (0..200_000).map(|_| exponential(1000, &mut random)).collect();
        let mean = gaps.iter().sum::<u64>() / 200_000;
        let beyond_two_means = gaps.iter().filter(|gap| **gap > 2000).count();
        assert!((990..=1010).contains(&mean), "{mean}");
        // e^-2 = 13.53 % of 200,000 = 27,067; three standard deviations = 460.
        assert!(beyond_two_means.abs_diff(27_067) < 600, "{beyond_two_means}");
    }

    #[test]
    fn the_scatter_is_a_permutation() {
        let zipf = Distribution::Zipf { theta_millionths: 1_200_000 };
        let ranks = Ranks::new(&zipf, None, Direction::Read, (4095, 4096));
        let mut seen: Vec<u64> = (0..4095).map(|rank| ranks.scatter(rank, multiplier(4095))).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..4095).collect::<Vec<_>>());
    }
}
