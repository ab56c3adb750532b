//! The time that the host's own work takes: submissions, system calls, copying, completions.

use hoistway_block::Nanos;

use crate::costs::HostCosts;

/// The lock around the elevator, where holding it is modelled as costing time: insertions, choices
/// and completions are serialised.
#[derive(Debug)]
pub(crate) struct ElevatorLock {
    pub free_at: Nanos,
    hold_ns: Nanos,
}

impl ElevatorLock {
    /// A lock that is held for this time each time it is taken.
    pub(super) fn new(hold_ns: Nanos) -> Self {
        Self { free_at: 0, hold_ns }
    }

    /// Takes the lock at `now`, or when it is free. Returns when it is released again.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos) -> Nanos {
        if self.hold_ns == 0 {
            return now;
        }
        self.free_at = self.free_at.max(now) + self.hold_ns;
        self.free_at
    }
}

/// The CPUs of the host. Each does one thing at a time: its work begins when the previous one is
/// done. Where processors are simulated, they keep this time, and work is free here.
#[derive(Debug)]
pub(super) struct HostWork {
    costs: HostCosts,
    /// Whether no work takes time.
    is_free: bool,
    /// Whether no CPU is ever busy: work and the elevator's lock cost no time, and all I/Os are
    /// plain transfers.
    is_never_busy: bool,
    /// Whether completions occupy a CPU as well.
    shares_cpus: bool,
    /// When each CPU is idle again; without a limit every process has a CPU of its own.
    free_at: Vec<Nanos>,
}

impl HostWork {
    /// The CPUs of a host. `waits_otherwise` says whether processes are kept busy by calls or the
    /// elevator's lock, whatever the costs.
    pub(super) fn new(costs: HostCosts, cpus: usize, shares_cpus: bool, waits_otherwise: bool) -> Self {
        let is_free = costs == HostCosts::NONE;
        Self { costs, is_free, is_never_busy: is_free && !waits_otherwise, shares_cpus, free_at: vec![0; cpus] }
    }

    /// For a host whose processors are simulated: they keep the time, so here no CPU is ever busy.
    pub(super) fn elsewhere(costs: HostCosts, cpus: usize) -> Self {
        Self { costs, is_free: false, is_never_busy: true, shares_cpus: false, free_at: vec![0; cpus] }
    }

    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.is_free
    }

    /// Whether a CPU is idle.
    #[inline]
    pub(super) fn is_idle(&self, cpu: u32, now: Nanos) -> bool {
        self.is_never_busy || self.free_at[cpu as usize] <= now
    }

    /// When a CPU is idle again.
    #[inline]
    pub(super) fn idle_at(&self, cpu: u32) -> Nanos {
        self.free_at[cpu as usize]
    }

    /// Occupies a CPU from now on, or from when it is idle. Returns when the work is done.
    #[inline]
    fn occupy(&mut self, cpu: u32, now: Nanos, length_ns: Nanos) -> Nanos {
        let free_at = &mut self.free_at[cpu as usize];
        *free_at = now.max(*free_at) + length_ns;
        *free_at
    }

    /// When work is done that takes no time itself.
    pub(super) fn follows(&mut self, cpu: u32, now: Nanos) -> Nanos {
        self.occupy(cpu, now, 0)
    }

    /// Enters a system call.
    pub(super) fn calls(&mut self, cpu: u32, now: Nanos) {
        self.occupy(cpu, now, self.costs.call_ns);
    }

    /// Copies bytes between the caller and the page cache.
    pub(super) fn copies(&mut self, cpu: u32, now: Nanos, bytes: u64) -> Nanos {
        self.occupy(cpu, now, self.costs.copy_ns(bytes))
    }

    /// Submits `bios` bios; the last one holds the elevator's lock until `lock_free_at`. Returns
    /// when the process may continue.
    #[inline]
    pub(super) fn submits(&mut self, cpu: u32, bios: u32, lock_free_at: Nanos, now: Nanos) -> Nanos {
        if self.is_never_busy {
            return now;
        }
        let waits_ns = lock_free_at.saturating_sub(now);
        self.occupy(cpu, now, waits_ns + self.costs.submit_ns * u64::from(bios))
    }

    /// When a process runs again after an event that it waits for at `now`.
    #[inline]
    pub(super) fn runs_again(&mut self, cpu: u32, now: Nanos) -> Nanos {
        if self.shares_cpus { self.occupy(cpu, now, self.costs.complete_ns) } else { now + self.costs.complete_ns }
    }

    /// What a completion takes.
    #[inline]
    pub(super) fn completion_ns(&self) -> Nanos {
        self.costs.complete_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_does_one_thing_at_a_time() {
        let costs = HostCosts { submit_ns: 10, complete_ns: 3, ..HostCosts::NONE };
        let mut work = HostWork::new(costs, 2, true, false);
        assert_eq!(work.submits(0, 2, 0, 100), 120);
        assert_eq!(work.submits(0, 1, 0, 100), 130, "after the first");
        assert_eq!(work.submits(1, 1, 107, 100), 117, "another CPU, after the lock");
        assert_eq!(work.runs_again(0, 100), 133);
        assert!(!work.is_idle(0, 132) && work.is_idle(0, 133));
        let mut apart = HostWork::new(costs, 1, false, false);
        assert_eq!((apart.runs_again(0, 100), apart.idle_at(0)), (103, 0), "completions are done elsewhere");
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time() {
        let mut lock = ElevatorLock::new(5);
        assert_eq!((lock.take(10), lock.take(11), lock.take(100)), (15, 20, 105));
        assert_eq!(ElevatorLock::new(0).take(7), 7);
    }
}
