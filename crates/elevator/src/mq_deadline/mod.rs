//! mq-deadline: deadline's ascending batches inside three strict priority classes, with ageing
//! between them.
//!
//! Promise  inside a class, a request older than its `*_expire` goes first when the next batch is
//!          chosen; a lower class waits while a higher one is queued or in flight, but no longer
//!          than about `prio_aging_expire`.
//! Cost     insert O(log n), choose O(1) except after a jump to another sector, 50 bytes a slot and
//!          8 KB.
//! Fits     SATA, eMMC, one logical unit of an array. One lock for all hardware queues: not for
//!          fast NVMe. No groups.
//! Source   Linux 6.1 and 6.12 block/mq-deadline.c; the order was compared with a running 6.18.
//!
//! insert -> sorted[class, direction] + fifo[class, direction] -> choose -> take -> host
//!
//! Read [`choose`] first: it is the whole rule inside a class. The rest is bookkeeping.
//!
//! Inlining is forced or forbidden only where the kernel's stack or instructions need it (lib.rs).

mod check;
mod counting;
mod profile;
mod rule;
mod state;

use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side,
    Violation, Wake,
};
use crate::request::{Attributes, Bio, Requests};
use crate::structures::{Array, Links, List, NIL, NoMemory, OrderedLinks, Removed};
use crate::traits::{Limits, Passing, Traits};
use crate::tunable::{SettingError, Tunable};
use hoistway_block::time::{is_due, round_up_to_tick};
use hoistway_block::{Class, Direction, HardwareQueue, Nanos, Operation, RequestId};
use profile::{DispatchLists, FORMS, Profile, Remembers};
use rule::{Batch, Choice, Lane, ROWS, Settings, Why, choose};
use state::{Held, Level, Queue, Slot};

/// The policy's state.
#[derive(Debug)]
pub struct MqDeadline {
    profile: Profile,
    settings: Settings,
    slots: Array<Slot>,
    sorted: OrderedLinks,
    /// A slot is on a fifo or on a dispatch list, so one set of links serves both.
    links: Links,
    real_time: Level,
    best_effort: Level,
    idle: Level,
    shared_dispatch_list: List,
    batch: Batch,
    /// Number of requests held, on any list.
    held: u32,
    /// When a request that is too young to be dispatched will be old enough.
    retry_at: Option<Nanos>,
    /// Whether a setting was ever changed: only then can a queued request seem younger than one
    /// that arrives now.
    is_retuned: bool,
    tick_ns: Nanos,
    /// The latest time that was rounded to ticks, and the result. Requests come in batches, so the
    /// same time is often needed again.
    rounded_ns: (Nanos, Nanos),
    violations: u32,
}

const CLASSES: [Class; 3] = [Class::RealTime, Class::BestEffort, Class::Idle];

impl Policy for MqDeadline {
    type Profile = Profile;

    const FORMS: &'static [Form<Profile>] = FORMS;

    fn build(configuration: &Configuration, profile: Profile) -> Result<Self, NoMemory> {
        let slots = configuration.slots;
        let mut policy = Self {
            profile,
            settings: Settings::DEFAULT,
            slots: Array::try_new(slots, Slot::FREE)?,
            sorted: OrderedLinks::try_new(slots, 6)?,
            links: Links::try_new(slots)?,
            real_time: Level::EMPTY,
            best_effort: Level::EMPTY,
            idle: Level::EMPTY,
            shared_dispatch_list: List::EMPTY,
            batch: Batch::FRESH,
            held: 0,
            retry_at: None,
            is_retuned: false,
            tick_ns: configuration.tick_ns,
            rounded_ns: (0, 0),
            violations: 0,
        };
        policy.round_settings();
        policy.depth_changed(configuration.depth);
        Ok(policy)
    }
}

