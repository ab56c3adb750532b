//! Whether a group needs its best-effort limit at all: its think time, and the share of its bios
//! that are late.
//!
//! Times are in units of 1,024 ns, which the kernel treats as microseconds. Source: Linux 6.1
//! block/blk-throttle.c, throtl_tg_is_idle.

use super::Throttle;
use super::group::{Group, IdleStats};
use super::slice::Ticks;
use crate::request::Bio;
use crate::structures::{Array, NoMemory};
use hoistway_block::{Direction, GroupId, Nanos, Operation};

/// Number of size classes of bios.
pub const BUCKETS: u32 = 9;
/// Baseline latency of a disk, for all sizes; latency targets are relative to it.
const DISK_BASELINE: u64 = 4_000;
/// Faster completions on a disk are cache hits and are ignored.
const DISK_FILTER: u64 = 1_000;
const ENOUGH_SAMPLES: u64 = 32;
/// After this time without a completion a group counts as idle in any case.
const LONGEST_IDLE: u64 = 5_000_000;
/// Default think-time threshold of the variant of 2016 (`.high`): on flash, on disks.
const HIGH_THRESHOLD: [u64; 2] = [50, 1_000];

/// Samples of one direction and size.
#[derive(Copy, Clone, Debug, Default)]
struct Bucket {
    sum: u64,
    samples: u64,
    latency: u64,
    is_valid: bool,
}

/// The usual latency of a bio, by size.
#[derive(Debug)]
pub struct Baselines {
    /// Reads by size, then writes by size. On the heap, because the kernel's stack is too small for
    /// them while a limiter is built.
    buckets: Array<Bucket>,
    calculated_at: Ticks,
    filter: u64,
}

impl Baselines {
    #[inline]
    pub fn try_new(is_rotational: bool) -> Result<Self, NoMemory> {
        let latency = if is_rotational { DISK_BASELINE } else { 0 };
        let filter = if is_rotational { DISK_FILTER } else { 0 };
        let buckets = Array::try_new(2 * BUCKETS, Bucket { latency, ..Bucket::default() })?;
        Ok(Self { buckets, calculated_at: 0, filter })
    }

    fn bucket(&self, direction: Direction, sectors: u32) -> &Bucket {
        self.buckets.at(index_of(direction, sectors))
    }

    /// The baseline of a size, and whether it was ever measured.
    pub fn known(&self, direction: Direction, size: u32) -> (u64, bool) {
        let bucket = self.buckets.at(first_of(direction).wrapping_add(size));
        (bucket.latency, bucket.is_valid)
    }

    /// Counts a request that took `ns` in the device.
    pub fn sample(&mut self, attributes: &Bio, ns: Nanos) {
        if !matches!(attributes.operation, Operation::Read | Operation::Write) {
            return;
        }
        let bucket = self.buckets.at_mut(index_of(attributes.direction(), attributes.extent.sectors));
        bucket.sum = bucket.sum.saturating_add(ns >> 10);
        bucket.samples = bucket.samples.saturating_add(1);
    }

    /// Called once a second: averages the means of the samples into the baselines. A baseline is
    /// never lower than that of a smaller size.
    fn calculate(&mut self) {
        for direction in super::DIRECTIONS {
            let mut smaller = 0;
            for size in 0..BUCKETS {
                let bucket = self.buckets.at_mut(first_of(direction).wrapping_add(size));
                let mean = if bucket.samples >= ENOUGH_SAMPLES {
                    let mean = bucket.sum.checked_div(bucket.samples).unwrap_or(0);
                    (bucket.sum, bucket.samples) = (0, 0);
                    mean
                } else {
                    0
                };
                if mean == 0 {
                    bucket.latency = bucket.latency.max(smaller);
                    continue;
                }
                let averaged =
                    if bucket.is_valid { bucket.latency.saturating_mul(7).saturating_add(mean) >> 3 } else { mean };
                bucket.latency = averaged.max(smaller);
                bucket.is_valid = true;
                smaller = bucket.latency;
            }
        }
    }
}

/// 0 for up to 4 KiB, one more per doubling, 8 above 512 KiB.
fn bucket_of(sectors: u32) -> u32 {
    let order = sectors.max(1).checked_next_power_of_two().map_or(32, u32::trailing_zeros);
    order.saturating_sub(3).min(BUCKETS - 1)
}

fn index_of(direction: Direction, sectors: u32) -> u32 {
    first_of(direction).wrapping_add(bucket_of(sectors))
}

fn first_of(direction: Direction) -> u32 {
    match direction {
        Direction::Read => 0,
        Direction::Write => BUCKETS,
    }
}

