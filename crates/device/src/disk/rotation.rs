//! The angle of the platters: the part of a track that is under the head at a time, and the time
//! until another one is.
//!
//! Angles are `u32` and a revolution is 2^32, so that differences wrap correctly
//! (docs/specifications/devices.md, section 4.2). A division by the time of a revolution is done as
//! a multiplication by its reciprocal, for speed: when the drive chooses the next command, it needs
//! two divisions for each queued command that it considers.

use hoistway_block::Nanos;

/// A constant speed of rotation since time 0.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Rotation {
    turn_ns: Nanos,
    /// floor((2^64 - 1) / turn_ns).
    reciprocal: u64,
    slack_ns: Nanos,
}

impl Rotation {
    /// A target that the head passed less than `slack_ns` ago counts as under the head.
    pub(crate) fn new(rpm: u64, slack_ns: Nanos) -> Self {
        let turn_ns = turn_ns(rpm);
        Self { turn_ns, reciprocal: u64::MAX / turn_ns, slack_ns }
    }

    /// Time of one revolution.
    #[inline]
    pub(crate) fn turn_ns(&self) -> Nanos {
        self.turn_ns
    }

    /// The angle under the head.
    #[inline]
    pub(crate) fn angle_at(&self, at: Nanos) -> u32 {
        let (_, into_turn_ns) = self.divide(at);
        let (angle, _) = self.divide(into_turn_ns << 32);
        low_half(angle)
    }

    /// Time until `angle` comes under the head.
    #[inline]
    pub(crate) fn wait_ns(&self, at: Nanos, angle: u32) -> Nanos {
        let ahead = angle.wrapping_sub(self.angle_at(at));
        let wait_ns = (u64::from(ahead) * self.turn_ns) >> 32;
        if wait_ns + self.slack_ns >= self.turn_ns { 0 } else { wait_ns }
    }

    /// Quotient and remainder by the revolution.
    #[inline]
    fn divide(&self, value: u64) -> (u64, u64) {
        let mut quotient = ((u128::from(value) * u128::from(self.reciprocal)) >> 64) as u64;
        let mut remainder = value - quotient * self.turn_ns;
        // The reciprocal is rounded down, so the estimate is too small by at most two.
        while remainder >= self.turn_ns {
            quotient += 1;
            remainder -= self.turn_ns;
        }
        (quotient, remainder)
    }
}

/// Time of one revolution, to the nearest nanosecond.
pub(crate) fn turn_ns(rpm: u64) -> Nanos {
    ((60_000_000_000 + rpm / 2) / rpm.max(1)).max(1)
}

/// The angle of a value in units of 2^-32 revolutions; whole revolutions are dropped.
#[inline]
fn low_half(fraction: u64) -> u32 {
    (fraction & 0xffff_ffff) as u32
}

/// The angle of `part` of `whole`.
#[inline]
pub(crate) fn angle_of(part: u64, whole: u64) -> u32 {
    low_half((part << 32) / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t08_angles_and_waits() {
        let rotation = Rotation::new(7_200, 20_000);
        let turn = rotation.turn_ns();
        assert_eq!(turn, 8_333_333);
        assert_eq!((rotation.angle_at(0), rotation.angle_at(turn)), (0, 0));
        assert_eq!(rotation.angle_at(4_166_666), 2_147_483_390);
        for at in [0, 1, 4_166_666, 8_333_332, 123_456_789_012, 86_400_000_000_000] {
            let here = rotation.angle_at(at);
            assert_eq!(rotation.wait_ns(at, here), 0);
            assert_eq!(rotation.wait_ns(at, here.wrapping_sub(1)), 0, "inside the slack");
            let passed = rotation.angle_at(at + turn - 30_000);
            assert!(rotation.wait_ns(at, passed).abs_diff(turn - 30_000) <= 1, "outside of it");
        }
    }

    #[test]
    fn the_quotient_is_exact() {
        let mut stream = hoistway_block::random::Stream::new(1);
        for rpm in [60, 4_200, 7_200, 15_000, 99_991] {
            let rotation = Rotation::new(rpm, 0);
            for shift in [0, 1, 5, 20, 40] {
                let value = stream.next() >> shift;
                assert_eq!(rotation.divide(value), (value / rotation.turn_ns, value % rotation.turn_ns));
            }
        }
    }
}
