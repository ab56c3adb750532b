//! What the host's own work costs, as time.

use block::Nanos;

/// Times that pass between a process and the device; all 0 for a host that costs nothing.
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
    /// A current machine with blk-mq: 1.5 us per bio, 3 us per completion, 0.3 us per call, 5 GB/s copied.
    fn default() -> Self {
        Self { submit_ns: 1_500, complete_ns: 3_000, call_ns: 300, copy_ps_per_byte: 200 }
    }
}

impl HostCosts {
    /// A host that costs nothing: for what queue, elevator and simulator cost themselves.
    pub const NONE: HostCosts = HostCosts { submit_ns: 0, complete_ns: 0, call_ns: 0, copy_ps_per_byte: 0 };

    /// A buffered call of so many bytes, copy included.
    pub(crate) fn buffered_ns(&self, bytes: u32) -> Nanos {
        self.call_ns + u64::from(bytes) * self.copy_ps_per_byte / 1_000
    }
}
