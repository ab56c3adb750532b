//! anticipatory: deadline with anticipation: after a sync request the device is idled for the next
//! one of the same process.
//!
//! Promise  the disk's head stays where a process has read, if the process thinks for a few
//!          milliseconds and then reads nearby; sync and async requests take turns by time. Idling
//!          stops where it does not pay: long think times, exits, another process with a near
//!          request.
//! Cost     insert O(log n), choose O(1), 50 bytes a slot, 96 bytes an issuer.
//! Fits     one spindle without command queueing, desktops and file servers. Not arrays, not flash,
//!          not deep queues.
//! Source   Linux 2.6.16 block/as-iosched.c; Iyer & Druschel 2001 (anticipatory scheduling).
//!
//! Read [`Anticipatory::pick`] first, then `wait.rs`.

mod batch;
mod check;
mod history;
mod seek;
mod tunables;
mod wait;

use crate::interface::{
    Admission, Configuration, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side, Version,
    Violation, Wake,
};
use crate::request::{Bio, Requests};
use crate::structures::{Array, Links, List, NIL, NoMemory, OrderedLinks, OrderedSet};
use crate::traits::{Passing, Traits};
use crate::tunable::{SettingError, Tunable};
use batch::Batch;
use history::{Issuer, NewIssuers};
use hoistway_block::{ContextId, Generation, HardwareQueue, Nanos, RequestId};
use tunables::Settings;
use wait::{Awaited, Wait};

crate::reasons! {
    /// Why a request was chosen, or why the device is idled.
    pub enum Why {
        NextInOrder = "next in order",
        Overdue = "overdue",
        NewBatch = "new batch",
        HeadInsert = "put in front",
        Anticipates = "waits for the last reader",
    }
}

/// The two kinds of requests.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    Sync,
    Async,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Held {
    Nowhere,
    Sorted,
    Head,
    /// In flight, and counted as such.
    Dispatched,
}

#[derive(Copy, Clone, Debug)]
#[repr(C, packed(4))]
struct Slot {
    due_ns: Nanos,
    generation: Generation,
    kind: Kind,
    held: Held,
}

const _: () = assert!(size_of::<Slot>() == 12, "one for each request there may be");

const FREE: Slot = Slot { due_ns: 0, generation: Generation::NONE, kind: Kind::Sync, held: Held::Nowhere };

/// Requests of one kind.
#[derive(Debug)]
struct Class {
    sorted: OrderedSet,
    fifo: List,
    /// The best next request, or NIL.
    next: u32,
    /// End sector of the request sent last.
    last_end: u64,
    /// When the fifo was last checked for overdue requests.
    checked_at: Nanos,
}

const EMPTY: Class = Class { sorted: OrderedSet::EMPTY, fifo: List::EMPTY, next: NIL, last_end: 0, checked_at: 0 };

/// The policy's state.
#[derive(Debug)]
pub struct Anticipatory {
    settings: Settings,
    slots: Array<Slot>,
    sorted: OrderedLinks,
    /// A slot is on a fifo or on the head list, so one set of links serves both.
    links: Links,
    sync: Class,
    asynchronous: Class,
    head: List,
    issuers: Array<Issuer>,
    new_issuers: NewIssuers,
    wait: Wait,
    awaited: Option<Awaited>,
    batch: Batch,
    dispatched: u32,
    held: u32,
    violations: u32,
}

impl Policy for Anticipatory {
    type Profile = ();
    const FORMS: &'static [Form<()>] = &[Form { since: Version(2, 6, 0), profile: () }];

    fn build(configuration: &Configuration, (): ()) -> Result<Self, NoMemory> {
        let slots = configuration.slots;
        let tick_ns = if configuration.tick_ns == 0 { 1_000_000 } else { configuration.tick_ns };
        let mut settings = Settings::DEFAULT;
        // The default of `antic_expire` is HZ/150 ticks, at least one.
        let patience = (1_000_000_000u64.checked_div(tick_ns).unwrap_or(1) / 150).max(1).saturating_mul(tick_ns);
        settings.antic_expire_ns = i64::try_from(patience).unwrap_or(i64::MAX);
        let batch_ticks = settings.write_batch_expire_ns.unsigned_abs().checked_div(tick_ns).unwrap_or(0);
        let write_count = (batch_ticks / 10).max(2);
        Ok(Self {
            settings,
            slots: Array::try_new(slots, FREE)?,
            sorted: OrderedLinks::try_new(slots, 2)?,
            links: Links::try_new(slots)?,
            sync: EMPTY,
            asynchronous: EMPTY,
            head: List::EMPTY,
            issuers: Array::try_new(configuration.contexts.max(1), Issuer::UNKNOWN)?,
            new_issuers: NewIssuers::UNKNOWN,
            wait: Wait::Off,
            awaited: None,
            batch: Batch::new(write_count),
            dispatched: 0,
            held: 0,
            violations: 0,
        })
    }
}