impl Elevator for MqDeadline {
    const TRAITS: Traits = Traits {
        limits: Limits::Writes,
        ticks_suffice: true,
        passing: Passing::Batches { has_classes: true },
        ..Traits::PLAIN
    };

    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        // Reads are always sync. Sync writes are limited as well, because the limit is meant for
        // floods of writes.
        match bio.operation {
            Operation::Read => Admission::Full,
            _ => Admission::Shallow(u32::try_from(self.settings.async_depth).unwrap_or(u32::MAX)),
        }
    }

    fn merge_search(&self) -> MergeSearch {
        if self.settings.front_merges == 0 { MergeSearch::Pipeline } else { MergeSearch::PipelineThenFront }
    }

    fn merge(&mut self, _requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let queue = self.level(bio.class()).queue(bio.direction());
        match queue.sorted.find_exact(&self.sorted, bio.extent.end()) {
            Some(slot) if self.settings.front_merges != 0 => Merge::Into(self.id_in(slot), Side::Front),
            _ => Merge::No(Hint::None),
        }
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, side: Side, _now: Nanos) {
        let slot = *self.slots.at(id.slot());
        if slot.held() != Held::Sorted {
            self.count_violation();
        } else if side == Side::Front {
            self.re_sort(id.slot(), slot, requests.at(id).first_sector());
        }
    }

    fn requests_merged(&mut self, _requests: &Requests, keep: RequestId, gone: RequestId, _now: Nanos) {
        if self.slots.at(gone.slot()).held() == Held::Free {
            // `gone` was merged before it was inserted, so the policy does not hold it.
            return;
        }
        let (kept, absorbed) = (*self.slots.at(keep.slot()), *self.slots.at(gone.slot()));
        if kept.queue() == absorbed.queue()
            && kept.held() == Held::Sorted
            && absorbed.held() == Held::Sorted
            && !is_due(absorbed.due_ns, kept.due_ns)
        {
            self.inherit_place(keep.slot(), gone.slot(), kept, absorbed.due_ns);
        }
        let level = self.level_mut(absorbed.class());
        level.merged = level.merged.wrapping_add(1);
        self.unlink(gone.slot());
    }

    fn former(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.id_in(self.sorted.prev(id.slot())?))
    }

    fn latter(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.id_in(self.sorted.next(id.slot())?))
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let attributes = requests.attributes(id);
        match at {
            Position::Sorted(_) => self.insert_new(requests, id, attributes, now),
            Position::Head | Position::Requeue => self.insert_elsewhere(attributes, id, at, now),
        }
    }

    #[inline(always)]
    fn insert_new(&mut self, _requests: &Requests, id: RequestId, attributes: &Attributes, now: Nanos) -> Wake {
        let (class, direction) = (attributes.class(), attributes.direction());
        if self.rounded_ns.0 != now {
            self.rounded_ns = (now, self.whole_ticks(now));
        }
        let due_ns = self.rounded_ns.1.wrapping_add(self.expire_ns(direction));
        match self.slots.get_mut(id.slot()) {
            Some(slot) if slot.held() == Held::Free => *slot = Slot::new(due_ns, id, (class, direction), Held::Sorted),
            _ => return self.insert_elsewhere(attributes, id, Position::Sorted(Hint::None), now),
        }
        let level = self.level_mut(class);
        level.inserted = level.inserted.wrapping_add(1);
        self.held = self.held.wrapping_add(1);
        self.insert_by_sector(id.slot(), class, direction, attributes.extent.first_sector);
        Wake::All
    }

    #[inline(always)]
    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        self.retry_at = None;
        if self.held == 0 {
            return Dispatch::Empty;
        }
        if let Some(id) = self.continue_batch() {
            return Dispatch::Request { id, reason: Why::BatchGoesOn.into() };
        }
        match self.choose_among_classes(requests, self.whole_ticks(now)) {
            Some((slot, why)) => Dispatch::Request { id: self.id_in(slot), reason: why.into() },
            None => Dispatch::Throttled,
        }
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        let now = self.whole_ticks(now);
        if let Some(slot) = self.take_shared_head(requests) {
            return Some(self.id_in(slot));
        }
        for class in CLASSES {
            if let Pick::Taken(slot, _) = self.choose_in_class(requests, class, now, AnyAge::Yes) {
                return Some(self.id_in(slot));
            }
        }
        None
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.held != 0
    }

    #[inline]
    fn released(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        let class = match self.slots.get_mut(id.slot()) {
            Some(slot) if slot.is_sent(id) => {
                slot.set_held(Held::Free);
                slot.class()
            }
            _ => match self.take_back(id) {
                Some(class) => class,
                None => return Wake::No,
            },
        };
        let level = self.level_mut(class);
        level.completed = level.completed.wrapping_add(1);
        // The last request of its class had held back the lower classes.
        if level.unfinished() == 0 && self.held != 0 { Wake::All } else { Wake::No }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.retry_at
    }

    fn timer(&mut self, _requests: &Requests, _now: Nanos) -> Wake {
        self.retry_at = None;
        if self.held == 0 { Wake::No } else { Wake::All }
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.settings.async_depth = self.profile.async_depth.of(depth.requests);
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)?;
        self.is_retuned = true;
        self.round_settings();
        Ok(())
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_all(requests)
    }
}

