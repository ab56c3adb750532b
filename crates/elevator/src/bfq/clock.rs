//! The two clocks: nanoseconds, and the ticks (jiffies) in which the kernel counts what need not be
//! exact.

use crate::interface::Configuration;
use core::num::NonZeroU64;
use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};

/// The value of a timer that is not set.
pub const NEVER: Nanos = Nanos::MAX;

/// The time of the current event.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    pub ns: Nanos,
    pub ticks: u64,
    tick_ends_ns: Nanos,
    /// Whether the time of an event may lie before that of earlier ones; see [`Clock::span`].
    pub keeps_plug_time: bool,
    /// Length of a tick; 1 if the host gives none, so that ticks are nanoseconds.
    tick_ns: NonZeroU64,
    /// Spans of time that are not tunables.
    pub spans: Spans,
}

impl Clock {
    pub fn new(configuration: &Configuration, keeps_plug_time: bool) -> Self {
        let tick_ns = NonZeroU64::new(configuration.tick_ns).unwrap_or(NonZeroU64::MIN);
        let spans = Spans::new(tick_ns);
        Self { ns: 0, ticks: 0, tick_ends_ns: tick_ns.get(), keeps_plug_time, tick_ns, spans }
    }

    /// Ticks never run backward, even if the time of an event does.
    #[inline]
    pub fn set(&mut self, now: Nanos) {
        self.ns = now;
        if now >= self.tick_ends_ns {
            self.begin_tick(now);
        }
    }

    #[inline]
    fn begin_tick(&mut self, now: Nanos) {
        let length = self.tick_ns.get();
        if length == 1 {
            (self.ticks, self.tick_ends_ns) = (now, now.saturating_add(1));
        } else {
            self.ticks = now / self.tick_ns;
            self.tick_ends_ns = self.ticks.saturating_add(1).saturating_mul(length);
        }
    }

    /// The time from `began_ns` until now; see [`Clock::span`].
    #[inline]
    pub const fn since(&self, began_ns: Nanos) -> Nanos {
        self.span(began_ns, self.ns)
    }

    /// The time between two events. If the second has the earlier time, the result is 0. With batch
    /// times it wraps to a very long time instead, as in the kernel (quirk Q18 of
    /// docs/specifications/bfq.md).
    #[inline]
    pub const fn span(&self, began_ns: Nanos, ended_ns: Nanos) -> Nanos {
        if self.keeps_plug_time { ended_ns.wrapping_sub(began_ns) } else { ended_ns.saturating_sub(began_ns) }
    }

    /// Whether a time lies strictly in the past.
    #[inline]
    pub const fn is_past(&self, at_ticks: u64) -> bool {
        self.ticks.wrapping_sub(at_ticks).cast_signed() > 0
    }

    #[inline]
    pub const fn is_past_or_now(&self, at_ticks: u64) -> bool {
        self.ticks.wrapping_sub(at_ticks).cast_signed() >= 0
    }

    /// A time so long ago that any span added to it has ended.
    #[inline]
    pub const fn long_ago(&self) -> u64 {
        self.ticks.wrapping_sub((1 << 62) - 1)
    }

    /// The later of two times in ticks.
    #[inline]
    pub const fn later(one: u64, other: u64) -> u64 {
        if one.wrapping_sub(other).cast_signed() > 0 { one } else { other }
    }

    /// The number of whole ticks that last at least `span_ns`.
    pub fn round_up(&self, span_ns: Nanos) -> u64 {
        round_up(span_ns, self.tick_ns)
    }

    #[inline]
    pub const fn ns_of(&self, ticks: u64) -> Nanos {
        ticks.saturating_mul(self.tick_ns.get())
    }

    #[inline]
    pub const fn ms_of(&self, ticks: u64) -> u64 {
        self.ns_of(ticks) / MILLISECOND
    }
}

fn round_up(span_ns: Nanos, tick_ns: NonZeroU64) -> u64 {
    span_ns.saturating_add(tick_ns.get().wrapping_sub(1)) / tick_ns
}

/// Spans that are not tunables, in ticks.
#[derive(Copy, Clone, Debug)]
pub struct Spans {
    pub second: u64,
    /// How often the idle class is served.
    pub idle_class: u64,
    /// How long after its first request a queue may still be merged.
    pub merge: u64,
    pub stable_merge: u64,
    /// Queues created within this time of one another form a burst.
    pub burst: u64,
    pub burst_forgotten: u64,
    /// How long after a split a queue cannot join a burst.
    pub split_grace: u64,
    /// After this idle time a queue counts as interactive again.
    pub least_idle: u64,
    pub soft_real_time_ticks: u64,
    pub async_arrivals: u64,
    pub inject_reset: u64,
    pub inject_sample: u64,
    pub inject_barrier: u64,
}

impl Spans {
    /// The default of `timeout_sync`. The time of a slow turn is charged as a fraction of it,
    /// whatever the value of the tunable (quirk Q3 of docs/specifications/bfq.md).
    pub const fn default_timeout_ticks(&self) -> u64 {
        Self::timeout_of(self.second)
    }

    /// As [`Spans::default_timeout_ticks`], for ticks of this length.
    pub fn default_timeout_for(tick_ns: Nanos) -> u64 {
        Self::timeout_of((SECOND / NonZeroU64::new(tick_ns).unwrap_or(NonZeroU64::MIN)).max(1))
    }

    const fn timeout_of(second: u64) -> u64 {
        if second < 8 { 1 } else { second / 8 }
    }

    fn new(tick_ns: NonZeroU64) -> Self {
        let second = (SECOND / tick_ns).max(1);
        let ms = |span: u64| round_up(span * MILLISECOND, tick_ns);
        Self {
            second,
            idle_class: second / 5,
            merge: second / 10,
            stable_merge: ms(600),
            burst: ms(180),
            burst_forgotten: ms(10_000),
            split_grace: ms(10),
            least_idle: ms(2_000),
            soft_real_time_ticks: ms(300),
            async_arrivals: ms(500),
            inject_reset: ms(1_000),
            inject_sample: ms(10),
            inject_barrier: ms(100),
        }
    }
}
