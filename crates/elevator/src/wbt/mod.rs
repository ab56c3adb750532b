//! wbt: writeback throttling. Buffered writes and discards get as much depth as reads can bear.
//!
//! Promise  the depth of buffered writes halves after each window in which a few writes ended and
//!          every read exceeded the latency target. While reads meet the target it grows back, and
//!          without reads it grows further. Reads and direct sync writes are never held, and
//!          nothing is held while nothing of its class is in flight.
//! Cost     O(1) per bio and per request; the end of a window wakes the bios that may go.
//! Fits     a desktop or server whose page cache is written back in bursts. It has no groups; for
//!          those use io.latency.
//! Source   Linux 6.1 block/blk-wbt.c, block/blk-rq-qos.c;
//!          docs/specifications/throttle.md, section 6.
//!
//! submit -> tracked? -> its class has room? -> pass | wait in its class
//! window ends -> fastest read too slow? -> step down (half) | step up (double) -> wake
//!
//! Read `rules.rs` first; `queues.rs` defines what is tracked, `depth.rs` the steps, `window.rs`
//! how a window is judged.

mod depth;
mod queues;
mod rules;
mod window;

pub use depth::Limits;

use crate::interface::{Depth, Violation};
use crate::limiter::{BioId, Limiter, LimiterConfiguration, LimiterPolicy, RequestEnd, Verdict};
use crate::message::{Message, Messages};
use crate::request::Bio;
use crate::structures::{Array, Links, List, NoMemory};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use depth::Staircase;
use hoistway_block::time::{MICROSECOND, MILLISECOND, since};
use hoistway_block::{Nanos, Operation};
use queues::{CLASSES, Class, Need, Phase, Queues, Tracked, class_of, need_of};
use window::Windows;

crate::tunables! {
    /// The tunables.
    pub struct Settings {
        /// Latency target for the fastest read of a window.
        wbt_lat_ns: "wbt_lat_usec", Unit::Microseconds, -1..=9_000_000_000_000_000, -1, OutOfRange::Refuse,
            "Upper bound on the latency of the fastest read of a window; 0 switches off, -1 is 2000 on flash and \
            75000 on disks.";
    }
}

/// Targets where none is given.
const FLASH_TARGET_NS: Nanos = 2 * MILLISECOND;
const DISK_TARGET_NS: Nanos = 75 * MILLISECOND;
/// Whether wbt is on, and on whose decision. The numbers are those that debugfs shows in `enabled`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// On, with the target of the device's class.
    OnDefault = 1,
    /// On, with a target set by the user.
    OnManual = 2,
    /// Off, because the elevator controls writeback itself (BFQ).
    OffDefault = 3,
    /// Off, because the user set 0. (6.1 shows 2 here, later kernels 4.)
    OffManual = 4,
}

/// The limiter's state.
#[derive(Debug)]
pub struct Wbt {
    settings: Settings,
    state: State,
    default_target_ns: Nanos,
    target_ns: Nanos,
    has_volatile_cache: bool,
    queue_depth: u32,
    stairs: Staircase,
    bios: Array<Tracked>,
    links: Links,
    queues: Queues,
    released: List,
    held: u32,
    windows: Windows,
    /// When a read last arrived or ended.
    read_at: Option<Nanos>,
    dirty_wait_at: Option<Nanos>,
    /// `depth_changed` has set new limits. Which waiting bios may pass now also depends on the
    /// time, which that call does not get, so they are examined in the next call of
    /// `next_released`.
    is_wake_due: bool,
    messages: Messages,
    violations: u32,
}

