//! A minimal host for bfq. Requests that a test writes as text set up exact cases: `W8be2@1g3` is a
//! write at sector 8 with best-effort level 2, by issuer 1 in group 3
//! (crates/testbed/src/notation.rs). After each step the host checks every invariant and collects
//! the policy's messages.
//!
//! It calls the policy directly and not through a request queue, because tags and merging would
//! blur the exact time of each dispatch.

use hoistway_block::time::{MILLISECOND, SECOND};
use hoistway_block::{ContextId, GroupId, HardwareQueue, Nanos, RequestId, SectorRange};
use hoistway_elevator::{
    Actuators, Admission, Any, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position,
    Requests, registry,
};
use hoistway_testbed::notation::{bio, show};

/// One version of each form that behaves differently: up to 5.1; since the patch series of March
/// 2019, which is in 5.2; 6.1; and the newest.
pub const FORMS: [&str; 4] = ["4.19", "5.2", "6.1", "6.12"];

pub struct Host {
    pub policy: Any,
    pub requests: Requests,
    pub now: Nanos,
    in_device: Vec<RequestId>,
    lines: Vec<String>,
}

impl Host {
    /// `spec` is a version and tunables, for example `6.12:slice_idle=0`. The device is flash, a
    /// tick is 1 ms, `low_latency` is off and messages are on.
    pub fn on_flash(spec: &str) -> Self {
        Self::new(spec, false, MILLISECOND)
    }

    pub fn on_disk(spec: &str) -> Self {
        Self::new(spec, true, MILLISECOND)
    }

    pub fn new(spec: &str, rotational: bool, tick_ns: Nanos) -> Self {
        Self::over(spec, rotational, tick_ns, Actuators::ONE)
    }

    /// On a disk with `count` actuators, each of which has a range of 1,000,000 sectors.
    pub fn on_arms(spec: &str, count: u64) -> Self {
        let range = |arm: u64| SectorRange { first_sector: arm * 1_000_000, sectors: 1_000_000 };
        let ranges: Vec<_> = (0..count).map(range).collect();
        Self::over(spec, true, MILLISECOND, Actuators::of(&ranges))
    }

    fn over(spec: &str, rotational: bool, tick_ns: Nanos, actuators: Actuators) -> Self {
        let (version, tunables) = spec.split_once(':').unwrap_or((spec, ""));
        let configuration = Configuration {
            slots: 1_024,
            groups: 4,
            contexts: 100,
            depth: Depth { requests: 64, device: 64 },
            rotational,
            tick_ns,
            actuators,
            ..Configuration::default()
        };
        let policy = registry::build("bfq", registry::parse_version(version), &configuration);
        let mut host = Self {
            policy: policy.unwrap_or_else(|error| panic!("{spec}: {error:?}")),
            requests: Requests::try_new(configuration.slots).expect("memory"),
            now: 100 * SECOND,
            in_device: Vec::new(),
            lines: Vec::new(),
        };
        host.policy.trace(true);
        host.set("low_latency", 0);
        for setting in tunables.split(',').filter(|setting| !setting.is_empty()) {
            let (row, value) = setting.split_once('=').expect("name=value");
            host.set(row, value.parse().expect("a number"));
        }
        host
    }

    pub fn row(&self, name: &str) -> usize {
        let found = self.policy.tunables().iter().position(|row| row.name == name);
        found.unwrap_or_else(|| panic!("no tunable {name}"))
    }

    pub fn setting(&self, name: &str) -> i64 {
        self.policy.setting(self.row(name)).expect("it has a value")
    }

    pub fn set(&mut self, name: &str, value: i64) {
        let row = self.row(name);
        self.policy.set(row, value).unwrap_or_else(|error| panic!("{name}={value}: {error}"));
    }

    pub fn group(&mut self, group: u32, weight: u32) {
        self.policy.group_added(GroupId(group), &GroupSettings::with_weight(weight), self.now);
    }

    // ---- messages ----

    fn listen(&mut self) {
        while let Some(message) = self.policy.take_message() {
            let about = match message.queue {
                Some((context, is_sync)) => format!("{}{} ", context.0, if is_sync { 'S' } else { 'A' }),
                None => String::new(),
            };
            self.lines.push(format!("{about}{message}"));
        }
        if let Err(violation) = self.policy.check(&self.requests) {
            panic!("broken: {} (at {})", violation.what, violation.at);
        }
        assert_eq!((self.policy.violations(), self.requests.violations()), (0, 0), "violations counted");
    }