/// How old a request must be to be dispatched when its class is chosen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum AnyAge {
    Yes,
    /// Only requests that started at least this long ago.
    AtLeast(Nanos),
}

/// The result of choosing inside a class.
enum Pick {
    /// This slot; it has left the lists.
    Taken(u32, Why),
    /// The request whose turn it is must become older first.
    TooYoung {
        /// When it will be old enough.
        until: Nanos,
    },
    Nothing,
}

impl MqDeadline {
    // ---- choosing ----

    /// Fast path, taken by nearly every request: the next request of a batch that simply continues.
    /// The result is the same as that of [`choose_among_classes`](Self::choose_among_classes),
    /// which evaluates [`choose`] in full.
    #[inline(always)]
    fn continue_batch(&mut self) -> Option<RequestId> {
        let Batch { direction, served, .. } = self.batch;
        let is_alone = self.real_time.unfinished() | self.idle.unfinished() == 0;
        let level = &mut self.best_effort;
        let is_plain = is_alone & self.shared_dispatch_list.is_empty() & level.dispatch_list.is_empty();
        if !is_plain | self.is_retuned | (i64::from(served) >= self.settings.fifo_batch) {
            return None;
        }
        let queue = level.queue_mut(direction);
        let slot = queue.next;
        let entry = self.slots.get_mut(slot)?;
        let Removed { key, next, next_key } = queue.sorted.remove(&mut self.sorted, slot)?;
        (queue.position_sectors, queue.next, queue.next_sector) = (key, next.unwrap_or(NIL), next_key);
        let id = entry.id(slot);
        let done = queue.fifo.remove(&mut self.links, slot);
        level.dispatched = level.dispatched.wrapping_add(1);
        self.batch.served = served.saturating_add(1);
        if done {
            entry.set_held(Held::Sent);
            self.held = self.held.wrapping_sub(1);
        } else {
            self.count_violation();
        }
        Some(id)
    }

    #[inline(never)]
    fn choose_among_classes(&mut self, requests: &Requests, now: Nanos) -> Option<(u32, Why)> {
        if let Some(slot) = self.take_shared_head(requests) {
            return Some((slot, Why::DispatchListHead));
        }
        let is_alone = self.real_time.unfinished() | self.idle.unfinished() == 0;
        let class = if is_alone { Class::BestEffort } else { self.first_busy_class()? };
        if !is_alone
            && self.is_another_busy(class)
            && let Some(slot) = self.choose_aged(requests, now)
        {
            return Some((slot, Why::Aged));
        }
        match self.choose_in_class(requests, class, now, AnyAge::AtLeast(0)) {
            Pick::Taken(slot, why) => return Some((slot, why)),
            Pick::TooYoung { until } => self.retry_not_after(until),
            Pick::Nothing => {}
        }
        None
    }

    /// The first class with a request queued or in flight decides; lower classes wait.
    fn first_busy_class(&self) -> Option<Class> {
        CLASSES.into_iter().find(|class| self.level(*class).unfinished() != 0)
    }

    fn is_another_busy(&self, class: Class) -> bool {
        CLASSES.into_iter().any(|other| other != class && self.level(other).unfinished() != 0)
    }

