//! The processes and the device for which the table in docs/specifications/bfq.md, section 20.4,
//! was measured on Linux: processes with direct random reads on a device that takes exactly 1 ms
//! for each. The policy is called by the rules of blk-mq (section 2 there).
//!
//! The policy is called directly and not through a request queue, because the table was measured
//! with single reads that never merge, and because each row needs tens of thousands of them.

use hoistway_block::random::Stream;
use hoistway_block::time::{MICROSECOND, MILLISECOND, SECOND};
use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, Priority, RequestId};
use hoistway_elevator::{
    Admission, Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position,
    Requests, registry,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const SERVICE_NS: Nanos = MILLISECOND;
/// Processor time from a completion to the process's next request. In the table, whose clock counts
/// instructions, it is 19 us under BFQ and varies with the path through the code.
const HOST_NS: std::ops::Range<Nanos> = 15 * MICROSECOND..23 * MICROSECOND;
/// Time between requests that are dispatched in one run of the queue: in the trace of
/// docs/specifications/bfq.md, section 20.5, a request of process A follows one of process B after
/// 20 to 40 us. Rows 2 and 6 to 9 of the table depend on it. Without it, B's next request would
/// come at the very instant of A's completion; bfq would find the device empty, and from then on
/// always inject B's requests.
const NEXT_NS: Nanos = 30 * MICROSECOND;
/// Time from a completion to the next command, on a device with one command at a time. With 1 ms
/// per command, such a device reaches at most 990 commands a second.
const RESTART_NS: Nanos = 10 * MICROSECOND;
const SLOTS: u32 = 256;
/// `nr_requests`.
const TAGS: u32 = 64;
/// One kernel tick at HZ 250.
const TICK_NS: Nanos = 4 * MILLISECOND;

/// The parameters of a run.
#[derive(Clone)]
pub struct Setup {
    pub scheduler: &'static str,
    /// Commands at a time: 32 in the table's parallel rows, 1 in its serial rows.
    pub device_depth: u32,
    pub rotational: bool,
    /// Groups below the root, with their weights: ids from 1.
    pub groups: Vec<u32>,
    pub processes: Vec<Process>,
    pub warm_up_ns: Nanos,
    pub measured_ns: Nanos,
}

/// A process.
#[derive(Clone, Copy)]
pub struct Process {
    /// The index of the side, A or B of the table, that its results are added to.
    pub side: usize,
    pub group: u32,
    pub priority: Priority,
    pub depth: u32,
    pub sectors: u32,
    pub think_ns: Nanos,
    pub begins_ns: Nanos,
}

/// The results of a side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Side {
    pub ios: u64,
    pub bytes: u64,
    pub longest_ns: Nanos,
    pub latency_ns: u64,
}

impl Side {
    pub fn mean_latency_ms(&self) -> f64 {
        self.latency_ns as f64 / self.ios.max(1) as f64 / 1e6
    }
}

/// A message of the policy.
pub struct Line {
    pub context: Option<u32>,
    pub text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake { process: usize },
    Issue { process: usize },
    Complete { slot: u32 },
    RunQueue,
}

struct Io {
    id: RequestId,
    process: usize,
    asked_ns: Nanos,
}

pub struct Device {
    policy: Any,
    requests: Requests,
    setup: Setup,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    sequence: u64,
    ios: Vec<Option<Io>>,
    /// A request that the policy chose when the device had no room: blk-mq asks for one more
    /// request than it can start.
    parked: Option<RequestId>,
    in_device: u32,
    was_full: bool,
    /// Processes that wait for a tag, in order of arrival. A process is listed once, however many
    /// requests it has yet to submit.
    asleep: VecDeque<usize>,
    unasked: Vec<VecDeque<Nanos>>,
    /// When the processor will be free.
    processor_free: Nanos,
    host: Stream,
    allocated: u32,
    shallow: u32,
    is_shallow: Vec<bool>,
    streams: Vec<Stream>,
    pub sides: Vec<Side>,
    pub lines: Vec<Line>,
    traces: bool,
}

