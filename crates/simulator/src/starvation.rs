//! P7 (docs/specifications/classic-elevators.md, section 12): how long a request can wait in a
//! policy, checked from outside at every choice.
//!
//! The ledger [`Starvation`] reads the queue's trace: insertions, choices and requeues. From these
//! alone it derives which request was dispatched ahead of which earlier one, and checks this
//! against the policy's promise:
//!
//! | policy | promise |
//! | --- | --- |
//! | noop | no request is passed over (2.4: except by requests placed beside a neighbour that has no room for them) |
//! | none | a bounded number of choices: the requests already present, a turn of every list for each request of its own list up to it, and later requests that are flushed together with it and placed before it |
//! | linus, read-latency2 | at most budget / 16 later requests pass a request, whose budget is `read_latency` or `write_latency` (linus of 2.4.0: at most as many as its budget; read-latency2: only later writes count) |
//! | nas | a request is not passed by one of its direction that arrived when it was already overdue |
//! | deadline, mq-deadline | an overdue oldest request is passed by one batch of its direction (two since 6.5); reads are passed by two batches of writes, writes by `writes_starved` + 1 batches of reads |
//! | kyber | a kind (reads, writes, discards, others) with a free token is passed by one batch of each other kind; within a kind, requests flushed together precede all later ones |
//! | anticipatory | a kind (sync or async) keeps the device for the time of its batch; an overdue oldest request is passed for at most its expiry; the device idles for at most `antic_expire` |
//! | wfq, sfq, sfq-d2 | while a queue is backlogged, a sibling's service per weight exceeds its own by at most one request of each; each queue is served in order |
//! | mqfq | the same for the root's children, also while all of a child's requests are in flight, plus twice `lead`; each queue is served in order |
//! | cfq (since 2.6.35) | after its slice a queue dispatches one request at most, until its next turn |
//! | bfq | a turn dispatches at most its budget, and after its time at most a third of it |
//! | paternoster | the oldest best-effort request, once it has waited for 30 s, is passed by at most the requests that are chosen during 16 completions, and by 16 real-time requests |
//!
//! Requests inserted in front (requeued, or data of a sequenced flush) may pass all others and are
//! not counted. After a change of policy or tunables the ledger starts again with the requests that
//! arrive afterwards, once all those queued before have left. mq-deadline's classes share one
//! batch: its promise within a class is counted between fruitless looks, in which it examines a
//! request that is too young (`deadline.rs`), and a class in which all requests have aged precedes
//! every higher one. Policies that do not bound how often a request is passed over give the reason
//! in their traits: cfq before 2.6.35, uchida and tarasov are not checked here.

mod aged;
mod anticipatory;
mod deadline;
mod kyber;
mod lists;
mod slices;
mod terms;
#[cfg(test)]
mod tests;
mod wfq;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hoistway_block::{ContextId, Direction, Extent, GroupId, Nanos, RequestId, Sector};
use hoistway_elevator::{Any, Attributes, Elevator, Passing, Version};
use hoistway_queue::{Next, RequestQueue, TraceEvent, TraceItem, TraceKind, TraceMessage};

use crate::invariants::Broken;
use aged::{Aged, Bounds};
use anticipatory::Turns;
use deadline::Batches;
use kyber::Rounds;
use lists::Lists;
use slices::Slices;
pub(crate) use terms::{Terms, passing_of};
use wfq::Shares;

/// Trace events that a failure shows.
const SHOWN_EVENTS: usize = 64;

/// A request that waits in the policy.
#[derive(Copy, Clone, Debug)]
struct Waiting {
    id: RequestId,
    /// Its number in the order of insertion; after a merge the older one's, where the policy does
    /// the same.
    order: u64,
    attributes: Attributes,
    inserted_ns: Nanos,
    due_ns: Nanos,
    /// The cost so far of the choices that passed it over and that its promise counts.
    passed: u64,
    /// The allowed cost.
    allowed: u64,
    /// Whether it was adjacent to a queued request when it arrived.
    touched: bool,
}

