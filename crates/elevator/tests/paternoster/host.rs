//! A device with several servers and a fixed time per request, and issuers that send the next
//! request after a completion.

use hoistway_block::random::Stream;
use hoistway_block::time::SECOND;
use hoistway_block::{Class, ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, Priority, RequestId};
use hoistway_elevator::{
    Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, registry,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One issuer: it keeps `depth` requests outstanding from `from_ns` until `until_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Issuer {
    pub group: u32,
    pub depth: u32,
    pub sectors: u32,
    pub think_ns: Nanos,
    /// Pauses are distributed exponentially with the mean `think_ns`.
    pub is_random: bool,
    pub from_ns: Nanos,
    pub until_ns: Nanos,
    pub priority: Priority,
    /// The issuer is active for `on_ns` at the beginning of each period; if the period is 0,
    /// always.
    pub on_ns: Nanos,
    pub period_ns: Nanos,
    pub operation: Operation,
    /// Every request comes from a new issuer, which exits when the request completes.
    pub forks: bool,
}

impl Issuer {
    pub fn of(group: u32, depth: u32) -> Self {
        let priority = Priority::NONE;
        Self {
            group,
            depth,
            sectors: 8,
            think_ns: 5_000,
            is_random: false,
            from_ns: 0,
            until_ns: Nanos::MAX,
            priority,
            on_ns: 0,
            period_ns: 0,
            operation: Operation::Read,
            forks: false,
        }
    }

    /// Active for `on_ns` of each period.
    pub fn pulsing(self, on_ns: Nanos, period_ns: Nanos) -> Self {
        Self { on_ns, period_ns, ..self }
    }

    /// The earliest time at which the issuer sends its next request.
    fn next_ns(&self, now: Nanos) -> Nanos {
        let phase = (now - BEGIN_NS).checked_rem(self.period_ns).unwrap_or(0);
        if self.period_ns == 0 || phase < self.on_ns { now } else { now - phase + self.period_ns }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Done(RequestId),
    Ask(u32),
}

pub struct Host {
    pub policy: Any,
    requests: Requests,
    issuers: Vec<Issuer>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    sequence: u64,
    pub now: Nanos,
    /// Time per request, and per sector of it.
    pub latency_ns: Nanos,
    pub sector_ns: Nanos,
    servers: BinaryHeap<Reverse<Nanos>>,
    depth: usize,
    inside: usize,
    sector: u64,
    /// Of each dispatched request: issuer, number of requests then in flight, time of dispatch and
    /// time of completion.
    pub done: Vec<(u32, usize, Nanos, Nanos)>,
    pub timers: u64,
    pub lines: Vec<String>,
    /// Whether the policy's message about each choice (`pick`) is kept in `lines`.
    pub keeps_picks: bool,
    /// The issuer of each context, and the free contexts.
    issuer_of: Vec<u32>,
    free_contexts: Vec<u32>,
    /// Completed bytes by issuer.
    pub bytes: Vec<u64>,
    pauses: Stream,
}

/// The time at which the clock starts. It is large, so that the policy can subtract any of its
/// intervals from the current time.
pub const BEGIN_NS: Nanos = 100 * SECOND;

impl Host {
    /// `settings` are tunables like `give=100`, or `disk` for a rotational device. `groups` are the
    /// weights of groups 1, 2, ..., which are children of the root.
    pub fn new(settings: &str, servers: usize, latency_ns: Nanos, depth: u32, groups: &[u32]) -> Self {
        Self::sized(settings, servers, latency_ns, depth, groups, (16, 64))
    }

    /// With tables for this many groups and issuers.
    pub fn sized(
        settings: &str,
        servers: usize,
        latency_ns: Nanos,
        depth: u32,
        groups: &[u32],
        (room, contexts): (u32, u32),
    ) -> Self {
        let slots = 2_048.max(contexts * 2);
        let configuration = Configuration {
            slots,
            groups: room,
            contexts,
            depth: Depth { requests: slots, device: depth },
            rotational: settings == "disk",
            ..Configuration::default()
        };
        let mut policy = registry::build("paternoster", None, &configuration).expect("registered");
        policy.trace(true);
        for setting in settings.split(',').filter(|setting| setting.contains('=')) {
            let (name, value) = setting.split_once('=').expect("name=value");
            let row = policy.tunables().iter().position(|row| row.name == name).expect("a tunable");
            policy.set(row, value.parse().expect("a number")).expect("in range");
        }
        for (group, weight) in (1..).zip(groups) {
            policy.group_added(GroupId(group), &GroupSettings::with_weight(*weight), BEGIN_NS);
        }
        Self {
            policy,
            requests: Requests::try_new(slots).expect("memory"),
            issuers: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            now: BEGIN_NS,
            latency_ns,
            sector_ns: 0,
            servers: (0..servers).map(|_| Reverse(0)).collect(),
            depth: depth as usize,
            inside: 0,
            sector: 0,
            done: Vec::new(),
            timers: 0,
            lines: Vec::new(),
            keeps_picks: false,
            issuer_of: vec![0; contexts as usize],
            free_contexts: (0..contexts).rev().collect(),
            bytes: Vec::new(),
            pauses: Stream::of(1, "host/pauses"),
        }
    }

    fn at(&mut self, at_ns: Nanos, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at_ns, self.sequence, event)));
    }

    pub fn issuer(&mut self, issuer: Issuer) -> u32 {
        let number = u32::try_from(self.issuers.len()).expect("few");
        self.issuers.push(issuer);
        self.bytes.push(0);
        if !issuer.forks {
            // An issuer without forks has the context of its number.
            self.free_contexts.retain(|context| *context != number);
            self.issuer_of[number as usize] = number;
        }
        for _ in 0..issuer.depth {
            self.at((BEGIN_NS + issuer.from_ns).max(self.now), Event::Ask(number));
        }
        number
    }

    fn ask(&mut self, number: u32) {
        let issuer = self.issuers[number as usize];
        if self.now >= BEGIN_NS.saturating_add(issuer.until_ns) {
            return;
        }
        let next_ns = issuer.next_ns(self.now);
        if next_ns > self.now {
            return self.at(next_ns, Event::Ask(number));
        }
        let context = if issuer.forks {
            let context = self.free_contexts.pop().expect("a free context");
            self.issuer_of[context as usize] = number;
            context
        } else {
            number
        };
        self.sector += 10_000;
        let mut bio = Attributes::new(issuer.operation, Extent::new(self.sector % (1 << 30), issuer.sectors));
        (bio.group, bio.context, bio.priority) = (GroupId(issuer.group), ContextId(context), issuer.priority);
        let id = self.requests.allocate(bio, self.now).expect("a slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
    }

    fn end(&mut self, id: RequestId) {
        let attributes = *self.requests.attributes(id);
        self.inside -= 1;
        self.requests.move_to(id, Place::Complete);
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.free(id);
        let context = attributes.context.0;
        let number = self.issuer_of[context as usize];
        self.bytes[number as usize] += u64::from(attributes.extent.sectors) * 512;
        if self.issuers[number as usize].forks {
            let _ = self.policy.context_exited(ContextId(context), self.now);
            self.free_contexts.insert(0, context);
        }
        let issuer = self.issuers[number as usize];
        let think_ns = if issuer.is_random { self.exponential(issuer.think_ns) } else { issuer.think_ns };
        self.at(self.now + think_ns, Event::Ask(number));
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
    fn exponential(&mut self, mean_ns: Nanos) -> Nanos {
        let part = (self.pauses.below(1 << 32) + 1) as f64 / 2.0_f64.powi(32);
        (-part.ln() * mean_ns as f64) as Nanos
    }

    fn dispatch(&mut self) {
        while self.inside < self.depth && self.policy.has_work(HardwareQueue(0)) {
            let Dispatch::Request { id, .. } = self.policy.choose(&self.requests, HardwareQueue(0), self.now) else {
                break;
            };
            self.requests.move_to(id, Place::Dispatched);
            self.requests.move_to(id, Place::Started);
            self.inside += 1;
            let attributes = *self.requests.attributes(id);
            let number = self.issuer_of[attributes.context.0 as usize];
            let mut server = self.servers.peek_mut().expect("a server");
            let service_ns = self.latency_ns + self.sector_ns * u64::from(attributes.extent.sectors);
            let end_ns = server.0.max(self.now) + service_ns;
            server.0 = end_ns;
            drop(server);
            self.done.push((number, self.inside, self.now, end_ns));
            self.at(end_ns, Event::Done(id));
        }
        while let Some(message) = self.policy.take_message() {
            if message.text.starts_with("pick ") && !self.keeps_picks {
                continue;
            }
            self.lines.push(format!("{} {message}", message.at_ns.saturating_sub(BEGIN_NS)));
        }
        // No request may stay queued while nothing is in flight.
        let stalls = self.inside == 0 && self.policy.has_work(HardwareQueue(0));
        assert!(!stalls, "stands still with work at {}", self.now - BEGIN_NS);
    }

    /// Runs for `span_ns`.
    pub fn pass(&mut self, span_ns: Nanos) {
        let until_ns = self.now + span_ns;
        loop {
            let event_ns = self.events.peek().map_or(Nanos::MAX, |Reverse((at_ns, ..))| *at_ns);
            let timer_ns = self.policy.next_timer().map_or(Nanos::MAX, |at_ns| at_ns.max(self.now));
            let next_ns = event_ns.min(timer_ns);
            if next_ns > until_ns {
                break;
            }
            self.now = next_ns;
            if timer_ns < event_ns {
                self.timers += 1;
                let _ = self.policy.timer(&self.requests, self.now);
            } else if let Some(Reverse((_, _, event))) = self.events.pop() {
                match event {
                    Event::Done(id) => self.end(id),
                    Event::Ask(number) => self.ask(number),
                }
            }
            self.dispatch();
        }
        self.now = until_ns;
        self.policy.check(&self.requests).expect("invariants");
        assert_eq!(self.policy.violations(), 0);
    }

    /// Requests of an issuer that completed between two times since the start.
    pub fn count(&self, number: u32, from_ns: Nanos, to_ns: Nanos) -> u32 {
        let range = BEGIN_NS + from_ns..BEGIN_NS + to_ns;
        let ended = self.done.iter().filter(|(issuer, .., end_ns)| *issuer == number && range.contains(end_ns));
        u32::try_from(ended.count()).expect("few")
    }

    /// A real-time issuer's priority.
    pub fn real_time() -> Priority {
        Priority::new(Class::RealTime, 4)
    }
}