    /// A request of a lower class that has waited long enough. This examines the request whose turn
    /// it is, not the oldest, and advances the shared batch even if that request is too young: both
    /// as in the kernel.
    #[inline]
    fn choose_aged(&mut self, requests: &Requests, now: Nanos) -> Option<u32> {
        let age = AnyAge::AtLeast(self.settings.prio_aging_expire_ns.unsigned_abs());
        for class in [Class::BestEffort, Class::Idle] {
            match self.choose_in_class(requests, class, now, age) {
                Pick::Taken(slot, _) => return Some(slot),
                Pick::TooYoung { until } => self.retry_not_after(until),
                Pick::Nothing => {}
            }
        }
        None
    }

    #[inline(never)]
    fn choose_in_class(&mut self, requests: &Requests, class: Class, now: Nanos, age: AnyAge) -> Pick {
        let level = self.level(class);
        if let Some(slot) = level.dispatch_list.first() {
            return self.choose_head(requests, slot, now, age);
        }
        let lane_of = |direction| self.lane(level.queue(direction));
        let Some(Choice { slot, why, batch }) = choose(now, lane_of, self.batch, &self.settings) else {
            return Pick::Nothing;
        };
        self.batch = batch;
        if let Some(until) = self.too_young_until(slot, now, age) {
            return Pick::TooYoung { until };
        }
        self.batch.served = self.batch.served.saturating_add(1);
        self.take_sorted(class, batch.direction, slot);
        Pick::Taken(slot, why)
    }

    /// The head of a class's own dispatch list, which only the older form has.
    #[inline(never)]
    fn choose_head(&mut self, requests: &Requests, slot: u32, now: Nanos, age: AnyAge) -> Pick {
        match self.too_young_until(slot, now, age) {
            Some(until) => Pick::TooYoung { until },
            None => {
                self.take_head(requests, slot);
                Pick::Taken(slot, Why::DispatchListHead)
            }
        }
    }

    #[inline]
    fn lane(&self, queue: &Queue) -> Lane {
        Lane {
            next: (queue.next != NIL).then_some(queue.next),
            oldest: queue.fifo.first().map(|slot| (slot, self.slots.at(slot).due_ns)),
        }
    }

    /// When the request will be old enough, if it is not.
    #[inline]
    fn too_young_until(&self, slot: u32, now: Nanos, age: AnyAge) -> Option<Nanos> {
        let AnyAge::AtLeast(age_ns) = age else { return None };
        if age_ns == 0 && !self.is_retuned {
            return None;
        }
        let entry = *self.slots.at(slot);
        // The kernel stores no start time either: a change of `*_expire` shifts the age of queued
        // requests.
        let old_enough_at = entry.due_ns.wrapping_sub(self.expire_ns(entry.direction())).wrapping_add(age_ns);
        (!is_due(now, old_enough_at)).then_some(old_enough_at)
    }

    #[inline]
    fn retry_not_after(&mut self, at: Nanos) {
        self.retry_at = Some(match self.retry_at {
            Some(earlier) if is_due(at, earlier) => earlier,
            _ => at,
        });
    }

    // ---- moving requests ----

    /// Adds a slot with a valid entry to the order and the fifo of its direction.
    #[inline(always)]
    fn insert_by_sector(&mut self, slot: u32, class: Class, direction: Direction, first_sector: u64) {
        let remembers = self.profile.remembers;
        let (level, sorted, links) = self.level_and_links(class);
        let queue = level.queue_mut(direction);
        queue.joined(slot, first_sector, remembers);
        queue.fifo.push_back(links, slot);
        queue.sorted.insert_inline(sorted, slot, first_sector);
    }

    /// Inserts a request that goes in front of others, was given back by the driver, or is already
    /// known.
    #[cold]
    #[inline(never)]
    fn insert_elsewhere(&mut self, attributes: &Attributes, id: RequestId, at: Position, now: Nanos) -> Wake {
        if self.slots.get(id.slot()).is_none_or(|slot| slot.held().is_on_list()) {
            self.count_violation();
            return Wake::No;
        }
        let entry = self.count(id, attributes);
        self.held = self.held.wrapping_add(1);
        let now = self.whole_ticks(now);
        match at {
            Position::Sorted(_) => self.insert_sorted(id.slot(), entry, attributes.extent.first_sector, now),
            Position::Head | Position::Requeue => self.insert_at_head(id.slot(), entry, now),
        }
        Wake::All
    }

