//! kyber: no sorting; each kind of I/O has tokens for the device, and latency determines their
//! number.
//!
//! Promise  reads and writes approach their latency targets: when the device is congested, the
//!          kinds that meet their target give up depth. Order inside a kind is that of arrival,
//!          software queue by software queue.
//! Cost     O(1); the search for a merge candidate reads at most eight requests. 16 bytes a slot.
//! Fits     fast multi-queue flash where writes crowd out reads. No fairness between processes or
//!          groups, no seek optimisation.
//! Source   Linux 4.20 to 6.12 block/kyber-iosched.c (the form of 4.12 with other domains is not
//!          offered).
//!
//! insert -> staged[software queue, domain] -> (token) -> flushed[hardware queue, domain] -> choose
//! -> host
//!
//! Read [`Kyber::next_of`] first: it is the whole rule. `feedback.rs` turns latencies into depths.

mod check;
mod domain;
mod feedback;

use crate::interface::{
    Admission, Configuration, Depth, Dispatch, Elevator, Form, Hint, Merge, MergeSearch, Policy, Position, Side,
    Version, Violation, Wake,
};
use crate::message::{Message, Messages};
use crate::request::{Attributes, Bio, Requests};
use crate::structures::{Array, Bitmap, Links, List, NIL, NoMemory};
use crate::traits::{Limits, Passing, Traits};
use crate::tunable::{OutOfRange, SettingError, Tunable, Unit};
use domain::{Domain, PerDomain, Tokens};
use feedback::{Feedback, Finding, INTERVAL_NS, Span};
use hoistway_block::{HardwareQueue, Nanos, Operation, RequestId, SoftwareQueue};

crate::reasons! {
    /// Why a request was chosen.
    pub enum Why {
        BatchGoesOn = "its kind's batch goes on",
        NextTurn = "turn of its kind",
    }
}

crate::tunables! {
    /// Latency targets.
    pub struct Settings {
        /// Target of reads.
        read_lat_ns: "read_lat_nsec", Unit::Nanoseconds, 0..=9_223_372_036_854_775_807, 2_000_000, OutOfRange::Refuse,
            "Target of reads: 99 % complete within it.";
        /// Target of writes.
        write_lat_ns: "write_lat_nsec", Unit::Nanoseconds, 0..=9_223_372_036_854_775_807, 10_000_000, OutOfRange::Refuse,
            "Target of writes: 99 % complete within it.";
    }
}

/// Target of discards; there is no tunable for it.
const DISCARD_TARGET_NS: Nanos = 5_000_000_000;
/// How many of the newest staged requests are merge candidates for a bio.
const MERGE_CANDIDATES: usize = 8;
/// Share of the scheduler tags that limited requests may use, in per cent.
const ASYNC_PERCENT: u32 = 75;
/// In `list_of`: flushed to its hardware queue, and no longer mergeable.
const FLUSHED: u32 = NIL - 1;

/// Which requests are limited in scheduler tags.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Limited {
    /// Async requests.
    Async,
    /// All requests except sync reads.
    AllButSyncReads,
}

/// The state of one hardware queue.
#[derive(Clone, Debug)]
struct HardwareContext {
    /// Requests that have left their software queues, by domain.
    flushed: PerDomain<List>,
    turn: Domain,
    /// Requests chosen in this batch.
    batching: u32,
    /// Domains for which it waits for a token.
    waits: PerDomain<bool>,
    held: u32,
}

const IDLE: HardwareContext = HardwareContext {
    flushed: PerDomain { read: List::EMPTY, write: List::EMPTY, discard: List::EMPTY, other: List::EMPTY },
    turn: Domain::Read,
    batching: 0,
    waits: PerDomain { read: false, write: false, discard: false, other: false },
    held: 0,
};

