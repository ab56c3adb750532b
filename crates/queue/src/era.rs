//! The block layer around a policy, as data: how the kernels of one period allocated, plugged,
//! drained and flushed.
//!
//! An era is a row of independent choices; the code that applies them never asks for a kernel
//! version. Hosts may mix rows (`Era { plug_requests: 16, ..Era::BLK_MQ }` is Linux 5.15). The
//! kernels before blk-mq had one hardware queue, and their eras are meant for one. Source:
//! docs/specifications/classic-elevators.md, sections 1.5 to 1.11.

use hoistway_block::Nanos;
use hoistway_block::time::MILLISECOND;
use hoistway_elevator::{Configuration, Depth};

/// The differences between the block layers in which the policies ran.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Era {
    /// How requests are allocated and how sleepers are woken.
    pub allocation: Allocation,
    /// Whether the queue itself plugs the device.
    pub queue_plug: QueuePlug,
    /// What flushes, FUA writes and barriers become.
    pub flushes: Flushes,
    /// Where a driver's own commands (passthrough) go.
    pub specials: Specials,
    /// The order of requests that a forced drain takes out of the policy.
    pub drains: Drains,
    /// Whether one request beyond the device's free slots is chosen ahead of time, as blk-mq does
    /// when it finds no driver tag for a request that it already took. That request can no longer
    /// be overtaken or merged.
    pub look_ahead: bool,
    /// Whether the driver leaves a request on the queue while the device serves it (2.4 IDE): the
    /// queue is then not empty, and a bio that arrives meanwhile does not plug it.
    pub head_active: bool,
    /// Whether a request that was too large to take a bio is closed for all further bios.
    pub closes_full_requests: bool,
    /// Whether a bio that slept for a request looks for merge candidates again before it uses it.
    pub searches_again: bool,
    /// Whether bios of different contexts may share a request. A host whose clients come and go takes
    /// the requests of one that is gone back ([`crate::RequestQueue::withdraw`]), which is only
    /// possible for whole requests.
    pub merges_contexts: bool,
    /// Requests a submitter's plug collects before it is flushed; 0 = submitters have no plugs.
    pub plug_requests: usize,
    /// Size in sectors at which a plugged request flushes the plug.
    pub plug_sectors: u32,
    /// How long a flush may wait for running data before it is issued nevertheless, in ns.
    pub flush_wait_ns: Nanos,
    /// Whether the number of requests is only the size of a table, not a depth that was configured.
    /// Limiters that scale `nr_requests` then use the usual value.
    pub has_large_table: bool,
    /// Largest read or write of an ordinary device of the period, for hosts that do not know their
    /// device's limit.
    pub max_sectors: u32,
}

/// How requests are allocated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// One pool of `nr_requests` tags, with depth limits set by the policy. Arrivals do not
    /// overtake waiting bios.
    Tags,
    /// 2.4.20: half of `nr_requests` for reads, half for writes. One sleeper is woken per freed
    /// request while at least `min(nr_requests / 4, 32)` are free; a bio that arrives before it
    /// runs may take the request.
    SplitLists,
    /// 2.4.23 and the -aa trees ("low latency"): one pool, and a cap on the sectors in flight.
    SharedList {
        /// Above this number of sectors writes sleep, and so do all but a few reads, which may go
        /// up to five quarters of it. Sleepers are woken at three quarters of it or below.
        max_queue_sectors: u32,
    },
    /// 2.6 to 4.20: `nr_requests` for each of two kinds. A task that fills a kind, or slept for it,
    /// may take a batch of requests beyond it.
    Batching {
        /// The two kinds.
        by: Kinds,
        /// Whether 3/2 of `nr_requests` is an upper bound for every task (since 2.6.12).
        is_capped: bool,
    },
}

/// The two kinds of request that are counted separately.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kinds {
    /// Reads and writes.
    Direction,
    /// Requests that a task waits for, and requests that none waits for (since 2.6.30).
    Sync,
}

/// When the queue plugs the device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum QueuePlug {
    /// Never.
    None,
    /// 2.4: from the bio that finds the queue empty until an explicit unplug.
    UntilAsked,
    /// 2.6: likewise, but at most until enough requests are queued, a time has passed, or a bio
    /// marked sync arrives.
    Threshold {
        /// Number of requests, queued and not in the driver, that removes the plug.
        requests: u32,
        /// The longest time that the plug stays; at least one tick.
        delay_ns: Nanos,
    },
}

/// What flushes and barriers become.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Flushes {
    /// 2.4: not supported. A flush completes at once, and a flagged write is an ordinary one.
    Unknown,
    /// Up to 2.6.36: a flagged bio is a barrier. Requests before it are drained first, later ones
    /// wait for it.
    Barriers,
    /// Since 2.6.37: the flush machine; other requests are not held up.
    Machine,
}

