//! The stage of the limiters: a bio passes them one by one, in their fixed order, before it looks for company.
//!
//! A held bio is in the table of bios and nowhere else; it and every bio that a limiter has seen hold their group until
//! they end, so that the limiters' books never meet the id of a group that has gone. Without limiters nothing of this
//! runs but one look at an empty list.

use crate::RequestQueue;
use crate::bios::Arrival;
use crate::entry::Entered;
use block::{GroupId, Nanos, RequestId, Status};
use elevator::limiters::{self, AnyLimiter, LIMITERS, LimiterError};
use elevator::structures::Array;
use elevator::tunable::{SettingError, Tunable};
use elevator::{
    BioId, Depth, Elevator, GroupState, IoLimits, Limiter, LimiterConfiguration, RequestEnd, Verdict, Wake,
};

/// What is kept of a bio beside the table of bios, once there are limiters.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Watched {
    /// The group it came with: the limiters know it by that, wherever it is counted later.
    group: GroupId,
    /// Limiters that have seen it, a bit for each of the list.
    seen_by: u8,
    is_watched: bool,
    /// Since when it waits for a request.
    waits_since_ns: Nanos,
    /// It was answered with [`crate::Submitted::Held`]: nobody sleeps for it, whatever it waits for later.
    was_held: bool,
}

pub(crate) const UNSEEN: Watched =
    Watched { group: GroupId::ROOT, seen_by: 0, is_watched: false, waits_since_ns: 0, was_held: false };

impl<E: Elevator> RequestQueue<E> {
    // ---- putting in place ----

