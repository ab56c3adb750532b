//! The service that a group received from a device.

use hoistway_block::{GroupId, Nanos};
use hoistway_elevator::{ByKind, Elevator, GroupAccount};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number by type of request. Reads, writes and discards add up to the total, and so do sync and
/// async.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ByType {
    /// Of reads.
    pub read: u64,
    /// Of everything except reads and discards.
    pub write: u64,
    /// Of discards, if the scheduler distinguishes them from writes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub discard: u64,
    /// Of synchronous requests.
    pub sync: u64,
    /// Of asynchronous requests.
    #[serde(rename = "async")]
    pub asynchronous: u64,
}

/// Serde requires a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ByType {
    /// Sum over all types.
    pub const fn total(&self) -> u64 {
        self.read.saturating_add(self.write).saturating_add(self.discard)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            write: self.write.saturating_add(other.write),
            discard: self.discard.saturating_add(other.discard),
            sync: self.sync.saturating_add(other.sync),
            asynchronous: self.asynchronous.saturating_add(other.asynchronous),
        }
    }
}

/// One group on one device since the start of the run. Dispatched requests are counted, after
/// merging.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Statistics {
    /// Time for which its queues were in service, in ns.
    pub time_ns: Nanos,
    /// Time beyond its slices and before their start, in ns.
    pub unaccounted_time_ns: Nanos,
    /// Sectors dispatched.
    pub sectors: u64,
    /// Bytes dispatched.
    pub io_service_bytes: ByType,
    /// Requests dispatched.
    pub io_serviced: ByType,
    /// Time from dispatch to completion, in ns, summed over all requests.
    pub io_service_time_ns: ByType,
    /// Time from allocation to dispatch, in ns, summed over all requests.
    pub io_wait_time_ns: ByType,
    /// Merged bios and requests.
    pub io_merged: ByType,
    /// Requests queued now.
    pub io_queued: ByType,
    /// Number of samples of the number of queued requests.
    pub queue_samples: u64,
    /// Sum of these samples.
    pub queue_sampled_requests: u64,
    /// Time with requests queued while another group was in service, in ns.
    pub group_wait_time_ns: Nanos,
    /// Time for which the device was idled for it, in ns.
    pub idle_time_ns: Nanos,
    /// Time without queued requests, in ns.
    pub empty_time_ns: Nanos,
    /// How often it was removed from the service tree of groups.
    pub dequeue: u64,
    /// Service of its removed descendants, which only the `_recursive` files include.
    #[serde(default, skip_serializing_if = "Removed::is_nothing")]
    pub removed: Removed,
}

/// Of removed groups, the statistics for which there is a `_recursive` file.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// See [`Statistics`], as for the other fields.
    pub time_ns: Nanos,
    /// Sectors dispatched.
    pub sectors: u64,
    /// Bytes dispatched.
    pub io_service_bytes: ByType,
    /// Requests dispatched.
    pub io_serviced: ByType,
    /// Time from dispatch to completion, in ns.
    pub io_service_time_ns: ByType,
    /// Time from allocation to dispatch, in ns.
    pub io_wait_time_ns: ByType,
    /// Merged bios and requests.
    pub io_merged: ByType,
}

impl Removed {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl From<GroupAccount> for Removed {
    fn from(of: GroupAccount) -> Self {
        let Statistics { time_ns, sectors, io_service_bytes, io_serviced, .. } = of.into();
        let Statistics { io_service_time_ns, io_wait_time_ns, io_merged, .. } = of.into();
        Self { time_ns, sectors, io_service_bytes, io_serviced, io_service_time_ns, io_wait_time_ns, io_merged }
    }
}

impl From<ByKind> for ByType {
    fn from(of: ByKind) -> Self {
        let ByKind { reads: read, writes: write, discards: discard, sync, asynchronous } = of;
        Self { read, write, discard, sync, asynchronous }
    }
}

impl From<GroupAccount> for Statistics {
    fn from(of: GroupAccount) -> Self {
        Self {
            time_ns: of.time_ns,
            unaccounted_time_ns: of.unaccounted_ns,
            sectors: of.sectors,
            io_service_bytes: of.service_bytes.into(),
            io_serviced: of.serviced.into(),
            io_service_time_ns: of.service_time_ns.into(),
            io_wait_time_ns: of.wait_time_ns.into(),
            io_merged: of.merged.into(),
            io_queued: of.queued.into(),
            queue_samples: of.queue_samples,
            queue_sampled_requests: of.queue_sampled_requests,
            group_wait_time_ns: of.group_wait_ns,
            idle_time_ns: of.idle_ns,
            empty_time_ns: of.empty_ns,
            dequeue: of.dequeues,
            removed: Removed::default(),
        }
    }
}

impl Statistics {
    /// The statistics that a scheduler keeps of a group; `None` if it keeps none.
    pub fn of(elevator: &impl Elevator, group: GroupId) -> Option<Self> {
        let removed = elevator.removed_account(group).map(Removed::from).unwrap_or_default();
        Some(Self { removed, ..elevator.group_account(group)?.into() })
    }

