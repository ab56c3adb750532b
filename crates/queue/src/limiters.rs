//! The limiters in their fixed order, and what is known of the bios and groups that they limit.

use crate::bios::Bios;
use crate::held::Held;
use hoistway_block::{GroupId, Nanos, RequestId, Status};
use hoistway_elevator::limiters::{self, AnyLimiter, LIMITERS, LimiterError};
use hoistway_elevator::structures::{Array, NoMemory};
use hoistway_elevator::tunable::{SettingError, Tunable};
use hoistway_elevator::{
    Bio, BioId, GroupState, GroupTree, IoLimits, Limiter, LimiterConfiguration, RequestEnd, Requests, Verdict,
};

/// What is stored per bio, beside the table of bios, once there are limiters.
#[derive(Copy, Clone, Debug)]
struct LimitedBio {
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

const UNSEEN: LimitedBio = LimitedBio {
    group: GroupId::ROOT,
    seen_by: 0,
    is_limited: false,
    is_held: false,
    waits_since_ns: 0,
    was_held: false,
};

/// The limiters that bios pass one by one.
///
/// Invariants: `list` is in the order of [`LIMITERS`]; a bio that is held is held by the last limiter that has seen it;
/// a group's count in `held` is that of its bios that are held. Without limiters the only cost is the check of an empty
/// list.
#[derive(Debug)]
pub(crate) struct Limiters {
    /// Mostly empty.
    list: alloc::vec::Vec<AnyLimiter>,
    /// Empty until the first limiter is added.
    bios: Array<LimitedBio>,
    /// By group.
    limits: Array<IoLimits>,
    /// By group: the bios that limiters hold.
    held: Array<Held>,
}

impl Limiters {
    pub(crate) fn try_new(groups: u32) -> Result<Self, NoMemory> {
        Ok(Self {
            list: alloc::vec::Vec::new(),
            bios: Array::try_new(0, UNSEEN)?,
            limits: Array::try_new(groups, IoLimits::NONE)?,
            held: Array::try_new(groups, Held::NONE)?,
        })
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there is or was a limiter, so that a bio may have been seen by one.
    #[inline]
    pub(crate) fn have_seen_bios(&self) -> bool {
        !self.bios.is_empty()
    }

    /// How many limiters there are; their numbers are below it.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AnyLimiter> + '_ {
        self.list.iter()
    }

    /// The limiters, to tell them something that concerns all.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut AnyLimiter> + '_ {
        self.list.iter_mut()
    }

    // ---- adding, removing, settings ----

    /// Adds a limiter at its place and announces all groups to it.
    pub(crate) fn add(
        &mut self,
        name: &str,
        configuration: &LimiterConfiguration,
        groups: &GroupTree,
        now: Nanos,
    ) -> Result<&mut AnyLimiter, LimiterError> {
        let position = position(name).ok_or(LimiterError::UnknownName)?;
        let before = self.list.iter().take_while(|limiter| place_of(limiter) < position).count();
        if self.list.get(before).is_some_and(|limiter| place_of(limiter) == position) {
            return Err(LimiterError::InPlace);
        }
        self.list.try_reserve_exact(1).map_err(|_| LimiterError::NoMemory)?;
        if self.bios.is_empty() {
            self.bios = Array::try_new(configuration.bios, UNSEEN)?;
        }
        let mut limiter = limiters::build(name, configuration)?;
        self.tell_of_groups(&mut limiter, groups, now);
        self.list.insert(before, limiter);
        Ok(&mut self.list[before])
    }

    /// Announces all groups to a limiter, parents first.
    fn tell_of_groups(&self, limiter: &mut AnyLimiter, groups: &GroupTree, now: Nanos) {
        let count = groups.capacity();
        // One pass per level of the tree, because the ids do not order parents before children.
        let depth = |group: GroupId| {
            let mut at = group;
            let mut depth = 0;
            while at != GroupId::ROOT && depth < count {
                at = groups.settings(at).parent;
                depth += 1;
            }
            depth
        };
        // The root always exists, so it is not added but changed. Its limits apply if groups form
        // no hierarchy (cgroup v1).
        limiter.group_changed(GroupId::ROOT, groups.settings(GroupId::ROOT), now);
        if *self.limits.at(GroupId::ROOT.0) != IoLimits::NONE {
            limiter.limits_changed(GroupId::ROOT, self.limits.at(GroupId::ROOT.0), now);
        }
        let known = |group: &GroupId| groups.state(*group) != GroupState::Absent && *group != GroupId::ROOT;
        let deepest = (0..count).map(GroupId).filter(known).map(depth).max().unwrap_or(0);
        for level in 1..=deepest {
            for group in (0..count).map(GroupId).filter(known).filter(|group| depth(*group) == level) {
                limiter.group_added(group, groups.settings(group), now);
                if *self.limits.at(group.0) != IoLimits::NONE {
                    limiter.limits_changed(group, self.limits.at(group.0), now);
                }
                if groups.state(group) == GroupState::Offline {
                    limiter.group_offline(group, now);
                }
            }
        }
    }

