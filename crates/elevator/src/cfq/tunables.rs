//! The tunables under the kernel's names, and the values computed from them, in which times are in
//! ticks of the policy's clock.

use super::profile::{Clock, Profile};
use crate::interface::Configuration;
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use core::num::NonZeroU64;
use hoistway_block::Nanos;
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};

/// A file in `iosched/`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TunableId {
    Quantum,
    FifoExpireSync,
    FifoExpireAsync,
    BackSeekMax,
    BackSeekPenalty,
    SliceSync,
    SliceAsync,
    SliceAsyncRequests,
    SliceIdle,
    GroupIdle,
    LowLatency,
    GroupIsolation,
    TargetLatency,
    SliceSyncUs,
    SliceAsyncUs,
    SliceIdleUs,
    GroupIdleUs,
    TargetLatencyUs,
}

/// Larger written values are clamped.
pub const MOST: i64 = u32::MAX as i64;

const fn row(id: TunableId, first_quantum: i64) -> Tunable {
    use Unit::{Boolean, Count, Kibibytes, Microseconds, Milliseconds};
    let (name, unit, min, default, doc) = match id {
        TunableId::Quantum => (
            "quantum",
            Count,
            1,
            first_quantum,
            "Requests that one queue may have in the device while others wait; the first engine's requests per round.",
        ),
        TunableId::FifoExpireSync => (
            "fifo_expire_sync",
            Milliseconds,
            1,
            125,
            "A sync request older than this goes first in its queue's slice.",
        ),
        TunableId::FifoExpireAsync => ("fifo_expire_async", Milliseconds, 1, 250, "The same for async requests."),
        TunableId::BackSeekMax => (
            "back_seek_max",
            Kibibytes,
            0,
            16_384,
            "Largest backward distance at which a request still counts as \
                near.",
        ),
        TunableId::BackSeekPenalty => (
            "back_seek_penalty",
            Count,
            1,
            2,
            "Factor applied to the cost of a backward seek, compared with a \
                forward one.",
        ),
        TunableId::SliceSync => ("slice_sync", Milliseconds, 1, 100, "Slice of a sync queue of level 4."),
        TunableId::SliceAsync => ("slice_async", Milliseconds, 1, 40, "Slice of an async queue of level 4."),
        TunableId::SliceAsyncRequests => {
            ("slice_async_rq", Count, 1, 2, "An async slice ends after 2 x this x (8 - level) requests.")
        }
        TunableId::SliceIdle => (
            "slice_idle",
            Milliseconds,
            0,
            8,
            "How long the device is idled for a queue's next request; 0 = never, and groups are charged by requests.",
        ),
        TunableId::GroupIdle => {
            ("group_idle", Milliseconds, 0, 8, "The same for a group whose only queue is not idled for; 0 = never.")
        }
        TunableId::LowLatency => {
            ("low_latency", Boolean, 0, 1, "Whether slices shrink when many queues share, and async depth ramps up.")
        }
        TunableId::GroupIsolation => {
            ("group_isolation", Boolean, 0, 0, "Whether queues that the device is not idled for stay in their group.")
        }
        TunableId::TargetLatency => {
            ("target_latency", Milliseconds, 1, 300, "Approximate time in which each queue gets a slice.")
        }
        TunableId::SliceSyncUs => ("slice_sync_us", Microseconds, 1, 100_000, "slice_sync, finer."),
        TunableId::SliceAsyncUs => ("slice_async_us", Microseconds, 1, 40_000, "slice_async, finer."),
        TunableId::SliceIdleUs => ("slice_idle_us", Microseconds, 0, 8_000, "slice_idle, finer."),
        TunableId::GroupIdleUs => ("group_idle_us", Microseconds, 0, 8_000, "group_idle, finer."),
        TunableId::TargetLatencyUs => ("target_latency_us", Microseconds, 1, 300_000, "target_latency, finer."),
    };
    let max = if matches!(unit, Boolean) { 1 } else { MOST };
    Tunable { name, unit, min, max, default: Some(default), out_of_range: OutOfRange::Clamp, doc }
}

