//! The parameters of a promise: the policy, its version, and the tunables in force.

use std::collections::BTreeMap;

use hoistway_block::Nanos;
use hoistway_elevator::registry;
use hoistway_elevator::{Passing, Version};

/// The parameters of a policy's promise: its declared traits, its version, and its tunables in
/// their units.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub passing: Passing,
    /// None = the default version.
    pub version: Option<Version>,
    pub tunables: BTreeMap<&'static str, i64>,
    /// Length of a tick of the policy's clock; 0 = exact.
    pub tick_ns: Nanos,
    /// Number of software queues, all of which may feed one hardware queue.
    pub software_queues: u64,
}

/// The promise that a policy of the registry declares.
pub(crate) fn passing_of(name: &str) -> Passing {
    registry::find(name).map_or(Passing::Unchecked, |entry| entry.traits.passing)
}

impl Terms {
    /// Terms of a policy of the registry, with exact time and one software queue.
    pub(crate) fn of(name: &str) -> Self {
        Self { passing: passing_of(name), version: None, tunables: BTreeMap::new(), tick_ns: 0, software_queues: 1 }
    }

    pub(super) fn is_since(&self, version: Version) -> bool {
        self.version.is_none_or(|own| own >= version)
    }

    pub(super) fn value(&self, tunable: &str) -> i64 {
        self.tunables.get(tunable).copied().unwrap_or(0)
    }

    /// A count or time that is never negative.
    pub(super) fn count(&self, tunable: &str) -> u64 {
        self.value(tunable).unsigned_abs()
    }

    pub(super) fn ms(&self, tunable: &str) -> Nanos {
        self.count(tunable).saturating_mul(hoistway_block::time::MILLISECOND)
    }

    /// The time after which a request of this side (reads, or sync ones) is overdue.
    pub(super) fn expire_ns(&self, is_read: bool) -> Nanos {
        self.ms(if is_read { "read_expire" } else { "write_expire" })
    }

    /// A time as the policy's clock shows it.
    pub(super) fn clock(&self, now: Nanos) -> Nanos {
        now - now.checked_rem(self.tick_ns).unwrap_or(0)
    }
}
