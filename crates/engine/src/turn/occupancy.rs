//! Measures the requests in flight on the device, their residence time and the outstanding requests
//! of each group; the [`Learner`] decides the depth.
//!
//! A backing in memory completes an I/O in the call that starts it, so it would never have a
//! request in flight and its depth would have no effect. Therefore an I/O that starts and completes
//! within one turn of the engine's loop counts as in flight until the next turn. The loop reads the
//! sockets between turns, so the depth decides how many requests are dispatched before newly
//! received ones can join the queue.

use hoistway_block::{Nanos, RequestId};
use hoistway_elevator::registry;

use super::Turn;
use super::in_flight::Io;
use super::state::Group;
use crate::depth::{DepthState, Epoch, LONGEST_EPOCH_NS, Learner, SHORTEST_EPOCH_NS, completions_of_epoch};
use crate::saturation::{Saturation, Tenant};

/// The cost of a request for the device beside its data, in bytes: on flash about as much as a
/// page.
const REQUEST_BYTES: u64 = 4_096;
/// Figures about shares are means over at least this time.
const WINDOW_NS: Nanos = hoistway_block::time::SECOND;
/// The tunable that bounds the residence time of requests in the device.
const LATENCY_BOUND: &str = "lat_us";

/// Outstanding requests and service of a group.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Usage {
    /// Requests whose reply has not been sent yet, and those of them in the device.
    requests: u32,
    in_device: u32,
    /// These numbers, integrated over time up to `since_ns`.
    outstanding_ns: u64,
    in_device_ns: u64,
    since_ns: Nanos,
    /// The most requests outstanding at a time in this window.
    most: u32,
    bytes: u64,
    /// The values at the start of the epoch (the interval over which the learner measures one
    /// depth) and of the window.
    epoch_mark_ns: u64,
    window_mark_ns: u64,
    window_mark_device_ns: u64,
    window_mark_throttled_ns: Nanos,
    window_mark_bytes: u64,
    /// Values of the last window.
    window: Window,
}

/// What a group did in a window.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Window {
    /// Mean number of unanswered requests.
    pub outstanding: f64,
    /// Mean number of them that are not in the device.
    pub waiting: f64,
    /// The most unanswered requests at a time.
    pub most_outstanding: u32,
    /// Bytes that the device did.
    pub bytes: u64,
    /// Fraction of the time during which limiters kept a request of it waiting.
    pub throttled: f64,
}

impl Usage {
    fn advance(&mut self, now: Nanos) {
        let passed_ns = now.saturating_sub(self.since_ns);
        self.outstanding_ns += u64::from(self.requests) * passed_ns;
        self.in_device_ns += u64::from(self.in_device) * passed_ns;
        self.since_ns = self.since_ns.max(now);
    }

    #[inline]
    pub fn began(&mut self, now: Nanos) {
        self.advance(now);
        self.requests += 1;
        self.most = self.most.max(self.requests);
    }

    #[inline]
    pub fn entered_device(&mut self, now: Nanos) {
        self.advance(now);
        self.in_device += 1;
    }

    #[inline]
    fn left_device(&mut self, now: Nanos, bytes: u64) {
        self.advance(now);
        self.in_device = self.in_device.saturating_sub(1);
        self.bytes += bytes;
    }

    /// What the group did in the last window.
    pub fn window(&self) -> Window {
        self.window
    }

    #[inline]
    pub fn ended(&mut self, now: Nanos) {
        self.advance(now);
        self.requests = self.requests.saturating_sub(1);
    }

    fn of_epoch(&mut self, now: Nanos) -> u64 {
        self.advance(now);
        let before = std::mem::replace(&mut self.epoch_mark_ns, self.outstanding_ns);
        self.outstanding_ns - before
    }

    fn end_window(&mut self, now: Nanos, length_ns: Nanos, throttled_ns: Nanos) {
        self.advance(now);
        let of_window = |ns: u64| ns as f64 / length_ns.max(1) as f64;
        let outstanding = of_window(self.outstanding_ns - self.window_mark_ns);
        let in_device = of_window(self.in_device_ns - self.window_mark_device_ns);
        self.window = Window {
            outstanding,
            waiting: (outstanding - in_device).max(0.0),
            most_outstanding: self.most,
            bytes: self.bytes - self.window_mark_bytes,
            throttled: of_window(throttled_ns.saturating_sub(self.window_mark_throttled_ns)),
        };
        self.most = self.requests;
        (self.window_mark_ns, self.window_mark_device_ns) = (self.outstanding_ns, self.in_device_ns);
        (self.window_mark_throttled_ns, self.window_mark_bytes) = (throttled_ns, self.bytes);
    }
}

