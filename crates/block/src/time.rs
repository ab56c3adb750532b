//! Time: unsigned nanoseconds of a monotonic clock, supplied by the host.

/// A point in time or a span, in nanoseconds.
pub type Nanos = u64;

/// One microsecond in nanoseconds.
pub const MICROSECOND: Nanos = 1_000;
/// One millisecond in nanoseconds.
pub const MILLISECOND: Nanos = 1_000_000;
/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// Whether `at` has been reached: compared as a wrapping difference, like the kernel's
/// `time_after_eq`.
#[inline]
pub const fn is_due(now: Nanos, at: Nanos) -> bool {
    now.wrapping_sub(at) <= i64::MAX as u64
}

/// Nanoseconds from an earlier time to now; 0 if that time lies in the future.
#[inline]
pub const fn since(now: Nanos, earlier: Nanos) -> Nanos {
    if is_due(now, earlier) { now.wrapping_sub(earlier) } else { 0 }
}

/// A span rounded up to whole ticks, as in a kernel with HZ = 10^9 / `tick_ns`; 0 leaves it exact.
#[inline]
pub const fn round_up_to_tick(span_ns: Nanos, tick_ns: Nanos) -> Nanos {
    match span_ns.checked_rem(tick_ns) {
        None | Some(0) => span_ns,
        Some(over) => span_ns.saturating_add(tick_ns - over),
    }
}
