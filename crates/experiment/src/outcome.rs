//! How requests end, and how errors are counted.

use std::collections::BTreeMap;

use hoistway_block::Status;

use crate::measurement::Tally;

/// How a request ended, as results distinguish it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Completed in full.
    Done,
    /// Transferred less than requested; counts as an error.
    Short,
    /// Failed with this (positive) errno.
    Errno(u16),
}

impl Outcome {
    /// The errno, EIO for short transfers; `None` for success.
    pub const fn errno(self) -> Option<u16> {
        match self {
            Outcome::Done => None,
            Outcome::Short => Some(5),
            Outcome::Errno(errno) => Some(errno),
        }
    }
}

impl From<Status> for Outcome {
    #[inline]
    fn from(status: Status) -> Self {
        match status {
            Status::Ok => Outcome::Done,
            Status::IoError => Outcome::Errno(5),
            Status::NoSpace => Outcome::Errno(28),
            Status::NotSupported => Outcome::Errno(95),
            Status::Invalid => Outcome::Errno(22),
            Status::NotPermitted => Outcome::Errno(1),
            Status::Timeout => Outcome::Errno(110),
        }
    }
}

/// Names of errors; others are shown by number.
const ERRNO_NAMES: [(usize, &str); 17] = [
    (1, "EPERM"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (16, "EBUSY"),
    (19, "ENODEV"),
    (22, "EINVAL"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (84, "EILSEQ"),
    (95, "EOPNOTSUPP"),
    (110, "ETIMEDOUT"),
    (121, "EREMOTEIO"),
];

/// The errno of a name in [`Tally::errors`]; EIO for short transfers, as fio reports them. `None`
/// for other texts.
pub fn errno_of(name: &str) -> Option<u16> {
    let number = |text: &str| text.parse().ok();
    match ERRNO_NAMES.iter().find(|(_, known)| *known == name) {
        Some((errno, _)) => u16::try_from(*errno).ok(),
        None if name == "short" => Some(5),
        None => name.strip_prefix("errno ").and_then(number),
    }
}

/// Number of slots for errnos (Linux's largest is 133). The first slot counts short transfers, the
/// last all larger errnos.
const ERRNO_SLOTS: usize = 160;

pub(crate) fn slot_of(failed: Outcome) -> usize {
    match failed {
        Outcome::Done | Outcome::Short => 0,
        Outcome::Errno(errno) => usize::from(errno).clamp(1, ERRNO_SLOTS - 1),
    }
}

pub(crate) fn error_name(slot: usize) -> String {
    match ERRNO_NAMES.iter().find(|(errno, _)| *errno == slot) {
        Some((_, name)) => (*name).to_owned(),
        None if slot == 0 => "short".to_owned(),
        None => format!("errno {slot}"),
    }
}

/// Errors by errno; allocates nothing before the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors(Vec<u64>);

impl Errors {
    /// Counts one error.
    #[cold]
    pub fn count(&mut self, failed: Outcome) {
        self.0.resize(ERRNO_SLOTS, 0);
        self.0[slot_of(failed)] += 1;
    }

    /// Adds the errors of a tally.
    pub fn add(&mut self, tally: &Tally) {
        if !tally.errors.is_empty() {
            self.0.resize(ERRNO_SLOTS, 0);
        }
        for (name, count) in &tally.errors {
            self.0[errno_of(name).map_or(0, |errno| slot_of(Outcome::Errno(errno)))] += count;
        }
    }

    /// The errors that occurred, by name.
    pub fn named(&self) -> BTreeMap<String, u64> {
        let counts = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(slot, count)| (error_name(slot), *count)).collect()
    }
}
