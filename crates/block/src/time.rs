//! Time: unsigned nanoseconds of one monotonic clock, handed in by the host.

/// A point in time or a span, in nanoseconds.
pub type Nanos = u64;

/// One microsecond in nanoseconds.
pub const MICROSECOND: Nanos = 1_000;
/// One millisecond in nanoseconds.
pub const MILLISECOND: Nanos = 1_000_000;
/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// Whether `at` has come: compared as a wrapping difference, as the kernel's `time_after_eq` does.
#[inline]
pub const fn is_due(now: Nanos, at: Nanos) -> bool {
    now.wrapping_sub(at) <= i64::MAX as u64
}

/// Nanoseconds that lie between an earlier time and now; 0 if it lies ahead.
#[inline]
pub const fn since(now: Nanos, earlier: Nanos) -> Nanos {
    if is_due(now, earlier) { now.wrapping_sub(earlier) } else { 0 }
}

/// A span rounded up to whole ticks, as a kernel of HZ = 10^9 / `tick_ns` does; 0 leaves it exact.
#[inline]
pub const fn round_up_to_tick(span_ns: Nanos, tick_ns: Nanos) -> Nanos {
    match span_ns.checked_rem(tick_ns) {
        None | Some(0) => span_ns,
        Some(over) => span_ns.saturating_add(tick_ns - over),
    }
}
