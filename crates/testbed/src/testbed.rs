//! A tiny host around a request queue: one clock, one device that follows the script, checks after
//! every call.

use crate::notation::{Step, bio, script, show};
use crate::spec::Spec;
use hoistway_block::time::SECOND;
use hoistway_block::{ContextId, Flags, HardwareQueue, Nanos, RequestId, Status};
use hoistway_elevator::limiters::LIMITERS;
use hoistway_elevator::{Bio, Configuration, Depth, Elevator, Place, Version, registry};
use hoistway_queue::{Era, Next, Plug, RequestQueue, Settings, Submitted};
use std::collections::{BTreeMap, BTreeSet};

/// The number of last steps of a script that a failure shows.
const SHOWN_STEPS: usize = 200;

/// A request that was dispatched to the device.
#[derive(Clone, Debug)]
pub struct Started {
    /// The request, in notation, at that time.
    pub text: String,
    /// The policy's reason; "" for a request that it did not choose.
    pub reason: &'static str,
    /// The time of its dispatch.
    pub at_ns: Nanos,
}

/// A policy in a request queue in the smallest possible host.
///
/// A panic prints the script so far, so that every failure can be replayed.
#[derive(Debug)]
pub struct Testbed {
    pub(crate) queue: RequestQueue,
    pub(crate) settings: Settings,
    pub(crate) now: Nanos,
    pub(crate) in_device: Vec<RequestId>,
    pub(crate) plug: Plug,
    pub(crate) history: Vec<String>,
    pub(crate) has_limiters: bool,
    log: Vec<Started>,
    compared: usize,
    in_flight: BTreeMap<u64, Bio>,
    cookie: u64,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let earlier = self.history.len().saturating_sub(SHOWN_STEPS);
            let script = self.history.get(earlier..).unwrap_or_default().join(" ");
            eprintln!("script of {} ({earlier} earlier steps left out):\n  {script}", self.queue.elevator().name());
        }
    }
}

// ---- construction ----
impl Testbed {
    /// The policy with this name, version and settings: `noop`,
    /// `mq-deadline@6.1:fifo_batch=1,writes_starved=0`. It has 256 tags, a device that takes 256
    /// requests, and nothing chosen ahead of time.
    ///
    /// # Panics
    /// If there is no such policy, version or tunable.
    pub fn new(spec: &str) -> Self {
        Self::with(spec, &Self::settings())
    }

    /// The settings that [`Testbed::new`] uses.
    pub fn settings() -> Settings {
        let configuration = Configuration { depth: Depth { requests: 256, device: 256 }, ..Configuration::default() };
        Settings { configuration, era: Era::ENGINE, ..Settings::default() }
    }

    /// The policy with other settings.
    ///
    /// # Panics
    /// As [`Testbed::new`].
    pub fn with(spec: &str, settings: &Settings) -> Self {
        let parsed = Spec::parse(spec);
        let queue = RequestQueue::build(parsed.name, parsed.version, settings);
        let queue = queue.unwrap_or_else(|error| panic!("{spec}: {error:?}"));
        let mut testbed = Self {
            queue,
            settings: *settings,
            now: SECOND,
            in_device: Vec::new(),
            plug: Plug::default(),
            history: Vec::new(),
            has_limiters: false,
            log: Vec::new(),
            compared: 0,
            in_flight: BTreeMap::new(),
            cookie: 0,
        };
        for (row, value) in parsed.settings() {
            testbed.set(row, value);
        }
        testbed
    }

    /// Installs all limiters; calls may remove and reinstall them.
    ///
    /// # Panics
    /// If one cannot be built.
    #[must_use]
    pub fn with_limiters(mut self) -> Self {
        self.has_limiters = true;
        for entry in LIMITERS {
            self.queue.add_limiter(entry.name, self.now).expect("a limiter");
        }
        self
    }

    /// Every policy in every version: `noop@2.6.0`, `mq-deadline@6.1.0`, ...
    pub fn policies() -> Vec<String> {
        let forms = registry::ENTRIES.iter().flat_map(|entry| entry.versions.iter().map(move |since| (entry, since)));
        forms.map(|(entry, Version(major, minor, patch))| format!("{}@{major}.{minor}.{patch}", entry.name)).collect()
    }
}

// ---- scripts ----
impl Testbed {
    /// Runs the script that prepares the case; see [`notation`](crate::notation).
    pub fn given(&mut self, text: &str) {
        self.run(text);
    }

    /// Runs the script of the case itself.
    pub fn when(&mut self, text: &str) {
        self.run(text);
    }