    /// Messages since the last call that contain the text.
    pub fn lines_with(&mut self, text: &str) -> Vec<String> {
        self.listen();
        let lines = std::mem::take(&mut self.lines);
        lines.into_iter().filter(|line| line.contains(text)).collect()
    }

    /// How turns ended since the last call; a turn is the time from a queue's selection until it
    /// expires. `1S 3` is the end of a turn of issuer 1's sync queue, for reason 3. bfq's reasons:
    /// 0 idle for too long, 1 timeout, 2 budget used up, 3 no more requests, 4 preempted.
    pub fn ends(&mut self) -> Vec<String> {
        let lines = self.lines_with("expire (");
        lines.iter().map(|line| line.replace("expire (", "").split(',').next().unwrap_or("").to_owned()).collect()
    }

    pub fn forget_lines(&mut self) {
        self.listen();
        self.lines.clear();
    }

    // ---- steps ----

    /// Several requests, separated by blanks.
    pub fn submit(&mut self, text: &str) {
        for word in text.split_whitespace() {
            let id = self.requests.allocate(bio(word), self.now).expect("a free slot");
            self.policy.allocated(&self.requests, id, self.now);
            self.requests.move_to(id, Place::Queued);
            let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
            self.listen();
        }
    }

    pub fn admit(&self, text: &str) -> Admission {
        self.policy.admit(&bio(text), self.now)
    }

    pub fn choose(&mut self) -> Dispatch {
        // Called even if `has_work` is false, because some cases examine the answer while the
        // device is idled.
        let answer = self.policy.choose(&self.requests, HardwareQueue(0), self.now);
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

    /// One dispatch, in notation; empty if nothing is dispatched.
    pub fn dispatch(&mut self) -> String {
        match self.choose() {
            Dispatch::Request { id, .. } => show(self.requests.attributes(id)),
            _ => String::new(),
        }
    }

    /// Dispatches until nothing is left to dispatch: the dispatched requests, in notation.
    pub fn dispatch_all(&mut self) -> String {
        let went = std::iter::from_fn(|| Some(self.dispatch()).filter(|text| !text.is_empty()));
        went.collect::<Vec<_>>().join(" ")
    }

    /// The device completes the oldest request.
    pub fn complete(&mut self) {
        let id = self.in_device.remove(0);
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Complete);
        self.requests.free(id);
        self.listen();
    }

    pub fn complete_all(&mut self) {
        while !self.in_device.is_empty() {
            self.complete();
        }
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
            assert_ne!(self.policy.next_timer(), Some(at), "a timer that fired is over");
        }
        self.now = end;
    }

    pub fn pass_ms(&mut self, span_ms: u64) {
        self.pass(span_ms * MILLISECOND);
    }

    pub fn pass_us(&mut self, span_us: u64) {
        self.pass(span_us * 1_000);
    }

    /// For how long the device is idled from now on, in us; `None` if it is not.
    pub fn kept_us(&mut self) -> Option<u64> {
        match self.choose() {
            Dispatch::Hold { until, .. } => Some((until - self.now) / 1_000),
            _ => None,
        }
    }

    /// Serves each of these requests alone, with a pause after it. Afterwards their issuers are not
    /// new any more, and each has a queue of its own.
    pub fn introduce(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.submit(word);
            self.finish();
            self.pass_ms(700);
        }
        self.forget_lines();
    }

    /// Dispatches and completes everything, as fast as the policy permits.
    pub fn finish(&mut self) {
        for _ in 0..10_000 {
            if !self.dispatch_all().is_empty() {
                continue;
            }
            if !self.in_device.is_empty() {
                self.complete();
            } else if self.policy.has_work(HardwareQueue(0)) || self.policy.next_timer().is_some() {
                self.pass_ms(1);
            } else {
                return;
            }
        }
        panic!("no end");
    }

    /// Teaches the policy that the device holds many requests at a time, or one (`hw_tag` 1 or 0).
    pub fn teach_depth(&mut self, is_deep: bool) {
        for n in 0..96 {
            self.submit(&format!("R{}@79", 1_000_000_000 + n * 8));
        }
        let at_once = if is_deep { 16 } else { 1 };
        for _ in 0..96 {
            while self.in_device.len() < at_once && !self.dispatch().is_empty() {}
            self.pass_us(100);
            self.complete();
        }
        self.exit(79);
        self.pass_ms(2_000);
        self.forget_lines();
    }
}