impl Waiting {
    /// Another choice passed it over.
    fn pass(&mut self, by: &Waiting, cost: u64) -> Result<u64, Broken> {
        self.passed += cost;
        if self.passed <= self.allowed {
            return Ok(1);
        }
        let Waiting { id, order, passed, allowed, .. } = self;
        Err(format!(
            "P7: request #{} (entered as {order}) was passed over for {passed}, the last time by #{} (entered as {}); \
             {allowed} is allowed",
            id.slot(),
            by.id.slot(),
            by.order
        ))
    }
}

/// The waiting requests, by slot.
type Queued = BTreeMap<u32, Waiting>;

/// The promise of the policy in force, with its state.
#[derive(Debug)]
enum Promise {
    /// No promise that this ledger can check.
    Unchecked,
    Lists(Lists),
    Batches(Batches),
    Rounds(Rounds),
    Turns(Turns),
    Shares(Shares),
    Slices(Slices),
    Budgets(Slices),
    Aged(Aged),
}

impl Promise {
    fn of(terms: &Terms) -> Self {
        match terms.passing {
            Passing::Batches { .. } => Promise::Batches(Batches::default()),
            Passing::Tokens => Promise::Rounds(Rounds::default()),
            Passing::Turns => Promise::Turns(Turns::default()),
            Passing::WeightedService => Promise::Shares(Shares::default()),
            Passing::WeightedServiceInFlight => Promise::Shares(Shares::in_flight(terms)),
            // cfq before 2.6.35 does not announce its turns.
            Passing::Slices if terms.is_since(Version(2, 6, 35)) => Promise::Slices(Slices::default()),
            Passing::Budgets => Promise::Budgets(Slices::default()),
            Passing::Aged { after_ns, completions, run } => {
                Promise::Aged(Aged::new(Bounds { after_ns, completions: u64::from(completions), run: u64::from(run) }))
            }
            _ => Lists::of(terms).map_or(Promise::Unchecked, Promise::Lists),
        }
    }

    /// Resets the counts, but not the requests in the device. Shares keep their counts, because
    /// only the promise of mqfq depends on tunables; it takes the new ones.
    fn reset(&mut self, terms: &Terms) {
        match self {
            Promise::Rounds(rounds) => rounds.reset(),
            Promise::Batches(batches) => batches.reset(),
            Promise::Turns(turns) => turns.reset(terms),
            Promise::Slices(slices) | Promise::Budgets(slices) => slices.reset(),
            Promise::Aged(aged) => aged.reset(),
            Promise::Shares(shares) => shares.tuned(terms),
            Promise::Unchecked | Promise::Lists(_) => {}
        }
    }
}

/// The ledger.
#[derive(Debug)]
pub(crate) struct Starvation {
    terms: Terms,
    promise: Promise,
    waiting: Queued,
    /// Slots of queued requests that are not checked, because they were inserted under other terms:
    /// another policy or version, or other tunables.
    excused: BTreeSet<u32>,
    /// Requests inserted in front that have not left: before 6.5 mq-deadline keeps them in their
    /// class, where they may hold others up.
    in_front: BTreeSet<RequestId>,
    /// The extent of every queued request, according to the trace so far: later merges are not
    /// included yet.
    extents: BTreeMap<RequestId, Extent>,
    /// The version of the policy that a requested switch will bring.
    next_version: Option<Version>,
    /// The request that absorbed another in the last event.
    merged_into: Option<RequestId>,
    entered: u64,
    last_events: VecDeque<TraceEvent>,
    events: u64,
    /// How often a request was passed over within its promise.
    pub passed_over: u64,
}

