//! What a group had of a device.

use block::Nanos;
use elevator::{ByKind, GroupAccount};
use serde::{Deserialize, Serialize};

/// A number by what was asked for. Reads and writes together are all, and so are sync and async.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ByType {
    /// Of reads.
    pub read: u64,
    /// Of everything else.
    pub write: u64,
    /// Of what somebody waits for.
    pub sync: u64,
    /// Of the rest.
    #[serde(rename = "async")]
    pub asynchronous: u64,
}

impl ByType {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.read.saturating_add(self.write)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            read: self.read.saturating_add(other.read),
            write: self.write.saturating_add(other.write),
            sync: self.sync.saturating_add(other.sync),
            asynchronous: self.asynchronous.saturating_add(other.asynchronous),
        }
    }
}

/// One group on one device, from the begin of the run on. Requests are those dispatched, after merging.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Time for which its queues had the device, in ns.
    pub time_ns: Nanos,
    /// Time beyond its slices and before their begin, in ns.
    pub unaccounted_time_ns: Nanos,
    /// Sectors dispatched.
    pub sectors: u64,
    /// Bytes dispatched.
    pub io_service_bytes: ByType,
    /// Requests dispatched.
    pub io_serviced: ByType,
    /// From the dispatch to the completion, in ns, of all requests together.
    pub io_service_time_ns: ByType,
    /// From the allocation to the dispatch, in ns, of all requests together.
    pub io_wait_time_ns: ByType,
    /// Bios and requests that joined others.
    pub io_merged: ByType,
    /// Requests queued now.
    pub io_queued: ByType,
    /// How often the number of queued requests was looked at.
    pub queue_samples: u64,
    /// What was seen, together.
    pub queue_sampled_requests: u64,
    /// Time with something queued and another group in service, in ns.
    pub group_wait_time_ns: Nanos,
    /// Time for which the device was kept idle for it, in ns.
    pub idle_time_ns: Nanos,
    /// Time with nothing queued, in ns.
    pub empty_time_ns: Nanos,
    /// How often it left the order of groups.
    pub dequeue: u64,
}

impl From<ByKind> for ByType {
    fn from(of: ByKind) -> Self {
        Self { read: of.reads, write: of.writes, sync: of.sync, asynchronous: of.asynchronous }
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
        }
    }
}

impl Statistics {
    /// Requests seen per look at the queue, rounded down.
    pub const fn avg_queue_size(&self) -> u64 {
        match self.queue_sampled_requests.checked_div(self.queue_samples) {
            Some(average) => average,
            None => 0,
        }
    }

    /// Both groups together, for the files that count what lies below a group.
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
        }
    }
}