impl Device {
    pub fn new(setup: &Setup) -> Self {
        let configuration = Configuration {
            slots: SLOTS,
            groups: 16,
            contexts: 64,
            depth: Depth { requests: TAGS, device: setup.device_depth },
            rotational: setup.rotational,
            tick_ns: TICK_NS,
            ..Configuration::default()
        };
        let (name, tunables) = setup.scheduler.split_once(':').unwrap_or((setup.scheduler, ""));
        let (name, version) = name.split_once('@').unwrap_or((name, ""));
        let mut policy = registry::build(name, registry::parse_version(version), &configuration).expect("a scheduler");
        for setting in tunables.split(',').filter(|setting| !setting.is_empty()) {
            let (row, value) = setting.split_once('=').expect("name=value");
            let index = policy.tunables().iter().position(|tunable| tunable.name == row).expect("a tunable");
            policy.set(index, value.parse().expect("a number")).expect("in range");
        }
        for (index, weight) in setup.groups.iter().enumerate() {
            let group = GroupId(u32::try_from(index).unwrap() + 1);
            policy.group_added(group, &GroupSettings::with_weight(*weight), 0);
        }
        let streams =
            (0..setup.processes.len()).map(|process| Stream::of(7, &format!("bfq/table/{process}"))).collect();
        let mut device = Self {
            policy,
            requests: Requests::try_new(SLOTS).expect("memory"),
            setup: setup.clone(),
            // Far from 0, so that the policy can subtract any of its intervals from the current
            // time.
            now: 100 * SECOND,
            events: BinaryHeap::new(),
            sequence: 0,
            ios: (0..SLOTS).map(|_| None).collect(),
            parked: None,
            in_device: 0,
            was_full: false,
            asleep: VecDeque::new(),
            unasked: vec![VecDeque::new(); setup.processes.len()],
            processor_free: 0,
            host: Stream::of(7, "bfq/table/host"),
            allocated: 0,
            shallow: 0,
            is_shallow: vec![false; SLOTS as usize],
            streams,
            sides: vec![Side::default(); 2],
            lines: Vec::new(),
            traces: false,
        };
        for (index, process) in setup.processes.iter().enumerate() {
            for _ in 0..process.depth {
                device.wake(index, device.now + process.begins_ns);
            }
        }
        device
    }

    pub fn trace(mut self) -> Self {
        self.traces = true;
        self
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    /// A process has work from `at` on.
    fn wake(&mut self, process: usize, at: Nanos) {
        self.at(at, Event::Wake { process });
    }

    pub fn run(mut self) -> Self {
        let begins = self.now + self.setup.warm_up_ns;
        let ends = begins + self.setup.measured_ns;
        let mut is_measuring = false;
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let timer = self.policy.next_timer();
            let next = [event, timer].into_iter().flatten().min().expect("an event or a timer is always pending");
            if !is_measuring && next >= begins {
                is_measuring = true;
                self.sides.fill(Side::default());
                self.policy.trace(self.traces);
            }
            if next >= ends {
                return self;
            }
            self.now = self.now.max(next);
            // A timer fires before the events of the same instant, so a request that arrives when
            // bfq's idle timer expires is too late.
            if timer.is_some_and(|at| at <= self.now) {
                let wake = self.policy.timer(&self.requests, self.now);
                // A worker runs the queue. There is one processor, so it waits while a process is about
                // to submit its next request.
                if wake.is_wanted() {
                    self.at(self.now.max(self.processor_free), Event::RunQueue);
                }
            } else if let Some(Reverse((_, _, event))) = self.events.pop() {
                match event {
                    Event::Wake { process } => {
                        let spent = HOST_NS.start + self.host.below(HOST_NS.end - HOST_NS.start);
                        self.processor_free = self.processor_free.max(self.now) + spent;
                        self.at(self.processor_free, Event::Issue { process });
                    }
                    Event::Issue { process } => {
                        self.unasked[process].push_back(self.now);
                        if !self.asleep.contains(&process) {
                            self.ask(process);
                        }
                    }
                    Event::Complete { slot } => self.complete(slot),
                    Event::RunQueue => self.dispatch(),
                }
            }
            self.take_lines();
        }
    }