impl Elevator for Anticipatory {
    const TRAITS: Traits = Traits { uses_contexts: true, passing: Passing::Turns, ..Traits::PLAIN };

    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        let is_awaited = self.awaited.is_some_and(|awaited| awaited.context == bio.context);
        if self.is_waiting() && is_awaited { Admission::Must } else { Admission::Full }
    }

    fn merge_search(&self) -> MergeSearch {
        MergeSearch::PipelineThenFront
    }

    fn merge(&mut self, _requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let class = self.class(kind_of(bio));
        match class.sorted.find_exact(&self.sorted, bio.extent.end()) {
            Some(slot) => Merge::Into(self.id_in(slot), Side::Front),
            None => Merge::No(Hint::None),
        }
    }

    fn may_merge(&self, _requests: &Requests, id: RequestId, bio: &Bio) -> bool {
        let Slot { generation, kind, .. } = *self.slots.at(id.slot());
        generation != Generation::of(id) || kind == kind_of(bio)
    }

    fn bio_merged(&mut self, requests: &Requests, id: RequestId, side: Side, _now: Nanos) {
        let Slot { held, kind, .. } = *self.slots.at(id.slot());
        match (held, side) {
            (Held::Sorted, Side::Front) => {
                let (class, sorted, _) = self.class_and_links(kind);
                class.sorted.remove(sorted, id.slot());
                class.sorted.insert(sorted, id.slot(), requests.at(id).first_sector());
            }
            (Held::Sorted, _) => {}
            _ => self.count_violation(),
        }
    }

    fn requests_merged(&mut self, requests: &Requests, keep: RequestId, gone: RequestId, _now: Nanos) {
        let (kept, absorbed) = (*self.slots.at(keep.slot()), *self.slots.at(gone.slot()));
        if absorbed.held != Held::Sorted || absorbed.generation != Generation::of(gone) {
            // `gone` was merged before it was inserted, so the policy does not hold it.
            return;
        }
        if kept.kind == absorbed.kind && kept.held == Held::Sorted && absorbed.due_ns < kept.due_ns {
            let (class, _, links) = self.class_and_links(kept.kind);
            class.fifo.remove(links, keep.slot());
            class.fifo.insert_before(links, gone.slot(), keep.slot());
            self.slots.at_mut(keep.slot()).due_ns = absorbed.due_ns;
        }
        self.unlink(requests, gone.slot());
    }

    fn former(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.id_in(self.sorted.prev(id.slot())?))
    }

    fn latter(&self, _requests: &Requests, id: RequestId) -> Option<RequestId> {
        Some(self.id_in(self.sorted.next(id.slot())?))
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, now: Nanos) -> Wake {
        let slot = id.slot();
        let held = self.slots.get(slot).map(|entry| entry.held);
        if !matches!(held, Some(Held::Nowhere)) {
            self.count_violation();
            return Wake::No;
        }
        let attributes = requests.attributes(id);
        let (kind, context, generation) = (kind_of(attributes), attributes.context, Generation::of(id));
        self.held = self.held.wrapping_add(1);
        if at == Position::Requeue || at == Position::Head {
            *self.slots.at_mut(slot) = Slot { due_ns: now, generation, kind, held: Held::Head };
            self.head.push_front(&mut self.links, slot);
            return Wake::All;
        }
        let (first, end) = (attributes.extent.first_sector, attributes.extent.end());
        let issuer = self.issuers.at_mut(context.0);
        if !issuer.is_alive && issuer.queued == 0 && issuer.dispatched == 0 {
            // Not seen before, or the id belonged to an issuer that has exited.
            *issuer = Issuer { is_alive: true, ..Issuer::UNKNOWN };
        }
        if kind == Kind::Sync {
            issuer.issues(&mut self.new_issuers, first, end, now);
        }
        issuer.queued = issuer.queued.wrapping_add(1);
        let due_ns = now.saturating_add(self.expire_ns(kind));
        *self.slots.at_mut(slot) = Slot { due_ns, generation, kind, held: Held::Sorted };
        let (class, sorted, links) = self.class_and_links(kind);
        class.sorted.insert(sorted, slot, first);
        class.fifo.push_back(links, slot);
        let better = self.better(requests, kind, self.class(kind).next, slot);
        self.class_and_links(kind).0.next = better;
        self.arrived(requests, id, now);
        Wake::All
    }

    fn choose(&mut self, requests: &Requests, _queue: HardwareQueue, now: Nanos) -> Dispatch {
        if let Some(slot) = self.head.pop_front(&mut self.links) {
            self.held = self.held.wrapping_sub(1);
            self.sent(slot, self.context_of(requests, slot));
            return Dispatch::Request { id: self.id_in(slot), reason: Why::HeadInsert.into() };
        }
        if self.held == 0 {
            return Dispatch::Empty;
        }
        if let Some((slot, why)) = self.pick(requests, now) {
            self.take(requests, slot, now);
            return Dispatch::Request { id: self.id_in(slot), reason: why.into() };
        }
        match self.wait {
            Wait::ForNext { until } => Dispatch::Hold { until, reason: Why::Anticipates.into() },
            _ => Dispatch::Throttled,
        }
    }

    fn drain(&mut self, requests: &Requests, now: Nanos) -> Option<RequestId> {
        self.batch.reset();
        let slot = match self.head.pop_front(&mut self.links) {
            Some(slot) => {
                self.held = self.held.wrapping_sub(1);
                self.sent(slot, self.context_of(requests, slot));
                slot
            }
            None => {
                let next = if self.sync.next == NIL { self.asynchronous.next } else { self.sync.next };
                let oldest = self.sync.fifo.first().or(self.asynchronous.fifo.first())?;
                let slot = if next == NIL { oldest } else { next };
                self.take(requests, slot, now);
                slot
            }
        };
        Some(self.id_in(slot))
    }

    fn has_work(&self, _queue: HardwareQueue) -> bool {
        self.held > 0 && (!self.is_waiting() || !self.head.is_empty())
    }

    fn requeued(&mut self, requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        self.back_from_device(id, requests.attributes(id).context);
        Wake::No
    }

    fn completed(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let Slot { generation, kind, held, .. } = *self.slots.at(id.slot());
        if held != Held::Dispatched || generation != Generation::of(id) {
            return Wake::No;
        }
        let context = requests.attributes(id).context;
        self.back_from_device(id, context);
        let settings = &self.settings;
        self.batch.completed(kind, now, || (settings.batch_ns(Kind::Sync), settings.batch_ns(Kind::Async)));
        if kind == Kind::Sync {
            let issuer = self.issuers.at_mut(context.0);
            issuer.has_run = true;
            issuer.last_end_ns = now;
        }
        if self.awaited.is_some_and(|awaited| awaited.context == context) {
            self.awaited_done(now);
        }
        Wake::All
    }

    fn released(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let Slot { generation, held, .. } = *self.slots.at(id.slot());
        if generation != Generation::of(id) {
            return Wake::No;
        }
        match held {
            Held::Dispatched => {
                // The request ended without a completion (it was drained, or failed before the
                // device got it), so anticipation must not wait for its completion.
                let context = requests.attributes(id).context;
                self.back_from_device(id, context);
                if self.awaited.is_some_and(|awaited| awaited.context == context) {
                    self.awaited_done(now);
                }
                Wake::All
            }
            Held::Sorted | Held::Head => {
                self.unlink(requests, id.slot());
                Wake::All
            }
            Held::Nowhere => Wake::No,
        }
    }

    fn next_timer(&self) -> Option<Nanos> {
        match self.wait {
            Wait::ForNext { until } => Some(until),
            _ => None,
        }
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        self.timed_out(now)
    }

    fn context_exited(&mut self, context: ContextId, _now: Nanos) -> Wake {
        if let Some(issuer) = self.issuers.get_mut(context.0) {
            issuer.is_alive = false;
        }
        Wake::No
    }

    fn reasons(&self) -> &'static [&'static str] {
        Why::NAMES
    }

    fn tunables(&self) -> &'static [Tunable] {
        Settings::ROWS
    }

    fn setting(&self, index: usize) -> Option<i64> {
        self.settings.get(index)
    }

    fn set(&mut self, index: usize, value: i64) -> Result<(), SettingError> {
        self.settings.set(index, value)
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_all(requests)
    }
}

