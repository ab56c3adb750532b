//! The CPU time that the host's own work takes.

use hoistway_block::Nanos;
use hoistway_experiment::Machine;

/// Delays between a process and the device; all 0 for a host without costs.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct HostCosts {
    /// Per bio, before the process can act again, in nanoseconds.
    pub submit_ns: Nanos,
    /// From the device's completion to the process running again, in nanoseconds.
    pub complete_ns: Nanos,
    /// Per buffered read or write call, in nanoseconds.
    pub call_ns: Nanos,
    /// Copying to and from the page cache, in picoseconds per byte.
    pub copy_ps_per_byte: u64,
}

impl Default for HostCosts {
    /// A current machine with blk-mq: 1.5 us per bio, 3 us per completion, 0.3 us per call, 5 GB/s
    /// copied.
    fn default() -> Self {
        Self { submit_ns: 1_500, complete_ns: 3_000, call_ns: 300, copy_ps_per_byte: 200 }
    }
}

impl HostCosts {
    /// No costs: for measuring the cost of queue, elevator and simulator themselves.
    pub const NONE: HostCosts = HostCosts { submit_ns: 0, complete_ns: 0, call_ns: 0, copy_ps_per_byte: 0 };

    /// The machine's costs, or those of its era.
    pub(crate) fn of(machine: &Machine) -> Self {
        let mb_per_s = machine.copy_mb_per_s_in_force().max(1);
        Self {
            submit_ns: machine.submit_ns_in_force(),
            complete_ns: machine.complete_ns_in_force(),
            call_ns: machine.call_ns,
            copy_ps_per_byte: (1_000_000 + mb_per_s / 2) / mb_per_s,
        }
    }

    /// The time to copy this many bytes.
    pub(crate) fn copy_ns(&self, bytes: u64) -> Nanos {
        bytes * self.copy_ps_per_byte / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_machine_costs_what_the_default_says() {
        assert_eq!(HostCosts::of(&Machine::default()), HostCosts::default());
        let old = HostCosts::of(&Machine::parse("era=2.6").unwrap());
        // 128 KiB at 1.8 GB/s.
        assert_eq!((old.complete_ns, old.copy_ns(131_072)), (15_000, 72_876));
    }
}