impl Starvation {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            promise: Promise::of(&terms),
            terms,
            waiting: Queued::new(),
            excused: BTreeSet::new(),
            in_front: BTreeSet::new(),
            extents: BTreeMap::new(),
            next_version: None,
            merged_into: None,
            entered: 0,
            last_events: VecDeque::with_capacity(SHOWN_EVENTS),
            events: 0,
            passed_over: 0,
        }
    }

    /// Checks the policy against other terms than its own.
    #[cfg(test)]
    pub(crate) fn claim(&mut self, change: impl FnOnce(&mut Terms)) {
        change(&mut self.terms);
        self.promise = Promise::of(&self.terms);
        self.reset();
    }

    /// A switch was requested: the version of the new policy.
    pub(crate) fn will_switch(&mut self, version: Option<Version>) {
        self.next_version = version;
    }

    /// The tunables may have changed: queued requests are exempt, and the promise counts from here.
    pub(crate) fn tuned<E: Elevator>(&mut self, queue: &RequestQueue<E>) {
        self.terms.tunables = queue.settings().map(|(row, value)| (row.name, value)).collect();
        self.reset();
    }

    /// A group was added.
    pub(crate) fn group_added(&mut self, group: GroupId, parent: GroupId) {
        if let Promise::Shares(shares) = &mut self.promise {
            shares.group_added(group, parent);
        }
    }

    /// An issuer has exited.
    pub(crate) fn exited(&mut self, context: ContextId) {
        if let Promise::Shares(shares) = &mut self.promise {
            shares.exited(context);
        }
    }

    fn reset(&mut self) {
        self.excused.extend(std::mem::take(&mut self.waiting).into_keys());
        self.promise.reset(&self.terms);
    }

    /// Processes the queue's trace since the last call. To be called after every call that may
    /// choose.
    pub(crate) fn observe(&mut self, queue: &mut RequestQueue<Any>) -> Result<(), Broken> {
        if queue.events().lost() > 0 {
            return Err("P7: more happened at once than the trace keeps".to_owned());
        }
        if let Promise::Shares(shares) = &mut self.promise {
            shares.learn(queue.groups());
        }
        while let Some(item) = queue.take_item() {
            match item {
                TraceItem::Event(event) => self.event(event, queue)?,
                TraceItem::Message(said) => self.heard(&said),
            }
        }
        Ok(())
    }

    fn heard(&mut self, said: &TraceMessage) {
        let message = &said.message;
        match &mut self.promise {
            Promise::Rounds(rounds) => rounds.heard(message.text, message.numbers[1]),
            Promise::Slices(slices) | Promise::Budgets(slices) => slices.heard(message),
            _ => {}
        }
    }

    fn event(&mut self, event: TraceEvent, queue: &RequestQueue<Any>) -> Result<(), Broken> {
        self.remember(event);
        let TraceEvent { at_ns, kind, id, attributes, reason, .. } = event;
        match kind {
            TraceKind::Inserted => self.inserted(id, &attributes, false, at_ns),
            TraceKind::InsertedInFront => self.inserted(id, &attributes, true, at_ns),
            TraceKind::BackMerged => self.grew(id, &attributes, attributes.extent.first_sector),
            TraceKind::FrontMerged => self.grew(id, &attributes, attributes.extent.end()),
            TraceKind::RequestsMerged => {
                self.grew(id, &attributes, attributes.extent.first_sector);
                self.merged_into = Some(id);
            }
            TraceKind::Absorbed => self.absorbed(id),
            TraceKind::Withdrawn => self.withdrawn(id, at_ns),
            TraceKind::Chosen => {
                let reasons = queue.elevator().reasons();
                let reason = reason.map(|reason| reasons.get(usize::from(reason.0)).copied().unwrap_or_default());
                self.chosen(id, &attributes, reason, at_ns)?;
            }
            TraceKind::Completed => self.left_device(id, at_ns),
            TraceKind::Requeued => self.gave_back(id),
            TraceKind::Switched => self.switched(queue),
            _ => {}
        }
        Ok(())
    }

    fn remember(&mut self, event: TraceEvent) {
        self.events += 1;
        if self.last_events.len() == SHOWN_EVENTS {
            self.last_events.pop_front();
        }
        self.last_events.push_back(event);
    }

    /// Number of trace events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The last events, oldest first, for the report of a failure.
    pub(crate) fn last_events(&self) -> impl Iterator<Item = &TraceEvent> {
        self.last_events.iter()
    }

    /// Checks a time that the policy idles while requests wait.
    pub(crate) fn pauses(&self, next: Next) -> Result<(), Broken> {
        match (&self.promise, next) {
            (Promise::Turns(turns), Next::Hold { until, .. }) => turns.holds(until, &self.terms),
            _ => Ok(()),
        }
    }

    /// The policy was replaced; nothing is in the new one yet.
    fn switched(&mut self, queue: &RequestQueue<Any>) {
        self.terms.passing = passing_of(queue.elevator().name());
        self.terms.version = self.next_version;
        self.promise = Promise::of(&self.terms);
        self.waiting.clear();
        self.excused.clear();
        self.in_front.clear();
        self.extents.clear();
        self.tuned(queue);
        if let Promise::Shares(shares) = &mut self.promise {
            shares.learn(queue.groups());
        }
    }

    fn inserted(&mut self, id: RequestId, attributes: &Attributes, is_in_front: bool, now: Nanos) {
        self.entered += 1;
        self.excused.remove(&id.slot());
        let touched = self.extents.values().any(|other| touch(*other, attributes.extent));
        self.extents.insert(id, attributes.extent);
        if let Promise::Shares(shares) = &mut self.promise {
            shares.entered(id, attributes, is_in_front);
        }
        // kyber puts a request inserted in front at the front of its software queue's list, where
        // it waits for its turn like any other, so the promise counts it too.
        if is_in_front && !matches!(self.promise, Promise::Rounds(_)) {
            self.in_front.insert(id);
        } else {
            self.waits(id, attributes, touched, now);
        }
        if let Promise::Batches(batches) = &mut self.promise {
            batches.entered(id, attributes, &self.waiting, &self.terms, self.terms.clock(now));
        }
    }

    fn waits(&mut self, id: RequestId, attributes: &Attributes, touched: bool, now: Nanos) {
        let terms = &self.terms;
        let expire_ns = match &self.promise {
            Promise::Lists(Lists::Wall) => terms.ms("expire_ms"),
            Promise::Batches(_) => terms.expire_ns(attributes.direction() == Direction::Read),
            Promise::Turns(_) => terms.expire_ns(attributes.is_sync()),
            _ => 0,
        };
        let own_clock = if matches!(self.promise, Promise::Batches(_)) { terms.clock(now) } else { now };
        let due_ns = own_clock.saturating_add(expire_ns);
        if let Promise::Turns(turns) = &mut self.promise {
            turns.inserted(attributes.is_sync(), &self.waiting, now);
        }
        let allowed = match &self.promise {
            Promise::Lists(lists) => lists.allowed(attributes, &self.waiting, terms),
            _ => 0,
        };
        let (order, attributes) = (self.entered, *attributes);
        let waiting = Waiting { id, order, attributes, inserted_ns: now, due_ns, passed: 0, allowed, touched };
        self.waiting.insert(id.slot(), waiting);
        if let Promise::Lists(lists) = &self.promise {
            lists.entered(&waiting, &mut self.waiting);
        }
    }

    /// Something merged into a request; `at` is where it touches the previous extent.
    fn grew(&mut self, id: RequestId, joined: &Attributes, at: Sector) {
        if let Some(extent) = self.extents.get_mut(&id) {
            if at == joined.extent.end() {
                extent.first_sector = joined.extent.first_sector;
            }
            extent.sectors = extent.sectors.saturating_add(joined.extent.sectors);
        }
    }

    fn absorbed(&mut self, gone: RequestId) {
        self.excused.remove(&gone.slot());
        self.in_front.remove(&gone);
        self.extents.remove(&gone);
        match &mut self.promise {
            Promise::Batches(batches) => batches.left(gone),
            Promise::Shares(shares) => shares.absorbed(gone),
            _ => {}
        }
        let keep = self.merged_into.take();
        let Some(gone) = self.take(gone) else { return };
        let Some(keep) = keep.and_then(|keep| self.waiting.get_mut(&keep.slot()).filter(|kept| kept.id == keep)) else {
            return;
        };
        let is_one_fifo = match &self.promise {
            Promise::Batches(_) => deadline::lane(&self.terms, keep) == deadline::lane(&self.terms, &gone),
            Promise::Turns(_) => keep.attributes.is_sync() == gone.attributes.is_sync(),
            _ => false,
        };
        if is_one_fifo && gone.due_ns < keep.due_ns {
            (keep.order, keep.due_ns) = (gone.order, gone.due_ns);
        }
        keep.allowed = keep.allowed.min(gone.allowed);
    }

    /// A request was taken back: it was queued, or chosen.
    fn withdrawn(&mut self, id: RequestId, now: Nanos) {
        if self.extents.contains_key(&id) {
            return self.absorbed(id);
        }
        match &mut self.promise {
            // These count completions, and this is none.
            Promise::Turns(turns) => turns.withdrawn(id),
            Promise::Aged(_) => {}
            _ => self.left_device(id, now),
        }
    }

    fn take(&mut self, id: RequestId) -> Option<Waiting> {
        let is_it = self.waiting.get(&id.slot()).is_some_and(|waiting| waiting.id == id);
        if is_it { self.waiting.remove(&id.slot()) } else { None }
    }

    /// A request was chosen, by the policy for a reason or by a forced drain.
    fn chosen(
        &mut self,
        id: RequestId,
        attributes: &Attributes,
        reason: Option<&str>,
        now: Nanos,
    ) -> Result<(), Broken> {
        self.excused.remove(&id.slot());
        self.in_front.remove(&id);
        self.extents.remove(&id);
        let chosen = self.take(id);
        if let Promise::Shares(shares) = &mut self.promise {
            // Service counts the same whether the choice was forced or not.
            if reason.is_none() {
                shares.was_forced();
            }
            self.passed_over += shares.chosen(id, attributes, &self.terms)?;
            return Ok(());
        }
        let Some(reason) = reason else {
            self.reset();
            return Ok(());
        };
        self.passed_over += match &mut self.promise {
            Promise::Slices(slices) => slices.chosen_in_slice(id, attributes, reason, &self.terms, now)?,
            Promise::Budgets(slices) => slices.chosen_in_budget(id, attributes, reason, &self.terms, now)?,
            _ => 0,
        };
        if let Promise::Rounds(rounds) = &mut self.promise {
            rounds.takes_token(id, attributes.operation);
        }
        // Requests that are not known were inserted in front and may pass others.
        let Some(chosen) = chosen else { return Ok(()) };
        if !self.excused.is_empty() {
            self.promise.reset(&self.terms);
            return Ok(());
        }
        let (waiting, terms) = (&mut self.waiting, &self.terms);
        self.passed_over += match &mut self.promise {
            Promise::Unchecked | Promise::Shares(_) | Promise::Slices(_) | Promise::Budgets(_) => 0,
            Promise::Aged(aged) => aged.chosen(&chosen, waiting, now)?,
            Promise::Lists(lists) => lists.chosen(&chosen, waiting, terms)?,
            Promise::Batches(batches) => {
                let may_be_held_up = !self.in_front.is_empty() && !terms.is_since(Version(6, 5, 0));
                batches.chosen(&chosen, waiting, terms, (terms.clock(now), may_be_held_up))?
            }
            Promise::Rounds(rounds) => rounds.chosen(&chosen, waiting)?,
            Promise::Turns(turns) => turns.chosen(&chosen, waiting, terms, now)?,
        };
        Ok(())
    }

    fn left_device(&mut self, id: RequestId, now: Nanos) {
        match &mut self.promise {
            Promise::Rounds(rounds) => rounds.gives_token_back(id),
            Promise::Turns(turns) => turns.completed(id, now),
            Promise::Batches(batches) => batches.left(id),
            Promise::Shares(shares) => shares.left_device(id),
            Promise::Slices(slices) => slices.left_device(id, now),
            Promise::Aged(aged) => aged.completed(),
            _ => {}
        }
    }

    fn gave_back(&mut self, id: RequestId) {
        match &mut self.promise {
            Promise::Rounds(rounds) => rounds.gives_token_back(id),
            Promise::Shares(shares) => shares.left_device(id),
            _ => {}
        }
    }
}

fn touch(one: Extent, other: Extent) -> bool {
    one.is_followed_by(other) || other.is_followed_by(one)
}

/// Counts a choice against the requests that it passes over.
fn pass(
    waiting: &mut Queued,
    chosen: &Waiting,
    cost: u64,
    is_passed: impl Fn(&Waiting) -> bool,
) -> Result<u64, Broken> {
    let mut passed = waiting.values_mut().filter(|other| is_passed(other));
    passed.try_fold(0, |sum, other| Ok(sum + other.pass(chosen, cost)?))
}
