//! Lengths of a thread's I/Os.

use hoistway_block::random::Stream;

use crate::job::BlockSize;

/// The sizes of one direction, prepared for drawing.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// A fixed size.
    Fixed(u32),
    /// `min + unit * k` for k below `steps`, but at most `max`.
    Range { min: u32, max: u32, unit: u32, steps: u32 },
    /// Cumulative weights with the size of each.
    Split { sums: Box<[(u64, u32)]>, total: u64 },
}

impl Sizes {
    /// Prepares the sizes of a job; sizes of 0 count as 1 byte.
    pub fn new(sizes: &BlockSize, unaligned: bool) -> Self {
        match sizes {
            BlockSize::Fixed(bytes) => Sizes::Fixed((*bytes).max(1)),
            BlockSize::Range { min, max } => {
                let (min, max) = ((*min).max(1), (*max).max(*min).max(1));
                let unit = if unaligned { 1 } else { min };
                Sizes::Range { min, max, unit, steps: (max - min) / unit + 1 }
            }
            BlockSize::Split(entries) => {
                let mut total = 0;
                let sums = entries.iter().map(|entry| {
                    total += u64::from(entry.weight);
                    (total, entry.bytes.max(1))
                });
                let sums: Box<[_]> = sums.collect();
                match sums.first() {
                    Some((_, bytes)) if total == 0 => Sizes::Fixed(*bytes),
                    None => Sizes::Fixed(4096),
                    Some(_) => Sizes::Split { sums, total },
                }
            }
        }
    }

    /// The smallest possible length in bytes.
    pub fn smallest_bytes(&self) -> u32 {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Range { min, .. } => *min,
            Sizes::Split { sums, .. } => {
                let mut before = 0;
                let drawn = sums.iter().filter(|(sum, _)| std::mem::replace(&mut before, *sum) < *sum);
                drawn.map(|(_, bytes)| *bytes).min().unwrap_or(4096)
            }
        }
    }

    /// Draws the next length in bytes.
    #[inline]
    pub fn draw(&self, random: &mut Stream) -> u32 {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Range { min, max, unit, steps } => {
                let step = u32::try_from(random.below(u64::from(*steps))).unwrap_or(0);
                (min + unit * step).min(*max)
            }
            Sizes::Split { sums, total } => {
                let drawn = random.below(*total);
                sums[sums.partition_point(|(sum, _)| *sum <= drawn).min(sums.len() - 1)].1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_takes_every_multiple_of_its_smallest_size_equally_often() {
        let sizes = Sizes::new(&BlockSize::Range { min: 4096, max: 16_384 }, false);
        let mut random = Stream::new(1);
        let mut counts = [0_u32; 4];
        for _ in 0..40_000 {
            counts[sizes.draw(&mut random) as usize / 4096 - 1] += 1;
        }
        // 10,000 each; four standard deviations are 346.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 350), "{counts:?}");
    }

    #[test]
    fn an_unaligned_range_takes_odd_sizes_too() {
        let sizes = Sizes::new(&BlockSize::Range { min: 1000, max: 1003 }, true);
        let mut random = Stream::new(1);
        let mut drawn: Vec<u32> = (0..100).map(|_| sizes.draw(&mut random)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [1000, 1001, 1002, 1003]);
    }
}
