//! A bound on the lines of each kind of event, so that a failing disk or a client that connects in a
//! loop fills no log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracing::Level;

/// The most lines of one kind in an interval.
pub(super) const MOST: u32 = 50;
/// The length of an interval.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// Events of one kind that were left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LeftOut {
    pub name: &'static str,
    pub target: &'static str,
    pub level: Level,
    pub count: u32,
}

/// A kind of event in its current interval.
#[derive(Debug)]
struct Kind {
    begun: Instant,
    lines: u32,
    left_out: u32,
    target: &'static str,
    level: Level,
}

/// The kinds that occurred, by name: the program has a fixed number of them.
#[derive(Debug, Default)]
pub(super) struct Limiter(BTreeMap<&'static str, Kind>);

/// What to do with an event.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    Write,
    /// It is the first that is left out in this interval.
    BeginToLeaveOut,
    LeaveOut,
}

impl Limiter {
    /// Counts an event.
    pub fn admit(&mut self, name: &'static str, target: &'static str, level: Level, now: Instant) -> Admission {
        let new = || Kind { begun: now, lines: 0, left_out: 0, target, level };
        let kind = self.0.entry(name).or_insert_with(new);
        // An interval with events left out ends when these are reported.
        if kind.left_out == 0 && now.saturating_duration_since(kind.begun) >= INTERVAL {
            *kind = new();
        }
        if kind.lines < MOST {
            kind.lines += 1;
            return Admission::Write;
        }
        kind.left_out = kind.left_out.saturating_add(1);
        if kind.left_out == 1 { Admission::BeginToLeaveOut } else { Admission::LeaveOut }
    }

    /// Ends the intervals that are over; returns what was left out in them. `at_once` ends all.
    pub fn take_left_out(&mut self, now: Instant, at_once: bool) -> Vec<LeftOut> {
        let mut taken = Vec::new();
        for (name, kind) in &mut self.0 {
            let is_over = at_once || now.saturating_duration_since(kind.begun) >= INTERVAL;
            if kind.left_out > 0 && is_over {
                taken.push(LeftOut { name, target: kind.target, level: kind.level, count: kind.left_out });
                (kind.begun, kind.lines, kind.left_out) = (now, 0, 0);
            }
        }
        taken
    }

    /// When the next interval with events left out ends.
    pub fn next_end(&self) -> Option<Instant> {
        self.0.values().filter(|kind| kind.left_out > 0).map(|kind| kind.begun + INTERVAL).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_events_some_are_written_and_the_others_counted() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        let mut admit = |name, now| limiter.admit(name, "client", Level::INFO, now);
        for _ in 0..MOST {
            assert_eq!(admit("connect", start), Admission::Write);
        }
        assert_eq!(admit("connect", start), Admission::BeginToLeaveOut);
        assert_eq!(admit("connect", start), Admission::LeaveOut);
        assert_eq!(admit("disconnect", start), Admission::Write, "another kind has its own bound");
        assert_eq!(limiter.next_end(), Some(start + INTERVAL));
        assert_eq!(limiter.take_left_out(start, false), []);
        let left_out = LeftOut { name: "connect", target: "client", level: Level::INFO, count: 2 };
        assert_eq!(limiter.take_left_out(start + INTERVAL, false), [left_out]);
        assert_eq!(limiter.next_end(), None);
        assert_eq!(limiter.admit("connect", "client", Level::INFO, start + INTERVAL), Admission::Write);
    }

    #[test]
    fn an_interval_without_excess_is_followed_by_a_new_one() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        for round in 0..5 {
            for _ in 0..MOST {
                assert_eq!(limiter.admit("connect", "client", Level::INFO, start + INTERVAL * round), Admission::Write);
            }
        }
    }
}
