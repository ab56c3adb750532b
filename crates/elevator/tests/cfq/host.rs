//! A minimal host for one policy. Requests that a test writes as text set up exact cases:
//! `W8be2@1g3` is a write at sector 8 with best-effort level 2, by issuer 1 in group 3
//! (crates/testbed/src/notation.rs). For shares, readers use a device of parallel servers
//! (`model.rs`).
//!
//! It calls the policy directly and not through a request queue, because tags and merging would
//! change what the cases examine (messages, accounts, the exact time of each dispatch), and because
//! tests of shares need hundreds of thousands of requests. In the exact cases every invariant is
//! checked after each step.

use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId};
use hoistway_elevator::{
    Any, Bio, Configuration, Depth, Dispatch, Elevator, GroupAccount, GroupSettings, Hint, Place, Position, Requests,
    registry,
};
use hoistway_testbed::notation::{bio, show};

pub const MS: Nanos = MILLISECOND;

pub struct Host {
    pub policy: Any,
    pub requests: Requests,
    pub now: Nanos,
    /// Requests in flight, oldest first.
    pub in_device: Vec<RequestId>,
    lines: Vec<String>,
    is_tracing: bool,
    checks: bool,
}

/// The parts of a host's configuration that some cases change; everything else has the defaults of
/// docs/specifications/cfq.md.
pub struct Built {
    pub rotational: bool,
    pub tick_ns: Nanos,
    pub groups: u32,
    pub contexts: u32,
    pub slots: u32,
    /// Whether `group_isolation` is set to 1 in forms that have it.
    pub isolates: bool,
}

pub const DISK: Built = Built { rotational: true, tick_ns: 0, groups: 12, contexts: 80, slots: 512, isolates: true };
pub const FLASH: Built = Built { rotational: false, ..DISK };

impl Host {
    /// `spec` is a policy with tunables, for example `cfq@2.6.36:slice_idle=0`. The device is
    /// rotational and a tick is 1 ms. `group_isolation` is set to 1 in forms that have it.
    pub fn new(spec: &str) -> Self {
        Self::with(spec, &DISK)
    }

    pub fn with(spec: &str, built: &Built) -> Self {
        let (policy, tunables) = spec.split_once(':').unwrap_or((spec, ""));
        let (name, version) = policy.split_once('@').expect("a version");
        let configuration = Configuration {
            slots: built.slots,
            groups: built.groups,
            contexts: built.contexts,
            depth: Depth { requests: built.slots, device: built.slots },
            rotational: built.rotational,
            tick_ns: built.tick_ns,
            ..Configuration::default()
        };
        let built_policy = registry::build(name, registry::parse_version(version), &configuration);
        let mut host = Self {
            policy: built_policy.unwrap_or_else(|error| panic!("{spec}: {error:?}")),
            requests: Requests::try_new(configuration.slots).expect("memory"),
            now: 100 * SECOND,
            in_device: Vec::new(),
            lines: Vec::new(),
            is_tracing: false,
            checks: true,
        };
        if built.isolates && host.setting("group_isolation").is_some() {
            host.set("group_isolation", 1);
        }
        for setting in tunables.split(',').filter(|setting| !setting.is_empty()) {
            let (row, value) = setting.split_once('=').expect("name=value");
            host.set(row, value.parse().expect("a number"));
        }
        host
    }

    fn row(&self, name: &str) -> Option<usize> {
        self.policy.tunables().iter().position(|row| row.name == name)
    }

    pub fn setting(&self, name: &str) -> Option<i64> {
        self.policy.setting(self.row(name)?)
    }

