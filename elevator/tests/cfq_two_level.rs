//! uchida and tarasov: the cases of the specification about the controllers of 2008 (section 15), and what their layers of
//! groups owe. Shares are of the device's time.

use block::time::{MILLISECOND, SECOND};
use block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId};
use hoistway_elevator::group::GroupPriority;
use hoistway_elevator::tunable::SettingError;
use hoistway_elevator::{
    Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, registry,
};
use testbed::check_tunables_table;

const HIGH: u32 = 1;
const MIDDLE: u32 = 2;
const LOW: u32 = 3;

/// Who asks: `depth` requests at a time in a region of its own, each a while after the end of the one before.
#[derive(Copy, Clone, Debug)]
struct Flow {
    group: u32,
    context: u32,
    operation: Operation,
    depth: u32,
    think_ns: Nanos,
}

/// One issuer with eight requests always queued.
fn backlogged(group: u32, context: u32) -> Flow {
    Flow { group, context, operation: Operation::Read, depth: 8, think_ns: 0 }
}

/// One issuer that waits for each of its requests, and thinks for 0.1 ms.
fn one_at_a_time(group: u32, context: u32) -> Flow {
    Flow { depth: 1, think_ns: MILLISECOND / 10, ..backlogged(group, context) }
}

/// Two backlogged issuers in each of the groups.
fn everybody(groups: &[u32]) -> Vec<Flow> {
    groups.iter().flat_map(|group| [backlogged(*group, 2 * group), backlogged(*group, 2 * group + 1)]).collect()
}

/// A policy and a device that works on one request at a time.
struct Bench {
    policy: Any,
    requests: Requests,
    now: Nanos,
    service_ns: Nanos,
    in_device: Option<(RequestId, Nanos)>,
    /// When which flow asks next.
    asks: Vec<(Nanos, usize)>,
    flows: Vec<Flow>,
    next_sector: Vec<u64>,
    /// Group and issuer of each request, in the order of service, and when it began.
    served: Vec<(u32, u32, Nanos)>,
}

impl Bench {
    /// `name@version:row=value,...` and the levels of groups 1, 2, ...
    fn new(spec: &str, levels: &[Option<u32>]) -> Self {
        let configuration = Configuration {
            slots: 512,
            groups: 16,
            contexts: 64,
            depth: Depth { requests: 512, device: 1 },
            rotational: true,
            queueing: false,
            ..Configuration::default()
        };
        let (policy, rows) = spec.split_once(':').unwrap_or((spec, ""));
        let (name, version) = policy.split_once('@').unwrap_or((policy, ""));
        let policy = registry::build(name, registry::parse_version(version), &configuration).expect("registered");
        let requests = Requests::try_new(configuration.slots).expect("memory");
        let mut bench = Self {
            policy,
            requests,
            now: SECOND,
            service_ns: MILLISECOND / 5,
            in_device: None,
            asks: Vec::new(),
            flows: Vec::new(),
            next_sector: Vec::new(),
            served: Vec::new(),
        };
        for row in rows.split(',').filter(|row| !row.is_empty()) {
            let (row, value) = row.split_once('=').expect("row=value");
            bench.set(row, value);
        }
        for (group, level) in (1..).zip(levels) {
            bench.policy.group_added(GroupId(group), &settings(*level), bench.now);
        }
        bench
    }

