//! The limiters' stage: a bio passes the limiters one by one, in their fixed order, before it looks
//! for merge candidates.
//!
//! A held bio is in the table of bios and nowhere else. It and every bio that a limiter has seen
//! keep a reference to their group until they complete, so that a limiter never sees the id of a
//! removed group.

use crate::RequestQueue;
use crate::bios::Arrival;
use crate::entry::Entered;
use hoistway_block::{GroupId, Nanos};
use hoistway_elevator::limiters::{AnyLimiter, LIMITERS, LimiterError};
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_elevator::{Depth, Elevator, GroupState, IoLimits, Limiter, LimiterConfiguration, Wake};

impl<E: Elevator> RequestQueue<E> {
    // ---- adding and removing ----

    /// Adds a limiter at its fixed position in the order. It sees the bios submitted from now on.
    ///
    /// ```
    /// use hoistway_block::{Extent, GroupId, Operation};
    /// use hoistway_elevator::{Attributes, Configuration, GroupSettings, IoLimits, Rates};
    /// use hoistway_queue::{RequestQueue, Settings, Submitted};
    ///
    /// let configuration = Configuration { groups: 2, ..Configuration::default() };
    /// let settings = Settings { configuration, ..Settings::default() };
    /// let mut queue = RequestQueue::build("noop", None, &settings).unwrap();
    /// let group = GroupId(1);
    /// assert!(queue.add_group(group, &GroupSettings::with_weight(100), 0));
    ///
    /// queue.add_limiter("throttle", 0).unwrap();
    /// queue.set_limiter("throttle", "throttle_sample_time", "100", 0).unwrap();
    /// let max = Rates { ios_per_s: [10; 2], ..Rates::UNLIMITED };
    /// queue.set_limits(group, &IoLimits { max, ..IoLimits::NONE }, 0);
    /// let read = |sector| Attributes { group, ..Attributes::new(Operation::Read, Extent::new(sector, 8)) };
    /// assert!(matches!(queue.submit(&read(0), 1, 0), Ok(Submitted::Queued(_))));
    /// assert_eq!(queue.submit(&read(64), 2, 0), Ok(Submitted::Held));
    ///
    /// // The next read is allowed 100 ms later.
    /// let at_ns = queue.next_timer().unwrap();
    /// queue.timer(at_ns);
    /// assert_eq!((at_ns, queue.held_by_limiters()), (100_000_000, 0));
    /// ```
    ///
    /// # Errors
    /// Unknown name, already added, or out of memory.
    pub fn add_limiter(&mut self, name: &str, now: Nanos) -> Result<(), LimiterError> {
        let configuration = LimiterConfiguration {
            bios: self.bios.capacity(),
            groups: self.groups.capacity(),
            depth: self.limiters_depth(),
            rotational: self.settings.configuration.rotational,
            volatile_cache: self.settings.limits.volatile_cache,
            tick_ns: self.settings.configuration.tick_ns,
        };
        let limiter = self.limiters.add(name, &configuration, &self.groups, now)?;
        limiter.trace(self.trace.is_on());
        Ok(())
    }

    /// Removes a limiter and releases the bios that it holds. False if there is none of this name.
    ///
    /// A limiter that still holds bios after releasing everything stays and counts as a violation,
    /// because its bios would be lost.
    pub fn remove_limiter(&mut self, name: &str, now: Nanos) -> bool {
        let Some(index) = self.limiters.drain(name, now) else { return false };
        self.release_from(index, now);
        let is_removed = self.limiters.remove(index);
        self.violations += u32::from(!is_removed);
        is_removed
    }

    /// Removes all limiters and releases the bios that they hold.
    pub fn remove_limiters(&mut self, now: Nanos) {
        for entry in LIMITERS {
            self.remove_limiter(entry.name, now);
        }
    }

