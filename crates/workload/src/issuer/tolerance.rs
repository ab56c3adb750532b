//! Which failed I/Os leave a thread running.

use crate::job::{Direction, Job};

/// The errors that do not end a thread, by direction. A failed sync always ends it.
#[derive(Clone, Debug)]
pub(super) struct Tolerance {
    all: [bool; 3],
    errnos: [Box<[u16]>; 3],
}

impl Tolerance {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            all: Direction::ALL.map(|direction| *job.checks.continue_on_error.of(direction)),
            errnos: Direction::ALL.map(|direction| job.goals.ignored_errnos.of(direction).clone().into()),
        }
    }

    /// Whether the thread goes on after this error; no direction means a sync.
    #[cold]
    pub(super) fn covers(&self, errno: u16, direction: Option<Direction>) -> bool {
        let Some(direction) = direction else { return false };
        self.all[direction as usize] || self.errnos[direction as usize].contains(&errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_tolerated_by_direction_and_never_of_a_sync() {
        let tolerance = Tolerance::new(&Job::default().with(|job| {
            job.checks.continue_on_error.read = true;
            job.goals.ignored_errnos.write = vec![28];
        }));
        assert!(tolerance.covers(5, Some(Direction::Read)));
        assert!(tolerance.covers(28, Some(Direction::Write)) && !tolerance.covers(5, Some(Direction::Write)));
        assert!(!tolerance.covers(28, Some(Direction::Trim)) && !tolerance.covers(28, None));
    }
}
