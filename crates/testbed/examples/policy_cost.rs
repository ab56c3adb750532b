//! Measures the cost of a policy per request: one insert, one choice, one completion, at a steady
//! number of backlogged queues.
//!
//! ```text
//! cargo run --release -p hoistway-testbed --example policy_cost -- policy|queue NAME QUEUES [TURNS [ROUNDS [GROUPS [INSIDE [OUTSTANDING]]]]]
//! cargo run --release -p hoistway-testbed --example policy_cost -- batch NAME REQUESTS [TURNS [ROUNDS]]
//! cargo run --release -p hoistway-testbed --example policy_cost -- calibrate
//! cargo run --release -p hoistway-testbed --example policy_cost -- names
//! ```
//! NAME may include a version (`cfq@2.6.36`). With GROUPS (policy only) the issuers are spread over
//! this many groups, each keeps OUTSTANDING reads (default 2) queued or in flight, and a turn takes
//! 10 us, so that slices expire and groups alternate; INSIDE requests are in flight (default 1).
//! `calibrate` prints the nanoseconds of one xorshift step, for comparing processors; `names` the
//! policies of the registry.
//!
//! `batch` is one issuer alone: REQUESTS requests arrive at once, then each is chosen and completed
//! before the next one, as in the kernel module's test `cost`; a turn is a request. `policy` drives
//! the elevator alone with its request table, `queue` the whole request queue around it. Every
//! queue (issuer) has one random 4 KiB read waiting. Prints the fewest nanoseconds per request of
//! all rounds; `bench/policies/run` runs it for all policies, and again under callgrind for the
//! instructions.

use hoistway_block::{ContextId, Extent, HardwareQueue, Operation, RequestId, Status, random::Stream};
use hoistway_elevator::registry::OwnedVisitor;
use hoistway_elevator::{
    Any, Attributes, Bio, Configuration, Depth, Dispatch, Elevator, Hint, Place, Position, Requests, Version, registry,
};
use hoistway_testbed::queue::{Era, Next, RequestQueue, Settings};
use hoistway_testbed::{GroupedLoad, LoadShape};
use std::process::ExitCode;
use std::time::Instant;

const QUEUE: HardwareQueue = HardwareQueue(0);
/// A power of two, so that choosing the next sector costs a mask.
const SECTORS: usize = 4096;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["calibrate"] {
        println!("{:.2}", xorshift_ns());
        return ExitCode::SUCCESS;
    }
    if arguments == ["names"] {
        registry::ENTRIES.iter().for_each(|entry| println!("{}", entry.name));
        return ExitCode::SUCCESS;
    }
    let number = |at: usize, default: u64| arguments.get(at).map_or(Some(default), |text| text.parse().ok());
    let parsed = (arguments.first(), arguments.get(1), number(2, 0), number(3, 100_000), number(4, 1));
    let (Some(what), Some(name), Some(queues @ 1..=100_000), Some(turns @ 1..), Some(rounds @ 1..)) = parsed else {
        eprintln!(
            "usage: policy_cost policy|queue NAME QUEUES [TURNS [ROUNDS [GROUPS [INSIDE [OUTSTANDING]]]]]   (QUEUES up to 100000, 100000 TURNS)\n       \
             policy_cost batch NAME REQUESTS [TURNS [ROUNDS]]\n       policy_cost calibrate\n       policy_cost names"
        );
        return ExitCode::from(2);
    };
    let queues = u32::try_from(queues).expect("in range");
    let groups = u32::try_from(number(5, 0).unwrap_or(0)).unwrap_or(0);
    let cost_ns = match what.as_str() {
        "policy" if groups > 0 => {
            let at_least_one = |at, default| u32::try_from(number(at, default).unwrap_or(default)).unwrap_or(1).max(1);
            let (in_flight, outstanding) = (at_least_one(6, 1), at_least_one(7, 2));
            let shape = LoadShape { issuers: queues, groups, outstanding, in_flight };
            let policy = GroupedLoad::policy(false, name, shape);
            policy.into_visitor(Grouped { shape, turns, rounds })
        }
        "policy" => policy_alone(name, queues, turns, rounds),
        "batch" => in_batches(name, queues, turns, rounds),
        _ => with_queue(name, queues, turns, rounds),
    };
    println!("{cost_ns:.1}");
    ExitCode::SUCCESS
}

