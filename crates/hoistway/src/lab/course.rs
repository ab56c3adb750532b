//! The course of one page: its lanes advance together, at the pace that was asked for.
//!
//! Every lane has the same load and seed and always the same virtual time. Changes take effect
//! between two slices, at a time that is written down, so that a link repeats them exactly.

use std::collections::VecDeque;
use std::time::Duration;

use hoistway_block::Nanos;
use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_experiment::Weight;
use hoistway_simulator::Session;
use serde::Deserialize;

use super::frame::{DeviceSample, Frame, GroupFrame, LaneFrame, LaneResult, ReportedLatencies, completions, rows};
use super::solo::Solo;
use super::state::{Change, State, What};
use crate::error::Error;

/// Wall time of one frame, and the part of it in which lanes advance.
pub const FRAME: Duration = Duration::from_micros(16_667);
const WORK: Duration = Duration::from_millis(11);
/// Samples of the device in a frame.
const SAMPLES: u64 = 8;
/// Slices of virtual time when only the processor limits the pace.
const SLICE_MIN_NS: Nanos = 20_000;
const SLICE_MAX_NS: Nanos = 200 * MILLISECOND;
/// A step ends here if nothing is dispatched.
const STEP_NS: Nanos = SECOND;

/// What a page asks for.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Order {
    /// Virtual nanoseconds for each second; 0 is frozen, a negative number as fast as possible.
    Pace(f64),
    /// Go to the next dispatch of the first lane.
    Step,
    /// Change something now.
    Change(What),
}

#[derive(Copy, Clone, PartialEq, Debug)]
enum Pace {
    Frozen,
    NanosPerSecond(f64),
    Unlimited,
}

#[derive(Debug)]
struct Lane {
    session: Option<Session>,
    samples: Vec<DeviceSample>,
    reported: Vec<ReportedLatencies>,
    failed: Option<String>,
    result: Option<LaneResult>,
    last: Vec<GroupFrame>,
}

/// The lanes of a page.
#[derive(Debug)]
pub struct Course {
    /// The tenants and schedulers as they are now.
    state: State,
    solo: Solo,
    lanes: Vec<Lane>,
    planned: VecDeque<Change>,
    made: Vec<Change>,
    has_new_changes: bool,
    now_ns: Nanos,
    pace: Pace,
    /// Virtual time that is due but not run yet, in nanoseconds.
    due_ns: f64,
    slice_ns: Nanos,
    /// Wall and virtual time since the pace was last measured.
    measured: (Duration, Nanos),
    pace_now: f64,
    is_reported: bool,
}

impl Course {
    /// Starts the lanes of a checked state, frozen at time 0.
    ///
    /// # Errors
    /// What the simulator refuses.
    pub fn start(mut state: State) -> Result<Self, Error> {
        let resting: Vec<usize> = (0..state.tenants.len()).filter(|tenant| !state.tenants[*tenant].on).collect();
        let mut lanes = Vec::new();
        for experiment in state.experiments()? {
            lanes.push(Lane {
                session: Some(Session::start(&experiment, &resting)?),
                samples: Vec::new(),
                reported: vec![ReportedLatencies::default(); state.tenants.len()],
                failed: None,
                result: None,
                last: Vec::new(),
            });
        }
        let planned = std::mem::take(&mut state.changes).into();
        let mut solo = Solo::default();
        solo.measure(&state);
        Ok(Self {
            state,
            solo,
            lanes,
            planned,
            made: Vec::new(),
            has_new_changes: true,
            now_ns: 0,
            pace: Pace::Frozen,
            due_ns: 0.0,
            slice_ns: MILLISECOND,
            measured: (Duration::ZERO, 0),
            pace_now: 0.0,
            is_reported: false,
        })
    }

    /// The names of the reasons of each lane, and of its tunables with their values.
    pub fn lanes(&self) -> impl Iterator<Item = &Session> {
        self.lanes.iter().filter_map(|lane| lane.session.as_ref())
    }

    fn is_over(&self) -> bool {
        self.lanes.iter().all(|lane| lane.session.is_none())
    }

    /// Carries out an order.
    ///
    /// # Errors
    /// The change is not possible; nothing has changed then.
    pub fn carry_out(&mut self, order: Order) -> Result<(), Error> {
        match order {
            Order::Pace(pace) => {
                self.pace = match pace {
                    pace if pace < 0.0 => Pace::Unlimited,
                    pace if pace > 0.0 && pace.is_finite() => Pace::NanosPerSecond(pace.min(1e12)),
                    _ => Pace::Frozen,
                };
                self.due_ns = 0.0;
            }
            Order::Step => {
                self.pace = Pace::Frozen;
                self.step();
            }
            Order::Change(what) => {
                self.state.check_change(&what)?;
                if self.is_over() {
                    return Err(Error::usage("the run is over", "start it again"));
                }
                if self.made.len() >= 200 {
                    return Err(Error::usage(
                        "200 changes have been made",
                        "start again, or from the settings as they are",
                    ));
                }
                // From here on it is another run than that of the link.
                self.planned.clear();
                self.change(what)?;
            }
        }
        self.is_reported = false;
        Ok(())
    }