    pub fn set(&mut self, name: &str, value: i64) {
        let row = self.row(name).unwrap_or_else(|| panic!("no tunable {name}"));
        self.policy.set(row, value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
    }

    pub fn group(&mut self, group: u32, weight: u32) {
        self.policy.group_added(GroupId(group), &GroupSettings::with_weight(weight), self.now);
    }

    pub fn account(&self, group: u32) -> GroupAccount {
        self.policy.group_account(GroupId(group)).expect("cfq keeps accounts")
    }

    /// Stops checking invariants after each step; for long runs.
    pub fn unchecked(mut self) -> Self {
        self.checks = false;
        self
    }

    // ---- messages ----

    pub fn trace(&mut self) {
        self.is_tracing = true;
        self.policy.trace(true);
    }

    fn listen(&mut self) {
        if self.is_tracing {
            while let Some(message) = self.policy.take_message() {
                let about = match (message.queue, message.group) {
                    (Some((context, is_sync)), _) => format!("{}{} ", context.0, if is_sync { 'S' } else { 'A' }),
                    (None, Some(group)) => format!("g{} ", group.0),
                    (None, None) => String::new(),
                };
                self.lines.push(format!("{about}{message}"));
            }
        }
        if self.checks {
            self.check();
        }
    }

    pub fn check(&self) {
        if let Err(violation) = self.policy.check(&self.requests) {
            panic!("broken: {} (at {})", violation.what, violation.at);
        }
        assert_eq!((self.policy.violations(), self.requests.violations()), (0, 0), "violations counted");
    }

    /// The messages since the last call.
    pub fn lines(&mut self) -> Vec<String> {
        self.listen();
        std::mem::take(&mut self.lines)
    }

    /// Messages since the last call that contain the text.
    pub fn lines_with(&mut self, text: &str) -> Vec<String> {
        self.lines().into_iter().filter(|line| line.contains(text)).collect()
    }

    // ---- steps ----

    pub fn submit(&mut self, text: &str) -> RequestId {
        self.submit_bio(&bio(text))
    }

    pub fn submit_bio(&mut self, bio: &Bio) -> RequestId {
        let id = self.requests.allocate(*bio, self.now).expect("a free slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
        self.listen();
        id
    }

    /// Several requests, separated by blanks.
    pub fn given(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.submit(word);
        }
    }

    pub fn choose(&mut self) -> Dispatch {
        let answer = match self.policy.has_work(HardwareQueue(0)) {
            true => self.policy.choose(&self.requests, HardwareQueue(0), self.now),
            false => Dispatch::Empty,
        };
        if let Dispatch::Request { id, .. } = answer {
            self.requests.move_to(id, Place::Dispatched);
            if let Some(request) = self.requests.move_to(id, Place::Started) {
                request.issued_ns = self.now;
            }
            let _ = self.policy.started(&self.requests, id, self.now);
            self.in_device.push(id);
        }
        self.listen();
        answer
    }

    /// One dispatch, in notation; `None` if nothing is dispatched.
    pub fn dispatch(&mut self) -> Option<String> {
        match self.choose() {
            Dispatch::Request { id, .. } => Some(show(self.requests.attributes(id))),
            _ => None,
        }
    }

    /// Dispatches until nothing is left to dispatch: the dispatched requests, in notation.
    pub fn dispatch_all(&mut self) -> String {
        let went: Vec<String> = std::iter::from_fn(|| self.dispatch()).collect();
        went.join(" ")
    }

    /// Dispatches until nothing is left to dispatch: the number of requests.
    pub fn dispatched(&mut self) -> usize {
        std::iter::from_fn(|| self.dispatch()).count()
    }

    /// The device completes the request whose notation begins like this.
    pub fn complete(&mut self, text: &str) {
        let wanted = bio(text);
        let is_it = |id: &RequestId| {
            let found = self.requests.attributes(*id);
            found.operation == wanted.operation && found.extent.first_sector == wanted.extent.first_sector
        };
        let index = self.in_device.iter().position(is_it).unwrap_or_else(|| panic!("{text} is not in the device"));
        self.complete_nth(index);
    }

    pub fn complete_nth(&mut self, index: usize) -> Bio {
        let id = self.in_device.remove(index);
        let bio = *self.requests.attributes(id);
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Complete);
        self.requests.free(id);
        self.listen();
        bio
    }

    pub fn exit(&mut self, context: u32) {
        let _ = self.policy.context_exited(ContextId(context), self.now);
        self.listen();
    }

    /// Lets time pass; timers fire on time.
    pub fn pass(&mut self, span_ns: Nanos) {
        let end = self.now + span_ns;
        while let Some(at) = self.policy.next_timer().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let _ = self.policy.timer(&self.requests, self.now);
            self.listen();
            if self.policy.next_timer() == Some(at) {
                break;
            }
        }
        self.now = end;
    }

    pub fn pass_ms(&mut self, span_ms: u64) {
        self.pass(span_ms * MS);
    }

    /// Dispatches and completes everything.
    pub fn rest(&mut self) {
        for _ in 0..100_000 {
            if self.dispatched() > 0 {
                continue;
            }
            if !self.in_device.is_empty() {
                self.complete_nth(0);
            } else if self.policy.has_work(HardwareQueue(0)) || self.policy.next_timer().is_some() {
                self.pass_ms(1);
            } else {
                return;
            }
        }
        panic!("no end of the rest");
    }

    /// Teaches the policy that the device queues commands (`hw_tag` 1), or does not (0).
    pub fn teach_depth(&mut self, is_deep: bool) {
        for n in 0..96 {
            self.submit(&format!("R{}@79", 1_000_000_000 + n * 8));
        }
        let at_once = if is_deep { 16 } else { 1 };
        while !self.policy_is_empty() || !self.in_device.is_empty() {
            while self.in_device.len() < at_once && self.dispatch().is_some() {}
            self.pass_ms(1);
            if !self.in_device.is_empty() {
                self.complete_nth(0);
            }
        }
        self.exit(79);
        self.pass_ms(2_000);
        self.lines.clear();
    }

    fn policy_is_empty(&self) -> bool {
        !self.policy.has_work(HardwareQueue(0))
    }
}
