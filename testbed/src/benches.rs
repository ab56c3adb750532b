//! The three benches that every policy has: what it costs by itself, without a queue round it.

use crate::testbed::split_version;
use block::random::Stream;
use block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId};
use criterion::{BenchmarkId, Criterion, Throughput};
use elevator::{
    Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Place, Position, Requests, registry,
};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Queued requests during the measurement, each of an issuer and a group of its own.
const BACKLOGS: [u32; 4] = [1, 100, 1_000, 10_000];

/// How many calls are timed together.
const CHUNK: u64 = 32;

/// Time per call, so that shares and deadlines move: a device of 100,000 requests per second.
const STEP_NS: Nanos = 10_000;

/// Measures `insert`, `choose+dispatch` and `full_turn` (insert, choose, complete) at 1 to 10,000 queued requests.
///
/// # Panics
/// When there is no such policy, or it answers nothing with a full queue.
pub fn policy_benches(criterion: &mut Criterion, policy: &str) {
    let mut group = criterion.benchmark_group(policy);
    group.throughput(Throughput::Elements(1));
    for backlog in BACKLOGS {
        group.bench_function(BenchmarkId::new("insert", backlog), |bencher| {
            bencher.iter_custom(|turns| Bench::new(policy, backlog).chunks(turns, Timed::Insert));
        });
        group.bench_function(BenchmarkId::new("choose+dispatch", backlog), |bencher| {
            bencher.iter_custom(|turns| Bench::new(policy, backlog).chunks(turns, Timed::Choose));
        });
        group.bench_function(BenchmarkId::new("full_turn", backlog), |bencher| {
            bencher.iter_custom(|turns| Bench::new(policy, backlog).full_turns(turns));
        });
    }
    group.finish();
}

/// Measures a turn (insert, choose, complete) of several policies in one run, with so many backlogged issuers in groups.
///
/// # Panics
/// As [`policy_benches`].
pub fn grouped_benches(criterion: &mut Criterion, specs: &[&str], issuers: u32, groups: u32) {
    let mut group = criterion.benchmark_group(format!("{issuers} issuers in {groups} groups"));
    group.throughput(Throughput::Elements(1));
    for spec in specs {
        let mut load = GroupedLoad::new(spec, issuers, groups);
        group.bench_function(*spec, |bencher| bencher.iter(|| load.turn()));
    }
    group.finish();
}

/// A policy with a constant number of backlogged issuers in groups of different weight: whoever was served asks again. A
/// turn takes 10 us, so that slices end and groups take turns; each issuer has two random 4 KiB reads outstanding.
#[derive(Debug)]
pub struct GroupedLoad {
    policy: Any,
    requests: Requests,
    groups: u32,
    sectors: Vec<u64>,
    turns: usize,
    now: Nanos,
    inside: VecDeque<RequestId>,
    depth: usize,
}

impl GroupedLoad {
    /// The policy by name, with `@VERSION` in that form.
    ///
    /// # Panics
    /// When there is no such policy.
    pub fn new(spec: &str, issuers: u32, groups: u32) -> Self {
        Self::over(false, 1, spec, issuers, groups)
    }

    /// The same over flash that has so many requests inside at a time.
    ///
    /// # Panics
    /// As [`Self::new`], and when the depth is 0.
    pub fn with_depth(depth: usize, spec: &str, issuers: u32, groups: u32) -> Self {
        assert!(depth > 0, "one is inside at least");
        Self::over(false, depth, spec, issuers, groups)
    }

    /// The same over a device where positioning costs time.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn on_disk(spec: &str, issuers: u32, groups: u32) -> Self {
        Self::over(true, 1, spec, issuers, groups)
    }

    fn over(rotational: bool, depth: usize, spec: &str, issuers: u32, groups: u32) -> Self {
        let slots = 2 * issuers + 8;
        let configuration = Configuration {
            slots,
            rotational,
            contexts: issuers + 1,
            groups: groups + 1,
            depth: Depth { requests: slots, device: 32 },
            ..Configuration::default()
        };
        let (name, version) = split_version(spec);
        let policy = registry::build(name, version, &configuration);
        let mut random = Stream::new(7);
        let mut load = Self {
            policy: policy.unwrap_or_else(|error| panic!("{spec}: {error:?}")),
            requests: Requests::try_new(slots).expect("memory"),
            groups,
            sectors: (0..4096).map(|_| random.next() >> 30).collect(),
            turns: 0,
            now: 0,
            inside: VecDeque::with_capacity(depth + 1),
            depth,
        };
        for group in 1..=groups {
            load.policy.group_added(GroupId(group), &GroupSettings::with_weight(100 + group), 0);
        }
        for ask in 0..2 * issuers {
            load.ask(ask % issuers);
        }
        load
    }

    fn ask(&mut self, issuer: u32) {
        // A power of two of them, so that picking the next costs a mask.
        let first_sector = self.sectors[self.turns % 4096];
        self.turns += 1;
        let mut bio = Attributes::new(Operation::Read, Extent::new(first_sector, 8));
        (bio.context, bio.group) = (ContextId(issuer), GroupId(1 + issuer % self.groups));
        let id = self.requests.allocate(bio, self.now).expect("a slot");
        self.policy.allocated(&self.requests, id, self.now);
        self.requests.move_to(id, Place::Queued);
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
    }

    /// One request is chosen and started, the oldest inside is completed, and its issuer asks again.
    ///
    /// # Panics
    /// When nothing is chosen although nothing is inside.
    pub fn turn(&mut self) {
        self.now += STEP_NS;
        while self.inside.len() < self.depth {
            match self.policy.choose(&self.requests, HardwareQueue(0), self.now) {
                Dispatch::Request { id, .. } => {
                    self.requests.move_to(id, Place::Dispatched);
                    self.requests.move_to(id, Place::Started);
                    let _ = self.policy.started(&self.requests, id, self.now);
                    self.inside.push_back(id);
                }
                // A policy that waits for somebody may be waiting for one of those inside.
                _ if !self.inside.is_empty() => break,
                Dispatch::Hold { until, .. } => {
                    self.now = self.now.max(until);
                    let _ = self.policy.timer(&self.requests, self.now);
                }
                answer => panic!("everybody is backlogged, and the answer is {answer:?}"),
            }
        }
        let Some(id) = self.inside.pop_front() else { return };
        self.requests.move_to(id, Place::Complete);
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        let issuer = self.requests.attributes(id).context.0;
        self.policy.freed(&self.requests, id, self.now);
        self.requests.free(id);
        self.ask(issuer);
    }
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Timed {
    Insert,
    Choose,
}