impl Anticipatory {
    /// The next request and the reason. `None`: the device waits, for the last reader or for
    /// requests of the other kind to complete.
    fn pick(&mut self, requests: &Requests, now: Nanos) -> Option<(u32, Why)> {
        let (syncs, asyncs) = (!self.sync.fifo.is_empty(), !self.asynchronous.fifo.is_empty());
        self.batch.note_idling(syncs, asyncs);
        if self.is_waiting() || (self.batch.has_changed() && self.dispatched > 0) {
            return None;
        }
        let mut chosen = None;
        if !(syncs && asyncs && self.batch.is_over(now)) {
            let next = Some(self.class(self.batch.kind()).next).filter(|slot| *slot != NIL);
            let anticipates = self.batch.kind() == Kind::Sync && self.settings.antic_expire_ns != 0;
            let overdue = (anticipates && self.is_overdue(Kind::Sync, now)).then(|| self.sync.fifo.first()).flatten();
            if overdue.is_none() && anticipates && self.may_wait(requests, next, now) {
                self.begin_wait();
                return None;
            }
            if overdue.is_none() && next.is_some() && syncs && !asyncs {
                self.batch.end_after(now, self.settings.batch_ns(Kind::Sync));
            }
            let in_order = next.map(|slot| (slot, Why::NextInOrder));
            chosen = overdue.map(|slot| (slot, Why::Overdue)).or(in_order);
        }
        let (slot, why) = match chosen {
            Some(chosen) => chosen,
            None => (self.begin_batch(syncs, asyncs, now)?, Why::NewBatch),
        };
        if self.batch.has_changed() {
            if self.dispatched > 0 {
                return None;
            }
            self.batch.device_is_free(now, self.settings.batch_ns(Kind::Async));
        }
        if self.is_overdue(self.batch.kind(), now)
            && let Some(oldest) = self.class(self.batch.kind()).fifo.first()
        {
            return Some((oldest, Why::Overdue));
        }
        Some((slot, why))
    }