/// The policy's state.
#[derive(Debug)]
pub struct Kyber {
    limited: Limited,
    settings: Settings,
    async_depth: u32,
    links: Links,
    /// The list that a slot is on: a staged one, [`FLUSHED`] or NIL.
    list_of: Array<u32>,
    /// The token that a slot's request holds.
    token_of: Array<Option<Domain>>,
    /// The lists of requests in software queues, by hardware queue, domain and software queue.
    staged: Array<List>,
    occupied: Bitmap,
    outlets: Array<HardwareContext>,
    tokens: PerDomain<Tokens>,
    feedback: Feedback,
    look_at: Option<Nanos>,
    software_queues: u32,
    messages: Messages,
    violations: u32,
}

impl Policy for Kyber {
    type Profile = Limited;
    const FORMS: &'static [Form<Limited>] = &[
        Form { since: Version(4, 20, 0), profile: Limited::Async },
        Form { since: Version(7, 0, 0), profile: Limited::AllButSyncReads },
    ];

    fn build(configuration: &Configuration, limited: Limited) -> Result<Self, NoMemory> {
        let software_queues = u32::from(configuration.software_queues.max(1));
        let hardware_queues = u32::from(configuration.hardware_queues.max(1));
        let lists =
            software_queues.checked_mul(hardware_queues).and_then(|pairs| pairs.checked_mul(4)).ok_or(NoMemory)?;
        let mut policy = Self {
            limited,
            settings: Settings::DEFAULT,
            async_depth: 0,
            links: Links::try_new(configuration.slots)?,
            list_of: Array::try_new(configuration.slots, NIL)?,
            token_of: Array::try_new(configuration.slots, None)?,
            staged: Array::try_new(lists, List::EMPTY)?,
            occupied: Bitmap::try_new(lists)?,
            outlets: Array::try_new(hardware_queues, IDLE)?,
            tokens: PerDomain {
                read: Tokens::full(Domain::Read),
                write: Tokens::full(Domain::Write),
                discard: Tokens::full(Domain::Discard),
                other: Tokens::full(Domain::Other),
            },
            feedback: Feedback::try_new()?,
            look_at: None,
            software_queues,
            messages: Messages::try_new()?,
            violations: 0,
        };
        policy.depth_changed(configuration.depth);
        Ok(policy)
    }
}

impl Elevator for Kyber {
    const TRAITS: Traits =
        Traits { is_per_queue: true, limits: Limits::Writes, passing: Passing::Tokens, ..Traits::PLAIN };

    fn admit(&self, bio: &Bio, _now: Nanos) -> Admission {
        let is_limited = match self.limited {
            Limited::Async => !bio.is_sync(),
            Limited::AllButSyncReads => bio.operation != Operation::Read,
        };
        if is_limited { Admission::Shallow(self.async_depth) } else { Admission::Full }
    }

    fn merge_search(&self) -> MergeSearch {
        MergeSearch::Own
    }

    fn merge(&mut self, requests: &Requests, bio: &Bio, _now: Nanos) -> Merge {
        let list = self.list(bio.software_queue, bio.hardware_queue, Domain::of(bio.operation));
        let mut newest = self.staged.at(list).last();
        for _ in 0..MERGE_CANDIDATES {
            let Some(slot) = newest else { break };
            newest = self.links.prev(slot);
            let Some(id) = requests.id_of(slot) else { continue };
            let queued = requests.attributes(id);
            if !queued.can_share_request(bio) {
                continue;
            }
            if queued.extent.is_followed_by(bio.extent) {
                return Merge::Into(id, Side::Back);
            }
            if bio.extent.is_followed_by(queued.extent) {
                return Merge::Into(id, Side::Front);
            }
        }
        Merge::No(Hint::None)
    }

    fn requests_merged(&mut self, requests: &Requests, _keep: RequestId, gone: RequestId, _now: Nanos) {
        // A request that is merged on its way in was never queued.
        self.unlink(gone.slot(), requests.attributes(gone));
    }

