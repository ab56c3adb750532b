//! The tunables under the kernel's names, and further ones that fix quirks of the kernel (all off
//! by default).

use super::Bfq;
use super::clock::Clock;
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use hoistway_block::Nanos;
use hoistway_block::time::{MICROSECOND, MILLISECOND};

const INT_MAX: i64 = i32::MAX as i64;
const UINT_MAX: i64 = u32::MAX as i64;

const fn row(name: &'static str, unit: Unit, min: i64, max: i64, default: Option<i64>, doc: &'static str) -> Tunable {
    Tunable { name, unit, min, max, default, out_of_range: OutOfRange::Clamp, doc }
}

const fn switch(name: &'static str, default: i64, doc: &'static str) -> Tunable {
    row(name, Unit::Boolean, 0, 1, Some(default), doc)
}

/// Files in `iosched/`, by index in [`ROWS`].
pub const ROWS: [Tunable; 14] = {
    use Unit::{Count, Kibibytes, Microseconds, Milliseconds, Sectors};
    [
        row(
            "fifo_expire_sync",
            Milliseconds,
            1,
            INT_MAX,
            Some(125),
            "A sync request older than this goes first, once a turn.",
        ),
        row("fifo_expire_async", Milliseconds, 1, INT_MAX, Some(250), "The same for async requests."),
        row(
            "back_seek_max",
            Kibibytes,
            0,
            INT_MAX,
            Some(16_384),
            "Largest backward distance at which a request still counts as near.",
        ),
        row(
            "back_seek_penalty",
            Count,
            1,
            INT_MAX,
            Some(2),
            "Factor applied to the cost of a backward seek, \
            compared with a forward one.",
        ),
        row(
            "slice_idle",
            Milliseconds,
            0,
            INT_MAX,
            Some(8),
            "How long the device is idled for a queue's next request; 0 = never, and weights of issuers with few \
            requests have no effect.",
        ),
        row("slice_idle_us", Microseconds, 0, UINT_MAX, Some(8_000), "slice_idle, finer."),
        row(
            "max_budget",
            Sectors,
            0,
            INT_MAX,
            Some(0),
            "Sectors that a queue may have in a turn; 0 = as many as the device transfers in timeout_sync.",
        ),
        row(
            "timeout_sync",
            Milliseconds,
            1,
            INT_MAX,
            None,
            "How long a turn may last; rounded up to a tick. 125 ms at HZ 1000, 124 at HZ 250.",
        ),
        switch(
            "strict_guarantees",
            0,
            "Whether the device is idled for every queue, with one request in flight at \
            a time.",
        ),
        switch(
            "low_latency",
            1,
            "Whether queues that look interactive or soft real-time get more weight than they were given.",
        ),
        switch(
            "repoll_on_completion",
            0,
            "Whether an idled device is polled again at every completion (Linux polls every 3 ms).",
        ),
        switch(
            "bounded_hold",
            0,
            "Whether a turn ends when it is ahead of virtual time and others are owed service (Linux continues to \
            the end of the turn).",
        ),
        switch(
            "eligible_injection",
            0,
            "Whether only queues that are owed service by virtual time, and none of a lower class, are injected into \
            the turn of another queue.",
        ),
        switch("real_time_charge", 0, "Whether a short turn is charged the time it took, not 2 or 8 ms at least."),
    ]
};

const FIFO_EXPIRE_SYNC: usize = 0;
const FIFO_EXPIRE_ASYNC: usize = 1;
const BACK_SEEK_MAX: usize = 2;
const BACK_SEEK_PENALTY: usize = 3;
const SLICE_IDLE: usize = 4;
const SLICE_IDLE_US: usize = 5;
const MAX_BUDGET: usize = 6;
const TIMEOUT_SYNC: usize = 7;
const STRICT_GUARANTEES: usize = 8;
const LOW_LATENCY: usize = 9;
const REPOLL_ON_COMPLETION: usize = 10;
const BOUNDED_HOLD: usize = 11;
const ELIGIBLE_INJECTION: usize = 12;
const REAL_TIME_CHARGE: usize = 13;

/// The default of `slice_idle`.
pub const SLICE_IDLE_NS: Nanos = 8 * MILLISECOND;

/// The values in force.
#[derive(Copy, Clone, Debug)]
pub struct Settings {
    fifo_expire_async_ns: Nanos,
    fifo_expire_sync_ns: Nanos,
    pub back_seek_max_sectors: u64,
    pub back_seek_penalty: u64,
    /// 32 bits, as in the kernel: longer times wrap (quirk Q7 of docs/specifications/bfq.md).
    slice_idle_ns: u32,
    /// 0 = computed from the peak rate.
    pub max_budget: u32,
    pub timeout_ticks: u64,
    pub strict_guarantees: bool,
    pub low_latency: bool,
    pub repoll_on_completion: bool,
    pub bounded_hold: bool,
    pub eligible_injection: bool,
    pub real_time_charge: bool,
}

