//! What a disk does at this moment.

use super::arms::Arms;
use super::drive::{Disk, Work};
use crate::activity::DiskActivity;

impl Disk {
    /// What the disk does since the last event.
    pub(crate) fn activity(&self) -> DiskActivity {
        let (works_at, is_destaging) = match self.media.as_ref().map(|media| &media.work) {
            Some(Work::Read(read)) => (Some(read.first), false),
            Some(Work::Destage(extent)) => (Some(extent.first), true),
            None => (None, false),
        };
        DiskActivity { works_at, is_destaging }
    }
}

impl Arms {
    /// What each arm does since the last event.
    pub(crate) fn activity(&self) -> Vec<DiskActivity> {
        self.arms().iter().map(Disk::activity).collect()
    }
}