    /// Makes a change in every lane that it concerns.
    fn change(&mut self, what: What) -> Result<(), Error> {
        let mut next = self.state.clone();
        next.make(&what);
        let sessions = self.lanes.iter_mut().filter_map(|lane| lane.session.as_mut());
        match &what {
            What::Weight { tenant, weight } => {
                let weight = Weight::new(*weight)?;
                sessions.for_each(|session| session.set_weight(*tenant, weight));
            }
            What::Load { tenant, .. } => {
                let group = next.group(*tenant)?;
                for session in sessions {
                    session.set_load(*tenant, &group.jobs)?;
                }
            }
            What::On { tenant, on } => {
                for session in sessions {
                    if *on { session.resume(*tenant)? } else { session.stop(*tenant) }
                }
            }
            What::Tunable { lane, name, value } => {
                if let Some(session) = &mut self.lanes[*lane].session {
                    let refused = |error| Error::usage(format!("{name}={value}: {error}"), "");
                    session.set_tunable(name, value).map_err(refused)?;
                }
            }
        }
        self.state = next;
        if matches!(what, What::Load { .. }) {
            self.solo.measure(&self.state);
        }
        // Of several changes of the same thing at the same time, the last counts.
        let is_same = |before: &Change| before.at_ns == self.now_ns && before.what.same_subject(&what);
        if self.made.last().is_some_and(is_same) {
            self.made.pop();
        }
        self.made.push(Change { at_ns: self.now_ns, what });
        self.has_new_changes = true;
        Ok(())
    }

    /// Advances for the wall time since the last call; returns whether anything has happened.
    ///
    /// `now` tells the wall time from any beginning: it bounds the work of a call. The threads and the
    /// clock of a browser are not those of a program, so the caller has the clock.
    pub fn advance(&mut self, elapsed: Duration, now: &dyn Fn() -> Duration) -> bool {
        if self.is_over() || self.pace == Pace::Frozen {
            self.pace_now = 0.0;
            return !self.is_reported;
        }
        let started = now();
        let worked = |since: Duration| now().saturating_sub(since);
        let before_ns = self.now_ns;
        match self.pace {
            Pace::NanosPerSecond(pace) => {
                // What could not be made in time is not made up for: the pace is then what it is.
                self.due_ns = (self.due_ns + pace * elapsed.as_secs_f64()).min(pace * 0.1);
                let whole = whole_ns(self.due_ns);
                self.due_ns -= whole as f64;
                let target_ns = self.now_ns.saturating_add(whole);
                let slice_ns = (whole / SAMPLES).clamp(1, SLICE_MAX_NS);
                while self.now_ns < target_ns && !self.is_over() && worked(started) < WORK {
                    self.slice((self.now_ns + slice_ns).min(target_ns));
                }
            }
            Pace::Unlimited => {
                while !self.is_over() && worked(started) < WORK {
                    let slice_started = now();
                    self.slice(self.now_ns + self.slice_ns);
                    let took = worked(slice_started);
                    if took < WORK / 16 {
                        self.slice_ns = (self.slice_ns * 2).min(SLICE_MAX_NS);
                    } else if took > WORK / 8 {
                        self.slice_ns = (self.slice_ns / 2).max(SLICE_MIN_NS);
                    }
                }
            }
            Pace::Frozen => {}
        }
        self.measured.0 += elapsed;
        self.measured.1 += self.now_ns - before_ns;
        if self.measured.0 > Duration::from_millis(300) {
            self.pace_now = self.measured.1 as f64 / self.measured.0.as_nanos() as f64;
            self.measured = (Duration::ZERO, 0);
        }
        self.now_ns > before_ns || !self.is_reported
    }

    /// Goes to the next dispatch of the first lane that goes on.
    fn step(&mut self) {
        let limit_ns = self.planned.front().map_or(Nanos::MAX, |change| change.at_ns);
        let to_ns = (self.now_ns + STEP_NS).min(limit_ns);
        let stepped = self.lanes.iter_mut().find_map(|lane| {
            let session = lane.session.as_mut()?;
            Some(session.advance_to_dispatch(to_ns).map(|()| session.now_ns()))
        });
        match stepped {
            Some(Ok(at_ns)) => self.slice(at_ns),
            // The failure occurs again, and is shown, when the lane advances.
            Some(Err(_)) => self.slice(to_ns),
            None => {}
        }
    }