fn configuration(queues: u32) -> Configuration {
    let depth = Depth { requests: queues + 8, device: 32 };
    Configuration { slots: queues + 16, contexts: queues + 1, depth, ..Configuration::default() }
}

fn read_of(context: u32, first_sector: u64) -> Bio {
    let mut bio = Attributes::new(Operation::Read, Extent::new(first_sector, 8));
    bio.context = ContextId(context);
    bio
}

fn sectors() -> Vec<u64> {
    let mut random = Stream::new(7);
    (0..SECTORS).map(|_| random.next() >> 30).collect()
}

fn sector_of(sectors: &[u64], turn: u64) -> u64 {
    sectors[usize::try_from(turn % SECTORS as u64).unwrap_or(0)]
}

/// The fewest nanoseconds per turn of all rounds, because disturbances only ever add time.
fn fewest_ns(rounds: u64, turns: u64, mut turn: impl FnMut(u64)) -> f64 {
    let mut fewest = f64::MAX;
    for round in 0..rounds {
        let start = Instant::now();
        // The turn's number serves as the time, which is monotonic.
        for at in round * turns..(round + 1) * turns {
            turn(at);
        }
        fewest = fewest.min(start.elapsed().as_nanos() as f64 / turns as f64);
    }
    fewest
}

/// The time of a step that depends on the one before: three shifts and three exclusive ors.
fn xorshift_ns() -> f64 {
    let mut state = 88_172_645_463_325_252_u64;
    let ns = fewest_ns(200, 10_000, |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    });
    std::hint::black_box(state);
    ns
}

/// `NAME@VERSION`, or a name alone.
fn name_and_version(spec: &str) -> (&str, Option<Version>) {
    let (name, version) = spec.split_once('@').map_or((spec, None), |(name, version)| (name, Some(version)));
    (name, version.and_then(registry::parse_version))
}

fn build(spec: &str, configuration: &Configuration) -> Any {
    let (name, version) = name_and_version(spec);
    registry::build(name, version, configuration).expect("a policy of that name")
}

fn policy_alone(name: &str, queues: u32, turns: u64, rounds: u64) -> f64 {
    let configuration = configuration(queues);
    build(name, &configuration).into_visitor(Alone { configuration, queues, turns, rounds })
}

/// A policy monomorphised by its type, as in the simulator and the kernel module.
struct Alone {
    configuration: Configuration,
    queues: u32,
    turns: u64,
    rounds: u64,
}

impl OwnedVisitor for Alone {
    type Answer = f64;

    fn visit_owned<E: Elevator>(self, policy: E) -> f64 {
        alone(policy, &self)
    }
}

fn alone<E: Elevator>(mut policy: E, load: &Alone) -> f64 {
    let &Alone { ref configuration, queues, turns, rounds } = load;
    let mut requests = Requests::try_new(configuration.slots).expect("memory");
    let sectors = sectors();
    for context in 0..queues {
        insert(&mut policy, &mut requests, &read_of(context, sectors[context as usize % SECTORS]), 0);
    }
    // How long the policy has idled the device.
    let mut idled = 0;
    fewest_ns(rounds, turns, |turn| {
        let (id, at) = chosen(&mut policy, &requests, turn + idled);
        idled = at - turn;
        requests.move_to(id, Place::Dispatched);
        requests.move_to(id, Place::Started);
        let _ = policy.started(&requests, id, at);
        requests.move_to(id, Place::Complete);
        let _ = policy.completed(&requests, id, at);
        let _ = policy.released(&requests, id, at);
        let context = requests.attributes(id).context.0;
        policy.freed(&requests, id, at);
        requests.free(id);
        insert(&mut policy, &mut requests, &read_of(context, sector_of(&sectors, turn)), at);
    })
}

/// The next request, and when it was chosen: a policy that idles the device for a request that does
/// not come has its timer.
fn chosen<E: Elevator>(policy: &mut E, requests: &Requests, mut now: u64) -> (RequestId, u64) {
    loop {
        match policy.choose(requests, QUEUE, now) {
            Dispatch::Request { id, .. } => return (id, now),
            Dispatch::Hold { until, .. } => {
                now = now.max(until);
                let _ = policy.timer(requests, now);
            }
            answer => panic!("every issuer is backlogged, and the answer is {answer:?}"),
        }
    }
}