    /// Asserts the requests dispatched since the last comparison, in order; "" for none.
    ///
    /// # Panics
    /// If others were dispatched.
    #[track_caller]
    pub fn then(&mut self, expected: &str) {
        let dispatched: Vec<_> = self.log.iter().skip(self.compared).map(|started| started.text.clone()).collect();
        self.compared = self.log.len();
        let expected: Vec<_> = expected.split_whitespace().map(|word| show(&bio(word))).collect();
        assert_eq!(dispatched.join(" "), expected.join(" "), "dispatched (left) and expected (right)");
    }

    /// Asserts the reason of a request's dispatch; of several equal requests, the latest counts.
    ///
    /// # Panics
    /// If it was dispatched for another reason, or not at all.
    #[track_caller]
    pub fn then_reason(&self, request: &str, reason: &str) {
        let text = show(&bio(request));
        let found = self.log.iter().rev().find(|started| started.text == text);
        assert_eq!(found.map(|started| started.reason), Some(reason), "reason of {text}");
    }

    /// All requests dispatched to the device so far, in order.
    pub fn started(&self) -> &[Started] {
        &self.log
    }

    /// The queue, for inspection.
    pub fn queue(&self) -> &RequestQueue {
        &self.queue
    }

    /// The number of bios that wait for a tag.
    pub fn waiting(&self) -> usize {
        let in_requests = (0..self.queue.requests().capacity())
            .filter_map(|slot| self.queue.requests().id_of(slot))
            .map(|id| self.queue.bios_of(id).count());
        self.in_flight.len() - in_requests.sum::<usize>()
    }

    /// The current time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    fn run(&mut self, text: &str) {
        for step in script(text) {
            self.step(step);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Submit(bio) => assert!(self.submit(&bio), "the table of bios is full"),
            Step::Batch(bios) => {
                for bio in &bios {
                    assert!(self.submit_plugged(bio), "the table of bios is full");
                }
                self.unplug();
            }
            Step::Dispatch(count) => {
                for _ in 0..count {
                    self.dispatch();
                }
            }
            Step::Rest => self.rest(),
            Step::Unplug => self.unplug_device(),
            Step::Complete(which) => {
                let index = self.find_in_device(&which);
                self.complete(index, Status::Ok);
            }
            Step::Requeue(which) => {
                let index = self.find_in_device(&which);
                self.requeue(index);
            }
            Step::Pass(span_ns) => self.pass(span_ns),
            Step::Set(name, value) => self.set(&name, &value),
        }
    }

    fn find_in_device(&self, which: &Bio) -> usize {
        let requests = self.queue.requests();
        let is_it = |id: &RequestId| {
            let found = requests.attributes(*id);
            found.operation == which.operation && found.extent.first_sector == which.extent.first_sector
        };
        self.in_device.iter().position(is_it).unwrap_or_else(|| panic!("{} is not in the device", show(which)))
    }
}

// ---- host calls, each followed by all checks ----
impl Testbed {
    /// Submits a bio. False if the table of bios is full.
    pub fn submit(&mut self, bio: &Bio) -> bool {
        self.history.push(show(bio));
        let cookie = self.enter(bio);
        let submitted = self.queue.submit(bio, cookie, self.now);
        self.entered(cookie, submitted.ok())
    }

    /// Submits a bio into the host's plug. False if the table of bios is full.
    pub fn submit_plugged(&mut self, bio: &Bio) -> bool {
        self.history.push(format!("plug:{}", show(bio)));
        let cookie = self.enter(bio);
        let submitted = self.queue.submit_plugged(bio, cookie, &mut self.plug, self.now);
        self.entered(cookie, submitted.ok())
    }

    fn enter(&mut self, bio: &Bio) -> u64 {
        self.cookie += 1;
        self.in_flight.insert(self.cookie, *bio);
        self.cookie
    }

    fn entered(&mut self, cookie: u64, submitted: Option<Submitted>) -> bool {
        if matches!(submitted, None | Some(Submitted::Nothing)) {
            self.in_flight.remove(&cookie);
        }
        self.check();
        submitted.is_some()
    }

    /// Flushes the host's plug.
    pub fn unplug(&mut self) {
        self.history.push("}".into());
        self.queue.unplug(&mut self.plug, self.now);
        self.check();
    }

    /// Unplugs the queue, as a waiting process does.
    pub fn unplug_device(&mut self) {
        self.history.push("unplug".into());
        self.queue.unplug_device(self.now);
        self.check();
    }

