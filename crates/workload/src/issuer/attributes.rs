//! Flags and priorities of a thread's I/Os.

use hoistway_block::random::Stream;
use hoistway_block::{Flags, Priority};

use crate::job::{Direction, Job, PrioritySplit, SyncKind};

/// What all I/Os of a thread carry besides their place. An I/O has the job's priority, unless a
/// share of its direction or of its size has another one.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    flags: [Flags; 3],
    priority: Priority,
    other_priority: Priority,
    other_percent: [u8; 3],
    splits: [Box<[PrioritySplit]>; 3],
}

impl Attributes {
    pub(super) fn new(job: &Job) -> Self {
        let share = job.priorities.priority_share;
        Self {
            flags: data_flags(job),
            priority: job.priority(),
            other_priority: Priority(share.priority_bits),
            other_percent: [share.read_percent, share.write_percent, 0],
            splits: Direction::ALL.map(|direction| job.priorities.priority_splits.of(direction).clone().into()),
        }
    }

    /// Whether all I/Os of a direction have the job's priority.
    pub(super) fn has_one_priority(&self, direction: Direction) -> bool {
        self.other_percent[direction as usize] == 0 && self.splits[direction as usize].is_empty()
    }

    /// The flags of a transfer.
    #[inline]
    pub(super) fn flags(&self, direction: Direction) -> Flags {
        self.flags[direction as usize]
    }

    /// The job's priority.
    #[inline]
    pub(super) fn priority(&self) -> Priority {
        self.priority
    }

    /// The priority of a transfer of this size.
    pub(super) fn priority_of(&self, direction: Direction, length_bytes: u32, choices: &mut Stream) -> Priority {
        let percent = self.other_percent[direction as usize];
        if percent > 0 && choices.chance(u64::from(percent), 100) {
            return self.other_priority;
        }
        match self.splits[direction as usize].iter().find(|split| split.bytes == length_bytes) {
            Some(split) if choices.chance(u64::from(split.percent), 100) => Priority(split.priority_bits),
            _ => self.priority,
        }
    }
}

fn data_flags(job: &Job) -> [Flags; 3] {
    let durable = job.submission.sync != SyncKind::None;
    let waits = match (job.submission.direct, durable) {
        // Linux marks direct writes with REQ_IDLE, because more of them are expected to follow.
        (true, _) => Flags::SYNC.with(Flags::IDLE),
        (false, true) => Flags::SYNC,
        (false, false) => Flags::NONE,
    };
    let write = if durable { waits.with(Flags::FUA) } else { waits };
    [Flags::NONE, write, Flags::NONE]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_applies_to_its_size_and_direction_only() {
        let split = PrioritySplit { bytes: 4096, percent: 100, priority_bits: 0x4007 };
        let job = Job::default().with(|job| job.priorities.priority_splits.write = vec![split]);
        let (attributes, mut choices) = (Attributes::new(&job), Stream::new(1));
        assert!(attributes.has_one_priority(Direction::Read) && !attributes.has_one_priority(Direction::Write));
        let mut of = |direction, bytes| attributes.priority_of(direction, bytes, &mut choices).0;
        assert_eq!(of(Direction::Write, 4096), 0x4007);
        assert_eq!((of(Direction::Write, 8192), of(Direction::Read, 4096)), (0, 0));
    }
}