    fn insert(&mut self, requests: &Requests, id: RequestId, at: Position, _now: Nanos) -> Wake {
        let slot = id.slot();
        let attributes = requests.attributes(id);
        let list = self.list(attributes.software_queue, attributes.hardware_queue, Domain::of(attributes.operation));
        let (Some(outlet), Some(staged)) =
            (self.outlets.get_mut(u32::from(attributes.hardware_queue.0)), self.staged.get_mut(list))
        else {
            self.violations = self.violations.saturating_add(1);
            return Wake::No;
        };
        let done = match at {
            Position::Sorted(_) => staged.push_back(&mut self.links, slot),
            Position::Head | Position::Requeue => staged.push_front(&mut self.links, slot),
        };
        if !done {
            self.violations = self.violations.saturating_add(1);
            return Wake::No;
        }
        outlet.held = outlet.held.wrapping_add(1);
        *self.list_of.at_mut(slot) = list;
        self.occupied.set(list);
        Wake::Queue(attributes.hardware_queue)
    }

    fn choose(&mut self, requests: &Requests, queue: HardwareQueue, now: Nanos) -> Dispatch {
        let outlet = self.outlets.at(u32::from(queue.0));
        if outlet.held == 0 {
            return Dispatch::Empty;
        }
        // First the rest of the present domain's batch, if there is any, then all domains in turn.
        let mut why = if outlet.batching < outlet.turn.batch() { Why::BatchGoesOn } else { Why::NextTurn };
        let mut rounds = 0;
        while rounds < Domain::ALL.len() {
            if why == Why::NextTurn {
                rounds = rounds.wrapping_add(1);
                self.next_turn(queue);
            }
            let domain = self.outlets.at(u32::from(queue.0)).turn;
            if let Some(slot) = self.next_of(domain, queue, now)
                && let Some(id) = requests.id_of(slot)
            {
                return Dispatch::Request { id, reason: why.into() };
            }
            why = Why::NextTurn;
        }
        Dispatch::Throttled
    }

    fn drain(&mut self, requests: &Requests, _now: Nanos) -> Option<RequestId> {
        for queue in 0..self.outlets.len() {
            let queue = HardwareQueue(u16::try_from(queue).unwrap_or(u16::MAX));
            for domain in Domain::ALL {
                self.flush(domain, queue);
                if let Some(slot) = self.take_flushed(domain, queue) {
                    return requests.id_of(slot);
                }
            }
        }
        None
    }

    fn has_work(&self, queue: HardwareQueue) -> bool {
        self.outlets.at(u32::from(queue.0)).held != 0
    }

    fn requeued(&mut self, _requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        self.give_back(id.slot())
    }

    fn completed(&mut self, requests: &Requests, id: RequestId, now: Nanos) -> Wake {
        let request = requests.at(id);
        let domain = Domain::of(request.attributes.operation);
        if let Some(target_ns) = self.target_ns(domain) {
            let total_ns = now.saturating_sub(request.start_ns);
            let in_device_ns = now.saturating_sub(request.issued_ns.max(request.start_ns));
            self.feedback.add(domain, total_ns, in_device_ns, target_ns);
            // Only completions arm the timer, so without them nothing is evaluated. A completion
            // never delays a timer that is armed.
            let at = now.saturating_add(INTERVAL_NS);
            self.look_at = Some(self.look_at.map_or(at, |armed| armed.min(at)));
        }
        Wake::No
    }

    fn released(&mut self, requests: &Requests, id: RequestId, _now: Nanos) -> Wake {
        // Only a request that was taken back before it was chosen is still on a list here.
        self.unlink(id.slot(), requests.attributes(id));
        self.give_back(id.slot())
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.look_at
    }

    fn timer(&mut self, _requests: &Requests, now: Nanos) -> Wake {
        if self.look_at.is_none_or(|at| now < at) {
            return Wake::No;
        }
        self.look_at = None;
        let (tokens, messages) = (&mut self.tokens, &mut self.messages);
        let before = *tokens;
        let mut has_grown = false;
        self.feedback.look(
            now,
            |domain| before.of(domain).depth,
            |finding| {
                messages.write(message_of(finding, now));
                if let Finding::Depth(domain, depth) = finding {
                    let tokens = tokens.of_mut(domain);
                    has_grown |= depth > tokens.depth && tokens.waiters > 0;
                    tokens.depth = depth;
                }
            },
        );
        if has_grown { Wake::All } else { Wake::No }
    }