/// As [`Alone`], for issuers in groups.
struct Grouped {
    shape: LoadShape,
    turns: u64,
    rounds: u64,
}

impl OwnedVisitor for Grouped {
    type Answer = f64;

    fn visit_owned<E: Elevator>(self, policy: E) -> f64 {
        let mut load = GroupedLoad::of(policy, self.shape);
        fewest_ns(self.rounds, self.turns, |_| load.turn())
    }
}

fn in_batches(name: &str, requests: u32, turns: u64, rounds: u64) -> f64 {
    let configuration = configuration(requests);
    build(name, &configuration).into_visitor(Batches { configuration, requests, turns, rounds })
}

/// As [`Alone`], for one issuer that sends a batch of requests at once.
struct Batches {
    configuration: Configuration,
    requests: u32,
    turns: u64,
    rounds: u64,
}

impl OwnedVisitor for Batches {
    type Answer = f64;

    fn visit_owned<E: Elevator>(self, mut policy: E) -> f64 {
        let mut requests = Requests::try_new(self.configuration.slots).expect("memory");
        let sectors = sectors();
        let mut now = 0;
        let batches = self.turns.div_ceil(u64::from(self.requests));
        let ns = fewest_ns(self.rounds, batches, |batch| {
            for at in 0..self.requests {
                now += BATCH_STEP_NS;
                insert_at_once(
                    &mut policy,
                    &mut requests,
                    &read_of(1, sector_of(&sectors, batch + u64::from(at))),
                    now,
                );
            }
            for _ in 0..self.requests {
                now += BATCH_STEP_NS;
                serve(&mut policy, &mut requests, now);
            }
        });
        ns / f64::from(self.requests)
    }
}

/// About the time that a processor takes from one request to the next.
const BATCH_STEP_NS: u64 = 1000;

/// The calls that the kernel module's glue makes for a new request.
fn insert_at_once<E: Elevator>(policy: &mut E, requests: &mut Requests, bio: &Bio, now: u64) {
    let id = requests.allocate_queued(*bio, now).expect("a slot");
    policy.allocated(requests, id, now);
    let _ = policy.insert_new(requests, id, bio, now);
}

/// The calls for a request that is chosen and completed at once.
fn serve<E: Elevator>(policy: &mut E, requests: &mut Requests, now: u64) {
    let (id, now) = chosen(policy, requests, now);
    requests.start(id, now);
    let _ = policy.started(requests, id, now);
    let _ = requests.take_back(id, Place::Complete);
    let _ = policy.completed_and_released(requests, id, now);
    policy.freed(requests, id, now);
    let _ = requests.give_back(id);
}

fn insert<E: Elevator>(policy: &mut E, requests: &mut Requests, bio: &Bio, now: u64) {
    let id = requests.allocate(*bio, now).expect("a slot");
    policy.allocated(requests, id, now);
    requests.move_to(id, Place::Queued);
    let _ = policy.insert(requests, id, Position::Sorted(Hint::None), now);
}

fn with_queue(name: &str, queues: u32, turns: u64, rounds: u64) -> f64 {
    let settings =
        Settings { configuration: configuration(queues), era: Era::ENGINE, bios: queues + 16, ..Settings::default() };
    let (name, version) = name_and_version(name);
    let mut queue = RequestQueue::build(name, version, &settings).expect("a policy of that name");
    let sectors = sectors();
    for context in 0..queues {
        let bio = read_of(context, sectors[context as usize % SECTORS]);
        queue.submit(&bio, u64::from(context), 0).expect("room");
    }
    let mut idled = 0;
    fewest_ns(rounds, turns, |turn| {
        let mut at = turn + idled;
        let id = loop {
            match queue.dispatch(QUEUE, at) {
                Next::Start { id, .. } => break id,
                answer => {
                    let Some(timer) = queue.next_timer() else { panic!("backlogged, and the answer is {answer:?}") };
                    at = at.max(timer);
                    queue.timer(at);
                }
            }
        };
        idled = at - turn;
        // The context that was served submits again; nothing merges here, so a request has one
        // context.
        let mut context = 0;
        queue.complete(id, Status::Ok, at, |done| context = done.bio.context.0);
        queue.submit(&read_of(context, sector_of(&sectors, at)), u64::from(context), at).expect("room");
    })
}