    /// Dispatches from the first hardware queue that has a request.
    pub fn dispatch(&mut self) -> Next {
        let mut answer = Next::Empty;
        for queue in 0..self.settings.configuration.hardware_queues {
            let next = self.dispatch_from(HardwareQueue(queue));
            if matches!(next, Next::Start { .. }) {
                return next;
            }
            if answer == Next::Empty {
                answer = next;
            }
        }
        answer
    }

    /// Dispatches from one hardware queue.
    pub fn dispatch_from(&mut self, queue: HardwareQueue) -> Next {
        self.history.push("d".into());
        let next = self.queue.dispatch(queue, self.now);
        if let Next::Start { id, reason } = next {
            let index = reason.map(|reason| usize::from(reason.0));
            let name = index.map_or(Some(""), |index| self.queue.elevator().reasons().get(index).copied());
            let reason = name.expect("every reason has a name");
            let attributes = self.queue.requests().attributes(id);
            self.log.push(Started { text: show(attributes), reason, at_ns: self.now });
            self.in_device.push(id);
            self.check_request(id);
        }
        self.check();
        next
    }

    /// Completes the `index`-th of the requests that the device holds, in the order of their
    /// dispatch.
    pub fn complete(&mut self, index: usize, status: Status) {
        let id = self.in_device.remove(index);
        self.history.push(format!("c:{}", show(self.queue.requests().attributes(id))));
        let in_flight = &mut self.in_flight;
        self.queue.complete(id, status, self.now, |done| {
            let submitted = in_flight.remove(&done.cookie).expect("a bio ends once, and only if it was submitted");
            assert_eq!(submitted.extent, done.bio.extent, "a bio comes back as it was submitted");
            assert_eq!(done.status, status, "a bio ends as its request did");
        });
        self.check();
    }

    /// Requeues the `index`-th request.
    pub fn requeue(&mut self, index: usize) {
        let id = self.in_device.remove(index);
        self.history.push(format!("back:{}", show(self.queue.requests().attributes(id))));
        self.queue.requeue(id, self.now);
        self.check();
    }

    /// Returns the `index`-th request, for which the driver has no room.
    pub fn refuse(&mut self, index: usize) {
        let id = self.in_device.remove(index);
        self.history.push(format!("refuse:{}", show(self.queue.requests().attributes(id))));
        self.queue.refuse(id, self.now);
        self.check();
    }

    /// Ends an issuer.
    pub fn exit(&mut self, context: u32) {
        self.history.push(format!("exit:@{context}"));
        self.queue.context_exited(ContextId(context), self.now);
        self.check();
    }

    /// Takes back what the device has not been given; see [`crate::Call::Withdraw`].
    pub fn withdraw(&mut self, which: u8) {
        self.history.push(format!("withdraw:{which}"));
        let meant: BTreeSet<u64> = self
            .in_flight
            .iter()
            .filter(|(cookie, bio)| match which {
                0..=7 => bio.context.0 == u32::from(which),
                _ => **cookie % 4 == u64::from(which % 4),
            })
            .map(|(cookie, _)| *cookie)
            .collect();
        let (queue, in_flight) = (&mut self.queue, &mut self.in_flight);
        queue.withdraw(
            |cookie| meant.contains(&cookie),
            self.now,
            |cookie| {
                assert!(meant.contains(&cookie), "bio {cookie} was taken back and not meant");
                in_flight.remove(&cookie).expect("a bio ends once, and only if it was submitted");
            },
        );
        self.check_withdrawn(&meant);
        self.check();
    }

    /// What was meant and is still there is in the device, or shares a request with other bios.
    fn check_withdrawn(&self, meant: &BTreeSet<u64>) {
        let requests = self.queue.requests();
        let mut kept = BTreeSet::new();
        for id in (0..requests.capacity()).filter_map(|slot| requests.id_of(slot)) {
            let cookies: Vec<u64> = self.queue.bios_of(id).map(|(cookie, _)| cookie).collect();
            let is_mixed = cookies.iter().any(|cookie| !meant.contains(cookie));
            if is_mixed || requests.at(id).place == Place::Started {
                kept.extend(cookies);
            }
        }
        let left: Vec<&u64> = self.in_flight.keys().filter(|cookie| meant.contains(cookie)).collect();
        assert!(left.iter().all(|cookie| kept.contains(cookie)), "{left:?} are left, {kept:?} may be");
    }