    fn depth_changed(&mut self, depth: Depth) {
        self.async_depth = (depth.requests.saturating_mul(ASYNC_PERCENT) / 100).max(1);
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

    fn take_message(&mut self) -> Option<Message> {
        self.messages.take()
    }

    fn trace(&mut self, on: bool) {
        self.messages.switch(on);
    }

    fn violations(&self) -> u32 {
        self.violations
    }

    fn check(&self, requests: &Requests) -> Result<(), Violation> {
        self.check_everything(requests)
    }
}

impl Kyber {
    /// The next request of a domain for a hardware queue, with a token. Flushed requests go first;
    /// otherwise, and only with a token in hand, all requests staged for the domain are flushed.
    #[inline]
    fn next_of(&mut self, domain: Domain, queue: HardwareQueue, now: Nanos) -> Option<u32> {
        let is_flushed = !self.outlets.at(u32::from(queue.0)).flushed.of(domain).is_empty();
        if !is_flushed && !self.is_staged(domain, queue) {
            return None;
        }
        if !self.tokens.of_mut(domain).take() {
            self.wait_for_token(domain, queue, now);
            return None;
        }
        if !is_flushed {
            self.flush(domain, queue);
        }
        self.take_with_token(domain, queue)
    }

    fn take_with_token(&mut self, domain: Domain, queue: HardwareQueue) -> Option<u32> {
        let slot = self.take_flushed(domain, queue)?;
        *self.token_of.at_mut(slot) = Some(domain);
        let outlet = self.outlets.at_mut(u32::from(queue.0));
        outlet.batching = outlet.batching.wrapping_add(1);
        *outlet.waits.of_mut(domain) = false;
        Some(slot)
    }

    fn is_staged(&self, domain: Domain, queue: HardwareQueue) -> bool {
        self.occupied_of(domain, queue, 0).is_some()
    }

    #[inline]
    fn next_turn(&mut self, queue: HardwareQueue) {
        let outlet = self.outlets.at_mut(u32::from(queue.0));
        outlet.turn = outlet.turn.following();
        outlet.batching = 0;
    }

    #[cold]
    fn wait_for_token(&mut self, domain: Domain, queue: HardwareQueue, now: Nanos) {
        let text = match domain {
            Domain::Read => "READ throttled",
            Domain::Write => "WRITE throttled",
            Domain::Discard => "DISCARD throttled",
            Domain::Other => "OTHER throttled",
        };
        self.messages.write(Message::new(now, text, [u64::from(queue.0)]));
        let waits = self.outlets.at_mut(u32::from(queue.0)).waits.of_mut(domain);
        if !*waits {
            *waits = true;
            let tokens = self.tokens.of_mut(domain);
            tokens.waiters = tokens.waiters.wrapping_add(1);
        }
    }

    /// Returns the request's token, and wakes hardware queues that wait for one.
    #[inline]
    fn give_back(&mut self, slot: u32) -> Wake {
        let Some(domain) = self.token_of.at_mut(slot).take() else { return Wake::No };
        let tokens = self.tokens.of_mut(domain);
        tokens.in_use = tokens.in_use.wrapping_sub(1);
        if tokens.waiters == 0 || tokens.in_use >= tokens.depth {
            return Wake::No;
        }
        tokens.waiters = 0;
        for outlet in self.outlets.iter_mut() {
            *outlet.waits.of_mut(domain) = false;
        }
        Wake::All
    }