    /// Puts a limiter in place, at its own position in the order. It sees bios that come from now on.
    ///
    /// # Errors
    /// Unknown name, in place already, or memory short.
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
        if self.watched.is_empty() {
            self.watched = Array::try_new(self.bios.capacity(), UNSEEN)?;
        }
        let mut limiter = limiters::build(name, &configuration)?;
        self.tell_of_groups(&mut limiter, now);
        limiter.trace(self.tracing);
        self.limiters.insert(before, limiter);
        Ok(())
    }

    /// Takes a limiter away. What it holds goes on at once. False if there is none of this name.
    ///
    /// One that breaks its word and still holds something stays, and counts as a violation: its bios would be lost.
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
        for watched in self.watched.iter_mut() {
            watched.seen_by &= !stage;
        }
        true
    }

    /// Takes all limiters away. What they hold goes on at once, and nothing is held any more.
    pub fn remove_limiters(&mut self, now: Nanos) {
        for entry in LIMITERS {
            self.remove_limiter(entry.name, now);
        }
    }

    /// The limiters in place, in order.
    pub fn limiters(&self) -> impl Iterator<Item = &AnyLimiter> + '_ {
        self.limiters.iter()
    }

    /// Bios that limiters hold.
    pub fn held_by_limiters(&self) -> u32 {
        self.limiters.iter().map(Limiter::held).sum()
    }

    /// The time in which limiters kept at least one bio of a group waiting, since the group was made.
    pub fn throttled_ns(&self, group: GroupId, now: Nanos) -> Nanos {
        self.held.get(group.0).map_or(0, |held| held.total_ns(now))
    }

    /// Every tunable of a limiter in place with the value in force, in the row's unit.
    pub fn limiter_settings(&self, name: &str) -> impl Iterator<Item = (&'static Tunable, i64)> + '_ {
        let limiter = self.limiters.iter().position(|limiter| limiter.name() == name);
        let rows = limiter.map_or(&[][..], |index| self.limiters[index].tunables()).iter().enumerate();
        rows.filter_map(move |(row, tunable)| Some((tunable, self.limiters[limiter?].setting(row)?)))
    }

    /// Sets a tunable of a limiter in place, from text. Answers the value then in force.
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

    /// The limits of a group from now on. They have effect while the limiter that knows them is in place.
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

    /// The depths that limiters go by.
    pub(crate) fn limiters_depth(&self) -> Depth {
        let Depth { requests, device } = self.depth;
        // Halved step by step, twice a second, a table of thousands of requests would bind nobody for a long time.
        let usual = if self.era.has_large_table { self.era.usual_requests(device) } else { requests };
        Depth { requests: requests.min(usual), device }
    }

    /// All groups there are, parents first.
    fn tell_of_groups(&self, limiter: &mut AnyLimiter, now: Nanos) {
        let count = self.groups.capacity();
        // As many rounds as the tree is deep; ids say nothing about who is whose parent.
        let depth = |group: GroupId| {
            let mut at = group;
            let mut depth = 0;
            while at != GroupId::ROOT && depth < count {
                at = self.groups.settings(at).parent;
                depth += 1;
            }
            depth
        };
        // The root is there from the start; limits bind it where there is no hierarchy (v1).
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

    // ---- a bio's way ----

    /// A bio has come: true if a limiter holds it.
    pub(crate) fn is_held_at_once(&mut self, index: u32, now: Nanos) -> bool {
        if self.limiters.is_empty() {
            return false;
        }
        self.begin_limiting(index);
        self.is_held(index, 0, now)
    }

    /// A bio meets the limiters from `stage` on. True if one holds it.
    #[cold]
    pub(crate) fn is_held(&mut self, index: u32, stage: usize, now: Nanos) -> bool {
        for stage in stage..self.limiters.len() {
            let bio = self.limited_bio(index);
            let mark = 1 << place_of(&self.limiters[stage]);
            self.watched.at_mut(index).seen_by |= mark;
            if self.limiters[stage].submit(BioId(index), &bio, now) == Verdict::Held {
                self.watched.at_mut(index).was_held = true;
                self.held.at_mut(bio.group.0).begin(now);
                return true;
            }
        }
        false
    }

    /// Whether a bio's submitter went on while a limiter kept it back.
    #[inline]
    pub(crate) fn was_held(&self, index: u32) -> bool {
        self.watched.get(index).is_some_and(|watched| watched.was_held)
    }

    /// The bio as the limiters know it: of the group it came with.
    fn limited_bio(&self, index: u32) -> elevator::Bio {
        elevator::Bio { group: self.watched.at(index).group, ..self.bios.at(index).bio }
    }

    /// A bio comes under the limiters' eyes: it holds its group until it ends.
    fn begin_limiting(&mut self, index: u32) {
        let group = self.bios.at(index).bio.group;
        *self.watched.at_mut(index) = Watched { group, is_watched: true, ..UNSEEN };
        self.groups.hold(group);
    }

    /// Lets go on what limiters have released.
    pub(crate) fn release_held(&mut self, now: Nanos) {
        // One that goes on may make a later stage release others; an earlier one is looked at again by the next event.
        for stage in 0..self.limiters.len() {
            self.release_from(stage, now);
        }
    }

    /// Lets go on what one limiter has released.
    fn release_from(&mut self, stage: usize, now: Nanos) {
        let mut has_entered = false;
        while let Some(BioId(index)) = self.limiters.get_mut(stage).and_then(|limiter| limiter.next_released(now)) {
            let group = self.watched.at(index).group;
            self.held.at_mut(group.0).end(now);
            if !self.is_held(index, stage + 1, now) {
                self.enter_late(index, now);
                has_entered = true;
            }
        }
        // No task will wait for these and pull the queue's own plug: blk-throttle's worker did it itself.
        if has_entered {
            self.unplug_device(now);
        }
    }

    /// A bio that was held looks for a request, behind those who wait for one already.
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

    // ---- what limiters hear ----

    /// A bio begins to wait for a request.
    pub(crate) fn limiters_wait(&mut self, index: u32, now: Nanos) {
        if !self.watched.is_empty() {
            self.watched.at_mut(index).waits_since_ns = now;
        }
    }

    /// It has got one.
    #[cold]
    pub(crate) fn limiters_waited(&mut self, index: u32, now: Nanos) {
        let waited_ns = now.saturating_sub(self.watched.at(index).waits_since_ns);
        for limiter in &mut self.limiters {
            limiter.waited_for_request(waited_ns);
        }
    }

    /// A bio joined a request.
    #[cold]
    pub(crate) fn limiters_merged(&mut self, index: u32, now: Nanos) {
        let (bio, seen_by) = (self.limited_bio(index), self.watched.at(index).seen_by);
        for limiter in self.limiters.iter_mut().filter(|limiter| seen_by & (1 << place_of(limiter)) != 0) {
            limiter.merged(BioId(index), &bio, now);
        }
    }

    /// The device took a request.
    #[cold]
    pub(crate) fn limiters_issued(&mut self, id: RequestId, now: Nanos) {
        let attributes = *self.requests.attributes(id);
        for limiter in &mut self.limiters {
            limiter.issued(&attributes, now);
        }
    }

    /// The device gave a request back.
    #[cold]
    pub(crate) fn limiters_requeued(&mut self, id: RequestId, now: Nanos) {
        let attributes = *self.requests.attributes(id);
        for limiter in &mut self.limiters {
            limiter.requeued(&attributes, now);
        }
    }

    /// A request ends, before its bios do.
    #[cold]
    pub(crate) fn limiters_request_ended(&mut self, id: RequestId, status: Status, now: Nanos) {
        let request = self.requests.at(id);
        let (start_ns, issued_ns) = (request.start_ns, request.issued_ns);
        let end = RequestEnd { attributes: request.attributes, start_ns, issued_ns, status };
        for limiter in &mut self.limiters {
            limiter.request_ended(&end, now);
        }
    }

    /// A bio ends.
    #[cold]
    pub(crate) fn limiters_bio_ended(&mut self, index: u32, now: Nanos) {
        let watched = *self.watched.at(index);
        if !watched.is_watched {
            return;
        }
        let (bio, submitted_ns) = (self.limited_bio(index), self.bios.at(index).submitted_ns);
        for limiter in self.limiters.iter_mut().filter(|limiter| watched.seen_by & (1 << place_of(limiter)) != 0) {
            limiter.bio_ended(BioId(index), &bio, submitted_ns, now);
        }
        *self.watched.at_mut(index) = UNSEEN;
        if self.groups.let_go(watched.group) {
            self.forget_group_if_unused(watched.group, now);
        }
    }

    /// When a limiter wants to be called next.
    #[cold]
    pub(crate) fn limiters_timer(&self) -> Option<Nanos> {
        self.limiters.iter().filter_map(Limiter::next_timer).min()
    }

    /// Calls the limiters whose time has come, and lets go on what they release.
    #[cold]
    pub(crate) fn run_limiters(&mut self, now: Nanos) {
        for limiter in &mut self.limiters {
            if limiter.next_timer().is_some_and(|at| block::time::is_due(now, at)) {
                limiter.timer(now);
            }
        }
        self.release_held(now);
    }
}

fn position(name: &str) -> Option<usize> {
    LIMITERS.iter().position(|entry| entry.name == name)
}

/// Where a limiter stands in the order of all.
fn place_of(limiter: &AnyLimiter) -> usize {
    position(limiter.name()).unwrap_or(0)
}
