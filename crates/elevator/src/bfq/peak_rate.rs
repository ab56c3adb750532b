//! The peak rate of the device, measured from dispatch to dispatch; budgets and the duration of
//! weight raising derive from it.

use super::Bfq;
use super::budget::DEFAULT_MAX_BUDGET;
use super::clock::Clock;
use super::next_request::{LONG_ON_FLASH_SECTORS, is_far_from};
use super::profile::Profile;
use super::turn_rate::{ENOUGH_LONG_TURNS, FAST_RAISING_MS};
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{Extent, Nanos};

/// Rates are in sectors per microsecond with this many fractional bits.
pub const RATE_SHIFT: u32 = 16;
/// Reference rates of a rotational device and of flash.
pub const REFERENCE_RATE: [u64; 2] = [14_000, 33_000];
const REFERENCE_RAISING_MS: [u64; 2] = [7_000, 2_500];
const SHORTEST_RAISING_MS: u64 = 3_000;
const LEAST_SAMPLES: u64 = 32;
const LEAST_INTERVAL_NS: Nanos = 300 * MILLISECOND;
const REFERENCE_INTERVAL_NS: Nanos = SECOND;
/// After a pause of this length in the device a new measurement begins.
const PAUSE_NS: Nanos = 100 * MILLISECOND;
/// Requests that arrive within this time after a completion keep the device busy.
const NO_PAUSE_NS: Nanos = 2 * MILLISECOND;
/// Rates above 20 million sectors a second are measurement errors.
const IMPOSSIBLE_RATE: u64 = 20 << RATE_SHIFT;
/// If the time between two completions corresponds to a rate below this, the device was doing
/// something else (quirk Q15 of docs/specifications/bfq.md).
const SLOW_RATE: u64 = 1 << (RATE_SHIFT - 10);
const SAMPLES_UNTIL_SIZE_IS_FORGOTTEN: u64 = 32;

/// The peak rate so far, and the current measurement.
#[derive(Copy, Clone, Debug)]
pub struct PeakRate {
    pub(super) rate: u64,
    pub(super) reference_raising: u64,
    longest_raising_ms: u32,
    /// A request of at least this length does not count as far from the one before.
    near_sectors: u32,
    /// Dispatches of the measurement; or all long turns so far.
    pub(super) samples: u64,
    sequential: u64,
    sectors: u64,
    last_size: u64,
    first_ns: Nanos,
    /// Time from the first dispatch of the measurement to the last one counted.
    interval_ns: Nanos,
    last_dispatch_ns: Nanos,
    pub last_completion_ns: Nanos,
}

impl PeakRate {
    pub const fn new(is_rotational: bool, profile: &Profile) -> Self {
        let reference_ms = if profile.budgets.rates_turns { FAST_RAISING_MS } else { REFERENCE_RAISING_MS };
        let ([disk, flash], [disk_ms, flash_ms]) = (REFERENCE_RATE, reference_ms);
        let (reference, ms) = if is_rotational { (disk, disk_ms) } else { (flash, flash_ms) };
        Self {
            rate: reference * 2 / 3,
            reference_raising: reference * ms,
            longest_raising_ms: profile.raising.longest_ms,
            near_sectors: if is_rotational { u32::MAX } else { LONG_ON_FLASH_SECTORS },
            samples: 0,
            sequential: 0,
            sectors: 0,
            last_size: 0,
            first_ns: 0,
            interval_ns: 0,
            last_dispatch_ns: 0,
            last_completion_ns: 0,
        }
    }

    /// Sectors that the device transfers in `ms` ms.
    pub const fn sectors_in(&self, ms: u64) -> u64 {
        self.rate.saturating_mul(1_000).saturating_mul(ms) >> RATE_SHIFT
    }

    /// Duration of the raising of an interactive queue.
    pub fn raising_ms(&self) -> u64 {
        let ms = self.reference_raising.checked_div(self.rate).unwrap_or(u64::MAX);
        ms.max(SHORTEST_RAISING_MS).min(u64::from(self.longest_raising_ms))
    }