const fn rows<const N: usize>(tunable_ids: [TunableId; N], quantum: i64) -> [Tunable; N] {
    let mut rows = [row(TunableId::Quantum, quantum); N];
    let mut at = 0;
    while at < N {
        rows[at] = row(tunable_ids[at], quantum);
        at += 1;
    }
    rows
}

use TunableId::{
    BackSeekMax, BackSeekPenalty, FifoExpireAsync, FifoExpireSync, GroupIdle, GroupIdleUs, GroupIsolation, LowLatency,
    Quantum, SliceAsync, SliceAsyncRequests, SliceAsyncUs, SliceIdle, SliceIdleUs, SliceSync, SliceSyncUs,
    TargetLatency, TargetLatencyUs,
};

pub const IDS_FIRST: [TunableId; 9] = [
    Quantum,
    FifoExpireSync,
    FifoExpireAsync,
    BackSeekMax,
    BackSeekPenalty,
    SliceSync,
    SliceAsync,
    SliceAsyncRequests,
    SliceIdle,
];
pub const IDS_GROUPS: [TunableId; 11] = [
    Quantum,
    FifoExpireSync,
    FifoExpireAsync,
    BackSeekMax,
    BackSeekPenalty,
    SliceSync,
    SliceAsync,
    SliceAsyncRequests,
    SliceIdle,
    LowLatency,
    GroupIsolation,
];
pub const IDS_IOPS: [TunableId; 12] = [
    Quantum,
    FifoExpireSync,
    FifoExpireAsync,
    BackSeekMax,
    BackSeekPenalty,
    SliceSync,
    SliceAsync,
    SliceAsyncRequests,
    SliceIdle,
    GroupIdle,
    LowLatency,
    GroupIsolation,
];
pub const IDS_ISOLATED: [TunableId; 11] = [
    Quantum,
    FifoExpireSync,
    FifoExpireAsync,
    BackSeekMax,
    BackSeekPenalty,
    SliceSync,
    SliceAsync,
    SliceAsyncRequests,
    SliceIdle,
    GroupIdle,
    LowLatency,
];
pub const IDS_LAST: [TunableId; 17] = [
    Quantum,
    FifoExpireSync,
    FifoExpireAsync,
    BackSeekMax,
    BackSeekPenalty,
    SliceSync,
    SliceSyncUs,
    SliceAsync,
    SliceAsyncUs,
    SliceAsyncRequests,
    SliceIdle,
    SliceIdleUs,
    GroupIdle,
    GroupIdleUs,
    LowLatency,
    TargetLatency,
    TargetLatencyUs,
];

pub const ROWS_FIRST: [Tunable; 9] = rows(IDS_FIRST, QUANTUM_FIRST);
pub const ROWS_GROUPS: [Tunable; 11] = rows(IDS_GROUPS, QUANTUM);
pub const ROWS_IOPS: [Tunable; 12] = rows(IDS_IOPS, QUANTUM);
pub const ROWS_ISOLATED: [Tunable; 11] = rows(IDS_ISOLATED, QUANTUM);
pub const ROWS_LAST: [Tunable; 17] = rows(IDS_LAST, QUANTUM);

const QUANTUM_FIRST: i64 = 4;
const QUANTUM: i64 = 8;

/// The default tick in the forms of 2.6, and the "jiffy" of 4.20's rules.
const TICK_NS: NonZeroU64 = NonZeroU64::new(MILLISECOND).unwrap();
const SEEKY_PATIENCE_NS: Nanos = 2 * MILLISECOND;
const JIFFY_NS: NonZeroU64 = NonZeroU64::new(4 * MILLISECOND).unwrap();

