//! What a promise depends on: which policy, which form of it, and the tunables in force.

use std::collections::BTreeMap;

use block::Nanos;
use elevator::registry::ENTRIES;
use elevator::{Passing, Version};

/// A policy as its promise sees it: what it declares, its form and tunables in force, in their units.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub passing: Passing,
    /// None = the form that users get.
    pub version: Option<Version>,
    pub tunables: BTreeMap<&'static str, i64>,
    /// Length of a tick of the policy's clock; 0 = exact.
    pub tick_ns: Nanos,
    /// Software queues that feed each hardware queue.
    pub software_queues: u64,
}

/// What a policy of the registry promises.
pub(crate) fn passing_of(name: &str) -> Passing {
    ENTRIES.iter().find(|entry| entry.name == name).map_or(Passing::Unchecked, |entry| entry.traits.passing)
}

impl Terms {
    /// Of a policy of the registry, with exact time and one software queue.
    pub(crate) fn of(name: &str) -> Self {
        Self { passing: passing_of(name), version: None, tunables: BTreeMap::new(), tick_ns: 0, software_queues: 1 }
    }

    pub(super) fn is_since(&self, version: Version) -> bool {
        self.version.is_none_or(|own| own >= version)
    }

    pub(super) fn value(&self, tunable: &str) -> i64 {
        self.tunables.get(tunable).copied().unwrap_or(0)
    }

    /// A count or a time that is never negative.
    pub(super) fn count(&self, tunable: &str) -> u64 {
        self.value(tunable).unsigned_abs()
    }

    pub(super) fn ms(&self, tunable: &str) -> Nanos {
        self.count(tunable).saturating_mul(block::time::MILLISECOND)
    }

    /// After how long a request of this side (reads, or sync ones) is overdue.
    pub(super) fn expire_ns(&self, is_read: bool) -> Nanos {
        self.ms(if is_read { "read_expire" } else { "write_expire" })
    }

    /// A time as the policy's clock shows it.
    pub(super) fn clock(&self, now: Nanos) -> Nanos {
        now - now.checked_rem(self.tick_ns).unwrap_or(0)
    }
}
