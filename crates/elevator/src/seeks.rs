//! How far the requests of a queue of bfq or cfq lie apart.

/// Whether each of the last 32 requests was far from the one before, and where the last one ended. What is far, and how
/// many of these are many, is the policy's.
#[derive(Copy, Clone, Debug)]
pub struct Seeks {
    /// The newest request is bit 0.
    history: u32,
    last_end_sector: u64,
}

impl Seeks {
    /// No request has been far.
    pub const NONE: Self = Self { history: 0, last_end_sector: 0 };
    /// As if the newest request had been far.
    pub const ONE: Self = Self { history: 1, last_end_sector: 0 };

    /// Where the last request ended; 0 if there was none.
    #[inline(always)]
    pub const fn last_end_sector(&self) -> u64 {
        self.last_end_sector
    }

    #[inline(always)]
    pub const fn record(&mut self, is_far: bool, end_sector: u64) {
        self.history = (self.history << 1) | is_far as u32;
        self.last_end_sector = end_sector;
    }

    /// Far requests among the last 32.
    #[inline(always)]
    pub const fn far(&self) -> u32 {
        self.history.count_ones()
    }

    #[inline(always)]
    pub const fn were_all_far(&self) -> bool {
        self.history == u32::MAX
    }

    #[inline(always)]
    pub const fn were_all_near(&self) -> bool {
        self.history == 0
    }

    /// For tests.
    #[cfg(test)]
    pub const fn of_history(history: u32) -> Self {
        Self { history, last_end_sector: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_32_requests_count() {
        let mut seeks = Seeks::ONE;
        assert!(seeks.far() == 1 && !seeks.were_all_near());
        (0..32).for_each(|at| seeks.record(false, at));
        assert!(seeks.were_all_near() && seeks.last_end_sector() == 31);
        (0..31).for_each(|at| seeks.record(true, at));
        assert!(seeks.far() == 31 && !seeks.were_all_far());
        seeks.record(true, 0);
        assert!(seeks.were_all_far());
    }
}