    /// Advances the time; timers that become due fire on time.
    pub fn pass(&mut self, span_ns: Nanos) {
        self.history.push(format!("t+{span_ns}ns"));
        let end = self.now + span_ns;
        while let Some(at) = self.queue.next_timer().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.queue.timer(self.now);
            self.check();
            if self.queue.next_timer() == Some(at) {
                break;
            }
        }
        self.now = end;
        self.check();
    }

    /// Sets a tunable of the policy.
    ///
    /// # Panics
    /// If the policy refuses the value.
    pub fn set(&mut self, name: &str, value: &str) {
        self.history.push(format!("{name}={value}"));
        self.queue.set(name, value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
        self.check();
    }

    /// Dispatches and completes requests one at a time, until none is left.
    ///
    /// # Panics
    /// If requests are queued but the queue returns neither a request nor a time to wait for.
    pub fn rest(&mut self) {
        // A bio needs a few steps (flush, data, flush, and times for which a limiter holds it
        // between them), so if far more steps have passed there is no progress. A step that only
        // advances the time does not count, because a policy that idles may ask for many short
        // waits, but only until a minute has passed since a bio ended.
        let bios = self.in_flight.len() + self.in_device.len();
        let mut left = 1000 + 64 * bios;
        let (mut before, mut latest) = (self.in_flight.len(), self.now + 60 * SECOND);
        loop {
            left -= 1;
            assert!(left > 0, "the queue does not drain: {} bios are in flight", self.in_flight.len());
            if self.in_flight.len() != before {
                (before, latest) = (self.in_flight.len(), self.now + 60 * SECOND);
            }
            match self.dispatch() {
                Next::Start { .. } => self.complete(self.in_device.len() - 1, Status::Ok),
                Next::Plugged => self.unplug_device(),
                Next::Empty if self.in_flight.is_empty() => return,
                _ if !self.in_device.is_empty() => self.complete(0, Status::Ok),
                answer => match self.queue.next_timer() {
                    Some(at) => {
                        left += usize::from(at > self.now && self.now < latest);
                        self.pass(at.saturating_sub(self.now));
                    }
                    None => panic!("{} bios are in flight and the queue answers {answer:?}", self.in_flight.len()),
                },
            }
        }
    }

    /// Checks all invariants.
    #[track_caller]
    pub(crate) fn check(&mut self) {
        if let Err(violation) = self.queue.check() {
            panic!("broken: {} (at {})", violation.what, violation.at);
        }
        let _ = self.queue.take_wake();
        assert_eq!(
            self.queue.bios_in_flight() as usize,
            self.in_flight.len(),
            "bios in flight, as the queue counts and as the testbed counts"
        );
    }

    /// Checks P2 to P4 of docs/specifications/classic-elevators.md for a dispatched request: its
    /// bios are in order, may share it, and respect the limits.
    fn check_request(&self, id: RequestId) {
        const ALONE: Flags = Flags(Flags::FUA.0 | Flags::PREFLUSH.0 | Flags::NOMERGE.0);
        let request = self.queue.requests().attributes(id);
        let limits = &self.settings.limits;
        let bios: Vec<_> = self.queue.bios_of(id).map(|(_, bio)| *bio).collect();
        for pair in bios.windows(2) {
            let [before, after] = pair else { continue };
            assert_eq!(before.priority, after.priority, "bios of one request share their priority");
            assert!(!before.flags.with(after.flags).intersects(ALONE), "marked bios do not merge");
            let may_have_gaps = limits.max_discard_segments > 1;
            assert!(before.extent.is_followed_by(after.extent) || may_have_gaps, "bios of one request are contiguous");
        }
        if bios.len() > 1 {
            assert!(
                request.extent.sectors <= limits.max_sectors_of(request.operation),
                "{} is too long",
                show(request)
            );
            assert!(request.segments <= limits.max_segments, "{} has too many segments", show(request));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "dispatched (left) and expected (right)")]
    fn another_order_fails() {
        let mut testbed = Testbed::new("noop");
        testbed.when("R8 R100 rest");
        testbed.then("R100 R8");
    }

    #[test]
    #[should_panic(expected = "reason of R8")]
    fn another_reason_fails() {
        let mut testbed = Testbed::new("noop");
        testbed.when("R8 rest");
        testbed.then_reason("R8", "overdue");
    }

    #[test]
    #[should_panic(expected = "R100 is not in the device")]
    fn only_what_the_device_holds_can_complete() {
        let mut testbed = Testbed::new("noop");
        testbed.when("R8 d c:R100");
    }

    #[test]
    fn a_comparison_begins_where_the_last_one_ended() {
        let mut testbed = Testbed::new("noop");
        testbed.when("R8 R100 d");
        testbed.then("R8");
        testbed.when("d");
        testbed.then("R100");
        testbed.then("");
    }

    #[test]
    fn a_flush_goes_before_the_data_that_wants_it() {
        let mut testbed = Testbed::new("noop");
        testbed.when("R500 W100flush rest");
        testbed.then("F0sync W100sync R500");
    }
}
