//! The surroundings a policy runs in, as data: what the block layer of a time did round its elevator.
//!
//! An era is a row of small choices; the code that obeys them never asks for a kernel's name. Hosts may mix rows
//! (`Era { plug_requests: 16, ..Era::BLK_MQ }` is Linux 5.15). The kernels before blk-mq had one hardware queue, and their
//! eras are meant for one. Source: specification of the classic elevators, 1.5 to 1.11.

use block::Nanos;
use block::time::MILLISECOND;
use elevator::{Configuration, Depth};

/// What differs between the block layers that carry the policies.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Era {
    /// Who gets a request, who sleeps for one, and who is woken.
    pub allocation: Allocation,
    /// Whether the queue itself holds requests back in front of the device.
    pub queue_plug: QueuePlug,
    /// What flushes, FUA writes and barriers become.
    pub flushes: Flushes,
    /// Where a driver's own commands (passthrough) go.
    pub specials: Specials,
    /// How a forced drain orders what it gets out of the policy.
    pub drains: Drains,
    /// Whether one request beyond the device's free slots is chosen ahead of time, as blk-mq does when it finds no
    /// driver tag for a request it already took: it can no longer be overtaken or merged.
    pub look_ahead: bool,
    /// Whether the driver leaves a request on the queue while the device serves it (2.4 IDE): the queue is then not
    /// empty, and a bio that arrives meanwhile does not plug it.
    pub head_active: bool,
    /// Whether a request that could not take a bio because of its size takes no other either.
    pub closes_full_requests: bool,
    /// Whether a bio that slept for a request looks for company again before it uses it.
    pub searches_again: bool,
    /// Requests a submitter's plug collects before it is flushed; 0 = submitters have no plugs.
    pub plug_requests: usize,
    /// Size in sectors at which a plugged request flushes the plug.
    pub plug_sectors: u32,
    /// How long a flush may wait for running data before it is issued all the same, in ns.
    pub flush_wait_ns: Nanos,
    /// Whether the number of requests is only the size of a table, and not a depth that anybody chose: limiters that
    /// scale `nr_requests` then go by the usual one.
    pub has_large_table: bool,
    /// Largest read or write of an ordinary device of the time, for hosts that know no better.
    pub max_sectors: u32,
}

/// Who gets a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// One pool of `nr_requests` tags, with depth limits by the policy. Arrivals do not overtake those who wait.
    Tags,
    /// 2.4.20: half of `nr_requests` for reads, half for writes. A sleeper is woken, one per freed request, while at least
    /// `min(nr_requests / 4, 32)` are free; whoever comes before that takes what he finds.
    SplitLists,
    /// 2.4.23 and -aa ("low latency"): one pool, and a cap on the sectors inside.
    SharedList {
        /// Above so many sectors writes sleep, and reads but for a few; a quarter of it is the width of a batch.
        max_queue_sectors: u32,
    },
    /// 2.6 to 4.20: `nr_requests` for each of two kinds. Who fills a kind, or slept for it, may take a batch beyond it.
    Batching {
        /// What the two kinds are.
        by: Kinds,
        /// Whether nobody goes beyond 3/2 of `nr_requests` (since 2.6.12).
        is_capped: bool,
    },
}

/// What is counted apart.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kinds {
    /// Reads and writes.
    Direction,
    /// What somebody waits for, and what nobody does (since 2.6.30).
    Sync,
}

/// When the queue holds requests back in front of the device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum QueuePlug {
    /// Never.
    None,
    /// 2.4: from the bio that finds the queue empty until somebody unplugs.
    UntilAsked,
    /// 2.6: likewise, but no longer than until enough is queued, a time has passed, or a bio marked sync arrives.
    Threshold {
        /// Requests queued and not in the driver that end it.
        requests: u32,
        /// How long it lasts at most; at least one tick.
        delay_ns: Nanos,
    },
}

/// What flushes and barriers become.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Flushes {
    /// 2.4: unknown. A flush is done at once, a marked write is an ordinary one.
    Unknown,
    /// Up to 2.6.36: a marked bio is a barrier. What came before is drained ahead of it, what comes later stays behind.
    Barriers,
    /// Since 2.6.37: the flush machine; nothing else is held up.
    Machine,
}

/// Where passthrough commands go.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Specials {
    /// 2.4: on the policy's list, as a request that nothing passes. A policy without a list of its own is drained first.
    Queued,
    /// 2.6 to 4.20: the policy is drained to the dispatch list, and they go behind that.
    Tail,
    /// Behind everything already chosen, past the policy.
    Bypass,
}

/// How requests of a forced drain lie on the dispatch list.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Drains {
    /// They are handed out one by one, as the policy gives them.
    AsGiven,
    /// 2.6 to 4.20: all at once, by sector from the last boundary on if the policy wants it.
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
        plug_requests: 0,
        plug_sectors: 256,
        flush_wait_ns: 5_000_000_000,
        has_large_table: false,
        max_sectors: 255,
    };

    /// Linux 2.4.23 and the -aa trees, "elevator low latency": at most 4 MiB inside.
    pub const LINUX_2_4_LOW_LATENCY: Era =
        Era { allocation: Allocation::SharedList { max_queue_sectors: 8192 }, ..Era::LINUX_2_4 };

    /// Linux 2.6.18 to 2.6.38: the queue plugs.
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
        plug_requests: 0,
        plug_sectors: 256,
        flush_wait_ns: 5_000_000_000,
        has_large_table: false,
        max_sectors: 1024,
    };

    /// Linux 2.6.39 to 4.20 with a single queue: submitters plug.
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
        plug_requests: crate::plug::CAPACITY,
        plug_sectors: 256,
        flush_wait_ns: 5_000_000_000,
        has_large_table: false,
        max_sectors: 2560,
    };

    /// Our own engine: it knows its free slots before it asks, so nothing is chosen early.
    pub const ENGINE: Era = Era { look_ahead: false, has_large_table: true, ..Era::BLK_MQ };

    /// The usual `nr_requests` for a device that takes so many commands.
    pub const fn usual_requests(&self, device_depth: u32) -> u32 {
        match self.allocation {
            Allocation::Tags => 2 * if device_depth < 128 { device_depth } else { 128 },
            _ => 128,
        }
    }

    /// Slots of the request table that `nr_requests` needs: every request this era allows, and the flush commands.
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
    /// A queue of the era over a device that takes so many commands: its `nr_requests`, table and largest request.
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
