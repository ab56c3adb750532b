//! Which bios may go, which are woken when one ends, and what the end of a window changes.

use super::depth::{Limits, Staircase};
use super::queues::{CLASSES, Class, Need, Phase, Tracked};
use super::window::{Health, WatchedRead};
use super::{State, Wbt};
use crate::limiter::BioId;
use hoistway_block::Nanos;
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND, since};

/// A read within this time still counts as concurrent.
const NEAR_READ_NS: Nanos = 100 * MILLISECOND;
/// For this long after a task slept because too much memory was dirty, writeback may use the
/// largest limit.
const RECENT_WAIT_NS: Nanos = SECOND;
/// After this many windows without a verdict, one step towards step 0.
const UNKNOWN_WINDOWS: u32 = 5;

impl Wbt {
    #[inline]
    pub(super) const fn is_on(&self) -> bool {
        matches!(self.state, State::OnDefault | State::OnManual)
    }

    pub(super) fn is_dirty_wait_recent(&self, now: Nanos) -> bool {
        self.dirty_wait_at.is_some_and(|at| since(now, at) < RECENT_WAIT_NS)
    }

    pub(super) fn has_room(&self, class: Class, need: Need, now: Nanos) -> bool {
        let limits = self.stairs.limits();
        let limit = match need {
            Need::Discard => limits.background,
            Need::Urgent => limits.max,
            _ if self.is_dirty_wait_recent(now) => limits.max,
            Need::Background => limits.background,
            Need::Normal if self.read_at.is_some_and(|at| since(now, at) < NEAR_READ_NS) => limits.background,
            Need::Normal => limits.normal,
        };
        self.queues.of(class).in_flight < limit
    }

    /// A bio no longer counts in its class: it ended, or was merged into a request.
    pub(super) fn forget(&mut self, id: BioId, now: Nanos) {
        let tracked = *self.bios.at(id.0);
        match tracked.phase {
            Phase::Untracked => return,
            Phase::Waiting => {
                // Counted as a violation: the bio has not been released.
                self.violations = self.violations.saturating_add(1);
                return;
            }
            Phase::InFlight => {}
        }
        self.bios.at_mut(id.0).phase = Phase::Untracked;
        let queue = self.queues.of_mut(tracked.class);
        queue.in_flight = queue.in_flight.wrapping_sub(1);
        if !queue.waiting.is_empty() {
            self.wake_after_end(tracked, now);
        }
    }

    /// Wakes a class that has fallen low enough below its limit. It wakes in batches, so that
    /// writes stay sequential; with a write cache in the device, only when the class has run dry.
    pub(super) fn wake_after_end(&mut self, ended: Tracked, now: Nanos) {
        let limits = self.stairs.limits();
        let limit = if ended.need == Need::Discard {
            limits.background
        } else if self.has_volatile_cache && !self.is_dirty_wait_recent(now) {
            0
        } else {
            limits.normal
        };
        let in_flight = self.queues.of(ended.class).in_flight;
        let room = limit.saturating_sub(in_flight);
        if in_flight == 0 || (room > 0 && room >= limits.background / 2) {
            self.wake(ended.class, now);
        }
    }

    /// Releases waiting bios of a class, in order, up to the first without room.
    pub(super) fn wake(&mut self, class: Class, now: Nanos) {
        while let Some(first) = self.queues.of(class).waiting.first() {
            if !self.has_room(class, self.bios.at(first).need, now) {
                return;
            }
            self.release_first(class);
        }
    }

    pub(super) fn wake_all(&mut self, now: Nanos) {
        self.is_wake_due = false;
        for class in CLASSES {
            self.wake(class, now);
        }
    }

    pub(super) fn release_first(&mut self, class: Class) {
        let queue = self.queues.of_mut(class);
        let Some(first) = queue.waiting.pop_front(&mut self.links) else { return };
        queue.in_flight = queue.in_flight.wrapping_add(1);
        self.bios.at_mut(first).phase = Phase::InFlight;
        self.released.push_back(&mut self.links, first);
    }

    pub(super) fn release_all(&mut self) {
        for class in CLASSES {
            while !self.queues.of(class).waiting.is_empty() {
                self.release_first(class);
            }
        }
    }

    // ---- windows ----

    /// Starts a window if none is running.
    pub(super) fn arm(&mut self, now: Nanos) {
        if !self.windows.is_running() {
            self.start_window(now);
        }
    }

    pub(super) fn start_window(&mut self, now: Nanos) {
        self.windows.start(now, self.stairs.window_ns());
    }

    pub(super) fn end_window(&mut self, now: Nanos) {
        let in_flight = self.queues.in_flight();
        let has_writes = in_flight > 0 || self.is_dirty_wait_recent(now);
        let health = self.windows.verdict(now, self.target_ns, has_writes);
        if let Health::Exceeded(ns) = health {
            self.note(now, "latency {0}us", [ns / MICROSECOND]);
        }
        let step = i64::from(self.stairs.step()).cast_unsigned();
        self.note(now, "status={0}, step={1i}, inflight={2}", [health.number(), step, in_flight.into()]);
        match health {
            Health::Exceeded(_) => self.step_down(true, now),
            Health::Good | Health::WritesOnly => self.step_up(now),
            Health::Unknown => {
                if self.windows.count_unknown() >= UNKNOWN_WINDOWS {
                    match self.stairs.step() {
                        1.. => self.step_up(now),
                        0 => {}
                        _ => self.step_down(false, now),
                    }
                }
            }
        }
        self.windows.stop();
        if self.stairs.step() != 0 || in_flight > 0 {
            self.start_window(now);
        }
    }

    pub(super) fn step_up(&mut self, now: Nanos) {
        if self.stairs.increase_depth() {
            self.windows.forget_unknown();
            self.wake_all(now);
            self.note_step("scale up: step={0i}, window={1}us, background={2}, normal={3}, max={4}", now);
        }
    }

    pub(super) fn step_down(&mut self, at_once: bool, now: Nanos) {
        if self.stairs.decrease_depth(at_once) {
            self.windows.forget_unknown();
            // A step down from a negative step can raise the depth, on devices that accept few
            // commands.
            self.wake_all(now);
            self.note_step("scale down: step={0i}, window={1}us, background={2}, normal={3}, max={4}", now);
        }
    }

    /// On, off or a new target: starts again at step 0.
    pub(super) fn switch(&mut self, state: State, now: Nanos) {
        self.state = state;
        self.stairs = Staircase::new(self.queue_depth);
        self.windows.forget_unknown();
        self.windows.stop();
        if !self.is_on() {
            *self.windows.watched() = WatchedRead::NONE;
            self.release_all();
            return;
        }
        self.wake_all(now);
        if self.queues.in_flight() > 0 {
            self.start_window(now);
        }
    }

    #[inline]
    pub(super) fn note<const N: usize>(&mut self, now: Nanos, text: &'static str, numbers: [u64; N]) {
        if self.messages.is_on() {
            self.write_note(now, text, &numbers);
        }
    }

    #[cold]
    fn write_note(&mut self, now: Nanos, text: &'static str, numbers: &[u64]) {
        let Some(message) = self.messages.begin(now, text) else { return };
        for (place, number) in message.numbers.iter_mut().zip(numbers) {
            *place = *number;
        }
    }

    pub(super) fn note_step(&mut self, text: &'static str, now: Nanos) {
        let Limits { max, normal, background } = self.stairs.limits();
        let step = i64::from(self.stairs.step()).cast_unsigned();
        let window_us = self.windows.length_ns() / MICROSECOND;
        self.note(now, text, [step, window_us, u64::from(background), u64::from(normal), u64::from(max)]);
    }
}