/// Where passthrough commands go.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Specials {
    /// 2.4: on the policy's list, as a request that no other passes. A policy without a list of its
    /// own is drained first.
    Queued,
    /// 2.6 to 4.20: the policy is drained to the dispatch list, and the command is appended to it.
    Tail,
    /// Appended to the requests already chosen, bypassing the policy.
    Bypass,
}

/// The order of a forced drain's requests on the dispatch list.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Drains {
    /// They are dispatched one by one, in the order in which the policy gives them.
    AsGiven,
    /// 2.6 to 4.20: all at once, sorted by sector from the last boundary on if the policy asks for
    /// it.
    DispatchSort,
}

impl Era {
    /// Linux 2.4.20 with an IDE disk.
    pub const LINUX_2_4: Era = Era {
        allocation: Allocation::SplitLists,
        queue_plug: QueuePlug::UntilAsked,
        flushes: Flushes::Unknown,
        specials: Specials::Queued,
        drains: Drains::AsGiven,
        look_ahead: false,
        head_active: true,
        closes_full_requests: false,
        searches_again: true,
        merges_contexts: true,
        plug_requests: 0,
        plug_sectors: 256,
        flush_wait_ns: 5_000_000_000,
        has_large_table: false,
        max_sectors: 255,
    };

    /// Linux 2.4.23 and Andrea Arcangeli's -aa trees, "elevator low latency": at most 4 MiB in
    /// flight.
    pub const LINUX_2_4_LOW_LATENCY: Era =
        Era { allocation: Allocation::SharedList { max_queue_sectors: 8192 }, ..Era::LINUX_2_4 };

    /// Linux 2.6.18 to 2.6.38: the queue plugs the device. Requests are counted by direction, as up
    /// to 2.6.29.
    pub const LINUX_2_6: Era = Era {
        allocation: Allocation::Batching { by: Kinds::Direction, is_capped: true },
        queue_plug: QueuePlug::Threshold { requests: 4, delay_ns: 3 * MILLISECOND },
        flushes: Flushes::Barriers,
        specials: Specials::Tail,
        drains: Drains::DispatchSort,
        look_ahead: false,
        head_active: false,
        closes_full_requests: true,
        searches_again: false,
        merges_contexts: true,
        plug_requests: 0,
        plug_sectors: 256,
        flush_wait_ns: 5_000_000_000,
        has_large_table: false,
        max_sectors: 1024,
    };

    /// Linux 2.6.39 to 4.20 with a single queue: submitters have plugs.
    pub const LINUX_3: Era = Era {
        allocation: Allocation::Batching { by: Kinds::Sync, is_capped: true },
        queue_plug: QueuePlug::None,
        flushes: Flushes::Machine,
        plug_requests: 16,
        ..Era::LINUX_2_6
    };

    /// Linux 5.16 and later.
    pub const BLK_MQ: Era = Era {
        allocation: Allocation::Tags,
        queue_plug: QueuePlug::None,
        flushes: Flushes::Machine,
        specials: Specials::Bypass,
        drains: Drains::AsGiven,
        look_ahead: true,
        head_active: false,
        closes_full_requests: true,
        searches_again: true,
        merges_contexts: true,
        plug_requests: crate::plug::CAPACITY,
        plug_sectors: 256,
        flush_wait_ns: 5_000_000_000,
        has_large_table: false,
        max_sectors: 2560,
    };

    /// The engine of `hoistway serve`. It knows its free slots before it dispatches, so no request
    /// is chosen early. Its contexts are clients, which may vanish.
    pub const ENGINE: Era = Era { look_ahead: false, has_large_table: true, merges_contexts: false, ..Era::BLK_MQ };

    /// The usual `nr_requests` for a device of this queue depth.
    pub const fn usual_requests(&self, device_depth: u32) -> u32 {
        match self.allocation {
            Allocation::Tags => 2 * if device_depth < 128 { device_depth } else { 128 },
            _ => 128,
        }
    }

    /// Slots of the request table for `nr_requests`: every request that this era allows, and the
    /// flush commands.
    pub const fn slots(&self, requests: u32, hardware_queues: u16) -> u32 {
        let most = match self.allocation {
            Allocation::Batching { .. } => 3 * requests,
            _ => requests,
        };
        let most = if most < 2 { 2 } else { most };
        most + hardware_queues as u32
    }
}

impl crate::Settings {
    /// Settings of a queue of this era over a device of this queue depth: `nr_requests`, table size
    /// and largest request.
    pub fn of_era(era: Era, device_depth: u32) -> Self {
        let requests = era.usual_requests(device_depth);
        let configuration = Configuration {
            slots: era.slots(requests, 1),
            depth: Depth { requests, device: device_depth },
            queueing: device_depth > 1,
            max_sectors: era.max_sectors,
            ..Configuration::default()
        };
        let limits = crate::Limits { max_sectors: era.max_sectors, ..crate::Limits::default() };
        Self { configuration, limits, era, ..Self::default() }
    }
}