impl Settings {
    /// The defaults; `timeout_ticks` is that of `timeout_sync`.
    pub const fn new(timeout_ticks: u64) -> Self {
        Self {
            fifo_expire_async_ns: 250 * MILLISECOND,
            fifo_expire_sync_ns: 125 * MILLISECOND,
            back_seek_max_sectors: 2 * 16_384,
            back_seek_penalty: 2,
            slice_idle_ns: low_half(SLICE_IDLE_NS),
            max_budget: 0,
            timeout_ticks,
            strict_guarantees: false,
            low_latency: true,
            repoll_on_completion: false,
            bounded_hold: false,
            eligible_injection: false,
            real_time_charge: false,
        }
    }

    #[inline]
    pub fn slice_idle_ns(&self) -> Nanos {
        Nanos::from(self.slice_idle_ns)
    }

    #[inline]
    pub const fn fifo_expire_ns(&self, is_sync: bool) -> Nanos {
        if is_sync { self.fifo_expire_sync_ns } else { self.fifo_expire_async_ns }
    }

    pub fn get(&self, index: usize, clock: &Clock) -> Option<i64> {
        let value = match index {
            FIFO_EXPIRE_SYNC => self.fifo_expire_sync_ns / MILLISECOND,
            FIFO_EXPIRE_ASYNC => self.fifo_expire_async_ns / MILLISECOND,
            BACK_SEEK_MAX => self.back_seek_max_sectors / 2,
            BACK_SEEK_PENALTY => self.back_seek_penalty,
            SLICE_IDLE => self.slice_idle_ns() / MILLISECOND,
            SLICE_IDLE_US => self.slice_idle_ns() / MICROSECOND,
            MAX_BUDGET => u64::from(self.max_budget),
            TIMEOUT_SYNC => clock.ms_of(self.timeout_ticks),
            STRICT_GUARANTEES => u64::from(self.strict_guarantees),
            LOW_LATENCY => u64::from(self.low_latency),
            REPOLL_ON_COMPLETION => u64::from(self.repoll_on_completion),
            BOUNDED_HOLD => u64::from(self.bounded_hold),
            ELIGIBLE_INJECTION => u64::from(self.eligible_injection),
            REAL_TIME_CHARGE => u64::from(self.real_time_charge),
            _ => return None,
        };
        Some(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "what the kernel does as well")]
const fn low_half(value: u64) -> u32 {
    value as u32
}

impl Bfq {
    pub(super) fn change_setting(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        let Some(row) = ROWS.get(index) else { return Err(SettingError::Unknown) };
        let amount = row.admit(value)?.unsigned_abs();
        let is_on = amount != 0;
        let settings = &mut self.settings;
        match index {
            FIFO_EXPIRE_SYNC => settings.fifo_expire_sync_ns = amount.saturating_mul(MILLISECOND),
            FIFO_EXPIRE_ASYNC => settings.fifo_expire_async_ns = amount.saturating_mul(MILLISECOND),
            BACK_SEEK_MAX => settings.back_seek_max_sectors = amount.saturating_mul(2),
            BACK_SEEK_PENALTY => settings.back_seek_penalty = amount,
            SLICE_IDLE => settings.slice_idle_ns = low_half(amount.wrapping_mul(MILLISECOND)),
            SLICE_IDLE_US => settings.slice_idle_ns = low_half(amount.wrapping_mul(MICROSECOND)),
            MAX_BUDGET => {
                settings.max_budget = low_half(amount);
                let most = if is_on { low_half(amount) } else { self.automatic_max_budget() };
                self.budgets.set_most(most);
            }
            TIMEOUT_SYNC => {
                settings.timeout_ticks = self.clock.round_up(amount.saturating_mul(MILLISECOND));
                if settings.max_budget == 0 {
                    let most = self.automatic_max_budget();
                    self.budgets.set_most(most);
                }
            }
            STRICT_GUARANTEES => {
                if is_on && !settings.strict_guarantees {
                    // `slice_idle` keeps its larger value when the switch is turned off (quirk Q12
                    // of docs/specifications/bfq.md).
                    settings.slice_idle_ns = settings.slice_idle_ns.max(low_half(SLICE_IDLE_NS));
                }
                settings.strict_guarantees = is_on;
            }
            LOW_LATENCY => {
                if settings.low_latency && !is_on {
                    self.end_all_raising();
                }
                self.settings.low_latency = is_on;
            }
            REPOLL_ON_COMPLETION => settings.repoll_on_completion = is_on,
            BOUNDED_HOLD => settings.bounded_hold = is_on,
            ELIGIBLE_INJECTION => settings.eligible_injection = is_on,
            _ => settings.real_time_charge = is_on,
        }
        Ok(())
    }
}
