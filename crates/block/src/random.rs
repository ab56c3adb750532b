//! The random streams of everything that must be reproducible: xoshiro256** seeded through
//! splitmix64.
//!
//! Implemented here and not taken from a library, because the exact sequence is part of what a seed
//! means, in every crate and in the kernel. Source: Blackman & Vigna (public domain); the seeding
//! rule is docs/specifications/devices.md, section 2.4.

/// An independent stream. Each component has its own, so that adding one does not change the
/// others' sequences.
///
/// ```
/// use hoistway_block::random::Stream;
///
/// let (mut first, mut again) = (Stream::of(7, "dev0/disk1"), Stream::of(7, "dev0/disk1"));
/// assert_eq!([(); 3].map(|()| first.below(100)), [(); 3].map(|()| again.below(100)));
/// assert_ne!(Stream::of(7, "dev0/disk2").next(), Stream::of(7, "dev0/disk1").next());
/// ```
#[derive(Clone, Debug)]
pub struct Stream([u64; 4]);

impl Stream {
    /// The stream of a seed.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        let mut state = seed;
        Self([splitmix64(&mut state), splitmix64(&mut state), splitmix64(&mut state), splitmix64(&mut state)])
    }

    /// The stream of one component of a run, named by its path: `"dev0/disk7"`, `"proc/A/3"`.
    #[inline]
    pub const fn of(run_seed: u64, path: &str) -> Self {
        Self::new(run_seed ^ fnv1a64(path.as_bytes()))
    }

    /// The next 64 random bits.
    #[inline]
    pub const fn next(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.0;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.0 = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        result
    }

    /// A number below `bound`, uniform except for a bias of less than 2^-64 x bound; 0 if the bound
    /// is 0.
    #[inline]
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// True with probability `numerator` / `denominator`.
    #[inline]
    pub const fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

const fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = *state;
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a, 64 bits: names of components, checksums of logs.
#[inline]
pub const fn fnv1a64(bytes: &[u8]) -> u64 {
    fnv1a64_continued(0xcbf2_9ce4_8422_2325, bytes)
}

/// FNV-1a over further bytes of the same message.
#[inline]
pub const fn fnv1a64_continued(mut hash: u64, mut bytes: &[u8]) -> u64 {
    while let [first, rest @ ..] = bytes {
        hash = (hash ^ *first as u64).wrapping_mul(0x0100_0000_01b3);
        bytes = rest;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are from the authors' C sources: splitmix64 from 1234567, xoshiro256** from 1, 2,
    /// 3, 4, and both combined from 1.
    #[test]
    fn t03_the_generator_is_the_published_one() {
        assert_eq!(splitmix64(&mut 1_234_567), 6_457_827_717_110_365_317);
        let mut stream = Stream([1, 2, 3, 4]);
        assert_eq!([(); 4].map(|()| stream.next()), [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
        let mut stream = Stream::new(1);
        let first = [0xb3f2_af6d_0fc7_10c5, 0x853b_5596_4736_4cea, 0x92f8_9756_082a_4514, 0x642e_1c7b_c266_a3a7];
        assert_eq!([(); 4].map(|()| stream.next()), first);
    }

    #[test]
    fn t03_numbers_below_a_bound_are_uniform() {
        let mut stream = Stream::new(1);
        let mut bins = [0_u32; 10];
        for _ in 0..1_000_000 {
            bins[usize::try_from(stream.below(10)).unwrap()] += 1;
        }
        assert!(bins.iter().all(|count| count.abs_diff(100_000) <= 1_200), "{bins:?}");
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
    }
}