    fn insert_sorted(&mut self, slot: u32, entry: Slot, first_sector: u64, now: Nanos) {
        let (class, direction) = entry.queue();
        let due_ns = now.wrapping_add(self.expire_ns(direction));
        *self.slots.at_mut(slot) = entry.put(Held::Sorted, due_ns);
        self.insert_by_sector(slot, class, direction, first_sector);
    }

    fn insert_at_head(&mut self, slot: u32, entry: Slot, now: Nanos) {
        *self.slots.at_mut(slot) = entry.put(Held::DispatchList, now);
        let (list, links) = self.dispatch_list_and_links(entry.class());
        list.push_front(links, slot);
    }

    /// Removes a request chosen by the rule; its direction continues behind it.
    #[inline]
    fn take_sorted(&mut self, class: Class, direction: Direction, slot: u32) {
        let remembers = self.profile.remembers;
        let (level, sorted, links) = self.level_and_links(class);
        level.dispatched = level.dispatched.wrapping_add(1);
        let queue = level.queue_mut(direction);
        // If this was the remembered next request, its successor is the new one in both forms.
        // After a jump to another request this holds in the older form only: in the position form
        // ([`Remembers::SectorPosition`]) another request with the same position may have been
        // skipped, so the first request at or behind the position is searched.
        let in_order = queue.next == slot || remembers == Remembers::NextRequest;
        let Some(Removed { key: position, next, next_key }) = queue.sorted.remove(sorted, slot) else {
            return self.count_violation();
        };
        let done = queue.fifo.remove(links, slot);
        if in_order {
            (queue.position_sectors, queue.next, queue.next_sector) = (position, next.unwrap_or(NIL), next_key);
        } else {
            queue.moved_to(sorted, position);
        }
        self.unlinked(slot, done);
    }

    #[inline]
    fn take_shared_head(&mut self, requests: &Requests) -> Option<u32> {
        let slot = self.shared_dispatch_list.first()?;
        self.take_head(requests, slot);
        Some(slot)
    }

    /// Removes a request that was inserted at the head. In the position form
    /// ([`Remembers::SectorPosition`]) its direction continues from there.
    #[inline(never)]
    fn take_head(&mut self, requests: &Requests, slot: u32) {
        let entry = *self.slots.at(slot);
        let (class, direction) = entry.queue();
        let (list, links) = self.dispatch_list_and_links(class);
        let done = list.remove(links, slot);
        self.unlinked(slot, done);
        self.count_dispatched(class);
        if self.profile.remembers == Remembers::SectorPosition {
            let (level, sorted, _) = self.level_and_links(class);
            level.queue_mut(direction).moved_to(sorted, requests.at(entry.id(slot)).first_sector());
        }
    }

    /// The sorted request `keep` takes over the place in the fifo and the deadline of the request
    /// merged into it.
    fn inherit_place(&mut self, keep: u32, gone: u32, kept: Slot, due_ns: Nanos) {
        let (level, _, links) = self.level_and_links(kept.class());
        let queue = level.queue_mut(kept.direction());
        queue.fifo.remove(links, keep);
        queue.fifo.insert_before(links, gone, keep);
        self.slots.at_mut(keep).due_ns = due_ns;
    }

    /// A front merge moved the first sector of a sorted request.
    fn re_sort(&mut self, slot: u32, entry: Slot, first_sector: u64) {
        let remembers = self.profile.remembers;
        let (level, sorted, _) = self.level_and_links(entry.class());
        let queue = level.queue_mut(entry.direction());
        let next = queue.next;
        queue.unsort(sorted, slot);
        if remembers == Remembers::NextRequest {
            // If the request was remembered as the next one, it still is, wherever it begins now.
            queue.next = next;
        }
        queue.joined(slot, first_sector, remembers);
        queue.sorted.insert(sorted, slot, first_sector);
    }