/// A policy with a constant number of queued requests. Tags and table are the host's cost and stay out: a finished
/// request is inserted again under its old id, at a new place.
struct Bench {
    policy: Any,
    requests: Requests,
    spare: Vec<RequestId>,
    places: Stream,
    now: Nanos,
}

impl Bench {
    fn new(name: &str, backlog: u32) -> Self {
        let slots = backlog + u32::try_from(CHUNK).expect("small");
        let configuration = Configuration {
            slots,
            groups: slots + 1,
            contexts: slots,
            depth: Depth { requests: slots, device: slots },
            ..Configuration::default()
        };
        let mut policy =
            registry::build(name, None, &configuration).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let mut requests = Requests::try_new(slots).expect("memory");
        let mut spare = Vec::new();
        for n in 0..slots {
            policy.group_added(GroupId(n + 1), &GroupSettings::with_weight(100 + n % 7), 0);
            let mut attributes = Attributes::new(Operation::Read, Extent::new(0, 8));
            attributes.context = ContextId(n);
            attributes.group = GroupId(n + 1);
            let id = requests.allocate(attributes, 0).expect("a slot is free");
            policy.allocated(&requests, id, 0);
            spare.push(id);
        }
        let mut bench = Self { policy, requests, spare, places: Stream::new(u64::from(backlog)), now: 1_000_000_000 };
        for _ in 0..backlog {
            bench.prepare_and_insert();
        }
        bench
    }

    /// Gives a spare request a new place; this is not measured.
    fn prepare(&mut self) -> RequestId {
        let id = self.spare.pop().expect("a spare request");
        let first_sector = self.places.below(1 << 30);
        if let Some(request) = self.requests.live_mut(id) {
            request.attributes.extent.first_sector = first_sector;
            request.start_ns = self.now;
        }
        id
    }

    #[inline]
    fn insert(&mut self, id: RequestId) {
        let _ = self.policy.insert(&self.requests, id, Position::Sorted(Hint::None), self.now);
    }

    fn prepare_and_insert(&mut self) {
        let id = self.prepare();
        self.insert(id);
    }

    #[inline]
    fn choose(&mut self) -> RequestId {
        // A policy may want to wait first; then the time it names passes.
        for _ in 0..64 {
            match self.policy.choose(&self.requests, HardwareQueue(0), self.now) {
                Dispatch::Request { id, .. } => {
                    let _ = self.policy.started(&self.requests, id, self.now);
                    return id;
                }
                Dispatch::Hold { until, .. } => {
                    self.now = self.now.max(until);
                    let _ = self.policy.timer(&self.requests, self.now);
                }
                Dispatch::Throttled => self.now += STEP_NS,
                Dispatch::Empty => break,
            }
        }
        panic!("the policy gives nothing although requests are queued");
    }

    #[inline]
    fn complete(&mut self, id: RequestId) {
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.spare.push(id);
    }

    /// Inserts and chooses in chunks, timing one of the two.
    fn chunks(mut self, turns: u64, timed: Timed) -> Duration {
        let mut spent = Duration::ZERO;
        let mut left = turns;
        while left > 0 {
            let chunk = left.min(CHUNK);
            left -= chunk;
            self.now += STEP_NS * chunk;
            let ids: Vec<_> = (0..chunk).map(|_| self.prepare()).collect();
            let begin = Instant::now();
            ids.into_iter().for_each(|id| self.insert(black_box(id)));
            let inserted = Instant::now();
            let chosen: Vec<_> = (0..chunk).map(|_| black_box(self.choose())).collect();
            let end = Instant::now();
            spent += if timed == Timed::Insert { inserted - begin } else { end - inserted };
            chosen.into_iter().for_each(|id| self.complete(id));
        }
        spent
    }

    fn full_turns(mut self, turns: u64) -> Duration {
        let mut spent = Duration::ZERO;
        let mut left = turns;
        while left > 0 {
            let chunk = left.min(CHUNK);
            left -= chunk;
            // The places are prepared ahead, so that only the policy is timed.
            let ids: Vec<_> = (0..chunk).map(|_| self.prepare()).collect();
            let begin = Instant::now();
            for id in ids {
                self.now += STEP_NS;
                self.insert(id);
                let chosen = self.choose();
                self.complete(black_box(chosen));
            }
            spent += begin.elapsed();
        }
        spent
    }
}
