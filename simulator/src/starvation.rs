//! P7: how long a request can wait in a policy, checked from outside at every choice.
//!
//! The ledger reads the queue's trace: what entered the policy, what was chosen and what came back. From that alone it
//! knows who was passed over by whom, and holds it against what the policy's page promises:
//!
//! | policy | promise |
//! | --- | --- |
//! | noop | nobody is passed over |
//! | none | so many choices at most: what was flushed, a turn for each of its list up to it, what the others flush with it |
//! | linus, read-latency2 | later ones pass a request at most its budget over 16 times (in read-latency2: later writes) |
//! | nas | nobody of its direction that came when it was overdue passes a request |
//! | deadline, mq-deadline | an overdue oldest sees one batch of its direction pass (two since 6.5); reads see two batches of writes, writes `writes_starved` + 1 batches of reads |
//! | kyber | a kind with a token to spare sees one batch of each other kind pass; inside a kind, what is flushed together goes before all later ones |
//! | anticipatory | a kind keeps the device for the time of its batch; an overdue oldest is passed for its expiry at most; the device is held for `antic_expire` at most |
//!
//! What enters in front (given back, data of a sequenced flush) passes everybody by right and is not counted; after a
//! change of policy or tunables the ledger begins anew with what comes then, once all that was queued has left.
//! mq-deadline's classes share one batch, so what it promises inside a class holds while one class is queued; with
//! several, a class of which all have aged goes before every higher one.

mod anticipatory;
mod deadline;
mod kyber;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use block::{Direction, Extent, Nanos, Operation, RequestId};
use elevator::{Any, Attributes, Elevator, Version};
use queue::{Next, RequestQueue, TraceEvent, TraceKind};

use crate::invariants::Broken;
use anticipatory::Turns;
use deadline::Batches;
use kyber::Rounds;

/// Points that an insertion before it costs a request of linus.
const SEEK_COST: u64 = 16;
/// Trace events that a failure shows.
const SHOWN_EVENTS: usize = 64;

/// A policy as its promise sees it: name, form and tunables in force, in their units.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub name: String,
    /// None = the form that users get.
    pub version: Option<Version>,
    pub tunables: BTreeMap<&'static str, i64>,
    /// Length of a tick of the policy's clock; 0 = exact.
    pub tick_ns: Nanos,
    /// Software queues that feed each hardware queue.
    pub software_queues: u64,
}

impl Terms {
    fn is_since(&self, version: Version) -> bool {
        self.version.is_none_or(|own| own >= version)
    }

    fn value(&self, tunable: &str) -> i64 {
        self.tunables.get(tunable).copied().unwrap_or(0)
    }

    /// A count or a time that is never negative.
    fn count(&self, tunable: &str) -> u64 {
        self.value(tunable).unsigned_abs()
    }

    fn ms(&self, tunable: &str) -> Nanos {
        self.count(tunable).saturating_mul(block::time::MILLISECOND)
    }

    /// After how long a request of this side (reads, or sync ones) is overdue.
    fn expire_ns(&self, is_read: bool) -> Nanos {
        self.ms(if is_read { "read_expire" } else { "write_expire" })
    }

    /// A time as the policy's clock shows it.
    fn clock(&self, now: Nanos) -> Nanos {
        now - now.checked_rem(self.tick_ns).unwrap_or(0)
    }
}

/// A request that waits in the policy.
#[derive(Copy, Clone, Debug)]
struct Waiting {
    id: RequestId,
    /// Its number in the order of entry; on a merge that of the older one, where the policy does the same.
    order: u64,
    attributes: Attributes,
    inserted_ns: Nanos,
    due_ns: Nanos,
    /// What those that passed it over cost it, of those that its promise counts.
    passed: u64,
    /// How much that may be.
    allowed: u64,
    /// Whether it lay directly behind or before another one when it came.
    touched: bool,
}