/// The requests in the device, and the measurements of this epoch.
pub(crate) struct Occupancy {
    /// The device's depth, or the depth that the user gave.
    most: u32,
    /// False if the user gave the depth, and on a rotating disk, where the scheduler itself limits
    /// the requests in flight.
    may_learn: bool,
    /// Present while the scheduler divides by weight. Only then does it matter that requests stay
    /// queued, where the scheduler can still choose among them.
    learner: Option<Learner>,
    /// The scheduler for which the presence of `learner` was decided last.
    scheduler: &'static str,
    /// Requests in the device, including those done within this turn.
    held: u32,
    done_in_turn: u32,
    turn: u32,
    /// The time of the last completion in this turn.
    completed_ns: Option<Nanos>,
    /// Whether the last dispatch stopped at the limit although requests were queued.
    is_full: bool,
    in_flight_ns: u64,
    since_ns: Nanos,
    /// Completions to wait for before the epoch begins: those of the requests that were in flight
    /// when the limit changed.
    skip: u32,
    epoch_began_ns: Nanos,
    epoch_mark_ns: u64,
    ios: u32,
    work_bytes: u64,
    window_began_ns: Nanos,
    window_mark_ns: u64,
    mean_in_flight: f64,
}

impl Occupancy {
    pub fn new(most: u32, may_learn: bool) -> Self {
        Self {
            most,
            may_learn,
            learner: None,
            scheduler: "",
            held: 0,
            done_in_turn: 0,
            turn: 0,
            completed_ns: None,
            is_full: false,
            in_flight_ns: 0,
            since_ns: 0,
            skip: 0,
            epoch_began_ns: 0,
            epoch_mark_ns: 0,
            ios: 0,
            work_bytes: 0,
            window_began_ns: 0,
            window_mark_ns: 0,
            mean_in_flight: 0.0,
        }
    }

    /// The number of requests that may be in the device now.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.learner.as_ref().map_or(self.most, Learner::limit)
    }

    fn advance(&mut self, now: Nanos) {
        self.in_flight_ns += u64::from(self.held) * now.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(now);
    }

    /// An I/O in the device does not count any more.
    pub fn no_longer_held(&mut self) {
        self.held -= 1;
    }

    fn begin_epoch(&mut self, now: Nanos) {
        (self.epoch_began_ns, self.epoch_mark_ns) = (now, self.in_flight_ns);
        (self.ios, self.work_bytes) = (0, 0);
    }

    fn count(&mut self, bytes: u64) {
        self.ios += 1;
        self.work_bytes += bytes + REQUEST_BYTES;
    }

    fn length_ns(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.epoch_began_ns)
    }

    fn is_over(&self, now: Nanos) -> bool {
        let is_enough = self.ios >= completions_of_epoch(self.limit());
        let length_ns = self.length_ns(now);
        self.ios > 0 && (length_ns >= SHORTEST_EPOCH_NS && is_enough || length_ns >= LONGEST_EPOCH_NS)
    }
}

impl Turn {
    /// Begins a turn of the shard's loop: requests done within the last one leave the device.
    #[inline]
    pub fn begin_turn(&mut self, now: Nanos) {
        // An epoch ends between turns, so that simultaneous completions are counted together, and
        // only after a turn that had some, so that epochs last from completion to completion.
        if let Some(at) = self.occupancy.completed_ns.take() {
            if self.occupancy.skip == 0 {
                if self.occupancy.is_over(at) {
                    self.end_epoch(at);
                }
            } else if self.occupancy.ios >= self.occupancy.skip {
                self.begin_epoch(at);
            }
        }
        let occupancy = &mut self.occupancy;
        occupancy.advance(now);
        occupancy.held -= occupancy.done_in_turn;
        occupancy.done_in_turn = 0;
        occupancy.turn = occupancy.turn.wrapping_add(1);
    }

    /// Begins an epoch after the requests in flight under the last limit have completed.
    fn begin_epoch(&mut self, now: Nanos) {
        self.occupancy.skip = 0;
        self.occupancy.begin_epoch(now);
        self.groups.iter_mut().flatten().for_each(|group| _ = group.usage.of_epoch(now));
    }

    /// Whether the next turn must begin without waiting for an event: requests are queued, and the
    /// device is at its limit only because of I/Os that completed in this turn.
    #[inline]
    pub fn needs_another_turn(&self) -> bool {
        self.occupancy.is_full && self.occupancy.done_in_turn > 0
    }