    /// The limiters, in order.
    pub fn limiters(&self) -> impl Iterator<Item = &AnyLimiter> + '_ {
        self.limiters.iter()
    }

    /// Bios that limiters hold.
    pub fn held_by_limiters(&self) -> u32 {
        self.limiters.held()
    }

    /// The time since the group was created in which limiters held at least one bio of it.
    pub fn throttled_ns(&self, group: GroupId, now: Nanos) -> Nanos {
        self.limiters.throttled_ns(group, now)
    }

    /// Every tunable of a limiter with its current value, in the unit of its table row.
    pub fn limiter_settings(&self, name: &str) -> impl Iterator<Item = (&'static Tunable, i64)> + '_ {
        self.limiters.settings(name)
    }

    /// Sets a tunable of a limiter, from text. Returns the value then in force.
    ///
    /// # Errors
    /// Unknown limiter or name, not a number, out of range.
    pub fn set_limiter(&mut self, name: &str, key: &str, text: &str, now: Nanos) -> Result<i64, SettingError> {
        let stored = self.limiters.set(name, key, text, now)?;
        self.release_held(now);
        stored.ok_or(SettingError::Unknown)
    }

    /// Sets the limits of a group. They take effect while a limiter that uses them is present.
    pub fn set_limits(&mut self, group: GroupId, limits: &IoLimits, now: Nanos) {
        if self.groups.state(group) != GroupState::Online {
            return;
        }
        self.limiters.set_limits(group, limits, now);
        self.release_held(now);
    }

    /// The limits of a group.
    pub fn limits_of(&self, group: GroupId) -> &IoLimits {
        self.limiters.limits_of(group)
    }

    /// The depths that limiters are told.
    pub(crate) fn limiters_depth(&self) -> Depth {
        let Depth { requests, device } = self.depth();
        // A limiter such as `io.latency` halves the depth at most twice a second. From a table of
        // thousands of requests it would take seconds to reach a depth that limits anything.
        let usual = if self.settings.era.has_large_table { self.settings.era.usual_requests(device) } else { requests };
        Depth { requests: requests.min(usual), device }
    }

    // ---- submission ----

    /// A bio was submitted: true if a limiter holds it.
    pub(crate) fn is_held_at_once(&mut self, index: u32, now: Nanos) -> bool {
        if self.limiters.is_empty() {
            return false;
        }
        let group = self.limiters.begin(&self.bios, index);
        self.groups.add_request(group);
        self.limiters.hold(&self.bios, index, 0, now)
    }

    /// Continues the bios that limiters have released.
    pub(crate) fn release_held(&mut self, now: Nanos) {
        // A released bio may make a later stage release others; an earlier stage is run again at
        // the next event.
        for stage in 0..self.limiters.len() {
            self.release_from(stage, now);
        }
    }

    /// Continues the bios that one limiter has released.
    fn release_from(&mut self, stage: usize, now: Nanos) {
        let mut has_entered = false;
        while let Some(index) = self.limiters.next_released(stage, now) {
            if !self.limiters.hold(&self.bios, index, stage + 1, now) {
                self.enter_late(index, now);
                has_entered = true;
            }
        }
        // No task waits for these bios, so none would unplug the queue. In Linux the worker thread
        // of blk-throttle unplugs it.
        if has_entered {
            self.unplug_device(now);
        }
    }

    /// Takes a request for a bio that was held, behind the bios that already wait for one.
    fn enter_late(&mut self, index: u32, now: Nanos) {
        let group = self.bios.at(index).bio.group;
        self.bios.at_mut(index).bio.group = self.groups.nearest_online(group);
        let bio = self.bios.at(index).bio;
        if self.switch.is_underway() {
            let limited = self.pool.sleeps_apart(&bio);
            self.wait(index, limited, now);
            return;
        }
        match self.enter(Arrival::Recorded(index), &bio, None, true, now) {
            Entered::Merged(_) => self.merging_freed_a_request(now),
            Entered::Queued(_) => {}
            Entered::NoTag { limited } => return self.wait(index, limited, now),
        }
        self.note(Wake::All);
    }

    /// A bio ends that a limiter may have seen: its reference to the group goes.
    #[cold]
    pub(crate) fn limited_bio_ended(&mut self, index: u32, now: Nanos) {
        if let Some(group) = self.limiters.bio_ended(&self.bios, index, now)
            && self.groups.remove_request(group)
        {
            self.forget_group_if_unused(group, now);
        }
    }

    /// Runs the limiters whose timers have expired and continues the bios that they release.
    #[cold]
    pub(crate) fn run_limiters(&mut self, now: Nanos) {
        self.limiters.run(now);
        self.release_held(now);
    }
}
