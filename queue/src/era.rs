//! The surroundings a policy runs in, as data: what the block layer of a time did round its elevator.

/// What differs between the block layers that carry the policies.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Era {
    /// Whether one request beyond the device's free slots is chosen ahead of time, as blk-mq does when it finds no
    /// driver tag for a request it already took: it can no longer be overtaken or merged.
    pub look_ahead: bool,
    /// Requests a submitter's plug collects before it is flushed.
    pub plug_requests: usize,
    /// Size in sectors at which a plugged request flushes the plug.
    pub plug_sectors: u32,
    /// How long a flush may wait for running data before it is issued all the same, in ns.
    pub flush_wait_ns: u64,
}

impl Era {
    /// Linux 5.16 and later.
    pub const BLK_MQ: Era =
        Era { look_ahead: true, plug_requests: crate::plug::CAPACITY, plug_sectors: 256, flush_wait_ns: 5_000_000_000 };

    /// Our own engine: it knows its free slots before it asks, so nothing is chosen early.
    pub const ENGINE: Era = Era { look_ahead: false, ..Era::BLK_MQ };
}