    /// Makes a limiter release the bios that it holds; returns its number. [`Limiters::remove`] follows.
    pub(crate) fn drain(&mut self, name: &str, now: Nanos) -> Option<usize> {
        let index = self.list.iter().position(|limiter| limiter.name() == name)?;
        self.list.get_mut(index)?.drain(now);
        Some(index)
    }

    /// Removes a limiter that holds no bio. One that still holds some stays, because they would be lost; the result is
    /// then false.
    pub(crate) fn remove(&mut self, index: usize) -> bool {
        if self.list.get(index).is_none_or(|limiter| limiter.held() > 0) {
            return false;
        }
        let stage = 1 << place_of(&self.list.remove(index));
        for limited in self.bios.iter_mut() {
            limited.seen_by &= !stage;
        }
        true
    }

    /// Bios that limiters hold.
    pub(crate) fn held(&self) -> u32 {
        self.list.iter().map(Limiter::held).sum()
    }

    /// The time since the group was created in which limiters held at least one bio of it.
    pub(crate) fn throttled_ns(&self, group: GroupId, now: Nanos) -> Nanos {
        self.held.get(group.0).map_or(0, |held| held.total_ns(now))
    }

    /// Every tunable of a limiter with its current value, in the unit of its table row.
    pub(crate) fn settings(&self, name: &str) -> impl Iterator<Item = (&'static Tunable, i64)> + '_ {
        let limiter = self.list.iter().position(|limiter| limiter.name() == name);
        let rows = limiter.map_or(&[][..], |index| self.list[index].tunables()).iter().enumerate();
        rows.filter_map(move |(row, tunable)| Some((tunable, self.list[limiter?].setting(row)?)))
    }

    /// Sets a tunable of a limiter, from text. Returns the value then in force, if it can be read.
    pub(crate) fn set(&mut self, name: &str, key: &str, text: &str, now: Nanos) -> Result<Option<i64>, SettingError> {
        let limiter = self.list.iter_mut().find(|limiter| limiter.name() == name).ok_or(SettingError::Unknown)?;
        let index = limiter.tunables().iter().position(|row| row.name == key).ok_or(SettingError::Unknown)?;
        let value = limiter.tunables().get(index).ok_or(SettingError::Unknown)?.parse(text)?;
        limiter.set(index, value, now)?;
        Ok(limiter.setting(index))
    }

    pub(crate) fn set_limits(&mut self, group: GroupId, limits: &IoLimits, now: Nanos) {
        *self.limits.at_mut(group.0) = *limits;
        for limiter in &mut self.list {
            limiter.limits_changed(group, limits, now);
        }
    }

    pub(crate) fn limits_of(&self, group: GroupId) -> &IoLimits {
        self.limits.at(group.0)
    }

    /// A group was added: it begins without limits.
    pub(crate) fn forget_group(&mut self, group: GroupId) {
        *self.limits.at_mut(group.0) = IoLimits::NONE;
        *self.held.at_mut(group.0) = Held::NONE;
    }

    // ---- the way of a bio ----

    /// A limiter sees the bio from here on, with the group that it has now; the caller keeps a reference to that group
    /// until [`Limiters::bio_ended`] returns it.
    pub(crate) fn begin(&mut self, bios: &Bios, index: u32) -> GroupId {
        let group = bios.at(index).bio.group;
        *self.bios.at_mut(index) = LimitedBio { group, is_limited: true, ..UNSEEN };
        group
    }

    /// Passes a bio through the limiters from `stage` on. True if one holds it.
    #[cold]
    pub(crate) fn hold(&mut self, bios: &Bios, index: u32, stage: usize, now: Nanos) -> bool {
        for stage in stage..self.list.len() {
            let bio = self.bio(bios, index);
            let mark = 1 << place_of(&self.list[stage]);
            self.bios.at_mut(index).seen_by |= mark;
            if self.list[stage].submit(BioId(index), &bio, now) == Verdict::Held {
                let limited = self.bios.at_mut(index);
                (limited.is_held, limited.was_held) = (true, true);
                self.held.at_mut(bio.group.0).begin(now);
                return true;
            }
        }
        false
    }

    /// Takes the next bio that a limiter has released.
    pub(crate) fn next_released(&mut self, stage: usize, now: Nanos) -> Option<u32> {
        let BioId(index) = self.list.get_mut(stage)?.next_released(now)?;
        self.let_go(index, now);
        Some(index)
    }

    fn let_go(&mut self, index: u32, now: Nanos) {
        let limited = self.bios.at_mut(index);
        limited.is_held = false;
        self.held.at_mut(limited.group.0).end(now);
    }

    /// Takes a bio away from the limiter that holds it, for which it then has not passed. False if none does.
    pub(crate) fn withdraw(&mut self, index: u32, now: Nanos) -> bool {
        let seen_by = self.bios.at(index).seen_by;
        let holder = self.list.iter_mut().rfind(|limiter| seen_by & (1 << place_of(limiter)) != 0);
        let Some(limiter) = holder.filter(|_| self.bios.at(index).is_held) else { return false };
        limiter.withdrawn(BioId(index), now);
        self.bios.at_mut(index).seen_by &= !(1 << place_of(limiter));
        self.let_go(index, now);
        true
    }

    /// Whether a limiter holds the bio with this record.
    pub(crate) fn holds(&self, index: u32) -> bool {
        self.bios.get(index).is_some_and(|limited| limited.is_held)
    }

    /// Number of bios that have room here: 0 as long as there was no limiter.
    pub(crate) fn bios(&self) -> u32 {
        self.bios.len()
    }

    /// Whether a limiter held the bio, so that its submitter did not wait for it.
    #[inline]
    pub(crate) fn was_held(&self, index: u32) -> bool {
        self.bios.get(index).is_some_and(|limited| limited.was_held)
    }

    /// The bio as the limiters know it, with the group of its submission.
    fn bio(&self, bios: &Bios, index: u32) -> Bio {
        Bio { group: self.bios.at(index).group, ..bios.at(index).bio }
    }

    // ---- notifications ----

    /// A bio starts to wait for a request.
    pub(crate) fn waits(&mut self, index: u32, now: Nanos) {
        if let Some(limited) = self.bios.get_mut(index) {
            limited.waits_since_ns = now;
        }
    }

    /// A bio got its request.
    #[cold]
    pub(crate) fn waited(&mut self, index: u32, now: Nanos) {
        let waited_ns = now.saturating_sub(self.bios.at(index).waits_since_ns);
        for limiter in &mut self.list {
            limiter.waited_for_request(waited_ns);
        }
    }

    /// A bio merged into a request.
    #[cold]
    pub(crate) fn merged(&mut self, bios: &Bios, index: u32, now: Nanos) {
        let (bio, seen_by) = (self.bio(bios, index), self.bios.at(index).seen_by);
        for limiter in self.list.iter_mut().filter(|limiter| seen_by & (1 << place_of(limiter)) != 0) {
            limiter.merged(BioId(index), &bio, now);
        }
    }

    /// The device started a request.
    #[cold]
    pub(crate) fn issued(&mut self, requests: &Requests, id: RequestId, now: Nanos) {
        let attributes = *requests.attributes(id);
        for limiter in &mut self.list {
            limiter.issued(&attributes, now);
        }
    }

    /// The driver returned a request.
    #[cold]
    pub(crate) fn requeued(&mut self, requests: &Requests, id: RequestId, now: Nanos) {
        let attributes = *requests.attributes(id);
        for limiter in &mut self.list {
            limiter.requeued(&attributes, now);
        }
    }

    /// A request completes, before its bios do.
    #[cold]
    pub(crate) fn request_ended(&mut self, requests: &Requests, id: RequestId, status: Status, now: Nanos) {
        let request = requests.at(id);
        let (start_ns, issued_ns) = (request.start_ns, request.issued_ns);
        let end = RequestEnd { attributes: request.attributes, start_ns, issued_ns, status };
        for limiter in &mut self.list {
            limiter.request_ended(&end, now);
        }
    }

    /// A request is taken back: it ends without having been issued.
    pub(crate) fn request_withdrawn(&mut self, requests: &Requests, id: RequestId, now: Nanos) {
        let request = requests.at(id);
        let (attributes, start_ns) = (request.attributes, request.start_ns);
        let end = RequestEnd { attributes, start_ns, issued_ns: 0, status: Status::IoError };
        for limiter in &mut self.list {
            limiter.request_ended(&end, now);
        }
    }

    /// A bio completes. Returns the group whose reference it gives back, if a limiter had seen it.
    #[cold]
    pub(crate) fn bio_ended(&mut self, bios: &Bios, index: u32, now: Nanos) -> Option<GroupId> {
        let limited = *self.bios.at(index);
        if !limited.is_limited {
            return None;
        }
        let (bio, submitted_ns) = (self.bio(bios, index), bios.at(index).submitted_ns);
        for limiter in self.list.iter_mut().filter(|limiter| limited.seen_by & (1 << place_of(limiter)) != 0) {
            limiter.bio_ended(BioId(index), &bio, submitted_ns, now);
        }
        *self.bios.at_mut(index) = UNSEEN;
        Some(limited.group)
    }

    /// When the next limiter's timer expires.
    #[cold]
    pub(crate) fn next_timer(&self) -> Option<Nanos> {
        self.list.iter().filter_map(Limiter::next_timer).min()
    }

    /// Runs the limiters whose timers have expired.
    #[cold]
    pub(crate) fn run(&mut self, now: Nanos) {
        for limiter in &mut self.list {
            if limiter.next_timer().is_some_and(|at| hoistway_block::time::is_due(now, at)) {
                limiter.timer(now);
            }
        }
    }
}

fn position(name: &str) -> Option<usize> {
    LIMITERS.iter().position(|entry| entry.name == name)
}

/// The limiter's position in the fixed order.
fn place_of(limiter: &AnyLimiter) -> usize {
    position(limiter.name()).unwrap_or(0)
}