    /// Begins the next batch. Returns its first request.
    fn begin_batch(&mut self, syncs: bool, asyncs: bool, now: Nanos) -> Option<u32> {
        if syncs && !(asyncs && self.batch.kind() == Kind::Sync) {
            self.batch.begin(Kind::Sync);
            self.sync.checked_at = now;
            return self.sync.fifo.first();
        }
        if !asyncs {
            return None;
        }
        self.batch.begin(Kind::Async);
        self.asynchronous.checked_at = now;
        Some(self.asynchronous.next).filter(|slot| *slot != NIL).or(self.asynchronous.fifo.first())
    }

    /// Whether the oldest request of a kind is overdue; checked at most once per expire time.
    fn is_overdue(&mut self, kind: Kind, now: Nanos) -> bool {
        let expire_ns = self.expire_ns(kind);
        let class = self.class_and_links(kind).0;
        if now.saturating_sub(class.checked_at) < expire_ns {
            return false;
        }
        class.checked_at = now;
        let oldest = class.fifo.first();
        oldest.is_some_and(|slot| now > self.slots.at(slot).due_ns)
    }

    // ---- moving requests ----

    fn take(&mut self, requests: &Requests, slot: u32, _now: Nanos) {
        let Slot { generation, kind, .. } = *self.slots.at(slot);
        let attributes = requests.attributes(generation.id(slot));
        let context = attributes.context;
        self.wait = Wait::Off;
        self.class_and_links(kind).0.last_end = attributes.extent.end();
        match kind {
            Kind::Sync => self.awaited = Some(Awaited { context, done_at: None }),
            Kind::Async => {
                self.awaited = None;
                self.batch.count_write();
            }
        }
        let best = self.best_neighbour(requests, slot);
        self.unlink_sorted(slot, kind, context);
        self.class_and_links(kind).0.next = best;
        self.sent(slot, context);
    }

