//! What is known of a device before it is measured.

use hoistway_experiment::SchedulerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The host that performs the measurement.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// The simulator.
    Simulator,
    /// The engine of `hoistway serve`, on a file.
    Engine,
    /// The kernel, on the device itself.
    Native,
}

/// How the device is attached to the machine; decides whether a scheduler here has any effect.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Attachment {
    /// A physical disk of its own (SATA, SAS, NVMe, MMC) or a simulated one.
    #[default]
    Direct,
    /// A disk of a virtual machine or behind a network; the host below schedules again.
    Virtual,
    /// A loop device; the device below schedules.
    Loop,
    /// A stacked device without a queue of its own (dm, md, zram).
    Stacked,
    /// A path or leg of a stacked device.
    Component,
}

/// Properties of a device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// The name that the user gave.
    pub name: String,
    /// The model name that the device reports.
    #[serde(default)]
    pub model: String,
    /// The host that measures it.
    pub host: HostKind,
    /// How it is attached.
    #[serde(default)]
    pub attachment: Attachment,
    /// Its size.
    pub size_bytes: u64,
    /// The `rotational` flag; it may be wrong.
    pub is_rotational: bool,
    /// Whether it has zones that must be written in order.
    #[serde(default)]
    pub is_zoned: bool,
    /// Number of hardware queues.
    pub hw_queues: u32,
    /// Commands that it accepts at a time, over all queues.
    pub queue_depth: u32,
    /// Requests that its queue holds.
    #[serde(default)]
    pub nr_requests: Option<u32>,
    /// Schedulers that can be chosen; empty if the scheduler is fixed.
    pub schedulers: Vec<String>,
    /// The current scheduler with the tunables that differ from the kernel's defaults; for a model,
    /// the kernel's default.
    pub current: SchedulerSpec,
    /// Whether `current` is an actual setting rather than a guess.
    pub current_is_real: bool,
    /// Target of write-back throttling where the kernel has it; 0 means off.
    #[serde(default)]
    pub wbt_lat_us: Option<u64>,
    /// Whether weights of groups can be measured.
    pub has_groups: bool,
    /// Whether writing to it is permitted.
    pub may_write: bool,
    /// The devices below a stacked device.
    #[serde(default)]
    pub below: Vec<String>,
}

impl Device {
    /// The default of Linux: mq-deadline for one hardware queue, none for more.
    pub fn kernel_default(hw_queues: u32) -> SchedulerSpec {
        SchedulerSpec::named(if hw_queues > 1 { "none" } else { "mq-deadline" })
    }

    /// Whether the scheduler can be chosen for this device.
    pub fn offers(&self, name: &str) -> bool {
        self.schedulers.iter().any(|known| known == name)
    }
}