impl Waiting {
    /// One more choice passed it over.
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

/// How a request entered.
#[derive(Copy, Clone, Debug, Default)]
struct Entry {
    is_in_front: bool,
    /// It lies directly behind or before one that waits.
    touches: bool,
}

/// Those that wait, by slot.
type Queued = BTreeMap<u32, Waiting>;

/// The promise of the policy in force, with what has to be remembered for it.
#[derive(Debug)]
enum Promise {
    /// None that this ledger could hold anybody to.
    Unchecked,
    /// Nobody is passed over.
    InOrder,
    /// Lists of software queues take turns or leave together.
    Lists,
    /// Later ones for so many points. Not strict: reads, and whoever goes beside its neighbour, pass for nothing.
    Budget {
        is_strict: bool,
    },
    /// None that came when it was overdue.
    Wall,
    Batches(Batches),
    Rounds(Rounds),
    Turns(Turns),
}

impl Promise {
    fn of(terms: &Terms) -> Self {
        match terms.name.as_str() {
            // Before, a bio that found no room in its neighbour went beside it.
            "noop" if terms.is_since(Version(2, 6, 0)) => Promise::InOrder,
            "none" => Promise::Lists,
            // Before, insertions cost nothing.
            "linus" if terms.is_since(Version(2, 4, 20)) => Promise::Budget { is_strict: true },
            "read-latency2" => Promise::Budget { is_strict: false },
            "nas" => Promise::Wall,
            // Before, a batch began at the lowest sector.
            "deadline" if terms.is_since(Version(2, 6, 24)) => Promise::Batches(Batches::default()),
            "mq-deadline" => Promise::Batches(Batches::default()),
            "kyber" => Promise::Rounds(Rounds::default()),
            "anticipatory" => Promise::Turns(Turns::default()),
            _ => Promise::Unchecked,
        }
    }

