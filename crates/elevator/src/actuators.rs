//! What a policy knows about a drive's actuators: which sectors each of them serves.

use hoistway_block::SectorRange;

/// The sectors of each actuator of a device, as far as policies distinguish them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Actuators {
    ranges: [SectorRange; Actuators::MOST],
    reported: u32,
}

impl Actuators {
    /// Drives with more actuators than this are treated as one actuator (`BFQ_MAX_ACTUATORS`).
    pub const MOST: usize = 8;

    /// One actuator, or a device without any.
    pub const ONE: Actuators =
        Actuators { ranges: [SectorRange { first_sector: 0, sectors: 0 }; Actuators::MOST], reported: 1 };

    /// Actuators with these ranges, in this order. None and one range count as one actuator.
    pub fn of(ranges: &[SectorRange]) -> Self {
        let mut actuators = Self::ONE;
        if ranges.len() > 1 {
            actuators.reported = u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        }
        for (place, range) in actuators.ranges.iter_mut().zip(ranges) {
            *place = *range;
        }
        actuators
    }

    /// How many actuators the device reports.
    pub const fn reported(&self) -> u32 {
        self.reported
    }

    /// How many are distinguished: all of them, or one.
    pub const fn count(&self) -> u32 {
        if self.reported as usize > Self::MOST { 1 } else { self.reported }
    }

    /// The sectors of each distinguished actuator; without a meaning if there is only one.
    pub fn ranges(&self) -> impl Iterator<Item = &SectorRange> {
        self.ranges.iter().take(self.count() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(count: u64) -> alloc::vec::Vec<SectorRange> {
        (0..count).map(|number| SectorRange { first_sector: number * 100, sectors: 100 }).collect()
    }

    #[test]
    fn one_is_none_and_more_than_eight_are_one() {
        assert_eq!((Actuators::of(&[]), Actuators::of(&ranges(1)).count()), (Actuators::ONE, 1));
        let nine = Actuators::of(&ranges(9));
        assert_eq!((nine.reported(), nine.count()), (9, 1));
        let eight = Actuators::of(&ranges(8));
        assert!(eight.ranges().copied().eq(ranges(8)) && eight.count() == 8);
    }
}
