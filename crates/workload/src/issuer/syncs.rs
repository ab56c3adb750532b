//! When a thread syncs: after a number of writes, after a pass, at its end.

use crate::job::Job;

/// The writes of a thread and the syncs that they cause. A thread that has not written never syncs.
#[derive(Clone, Debug)]
pub(super) struct Syncs {
    /// Writes between two syncs, by kind of sync; 0 = never.
    every: [u32; 2],
    after_pass: bool,
    at_end: bool,
    writes: u64,
    is_due: bool,
}

impl Syncs {
    pub(super) fn new(job: &Job) -> Self {
        let submission = &job.submission;
        Self {
            every: [submission.fsync_every, submission.fdatasync_every],
            after_pass: submission.fsync_on_close,
            at_end: (submission.end_fsync || submission.fsync_on_close) && job.shape.mix.has_writes(),
            writes: 0,
            is_due: false,
        }
    }

    /// Whether a sync may follow a write, and not only the last one.
    pub(super) fn follow_writes(&self) -> bool {
        self.after_pass || self.every != [0, 0]
    }

    /// Counts a write of a thread whose syncs do not follow writes.
    #[inline]
    pub(super) fn count(&mut self, writes: u64) {
        self.writes += writes;
    }

    /// Counts a write, and returns its number.
    pub(super) fn wrote(&mut self) -> u64 {
        let number = self.writes;
        self.writes += 1;
        let is_due = |every: &u32| *every > 0 && self.writes.is_multiple_of(u64::from(*every));
        self.is_due = self.every.iter().any(is_due);
        number
    }

    /// Writes so far.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Another pass begins.
    pub(super) fn pass_ended(&mut self) {
        self.is_due |= self.after_pass && self.writes > 0;
    }

    /// Whether a sync comes next; it counts as done.
    pub(super) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Whether a sync follows the last I/O.
    pub(super) fn is_due_at_end(&self) -> bool {
        self.at_end && self.writes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Mix;

    #[test]
    fn a_sync_follows_every_second_write_and_the_last() {
        let mut syncs = Syncs::new(&Job::default().with(|job| {
            job.shape.mix = Mix::Write;
            job.submission.fsync_every = 2;
            job.submission.end_fsync = true;
        }));
        assert!(!syncs.is_due_at_end(), "it has not written");
        let due: Vec<bool> = (0..4).map(|number| syncs.wrote() == number && syncs.take_due()).collect();
        assert_eq!(due, [false, true, false, true]);
        syncs.pass_ended();
        assert!(!syncs.take_due() && syncs.is_due_at_end());
    }
}