impl LimiterPolicy for Wbt {
    fn build(configuration: &LimiterConfiguration) -> Result<Self, NoMemory> {
        let default_target_ns = if configuration.rotational { DISK_TARGET_NS } else { FLASH_TARGET_NS };
        let queue_depth = queue_depth_of(configuration.depth);
        let untracked = Tracked { phase: Phase::Untracked, class: Class::Writeback, need: Need::Normal };
        let stairs = Staircase::new(queue_depth);
        Ok(Self {
            settings: Settings::DEFAULT,
            state: State::OnDefault,
            default_target_ns,
            target_ns: default_target_ns,
            has_volatile_cache: configuration.volatile_cache,
            queue_depth,
            stairs,
            bios: Array::try_new(configuration.bios, untracked)?,
            links: Links::try_new(configuration.bios)?,
            queues: Queues::EMPTY,
            released: List::EMPTY,
            held: 0,
            windows: Windows::new(stairs.window_ns()),
            read_at: None,
            dirty_wait_at: None,
            is_wake_due: false,
            messages: Messages::try_new()?,
            violations: 0,
        })
    }
}

impl Limiter for Wbt {
    fn submit(&mut self, id: BioId, bio: &Bio, now: Nanos) -> Verdict {
        if !self.is_on() {
            return Verdict::Pass;
        }
        if bio.operation == Operation::Read {
            self.read_at = Some(now);
            return Verdict::Pass;
        }
        let Some(need) = need_of(bio) else { return Verdict::Pass };
        if self.bios.get(id.0).is_none_or(|tracked| tracked.phase != Phase::Untracked) {
            self.violations = self.violations.saturating_add(1);
            return Verdict::Pass;
        }
        self.arm(now);
        let class = class_of(bio);
        let has_room = self.queues.of(class).waiting.is_empty() && self.has_room(class, need, now);
        let phase = if has_room { Phase::InFlight } else { Phase::Waiting };
        *self.bios.at_mut(id.0) = Tracked { phase, class, need };
        let queue = self.queues.of_mut(class);
        if has_room {
            queue.in_flight = queue.in_flight.wrapping_add(1);
            return Verdict::Pass;
        }
        queue.waiting.push_back(&mut self.links, id.0);
        self.held = self.held.wrapping_add(1);
        Verdict::Held
    }

    fn next_released(&mut self, now: Nanos) -> Option<BioId> {
        if self.is_wake_due {
            self.wake_all(now);
        }
        let bio = self.released.pop_front(&mut self.links)?;
        self.held = self.held.wrapping_sub(1);
        Some(BioId(bio))
    }

    fn withdrawn(&mut self, id: BioId, _now: Nanos) {
        let Tracked { phase, class, .. } = *self.bios.at(id.0);
        if phase != Phase::Waiting || !self.queues.of_mut(class).waiting.remove(&mut self.links, id.0) {
            self.violations = self.violations.saturating_add(1);
            return;
        }
        self.bios.at_mut(id.0).phase = Phase::Untracked;
        self.held = self.held.wrapping_sub(1);
        // Those behind it may have more room than it had.
        self.is_wake_due = true;
    }

    fn merged(&mut self, id: BioId, _bio: &Bio, now: Nanos) {
        self.forget(id, now);
    }

    fn issued(&mut self, attributes: &Bio, now: Nanos) {
        if attributes.operation == Operation::Read && self.is_on() {
            self.windows.watched().issued(attributes, now);
        }
    }

    fn requeued(&mut self, attributes: &Bio, _now: Nanos) {
        self.windows.watched().returned(attributes);
    }

    fn request_ended(&mut self, end: &RequestEnd, now: Nanos) {
        if !self.is_on() {
            return;
        }
        let operation = end.attributes.operation;
        if operation == Operation::Read {
            self.windows.watched().returned(&end.attributes);
            self.read_at = Some(now);
        }
        if end.issued_ns == 0 || !self.windows.is_running() {
            return;
        }
        match operation {
            Operation::Read => self.windows.counts().count_read(since(now, end.issued_ns)),
            Operation::Flush | Operation::Passthrough => {}
            _ => self.windows.counts().count_write(),
        }
    }

    fn bio_ended(&mut self, id: BioId, _bio: &Bio, _submitted_ns: Nanos, now: Nanos) {
        self.forget(id, now);
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.windows.ends()
    }