impl Throttle {
    /// Sets the thresholds of a group as configured; those of its ancestors are applied later.
    pub(super) fn set_idle_stats(&mut self, group: GroupId) {
        let is_high = self.settings.high != 0;
        let [flash, disk] = HIGH_THRESHOLD;
        let usual = if self.is_rotational { disk } else { flash };
        let entry: &mut Group = self.groups.at_mut(group.0);
        let has_low = entry.has_any_low();
        let idle_stats: &mut IdleStats = &mut entry.idle_stats;
        let given = entry.configured.idle_us;
        idle_stats.idle_threshold_us = match (has_low, is_high, given) {
            (false, _, _) => 0,
            (true, true, 0) => usual,
            (true, _, given) => given,
        };
        idle_stats.latency_target_us = if has_low && !is_high { entry.configured.latency_us } else { u64::MAX };
    }

    /// Called when a bio arrives: the time since the group's last completion is think time, but
    /// only for the first bio after that completion.
    pub(super) fn update_idle_time(&mut self, group: GroupId, now: Nanos) {
        let idle_stats = &mut self.groups.at_mut(group.0).idle_stats;
        let now = now >> 10;
        if idle_stats.last_finish == 0
            || now <= idle_stats.last_finish
            || idle_stats.last_finish == idle_stats.checked_finish
        {
            return;
        }
        let thought = now.saturating_sub(idle_stats.last_finish);
        idle_stats.average_idle = idle_stats.average_idle.saturating_mul(7).saturating_add(thought) >> 3;
        idle_stats.checked_finish = idle_stats.last_finish;
    }

    pub(super) fn update_baselines(&mut self, now: Nanos) {
        if self.is_rotational || !self.state.has_low() {
            return;
        }
        let now = self.ticks(now);
        if now >= self.baselines.calculated_at.saturating_add(self.clock.hz) {
            self.baselines.calculated_at = now;
            self.baselines.calculate();
            if self.is_traced() {
                self.log_baselines(now);
            }
        }
    }

    pub(super) fn bio_ended_in(&mut self, bio: &Bio, submitted_ns: Nanos, now: Nanos) {
        let (finish, start) = (now >> 10, submitted_ns >> 10);
        let ticks = self.ticks(now);
        let slice = self.clock.slice;
        let filter = self.baselines.filter;
        let baseline = self.baselines.bucket(bio.direction(), bio.extent.sectors).latency;
        let idle_stats = &mut self.groups.at_mut(bio.group.0).idle_stats;
        idle_stats.last_finish = finish;
        let Some(latency) = finish.checked_sub(start).filter(|latency| *latency > 0) else { return };
        if idle_stats.latency_target_us != u64::MAX && latency >= filter {
            idle_stats.bios = idle_stats.bios.saturating_add(1);
            if latency > baseline.saturating_add(idle_stats.latency_target_us) {
                idle_stats.late_bios = idle_stats.late_bios.saturating_add(1);
            }
        }
        if ticks > idle_stats.reset_at || idle_stats.bios > 1024 {
            idle_stats.reset_at = ticks.saturating_add(slice);
            idle_stats.bios /= 2;
            idle_stats.late_bios /= 2;
        }
    }

    /// Whether a group needs no protection now: it seems idle, or few of its bios are late.
    pub(super) fn is_idle(&mut self, group: GroupId, now: Ticks) -> bool {
        let is_idle = self.seems_idle(group, now);
        if self.is_traced() {
            self.log_idle(group, is_idle, now);
        }
        is_idle
    }

    fn seems_idle(&self, group: GroupId, now: Ticks) -> bool {
        let idle_stats = &self.groups.at(group.0).idle_stats;
        let now_us = now.saturating_mul(self.tick_ns) >> 10;
        let since = now_us.saturating_sub(idle_stats.last_finish);
        if self.settings.high != 0 {
            let slice_us = self.clock.slice.saturating_mul(self.tick_ns) >> 10;
            return since > slice_us || idle_stats.average_idle > idle_stats.idle_threshold_us;
        }
        idle_stats.latency_target_us == u64::MAX
            || idle_stats.idle_threshold_us == 0
            || since > LONGEST_IDLE.min(idle_stats.idle_threshold_us.saturating_mul(4))
            || idle_stats.average_idle > idle_stats.idle_threshold_us
            || (idle_stats.latency_target_us > 0
                && idle_stats.bios > 0
                && u64::from(idle_stats.late_bios).saturating_mul(5) < u64::from(idle_stats.bios))
    }
}