/// How the policy counts time.
#[derive(Copy, Clone, Debug)]
pub struct Ticks {
    /// Length of a tick in ns.
    pub tick_ns: NonZeroU64,
    /// Number of ticks in what the rules call a jiffy.
    pub jiffy_ticks: u64,
    /// Number of ticks in a second.
    pub second_ticks: u64,
    /// Longest idle period for a seeky issuer in CFQ of 2.6.26.
    pub seeky_patience_ticks: u64,
}

impl Ticks {
    pub fn new(clock: Clock, configuration: &Configuration) -> Self {
        let given = NonZeroU64::new(configuration.tick_ns);
        let mut ticks = match clock {
            Clock::Jiffies => {
                let tick_ns = given.unwrap_or(TICK_NS);
                Self { tick_ns, jiffy_ticks: 1, second_ticks: (SECOND / tick_ns).max(1), seeky_patience_ticks: 0 }
            }
            Clock::Nanoseconds => {
                let jiffy_ticks = given.unwrap_or(JIFFY_NS).get();
                Self { tick_ns: NonZeroU64::MIN, jiffy_ticks, second_ticks: SECOND, seeky_patience_ticks: 0 }
            }
        };
        ticks.seeky_patience_ticks = ticks.round_up(SEEKY_PATIENCE_NS);
        ticks
    }

    /// The tick that contains a time.
    #[inline]
    pub fn at(&self, now: Nanos) -> u64 {
        now / self.tick_ns
    }

    /// The tick that contains a time, if `tick` was the last answer: avoids the division while that
    /// tick has not ended.
    #[inline]
    pub fn follow(&self, tick: u64, now: Nanos) -> u64 {
        let length = self.tick_ns.get();
        if length == 1 {
            return now;
        }
        if now.wrapping_sub(tick.wrapping_mul(length)) < length { tick } else { self.at(now) }
    }

    #[inline]
    pub const fn ns(&self, ticks: u64) -> Nanos {
        ticks.saturating_mul(self.tick_ns.get())
    }

    /// The number of whole ticks that last at least `span_ns`.
    pub fn round_up(&self, span_ns: Nanos) -> u64 {
        span_ns.saturating_add(self.tick_ns.get().wrapping_sub(1)) / self.tick_ns
    }
}

/// The values in force. Spans are in ticks.
#[derive(Copy, Clone, Debug)]
pub struct Settings {
    pub quantum_requests: u64,
    /// Async, sync.
    pub fifo_expire_ticks: [u64; 2],
    pub back_seek_max_sectors: u64,
    pub back_seek_penalty: u64,
    /// Async, sync.
    pub slice_ticks: [u64; 2],
    pub slice_async_requests: u64,
    pub slice_idle_ticks: u64,
    pub group_idle_ticks: u64,
    pub low_latency: bool,
    /// `None` until it is set: see [`Settings::isolates`].
    pub group_isolation: Option<bool>,
    pub target_latency_ticks: u64,
}

impl Settings {
    pub fn new(profile: &Profile, ticks: &Ticks, is_rotational: bool) -> Self {
        let second = ticks.second_ticks;
        let slice_idle_ticks = if profile.is_quiet_on_flash && !is_rotational { 0 } else { (second / 125).max(1) };
        let quantum = if profile.has_one_level { QUANTUM_FIRST } else { QUANTUM };
        Self {
            quantum_requests: quantum.unsigned_abs(),
            fifo_expire_ticks: [second / 4, second / 8],
            back_seek_max_sectors: 2 * 16_384,
            back_seek_penalty: 2,
            slice_ticks: [(second / 25).max(1), second / 10],
            slice_async_requests: 2,
            slice_idle_ticks,
            group_idle_ticks: if profile.has_iops_mode { (second / 125).max(1) } else { 0 },
            low_latency: !profile.has_one_level,
            group_isolation: None,
            target_latency_ticks: second.saturating_mul(3) / 10,
        }
    }