    /// For tests.
    #[cfg(test)]
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// For tests.
    #[cfg(test)]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    fn begin(&mut self, now: Nanos, sectors: u64) {
        (self.first_ns, self.last_dispatch_ns, self.interval_ns) = (now, now, 0);
        (self.samples, self.sequential) = (1, 0);
        (self.sectors, self.last_size) = (sectors, sectors);
    }

    /// Counts a request that is about to be dispatched. True if that ends the measurement.
    #[inline(always)]
    fn count(&mut self, clock: &Clock, sectors: u64, is_seeky: bool, in_driver: u32) -> bool {
        if self.samples == 0 {
            self.begin(clock.ns, sectors);
            return false;
        }
        if clock.since(self.last_dispatch_ns) > PAUSE_NS && in_driver == 0 {
            return true;
        }
        self.samples = self.samples.wrapping_add(1);
        let is_busy = in_driver > 0 || clock.since(self.last_completion_ns) < NO_PAUSE_NS;
        if is_busy && !is_seeky {
            self.sequential = self.sequential.wrapping_add(1);
        }
        self.sectors = self.sectors.saturating_add(sectors);
        let is_forgotten = self.samples.is_multiple_of(SAMPLES_UNTIL_SIZE_IS_FORGOTTEN);
        self.last_size = if is_forgotten { sectors } else { self.last_size.max(sectors) };
        self.interval_ns = clock.since(self.first_ns);
        self.interval_ns >= REFERENCE_INTERVAL_NS
    }

    /// When the last request completed.
    #[inline]
    pub const fn last_completion_ns(&self) -> Nanos {
        self.last_completion_ns
    }

    /// Finishes the measurement. True if the rate changed.
    fn conclude(&mut self) -> bool {
        if self.samples < LEAST_SAMPLES || self.interval_ns < LEAST_INTERVAL_NS {
            return false;
        }
        // The device may have needed longer than until the last dispatch.
        let interval_ns = self.interval_ns.max(self.last_completion_ns.saturating_sub(self.first_ns));
        let rate = (self.sectors << RATE_SHIFT).checked_div(interval_ns / MICROSECOND).unwrap_or(u64::MAX);
        let is_random = self.sequential < self.samples.saturating_mul(3) / 4;
        if (is_random && rate <= self.rate) || rate > IMPOSSIBLE_RATE {
            return false;
        }
        // The more sequential and the longer the measurement, the more it counts: from a tenth to a
        // half of the new rate.
        let weight = self.sequential.saturating_mul(9).checked_div(self.samples).unwrap_or(0);
        let weight = (weight.saturating_mul(interval_ns) / REFERENCE_INTERVAL_NS).min(8);
        let divisor = 10_u64.wrapping_sub(weight);
        let kept = self.rate.saturating_mul(divisor.wrapping_sub(1)).checked_div(divisor).unwrap_or(self.rate);
        let added = rate.checked_div(divisor).unwrap_or(0);
        self.rate = kept.saturating_add(added).max(1);
        true
    }
}

impl Bfq {
    pub(super) fn automatic_max_budget(&self) -> u32 {
        if self.profile.budgets.rates_turns && self.budgets.peak.samples < ENOUGH_LONG_TURNS {
            return DEFAULT_MAX_BUDGET;
        }
        let sectors = self.budgets.peak.sectors_in(self.clock.ms_of(self.settings.timeout_ticks));
        u32::try_from(sectors).unwrap_or(u32::MAX)
    }

    pub(super) fn raising_ticks(&self) -> u64 {
        self.clock.round_up(self.budgets.peak.raising_ms() * MILLISECOND)
    }

    /// Counts a request that is about to be dispatched.
    #[inline(always)]
    pub(super) fn sample_dispatch(&mut self, extent: Extent, is_served: bool) {
        let now = self.clock.ns;
        let sectors = u64::from(extent.sectors);
        let is_seeky = is_far_from(self.positions.last_sector(), extent, self.budgets.peak.near_sectors);
        let counts = !self.profile.budgets.rates_turns;
        if counts && self.budgets.peak.count(&self.clock, sectors, is_seeky, self.device.in_driver()) {
            self.conclude_rate(Some(sectors));
        }
        self.positions.dispatched(extent, is_served);
        self.budgets.peak.last_dispatch_ns = now;
    }

    /// Ends a measurement, and starts the next with a request of this size (without one, at the
    /// next dispatch).
    #[inline(never)]
    fn conclude_rate(&mut self, begins_with: Option<u64>) {
        let now = self.clock.ns;
        if self.budgets.peak.conclude() && self.settings.max_budget == 0 {
            let most = self.automatic_max_budget();
            self.budgets.set_most(most);
            self.log("new max_budget = {0}", &[u64::from(most)]);
        }
        let (samples, sectors) = (self.budgets.peak.samples, self.budgets.peak.sectors);
        self.log("reset_rate_computation at end, sample {0}/{0} tot_sects {1}", &[samples, sectors]);
        match begins_with {
            Some(sectors) => self.budgets.peak.begin(now, sectors),
            None => self.budgets.peak.samples = 0,
        }
    }

    /// A request completed; one that was suspiciously slow ends the measurement.
    #[inline]
    pub(super) fn sample_completion(&mut self) {
        let now = self.clock.ns;
        let since_ns = self.clock.since(self.budgets.peak.last_completion_ns);
        // At least one microsecond longer than the limit, because the kernel compares whole
        // microseconds.
        let is_late = since_ns >= NO_PAUSE_NS + MICROSECOND;
        if is_late && !self.profile.budgets.rates_turns && self.was_slow_since(since_ns / MICROSECOND) {
            self.conclude_rate(None);
        }
        self.budgets.peak.last_completion_ns = now;
    }

    #[inline(never)]
    fn was_slow_since(&self, since_us: u64) -> bool {
        (self.budgets.peak.last_size << RATE_SHIFT).checked_div(since_us).is_some_and(|rate| rate < SLOW_RATE)
    }
}
