//! What a thread may ask of the system for itself.

use std::io;

use rustix::thread::CpuSet;

/// Lets this thread's timers fire when they are due instead of up to 50 µs later (the kernel's default slack).
pub fn precise_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?)
}

/// The shortest turn that Linux grants.
const SHORT_TURN_NS: u64 = 100_000;

/// Lets this thread run soon after it was woken although others compute, without taking more of the processor from them.
///
/// Linux from 6.12 on gives the processor to who was woken before the other's turn is over (usually 3 ms, counted in ticks)
/// if it asks for shorter turns itself. Older kernels hear it and do nothing.
pub fn short_turns() -> io::Result<()> {
    crate::ioctl::turn_length(SHORT_TURN_NS)
}

/// Binds this thread to the given processors. An empty list leaves it free.
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

/// How many processors this process may use; 1 if the system does not tell.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Lets this thread run as soon as it is woken, before all ordinary ones; its children are ordinary again.
///
/// # Errors
/// `PermissionDenied` without the right to it.
pub fn most_urgent() -> io::Result<()> {
    crate::ioctl::real_time()
}
