//! The parameters of a shard, with their ranges.

use std::time::Duration;

use hoistway_experiment::SchedulerSpec;

use crate::error::EngineError;
use crate::positioning::Rotational;

/// The parameters of a shard.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// The device's name in status and messages, and the thread's.
    pub name: String,
    /// The scheduler and its settings.
    pub scheduler: SchedulerSpec,
    /// Memory for data, 64 MiB to 64 GiB.
    pub memory_bytes: u64,
    /// The number of commands that may be in flight on the device. 0 means 32 on a rotating disk;
    /// on other devices it means that the smallest number with full throughput is learned, at most
    /// 128.
    pub queue_depth: u32,
    /// Whether positioning costs time; with a device model, the model decides.
    pub rotational: Rotational,
    /// Requests the queue may hold at a time (`nr_requests`); 0 = as many as fit.
    pub queue_requests: u32,
    /// Longest transfer, 4 KiB to 1 MiB.
    pub max_request_bytes: u32,
    /// Requests up to this size on files in memory are performed by the device's threads themselves; 0 = none.
    pub inline_max_bytes: u32,
    /// How long to wait for several completions at once, in microseconds; 0 = not at all.
    pub batch_wait_us: u32,
    /// How long to poll for events before sleeping, in microseconds, at most 200; 0 = not at all.
    pub busy_poll_us: u32,
    /// Threads that share the work of the device's clients, at most 64; 0 = one for each processor it
    /// may use, up to 4. Further ones are started as clients connect.
    pub threads: u32,
    /// How long a client may stall in the middle of a request or reply.
    pub stall_timeout: Duration,
    /// Processors that the threads are bound to; empty = any.
    pub cpus: Vec<usize>,
    /// Whether the thread gets real-time priority, which needs root: for loads that keep recorded
    /// times. Other threads get no processor time while it works, so servers do not use it.
    pub is_urgent: bool,
    /// The most clients at a time.
    pub max_connections: u32,
    /// The most groups at a time, including the root; at most [`ShardSettings::most_groups`] of the memory.
    pub max_groups: u32,
    /// Seed of all random decisions of scheduler and model.
    pub seed: u64,
}

impl Default for ShardSettings {
    fn default() -> Self {
        Self {
            name: "device".to_owned(),
            scheduler: SchedulerSpec::named("paternoster"),
            memory_bytes: 256 << 20,
            queue_depth: 0,
            rotational: Rotational::Measured,
            queue_requests: 0,
            max_request_bytes: 1 << 20,
            inline_max_bytes: 16 << 10,
            batch_wait_us: 0,
            busy_poll_us: 50,
            threads: 0,
            stall_timeout: Duration::from_secs(30),
            cpus: Vec::new(),
            is_urgent: false,
            max_connections: 1_024,
            max_groups: Self::most_groups(256 << 20),
            seed: 1,
        }
    }
}

impl ShardSettings {
    /// The most groups, with the root, for which a device with this memory has room: each has a reserve of
    /// 1 MiB, and all reserves together take at most half. At most 16,384.
    pub fn most_groups(memory_bytes: u64) -> u32 {
        crate::memory::most_groups(memory_bytes)
    }

    /// Checks that every value is in its range.
    ///
    /// # Errors
    /// The first value out of range, with its range.
    pub fn check(&self) -> Result<(), EngineError> {
        let range = |name: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let message = format!("device '{}': {name} = {value}; allowed: {least} to {most}", self.name);
            Err(EngineError::usage(message, "choose a value inside the range"))
        };
        range("memory", self.memory_bytes, 64 << 20, 64 << 30)?;
        range("max_request", u64::from(self.max_request_bytes), 4 << 10, 1 << 20)?;
        range("queue_depth", u64::from(self.queue_depth), 0, 4_096)?;
        range("queue_requests", u64::from(self.queue_requests), 0, 8_192)?;
        range("batch_wait_us", u64::from(self.batch_wait_us), 0, 1_000)?;
        range("busy_poll_us", u64::from(self.busy_poll_us), 0, 200)?;
        range("threads", u64::from(self.threads), 0, 64)?;
        range("inline_max", u64::from(self.inline_max_bytes), 0, 1 << 20)?;
        range("connections", u64::from(self.max_connections), 1, 16_384)?;
        range("groups", u64::from(self.max_groups), 1, u64::from(crate::memory::MAX_GROUPS))?;
        if !self.max_request_bytes.is_power_of_two() {
            let message =
                format!("device '{}': max_request = {}; allowed: powers of two", self.name, self.max_request_bytes);
            return Err(EngineError::usage(message, "write 64KiB, 256KiB or 1MiB"));
        }
        Ok(())
    }
}