    /// Whether queues that are not idled for stay in their group. With `slice_idle` 0 no queue is
    /// idled for, and the kernel's default would disable groups altogether, which no user who sets
    /// groups up can want (docs/specifications/cfq.md, section 11.4).
    #[inline]
    pub fn isolates(&self) -> bool {
        self.group_isolation.unwrap_or(self.slice_idle_ticks == 0)
    }

    pub fn get(&self, id: TunableId, ticks: &Ticks) -> i64 {
        let ms = |span: u64| ticks.ns(span) / MILLISECOND;
        let us = |span: u64| ticks.ns(span) / MICROSECOND;
        let value = match id {
            TunableId::Quantum => self.quantum_requests,
            TunableId::FifoExpireSync => ms(self.expire(true)),
            TunableId::FifoExpireAsync => ms(self.expire(false)),
            TunableId::BackSeekMax => self.back_seek_max_sectors / 2,
            TunableId::BackSeekPenalty => self.back_seek_penalty,
            TunableId::SliceSync => ms(self.slice(true)),
            TunableId::SliceAsync => ms(self.slice(false)),
            TunableId::SliceAsyncRequests => self.slice_async_requests,
            TunableId::SliceIdle => ms(self.slice_idle_ticks),
            TunableId::GroupIdle => ms(self.group_idle_ticks),
            TunableId::LowLatency => u64::from(self.low_latency),
            TunableId::GroupIsolation => u64::from(self.isolates()),
            TunableId::TargetLatency => ms(self.target_latency_ticks),
            TunableId::SliceSyncUs => us(self.slice(true)),
            TunableId::SliceAsyncUs => us(self.slice(false)),
            TunableId::SliceIdleUs => us(self.slice_idle_ticks),
            TunableId::GroupIdleUs => us(self.group_idle_ticks),
            TunableId::TargetLatencyUs => us(self.target_latency_ticks),
        };
        i64::try_from(value).unwrap_or(i64::MAX)
    }

    /// Stores a written value, clamped to the tunable's range.
    pub fn set(&mut self, id: TunableId, row: &Tunable, ticks: &Ticks, value: i64) -> Result<(), SettingError> {
        let value = row.admit(value)?;
        let amount = value.unsigned_abs();
        let span = ticks.round_up(value.saturating_mul(row.unit.scale()).unsigned_abs());
        let [slice_async, slice_sync] = &mut self.slice_ticks;
        let [expire_async, expire_sync] = &mut self.fifo_expire_ticks;
        match id {
            TunableId::Quantum => self.quantum_requests = amount,
            TunableId::FifoExpireSync => *expire_sync = span,
            TunableId::FifoExpireAsync => *expire_async = span,
            TunableId::BackSeekMax => self.back_seek_max_sectors = amount.saturating_mul(2),
            TunableId::BackSeekPenalty => self.back_seek_penalty = amount,
            TunableId::SliceSync | TunableId::SliceSyncUs => *slice_sync = span,
            TunableId::SliceAsync | TunableId::SliceAsyncUs => *slice_async = span,
            TunableId::SliceAsyncRequests => self.slice_async_requests = amount,
            TunableId::SliceIdle | TunableId::SliceIdleUs => self.slice_idle_ticks = span,
            TunableId::GroupIdle | TunableId::GroupIdleUs => self.group_idle_ticks = span,
            TunableId::LowLatency => self.low_latency = value != 0,
            TunableId::GroupIsolation => self.group_isolation = Some(value != 0),
            TunableId::TargetLatency | TunableId::TargetLatencyUs => self.target_latency_ticks = span,
        }
        Ok(())
    }

    #[inline]
    pub const fn expire(&self, is_sync: bool) -> u64 {
        let [asynchronous, sync] = self.fifo_expire_ticks;
        if is_sync { sync } else { asynchronous }
    }

    /// The base slice.
    #[inline]
    pub const fn slice(&self, is_sync: bool) -> u64 {
        let [asynchronous, sync] = self.slice_ticks;
        if is_sync { sync } else { asynchronous }
    }
}