    fn take_lines(&mut self) {
        while let Some(message) = self.policy.take_message() {
            let context = message.queue.map(|(context, _)| context.0);
            self.lines.push(Line { context, text: message.to_string() });
        }
    }

    fn attributes(&mut self, process: usize) -> Attributes {
        let what = self.setup.processes[process];
        let first_sector = self.streams[process].below(1 << 22) * 256;
        let mut attributes = Attributes::new(Operation::Read, Extent::new(first_sector, what.sectors));
        attributes.priority = what.priority;
        attributes.context = ContextId(u32::try_from(process).unwrap());
        attributes.group = GroupId(what.group);
        attributes
    }

    /// Submits the requests that a process has issued, until it has to sleep for a tag.
    fn ask(&mut self, process: usize) {
        while let Some(asked_ns) = self.unasked[process].front().copied() {
            let attributes = self.attributes(process);
            let admission = self.policy.admit(&attributes, self.now);
            let is_admitted = match admission {
                Admission::Full | Admission::Must => self.allocated < TAGS,
                Admission::Shallow(most) => self.allocated < TAGS && self.shallow < most,
            };
            if !is_admitted {
                self.asleep.push_back(process);
                return;
            }
            self.unasked[process].pop_front();
            self.issue(process, asked_ns, attributes, matches!(admission, Admission::Shallow(_)));
        }
    }

    fn issue(&mut self, process: usize, asked_ns: Nanos, attributes: Attributes, is_shallow: bool) {
        let id = self.requests.allocate(attributes, self.now).expect("a slot");
        let slot = id.slot() as usize;
        self.allocated += 1;
        self.is_shallow[slot] = is_shallow;
        self.shallow += u32::from(is_shallow);
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        self.ios[slot] = Some(Io { id, process, asked_ns });
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
        self.dispatch();
    }

    /// Dispatches until nothing is left or the device is full; one more request is then taken and
    /// parked.
    fn dispatch(&mut self) {
        let mut began = 0;
        loop {
            let has_room = self.in_device < self.setup.device_depth;
            if let Some(parked) = self.parked {
                if !has_room {
                    return;
                }
                self.parked = None;
                self.start(parked, RESTART_NS);
                began += 1;
                continue;
            }
            self.was_full = !has_room;
            if !self.policy.has_work(HardwareQueue(0)) {
                return;
            }
            let Dispatch::Request { id, .. } = self.policy.choose(&self.requests, HardwareQueue(0), self.now) else {
                return;
            };
            self.requests.move_to(id, Place::Dispatched);
            if !has_room {
                self.parked = Some(id);
                return;
            }
            self.start(id, began.min(1) * NEXT_NS);
            began += 1;
        }
    }

    fn start(&mut self, id: RequestId, after_ns: Nanos) {
        self.requests.move_to(id, Place::Started).expect("live").issued_ns = self.now;
        let _ = self.policy.started(&self.requests, id, self.now);
        self.in_device += 1;
        self.at(self.now + after_ns + SERVICE_NS, Event::Complete { slot: id.slot() });
    }

    fn complete(&mut self, slot: u32) {
        let io = self.ios[slot as usize].take().expect("an I/O");
        self.in_device -= 1;
        let wake = self.policy.completed(&self.requests, io.id, self.now);
        let wake = wake.and(self.policy.released(&self.requests, io.id, self.now));
        self.policy.freed(&self.requests, io.id, self.now);
        self.requests.move_to(io.id, Place::Complete);
        self.requests.free(io.id);
        self.allocated -= 1;
        self.shallow -= u32::from(self.is_shallow[slot as usize]);
        let process = self.setup.processes[io.process];
        let side = &mut self.sides[process.side];
        side.ios += 1;
        side.bytes += u64::from(process.sectors) * 512;
        side.longest_ns = side.longest_ns.max(self.now - io.asked_ns);
        side.latency_ns += self.now - io.asked_ns;
        self.wake(io.process, self.now + process.think_ns);
        // All sleeping processes try again, in order.
        for process in std::mem::take(&mut self.asleep) {
            self.ask(process);
        }
        if wake.is_wanted() || self.parked.is_some() || self.was_full {
            self.dispatch();
        }
    }
}