    fn set(&mut self, name: &str, text: &str) {
        let rows = self.policy.tunables();
        let index = rows.iter().position(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"));
        let value = rows[index].parse(text).expect("a value");
        self.policy.set(index, value).expect("in range");
    }

    /// Adds issuers, who ask from now on.
    fn with(&mut self, flows: &[Flow]) -> &mut Self {
        for flow in flows {
            let index = self.flows.len();
            self.flows.push(*flow);
            self.next_sector.push(u64::from(flow.context) << 24);
            for _ in 0..flow.depth {
                self.asks.push((self.now, index));
            }
        }
        self
    }

    fn insert(&mut self, index: usize) {
        let flow = self.flows[index];
        let sector = &mut self.next_sector[index];
        let mut bio = Attributes::new(flow.operation, Extent::new(*sector, 8));
        *sector += 8;
        bio.group = GroupId(flow.group);
        bio.context = ContextId(flow.context);
        let id = self.requests.allocate(bio, self.now).expect("a slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
    }

    fn dispatch(&mut self) {
        if self.in_device.is_some() || !self.policy.has_work(HardwareQueue(0)) {
            return;
        }
        if let Dispatch::Request { id, .. } = self.policy.choose(&self.requests, HardwareQueue(0), self.now) {
            self.requests.move_to(id, Place::Dispatched);
            self.requests.move_to(id, Place::Started);
            let _ = self.policy.started(&self.requests, id, self.now);
            let bio = self.requests.attributes(id);
            self.served.push((bio.group.0, bio.context.0, self.now));
            self.in_device = Some((id, self.now + self.service_ns));
        }
    }

    fn complete(&mut self, id: RequestId) {
        self.in_device = None;
        let bio = *self.requests.attributes(id);
        self.requests.move_to(id, Place::Complete);
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.policy.freed(&self.requests, id, self.now);
        self.requests.free(id);
        let index = self.flows.iter().position(|flow| flow.context == bio.context.0).expect("a known issuer");
        self.asks.push((self.now + self.flows[index].think_ns, index));
    }

    /// Lets so much time pass.
    fn run(&mut self, span_ns: Nanos) -> &mut Self {
        let end = self.now + span_ns;
        loop {
            while let Some(at) = self.asks.iter().position(|(when, _)| *when <= self.now) {
                let (_, index) = self.asks.remove(at);
                self.insert(index);
            }
            self.dispatch();
            let events = self.asks.iter().map(|ask| ask.0).chain(self.in_device.map(|(_, end)| end));
            let next = events.chain(self.policy.next_timer()).min().unwrap_or(end);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if let Some((id, done)) = self.in_device
                && done <= self.now
            {
                self.complete(id);
            }
            if self.policy.next_timer().is_some_and(|at| at <= self.now) {
                let _ = self.policy.timer(&self.requests, self.now);
            }
            assert_eq!(self.policy.violations(), 0);
        }
        self.now = end;
        self.policy.check(&self.requests).expect("invariants");
        self
    }

    /// Forgets what was served so far.
    fn forget(&mut self) -> &mut Self {
        self.served.clear();
        self
    }

    /// Percent of the requests, which all take the same time, by group.
    fn shares(&self, groups: &[u32]) -> Vec<f64> {
        let of = |group: &u32| self.served.iter().filter(|served| served.0 == *group).count();
        let total: usize = groups.iter().map(of).sum();
        groups.iter().map(|group| 100.0 * of(group) as f64 / total as f64).collect()
    }

    /// The turns of groups: which, and how long in ms.
    fn turns(&self) -> Vec<(u32, u64)> {
        let mut turns: Vec<(u32, Nanos, Nanos)> = Vec::new();
        for (group, _, at) in &self.served {
            match turns.last_mut() {
                Some((last, _, until)) if last == group => *until = at + self.service_ns,
                _ => turns.push((*group, *at, at + self.service_ns)),
            }
        }
        turns.iter().map(|(group, from, until)| (*group, (until - from + MILLISECOND / 2) / MILLISECOND)).collect()
    }
}

fn settings(level: Option<u32>) -> GroupSettings {
    let priority = level.map(|level| GroupPriority::new(level).expect("a level"));
    GroupSettings { priority, ..GroupSettings::with_weight(100) }
}

#[track_caller]
fn assert_shares(bench: &Bench, expected: [f64; 3], tolerance: f64) {
    let shares = bench.shares(&[HIGH, MIDDLE, LOW]);
    let is_near = shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() <= tolerance);
    assert!(is_near, "{shares:.1?}, not {expected:.1?} ± {tolerance}");
}

/// The levels of the report for uchida, high, middle and low.
const UCHIDA: [Option<u32>; 3] = [Some(0), Some(4), Some(7)];
/// And for tarasov.
const TARASOV: [Option<u32>; 3] = [Some(7), Some(4), Some(0)];

#[test]
fn t50_uchida_without_key_offset_shares_as_the_slices() {
    let mut bench = Bench::new("uchida:key_offset=0", &UCHIDA);
    bench.with(&everybody(&[HIGH, MIDDLE, LOW])).run(30 * SECOND);
    assert_shares(&bench, [61.5, 30.8, 7.7], 0.3);
    let turns = bench.turns();
    assert_eq!(turns[0].0, HIGH);
    assert!(turns.windows(3).all(|three| three[0].0 != three[2].0), "plain rotation: {turns:?}");
}