    /// A slot was dispatched.
    fn sent(&mut self, slot: u32, context: ContextId) {
        self.slots.at_mut(slot).held = Held::Dispatched;
        self.dispatched = self.dispatched.wrapping_add(1);
        let issuer = self.issuers.at_mut(context.0);
        issuer.dispatched = issuer.dispatched.wrapping_add(1);
    }

    fn back_from_device(&mut self, id: RequestId, context: ContextId) {
        let entry = self.slots.at_mut(id.slot());
        if entry.held != Held::Dispatched || entry.generation != Generation::of(id) {
            return;
        }
        entry.held = Held::Nowhere;
        self.dispatched = self.dispatched.wrapping_sub(1);
        let issuer = self.issuers.at_mut(context.0);
        issuer.dispatched = issuer.dispatched.saturating_sub(1);
    }

    fn unlink(&mut self, requests: &Requests, slot: u32) {
        let Slot { kind, held, .. } = *self.slots.at(slot);
        match held {
            Held::Sorted => {
                let class = self.class(kind);
                let next = if class.next == slot {
                    let after = self.sorted.next(slot).or_else(|| self.first_but(kind, slot));
                    after.or_else(|| self.sorted.prev(slot)).unwrap_or(NIL)
                } else {
                    class.next
                };
                self.unlink_sorted(slot, kind, self.context_of(requests, slot));
                self.class_and_links(kind).0.next = next;
                self.slots.at_mut(slot).held = Held::Nowhere;
            }
            Held::Head => {
                self.head.remove(&mut self.links, slot);
                self.held = self.held.wrapping_sub(1);
                self.slots.at_mut(slot).held = Held::Nowhere;
            }
            Held::Dispatched | Held::Nowhere => self.count_violation(),
        }
    }

    fn unlink_sorted(&mut self, slot: u32, kind: Kind, context: ContextId) {
        let (class, sorted, links) = self.class_and_links(kind);
        let done = class.sorted.remove(sorted, slot).is_some() && class.fifo.remove(links, slot);
        if !done {
            self.count_violation();
            return;
        }
        self.held = self.held.wrapping_sub(1);
        let issuer = self.issuers.at_mut(context.0);
        issuer.queued = issuer.queued.saturating_sub(1);
    }

    fn first_sector(&self, requests: &Requests, slot: u32) -> u64 {
        requests.at(self.id_in(slot)).first_sector()
    }

    fn context_of(&self, requests: &Requests, slot: u32) -> ContextId {
        requests.attributes(self.id_in(slot)).context
    }

    #[inline]
    fn id_in(&self, slot: u32) -> RequestId {
        self.slots.at(slot).generation.id(slot)
    }

    #[cold]
    fn count_violation(&mut self) {
        self.violations = self.violations.saturating_add(1);
    }

    #[inline]
    const fn class(&self, kind: Kind) -> &Class {
        match kind {
            Kind::Sync => &self.sync,
            Kind::Async => &self.asynchronous,
        }
    }

    #[inline]
    const fn class_and_links(&mut self, kind: Kind) -> (&mut Class, &mut OrderedLinks, &mut Links) {
        let class = match kind {
            Kind::Sync => &mut self.sync,
            Kind::Async => &mut self.asynchronous,
        };
        (class, &mut self.sorted, &mut self.links)
    }

    #[inline]
    const fn expire_ns(&self, kind: Kind) -> Nanos {
        match kind {
            Kind::Sync => self.settings.read_expire_ns.unsigned_abs(),
            Kind::Async => self.settings.write_expire_ns.unsigned_abs(),
        }
    }
}

impl Settings {
    /// The length of a batch of this kind.
    #[inline]
    const fn batch_ns(&self, kind: Kind) -> Nanos {
        match kind {
            Kind::Sync => self.read_batch_expire_ns.unsigned_abs(),
            Kind::Async => self.write_batch_expire_ns.unsigned_abs(),
        }
    }
}

#[inline]
fn kind_of(bio: &Bio) -> Kind {
    if bio.is_sync() { Kind::Sync } else { Kind::Async }
}