    /// Flushes all staged requests of a domain from the software queues, in the order of their
    /// indices.
    fn flush(&mut self, domain: Domain, queue: HardwareQueue) {
        for _ in 0..self.software_queues {
            let Some(list) = self.occupied_of(domain, queue, 0) else { return };
            self.occupied.clear(list);
            let staged = self.staged.at_mut(list);
            let flushed = self.outlets.at_mut(u32::from(queue.0)).flushed.of_mut(domain);
            for _ in 0..staged.len() {
                let Some(slot) = staged.pop_front(&mut self.links) else { break };
                flushed.push_back(&mut self.links, slot);
                *self.list_of.at_mut(slot) = FLUSHED;
            }
        }
    }

    fn take_flushed(&mut self, domain: Domain, queue: HardwareQueue) -> Option<u32> {
        let outlet = self.outlets.at_mut(u32::from(queue.0));
        let slot = outlet.flushed.of_mut(domain).pop_front(&mut self.links)?;
        outlet.held = outlet.held.wrapping_sub(1);
        *self.list_of.at_mut(slot) = NIL;
        Some(slot)
    }

    /// Removes a slot from the list that it is on.
    fn unlink(&mut self, slot: u32, attributes: &Attributes) {
        let outlet = self.outlets.at_mut(u32::from(attributes.hardware_queue.0));
        let done = match *self.list_of.at(slot) {
            NIL => return,
            FLUSHED => outlet.flushed.of_mut(Domain::of(attributes.operation)).remove(&mut self.links, slot),
            list => {
                let staged = self.staged.at_mut(list);
                let done = staged.remove(&mut self.links, slot);
                if staged.is_empty() {
                    self.occupied.clear(list);
                }
                done
            }
        };
        if done {
            outlet.held = outlet.held.wrapping_sub(1);
            *self.list_of.at_mut(slot) = NIL;
        }
    }

    fn target_ns(&self, domain: Domain) -> Option<Nanos> {
        match domain {
            Domain::Read => Some(self.settings.read_lat_ns.unsigned_abs()),
            Domain::Write => Some(self.settings.write_lat_ns.unsigned_abs()),
            Domain::Discard => Some(DISCARD_TARGET_NS),
            Domain::Other => None,
        }
    }

    /// The first non-empty staged list of a domain, from a software queue on.
    #[inline]
    fn occupied_of(&self, domain: Domain, queue: HardwareQueue, from: u32) -> Option<u32> {
        let first = self.list(SoftwareQueue(0), queue, domain);
        let list = self.occupied.next_set_from(first.wrapping_add(from))?;
        (list < first.wrapping_add(self.software_queues)).then_some(list)
    }

    /// The list of requests staged by a software queue for a hardware queue and a domain.
    #[inline]
    fn list(&self, software: SoftwareQueue, hardware: HardwareQueue, domain: Domain) -> u32 {
        let row = u32::from(hardware.0).wrapping_mul(4).wrapping_add(domain.index());
        row.wrapping_mul(self.software_queues).wrapping_add(u32::from(software.0))
    }
}

/// The kernel's trace lines, without the device number, which the host adds.
fn message_of(finding: Finding, now: Nanos) -> Message {
    let (text, a, b) = match finding {
        Finding::Latency(domain, span, bucket, samples) => {
            let text = match (domain, span) {
                (Domain::Read, Span::Total) => "READ total p99 {0}/4 samples={1}",
                (Domain::Read, Span::InDevice) => "READ I/O p90 {0}/4 samples={1}",
                (Domain::Write, Span::Total) => "WRITE total p99 {0}/4 samples={1}",
                (Domain::Write, Span::InDevice) => "WRITE I/O p90 {0}/4 samples={1}",
                (_, Span::Total) => "DISCARD total p99 {0}/4 samples={1}",
                (_, Span::InDevice) => "DISCARD I/O p90 {0}/4 samples={1}",
            };
            (text, bucket.saturating_add(1), u64::from(samples))
        }
        Finding::Depth(domain, depth) => {
            let text = match domain {
                Domain::Read => "READ {1}",
                Domain::Write => "WRITE {1}",
                Domain::Discard => "DISCARD {1}",
                Domain::Other => "OTHER {1}",
            };
            (text, 0, u64::from(depth))
        }
    };
    Message::new(now, text, [u64::from(a), b])
}
