//! An issuer's history: its think time between two sync requests, and its seek distance.
//!
//! All averages are exponentially weighted, and a new sample has weight 1/8: x <- (7x + 256 sample)
//! / 8, so that 256 stands for 1.

use hoistway_block::Nanos;

/// Think times are capped just below this.
const LONGEST_THINK_NS: Nanos = 20_000_000;

/// A moving average of samples.
#[derive(Copy, Clone, Debug, Default)]
pub struct Average {
    /// Weight of the history, up to 256.
    pub samples: u64,
    total: u64,
    pub mean: u64,
}

impl Average {
    fn add(&mut self, sample: u64) {
        self.samples = self.samples.wrapping_mul(7).wrapping_add(256) / 8;
        self.total = moved(self.total, sample);
        self.mean = self.total.saturating_add(self.samples / 2).checked_div(self.samples).unwrap_or(0);
    }
}

/// One step of a moving average. The averages over new processes use it without a sample count.
const fn moved(total: u64, sample: u64) -> u64 {
    total.saturating_mul(7).saturating_add(sample.saturating_mul(256)) / 8
}

/// What is known about new processes. A process is new until its second sync request.
#[derive(Copy, Clone, Debug)]
pub struct NewIssuers {
    think_total: u64,
    pub think_mean_ns: Nanos,
    seek_total: u64,
    pub seek_mean_sectors: u64,
    /// How many of 256 processes sent no second sync request, as a moving average.
    pub exit_probability: u64,
    /// How many of 256 processes were followed, after their exit, by no near sync request of
    /// another process.
    pub exit_no_coop: u64,
}

impl NewIssuers {
    pub const UNKNOWN: NewIssuers = NewIssuers {
        think_total: 0,
        think_mean_ns: 0,
        seek_total: 0,
        seek_mean_sectors: 0,
        exit_probability: 0,
        exit_no_coop: 0,
    };

    pub const fn left_after_one(&mut self) {
        self.exit_probability = (7 * self.exit_probability + 256) / 8;
    }

    pub const fn exited_without_cooperator(&mut self) {
        self.exit_no_coop = (7 * self.exit_no_coop + 256) / 8;
    }

    pub const fn had_cooperator(&mut self) {
        self.exit_no_coop = 7 * self.exit_no_coop / 8;
    }
}

/// The state of an issuer.
#[derive(Copy, Clone, Debug)]
pub struct Issuer {
    pub is_alive: bool,
    /// Whether it has issued a sync request; `has_run` tells whether one has completed.
    pub has_started: bool,
    pub has_run: bool,
    pub queued: u32,
    pub dispatched: u32,
    pub last_end_ns: Nanos,
    pub last_sector: u64,
    pub think: Average,
    pub seek: Average,
}

impl Issuer {
    pub const UNKNOWN: Issuer = Issuer {
        is_alive: false,
        has_started: false,
        has_run: false,
        queued: 0,
        dispatched: 0,
        last_end_ns: 0,
        last_sector: 0,
        think: Average { samples: 0, total: 0, mean: 0 },
        seek: Average { samples: 0, total: 0, mean: 0 },
    };

    /// A sync request of the issuer arrived (or one so near that it counts as the issuer's).
    pub fn issues(&mut self, new_issuers: &mut NewIssuers, first_sector: u64, end_sector: u64, now: Nanos) {
        if self.has_run || self.has_started {
            let is_thinking = self.has_run && self.queued == 0 && self.dispatched == 0;
            let thought = if is_thinking { now.saturating_sub(self.last_end_ns).min(LONGEST_THINK_NS - 1) } else { 0 };
            if self.think.samples == 0 {
                new_issuers.think_total = moved(new_issuers.think_total, thought);
                new_issuers.think_mean_ns = new_issuers.think_total / 256;
                new_issuers.exit_probability = 7 * new_issuers.exit_probability / 8;
            }
            self.think.add(thought);
            self.seeks(new_issuers, self.last_sector.abs_diff(first_sector));
        }
        self.last_sector = end_sector;
        self.has_started = true;
    }

    fn seeks(&mut self, new_issuers: &mut NewIssuers, sectors: u64) {
        if self.seek.samples == 0 {
            new_issuers.seek_total = moved(new_issuers.seek_total, sectors);
            new_issuers.seek_mean_sectors = new_issuers.seek_total / 256;
        }
        // Caps a single outlier, so that it cannot spoil the average; more strictly from the fourth
        // sample on, when their weight exceeds 60 of 256.
        let most = if self.seek.samples <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
        self.seek.add(sectors.min(self.seek.mean.saturating_mul(4).saturating_add(most)));
    }
}
