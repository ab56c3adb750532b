//! What a storm counts for its report.

use hoistway_block::random::fnv1a64_continued;
use hoistway_block::{Nanos, Status};
use hoistway_queue::Done;

/// The counts of [`StormReport`](super::StormReport) that nothing else keeps.
pub(super) struct Tally {
    pub(super) requeued: u64,
    pub(super) switches: u64,
    pub(super) groups: u64,
    pub(super) failed: u64,
    pub(super) lost: u64,
    pub(super) checksum: u64,
}

impl Tally {
    pub(super) fn new(checksum: u64) -> Self {
        Self { requeued: 0, switches: 0, groups: 0, failed: 0, lost: 0, checksum }
    }

    /// The device completed a request; one that was lost in a reset has timed out.
    pub(super) fn completed(&mut self, status: Status) {
        match status {
            Status::Ok => {}
            Status::Timeout => self.lost += 1,
            _ => self.failed += 1,
        }
    }

    /// A bio completed.
    pub(super) fn done(&mut self, done: &Done, now: Nanos) {
        for bytes in [now, done.cookie, done.status as u64] {
            self.checksum = fnv1a64_continued(self.checksum, &bytes.to_le_bytes());
        }
    }
}
