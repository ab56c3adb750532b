//! The limiters' stage: a bio passes the limiters one by one, in their fixed order, before it looks
//! for merge candidates.
//!
//! A held bio is in the table of bios and nowhere else. It and every bio that a limiter has seen
//! keep a reference to their group until they complete, so that a limiter never sees the id of a
//! removed group. Without limiters the only cost is the check of an empty list.

use crate::RequestQueue;
use crate::bios::Arrival;
use crate::entry::Entered;
use hoistway_block::{GroupId, Nanos, RequestId, Status};
use hoistway_elevator::limiters::{self, AnyLimiter, LIMITERS, LimiterError};
use hoistway_elevator::structures::Array;
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_elevator::{
    BioId, Depth, Elevator, GroupState, IoLimits, Limiter, LimiterConfiguration, RequestEnd, Verdict, Wake,
};

/// What is stored per bio, beside the table of bios, once there are limiters.
#[derive(Copy, Clone, Debug)]
pub(crate) struct LimitedBio {
    /// The group of the submission. Limiters always see the bio with this group, even if it is
    /// accounted to another group later.
    group: GroupId,
    /// The limiters that have seen it, one bit for each in the list.
    seen_by: u8,
    is_limited: bool,
    /// A limiter holds it: the last one that has seen it.
    is_held: bool,
    /// Since when it has waited for a request.
    waits_since_ns: Nanos,
    /// The submission was answered with [`crate::Submitted::Held`]: no submitter sleeps for the
    /// bio, whatever it waits for later.
    was_held: bool,
}