    fn timer(&mut self, now: Nanos) {
        if self.windows.ends().is_some_and(|ends| ends <= now) {
            self.end_window(now);
        }
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.queue_depth = queue_depth_of(depth);
        self.stairs = Staircase::new(self.queue_depth);
        self.is_wake_due = true;
    }

    fn drain(&mut self, _now: Nanos) {
        self.release_all();
    }

    fn held(&self) -> u32 {
        self.held
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    /// As in the kernel's file: the target in force, 0 when off.
    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)?;
        let target_us = if self.is_on() { self.target_ns / MICROSECOND } else { 0 };
        i64::try_from(target_us).ok()
    }

    fn set(&mut self, index: usize, value: i64, now: Nanos) -> Result<(), SettingError> {
        self.settings.set(index, value)?;
        let wanted = self.settings.wbt_lat_ns;
        let (state, target_ns) = match wanted {
            ..0 => (State::OnDefault, self.default_target_ns),
            0 => (State::OffManual, self.target_ns),
            wanted => (State::OnManual, wanted.unsigned_abs()),
        };
        self.target_ns = target_ns;
        self.switch(state, now);
        Ok(())
    }

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.messages.switch(on);
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self) -> Result<(), Violation> {
        let mut waiting = 0u32;
        for (index, class) in (0..).zip(CLASSES) {
            let queue = self.queues.of(class);
            let count = |phase| {
                let is_counted = |tracked: &&Tracked| tracked.phase == phase && tracked.class == class;
                u32::try_from(self.bios.iter().filter(is_counted).count()).unwrap_or(u32::MAX)
            };
            if count(Phase::InFlight) != queue.in_flight {
                return Err(Violation { what: "the bios in flight of each class are counted", at: index });
            }
            if count(Phase::Waiting) != queue.waiting.len() {
                return Err(Violation { what: "waiting bios are in the queue of their class", at: index });
            }
            if !queue.waiting.is_empty() && queue.in_flight == 0 && !self.is_wake_due {
                return Err(Violation { what: "no bio waits while none of its class is in flight", at: index });
            }
            waiting = waiting.wrapping_add(queue.waiting.len());
        }
        if waiting.wrapping_add(self.released.len()) != self.held {
            return Err(Violation { what: "the held bios are those waiting or released", at: self.held });
        }
        if waiting > 0 && !self.is_on() {
            return Err(Violation { what: "no bio waits while the limiter is off", at: waiting });
        }
        if self.is_on() && !self.windows.is_running() && self.queues.in_flight() > 0 {
            return Err(Violation { what: "a window runs while writes are in flight", at: self.queues.in_flight() });
        }
        Ok(())
    }
}

// ---- interface for hosts and tests ----

impl Wbt {
    /// A task slept because too much memory was dirty: writeback has precedence over reads for a
    /// second.
    pub fn dirty_throttled(&mut self, now: Nanos) {
        self.dirty_wait_at = Some(now);
    }

    /// An elevator with its own write control was installed: off, unless the user has set a target.
    pub fn disable_default(&mut self, now: Nanos) {
        if self.state == State::OnDefault {
            self.switch(State::OffDefault, now);
        }
    }

    /// The elevator with its own write control was removed.
    pub fn enable_default(&mut self, now: Nanos) {
        if self.state == State::OffDefault {
            self.switch(State::OnDefault, now);
        }
    }

    /// Whether wbt is on, and why.
    pub fn state(&self) -> State {
        self.state
    }

    /// The current step: 0 at first, larger means less depth.
    pub fn step(&self) -> i32 {
        self.stairs.step()
    }

    /// The limits at this step.
    pub fn limits(&self) -> Limits {
        self.stairs.limits()
    }

    /// Length of the running window, or of the last one.
    pub fn window_ns(&self) -> Nanos {
        self.windows.length_ns()
    }

    /// Tracked bios in flight beyond this stage, of all classes.
    pub fn in_flight(&self) -> u32 {
        self.queues.in_flight()
    }
}

/// The device's own depth; without one, the number of scheduler tags.
const fn queue_depth_of(depth: Depth) -> u32 {
    if depth.device == 0 { depth.requests } else { depth.device }
}
