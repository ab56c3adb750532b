//! What the parts of a device do at one moment, for pictures of it.

use hoistway_block::{Nanos, Sector};

use crate::any::AnyDevice;

/// What the parts of a device do at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Activity {
    /// The model has no parts (a fixed latency).
    Whole,
    /// The disks, or the arms of one disk, in their order.
    Disks(Vec<DiskActivity>),
    /// The parts of a flash drive.
    Flash {
        /// Whether each channel transfers.
        channels: Vec<bool>,
        /// What each die does.
        dies: Vec<DieActivity>,
    },
}

/// What one disk, or one arm, does.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DiskActivity {
    /// The first sector of the work on the media, relative to this disk or arm; `None` while the
    /// media is unused, or used only for reading ahead.
    pub works_at: Option<Sector>,
    /// Whether that work writes from the cache to the media.
    pub is_destaging: bool,
}

/// What one die does.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DieActivity {
    /// Nothing.
    Idle,
    /// It senses a page, or holds one.
    Reads,
    /// It programs or erases.
    Programs,
}

impl AnyDevice {
    /// What its parts do at `now`, which is not before the last call of the device.
    pub fn activity(&self, now: Nanos) -> Activity {
        match self {
            AnyDevice::Null(_) => Activity::Whole,
            AnyDevice::Disk(disk) => Activity::Disks(vec![disk.activity()]),
            AnyDevice::Arms(arms) => Activity::Disks(arms.activity()),
            AnyDevice::Array(array) => Activity::Disks(array.activity()),
            AnyDevice::Flash(flash) => flash.activity(now),
            AnyDevice::Delay(delay) => delay.inner().activity(now),
            AnyDevice::Limit(limit) => limit.inner().activity(now),
            AnyDevice::Faulty(faulty) => faulty.inner().activity(now),
        }
    }
}