pub(crate) const UNSEEN: LimitedBio = LimitedBio {
    group: GroupId::ROOT,
    seen_by: 0,
    is_limited: false,
    is_held: false,
    waits_since_ns: 0,
    was_held: false,
};

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
        let position = position(name).ok_or(LimiterError::UnknownName)?;
        let before = self.limiters.iter().take_while(|limiter| place_of(limiter) < position).count();
        if self.limiters.get(before).is_some_and(|limiter| place_of(limiter) == position) {
            return Err(LimiterError::InPlace);
        }
        let configuration = LimiterConfiguration {
            bios: self.bios.capacity(),
            groups: self.groups.capacity(),
            depth: self.limiters_depth(),
            rotational: self.is_rotational,
            volatile_cache: self.limits.volatile_cache,
            tick_ns: self.tick_ns,
        };
        self.limiters.try_reserve_exact(1).map_err(|_| LimiterError::NoMemory)?;
        if self.limited_bios.is_empty() {
            self.limited_bios = Array::try_new(self.bios.capacity(), UNSEEN)?;
        }
        let mut limiter = limiters::build(name, &configuration)?;
        self.tell_of_groups(&mut limiter, now);
        limiter.trace(self.tracing);
        self.limiters.insert(before, limiter);
        Ok(())
    }

    /// Removes a limiter and releases the bios that it holds. False if there is none of this name.
    ///
    /// A limiter that still holds bios after releasing everything stays and counts as a violation,
    /// because its bios would be lost.
    pub fn remove_limiter(&mut self, name: &str, now: Nanos) -> bool {
        let Some(index) = self.limiters.iter().position(|limiter| limiter.name() == name) else { return false };
        let stage = 1 << place_of(&self.limiters[index]);
        self.limiters[index].drain(now);
        self.release_from(index, now);
        if self.limiters[index].held() > 0 {
            self.violations += 1;
            return false;
        }
        self.limiters.remove(index);
        for limited in self.limited_bios.iter_mut() {
            limited.seen_by &= !stage;
        }
        true
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
        self.limiters.iter().map(Limiter::held).sum()
    }

    /// The time since the group was created in which limiters held at least one bio of it.
    pub fn throttled_ns(&self, group: GroupId, now: Nanos) -> Nanos {
        self.held.get(group.0).map_or(0, |held| held.total_ns(now))
    }

    /// Every tunable of a limiter with its current value, in the unit of its table row.
    pub fn limiter_settings(&self, name: &str) -> impl Iterator<Item = (&'static Tunable, i64)> + '_ {
        let limiter = self.limiters.iter().position(|limiter| limiter.name() == name);
        let rows = limiter.map_or(&[][..], |index| self.limiters[index].tunables()).iter().enumerate();
        rows.filter_map(move |(row, tunable)| Some((tunable, self.limiters[limiter?].setting(row)?)))
    }

    /// Sets a tunable of a limiter, from text. Returns the value then in force.
    ///
    /// # Errors
    /// Unknown limiter or name, not a number, out of range.
    pub fn set_limiter(&mut self, name: &str, key: &str, text: &str, now: Nanos) -> Result<i64, SettingError> {
        let limiter = self.limiters.iter_mut().find(|limiter| limiter.name() == name).ok_or(SettingError::Unknown)?;
        let index = limiter.tunables().iter().position(|row| row.name == key).ok_or(SettingError::Unknown)?;
        let value = limiter.tunables().get(index).ok_or(SettingError::Unknown)?.parse(text)?;
        limiter.set(index, value, now)?;
        let stored = limiter.setting(index).ok_or(SettingError::Unknown);
        self.release_held(now);
        stored
    }

    /// Sets the limits of a group. They take effect while a limiter that uses them is present.
    pub fn set_limits(&mut self, group: GroupId, limits: &IoLimits, now: Nanos) {
        if self.groups.state(group) != GroupState::Online {
            return;
        }
        *self.io_limits.at_mut(group.0) = *limits;
        for limiter in &mut self.limiters {
            limiter.limits_changed(group, limits, now);
        }
        self.release_held(now);
    }

    /// The limits of a group.
    pub fn limits_of(&self, group: GroupId) -> &IoLimits {
        self.io_limits.at(group.0)
    }

    /// The depths that limiters are told.
    pub(crate) fn limiters_depth(&self) -> Depth {
        let Depth { requests, device } = self.depth;
        // A limiter such as `io.latency` halves the depth at most twice a second. From a table of
        // thousands of requests it would take seconds to reach a depth that limits anything.
        let usual = if self.era.has_large_table { self.era.usual_requests(device) } else { requests };
        Depth { requests: requests.min(usual), device }
    }

    /// Announces all groups to a limiter, parents first.
    fn tell_of_groups(&self, limiter: &mut AnyLimiter, now: Nanos) {
        let count = self.groups.capacity();
        // One pass per level of the tree, because the ids do not order parents before children.
        let depth = |group: GroupId| {
            let mut at = group;
            let mut depth = 0;
            while at != GroupId::ROOT && depth < count {
                at = self.groups.settings(at).parent;
                depth += 1;
            }
            depth
        };
        // The root always exists, so it is not added but changed. Its limits apply if groups form
        // no hierarchy (cgroup v1).
        limiter.group_changed(GroupId::ROOT, self.groups.settings(GroupId::ROOT), now);
        if *self.io_limits.at(GroupId::ROOT.0) != IoLimits::NONE {
            limiter.limits_changed(GroupId::ROOT, self.io_limits.at(GroupId::ROOT.0), now);
        }
        let known = |group: &GroupId| self.groups.state(*group) != GroupState::Absent && *group != GroupId::ROOT;
        let deepest = (0..count).map(GroupId).filter(known).map(depth).max().unwrap_or(0);
        for level in 1..=deepest {
            for group in (0..count).map(GroupId).filter(known).filter(|group| depth(*group) == level) {
                limiter.group_added(group, self.groups.settings(group), now);
                if *self.io_limits.at(group.0) != IoLimits::NONE {
                    limiter.limits_changed(group, self.io_limits.at(group.0), now);
                }
                if self.groups.state(group) == GroupState::Offline {
                    limiter.group_offline(group, now);
                }
            }
        }
    }

    // ---- submission ----

    /// A bio was submitted: true if a limiter holds it.
    pub(crate) fn is_held_at_once(&mut self, index: u32, now: Nanos) -> bool {
        if self.limiters.is_empty() {
            return false;
        }
        self.begin_limiting(index);
        self.is_held(index, 0, now)
    }

    /// Passes a bio through the limiters from `stage` on. True if one holds it.
    #[cold]
    pub(crate) fn is_held(&mut self, index: u32, stage: usize, now: Nanos) -> bool {
        for stage in stage..self.limiters.len() {
            let bio = self.limited_bio(index);
            let mark = 1 << place_of(&self.limiters[stage]);
            self.limited_bios.at_mut(index).seen_by |= mark;
            if self.limiters[stage].submit(BioId(index), &bio, now) == Verdict::Held {
                let limited = self.limited_bios.at_mut(index);
                (limited.is_held, limited.was_held) = (true, true);
                self.held.at_mut(bio.group.0).begin(now);
                return true;
            }
        }
        false
    }

    /// Whether a limiter held the bio, so that its submitter did not wait for it.
    #[inline]
    pub(crate) fn was_held(&self, index: u32) -> bool {
        self.limited_bios.get(index).is_some_and(|limited| limited.was_held)
    }

    /// The bio as the limiters know it, with the group of its submission.
    fn limited_bio(&self, index: u32) -> hoistway_elevator::Bio {
        hoistway_elevator::Bio { group: self.limited_bios.at(index).group, ..self.bios.at(index).bio }
    }

    /// A limiter sees the bio from here on: it keeps a reference to its group until it completes.
    fn begin_limiting(&mut self, index: u32) {
        let group = self.bios.at(index).bio.group;
        *self.limited_bios.at_mut(index) = LimitedBio { group, is_limited: true, ..UNSEEN };
        self.groups.add_request(group);
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
        while let Some(BioId(index)) = self.limiters.get_mut(stage).and_then(|limiter| limiter.next_released(now)) {
            let limited = self.limited_bios.at_mut(index);
            limited.is_held = false;
            let group = limited.group;
            self.held.at_mut(group.0).end(now);
            if !self.is_held(index, stage + 1, now) {
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

    /// The limiter that holds a bio, by its place in the list.
    pub(crate) fn holder_of(&self, index: u32) -> Option<usize> {
        let limited = self.limited_bios.get(index).filter(|limited| limited.is_held)?;
        self.limiters.iter().rposition(|limiter| limited.seen_by & (1 << place_of(limiter)) != 0)
    }

    /// A limiter no longer holds a bio because it is taken back; for that limiter it has not passed.
    pub(crate) fn no_longer_held(&mut self, index: u32, stage: usize, now: Nanos) {
        let mark = self.limiters.get(stage).map_or(0, |limiter| 1 << place_of(limiter));
        let limited = self.limited_bios.at_mut(index);
        limited.is_held = false;
        limited.seen_by &= !mark;
        self.held.at_mut(limited.group.0).end(now);
    }

    /// Takes a request for a bio that was held, behind the bios that already wait for one.
    fn enter_late(&mut self, index: u32, now: Nanos) {
        let group = self.bios.at(index).bio.group;
        self.bios.at_mut(index).bio.group = self.groups.nearest_online(group);
        let bio = self.bios.at(index).bio;
        if self.switching.is_some() {
            let limited = self.sleeps_apart(&bio);
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

    // ---- notifications ----

    /// A bio starts to wait for a request.
    pub(crate) fn limiters_wait(&mut self, index: u32, now: Nanos) {
        if !self.limited_bios.is_empty() {
            self.limited_bios.at_mut(index).waits_since_ns = now;
        }
    }

    /// A bio got its request.
    #[cold]
    pub(crate) fn limiters_waited(&mut self, index: u32, now: Nanos) {
        let waited_ns = now.saturating_sub(self.limited_bios.at(index).waits_since_ns);
        for limiter in &mut self.limiters {
            limiter.waited_for_request(waited_ns);
        }
    }

    /// A bio merged into a request.
    #[cold]
    pub(crate) fn limiters_merged(&mut self, index: u32, now: Nanos) {
        let (bio, seen_by) = (self.limited_bio(index), self.limited_bios.at(index).seen_by);
        for limiter in self.limiters.iter_mut().filter(|limiter| seen_by & (1 << place_of(limiter)) != 0) {
            limiter.merged(BioId(index), &bio, now);
        }
    }

    /// The device started a request.
    #[cold]
    pub(crate) fn limiters_issued(&mut self, id: RequestId, now: Nanos) {
        let attributes = *self.requests.attributes(id);
        for limiter in &mut self.limiters {
            limiter.issued(&attributes, now);
        }
    }

    /// The driver returned a request.
    #[cold]
    pub(crate) fn limiters_requeued(&mut self, id: RequestId, now: Nanos) {
        let attributes = *self.requests.attributes(id);
        for limiter in &mut self.limiters {
            limiter.requeued(&attributes, now);
        }
    }

    /// A request completes, before its bios do.
    #[cold]
    pub(crate) fn limiters_request_ended(&mut self, id: RequestId, status: Status, now: Nanos) {
        let request = self.requests.at(id);
        let (start_ns, issued_ns) = (request.start_ns, request.issued_ns);
        let end = RequestEnd { attributes: request.attributes, start_ns, issued_ns, status };
        for limiter in &mut self.limiters {
            limiter.request_ended(&end, now);
        }
    }

    /// A bio completes.
    #[cold]
    pub(crate) fn limiters_bio_ended(&mut self, index: u32, now: Nanos) {
        let limited = *self.limited_bios.at(index);
        if !limited.is_limited {
            return;
        }
        let (bio, submitted_ns) = (self.limited_bio(index), self.bios.at(index).submitted_ns);
        for limiter in self.limiters.iter_mut().filter(|limiter| limited.seen_by & (1 << place_of(limiter)) != 0) {
            limiter.bio_ended(BioId(index), &bio, submitted_ns, now);
        }
        *self.limited_bios.at_mut(index) = UNSEEN;
        if self.groups.remove_request(limited.group) {
            self.forget_group_if_unused(limited.group, now);
        }
    }

    /// When the next limiter's timer expires.
    #[cold]
    pub(crate) fn limiters_timer(&self) -> Option<Nanos> {
        self.limiters.iter().filter_map(Limiter::next_timer).min()
    }

    /// Runs the limiters whose timers have expired and continues the bios that they release.
    #[cold]
    pub(crate) fn run_limiters(&mut self, now: Nanos) {
        for limiter in &mut self.limiters {
            if limiter.next_timer().is_some_and(|at| hoistway_block::time::is_due(now, at)) {
                limiter.timer(now);
            }
        }
        self.release_held(now);
    }
}

fn position(name: &str) -> Option<usize> {
    LIMITERS.iter().position(|entry| entry.name == name)
}

/// The limiter's position in the fixed order.
fn place_of(limiter: &AnyLimiter) -> usize {
    position(limiter.name()).unwrap_or(0)
}