    /// Forgets what has been counted, but not what is in the device.
    fn begin_anew(&mut self, terms: &Terms) {
        match self {
            Promise::Rounds(rounds) => rounds.begin_anew(),
            Promise::Batches(batches) => *batches = Batches::default(),
            Promise::Turns(turns) => turns.begin_anew(terms),
            _ => {}
        }
    }
}

/// The ledger.
#[derive(Debug)]
pub(crate) struct Starvation {
    terms: Terms,
    promise: Promise,
    waiting: Queued,
    /// Slots of queued requests that the ledger leaves out: they were there before the terms were.
    excused: BTreeSet<u32>,
    /// What entered in front and has not left: before 6.5 mq-deadline keeps it in its class, and it may hold that up.
    in_front: BTreeSet<RequestId>,
    /// The form of the policy that a switch is to bring.
    next_version: Option<Version>,
    /// The request that has just absorbed another.
    merged_into: Option<RequestId>,
    entered: u64,
    last_events: VecDeque<TraceEvent>,
    /// Times that a request was passed over as its promise allows.
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
            next_version: None,
            merged_into: None,
            entered: 0,
            last_events: VecDeque::with_capacity(SHOWN_EVENTS),
            passed_over: 0,
        }
    }

    /// Holds the policy to other terms than its own.
    #[cfg(test)]
    pub(crate) fn claim(&mut self, change: impl FnOnce(&mut Terms)) {
        change(&mut self.terms);
        self.promise = Promise::of(&self.terms);
        self.begin_anew();
    }

    /// A switch is asked for: this is the form of what comes.
    pub(crate) fn will_switch(&mut self, version: Option<Version>) {
        self.next_version = version;
    }

    /// The tunables may have changed: what is queued is excused, and the promise counts from here.
    pub(crate) fn tuned<E: Elevator>(&mut self, queue: &RequestQueue<E>) {
        self.terms.tunables = queue.settings().map(|(row, value)| (row.name, value)).collect();
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.excused.extend(std::mem::take(&mut self.waiting).into_keys());
        self.promise.begin_anew(&self.terms);
    }

    /// Takes what has happened since the last time from the queue's trace. To be called behind every call that may choose.
    pub(crate) fn observe(&mut self, queue: &mut RequestQueue<Any>) -> Result<(), Broken> {
        if queue.events().lost() > 0 {
            return Err("P7: more happened at once than the trace keeps".to_owned());
        }
        while let Some(event) = queue.take_event() {
            self.remember(event);
            let TraceEvent { at_ns, kind, id, attributes, reason, .. } = event;
            match kind {
                TraceKind::Inserted | TraceKind::InsertedInFront => {
                    let table = queue.requests();
                    let is_beside = |other: &Waiting| {
                        table.is_live(other.id) && touch(table.attributes(other.id).extent, attributes.extent)
                    };
                    let touches = self.waiting.values().any(is_beside);
                    let is_in_front = kind == TraceKind::InsertedInFront;
                    self.inserted(id, &attributes, Entry { is_in_front, touches }, at_ns);
                }
                TraceKind::RequestsMerged => self.merged_into = Some(id),
                TraceKind::Absorbed => self.absorbed(id),
                TraceKind::Chosen => self.chosen(id, attributes.operation, reason.is_some(), at_ns)?,
                TraceKind::Completed => self.left_device(id, at_ns),
                TraceKind::Requeued => self.gave_back(id),
                TraceKind::Switched => {
                    self.terms.name = queue.elevator().name().to_owned();
                    self.terms.version = self.next_version;
                    self.promise = Promise::of(&self.terms);
                    self.tuned(queue);
                }
                _ => {}
            }
        }
        while let Some(said) = queue.take_message() {
            let message = said.message;
            if let Promise::Rounds(rounds) = &mut self.promise {
                rounds.heard(message.text, message.numbers[1]);
            }
        }
        Ok(())
    }

    fn remember(&mut self, event: TraceEvent) {
        if self.last_events.len() == SHOWN_EVENTS {
            self.last_events.pop_front();
        }
        self.last_events.push_back(event);
    }

    /// The last events, oldest first, for a failure to show.
    pub(crate) fn last_events(&self) -> impl Iterator<Item = &TraceEvent> {
        self.last_events.iter()
    }

    /// Looks at a pause that the policy takes while requests wait.
    pub(crate) fn pauses(&self, next: Next) -> Result<(), Broken> {
        match (&self.promise, next) {
            (Promise::Turns(turns), Next::Hold { until, .. }) => turns.holds(until, &self.terms),
            _ => Ok(()),
        }
    }

    fn inserted(&mut self, id: RequestId, attributes: &Attributes, entry: Entry, now: Nanos) {
        self.entered += 1;
        self.excused.remove(&id.slot());
        // kyber stages what comes in front like everything else, before its list.
        if entry.is_in_front && !matches!(self.promise, Promise::Rounds(_)) {
            self.in_front.insert(id);
            return;
        }
        let is_read = attributes.direction() == Direction::Read;
        let terms = &self.terms;
        let (allowed, expire_ns) = match &self.promise {
            Promise::Budget { .. } => {
                let points = terms.count(if is_read { "read_latency" } else { "write_latency" });
                // With a single point left one more may still come.
                (if points == 0 { 0 } else { points + SEEK_COST - 1 }, 0)
            }
            Promise::Lists => (self.turns_up_to(attributes), 0),
            Promise::Wall => (0, terms.ms("expire_ms")),
            Promise::Batches(_) => (0, terms.expire_ns(is_read)),
            Promise::Turns(_) => (0, terms.expire_ns(attributes.is_sync())),
            _ => (0, 0),
        };
        let own_clock = if matches!(self.promise, Promise::Batches(_)) { terms.clock(now) } else { now };
        let due_ns = own_clock.saturating_add(expire_ns);
        if let Promise::Turns(turns) = &mut self.promise {
            turns.inserted(attributes.is_sync(), &self.waiting, now);
        }
        let (order, attributes) = (self.entered, *attributes);
        let waiting =
            Waiting { id, order, attributes, inserted_ns: now, due_ns, passed: 0, allowed, touched: entry.touches };
        self.waiting.insert(id.slot(), waiting);
        if matches!(self.promise, Promise::Lists) {
            // Whatever comes while it waits may leave with it, in front of it.
            let later = self.waiting.values_mut().filter(|other| other.id != id);
            for other in later.filter(|other| other.attributes.hardware_queue == attributes.hardware_queue) {
                other.allowed += u64::from(other.attributes.software_queue > attributes.software_queue);
            }
        }
    }

    fn absorbed(&mut self, gone: RequestId) {
        self.excused.remove(&gone.slot());
        self.in_front.remove(&gone);
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

    fn take(&mut self, id: RequestId) -> Option<Waiting> {
        let is_it = self.waiting.get(&id.slot()).is_some_and(|waiting| waiting.id == id);
        if is_it { self.waiting.remove(&id.slot()) } else { None }
    }

    /// A request was chosen: by the rule, or by force.
    fn chosen(&mut self, id: RequestId, operation: Operation, by_rule: bool, now: Nanos) -> Result<(), Broken> {
        self.excused.remove(&id.slot());
        self.in_front.remove(&id);
        let chosen = self.take(id);
        if !by_rule {
            self.begin_anew();
            return Ok(());
        }
        if let Promise::Rounds(rounds) = &mut self.promise {
            rounds.takes_token(id, operation);
        }
        // What is not known went in front by right.
        let Some(chosen) = chosen else { return Ok(()) };
        if !self.excused.is_empty() {
            self.promise.begin_anew(&self.terms);
            return Ok(());
        }
        let (waiting, terms) = (&mut self.waiting, &self.terms);
        let now = if matches!(self.promise, Promise::Batches(_)) { terms.clock(now) } else { now };
        self.passed_over += match &mut self.promise {
            Promise::Unchecked => 0,
            Promise::InOrder => pass(waiting, &chosen, 1, |other| other.order < chosen.order)?,
            Promise::Lists => {
                pass(waiting, &chosen, 1, |other| other.attributes.hardware_queue == chosen.attributes.hardware_queue)?
            }
            // Beside a neighbour that was too full for it, it costs what joining it would have.
            Promise::Budget { is_strict: true } => {
                let cost = if chosen.touched { 1 } else { SEEK_COST };
                pass(waiting, &chosen, cost, |other| other.order < chosen.order)?
            }
            Promise::Budget { .. } if chosen.touched || chosen.attributes.direction() == Direction::Read => 0,
            Promise::Budget { .. } => pass(waiting, &chosen, SEEK_COST, |other| other.order < chosen.order)?,
            // Who may join a request behind a wall goes beside it when it is too full.
            Promise::Wall if chosen.touched && terms.count("merge_past_expired") > 0 => 0,
            Promise::Wall => pass(waiting, &chosen, 1, |other| {
                other.attributes.direction() == chosen.attributes.direction()
                    && other.attributes.device == chosen.attributes.device
                    && other.due_ns < chosen.inserted_ns
            })?,
            Promise::Batches(batches) => {
                let may_be_held_up = !self.in_front.is_empty() && !terms.is_since(Version(6, 5, 0));
                batches.chosen(&chosen, waiting, terms, (now, may_be_held_up))?
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
            _ => {}
        }
    }

    fn gave_back(&mut self, id: RequestId) {
        if let Promise::Rounds(rounds) = &mut self.promise {
            rounds.gives_token_back(id);
        }
    }

    /// none: what is there already, and a turn of every list for each of its own that is before it.
    fn turns_up_to(&self, attributes: &Attributes) -> u64 {
        let of_queue = |other: &&Waiting| other.attributes.hardware_queue == attributes.hardware_queue;
        let before = self.waiting.values().filter(of_queue);
        let (all, own) = before.fold((0, 0), |(all, own), other| {
            (all + 1, own + u64::from(other.attributes.software_queue == attributes.software_queue))
        });
        all + (own + 1) * self.terms.software_queues
    }
}

fn touch(one: Extent, other: Extent) -> bool {
    one.is_followed_by(other) || other.is_followed_by(one)
}

/// Counts a choice against those that it passes over.
fn pass(
    waiting: &mut Queued,
    chosen: &Waiting,
    cost: u64,
    is_passed: impl Fn(&Waiting) -> bool,
) -> Result<u64, Broken> {
    let mut passed = waiting.values_mut().filter(|other| is_passed(other));
    passed.try_fold(0, |sum, other| Ok(sum + other.pass(chosen, cost)?))
}
