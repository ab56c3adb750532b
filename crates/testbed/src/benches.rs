//! The benchmarks common to all policies: the cost of a policy by itself, without a request queue.

use crate::load::{GroupedLoad, STEP_NS};
use crate::spec::Spec;
use criterion::{BenchmarkId, Criterion, Throughput};
use hoistway_block::random::Stream;
use hoistway_block::{ContextId, Extent, GroupId, HardwareQueue, Nanos, Operation, RequestId};
use hoistway_elevator::{
    Any, Attributes, Configuration, Depth, Dispatch, Elevator, GroupSettings, Hint, Position, Requests,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Queued requests during the measurement, each with an issuer and a group of its own.
const BACKLOGS: [u32; 4] = [1, 100, 1_000, 10_000];

/// Calls timed together.
const CHUNK: u64 = 32;
/// `insert` and `choose+dispatch` are only measured for a policy that has dispatched this many
/// chunks completely, without a completion before the end of a chunk.
const PROBED_CHUNKS: u32 = 512;

/// Measures `insert`, `choose+dispatch` and `full_turn` (insert, choose, complete) at 1 to 10,000
/// queued requests. A policy that holds requests while others are in flight is measured in full
/// turns only.
///
/// # Panics
/// If there is no such policy, version or tunable, or if the policy dispatches nothing although
/// requests are queued and none is in flight.
pub fn policy_benches(criterion: &mut Criterion, spec: &str) {
    let mut group = criterion.benchmark_group(spec);
    group.throughput(Throughput::Elements(1));
    for backlog in BACKLOGS.into_iter().filter(|backlog| Bench::new(spec, *backlog).dispatches_chunks()) {
        group.bench_function(BenchmarkId::new("insert", backlog), |bencher| {
            bencher.iter_custom(|turns| Bench::new(spec, backlog).chunks(turns, Timed::Insert));
        });
        group.bench_function(BenchmarkId::new("choose+dispatch", backlog), |bencher| {
            bencher.iter_custom(|turns| Bench::new(spec, backlog).chunks(turns, Timed::Choose));
        });
    }
    for backlog in BACKLOGS {
        group.bench_function(BenchmarkId::new("full_turn", backlog), |bencher| {
            bencher.iter_custom(|turns| Bench::new(spec, backlog).full_turns(turns));
        });
    }
    group.finish();
}

/// Measures a turn (insert, choose, complete) of several policies in one run, with `issuers`
/// backlogged issuers in `groups` groups.
///
/// # Panics
/// As [`policy_benches`].
pub fn grouped_benches<S: AsRef<str>>(criterion: &mut Criterion, specs: &[S], issuers: u32, groups: u32) {
    let mut group = criterion.benchmark_group(format!("{issuers} issuers in {groups} groups"));
    group.throughput(Throughput::Elements(1));
    for spec in specs.iter().map(AsRef::as_ref) {
        let mut load = GroupedLoad::new(spec, issuers, groups);
        group.bench_function(spec, |bencher| bencher.iter(|| load.turn()));
    }
    group.finish();
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Timed {
    Insert,
    Choose,
}

/// A policy with a constant number of queued requests. Tags and table are the host's cost and are
/// excluded: a completed request is inserted again under its old id, at a new position.
struct Bench {
    policy: Any,
    requests: Requests,
    spare: Vec<RequestId>,
    places: Stream,
    now: Nanos,
}

impl Bench {
    fn new(spec: &str, backlog: u32) -> Self {
        let slots = backlog + u32::try_from(CHUNK).expect("small");
        let configuration = Configuration {
            slots,
            groups: slots + 1,
            contexts: slots,
            depth: Depth { requests: slots, device: slots },
            ..Configuration::default()
        };
        let mut policy = Spec::parse(spec).build(&configuration);
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

    /// Gives a spare request a new position; this is not measured.
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

    /// Whether the policy dispatches several chunks of requests although none of a chunk completes.
    fn dispatches_chunks(mut self) -> bool {
        (0..PROBED_CHUNKS).all(|_| {
            self.now += STEP_NS * CHUNK;
            (0..CHUNK).for_each(|_| self.prepare_and_insert());
            let chosen: Vec<_> = (0..CHUNK).map_while(|_| self.try_choose()).collect();
            let is_whole = chosen.len() as u64 == CHUNK;
            chosen.into_iter().for_each(|id| self.complete(id));
            is_whole
        })
    }

    fn choose(&mut self) -> RequestId {
        self.try_choose().expect("a policy with queued requests dispatches one in the end")
    }

    #[inline]
    fn try_choose(&mut self) -> Option<RequestId> {
        // A policy may ask to wait first; then time advances to the given time.
        for _ in 0..64 {
            match self.policy.choose(&self.requests, HardwareQueue(0), self.now) {
                Dispatch::Request { id, .. } => {
                    let _ = self.policy.started(&self.requests, id, self.now);
                    return Some(id);
                }
                Dispatch::Hold { until, .. } => {
                    self.now = self.now.max(until);
                    let _ = self.policy.timer(&self.requests, self.now);
                }
                Dispatch::Throttled => self.now += STEP_NS,
                Dispatch::Empty => break,
            }
        }
        None
    }

    #[inline]
    fn complete(&mut self, id: RequestId) {
        let _ = self.policy.completed(&self.requests, id, self.now);
        let _ = self.policy.released(&self.requests, id, self.now);
        self.spare.push(id);
    }

    /// Inserts and chooses in chunks, and times one of the two.
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
            // Positions are prepared ahead, so that only the policy is timed.
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