    /// Whether the device may be given another request.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        let has_room = self.occupancy.held < self.occupancy.limit();
        self.occupancy.is_full = !has_room && self.queue.tags().in_use() > self.queue.in_device();
        has_room
    }

    #[inline]
    pub(super) fn enter_device(&mut self, io: RequestId, now: Nanos) -> u32 {
        let group = self.queue.requests().attributes(io).group;
        if let Some(Some(group)) = self.groups.get_mut(group.0 as usize) {
            group.usage.entered_device(now);
        }
        self.occupancy.advance(now);
        self.occupancy.held += 1;
        self.occupancy.turn
    }

    /// Takes an I/O out of the device, which it may have entered in this turn or an earlier one.
    pub(super) fn leave_device(&mut self, io: RequestId, now: Nanos) {
        let Io { turn, total_bytes, is_overdue, volume, .. } = self.in_flight.end(io);
        if is_overdue {
            self.overdue_ended(volume);
        }
        let group = self.queue.requests().attributes(io).group;
        if let Some(Some(group)) = self.groups.get_mut(group.0 as usize) {
            group.usage.left_device(now, u64::from(total_bytes));
        }
        let occupancy = &mut self.occupancy;
        occupancy.advance(now);
        match is_overdue {
            true => {}
            false if turn == occupancy.turn => occupancy.done_in_turn += 1,
            false => occupancy.held -= 1,
        }
        occupancy.count(u64::from(total_bytes));
        occupancy.completed_ns = Some(now);
    }

    fn end_epoch(&mut self, now: Nanos) {
        self.refresh_scheduler();
        let duration_ns = self.occupancy.length_ns(now);
        let (mut outstanding_ns, mut competing_groups) = (0, 0);
        for group in self.groups.iter_mut().flatten() {
            let of_group = group.usage.of_epoch(now);
            outstanding_ns += of_group;
            competing_groups += u32::from(of_group >= duration_ns / 2);
        }
        let latency_bound_ns = self.latency_bound_ns();
        let occupancy = &mut self.occupancy;
        let before = occupancy.limit();
        if let Some(learner) = &mut occupancy.learner {
            learner.step(&Epoch {
                work_bytes: occupancy.work_bytes,
                ios: u64::from(occupancy.ios),
                duration_ns,
                in_flight_ns: occupancy.in_flight_ns - occupancy.epoch_mark_ns,
                outstanding_ns,
                competing_groups,
                latency_bound_ns,
            });
        }
        if occupancy.limit() != before {
            occupancy.skip = occupancy.held.max(1);
        }
        occupancy.begin_epoch(now);
        if now.saturating_sub(occupancy.window_began_ns) >= WINDOW_NS {
            self.end_window(now);
        }
    }

    /// Checks whether the current scheduler divides by weight.
    fn refresh_scheduler(&mut self) {
        let name = self.queue.elevator().name();
        if name == self.occupancy.scheduler {
            return;
        }
        let has_shares = registry::find(name).is_some_and(|entry| entry.traits.has_shares);
        let learns = has_shares && self.occupancy.may_learn;
        self.occupancy.learner = learns.then(|| Learner::new(self.occupancy.most));
        self.occupancy.scheduler = name;
    }

    fn latency_bound_ns(&self) -> Nanos {
        if self.occupancy.learner.is_none() {
            return 0;
        }
        let bound_us = self.queue.settings().find(|(row, _)| row.name == LATENCY_BOUND).map_or(0, |(_, value)| value);
        u64::try_from(bound_us).unwrap_or(0) * 1_000
    }

    fn end_window(&mut self, now: Nanos) {
        let occupancy = &mut self.occupancy;
        occupancy.advance(now);
        let length_ns = now.saturating_sub(std::mem::replace(&mut occupancy.window_began_ns, now)).max(1);
        let before = std::mem::replace(&mut occupancy.window_mark_ns, occupancy.in_flight_ns);
        occupancy.mean_in_flight = (occupancy.in_flight_ns - before) as f64 / length_ns as f64;
        for group in self.groups.iter_mut().flatten() {
            let throttled_ns = self.queue.throttled_ns(group.id, now);
            group.usage.end_window(now, length_ns, throttled_ns);
        }
    }

    /// Whether the device is saturated, and which shares are not kept because of too few requests.
    pub fn saturation(&mut self, now: Nanos) -> Saturation {
        if now.saturating_sub(self.occupancy.window_began_ns) >= WINDOW_NS {
            self.end_window(now);
        }
        let depth_state = self.occupancy.learner.as_ref().map_or(DepthState::Fixed, Learner::depth_state);
        let tenant = |group: &Group| Tenant {
            group: group.id.0,
            parent: self.queue.groups().settings(group.id).parent.0,
            path: group.name.clone(),
            weight: group.weight,
            window: group.usage.window(),
        };
        let tenants: Vec<Tenant> = self.groups.iter().flatten().map(tenant).collect();
        let name = self.queue.elevator().name();
        let has_shares = registry::find(name).is_some_and(|entry| entry.traits.has_shares);
        Saturation::of(&tenants, depth_state, self.occupancy.mean_in_flight, self.occupancy.limit(), has_shares)
    }

    /// The number of commands that the device is given at a time, and the most.
    pub fn device_depth(&self) -> (u32, u32) {
        (self.occupancy.limit(), self.occupancy.most)
    }
}