    fn unlink(&mut self, slot: u32) {
        let entry = *self.slots.at(slot);
        let done = match entry.held() {
            Held::Sorted => {
                let (level, sorted, links) = self.level_and_links(entry.class());
                let queue = level.queue_mut(entry.direction());
                queue.unsort(sorted, slot) && queue.fifo.remove(links, slot)
            }
            Held::DispatchList => {
                let (list, links) = self.dispatch_list_and_links(entry.class());
                list.remove(links, slot)
            }
            Held::Free | Held::Sent => false,
        };
        self.unlinked(slot, done);
    }

    /// A slot has left its list, if it was on one.
    #[inline]
    fn unlinked(&mut self, slot: u32, done: bool) {
        if !done {
            self.count_violation();
            return;
        }
        self.slots.at_mut(slot).set_held(Held::Sent);
        self.held = self.held.wrapping_sub(1);
    }

    /// Releases a request that was not sent, as if it had been sent. Returns its class, or `None`
    /// if the policy does not know the request.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, id: RequestId) -> Option<Class> {
        let entry = *self.slots.at(id.slot());
        if entry.held() == Held::Free || !entry.is_of(id) {
            return None;
        }
        self.unlink(id.slot());
        self.slots.at_mut(id.slot()).set_held(Held::Free);
        self.count_dispatched(entry.class());
        Some(entry.class())
    }

    // ---- access ----

    #[cold]
    fn count_violation(&mut self) {
        self.violations = self.violations.saturating_add(1);
    }

    #[inline]
    fn id_in(&self, slot: u32) -> RequestId {
        self.slots.at(slot).id(slot)
    }

    #[inline]
    const fn level(&self, class: Class) -> &Level {
        match class {
            Class::RealTime => &self.real_time,
            Class::BestEffort => &self.best_effort,
            Class::Idle => &self.idle,
        }
    }

    #[inline]
    const fn level_mut(&mut self, class: Class) -> &mut Level {
        match class {
            Class::RealTime => &mut self.real_time,
            Class::BestEffort => &mut self.best_effort,
            Class::Idle => &mut self.idle,
        }
    }

    #[inline]
    const fn level_and_links(&mut self, class: Class) -> (&mut Level, &mut OrderedLinks, &mut Links) {
        let level = match class {
            Class::RealTime => &mut self.real_time,
            Class::BestEffort => &mut self.best_effort,
            Class::Idle => &mut self.idle,
        };
        (level, &mut self.sorted, &mut self.links)
    }

    const fn dispatch_list_and_links(&mut self, class: Class) -> (&mut List, &mut Links) {
        let list = match (self.profile.dispatch_lists, class) {
            (DispatchLists::Shared, _) => &mut self.shared_dispatch_list,
            (DispatchLists::PerClass, Class::RealTime) => &mut self.real_time.dispatch_list,
            (DispatchLists::PerClass, Class::BestEffort) => &mut self.best_effort.dispatch_list,
            (DispatchLists::PerClass, Class::Idle) => &mut self.idle.dispatch_list,
        };
        (list, &mut self.links)
    }

    #[inline]
    const fn expire_ns(&self, direction: Direction) -> Nanos {
        match direction {
            // Never below 0, as the rows ensure.
            Direction::Read => self.settings.read_expire_ns.cast_unsigned(),
            Direction::Write => self.settings.write_expire_ns.cast_unsigned(),
        }
    }

    /// The time as seen by a kernel that counts ticks.
    #[inline]
    const fn whole_ticks(&self, now: Nanos) -> Nanos {
        match now.checked_rem(self.tick_ns) {
            Some(over) => now.wrapping_sub(over),
            None => now,
        }
    }

    /// Rounds spans to whole ticks, as they are stored and read back.
    fn round_settings(&mut self) {
        let tick_ns = self.tick_ns;
        let Settings { read_expire_ns, write_expire_ns, prio_aging_expire_ns, .. } = &mut self.settings;
        for span_ns in [read_expire_ns, write_expire_ns, prio_aging_expire_ns] {
            let rounded = round_up_to_tick(span_ns.unsigned_abs(), tick_ns);
            *span_ns = i64::try_from(rounded).unwrap_or(i64::MAX);
        }
    }
}
