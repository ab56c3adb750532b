//! How long limiters held each group back: the time in which at least one bio of the group was
//! held.
//!
//! Cost: a few words per group, touched only when a bio is held or released.

use hoistway_block::Nanos;

/// The number of bios of one group that limiters hold, and since when it is above zero.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    bios: u32,
    since_ns: Nanos,
    total_ns: Nanos,
}

impl Held {
    pub const NONE: Self = Self { bios: 0, since_ns: 0, total_ns: 0 };

    /// A limiter holds one more bio.
    pub fn begin(&mut self, now: Nanos) {
        if self.bios == 0 {
            self.since_ns = now;
        }
        self.bios = self.bios.saturating_add(1);
    }

    /// A limiter released one bio.
    pub fn end(&mut self, now: Nanos) {
        self.bios = self.bios.saturating_sub(1);
        if self.bios == 0 {
            self.total_ns += now.saturating_sub(self.since_ns);
        }
    }

    /// The total time up to `now`.
    pub fn total_ns(&self, now: Nanos) -> Nanos {
        let running_ns = if self.bios > 0 { now.saturating_sub(self.since_ns) } else { 0 };
        self.total_ns + running_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_waits_count_once() {
        let mut held = Held::NONE;
        held.begin(100);
        held.begin(150);
        assert_eq!(held.total_ns(160), 60);
        held.end(170);
        held.end(200);
        assert_eq!(held.total_ns(900), 100);
        held.begin(1_000);
        held.end(1_010);
        assert_eq!(held.total_ns(2_000), 110);
    }
}
