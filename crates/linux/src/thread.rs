//! Scheduling attributes of the calling thread, and the monotonic clock.

use std::io;

use rustix::thread::CpuSet;

/// Lets this thread's timers fire when they are due instead of up to 50 µs later (the kernel's
/// default slack).
pub fn precise_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?)
}

/// The shortest time slice that Linux grants.
const SHORT_SLICE_NS: u64 = 100_000;

/// Lets this thread run soon after a wake-up while other threads compute, without a larger share of
/// the processor.
///
/// Since Linux 6.12 a woken thread that asks for shorter slices preempts the running one before its
/// slice (usually 3 ms, in whole ticks) ends. Older kernels accept the request without effect.
pub fn short_slices() -> io::Result<()> {
    crate::ioctl::slice_length(SHORT_SLICE_NS)
}

/// Binds this thread to the given processors. With an empty list it stays unbound.
pub fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The monotonic clock in nanoseconds: the clock that all timers and waits of this crate use.
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The number of processors that this process may use; 1 if the system does not tell.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Gives this thread real-time priority, so that it runs as soon as it is woken; its children have
/// normal priority again.
///
/// # Errors
/// `PermissionDenied` without the necessary privilege.
pub fn most_urgent() -> io::Result<()> {
    crate::ioctl::real_time()
}
