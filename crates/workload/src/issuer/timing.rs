//! When a thread issues: its start and end, its rates and its pauses.

use hoistway_block::Nanos;
use hoistway_block::random::Stream;

use crate::arrival::{Pacer, Pauses};
use crate::job::{Direction, Job};

/// The clock of a thread. Before [`Timing::start`] it has no end.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    start_delay_ns: Nanos,
    issue_for_ns: Option<Nanos>,
    end_ns: Nanos,
    pacer: Option<Pacer>,
    rate_ignores_think: bool,
    pauses: Option<Pauses>,
}

impl Timing {
    /// The clock of a thread that waits `start_delay_ns`; `gaps` draws the gaps of its rate.
    pub(super) fn new(job: &Job, start_delay_ns: Nanos, gaps: Stream) -> Self {
        Self {
            start_delay_ns,
            issue_for_ns: job.times.runtime_ns.map(|runtime_ns| runtime_ns.saturating_add(job.times.ramp_ns)),
            end_ns: Nanos::MAX,
            pacer: Pacer::new(job, gaps),
            rate_ignores_think: job.pacing.rate_ignores_think,
            pauses: Pauses::new(job.pacing.think),
        }
    }

    /// Whether the thread issues whenever its depth permits.
    pub(super) fn is_free(&self) -> bool {
        self.pacer.is_none() && self.pauses.is_none()
    }

    /// When a thread begins that is asked for the first time at `now`.
    pub(super) fn begins_at_ns(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.start_delay_ns)
    }

    pub(super) fn start(&mut self, at_ns: Nanos) {
        self.end_ns = self.issue_for_ns.map_or(Nanos::MAX, |span_ns| at_ns.saturating_add(span_ns));
        if let Some(pacer) = &mut self.pacer {
            pacer.start(at_ns);
        }
        if let Some(pauses) = &mut self.pauses {
            pauses.over(at_ns);
        }
    }

    /// Whether the thread's time is over.
    #[inline]
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.end_ns
    }

    /// This time, or the thread's end if that is earlier.
    pub(super) fn by_end_ns(&self, at_ns: Nanos) -> Nanos {
        at_ns.min(self.end_ns)
    }

    /// The direction to issue and its time: the drawn one, unless the other direction of the mix is
    /// due earlier under its rate.
    pub(super) fn pace(&self, chosen: Direction, other: Option<Direction>, now: Nanos) -> (Direction, Nanos) {
        let Some(pacer) = &self.pacer else { return (chosen, now) };
        let due_ns = pacer.due_ns(chosen);
        match other {
            // Each direction keeps its own rate, as in fio: the mix does not delay a direction that
            // is due, and one without a rate always is.
            Some(other) if due_ns > now && pacer.due_ns(other) < due_ns => (other, pacer.due_ns(other)),
            _ => (chosen, due_ns),
        }
    }

    /// An I/O is issued. Returns whether a pause follows.
    pub(super) fn issued(&mut self, direction: Direction, length_bytes: u32, now: Nanos) -> bool {
        if let Some(pacer) = &mut self.pacer {
            pacer.issued(direction, u64::from(length_bytes), now);
        }
        self.pauses.as_mut().is_some_and(|pauses| pauses.issued(now))
    }

    /// An I/O has completed. Returns whether a pause follows.
    #[inline]
    pub(super) fn completed(&mut self) -> bool {
        self.pauses.as_mut().is_some_and(Pauses::completed)
    }

    /// Begins a pause; returns its end.
    pub(super) fn begin_pause(&mut self, now: Nanos) -> Nanos {
        let pause_ns = self.pauses.map_or(0, |pauses| pauses.time_ns());
        let until_ns = now.saturating_add(pause_ns);
        if let Some(pauses) = &mut self.pauses {
            pauses.over(until_ns);
        }
        if let Some(pacer) = self.pacer.as_mut().filter(|_| self.rate_ignores_think) {
            pacer.shift(pause_ns);
        }
        until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_that_is_due_goes_first() {
        let job = Job::default().with(|job| job.pacing.rate_ios_per_s.read = 10);
        let mut timing = Timing::new(&job, 0, Stream::new(1));
        timing.start(0);
        let pace = |timing: &Timing| timing.pace(Direction::Read, Some(Direction::Write), 1);
        assert!(!timing.issued(Direction::Read, 4096, 0), "it has no pauses");
        assert_eq!(pace(&timing), (Direction::Write, 0), "writes have no rate");
        assert_eq!(timing.pace(Direction::Read, None, 1), (Direction::Read, 100_000_000));
    }

    #[test]
    fn the_end_counts_from_the_start() {
        let mut timing = Timing::new(&Job::default().with(|job| job.times.runtime_ns = Some(100)), 7, Stream::new(1));
        assert_eq!(timing.begins_at_ns(3), 10);
        assert!(timing.is_free() && !timing.is_over(1_000));
        timing.start(10);
        assert!(!timing.is_over(109) && timing.is_over(110));
        assert_eq!(timing.by_end_ns(500), 110);
    }
}