    /// Includes the service of removed descendants.
    #[must_use]
    pub fn with_removed(self) -> Self {
        let Removed { time_ns, sectors, io_service_bytes, io_serviced, .. } = self.removed;
        let Removed { io_service_time_ns, io_wait_time_ns, io_merged, .. } = self.removed;
        let these = Self { time_ns, sectors, io_service_bytes, io_serviced, ..Self::default() };
        self.plus(&Self { io_service_time_ns, io_wait_time_ns, io_merged, ..these })
    }

    /// Mean of the sampled numbers of queued requests, rounded down.
    pub const fn avg_queue_size(&self) -> u64 {
        match self.queue_sampled_requests.checked_div(self.queue_samples) {
            Some(average) => average,
            None => 0,
        }
    }

    /// The sum of both groups, for files that include descendants; service of removed groups is
    /// that of `self` only.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        Self {
            time_ns: sum(self.time_ns, other.time_ns),
            unaccounted_time_ns: sum(self.unaccounted_time_ns, other.unaccounted_time_ns),
            sectors: sum(self.sectors, other.sectors),
            io_service_bytes: self.io_service_bytes.plus(other.io_service_bytes),
            io_serviced: self.io_serviced.plus(other.io_serviced),
            io_service_time_ns: self.io_service_time_ns.plus(other.io_service_time_ns),
            io_wait_time_ns: self.io_wait_time_ns.plus(other.io_wait_time_ns),
            io_merged: self.io_merged.plus(other.io_merged),
            io_queued: self.io_queued.plus(other.io_queued),
            queue_samples: sum(self.queue_samples, other.queue_samples),
            queue_sampled_requests: sum(self.queue_sampled_requests, other.queue_sampled_requests),
            group_wait_time_ns: sum(self.group_wait_time_ns, other.group_wait_time_ns),
            idle_time_ns: sum(self.idle_time_ns, other.idle_time_ns),
            empty_time_ns: sum(self.empty_time_ns, other.empty_time_ns),
            dequeue: sum(self.dequeue, other.dequeue),
            removed: self.removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_groups_count_below_their_parent_and_not_for_it() {
        let reads = |number| ByKind { reads: number, sync: number, ..ByKind::ZERO };
        let gone = GroupAccount { time_ns: 5, sectors: 8, serviced: reads(1), dequeues: 9, ..GroupAccount::ZERO };
        let own = GroupAccount { time_ns: 7, sectors: 16, serviced: reads(2), dequeues: 1, ..GroupAccount::ZERO };
        let statistics = Statistics { removed: gone.into(), ..own.into() };
        assert_eq!((statistics.time_ns, statistics.io_serviced.total()), (7, 2));
        let below = statistics.with_removed();
        assert_eq!((below.time_ns, below.sectors, below.io_serviced.read, below.dequeue), (12, 24, 3, 1));
    }

    #[test]
    fn what_is_nothing_is_not_written() {
        let text = serde_json::to_string(&Statistics::default()).expect("plain data");
        assert!(!text.contains("removed") && !text.contains("discard"), "{text}");
        assert_eq!(serde_json::from_str::<Statistics>(&text).expect("the same"), Statistics::default());
        let discard = ByType { discard: 3, asynchronous: 3, ..ByType::default() };
        let text = serde_json::to_string(&discard).expect("plain data");
        assert_eq!(serde_json::from_str::<ByType>(&text).expect("the same"), discard);
        assert_eq!(discard.total(), 3);
    }
}
