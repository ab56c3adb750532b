//! What is known of a device before anything is measured.

use experiment::SchedulerSpec;
use serde::{Deserialize, Serialize};

/// Who measures.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// Simulated.
    Simulator,
    /// Our own engine, on a file.
    Engine,
    /// The kernel, on the device itself.
    Native,
}

/// How the device hangs on the machine; decides whether a scheduler here has any meaning.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attachment {
    /// A disk of its own: SATA, SAS, NVMe, MMC, a simulated one.
    #[default]
    Direct,
    /// A disk of a virtual machine, or one behind a network: the host below schedules again.
    Virtual,
    /// A loop device: what is below schedules.
    Loop,
    /// Stacked and without a queue of its own (dm, md, zram).
    Stacked,
    /// A path or leg of a stack above it.
    Component,
}

/// The facts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// As the user named it.
    pub name: String,
    /// What it calls itself.
    #[serde(default)]
    pub model: String,
    /// Who measures it.
    pub host: HostKind,
    /// How it is attached.
    #[serde(default)]
    pub attachment: Attachment,
    /// Its size.
    pub size_bytes: u64,
    /// What the `rotational` flag says; it may be wrong.
    pub is_rotational: bool,
    /// Zones that must be written in order.
    #[serde(default)]
    pub is_zoned: bool,
    /// Hardware queues.
    pub hw_queues: u32,
    /// Commands it takes at a time, in all queues.
    pub queue_depth: u32,
    /// Requests its queue holds.
    #[serde(default)]
    pub nr_requests: Option<u32>,
    /// Schedulers that can be chosen; empty if none can.
    pub schedulers: Vec<String>,
    /// What is set, with what differs from the kernel's defaults; for a model what the kernel would choose.
    pub current: SchedulerSpec,
    /// Whether `current` is a setting of somebody's and not a guess.
    pub current_is_real: bool,
    /// Write-back throttling's target, where the kernel has it; 0 is off.
    #[serde(default)]
    pub wbt_lat_us: Option<u64>,
    /// Whether weights of groups can be tried.
    pub has_groups: bool,
    /// Whether something may be written to it.
    pub may_write: bool,
    /// What is below a stacked device.
    #[serde(default)]
    pub below: Vec<String>,
}

impl Device {
    /// The scheduler that Linux chooses by itself: mq-deadline for one hardware queue, none for more.
    pub fn kernel_default(hw_queues: u32) -> SchedulerSpec {
        SchedulerSpec::named(if hw_queues > 1 { "none" } else { "mq-deadline" })
    }

    /// Whether the scheduler can be chosen here.
    pub fn offers(&self, name: &str) -> bool {
        self.schedulers.iter().any(|known| known == name)
    }
}