    /// Advances every lane to a time, and makes the changes that are planned up to there.
    fn slice(&mut self, to_ns: Nanos) {
        let to_ns = to_ns.min(self.state.length_ns());
        while let Some(change) = self.planned.front().filter(|change| change.at_ns <= to_ns).cloned() {
            self.planned.pop_front();
            self.advance_lanes(change.at_ns);
            if let Err(error) = self.change(change.what) {
                self.planned.clear();
                self.lanes.iter_mut().for_each(|lane| lane.failed = Some(error.to_string()));
            }
        }
        self.advance_lanes(to_ns);
        if self.now_ns >= self.state.length_ns() {
            self.lanes.iter_mut().for_each(Lane::finish);
        }
    }

    fn advance_lanes(&mut self, to_ns: Nanos) {
        for lane in &mut self.lanes {
            lane.advance(to_ns);
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// The figures of all lanes now.
    pub fn frame(&mut self) -> Frame<'_> {
        let lanes = self.lanes.iter_mut().map(|lane| lane.frame(&self.solo)).collect();
        let over = self.is_over();
        self.is_reported = true;
        let changes = std::mem::take(&mut self.has_new_changes).then_some(&self.made[..]);
        Frame { now_ns: self.now_ns, pace: self.pace_now, lanes, over, planned: self.planned.len(), changes }
    }
}

/// A time as a whole number of nanoseconds.
#[expect(clippy::cast_possible_truncation, reason = "0 to 10^11")]
fn whole_ns(ns: f64) -> Nanos {
    ns.max(0.0) as Nanos
}

impl What {
    /// Whether both change the same setting.
    fn same_subject(&self, other: &Self) -> bool {
        match (self, other) {
            (What::Weight { tenant: a, .. }, What::Weight { tenant: b, .. })
            | (What::Load { tenant: a, .. }, What::Load { tenant: b, .. }) => a == b,
            // A stop and a start do not cancel each other: the tenant begins anew.
            _ => false,
        }
    }
}

impl Lane {
    fn advance(&mut self, to_ns: Nanos) {
        let Some(session) = &mut self.session else { return };
        match session.advance(to_ns) {
            Ok(()) => {
                if self.samples.len() as u64 >= SAMPLES {
                    self.samples.remove(0);
                }
                self.samples.extend(DeviceSample::of(session));
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                self.last = self.groups();
                self.session = None;
            }
        }
    }

    /// Measures the run, which has reached its end.
    fn finish(&mut self) {
        if self.session.is_some() {
            self.last = self.groups();
        }
        let Some(session) = self.session.take() else { return };
        match session.finish() {
            Ok(measurement) => self.result = Some(LaneResult::of(&measurement)),
            Err(error) => self.failed = Some(error.to_string()),
        }
    }

    fn groups(&mut self) -> Vec<GroupFrame> {
        let Some(session) = &self.session else {
            // The figures at the end stay; their latencies are reported once.
            let news = self.last.clone();
            self.last.iter_mut().for_each(|group| group.latencies.clear());
            return news;
        };
        let groups = session.figures().groups.into_iter().enumerate();
        let group = |(index, group): (usize, hoistway_simulator::GroupFigures)| GroupFrame {
            weight: group.weight,
            rests: group.is_resting,
            due_bytes_per_s: None,
            bytes: group.bytes,
            ios: group.ios,
            outstanding: group.outstanding,
            in_device: group.in_device,
            latencies: self.reported[index].since_last(session.latencies(index)),
        };
        groups.map(group).collect()
    }

    fn frame(&mut self, solo: &Solo) -> LaneFrame {
        let mut groups = self.groups();
        let due = solo.due(&groups);
        groups.iter_mut().zip(due).for_each(|(group, due)| group.due_bytes_per_s = due);
        let session = self.session.as_mut();
        let (dispatches, served, reasons, held) = match session {
            Some(session) => {
                let figures = session.figures();
                (session.take_dispatches(), session.take_served(), figures.reasons, figures.held)
            }
            None => (Vec::new(), Vec::new(), Vec::new(), None),
        };
        LaneFrame {
            groups,
            reasons,
            held,
            dispatches: rows(&dispatches),
            served: completions(&served),
            device: std::mem::take(&mut self.samples),
            failed: self.failed.clone(),
            result: self.result.take(),
        }
    }
}

#[cfg(test)]
mod tests;
